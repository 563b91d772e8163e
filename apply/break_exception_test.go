package apply_test

import (
	"context"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// R2.11: two payments that bring an order to the same surplus at the same
// version of theirs are two things to tell; neither is a poison.
func TestSurplusTwiceTheSame(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		for _, line := range []string{"pi_a", "pi_b", "pi_c", "pi_d"} {
			amount := eur(100)
			if line > "pi_b" {
				amount = eur(10)
			}
			h.register(apply.Registration{Order: "A-1", OrderTotal: ref(eur(100)), Account: account, Amount: amount, References: []string{line}})
		}
		h.processed(
			h.put1(captured("evt_a", "pi_a", eur(100))),
			h.put1(captured("evt_b", "pi_b", eur(100))),
			h.put1(captured("evt_c", "pi_c", eur(10))),
			h.put1(refunded("evt_r", "pi_a", "re_a", payment.StageSucceeded, eur(10))),
			h.put1(captured("evt_d", "pi_d", eur(10))),
		)
		var amounts []int64
		for _, b := range h.bodies(apply.MessageSurplus) {
			amounts = append(amounts, b.Data.Surplus.Value)
		}
		h.expect("told", amounts, []int64{100, 110, 100, 110})
	})
}

// doubled pays order A-1 twice and returns when the surplus is known.
func (h *house) doubled() {
	h.t.Helper()
	for _, line := range []string{"pi_a", "pi_b"} {
		h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(100), References: []string{line}})
		h.processed(h.put1(captured("evt_"+line, line, eur(100))))
	}
	h.expect("open", h.open(), []string{"surplus/surplus"})
}

// A surplus that went and came back is told again and open again.
func TestSurplusComesBack(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.doubled()
		h.put1(refunded("evt_1", "pi_b", "re_b", payment.StageSucceeded, eur(100)))
		h.expect("gone", h.open(), []string(nil))
		h.put1(refunded("evt_2", "pi_b", "re_b", payment.StageFailed, eur(100)))
		h.expect("back", h.open(), []string{"surplus/surplus"})
		h.expect("told", len(h.messages(apply.MessageSurplus)), 2)
	})
}

// A surplus that a person resolved stays so while it does not grow, and speaks
// again when it does, also after it was gone.
func TestSurplusResolved(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.doubled()
		h.closeAs("surplus")
		h.put1(event("evt_1", []string{"pi_b", "dp_1"}, dispute("dp_1", "pi_b", 1, payment.StageOpen, eur(100))))
		h.expect("the same surplus", h.states(), []string{"surplus=resolved"})
		h.put1(refunded("evt_2", "pi_a", "re_a", payment.StageSucceeded, eur(40)))
		h.expect("less of it", h.states(), []string{"surplus=resolved"})
		h.put1(refunded("evt_3", "pi_a", "re_a", payment.StageFailed, eur(40)))
		h.expect("more of it", h.states(), []string{"surplus=open"})
		h.closeAs("surplus")
		h.put1(refunded("evt_4", "pi_a", "re_c", payment.StageSucceeded, eur(100)))
		h.expect("gone", h.states(), []string{"surplus=resolved"})
		h.put1(refunded("evt_5", "pi_a", "re_c", payment.StageFailed, eur(100)))
		h.expect("back", h.states(), []string{"surplus=open"})
	})
}

// item is a line captured by one item.
func item(identity, line, object string, stage payment.Stage, amount payment.Money) provider.Event {
	return event(identity, []string{line, object}, authorization(line, payment.StageAuthorized, amount), captureItem(object, line, stage, amount))
}

// Money that fails behind shipped goods is an exception each time, also after a
// person resolved the time before, and when the goods go after it has failed.
func TestRevokedAfterShipping(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(100), References: []string{"pi_1"}})
		h.put1(item("evt_1", "pi_1", "cap_1", payment.StageSucceeded, eur(100)))
		h.ship("A-1")
		h.put1(item("evt_2", "pi_1", "cap_1", payment.StageFailed, eur(100)))
		h.expect("failed", h.states(), []string{"revoked_after_shipping=open"})
		h.closeAs("revoked_after_shipping")
		h.put1(item("evt_3", "pi_1", "cap_2", payment.StageSucceeded, eur(100)))
		h.expect("paid again", h.states(), []string{"revoked_after_shipping=resolved"})
		h.put1(item("evt_4", "pi_1", "cap_2", payment.StageFailed, eur(100)))
		h.expect("failed again", h.states(), []string{"revoked_after_shipping=open"})
		h.expect("told", h.messages("order.fulfill", "order.revoked", "order.restored"), []string{"order.fulfill"})
	})
}

func TestShippedAfterRevoked(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(100), References: []string{"pi_1"}})
		h.put1(item("evt_1", "pi_1", "cap_1", payment.StageSucceeded, eur(100)))
		h.put1(item("evt_2", "pi_1", "cap_1", payment.StageFailed, eur(100)))
		h.expect("revoked", h.order("A-1").Fulfillment, store.FulfillRevoked)
		h.ship("A-1")
		h.expect("shipped all the same", h.open(), []string{"contradiction/revoked_after_shipping"})
		h.put1(item("evt_3", "pi_1", "cap_2", payment.StageSucceeded, eur(100)))
		h.expect("paid", h.open(), []string(nil))
		h.intact(h.order("A-1").ID)
	})
}

func (h *house) ship(order string) {
	h.t.Helper()
	h.advance(time.Second)
	if _, err := h.applier.Ship(context.Background(), store.OrderKey{Shop: "default", ID: order}, "tester"); err != nil {
		h.t.Fatal(err)
	}
}

// intact fails unless the chain of the subject is whole and ends at its head.
func (h *house) intact(subject string) {
	h.t.Helper()
	h.view(func(r store.Reader) error {
		chain, err := r.AuditChain(context.Background(), subject)
		head := store.AuditHead{}
		for i := range chain {
			if !chain[i].Intact(head) {
				h.t.Errorf("audit row %d of %s does not follow its chain", chain[i].Version, subject)
			}
			head = store.AuditHead{Version: chain[i].Version, Hash: chain[i].Hash}
		}
		return err
	})
}

// What was open about an entry closes when the entry is attached, whatever its
// facts then say of our record.
func TestEntryExceptionClosesThoughContradicted(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		e := captured("evt_1", "pi_1", eur(1))
		e.Ours = true
		ids := h.put(account, e)
		h.work()
		h.advance(25 * time.Hour)
		h.redue(ids)
		h.work()
		h.expect("never matched", h.open(), []string{"unmatched_event/never_matched"})
		h.order48("pi_1")
		h.work()
		h.expect("matched", h.open(), []string{"contradiction/amount"})
	})
}

// What a person changed about an exception is not undone by new facts.
func TestUrgencyStays(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.order48("pi_1")
		h.put1(captured("evt_1", "pi_1", eur(1)))
		h.change("amount", func(e *store.Exception) { e.State, e.Urgency = store.ExceptionAcknowledged, "high" })
		h.put1(captured("evt_2", "pi_1", eur(2)))
		e := h.exception("amount")
		h.expect("exception", e.State+" "+e.Urgency, "acknowledged high")
	})
}

// A resolved contradiction stays so for the facts that it showed; another amount
// of the same object is a new fact.
func TestResolvedMeetsAnotherAmount(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(100), References: []string{"pi_1"}})
		contest := func(identity string, v int64) string {
			return h.put1(event(identity, []string{"pi_1", "re_1"}, payment.Fact{
				Kind: payment.KindRefund, Form: payment.FormItem, Object: "re_1", Parent: "pi_1", Stage: payment.StageSucceeded, Amount: eur(v),
			}))
		}
		h.put1(captured("evt_1", "pi_1", eur(100)))
		contest("evt_2", 10)
		contest("evt_3", 20)
		h.expect("contested", h.states(), []string{"contested=open"})
		h.closeAs("contested")
		contest("evt_4", 20)
		h.put1(refunded("evt_5", "pi_1", "re_2", payment.StageSucceeded, eur(5)))
		h.expect("nothing new of it", h.states(), []string{"contested=resolved"})
		contest("evt_6", 30)
		h.expect("a third amount", h.states(), []string{"contested=open"})
	})
}

// A message's snapshot is the row as it is stored with it.
func TestSnapshotIsTheRow(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		h.put1(captured("evt_1", "pi_1", eur(4800)))
		row := h.payment(p.ID)
		for _, b := range h.bodies("payment.captured", "order.fulfill") {
			got := b.Data.Payment
			if got.Version != row.Version || got.State != row.View.State || !got.UpdatedAt.Equal(row.UpdatedAt) {
				t.Errorf("%s shows version %d, %s of %s; the row is version %d, %s of %s", b.Type, got.Version, got.State, got.UpdatedAt,
					row.Version, row.View.State, row.UpdatedAt)
			}
		}
	})
}

// Money that fails and comes back again and again is told each time, under its
// number, and never as a second order.fulfill.
func TestRevokedAgainAndAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(100), References: []string{"pi_1"}})
		for n := range 3 {
			capture := "cap_" + itoa(n)
			h.processed(
				h.put1(item("evt_s"+itoa(n), "pi_1", capture, payment.StageSucceeded, eur(100))),
				h.put1(item("evt_f"+itoa(n), "pi_1", capture, payment.StageFailed, eur(100))),
			)
		}
		h.expect("told", h.messages("order.fulfill", "order.revoked", "order.restored"), []string{
			"order.fulfill", "order.revoked", "order.restored", "order.revoked", "order.restored", "order.revoked",
		})
		h.expect("numbered", h.order("A-1").Revocations, 3)
	})
}

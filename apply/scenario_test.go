package apply_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// order48 registers the usual payment of 48.00 EUR.
func (h *house) order48(refs ...string) store.Payment {
	h.t.Helper()
	return h.register(apply.Registration{Order: "A-1", Account: account, Amount: eur(4800), References: refs})
}

// R2.1 R2.3 R3.1: one transaction holds identity, fact, state, audit and
// messages; a second event of the same fact changes nothing.
func TestOneFactOneEffect(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		first := h.put(account, captured("evt_1", "pi_1", eur(4800)))
		h.work()
		second := h.put(account, captured("evt_2", "pi_1", eur(4800)), captured("evt_1", "pi_1", eur(4800)))
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		h.expect("first", h.event(first[0]).Outcome, store.OutcomeApplied)
		h.expect("second", h.event(second[0]).Outcome, store.OutcomeDuplicate)
		h.expect("same identity", second[1], first[0])
		h.expect("messages", h.messages("order.fulfill", "payment.captured"), []string{"payment.captured", "order.fulfill"})
		h.expect("fulfillment", h.order("A-1").Fulfillment, store.FulfillSent)
		h.view(func(r store.Reader) error {
			chain, err := r.AuditChain(context.Background(), p.ID)
			head := store.AuditHead{}
			for i := range chain {
				if !chain[i].Intact(head) {
					t.Errorf("audit row %d does not follow its chain", chain[i].Version)
				}
				head = store.AuditHead{Version: chain[i].Version, Hash: chain[i].Hash}
			}
			h.expect("audit rows", len(chain), 2)
			return err
		})
	})
}

// R2.10: evidence that is there before our record waits for it, and a name
// learned later wakes what waits under it.
func TestEventBeforeRecord(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		ids := h.put(account, captured("evt_1", "pi_1", eur(4800)), refunded("evt_2", "ch_1", "re_1", payment.StageSucceeded, eur(1000)))
		h.work()
		h.expect("waiting", h.event(ids[0]).State, store.EntryWaiting)
		p := h.order48("pi_1")
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		h.expect("refund waits for the name", h.event(ids[1]).State, store.EntryWaiting)
		h.put(account, provider.Event{Identity: "evt_3", Type: "link", Lane: "ch_1", Evidence: payment.Evidence{
			Names: []string{"ch_1", "pi_1"},
			Facts: []payment.Fact{{Kind: payment.KindLink, Object: "ch_1", Parent: "pi_1"}},
		}})
		h.work()
		h.expectState(p.ID, payment.StatePartiallyRefunded)
		h.expect("fulfilled", h.messages("order.fulfill"), []string{"order.fulfill"})
		h.expect("open exceptions", h.open(), []string(nil))
	})
}

// R2.10: a payment that was registered without references is found by the order id.
func TestFoundByOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		e := captured("evt_1", "pi_1", eur(4800))
		e.Order = "A-1"
		early := h.put(account, e)
		h.work()
		h.expect("early", h.event(early[0]).State, store.EntryWaiting)
		p := h.order48()
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		h.put(account, refunded("evt_2", "pi_1", "re_1", payment.StageSucceeded, eur(4800)))
		h.work()
		h.expectState(p.ID, payment.StateRefunded)
	})
}

// R2.11 and the order over its payments: two parts fulfill once, two wholes
// raise the surplus.
func TestOrderOfTwoPayments(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		total := eur(100)
		a := h.register(apply.Registration{Order: "P", OrderTotal: &total, Account: account, Amount: eur(40), References: []string{"pi_a"}})
		h.put(account, captured("evt_b", "pi_b", eur(60)))
		h.put(account, captured("evt_a", "pi_a", eur(40)))
		h.work()
		h.expect("one part", h.order("P").Fulfillment, store.FulfillNone)
		h.register(apply.Registration{Order: "P", OrderTotal: &total, Account: account, Amount: eur(60), References: []string{"pi_b"}})
		h.work()
		h.expect("both parts", h.order("P").Fulfillment, store.FulfillSent)
		h.expectState(a.ID, payment.StateCaptured)

		h.register(apply.Registration{Order: "Q", Account: account, Amount: eur(100), References: []string{"pi_c"}})
		h.register(apply.Registration{Order: "Q", Account: account, Amount: eur(100), References: []string{"pi_d"}})
		h.put(account, captured("evt_c", "pi_c", eur(100)), captured("evt_d", "pi_d", eur(100)))
		h.work()
		h.expect("exceptions", h.open(), []string{"surplus/surplus"})
		for _, e := range h.exceptions() {
			h.expect("surplus", e.Amount, eur(100))
		}
		h.put(account, refunded("evt_r", "pi_d", "re_d", payment.StageSucceeded, eur(100)))
		h.work()
		h.expect("after the refund", h.open(), []string(nil))
		h.expect("fulfilled", slices.Sorted(slices.Values(h.messages("order.fulfill", "order.surplus"))), []string{"order.fulfill", "order.fulfill", "order.surplus"})
	})
}

// R1.5 R2.9: an amount or currency against our record never fulfills, and opens
// an exception; the money counts.
func TestContradictions(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		ids := h.put(account, captured("evt_1", "pi_1", eur(1)))
		h.work()
		h.expect("outcome", h.event(ids[0]).Outcome, store.OutcomeContradiction)
		h.expect("open", h.open(), []string{"contradiction/amount"})
		h.expect("counted", h.payment(p.ID).View.Totals.Captured, 1)

		q := h.register(apply.Registration{Order: "A-2", Account: account, Amount: eur(500), References: []string{"pi_2"}})
		h.put(account, captured("evt_2", "pi_2", payment.Money{Value: 500, Currency: "USD"}))
		h.work()
		h.expect("other currency", h.payment(q.ID).View.OtherTotals["USD"].Captured, 500)
		open := h.open()
		if !slices.Contains(open, "contradiction/currency") {
			t.Errorf("open exceptions are %v", open)
		}
		h.expect("fulfilled", h.messages("order.fulfill"), []string(nil))
	})
}

// R2.9: account, mode and connected account are scope; evidence of another one
// is a contradiction and is still there for its own registration.
func TestScope(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.order48("pi_1")
		test, connected := captured("evt_1", "pi_1", eur(4800)), captured("acct_9:evt_1", "pi_1", eur(4800))
		test.Mode, connected.Connected = provider.Test, "acct_9"
		ids := h.put(account, test, connected)
		h.work()
		h.expect("test mode", h.event(ids[0]).Outcome, store.OutcomeContradiction)
		h.expect("connected", h.event(ids[1]).Outcome, store.OutcomeContradiction)
		h.expect("open", len(h.open()), 2)
		h.expect("fulfilled", h.messages("order.fulfill"), []string(nil))
		p := h.register(apply.Registration{
			Order: "B-1", Account: account, ConnectedAccount: "acct_9", Amount: eur(4800), References: []string{"pi_1"},
		})
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		h.expect("its own registration", h.event(ids[1]).Outcome, store.OutcomeApplied)
		h.expect("open afterwards", len(h.open()), 1)
	})
}

// R2.4: a late failed attempt never regresses money, a failure after success
// takes it back, loudly, and after shipping it is an exception.
func TestFailures(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		h.put(account, captured("evt_1", "pi_1", eur(4800)))
		h.work()
		h.put(account, failedAttempt("evt_2", "pi_1", "ch_0"))
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		item := func(event string, stage payment.Stage) provider.Event {
			return provider.Event{Identity: event, Type: "capture", Lane: "pi_5", Evidence: payment.Evidence{
				Names: []string{"pi_5", "cap_5"},
				Facts: []payment.Fact{
					{Kind: payment.KindAuthorization, Form: payment.FormItem, Object: "pi_5", Parent: "pi_5", Stage: payment.StageAuthorized, Amount: eur(700)},
					{Kind: payment.KindCapture, Form: payment.FormItem, Object: "cap_5", Parent: "pi_5", Stage: stage, Amount: eur(700)},
				},
			}}
		}
		h.register(apply.Registration{Order: "F", Account: account, Amount: eur(700), References: []string{"pi_5"}})
		h.put(account, item("evt_3", payment.StageSucceeded))
		h.work()
		h.put(account, item("evt_4", payment.StageFailed))
		h.work()
		h.expect("revoked", h.order("F").Fulfillment, store.FulfillRevoked)
		h.expect("told", h.messages("order.revoked"), []string{"order.revoked"})

		if _, err := h.applier.Ship(context.Background(), store.OrderKey{Shop: "default", ID: "A-1"}, "tester"); err != nil {
			t.Fatal(err)
		}
		h.expect("nothing open", h.open(), []string(nil))
	})
}

// R2.10: what never matches becomes an exception after the deadline if it is
// ours, stays quiet if it is not, and is applied whenever the record comes.
func TestNeverRegistered(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		ours, foreign := captured("evt_1", "pi_1", eur(4800)), captured("evt_2", "pi_2", eur(5))
		ours.Ours = true
		ids := h.put(account, ours, foreign)
		h.work()
		h.advance(25 * time.Hour)
		h.redue(ids)
		h.work()
		h.expect("open", h.open(), []string{"unmatched_event/never_matched"})
		h.expect("still waiting", h.event(ids[1]).State, store.EntryWaiting)
		p := h.order48("pi_1")
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		h.expect("closed by itself", h.open(), []string(nil))
	})
}

// redue makes waiting entries due now, as their deadline would.
func (h *house) redue(ids []string) {
	h.t.Helper()
	err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
		var work []store.Work
		for _, i := range ids {
			e, err := tx.Entry(context.Background(), i)
			if err != nil {
				return err
			}
			work = append(work, store.Work{Queue: store.QueueInbox, ID: i, Lane: "lane/" + e.Identity})
		}
		return tx.Enqueue(context.Background(), work)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// A payment adopted from its root object notifies, does not fulfill, and
// fulfills once when it is registered.
func TestAdoptedThenRegistered(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		e := captured("evt_1", "pi_1", eur(4800))
		e.Order = "A-1"
		ids := h.put("adopting", e)
		h.work()
		p := h.payment(h.event(ids[0]).Result.Payment)
		h.expect("adopted", p.Adopted, true)
		h.expect("told", h.messages("payment.captured", "order.fulfill"), []string{"payment.captured"})
		got := h.register(apply.Registration{Order: "A-1", Account: "adopting", Amount: eur(4800), References: []string{"pi_1"}})
		h.work()
		h.expect("the same payment", got.ID, p.ID)
		h.expect("told", h.messages("payment.captured", "order.fulfill"), []string{"payment.captured", "order.fulfill"})
	})
}

// The same registration twice is one payment; another content is a conflict
// that names the fields.
func TestRegistrations(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		first := h.order48("pi_1")
		again, err := h.applier.Register(ctx, apply.Registration{Order: "A-1", Account: account, Amount: eur(4800), References: []string{"pi_1"}}, "x")
		if err != nil || again.Created || again.Payment.ID != first.ID {
			t.Fatalf("again: %+v, %v", again, err)
		}
		for _, c := range []struct {
			r     apply.Registration
			field string
		}{
			{apply.Registration{Order: "A-1", Account: account, Amount: eur(5300), References: []string{"pi_1"}}, "amount"},
			{apply.Registration{Order: "A-2", Account: account, Amount: eur(4800), References: []string{"pi_1"}}, "order"},
			{apply.Registration{Order: "A-1", Account: account, Amount: eur(4800), References: []string{"pi_1"}, FulfillOn: payment.OnAuthorized}, "fulfill_on"},
			{apply.Registration{Order: "A-1", Account: account, Amount: eur(4800), OrderTotal: ref(eur(9600)), References: []string{"pi_9"}}, "order_total"},
		} {
			_, err := h.applier.Register(ctx, c.r, "x")
			var conflict *apply.ConflictError
			if !errors.As(err, &conflict) || !slices.Equal(conflict.Fields, []string{c.field}) {
				t.Errorf("%+v: %v, want a conflict of %s", c.r, err, c.field)
			}
		}
		for _, c := range []struct {
			r     apply.Registration
			field string
		}{
			{apply.Registration{Account: account, Amount: eur(1)}, "order"},
			{apply.Registration{Order: "x", Amount: eur(1)}, "account"},
			{apply.Registration{Order: "x", Account: "none", Amount: eur(1)}, "account"},
			{apply.Registration{Order: "x", Account: account, Amount: eur(0)}, "amount"},
			{apply.Registration{Order: "x", Account: account, Amount: payment.Money{Value: 1, Currency: "QQQ"}}, "amount"},
			{apply.Registration{Order: "x\x00", Account: account, Amount: eur(1)}, "order"},
			{apply.Registration{Order: "x", Account: account, Amount: eur(1), References: []string{"a\n"}}, "references"},
			{apply.Registration{Order: "x", Account: account, Amount: eur(1), Rule: "about"}, "amount_rule"},
		} {
			_, err := h.applier.Register(ctx, c.r, "x")
			var field *apply.FieldError
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("%+v: %v, want a problem of %s", c.r, err, c.field)
			}
		}
	})
}

func ref[T any](v T) *T { return &v }

// R6.2, R6.3 for one entry: malformed bytes are dead at once, a panic is
// counted and ends in the dead letters, and the neighbors are applied.
func TestPoison(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		bad := h.raw(account, provider.Event{Identity: "evt_bad", Type: "x"}, []byte(`{"broken`))
		panics := h.raw(account, provider.Event{Identity: "evt_panic", Type: "x"}, []byte("panic"))
		ids := h.putRows([]store.EntryWithBody{bad, panics, h.entry(account, captured("evt_1", "pi_1", eur(4800)))})
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
		e := h.event(ids[0])
		h.expect("malformed", e.State+" "+itoa(e.Result.Attempts), "dead 1")
		e = h.event(ids[1])
		h.expect("panic", e.State+" "+itoa(e.Result.Attempts), "dead 3")
		if e.Stack == "" {
			t.Error("the stack of the panic is not kept")
		}
		h.expect("open", h.open(), []string{"dead_letter/dead_letter", "dead_letter/dead_letter"})
		if err := h.applier.Redrive(context.Background(), ids[1], "ana", "mended"); err != nil {
			t.Fatal(err)
		}
		if err := h.applier.Redrive(context.Background(), ids[1], "ana", "again"); !errors.Is(err, apply.ErrRunning) {
			t.Errorf("a second redrive gives %v", err)
		}
		h.work()
		h.expect("dead again", h.event(ids[1]).State, store.EntryDead)
	})
}

// Evidence older than the account fulfills on opens an exception instead.
func TestStaleEvidence(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.order48("pi_1")
		e := captured("evt_1", "pi_1", eur(4800))
		e.OccurredAt = h.clock().Add(-8 * 24 * time.Hour)
		h.put(account, e)
		h.work()
		h.expect("held", h.order("A-1").Fulfillment, store.FulfillHeld)
		h.expect("open", h.open(), []string{"discrepancy/stale_evidence"})
		h.expect("told", h.messages("order.fulfill"), []string(nil))
	})
}

// G6: a quiet condition opens after the quiet period if it still holds, and
// closes by itself when the set completes.
func TestQuietCondition(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		h.put(account, refunded("evt_2", "pi_1", "re_1", payment.StageSucceeded, eur(4800)))
		h.work()
		h.expect("early is no exception yet", h.open(), []string(nil))
		h.advance(2 * time.Hour)
		err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
			return tx.Enqueue(context.Background(), []store.Work{{Queue: store.QueueQuiet, ID: p.ID, Lane: p.ID}})
		})
		if err != nil {
			t.Fatal(err)
		}
		h.work()
		h.expect("opened", h.open(), []string{"contradiction/returned_exceeds_captured"})
		h.put(account, captured("evt_1", "pi_1", eur(4800)))
		h.work()
		h.expectState(p.ID, payment.StateRefunded)
		h.expect("closed", h.open(), []string(nil))
		h.expect("held, not sent", h.order("A-1").Fulfillment, store.FulfillHeld)
	})
}

// A name that leads to two registered payments attaches to neither.
func TestNamesOfTwoPayments(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		a := h.order48("pi_1")
		b := h.register(apply.Registration{Order: "B", Account: account, Amount: eur(4800), References: []string{"pi_2"}})
		ids := h.put(account, captured("evt_1", "pi_1", eur(4800), "pi_2"))
		h.work()
		h.expect("outcome", h.event(ids[0]).Outcome, store.OutcomeContradiction)
		h.expectState(a.ID, payment.StateExpected)
		h.expectState(b.ID, payment.StateExpected)
		h.expect("open", h.open(), []string{"contradiction/account"})
	})
}

// R1.10: in synchronous mode the receiving transaction applies the event; what
// cannot be applied there is not stored.
func TestApplyNow(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		p := h.order48("pi_1")
		e := captured("evt_1", "pi_1", eur(4800))
		row := h.entry(account, e)
		got, err := h.applier.ApplyNow(ctx, row, e)
		if err != nil || !got.New {
			t.Fatalf("first: %+v, %v", got, err)
		}
		h.expectState(p.ID, payment.StateCaptured)
		h.expect("processed", h.event(row.ID).State, store.EntryProcessed)
		again, err := h.applier.ApplyNow(ctx, h.entry(account, e), e)
		if err != nil || again.New || again.ID != row.ID {
			t.Errorf("again: %+v, %v", again, err)
		}
		unknown := captured("evt_2", "pi_7", eur(1))
		other := h.entry(account, unknown)
		if _, err := h.applier.ApplyNow(ctx, other, unknown); !errors.Is(err, apply.ErrNotNow) {
			t.Errorf("an unknown payment gives %v", err)
		}
		h.view(func(r store.Reader) error {
			if _, err := r.Entry(ctx, other.ID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the refused entry is stored: %v", err)
			}
			return nil
		})
	})
}

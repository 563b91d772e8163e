package apply_test

import (
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// aged is an event from so many days ago.
func (h *house) aged(days int, e provider.Event) provider.Event {
	e.OccurredAt = h.clock().Add(-time.Duration(days) * 24 * time.Hour)
	return e
}

// An order that is held because its money is old news stays so when anything
// else about it is heard: only newer money, or a person, releases it.
func TestStaleStaysHeld(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		for _, line := range []string{"pi_1", "pi_2"} {
			h.register(apply.Registration{Order: "A-1", OrderTotal: ref(eur(100)), Account: account, Amount: eur(100), References: []string{line}})
		}
		h.put1(h.aged(8, captured("evt_1", "pi_1", eur(100))))
		h.expect("held", h.order("A-1").Fulfillment, store.FulfillHeld)
		h.put1(h.aged(0, failedAttempt("evt_2", "pi_1", "ch_0")))
		h.put1(h.aged(0, refunded("evt_3", "pi_1", "re_1", payment.StageSucceeded, eur(10))))
		h.register(apply.Registration{
			Order: "A-1", OrderTotal: ref(eur(100)), Account: account, Amount: eur(100), References: []string{"pi_1", "ref_1"},
		})
		h.expect("still held", h.order("A-1").Fulfillment, store.FulfillHeld)
		h.expect("open", h.states(), []string{"stale_evidence=open"})
		h.expect("told", h.messages("order.fulfill"), []string(nil))
		h.put1(h.aged(0, captured("evt_4", "pi_2", eur(100))))
		h.expect("newer money", h.order("A-1").Fulfillment, store.FulfillSent)
		h.expect("told", h.messages("order.fulfill"), []string{"order.fulfill"})
		h.expect("closed by itself", h.states(), []string{"stale_evidence=explained", "surplus=open"})
	})
}

// Old and new evidence of one order in one step: the new one decides, whichever
// of its payments comes first, and nothing is left open.
func TestStaleBesideFresh(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		for _, days := range [][2]int{{8, 0}, {0, 8}} {
			order := "A-" + itoa(days[0])
			for i, line := range []string{"pi_a", "pi_b"} {
				line += itoa(days[0])
				h.register(apply.Registration{Order: order, OrderTotal: ref(eur(100)), Account: account, Amount: eur(50), References: []string{line}})
				h.put(account, h.aged(days[i], captured("evt_"+line, line, eur(50))))
			}
			h.work()
			h.expect(order, h.order(order).Fulfillment, store.FulfillSent)
		}
		h.expect("open", h.open(), []string(nil))
	})
}

// News that is fresh and adds no money does not make old money new.
func TestStaleBesideOtherNews(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		h.order48("pi_1")
		h.put(account, h.aged(8, captured("evt_1", "pi_1", eur(4800))), h.aged(0, failedAttempt("evt_2", "pi_1", "ch_0")))
		h.work()
		h.expect("held", h.order("A-1").Fulfillment, store.FulfillHeld)
		h.expect("open", h.open(), []string{"discrepancy/stale_evidence"})
	})
}

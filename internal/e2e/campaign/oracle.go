package campaign

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// verdict collects what is wrong.
type verdict struct{ wrong []error }

// wrongMax bounds what is reported; the first are enough to begin with.
const wrongMax = 20

func (v *verdict) add(format string, args ...any) {
	if len(v.wrong) < wrongMax {
		v.wrong = append(v.wrong, fmt.Errorf(format, args...))
	}
}

func (v *verdict) err() error { return errors.Join(v.wrong...) }

// expectation is what the provider's side knows about an order.
type expectation struct {
	order string
	// pays are the deliveries each of which says that the order was paid.
	pays []delivery
	// refunds are further facts, each told once.
	refunds []delivery
}

// judge compares the sender's acknowledgements, the ledger and the shop.
func (w *world) judge(ctx context.Context, n *node, s *sender, expected []expectation) error {
	v := &verdict{}
	events, err := w.events(ctx, n, nil)
	if err != nil {
		return err
	}
	stored := map[string]eventRow{}
	for _, row := range events {
		name := row.Account + " " + row.ProviderEventID
		if first, twice := stored[name]; twice {
			v.add("event %s is stored twice, as %s and %s", name, first.ID, row.ID)
		}
		stored[name] = row
		if !final(row) {
			v.add("event %s came to no end: %+v", name, row)
		}
	}
	s.mu.Lock()
	for name := range s.acked {
		if _, ok := stored[name]; !ok {
			v.add("event %s was acknowledged and is not in the ledger", name)
		}
	}
	s.mu.Unlock()
	if err := w.judgeOrders(ctx, n, v, stored, expected); err != nil {
		return err
	}
	for _, p := range w.shop.problems() {
		v.add("the shop: %s", p)
	}
	return v.err()
}

// final says whether an event is applied, waits, is ignored, or is dead with a reason.
func final(row eventRow) bool {
	switch row.State {
	case "processed":
		return row.Outcome != ""
	case "waiting":
		return true
	case "dead":
		return row.Error != "" || row.Reason != ""
	}
	return false
}

func (w *world) judgeOrders(ctx context.Context, n *node, v *verdict, stored map[string]eventRow, expected []expectation) error {
	payments, err := w.payments(ctx, n, nil)
	if err != nil {
		return err
	}
	byOrder := map[string]paymentRow{}
	for _, p := range payments {
		byOrder[p.Order] = p
	}
	fulfilled := w.shop.effects("order.fulfill")
	captured := w.shop.effects("payment.captured")
	refunded := w.shop.effects("refund.succeeded")
	for _, x := range expected {
		there := slices.ContainsFunc(x.pays, func(d delivery) bool { return stored[d.Account+" "+d.ID].ID != "" })
		refunds := 0
		for _, d := range x.refunds {
			if stored[d.Account+" "+d.ID].ID != "" {
				refunds++
			}
		}
		want := 0
		if there {
			want = 1
		}
		p, known := byOrder[x.order]
		if !known {
			v.add("order %s is not in the ledger", x.order)
		}
		// Money that has gone back before the fulfillment was told holds it.
		if got := fulfilled[x.order]; got != want && !(refunds > 0 && got == 0 && p.Fulfillment == "held") {
			v.add("order %s was fulfilled %d times, want %d (%s)", x.order, got, want, p.Fulfillment)
		}
		if got := captured[x.order]; got != want {
			v.add("order %s: its capture was told %d times, want %d", x.order, got, want)
		}
		if got := refunded[x.order]; got != refunds && there {
			v.add("order %s: its refunds were told %d times, want %d", x.order, got, refunds)
		}
		if there != (p.Totals.Captured.Value > 0) {
			v.add("order %s: the ledger has captured %d, the provider says paid %v", x.order, p.Totals.Captured.Value, there)
		}
	}
	return w.judgeMessages(ctx, n, v)
}

// judgeMessages compares the outbox with what the shop got.
func (w *world) judgeMessages(ctx context.Context, n *node, v *verdict) error {
	rows, err := w.messages(ctx, n, nil)
	if err != nil {
		return err
	}
	ledger := map[string]messageRow{}
	for _, m := range rows {
		ledger[m.ID] = m
		if m.State != "delivered" {
			v.add("message %s of order %s is %s: %s", m.ID, m.Order, m.State, m.Error)
		}
	}
	got := map[string]bool{}
	for _, m := range w.shop.all() {
		got[m.ID] = true
		if ledger[m.ID].ID == "" {
			v.add("the shop was told %s (%s of %s), which the ledger does not know", m.ID, m.Type, m.Order)
		}
	}
	for id, m := range ledger {
		if m.State == "delivered" && !got[id] {
			v.add("message %s (%s of %s) counts as delivered and never came", id, m.Type, m.Order)
		}
	}
	return nil
}

// one reads the single event with the provider's id.
func (w *world) event(ctx context.Context, n *node, id string) (eventRow, error) {
	rows, err := w.events(ctx, n, url.Values{"provider_event_id": {id}})
	if err != nil {
		return eventRow{}, err
	}
	if len(rows) != 1 {
		return eventRow{}, fmt.Errorf("event %s stands %d times in the ledger", id, len(rows))
	}
	return rows[0], nil
}

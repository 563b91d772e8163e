package apply

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// MessageSurplus tells of money captured for an order beyond its total.
const MessageSurplus = "order.surplus"

// orderStep is one order in a step.
type orderStep struct {
	row store.Order
	// payments are all payments of the order as they were before the step.
	payments []store.Payment
	surplus  int64
	judged   bool
	// revokedAfterShipping holds while the money behind shipped goods is gone.
	revokedAfterShipping bool
	changed              bool
	// audited is the version of the chain before the step.
	audited int64
}

// lockOrders locks the orders in sorted order; an order that only adopted
// payments name gets a row without a total.
func (s *step) lockOrders(ctx context.Context, keys []store.OrderKey) error {
	if len(keys) == 0 {
		return nil
	}
	rows, err := s.tx.LockOrders(ctx, keys)
	if err != nil {
		return fmt.Errorf("locking orders: %w", err)
	}
	for _, row := range rows {
		s.orders[row.Key] = &orderStep{row: row, audited: row.Audit.Version}
	}
	for _, k := range keys {
		if s.orders[k] != nil {
			continue
		}
		row, err := s.tx.UpsertOrder(ctx, s.newOrder(k))
		if err != nil {
			return fmt.Errorf("creating order %s: %w", k.ID, err)
		}
		s.orders[k] = &orderStep{row: row, audited: row.Audit.Version}
	}
	payments, err := s.tx.PaymentsOfOrders(ctx, keys)
	if err != nil {
		return fmt.Errorf("reading payments of orders: %w", err)
	}
	for _, p := range payments {
		s.orders[p.Order].payments = append(s.orders[p.Order].payments, p)
	}
	return nil
}

func (s *step) newOrder(k store.OrderKey) store.Order {
	return store.Order{
		ID: s.a.opt.NewID("ord"), Key: k, Fulfillment: store.FulfillNone, CreatedAt: s.now, UpdatedAt: s.now,
	}
}

// judge decides the fulfillment of every order that has a changed payment.
func (s *step) judge(context.Context) error {
	for _, id := range s.paymentIDs() {
		ps := s.payments[id]
		os := s.orders[ps.row.Order]
		if os == nil || !ps.changed {
			continue
		}
		s.judgeOrder(os, ps)
	}
	return nil
}

func (s *step) judgeOrder(os *orderStep, ps *paymentStep) {
	verdict := payment.JudgeOrder(orderState(os.row), s.parts(os))
	os.surplus, os.judged = verdict.Surplus, true
	os.revokedAfterShipping = verdict.RevokedAfterShipping
	before := os.row.Fulfillment
	next := string(verdict.Fulfillment)
	if verdict.Message == payment.MessageFulfill && s.stale(ps) {
		s.openStale(os, ps)
		next, verdict.Message = store.FulfillHeld, ""
	}
	if verdict.Message != "" {
		s.tellOrder(os, ps, verdict.Message)
	}
	if next != before {
		os.row.Fulfillment = next
		os.changed = true
		s.audit(&os.row.Audit, os.row.ID, "order."+next, entryOf(ps), fulfillmentDetail{
			From: before, To: next, Payment: ps.id, PaymentVersion: ps.row.Version,
		})
	}
}

// tellOrder sends the order's message. The effect's key is fixed for
// order.fulfill, so that a constraint keeps it from being recorded twice.
func (s *step) tellOrder(os *orderStep, ps *paymentStep, message string) {
	key := message
	if message != payment.MessageFulfill {
		if message == payment.MessageRevoke {
			os.row.Revocations++
			os.changed = true
		}
		key += ":" + strconv.Itoa(os.row.Revocations)
	}
	s.changes.Effects = append(s.changes.Effects, store.Effect{
		Subject: os.row.ID, Key: key, Type: message, Decision: string(payment.Send), At: s.now,
	})
	s.tell(ps, message, os.row.ID+"|"+key, nil)
}

// stale says that all evidence of the step about the payment is older than
// what the account fulfills on.
func (s *step) stale(ps *paymentStep) bool {
	if len(ps.inputs) == 0 {
		return false
	}
	var newest time.Time
	for _, in := range ps.inputs {
		at := in.event.OccurredAt
		if at.IsZero() {
			at = in.entry.ReceivedAt
		}
		if at.After(newest) {
			newest = at
		}
	}
	return s.now.Sub(newest) > ps.account.FulfillWithin
}

// parts are the payments of an order as they are after the step.
func (s *step) parts(os *orderStep) []payment.PartView {
	parts := make([]payment.PartView, 0, len(os.payments)+1)
	seen := map[string]bool{}
	for _, p := range os.payments {
		if ps := s.payments[p.ID]; ps != nil {
			p = ps.row
		}
		if p.Order == os.row.Key {
			parts = append(parts, part(p))
		}
		seen[p.ID] = true
	}
	var joined []string // by this step; sorted alone, not with all others of a batch
	for id, ps := range s.payments {
		if !seen[id] && ps.row.Order == os.row.Key {
			joined = append(joined, id)
		}
	}
	slices.Sort(joined)
	for _, id := range joined {
		parts = append(parts, part(s.payments[id].row))
	}
	return parts
}

func part(p store.Payment) payment.PartView {
	return payment.Part(record(p, nil), p.View)
}

func orderState(o store.Order) payment.OrderState {
	return payment.OrderState{
		Total: o.Total, Fulfillment: payment.Fulfillment(o.Fulfillment), Shipped: !o.ShippedAt.IsZero(),
	}
}

func entryOf(ps *paymentStep) string {
	if len(ps.inputs) == 0 {
		return ""
	}
	return ps.inputs[len(ps.inputs)-1].entry.ID
}

// tellSurplus tells of money beyond the order's total, once for each payment
// version that shows another amount of it.
func (s *step) tellSurplus(os *orderStep, ps *paymentStep, surplus payment.Money) {
	if len(s.a.opt.Destinations(MessageSurplus)) == 0 {
		return
	}
	cause := os.row.ID + "|" + MessageSurplus + "|" + strconv.FormatInt(surplus.Value, 10) + "|" + strconv.FormatInt(ps.row.Version, 10)
	s.drafts = append(s.drafts, draft{payment: ps, kind: MessageSurplus, cause: cause, surplus: surplus})
}

package apply

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	// touched says that the row is stored with the step.
	touched bool
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
func (s *step) judge(ctx context.Context) error {
	changed := map[*orderStep][]*paymentStep{}
	for _, id := range s.paymentIDs() {
		ps := s.payments[id]
		if os := s.orders[ps.row.Order]; os != nil && ps.changed {
			changed[os] = append(changed[os], ps)
		}
	}
	for os, payments := range changed {
		if err := s.judgeOrder(ctx, os, payments); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) judgeOrder(ctx context.Context, os *orderStep, changed []*paymentStep) error {
	verdict := s.weigh(os)
	ps, before, next := changed[0], os.row.Fulfillment, string(verdict.Fulfillment)
	if verdict.Message == payment.MessageFulfill {
		stale, err := s.stale(ctx, os, changed)
		if err != nil {
			return err
		}
		if stale {
			s.openStale(os, ps)
			next, verdict.Message = store.FulfillHeld, ""
		}
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
	return nil
}

// weigh judges the order over all its payments as they are after the step.
func (s *step) weigh(os *orderStep) payment.OrderVerdict {
	verdict := payment.JudgeOrder(orderState(os.row), s.parts(os))
	os.surplus, os.judged = verdict.Surplus, true
	os.revokedAfterShipping = verdict.RevokedAfterShipping
	return verdict
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

// stale says that what the step learned of the order's money is older than what
// its accounts fulfill on. An order that was held for that reason waits for
// newer money or a person; other news of it does not release it.
func (s *step) stale(ctx context.Context, os *orderStep, changed []*paymentStep) (bool, error) {
	money, news := false, false
	for _, ps := range changed {
		for _, in := range ps.inputs {
			fresh := !s.old(ps, in)
			if in.money && fresh {
				return false, nil
			}
			money, news = money || in.money, news || in.news && fresh
		}
	}
	if money {
		return true, nil
	}
	if os.row.Fulfillment == store.FulfillHeld {
		held, err := s.tx.ConditionsOf(ctx, []string{os.row.ID})
		if err != nil {
			return false, fmt.Errorf("reading exceptions of order %s: %w", os.row.Key.ID, err)
		}
		for _, e := range held {
			if e.Reason == reasonStaleEvidence && e.State != store.ExceptionExplained {
				return true, nil
			}
		}
	}
	told := slices.ContainsFunc(changed, func(ps *paymentStep) bool {
		return slices.ContainsFunc(ps.inputs, func(in *input) bool { return in.news })
	})
	return told && !news, nil
}

// old says that the evidence is from before what its account fulfills on.
func (s *step) old(ps *paymentStep, in *input) bool {
	at := in.event.OccurredAt
	if at.IsZero() {
		at = in.entry.ReceivedAt
	}
	return s.now.Sub(at) > ps.account.FulfillWithin
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
	cause := strings.Join([]string{
		os.row.ID, MessageSurplus, strconv.FormatInt(surplus.Value, 10), ps.id, strconv.FormatInt(ps.row.Version, 10),
	}, "|")
	s.drafts = append(s.drafts, draft{payment: ps, kind: MessageSurplus, cause: cause, surplus: surplus})
}

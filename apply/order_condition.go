package apply

import (
	"bytes"
	"slices"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// exceptOrder compares what is odd about a judged order with its exceptions.
func (s *step) exceptOrder(byKey map[string]store.Exception, os *orderStep) {
	if !os.judged {
		return
	}
	s.exceptRevoked(byKey, os)
	if os.row.Fulfillment == store.FulfillSent {
		s.cease(byKey, conditionKey(os.row.ID, reasonStaleEvidence, ""), "newer evidence fulfilled the order")
	}
	key := conditionKey(os.row.ID, reasonSurplus, "")
	if os.surplus == 0 {
		s.cease(byKey, key, "the surplus is gone")
		return
	}
	amount := payment.Money{Value: os.surplus, Currency: os.row.Total.Currency}
	e := store.Exception{
		Kind: kindSurplus, Condition: key, Subject: os.row.ID, Reason: reasonSurplus,
		Order: os.row.Key.ID, Amount: amount, Detail: encode(s.surplusDetail(os, amount)),
	}
	if ps := s.lastOf(os); ps != nil {
		e.Account, e.Payment, e.Event, e.ProviderEventID = ps.row.Scope.Account, ps.id, entryOf(ps), providerEventOf(ps)
		if old, there := byKey[key]; !there || old.State == store.ExceptionExplained || old.Amount != amount {
			s.tellSurplus(os, ps, amount)
		}
	}
	if old := byKey[key]; old.State == store.ExceptionResolved && amount.Value < old.Amount.Value {
		s.shrink(byKey, old, amount, e.Detail)
		return
	}
	s.want(byKey, e)
}

// cease closes an exception about an order whose reason is gone. One that a
// person resolved stays so and shows nothing any more, so that it opens again
// when the reason comes back.
func (s *step) cease(byKey map[string]store.Exception, key, why string) {
	e, there := byKey[key]
	detail := encode(entryDetail{Reason: why})
	switch {
	case !there:
	case e.State == store.ExceptionResolved && !bytes.Equal(e.Detail, detail):
		s.shrink(byKey, e, payment.Money{Currency: e.Amount.Currency}, detail)
	default:
		s.explain(byKey, e, why, "")
	}
}

// shrink lowers what a resolved exception shows to what is left of it.
func (s *step) shrink(byKey map[string]store.Exception, e store.Exception, amount payment.Money, detail []byte) {
	e.Amount, e.Detail, e.UpdatedAt = amount, detail, s.now
	byKey[e.Condition] = e
	s.changes.Exceptions = append(s.changes.Exceptions, e)
}

// surplusDetail proposes what to give back: the latest payment of the order
// that still holds the surplus.
func (s *step) surplusDetail(os *orderStep, surplus payment.Money) surplusDetail {
	d := surplusDetail{Total: os.row.Total, Surplus: surplus}
	payments := slices.Clone(os.payments)
	for i, p := range payments {
		if ps := s.payments[p.ID]; ps != nil {
			payments[i] = ps.row
		}
	}
	for _, p := range slices.Backward(payments) {
		if p.View.Currency == surplus.Currency && p.View.Totals.Refundable > 0 {
			d.Proposed = proposedRefund{Payment: p.ID, Amount: payment.Money{
				Value: min(surplus.Value, p.View.Totals.Refundable), Currency: surplus.Currency,
			}}
			break
		}
	}
	return d
}

func (s *step) lastOf(os *orderStep) *paymentStep {
	var last *paymentStep
	for _, id := range s.paymentIDs() {
		if ps := s.payments[id]; ps.row.Order == os.row.Key && ps.changed {
			last = ps
		}
	}
	return last
}

func (s *step) openStale(os *orderStep, ps *paymentStep) {
	s.wanted = append(s.wanted, store.Exception{
		Kind: kindDiscrepancy, Condition: conditionKey(os.row.ID, reasonStaleEvidence, ""), Subject: os.row.ID,
		Reason: reasonStaleEvidence, Account: ps.row.Scope.Account, Payment: ps.id, Order: os.row.Key.ID,
		Event: entryOf(ps), ProviderEventID: providerEventOf(ps), Amount: os.row.Total,
		Detail: encode(entryDetail{Reason: "the evidence is older than " + ps.account.FulfillWithin.String()}),
	})
}

func (s *step) exceptRevoked(byKey map[string]store.Exception, os *orderStep) {
	key := conditionKey(os.row.ID, reasonRevokedAfterShip, "")
	if !os.revokedAfterShipping {
		s.cease(byKey, key, "the money is back")
		return
	}
	w := store.Exception{
		Kind: kindContradiction, Condition: key, Subject: os.row.ID, Reason: reasonRevokedAfterShip,
		Order: os.row.Key.ID, Amount: os.row.Total,
		Detail: encode(entryDetail{Reason: "the money behind a shipped order failed"}),
	}
	if ps := s.lastOf(os); ps != nil {
		w.Account, w.Payment, w.Event, w.ProviderEventID = ps.row.Scope.Account, ps.id, entryOf(ps), providerEventOf(ps)
	}
	s.want(byKey, w)
}

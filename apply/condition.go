package apply

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// Kinds of exceptions that apply opens.
const (
	kindContradiction  = "contradiction"
	kindDiscrepancy    = "discrepancy"
	kindSurplus        = "surplus"
	kindUnmatchedEvent = "unmatched_event"
	kindDeadLetter     = "dead_letter"
)

// Reasons of exceptions that are not conditions of a payment.
const (
	reasonSurplus          = "surplus"
	reasonStaleEvidence    = "stale_evidence"
	reasonRevokedAfterShip = "revoked_after_shipping"
	reasonTotalRaised      = "order_total_raised"
	reasonUnmatched        = "never_matched"
	reasonScope            = "account"
)

// MessageExceptionOpened is sent once whenever an exception opens or reopens.
const MessageExceptionOpened = "exception.opened"

// opensNow says that the condition's exception opens in the transaction that
// shows it; the others open after the account's quiet period.
func opensNow(k payment.ConditionKind) bool {
	switch k {
	case payment.ConditionAccount, payment.ConditionCurrency, payment.ConditionAmount,
		payment.ConditionContested, payment.ConditionFlip, payment.ConditionMoneyAfterCancel:
		return true
	}
	return false
}

func conditionException(k payment.ConditionKind) string {
	if opensNow(k) || k == payment.ConditionReturnedExceedsCaptured {
		return kindContradiction
	}
	return kindDiscrepancy
}

// conditionKey is the unique name of an exception.
func conditionKey(subject, reason, object string) string {
	return subject + "|" + reason + "|" + object
}

// except opens the exceptions that the step wants, reopens those whose
// condition holds again, and closes those whose condition holds no longer.
func (s *step) except(ctx context.Context) error {
	subjects := s.subjects()
	if len(subjects) == 0 {
		return nil
	}
	existing, err := s.tx.ConditionsOf(ctx, subjects)
	if err != nil {
		return fmt.Errorf("reading exceptions: %w", err)
	}
	byKey := make(map[string]store.Exception, len(existing))
	for _, e := range existing {
		byKey[e.Condition] = e
	}
	for _, w := range s.wanted {
		s.want(byKey, w)
	}
	for _, id := range s.paymentIDs() {
		s.exceptPayment(byKey, s.payments[id])
	}
	for _, os := range s.orders {
		s.exceptOrder(byKey, os)
	}
	s.explainEntries(byKey)
	return nil
}

func (s *step) subjects() []string {
	subjects := s.paymentIDs()
	for _, os := range s.orders {
		subjects = append(subjects, os.row.ID)
	}
	for _, in := range s.inputs {
		if in.entry.ID != "" {
			subjects = append(subjects, in.entry.ID)
		}
	}
	return subjects
}

// exceptPayment compares the conditions that hold with the exceptions there are.
func (s *step) exceptPayment(byKey map[string]store.Exception, ps *paymentStep) {
	holding := map[string]bool{}
	quiet := false
	for _, c := range ps.row.View.Conditions {
		w := s.conditionOf(ps, c)
		holding[w.Condition] = true
		e, there := byKey[w.Condition]
		if opensNow(c.Kind) || there && (e.State == store.ExceptionOpen || e.State == store.ExceptionAcknowledged) {
			if there && ps.renews(c) {
				e.Detail = nil // what a person resolved did not show this
				byKey[w.Condition] = e
			}
			s.want(byKey, w)
			continue
		}
		if there && e.State == store.ExceptionResolved && sameFacts(e.Detail, w.Detail) {
			continue
		}
		quiet = true
		s.holdQuiet(ps, c)
	}
	if quiet && ps.changed {
		s.changes.Work = append(s.changes.Work, store.Work{
			Queue: store.QueueQuiet, ID: ps.id, Lane: ps.id, Delay: ps.account.Quiet,
		})
	}
	for key, e := range byKey {
		if e.Subject == ps.id && isCondition(e) && !holding[key] {
			s.explain(byKey, e, "no longer holds", entryOf(ps))
		}
	}
}

// holdQuiet remembers since when a quiet condition holds.
func (s *step) holdQuiet(ps *paymentStep, c payment.Condition) {
	held := slices.ContainsFunc(ps.before.Conditions, func(b payment.Condition) bool {
		return b.Kind == c.Kind && b.Object == c.Object
	})
	if held || !ps.changed {
		return
	}
	s.changes.Effects = append(s.changes.Effects, store.Effect{
		Subject: ps.id, Key: heldKey(c), Type: "condition.held", Decision: "held", At: s.now,
	})
}

func heldKey(c payment.Condition) string {
	return "condition|" + string(c.Kind) + "|" + c.Object
}

// renews says that the step brought a fact that the condition shows under a key
// that was known with another content.
func (ps *paymentStep) renews(c payment.Condition) bool {
	return slices.ContainsFunc(c.Keys, func(key string) bool { return ps.varied[key] })
}

// isCondition says that an exception about a payment follows a condition of it,
// so that it closes by itself.
func isCondition(e store.Exception) bool {
	return e.Kind == kindContradiction || e.Kind == kindDiscrepancy
}

func (s *step) conditionOf(ps *paymentStep, c payment.Condition) store.Exception {
	return store.Exception{
		Kind: conditionException(c.Kind), Condition: conditionKey(ps.id, string(c.Kind), c.Object),
		Subject: ps.id, Reason: string(c.Kind), Account: ps.row.Scope.Account, Payment: ps.id,
		Order: ps.row.Order.ID, Event: entryOf(ps), ProviderEventID: providerEventOf(ps), Amount: conditionAmount(ps, c),
		Detail: encode(conditionDetail{
			Condition: string(c.Kind), Object: c.Object, Facts: c.Keys, Expected: ps.row.Expected,
			Totals: ps.row.View.Totals, Currency: ps.row.View.Currency,
		}),
	}
}

func conditionAmount(ps *paymentStep, c payment.Condition) payment.Money {
	v := ps.row.View
	switch c.Kind {
	case payment.ConditionOverCaptured:
		return payment.Money{Value: v.Totals.Captured - ps.row.Expected.Value, Currency: v.Currency}
	case payment.ConditionReturnedExceedsCaptured:
		return payment.Money{Value: v.Totals.Unmatched, Currency: v.Currency}
	}
	for _, f := range ps.facts {
		if slices.Contains(c.Keys, f.Key()) && f.Amount.Currency != "" {
			return f.Amount
		}
	}
	return payment.Money{}
}

func providerEventOf(ps *paymentStep) string {
	if len(ps.inputs) == 0 {
		return ""
	}
	return ps.inputs[len(ps.inputs)-1].entry.ProviderEventID
}

// want opens or reopens an exception. One that a person resolved stays so for
// the facts that it showed.
func (s *step) want(byKey map[string]store.Exception, w store.Exception) {
	e, there := byKey[w.Condition]
	switch {
	case !there:
		w.ID, w.State, w.OpenedAt = s.a.opt.NewID("exc"), store.ExceptionOpen, s.now
	case e.State == store.ExceptionResolved && shown(e, w):
		return
	case (e.State == store.ExceptionOpen || e.State == store.ExceptionAcknowledged) && bytes.Equal(e.Detail, w.Detail):
		return
	case e.State == store.ExceptionOpen || e.State == store.ExceptionAcknowledged:
		w.ID, w.State, w.OpenedAt = e.ID, e.State, e.OpenedAt
	default:
		w.ID, w.State, w.OpenedAt = e.ID, store.ExceptionOpen, s.now
	}
	w.UpdatedAt = s.now
	if w.Urgency = e.Urgency; w.Urgency == "" {
		w.Urgency = urgency(w)
	}
	byKey[w.Condition] = w
	s.changes.Exceptions = append(s.changes.Exceptions, w)
	if !there || e.State == store.ExceptionExplained || e.State == store.ExceptionResolved {
		s.tellException(w)
	}
}

// shown says that the exception showed already what is wanted now.
func shown(e, w store.Exception) bool {
	if w.Kind == kindSurplus {
		return w.Amount.Value <= e.Amount.Value
	}
	return bytes.Equal(e.Detail, w.Detail) || sameFacts(e.Detail, w.Detail)
}

// sameFacts compares the facts that two details show.
func sameFacts(a, b []byte) bool {
	var x, y conditionDetail
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(y.Facts) == 0 {
		return false
	}
	for _, k := range y.Facts {
		if !slices.Contains(x.Facts, k) {
			return false
		}
	}
	return true
}

func (s *step) explain(byKey map[string]store.Exception, e store.Exception, why, entry string) {
	if e.State != store.ExceptionOpen && e.State != store.ExceptionAcknowledged {
		return
	}
	e.State, e.UpdatedAt, e.ClosedAt, e.Closing = store.ExceptionExplained, s.now, s.now, why
	if entry != "" {
		e.Closing += ", by " + entry
	}
	byKey[e.Condition] = e
	s.changes.Exceptions = append(s.changes.Exceptions, e)
}

// explainEntries closes what was open about an entry that has now been
// processed, except what this step itself wants of it.
func (s *step) explainEntries(byKey map[string]store.Exception) {
	settled, wanted := map[string]bool{}, map[string]bool{}
	for _, in := range s.inputs {
		settled[in.entry.ID] = in.result != nil
	}
	for _, w := range s.wanted {
		wanted[w.Condition] = true
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if e := byKey[key]; settled[e.Subject] && !wanted[key] {
			s.explain(byKey, e, "the event was processed", "")
		}
	}
}

// contradict finishes an input that may not be attached and wants an exception.
func (s *step) contradict(in *input, payments []string, why string) {
	in.finish(s.now, store.OutcomeContradiction, why)
	w := s.entryException(in, kindContradiction, reasonScope)
	w.Payment = payments[0]
	w.Detail = encode(entryDetail{Reason: why, Payments: payments, Type: in.entry.Type, Names: in.event.Names})
	s.wanted = append(s.wanted, w)
}

func (s *step) openUnmatched(in *input) {
	w := s.entryException(in, kindUnmatchedEvent, reasonUnmatched)
	w.Detail = encode(entryDetail{
		Reason: "no payment was registered within " + in.account.WaitFor.String(), Type: in.entry.Type, Names: in.event.Names,
	})
	s.wanted = append(s.wanted, w)
}

func (s *step) entryException(in *input, kind, reason string) store.Exception {
	e := store.Exception{
		Kind: kind, Condition: conditionKey(in.entry.ID, reason, ""), Subject: in.entry.ID, Reason: reason,
		Account: in.entry.Scope.Account, Event: in.entry.ID, ProviderEventID: in.entry.ProviderEventID,
		Order: in.event.Order,
	}
	for _, f := range in.event.Facts {
		if f.Amount.Currency != "" {
			e.Amount = f.Amount
			break
		}
	}
	return e
}

// urgency is a first guess by kind; rules refine it.
func urgency(e store.Exception) string {
	switch {
	case e.Kind == kindSurplus, e.Reason == reasonRevokedAfterShip,
		strings.HasPrefix(e.Reason, string(payment.ConditionMoneyAfterCancel)):
		return "high"
	case e.Kind == kindContradiction, e.Kind == kindDeadLetter:
		return "normal"
	}
	return "low"
}

package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// paymentStep is one payment in a step.
type paymentStep struct {
	id      string
	row     store.Payment
	before  payment.View
	account *Account
	// adopted says that this step creates the payment.
	adopted bool
	// fresh says that the record itself changed, so that everything is derived
	// anew although no fact is new.
	fresh   bool
	inputs  []*input
	learned []store.ScopedName

	facts []payment.Fact
	known map[string]bool
	// keys are those of the known facts, varied those that the step brought
	// another content of.
	keys, varied map[string]bool
	decided      map[string]payment.Decision
	// added counts the new facts of the step.
	added   int
	changed bool
	// touched says that the row is stored with the step.
	touched bool
	// audited is the version of the chain before the step.
	audited int64
}

func (s *step) paymentIDs() []string {
	return slices.Sorted(maps.Keys(s.payments))
}

// lock takes the orders, then the payments, each sorted, and checks that
// nothing moved between reading and locking.
func (s *step) lock(ctx context.Context) error {
	if len(s.payments) == 0 {
		return nil
	}
	keys, err := s.orderKeys(ctx)
	if err != nil {
		return err
	}
	if err := s.lockOrders(ctx, keys); err != nil {
		return err
	}
	var ids []string
	for _, id := range s.paymentIDs() {
		if !s.payments[id].adopted {
			ids = append(ids, id)
		}
	}
	rows, err := s.tx.LockPayments(ctx, ids)
	if err != nil {
		return fmt.Errorf("locking payments: %w", err)
	}
	if len(rows) != len(ids) {
		return fmt.Errorf("apply: %d of %d payments that own names exist: %w", len(rows), len(ids), store.ErrNotFound)
	}
	for _, row := range rows {
		ps := s.payments[row.ID]
		ps.row, ps.before, ps.audited = row, row.View, row.Audit.Version
		ps.account = s.a.opt.Accounts[row.Scope.Account]
		if row.Order.ID != "" && s.orders[row.Order] == nil {
			return errAgain
		}
	}
	return s.insertAdopted(ctx)
}

func (s *step) orderKeys(ctx context.Context) ([]store.OrderKey, error) {
	var ids []string
	var keys []store.OrderKey
	for _, id := range s.paymentIDs() {
		if ps := s.payments[id]; ps.adopted {
			keys = append(keys, ps.row.Order)
		} else {
			ids = append(ids, id)
		}
	}
	of, err := s.tx.OrderKeysOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the orders of payments: %w", err)
	}
	for _, k := range of {
		keys = append(keys, k)
	}
	keys = slices.DeleteFunc(keys, func(k store.OrderKey) bool { return k.ID == "" })
	slices.SortFunc(keys, compareOrderKeys)
	return slices.Compact(keys), nil
}

func (s *step) insertAdopted(ctx context.Context) error {
	for _, id := range s.paymentIDs() {
		ps := s.payments[id]
		if !ps.adopted {
			continue
		}
		if s.registeredMeanwhile(ps.row) {
			return errAgain
		}
		ps.row.View = payment.Fold(record(ps.row, ps.account), nil)
		ps.before = ps.row.View
		if err := s.tx.InsertPayment(ctx, ps.row); err != nil {
			return fmt.Errorf("adopting payment %s: %w", id, err)
		}
		s.audit(&ps.row.Audit, id, "payment.adopted", ps.inputs[0].entry.ID, adoptedDetail{Order: ps.row.Order.ID})
	}
	return nil
}

// registeredMeanwhile says, under the order's lock, that the evidence belongs to
// a payment that was registered by its order since resolve looked.
func (s *step) registeredMeanwhile(p store.Payment) bool {
	os := s.orders[p.Order]
	return os != nil && slices.ContainsFunc(os.payments, func(other store.Payment) bool {
		return other.ByOrder && other.Scope == p.Scope
	})
}

// load reads the sets of facts and what was decided about them before.
func (s *step) load(ctx context.Context) error {
	ids := s.paymentIDs()
	if len(ids) == 0 {
		return nil
	}
	facts, err := s.tx.Facts(ctx, ids)
	if err != nil {
		return fmt.Errorf("reading facts: %w", err)
	}
	effects, err := s.tx.Effects(ctx, ids)
	if err != nil {
		return fmt.Errorf("reading effects: %w", err)
	}
	for _, ps := range s.payments {
		ps.known, ps.decided = map[string]bool{}, map[string]payment.Decision{}
		ps.keys, ps.varied = map[string]bool{}, map[string]bool{}
	}
	for _, f := range facts {
		ps := s.payments[f.Payment]
		ps.facts = append(ps.facts, f.Fact)
		ps.known[f.Key()+"\x00"+f.Variant()] = true
		ps.keys[f.Key()] = true
	}
	for _, e := range effects {
		s.payments[e.Subject].decided[e.Key] = payment.Decision(e.Decision)
	}
	return nil
}

// derive adds the new facts to each payment's set, folds it, and records the
// effects that follow.
func (s *step) derive(context.Context) error {
	for _, id := range s.paymentIDs() {
		ps := s.payments[id]
		for _, in := range ps.inputs {
			s.take(ps, in)
		}
		if ps.added > 0 || ps.fresh {
			s.fold(ps)
		}
		s.explainResults(ps)
		s.auditInputs(ps)
	}
	return nil
}

// take adds the facts of an input that are not known yet.
func (s *step) take(ps *paymentStep, in *input) {
	added := 0
	for _, f := range in.event.Facts {
		key := f.Key()
		k := key + "\x00" + f.Variant()
		if ps.known[k] {
			continue
		}
		ps.varied[key] = ps.varied[key] || ps.keys[key]
		ps.known[k], ps.keys[key] = true, true
		ps.facts = append(ps.facts, f)
		s.changes.Facts = append(s.changes.Facts, store.Fact{
			Payment: ps.id, Scope: ps.row.Scope, Fact: f, EntryID: in.entry.ID, At: s.now,
		})
		added++
		in.money = in.money || f.Kind == payment.KindAuthorization || f.Kind == payment.KindCapture
	}
	ps.added += added
	in.news = added > 0
	switch {
	case added > 0 || learnedBy(ps, in):
		in.finish(s.now, store.OutcomeApplied, "")
	case len(in.event.Facts) > 0:
		in.finish(s.now, store.OutcomeDuplicate, "every fact is known already")
	default:
		in.finish(s.now, store.OutcomeIgnored, "tells nothing new")
	}
	in.result.Order = ps.row.Order.ID
}

func learnedBy(ps *paymentStep, in *input) bool {
	return slices.ContainsFunc(in.names, func(n store.ScopedName) bool { return slices.Contains(ps.learned, n) })
}

func (s *step) fold(ps *paymentStep) {
	view, effects := payment.Effects(record(ps.row, ps.account), ps.facts, ps.decided)
	ps.row.View = view
	ps.row.Version++
	ps.changed = true
	if ps.added > 0 {
		ps.row.NewestFactAt = s.now
	}
	for _, e := range effects {
		s.changes.Effects = append(s.changes.Effects, store.Effect{
			Subject: ps.id, Key: e.Key(), Type: e.Type, Decision: string(e.Decision), At: s.now,
		})
		if e.Decision == payment.Send {
			s.tell(ps, e.Type, ps.id+"|"+e.Key(), &e.Fact)
		}
	}
}

// explainResults marks inputs whose facts show a contradiction.
func (s *step) explainResults(ps *paymentStep) {
	for _, c := range ps.row.View.Conditions {
		if !opensNow(c.Kind) || conditionException(c.Kind) != kindContradiction {
			continue
		}
		for _, in := range ps.inputs {
			if in.result.Outcome != store.OutcomeApplied {
				continue
			}
			for _, f := range in.event.Facts {
				if slices.Contains(c.Keys, f.Key()) {
					in.result.Outcome = store.OutcomeContradiction
					in.result.Reason = "contradicts our record: " + string(c.Kind)
				}
			}
		}
	}
}

func (s *step) auditInputs(ps *paymentStep) {
	for _, in := range ps.inputs {
		if in.result.Outcome == store.OutcomeIgnored || in.result.Outcome == store.OutcomeDuplicate {
			continue
		}
		s.audit(&ps.row.Audit, ps.id, "evidence."+in.result.Outcome, in.entry.ID, evidenceDetail{
			Source: string(in.entry.Source), Type: in.entry.Type, ProviderEventID: in.entry.ProviderEventID,
			Facts: factKeys(in.event.Facts), Version: ps.row.Version,
			From: ps.before.State, To: ps.row.View.State, Dispute: ps.row.View.Dispute,
		})
	}
}

func factKeys(facts []payment.Fact) []string {
	keys := make([]string, 0, len(facts))
	for _, f := range facts {
		keys = append(keys, f.Key())
	}
	return keys
}

// record is the part of our own record that the fold needs.
func record(p store.Payment, acc *Account) payment.Record {
	r := payment.Record{
		Expected: p.Expected, Rule: p.Rule, FulfillOn: p.FulfillOn, Adopted: p.Adopted,
		CaptureSpeaks: payment.FormTotal,
	}
	if acc != nil {
		r.CaptureSpeaks = acc.Adapter.CaptureSpeaks(&acc.Account)
	}
	return r
}

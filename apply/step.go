package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// errAgain says that a name found its owner between reading and locking; the
// step is begun anew with fresh reads.
var errAgain = errors.New("apply: a name changed hands meanwhile")

// input is one piece of evidence in a step.
type input struct {
	entry   store.Entry
	account *Account
	event   provider.Event
	// waited says that the deadline for its payment to appear has passed.
	waited bool

	names   []store.ScopedName
	payment string
	// rivals are the payments that the names lead to when there is more than one.
	rivals []string
	// foreign is the payment of another scope that the evidence names.
	foreign string
	// result is the final result, if any. An input with a wait is filed under its
	// names as well, so that a later registration can still have it.
	result *store.Result
	wait   time.Duration
	// news says that it brought facts that were not known, money that some of
	// them speak of money coming in.
	news, money bool
}

// step is one transaction's worth of work.
type step struct {
	a   *Applier
	tx  store.Tx
	now time.Time

	inputs   []*input
	owner    map[store.ScopedName]string
	bound    []store.Binding
	wanted   []store.Exception
	drafts   []draft
	payments map[string]*paymentStep
	orders   map[store.OrderKey]*orderStep
	changes  store.Changes
}

func (a *Applier) newStep(tx store.Tx, inputs []*input) *step {
	return &step{
		a: a, tx: tx, now: a.opt.Now().UTC().Truncate(time.Microsecond), inputs: inputs,
		payments: map[string]*paymentStep{}, orders: map[store.OrderKey]*orderStep{},
	}
}

// runStep applies the inputs in the transaction. Afterwards each input has a
// result or waits. It never commits.
func (a *Applier) runStep(ctx context.Context, tx store.Tx, inputs []*input) error {
	s := a.newStep(tx, inputs)
	for _, in := range inputs {
		in.reset()
	}
	for _, stage := range []func(context.Context) error{
		s.resolve, s.lock, s.bind, s.load, s.derive, s.judge, s.settle, s.except, s.save,
	} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) reset() {
	in.names, in.payment, in.rivals, in.foreign, in.result, in.wait = nil, "", nil, "", nil, 0
	in.news, in.money = false, false
}

// bind gives every name that was learned its owner and locks the names that
// unresolved evidence is about to wait under. It is the point at which a
// registration and a waiting entry meet: whichever locks second sees the other.
func (s *step) bind(ctx context.Context) error {
	var bindings []store.Binding
	seen := map[store.ScopedName]bool{}
	for _, id := range s.paymentIDs() {
		for _, n := range s.payments[id].learned {
			seen[n] = true
			bindings = append(bindings, store.Binding{ScopedName: n, Payment: id})
		}
	}
	for _, in := range s.inputs {
		if in.payment != "" || len(in.rivals) > 0 {
			continue
		}
		for _, n := range in.waitNames() {
			if !seen[n] {
				seen[n] = true
				bindings = append(bindings, store.Binding{ScopedName: n})
			}
		}
	}
	if len(bindings) == 0 {
		return nil
	}
	owners, err := s.tx.Bind(ctx, bindings)
	if err != nil {
		return fmt.Errorf("binding names: %w", err)
	}
	for _, b := range bindings {
		if owners[b.ScopedName] != b.Payment {
			return errAgain
		}
	}
	s.bound = bindings
	return s.recheckOrders(ctx)
}

// settle gives each input that is not attached its result or its wait.
func (s *step) settle(context.Context) error {
	for _, in := range s.inputs {
		switch {
		case in.result != nil:
		case len(in.rivals) > 0:
			s.contradict(in, in.rivals, "names lead to more than one payment")
		case in.foreign != "":
			s.contradict(in, []string{in.foreign}, "names a payment of another mode or connected account")
			in.wait = foreignWait
		default:
			s.waitOrIgnore(in)
		}
	}
	return nil
}

// waitOrIgnore decides what becomes of evidence that fits no payment.
func (s *step) waitOrIgnore(in *input) {
	e := in.event
	switch {
	case in.account.Unregistered == UnregisteredIgnore:
		in.finish(s.now, store.OutcomeIgnored, "the payment is not registered")
	case len(in.names) == 0 && e.Order == "":
		in.finish(s.now, store.OutcomeIgnored, "names no payment")
	case len(e.Facts) == 0 && len(in.names) < 2 && e.Order == "":
		in.finish(s.now, store.OutcomeIgnored, "tells nothing of a payment")
	case !in.waited:
		in.wait = max(in.account.WaitFor-s.now.Sub(in.entry.ReceivedAt), time.Millisecond)
	case s.now.Sub(in.entry.ReceivedAt) >= foreignWait:
		in.finish(s.now, store.OutcomeIgnored, "no payment appeared")
	default:
		if e.Ours {
			s.openUnmatched(in)
		}
		in.wait = foreignWait
	}
}

func (in *input) finish(now time.Time, outcome, reason string) {
	in.result = &store.Result{
		EntryID: in.entry.ID, State: store.EntryProcessed, Outcome: outcome, Reason: reason, At: now,
		Payment: in.payment,
	}
}

// save writes what the step derived, wakes what waits under names that were
// learned, and files what waits itself.
func (s *step) save(ctx context.Context) error {
	s.collectRows()
	s.render()
	s.storeRows()
	var waits []store.Waiting
	for _, in := range s.inputs {
		if in.result != nil {
			s.changes.Results = append(s.changes.Results, *in.result)
		}
		if in.wait == 0 {
			continue
		}
		for _, n := range in.waitNames() {
			waits = append(waits, store.Waiting{EntryID: in.entry.ID, Name: n})
		}
	}
	if err := s.tx.Save(ctx, s.changes); err != nil {
		return fmt.Errorf("saving a step: %w", err)
	}
	if len(waits) > 0 {
		if err := s.tx.Wait(ctx, waits); err != nil {
			return fmt.Errorf("filing waiting entries: %w", err)
		}
	}
	return s.wake(ctx)
}

// collectRows marks the payments and orders that changed, before their
// snapshots are rendered into messages.
func (s *step) collectRows() {
	for _, ps := range s.payments {
		if ps.changed || ps.adopted || ps.row.Audit.Version != ps.audited {
			ps.touched, ps.row.UpdatedAt = true, s.now
		}
	}
	for _, os := range s.orders {
		if os.changed || os.row.Audit.Version != os.audited {
			os.touched, os.row.UpdatedAt = true, s.now
		}
	}
}

// storeRows takes the rows as they are after everything that numbers their
// messages and audit rows.
func (s *step) storeRows() {
	for _, id := range s.paymentIDs() {
		if ps := s.payments[id]; ps.touched {
			s.changes.Payments = append(s.changes.Payments, ps.row)
		}
	}
	for _, os := range s.orders {
		if os.touched {
			s.changes.Orders = append(s.changes.Orders, os.row)
		}
	}
}

func (s *step) wake(ctx context.Context) error {
	var learned []store.ScopedName
	for _, b := range s.bound {
		if b.Payment != "" {
			learned = append(learned, b.ScopedName)
		}
	}
	if len(learned) == 0 {
		return nil
	}
	if _, err := s.tx.WakeWaiting(ctx, learned); err != nil {
		return fmt.Errorf("waking what waits: %w", err)
	}
	return nil
}

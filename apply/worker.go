package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// panicError is a recovered panic of one step.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// workInbox works off one claim: first everything that has not crashed a worker
// in one transaction, then, if that fails, and for suspects, one by one.
func (a *Applier) workInbox(ctx context.Context, claim store.Claim) {
	// What was claimed is finished even while stopping; the time limit bounds it.
	ctx = context.WithoutCancel(ctx)
	crashpoint.Hit("apply.claimed")
	var batch, alone []store.ClaimedItem
	for _, it := range claim.Items {
		if it.Suspect {
			alone = append(alone, it)
		} else {
			batch = append(batch, it)
		}
	}
	if len(batch) > 0 {
		err := a.applyBatch(ctx, claim.Token, batch, len(alone) == 0)
		switch {
		case err == nil && len(alone) == 0:
			return
		case err == nil:
		case errors.Is(err, store.ErrUnavailable):
			a.opt.Logger.Warn("a batch could not be applied", "entries", len(batch), "error", err)
			a.release(ctx, store.QueueInbox, claim.Token)
			return
		default:
			a.opt.Logger.Info("a batch is redone one by one", "entries", len(batch), "error", err)
			alone = append(alone, batch...)
		}
	}
	for _, it := range alone {
		a.applyAlone(ctx, claim.Token, it)
	}
	a.release(ctx, store.QueueInbox, claim.Token)
}

// release hands lanes back; if the store cannot be reached now, the lease ends
// by itself and nothing is lost.
func (a *Applier) release(ctx context.Context, queue, token string) {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	err := a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return tx.Release(ctx, queue, token)
	})
	if err != nil {
		a.opt.Logger.Warn("lanes are not released and will lapse", "error", err)
	}
}

// applyBatch applies the items in one transaction together with their marks.
func (a *Applier) applyBatch(ctx context.Context, token string, items []store.ClaimedItem, last bool) (err error) {
	defer recoverTo(&err)
	var inputs []*input
	begun := time.Now()
	err = a.within(ctx, store.TxOptions{}, func(tx store.Tx) (err error) {
		var dead []unreadable
		inputs, dead, err = a.read(ctx, tx, items)
		if err != nil {
			return err
		}
		if len(dead) > 0 {
			return fmt.Errorf("entry %s: %w", dead[0].entry.ID, dead[0].err)
		}
		return a.complete(ctx, tx, token, inputs, last)
	})
	if err != nil {
		a.metrics.stepped("failed", time.Since(begun))
		return err
	}
	crashpoint.Hit("apply.committed")
	a.metrics.stepped("committed", time.Since(begun))
	a.metrics.finished(inputs)
	return nil
}

// complete runs the step and settles the work items in the same transaction.
func (a *Applier) complete(ctx context.Context, tx store.Tx, token string, inputs []*input, release bool) error {
	if err := a.runStep(ctx, tx, inputs); err != nil {
		return err
	}
	var done []string
	var later []store.Postponed
	none := 0 // what waits has not failed
	for _, in := range inputs {
		if in.wait == 0 {
			done = append(done, in.entry.ID)
			continue
		}
		later = append(later, store.Postponed{ID: in.entry.ID, Delay: in.wait, Waiting: true, Attempts: &none})
	}
	if len(done) > 0 {
		if err := tx.Complete(ctx, store.QueueInbox, token, done); err != nil {
			return fmt.Errorf("marking entries done: %w", err)
		}
		if err := tx.Unwait(ctx, done); err != nil {
			return fmt.Errorf("removing entries from what waits: %w", err)
		}
	}
	if len(later) > 0 {
		if err := tx.Postpone(ctx, store.QueueInbox, token, later); err != nil {
			return fmt.Errorf("putting waiting entries back: %w", err)
		}
	}
	if release {
		if err := tx.Release(ctx, store.QueueInbox, token); err != nil {
			return fmt.Errorf("releasing lanes: %w", err)
		}
	}
	crashpoint.Hit("apply.before_commit")
	return nil
}

// applyAlone counts the attempt, commits that, and then tries the entry in a
// transaction of its own. One that has used its attempts up and comes back
// without a result ended its worker each time; it is not tried again.
func (a *Applier) applyAlone(ctx context.Context, token string, it store.ClaimedItem) {
	log := a.opt.Logger.With("event", it.ID, "attempt", it.Attempts+1)
	if it.Suspect && it.Attempts >= a.opt.Backoff.Attempts {
		log.Error("an entry goes to the dead letters", "error", errCrashes)
		a.bury(ctx, token, it, it.Attempts, errCrashes)
		return
	}
	err := a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		if err := tx.Extend(ctx, store.QueueInbox, token, a.opt.Lease); err != nil {
			return err
		}
		return tx.CountAttempt(ctx, store.QueueInbox, token, []string{it.ID})
	})
	if errors.Is(err, store.ErrLeaseLost) {
		return // finished by the batch after all, or taken by somebody else
	}
	if err != nil {
		log.Warn("the attempt could not be counted", "error", err)
		return
	}
	err = a.tryAlone(ctx, token, it)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrLeaseLost):
	case blameless(err):
		log.Warn("an entry is tried again later, and the attempt does not count", "error", err)
		a.postpone(ctx, store.QueueInbox, token, it, it.Attempts, err)
	case errors.Is(err, provider.ErrMalformed), it.Attempts+1 >= a.opt.Backoff.Attempts:
		log.Error("an entry goes to the dead letters", "error", err)
		a.bury(ctx, token, it, it.Attempts+1, err)
	default:
		log.Warn("an entry is tried again later", "error", err)
		a.postpone(ctx, store.QueueInbox, token, it, it.Attempts+1, err)
	}
}

// errCrashes is the reason of a dead letter whose solo runs never came to an end.
var errCrashes = errors.New("apply: every attempt ended with its worker")

// blameless says that the failure is the ledger's or a neighbor's, so that it
// does not bring the entry nearer to the dead letters. After a commit in doubt
// putting it back finds out: a finished entry is no longer held.
func blameless(err error) bool {
	for _, of := range []error{
		store.ErrCommitUnknown, store.ErrUnavailable, store.ErrBusy, store.ErrFull, store.ErrSchema, errAgain,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

func (a *Applier) tryAlone(ctx context.Context, token string, it store.ClaimedItem) (err error) {
	defer recoverTo(&err)
	var inputs []*input
	err = a.within(ctx, store.TxOptions{}, func(tx store.Tx) (err error) {
		var dead []unreadable
		inputs, dead, err = a.read(ctx, tx, []store.ClaimedItem{it})
		if err != nil {
			return err
		}
		if len(dead) > 0 {
			return dead[0].err
		}
		return a.complete(ctx, tx, token, inputs, false)
	})
	if err == nil {
		a.metrics.finished(inputs)
	}
	return err
}

// postpone puts an entry back with the attempts that count against it.
func (a *Applier) postpone(ctx context.Context, queue, token string, it store.ClaimedItem, attempts int, cause error) {
	delay := a.opt.Backoff.Delay(it.Attempts+1, rand.Float64)
	err := a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return tx.Postpone(ctx, queue, token, []store.Postponed{
			{ID: it.ID, Delay: delay, Error: errorText(cause), Attempts: &attempts},
		})
	})
	if err != nil {
		a.opt.Logger.Warn("work is left to its lease", "queue", queue, "id", it.ID, "error", err)
	}
}

// bury gives an entry its final state, with the error and the stack, and opens
// the exception that a person will find it by.
func (a *Applier) bury(ctx context.Context, token string, it store.ClaimedItem, attempts int, cause error) {
	err := a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		status, err := tx.Entry(ctx, it.ID)
		if err != nil {
			return err
		}
		if err := a.die(ctx, tx, status.Entry, attempts, cause); err != nil {
			return err
		}
		return tx.Complete(ctx, store.QueueInbox, token, []string{it.ID})
	})
	if err != nil {
		a.opt.Logger.Error("a dead letter could not be filed and is left to its lease", "event", it.ID, "error", err)
	}
}

// die records the dead letter in the transaction.
func (a *Applier) die(ctx context.Context, tx store.Tx, e store.Entry, attempts int, cause error) error {
	now := a.opt.Now().UTC().Truncate(time.Microsecond)
	result := store.Result{EntryID: e.ID, State: store.EntryDead, Error: errorText(cause), Attempts: attempts, At: now}
	var p *panicError
	if errors.As(cause, &p) {
		result.Stack = p.stack
	}
	if err := tx.Finish(ctx, []store.Result{result}); err != nil {
		return fmt.Errorf("filing a dead letter: %w", err)
	}
	in := &input{entry: e}
	s := a.newStep(tx, []*input{in})
	w := s.entryException(in, kindDeadLetter, kindDeadLetter)
	w.Detail = encode(entryDetail{Reason: errorText(cause), Type: e.Type, Attempts: attempts})
	s.wanted = append(s.wanted, w)
	if err := s.except(ctx); err != nil {
		return err
	}
	return s.save(ctx)
}

type unreadable struct {
	entry store.Entry
	err   error
}

// read loads and parses the claimed entries. What cannot be parsed is returned apart.
func (a *Applier) read(ctx context.Context, tx store.Tx, items []store.ClaimedItem) ([]*input, []unreadable, error) {
	ids := make([]string, 0, len(items))
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	rows, err := tx.Bodies(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("reading bodies: %w", err)
	}
	byID := make(map[string]store.EntryWithBody, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	var inputs []*input
	var dead []unreadable
	for _, id := range ids {
		row, ok := byID[id]
		if !ok {
			dead = append(dead, unreadable{store.Entry{ID: id}, fmt.Errorf("entry %s has no body: %w", id, store.ErrNotFound)})
			continue
		}
		in, err := a.parse(row)
		if err != nil {
			dead = append(dead, unreadable{row.Entry, err})
			continue
		}
		in.waited = a.opt.Now().Sub(row.ReceivedAt) >= in.account.WaitFor
		inputs = append(inputs, in)
	}
	return inputs, dead, nil
}

func (a *Applier) parse(row store.EntryWithBody) (*input, error) {
	acc := a.opt.Accounts[row.Scope.Account]
	if acc == nil {
		return nil, fmt.Errorf("account %q is not configured", row.Scope.Account)
	}
	event, err := acc.Adapter.Parse(&acc.Account, row.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing event %s: %w", row.ID, err)
	}
	if row.Malformed {
		row.Scope = scopeOf(row.Scope, event)
	}
	return newInput(row, acc, event)
}

// scopeOf is the scope that evidence itself states. An entry that nobody could
// read when it was received was stored in the scope of its account.
func scopeOf(stored store.Scope, event provider.Event) store.Scope {
	if event.Mode == provider.Live || event.Mode == provider.Test {
		stored.Mode = string(event.Mode)
	}
	stored.Connected = event.Connected
	return stored
}

// newInput checks that everything that the event would have us store can be
// stored: names and ids are bounded text without control characters.
func newInput(row store.EntryWithBody, acc *Account, event provider.Event) (*input, error) {
	for _, f := range event.Facts {
		if f.Object == "" || !storable(f.Object) || !storable(f.Parent) || !storable(f.Operation) {
			return nil, fmt.Errorf("event %s names an object that cannot be one: %w", row.ID, provider.ErrMalformed)
		}
	}
	if !storable(event.Order) {
		event.Order = ""
	}
	return &input{entry: row.Entry, account: acc, event: event}, nil
}

func storable(name string) bool {
	return len(name) <= nameBytesMax && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// recoverTo turns a panic of a step into an error with its stack.
func recoverTo(err *error) {
	if v := recover(); v != nil {
		stack := string(debug.Stack())
		if len(stack) > stackBytesMax {
			stack = stack[:stackBytesMax]
		}
		*err = &panicError{value: v, stack: stack}
	}
}

// errorText is the message that is kept of a failure, bounded and valid text.
func errorText(err error) string {
	text := strings.ToValidUTF8(err.Error(), "�")
	if len(text) > errorBytesMax {
		text = strings.ToValidUTF8(text[:errorBytesMax], "") + "…"
	}
	return text
}

// releaseWithin bounds the last try to hand lanes back.
const releaseWithin = 5 * time.Second

// WorkOnce claims and works once from each queue, and says whether there was
// anything. It is for callers that drive the work themselves.
func (a *Applier) WorkOnce(ctx context.Context) bool {
	some := false
	for queue, work := range map[string]func(context.Context, store.Claim){
		store.QueueInbox: a.workInbox, store.QueueQuiet: a.workQuiet,
	} {
		claim, err := a.store.Claim(ctx, store.ClaimRequest{
			Queue: queue, Lanes: a.opt.Lanes, PerLane: a.opt.PerLane, Lease: a.opt.Lease,
		})
		if err != nil {
			a.opt.Logger.Warn("claiming failed", "queue", queue, "error", err)
			continue
		}
		if len(claim.Items) > 0 {
			some = true
			work(ctx, claim)
		}
	}
	return some
}

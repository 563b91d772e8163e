package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/unavez/unavez/store"
)

// change is what one step of a lane writes. It is fenced by the claim's token.
type change struct {
	token      string
	complete   []string
	postpone   []store.Postponed
	attempts   []store.Attempt
	states     map[string]store.MessageState
	exceptions []store.Exception
	// count begins attempts, which is committed before anything is sent.
	count []string
	// release ends the claim.
	release bool
	// settings are noted beside, for example that a destination is gone.
	settings map[string]string
}

// merge adds another change of the same token.
func (c *change) merge(o change) {
	c.complete = append(c.complete, o.complete...)
	c.postpone = append(c.postpone, o.postpone...)
	c.attempts = append(c.attempts, o.attempts...)
	c.exceptions = append(c.exceptions, o.exceptions...)
	c.count = append(c.count, o.count...)
	c.release = c.release || o.release
	add(&c.states, o.states)
	add(&c.settings, o.settings)
}

func add[V any](to *map[string]V, from map[string]V) {
	if *to == nil && len(from) > 0 {
		*to = map[string]V{}
	}
	for k, v := range from {
		(*to)[k] = v
	}
}

// ledger writes the changes of one destination's lanes. What was asked for
// while a commit ran shares the next one; there is no timer.
type ledger struct {
	store store.Store
	queue string
	in    chan request
}

type request struct {
	change change
	result chan error
}

func newLedger(s store.Store, queue string) *ledger {
	return &ledger{store: s, queue: queue, in: make(chan request, writesMax)}
}

// write returns when the change is committed, or with the reason why not. It
// does not end early: what became of a change must be known.
func (l *ledger) write(c change) error {
	result := make(chan error, 1)
	l.in <- request{c, result}
	return <-result
}

// run serves until in is closed.
func (l *ledger) run() {
	for first := range l.in {
		batch := []request{first}
		for len(batch) < writesMax {
			more, ok := l.next()
			if !ok {
				break
			}
			batch = append(batch, more)
		}
		l.commit(batch)
	}
}

func (l *ledger) next() (request, bool) {
	select {
	case r, ok := <-l.in:
		return r, ok
	default:
		return request{}, false
	}
}

// commit tries the changes in one transaction, and one by one if that fails
// because of one of them, so that a lost lease is the loss of its own lane alone.
func (l *ledger) commit(batch []request) {
	all := make([]change, len(batch))
	for i, r := range batch {
		all[i] = r.change
	}
	err := l.inTx(all)
	if err == nil || len(batch) == 1 || allAlike(err) {
		for _, r := range batch {
			r.result <- err
		}
		return
	}
	for _, r := range batch {
		r.result <- l.inTx([]change{r.change})
	}
}

// allAlike says that an error would meet each change, or that the changes may
// have been committed and must not be written blindly again.
func allAlike(err error) bool {
	for _, sentinel := range []error{
		store.ErrCommitUnknown, store.ErrUnavailable, store.ErrFull, store.ErrSchema, context.DeadlineExceeded,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

func (l *ledger) inTx(changes []change) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	grouped := byToken(changes)
	err := l.store.InTx(ctx, store.TxOptions{Timeout: writeWithin}, func(tx store.Tx) error {
		for i := range grouped {
			if err := l.fence(ctx, tx, &grouped[i]); err != nil {
				return err
			}
		}
		return l.record(ctx, tx, grouped)
	})
	if err != nil {
		return fmt.Errorf("writing to %s: %w", l.queue, err)
	}
	return nil
}

// byToken merges changes of one token, in the order of the tokens, so that two
// transactions lock in one order.
func byToken(changes []change) []change {
	at := map[string]int{}
	var grouped []change
	for _, c := range changes {
		i, ok := at[c.token]
		if !ok {
			i = len(grouped)
			at[c.token] = i
			grouped = append(grouped, change{token: c.token})
		}
		grouped[i].merge(c)
	}
	slices.SortFunc(grouped, func(a, b change) int {
		if a.token < b.token {
			return -1
		}
		return 1
	})
	return grouped
}

// fence changes the queue; a lost lease ends the transaction before anything
// else is written.
func (l *ledger) fence(ctx context.Context, tx store.Tx, c *change) error {
	if len(c.complete) > 0 {
		if err := tx.Complete(ctx, l.queue, c.token, c.complete); err != nil {
			return fmt.Errorf("completing %q: %w", c.complete, err)
		}
	}
	if len(c.postpone) > 0 {
		if err := tx.Postpone(ctx, l.queue, c.token, c.postpone); err != nil {
			return fmt.Errorf("postponing %q: %w", c.postpone[0].ID, err)
		}
	}
	if len(c.count) > 0 {
		if err := tx.CountAttempt(ctx, l.queue, c.token, c.count); err != nil {
			return fmt.Errorf("counting attempts at %q: %w", c.count, err)
		}
	}
	if c.release {
		if err := tx.Release(ctx, l.queue, c.token); err != nil {
			return fmt.Errorf("releasing lanes: %w", err)
		}
	}
	return nil
}

func (l *ledger) record(ctx context.Context, tx store.Tx, changes []change) error {
	var all change
	for _, c := range changes {
		all.merge(c)
	}
	if len(all.states) > 0 {
		if err := tx.RecordAttempts(ctx, all.attempts, all.states); err != nil {
			return fmt.Errorf("recording attempts: %w", err)
		}
	}
	if len(all.exceptions) > 0 {
		if err := tx.PutExceptions(ctx, all.exceptions); err != nil {
			return fmt.Errorf("opening exceptions: %w", err)
		}
	}
	for key, value := range all.settings {
		if err := tx.SetSetting(ctx, key, value); err != nil {
			return fmt.Errorf("noting %s: %w", key, err)
		}
	}
	return nil
}

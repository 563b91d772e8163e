package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

// The steps of the two sessions. The waiter is apply with an event that comes
// before its payment, the registrar the merchant's registration.
const (
	stepBegun  = iota // nothing was done yet
	stepLooked        // names were looked up without locks
	stepBound         // names were locked
	stepStored        // the entry was filed, or what waits was woken; not committed
	steps
)

// registrationMeetsWaiting: R2.10, no interleaving stores an event as waiting
// while the registration that it waits for goes by. Each session is held at
// each of its steps while the other runs as far as it can.
func registrationMeetsWaiting(t *testing.T, s []store.Store) {
	b := &bench{T: t, s: s[0]}
	for waiterFirst := range 2 {
		for at := range steps {
			name := fmt.Sprintf("pi_%d_%d", waiterFirst, at)
			id := fmt.Sprintf("evt_%d_%d", waiterFirst, at)
			b.insert(entry(id))
			b.enqueue(store.Work{Queue: store.QueueInbox, ID: id, Lane: id})
			c := b.claim(store.QueueInbox)
			waiter := func(ctx context.Context, s store.Store, hold func(step int)) error {
				return waitFor(ctx, s, c, id, name, hold)
			}
			registrar := func(ctx context.Context, s store.Store, hold func(step int)) error {
				return register(ctx, s, name, hold)
			}
			if waiterFirst == 0 {
				meet(t, s[0], s[len(s)-1], waiter, registrar, at)
			} else {
				meet(t, s[0], s[len(s)-1], registrar, waiter, at)
			}
			state := b.status(id)
			now, err := b.s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			applied := state.State == store.EntryProcessed
			if due := !state.NextAt.After(now); !applied && (!due || state.State != store.EntryReceived) {
				t.Errorf("held at step %d, waiter first %v: the entry is %s and due at %v, now is %v",
					at, waiterFirst == 0, state.State, state.NextAt, now)
			}
			b.drain()
		}
	}
}

// drain finishes whatever is due.
func (b *bench) drain() {
	b.Helper()
	c := b.claim(store.QueueInbox)
	b.tx(func(ctx context.Context, tx store.Tx) error {
		if err := tx.Complete(ctx, store.QueueInbox, c.Token, itemIDs(c)); err != nil {
			return err
		}
		return tx.Release(ctx, store.QueueInbox, c.Token)
	})
}

// waitFor does what apply does with an entry whose payment may not be there: it
// applies it where a name has an owner, and files it as waiting otherwise.
func waitFor(ctx context.Context, s store.Store, c store.Claim, id, name string, hold func(step int)) error {
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		hold(stepBegun)
		if _, err := tx.Owners(ctx, []store.ScopedName{named(name)}); err != nil {
			return err
		}
		hold(stepLooked)
		owners, err := tx.Bind(ctx, []store.Binding{{ScopedName: named(name)}})
		if err != nil {
			return err
		}
		hold(stepBound)
		if owners[named(name)] != "" {
			if err := tx.Finish(ctx, []store.Result{result(id)}); err != nil {
				return err
			}
			if err := tx.Complete(ctx, store.QueueInbox, c.Token, []string{id}); err != nil {
				return err
			}
		} else {
			if err := tx.Wait(ctx, []store.Waiting{{EntryID: id, Name: named(name)}}); err != nil {
				return err
			}
			err := tx.Postpone(ctx, store.QueueInbox, c.Token, []store.Postponed{{ID: id, Delay: time.Hour, Waiting: true}})
			if err != nil {
				return err
			}
		}
		hold(stepStored)
		return tx.Release(ctx, store.QueueInbox, c.Token)
	})
}

// register does what a registration does.
func register(ctx context.Context, s store.Store, name string, hold func(step int)) error {
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		hold(stepBegun)
		if _, err := tx.Owners(ctx, []store.ScopedName{named(name)}); err != nil {
			return err
		}
		hold(stepLooked)
		if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: named(name), Payment: "pay_" + name, Registered: true}}); err != nil {
			return err
		}
		hold(stepBound)
		if _, err := tx.WakeWaiting(ctx, []store.ScopedName{named(name)}); err != nil {
			return err
		}
		hold(stepStored)
		return nil
	})
}

// session is one of the two sides.
type session func(ctx context.Context, s store.Store, hold func(step int)) error

// meet holds the first session at a step until the second has come as far as it
// can: to its end, or to a lock that the first one holds. Which of the two it
// is need not be known: the first goes on when the second has passed its first
// step or waits to begin.
func meet(t *testing.T, s1, s2 store.Store, first, second session, at int) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var done sync.WaitGroup
	var err1, err2 error
	done.Go(func() {
		err1 = first(t.Context(), s1, func(step int) {
			if step == at {
				once.Do(func() { close(reached); <-goOn })
			}
		})
		once.Do(func() { close(reached) })
	})
	<-reached
	ended, begun := make(chan struct{}), make(chan struct{})
	var began sync.Once
	done.Go(func() {
		defer close(ended)
		err2 = second(t.Context(), s2, func(step int) {
			if step == stepLooked {
				began.Do(func() { close(begun) })
			}
		})
	})
	// A backend with one writer lets the second only begin when the first is
	// through; the others let it run to the lock. Neither is a matter of time.
	select {
	case <-begun:
		if at < stepBound {
			<-ended
		}
	case <-time.After(holdWithin):
	}
	close(goOn)
	done.Wait()
	if err1 != nil || err2 != nil {
		t.Fatalf("held at step %d: first %v, second %v", at, err1, err2)
	}
}

// holdWithin is how long the first session is held where the second cannot even
// begin. Longer or shorter changes what is tried, not what is right.
const holdWithin = 30 * time.Millisecond

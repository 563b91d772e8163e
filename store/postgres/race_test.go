package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
)

// held runs the steps of one transaction, and stops before the step numbered
// stop until it is let go; len(steps) is before COMMIT.
type held struct {
	reached chan struct{}
	let     chan struct{}
	done    chan error
}

func hold(t *testing.T, s *postgres.Store, stop int, steps ...func(store.Tx) error) *held {
	h := &held{reached: make(chan struct{}), let: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		var once sync.Once
		wait := func() { once.Do(func() { close(h.reached); <-h.let }) }
		h.done <- s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
			for i, step := range steps {
				if i == stop {
					wait()
				}
				if err := step(tx); err != nil {
					return err
				}
			}
			if stop == len(steps) {
				wait()
			}
			return nil
		})
	}()
	return h
}

// settled waits until the other transaction has either ended or waits for a
// lock, so that the held one is let go only when both have come as far as they can.
func settled(t *testing.T, watch *pgx.Conn, done <-chan error) error {
	t.Helper()
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		var blocked bool
		err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			return errBlocked
		}
	}
}

var errBlocked = errors.New("waits for a lock")

// R2.10: evidence that is just being stored as waiting meets the registration
// of its payment. Each is held at each of its steps while the other runs: no
// interleaving leaves the entry waiting.
func TestRegistrationMeetsWaiting(t *testing.T) {
	url := database(t)
	s := open(t, url, postgres.Options{})
	watch, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close(context.Background())
	run := 0
	for _, first := range []string{"waiting", "registration"} {
		for stop := 0; stop <= 4; stop++ {
			if first == "registration" && stop > 2 {
				break
			}
			run++
			t.Run(fmt.Sprintf("%s held before step %d", first, stop), func(t *testing.T) { meet(t, s, watch, first, stop, run) })
		}
	}
}

func meet(t *testing.T, s *postgres.Store, watch *pgx.Conn, first string, stop, run int) {
	ctx := t.Context()
	id := fmt.Sprintf("evt_%d", run)
	name := store.ScopedName{Scope: live, Value: fmt.Sprintf("pi_%d", run)}
	err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return tx.Enqueue(ctx, []store.Work{{Queue: store.QueueInbox, ID: id, Lane: id}})
	})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := s.Claim(ctx, store.ClaimRequest{Queue: store.QueueInbox, Lanes: 1, PerLane: 1, Lease: time.Hour})
	if err != nil || len(claim.Items) != 1 {
		t.Fatalf("claimed %+v, %v", claim, err)
	}
	owned := false
	wait := []func(store.Tx) error{
		func(tx store.Tx) error {
			owners, err := tx.Bind(ctx, []store.Binding{{ScopedName: name}})
			owned = owners[name] != ""
			return err
		},
		func(tx store.Tx) error {
			if owned {
				return nil
			}
			return tx.Wait(ctx, []store.Waiting{{EntryID: id, Name: name}})
		},
		func(tx store.Tx) error {
			if owned { // it would be applied; here it is only put back
				return tx.Postpone(ctx, store.QueueInbox, claim.Token, []store.Postponed{{ID: id}})
			}
			return tx.Postpone(ctx, store.QueueInbox, claim.Token, []store.Postponed{{ID: id, Delay: time.Hour, Waiting: true}})
		},
		func(tx store.Tx) error { return tx.Release(ctx, store.QueueInbox, claim.Token) },
	}
	register := []func(store.Tx) error{
		func(tx store.Tx) error {
			_, err := tx.Bind(ctx, []store.Binding{{ScopedName: name, Payment: "pay_1", Registered: true}})
			return err
		},
		func(tx store.Tx) error {
			_, err := tx.WakeWaiting(ctx, []store.ScopedName{name})
			return err
		},
	}
	if first == "registration" {
		wait, register = register, wait
	}
	one := hold(t, s, stop, wait...)
	<-one.reached
	two := hold(t, s, -1, register...)
	early := settled(t, watch, two.done)
	close(one.let)
	err = <-one.done
	if errors.Is(early, errBlocked) {
		early = <-two.done
	}
	if err != nil || early != nil {
		t.Fatalf("%v, %v", err, early)
	}
	claim, err = s.Claim(ctx, store.ClaimRequest{Queue: store.QueueInbox, Lanes: 10, PerLane: 10, Lease: time.Hour})
	if err != nil || len(claim.Items) != 1 || claim.Items[0].ID != id || claim.Items[0].Waiting {
		t.Fatalf("the entry is not due: %+v, %v", claim.Items, err)
	}
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return errors.Join(tx.Complete(ctx, store.QueueInbox, claim.Token, []string{id}), tx.Release(ctx, store.QueueInbox, claim.Token))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// R2.7, R8.5: workers that enqueue, claim, complete, postpone and die over few
// lanes, from two processes. Nothing is lost, nothing is worked by two at once,
// and no lane is held by two.
func TestLanesUnderLoad(t *testing.T) {
	const workers, lanes, perWorker = 8, 5, 40
	url := database(t)
	stores := []*postgres.Store{open(t, url, postgres.Options{}), open(t, url, postgres.Options{})}
	f := &floor{held: map[string]int{}, done: map[string]int{}}
	var producing, working sync.WaitGroup
	for w := range workers {
		producing.Go(func() {
			for i := range perWorker {
				f.fail(enqueueOne(t.Context(), stores[w%2], fmt.Sprintf("%d.%d", w, i), fmt.Sprint((w+i)%lanes)))
			}
		})
		working.Go(func() {
			for round := 0; f.left(workers * perWorker); round++ {
				f.fail(f.work(t.Context(), stores[w%2], w, round))
			}
		})
	}
	producing.Wait()
	working.Wait()
	for _, err := range f.errs {
		t.Error(err)
	}
	for id, n := range f.done {
		if n != 1 {
			t.Errorf("%s was completed %d times", id, n)
		}
	}
	clean(t, url)
}

func enqueueOne(ctx context.Context, s *postgres.Store, id, lane string) error {
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return tx.Enqueue(ctx, []store.Work{{Queue: "q", ID: id, Lane: lane}})
	})
}

// floor is what the test knows of who works on what.
type floor struct {
	mu   sync.Mutex
	held map[string]int
	done map[string]int
	errs []error
}

func (f *floor) fail(err error) {
	if err != nil {
		f.mu.Lock()
		f.errs = append(f.errs, err)
		f.mu.Unlock()
	}
}

func (f *floor) left(all int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.done) < all && len(f.errs) == 0
}

// change counts who holds a lane, inside the database's own exclusion.
func (f *floor) change(claim store.Claim, by int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[string]bool{}
	for _, it := range claim.Items {
		if !seen[it.Lane] {
			seen[it.Lane] = true
			if f.held[it.Lane] += by; f.held[it.Lane] > 1 {
				return fmt.Errorf("lane %s is held by %d", it.Lane, f.held[it.Lane])
			}
		}
	}
	return nil
}

func (f *floor) work(ctx context.Context, s *postgres.Store, worker, round int) error {
	claim, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Lanes: 2, PerLane: 4, Lease: time.Hour})
	if err != nil || len(claim.Items) == 0 {
		return err
	}
	if err := f.change(claim, 1); err != nil {
		return err
	}
	var ids []string
	for _, it := range claim.Items {
		ids = append(ids, it.ID)
	}
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		if (worker+round)%3 == 0 { // the first is put back, the others are done
			if err := tx.Postpone(ctx, "q", claim.Token, []store.Postponed{{ID: ids[0]}}); err != nil {
				return err
			}
			return tx.Complete(ctx, "q", claim.Token, ids[1:])
		}
		return tx.Complete(ctx, "q", claim.Token, ids)
	})
	if err != nil {
		return err
	}
	if (worker+round)%3 == 0 {
		ids = ids[1:]
	}
	f.mu.Lock()
	for _, id := range ids {
		f.done[id]++
	}
	f.mu.Unlock()
	if err := f.change(claim, -1); err != nil {
		return err
	}
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.Release(ctx, "q", claim.Token) })
}

// Every item of a lane comes out in the order in which it went in, although
// the writers of the lane run at once.
func TestOrderOfALane(t *testing.T) {
	const writers, each = 6, 25
	s := open(t, database(t), postgres.Options{})
	var mu sync.Mutex
	var committed []string
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d.%02d", w, i)
				err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
					if err := tx.Enqueue(t.Context(), []store.Work{{Queue: "q", ID: id, Lane: "l"}}); err != nil {
						return err
					}
					// The lane is locked from here to the commit.
					mu.Lock()
					committed = append(committed, id)
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	claim, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Lanes: 1, PerLane: writers * each, Lease: time.Hour, Ordered: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range claim.Items {
		got = append(got, it.ID)
	}
	if !slices.Equal(got, committed) {
		t.Errorf("went in as %s\ncame out as %s", strings.Join(committed, " "), strings.Join(got, " "))
	}
}

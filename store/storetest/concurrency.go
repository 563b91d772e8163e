package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

// OpenMany returns that many handles on one fresh, migrated database, closed at
// the test's end. A backend that cannot open one database twice repeats a handle.
type OpenMany func(t *testing.T, handles int) []store.Store

// RunConcurrency proves what sessions do to each other.
func RunConcurrency(t *testing.T, open OpenMany) {
	const handles = 3
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s []store.Store)
	}{
		{"OneWinnerOfAnIdentity", oneWinner},
		{"BatchesInOppositeOrder", oppositeOrder},
		{"ClaimsAreExclusive", claimsAreExclusive},
		{"LanesStayInOrder", lanesStayInOrder},
		{"LapsedLeaseIsFenced", lapsedLease},
		{"EnqueueMeetsRelease", enqueueMeetsRelease},
		{"RegistrationMeetsWaiting", registrationMeetsWaiting},
		{"OneOwnerOfAName", oneOwner},
		{"LockedPaymentIsNotLostUpdate", lockedPayment},
		{"OneOrderOfAKey", oneOrder},
		{"AuditChainsDoNotFork", auditRace},
		{"OneRunOfAnIdempotencyKey", oneRun},
		{"LockTimeout", lockTimeout},
		{"MigrateTogether", migrateTogether},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t, handles)) })
	}
}

// together runs fn for each of n sessions at once, spread over the handles.
func together(t *testing.T, s []store.Store, n int, fn func(session int, s store.Store) error) {
	t.Helper()
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, n)
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			errs[i] = fn(i, s[i%len(s)])
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
}

// oneWinner: R2.2, a unique constraint arbitrates concurrent deliveries.
func oneWinner(t *testing.T, s []store.Store) {
	const sessions, entries, rounds = 6, 20, 3
	for round := range rounds {
		answers := make([][]store.Inserted, sessions)
		together(t, s, sessions, func(session int, s store.Store) error {
			batch := make([]store.EntryWithBody, entries)
			for i := range batch {
				e := entry(fmt.Sprintf("evt_%d_%d_%d", round, session, i))
				e.Identity = fmt.Sprintf("event %d %d", round, i)
				e.Bytes = []byte(e.ID)
				batch[i] = e
			}
			if session%2 == 1 {
				slices.Reverse(batch)
			}
			err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) (err error) {
				answers[session], err = tx.InsertEntries(t.Context(), batch)
				return err
			})
			if session%2 == 1 {
				slices.Reverse(answers[session])
			}
			return err
		})
		for i := range entries {
			winners, ids := 0, map[string]bool{}
			for session := range sessions {
				a := answers[session][i]
				ids[a.ID] = true
				if a.New {
					winners++
				}
			}
			if winners != 1 || len(ids) != 1 {
				t.Fatalf("round %d, event %d: %d winners, ids %v", round, i, winners, ids)
			}
		}
	}
}

// oppositeOrder: sorted locks and retries keep batches from blocking each other for good.
func oppositeOrder(t *testing.T, s []store.Store) {
	const sessions, rounds, lanes = 6, 8, 12
	b := &bench{T: t, s: s[0]}
	for i := range lanes {
		b.insertPayment(pay("pay_"+number(i), "o-"+number(i)))
	}
	together(t, s, sessions, func(session int, s store.Store) error {
		for round := range rounds {
			err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
				var work []store.Work
				var bindings []store.Binding
				var payments []string
				for i := range lanes {
					work = append(work, store.Work{Queue: q, ID: fmt.Sprint(session, round, i), Lane: number(i)})
					bindings = append(bindings, store.Binding{ScopedName: named("pi_" + number(i))})
					payments = append(payments, "pay_"+number(i))
				}
				if session%2 == 1 {
					slices.Reverse(work)
					slices.Reverse(bindings)
					slices.Reverse(payments)
				}
				if _, err := tx.LockPayments(t.Context(), payments); err != nil {
					return err
				}
				if _, err := tx.Bind(t.Context(), bindings); err != nil {
					return err
				}
				return tx.Enqueue(t.Context(), work)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if got := len(b.claim(q).Items); got != sessions*rounds*lanes {
		t.Errorf("%d items, want %d", got, sessions*rounds*lanes)
	}
}

// claimsAreExclusive: no lane is held twice, every item is worked exactly once.
func claimsAreExclusive(t *testing.T, s []store.Store) {
	const sessions, lanes, perLane = 6, 15, 8
	b := &bench{T: t, s: s[0]}
	for i := range perLane {
		var batch []store.Work
		for lane := range lanes {
			batch = append(batch, work(fmt.Sprintf("%02d/%d", lane, i), number(lane)))
		}
		b.enqueue(batch...)
	}
	floor := workFloor{held: map[string]bool{}, worked: map[string]int{}}
	together(t, s, sessions, func(session int, s store.Store) error {
		for floor.count() < lanes*perLane {
			c, err := s.Claim(t.Context(), store.ClaimRequest{Queue: q, Lanes: 2, PerLane: 3, Lease: time.Hour})
			if err != nil {
				return err
			}
			if err := floor.workOff(t.Context(), s, c); err != nil {
				return err
			}
		}
		return nil
	})
	for id, n := range floor.worked {
		if n != 1 {
			t.Errorf("%s was worked %d times", id, n)
		}
	}
}

// workFloor is what the test knows of who holds which lane.
type workFloor struct {
	mu     sync.Mutex
	held   map[string]bool
	worked map[string]int
	order  []string
}

func (f *workFloor) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.worked)
}

// take notes the claim; a lane that somebody holds already is an error.
func (f *workFloor) take(c store.Claim) (ids, lanes []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range c.Items {
		ids = append(ids, it.ID)
		f.worked[it.ID]++
		f.order = append(f.order, it.ID)
		if slices.Contains(lanes, it.Lane) {
			continue
		}
		lanes = append(lanes, it.Lane)
		if f.held[it.Lane] {
			return nil, nil, fmt.Errorf("lane %s is held twice", it.Lane)
		}
		f.held[it.Lane] = true
	}
	return ids, lanes, nil
}

func (f *workFloor) workOff(ctx context.Context, s store.Store, c store.Claim) error {
	ids, lanes, err := f.take(c)
	if err != nil {
		return err
	}
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.Complete(ctx, q, c.Token, ids) })
	if err != nil {
		return err
	}
	f.mu.Lock()
	for _, lane := range lanes {
		delete(f.held, lane)
	}
	f.mu.Unlock()
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.Release(ctx, q, c.Token) })
}

// lanesStayInOrder: while others enqueue, a lane yields its items in the order
// in which they were committed.
func lanesStayInOrder(t *testing.T, s []store.Store) {
	const writers, perWriter = 4, 25
	var mu sync.Mutex
	var committed []string
	floor := workFloor{held: map[string]bool{}, worked: map[string]int{}}
	ctx := t.Context()
	together(t, s, writers+1, func(session int, s store.Store) error {
		if session == writers {
			for floor.count() < writers*perWriter {
				c, err := s.Claim(ctx, store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 3, Lease: time.Hour, Ordered: true})
				if err != nil {
					return err
				}
				if err := floor.workOff(ctx, s, c); err != nil {
					return err
				}
			}
			return nil
		}
		for i := range perWriter {
			id := fmt.Sprintf("%d/%d", session, i)
			err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
				// The lane's lock is held from here to the commit, so what is
				// noted under it is noted in the order of the commits.
				if err := tx.Enqueue(ctx, []store.Work{work(id, "a")}); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				committed = append(slices.DeleteFunc(committed, func(c string) bool { return c == id }), id)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if !slices.Equal(floor.order, committed) {
		t.Errorf("worked in the order\n%v\ncommitted in\n%v", floor.order, committed)
	}
}

// lapsedLease: a worker that slept through its lease cannot complete what
// another has taken, whichever session it speaks through.
func lapsedLease(t *testing.T, s []store.Store) {
	old, young := &bench{T: t, s: s[0]}, &bench{T: t, s: s[len(s)-1]}
	old.enqueue(work("1", "a"))
	lapsed := old.crashed(q)
	taken := young.claim(q)
	old.fails(store.ErrLeaseLost, func(ctx context.Context, tx store.Tx) error { return tx.Complete(ctx, q, lapsed.Token, []string{"1"}) })
	old.fails(store.ErrLeaseLost, func(ctx context.Context, tx store.Tx) error { return tx.Extend(ctx, q, lapsed.Token, time.Hour) })
	young.complete(taken.Token, "1")
}

// enqueueMeetsRelease: however an enqueue and a release of one lane meet, the
// new item is not forgotten.
func enqueueMeetsRelease(t *testing.T, s []store.Store) {
	const rounds = 40
	b := &bench{T: t, s: s[0]}
	for round := range rounds {
		first, second := work(fmt.Sprintf("%d/1", round), "a"), work(fmt.Sprintf("%d/2", round), "a")
		b.enqueue(first)
		c := b.claim(q)
		together(t, s, 2, func(session int, s store.Store) error {
			return s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
				if session == 1 {
					return tx.Enqueue(t.Context(), []store.Work{second})
				}
				if err := tx.Complete(t.Context(), q, c.Token, []string{first.ID}); err != nil {
					return err
				}
				return tx.Release(t.Context(), q, c.Token)
			})
		})
		c = b.claim(q)
		if got := strings.Join(itemIDs(c), " "); got != second.ID {
			t.Fatalf("round %d: claimed %q, want %s", round, got, second.ID)
		}
		b.complete(c.Token, second.ID)
		b.release(c.Token)
	}
}

// oneOwner: two registrations that want one name agree on who has it.
func oneOwner(t *testing.T, s []store.Store) {
	const sessions, names = 6, 10
	owners := make([]map[store.ScopedName]string, sessions)
	together(t, s, sessions, func(session int, s store.Store) error {
		return s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) (err error) {
			var bindings []store.Binding
			for i := range names {
				bindings = append(bindings, store.Binding{ScopedName: named(number(i)), Payment: "pay_" + number(session)})
			}
			if session%2 == 1 {
				slices.Reverse(bindings)
			}
			owners[session], err = tx.Bind(t.Context(), bindings)
			return err
		})
	})
	for i := range names {
		for session := range sessions {
			if owners[session][named(number(i))] != owners[0][named(number(i))] || owners[0][named(number(i))] == "" {
				t.Fatalf("name %d belongs to %q and to %q", i, owners[session][named(number(i))], owners[0][named(number(i))])
			}
		}
	}
}

// lockedPayment: what one session changes under the lock the next one sees.
func lockedPayment(t *testing.T, s []store.Store) {
	const sessions, rounds = 6, 15
	b := &bench{T: t, s: s[0]}
	first := pay("pay_1", "o-1")
	first.Version = 0
	b.insertPayment(first)
	together(t, s, sessions, func(session int, s store.Store) error {
		for range rounds {
			err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
				rows, err := tx.LockPayments(t.Context(), []string{"pay_1"})
				if err != nil {
					return err
				}
				rows[0].Version++
				return tx.Save(t.Context(), store.Changes{Payments: rows})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	got := read(b, func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "pay_1") })
	if got.Version != sessions*rounds {
		t.Errorf("version %d after %d changes", got.Version, sessions*rounds)
	}
}

func oneOrder(t *testing.T, s []store.Store) {
	const sessions = 6
	got := make([]store.Order, sessions)
	together(t, s, sessions, func(session int, s store.Store) error {
		return s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) (err error) {
			got[session], err = tx.UpsertOrder(t.Context(), order("ord_"+number(session), "o-1"))
			return err
		})
	})
	for session := range sessions {
		if got[session].ID != got[0].ID {
			t.Fatalf("one order has the ids %s and %s", got[session].ID, got[0].ID)
		}
	}
}

func auditRace(t *testing.T, s []store.Store) {
	const sessions, rounds = 6, 8
	together(t, s, sessions, func(session int, s store.Store) error {
		for i := range rounds {
			rows := []store.AuditRow{
				{ID: fmt.Sprintf("aud_%d_%d_a", session, i), Subject: "a", At: base}, {ID: fmt.Sprintf("aud_%d_%d_b", session, i), Subject: "b", At: base},
			}
			if session%2 == 1 {
				slices.Reverse(rows)
			}
			err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error { return tx.AppendAudit(t.Context(), rows) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	b := &bench{T: t, s: s[0]}
	for _, subject := range []string{"a", "b"} {
		chain := read(b, func(ctx context.Context, r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(ctx, subject) })
		head := store.AuditHead{}
		for i := range chain {
			if !chain[i].Intact(head) {
				t.Fatalf("row %d of %s breaks the chain", i, subject)
			}
			head = store.AuditHead{Version: chain[i].Version, Hash: chain[i].Hash}
		}
		if len(chain) != sessions*rounds {
			t.Errorf("%d rows, want %d", len(chain), sessions*rounds)
		}
	}
}

func oneRun(t *testing.T, s []store.Store) {
	const sessions = 6
	var began [sessions]bool
	together(t, s, sessions, func(session int, s store.Store) error {
		return s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) (err error) {
			_, began[session], err = tx.BeginKey(t.Context(), key("k"))
			return err
		})
	})
	runs := 0
	for _, b := range began {
		if b {
			runs++
		}
	}
	if runs != 1 {
		t.Errorf("%d sessions run the request of one key", runs)
	}
}

// lockTimeout: a transaction that waits for a lock gives up in its time, and
// the store is as good as before.
func lockTimeout(t *testing.T, s []store.Store) {
	b := &bench{T: t, s: s[0]}
	b.insertPayment(pay("pay_1", "o-1"))
	lock := func(tx store.Tx) error {
		_, err := tx.LockPayments(t.Context(), []string{"pay_1"})
		return err
	}
	held, let := make(chan struct{}), make(chan struct{})
	holder := make(chan error, 1)
	go func() {
		holder <- s[0].InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
			err := lock(tx)
			close(held)
			<-let
			return err
		})
	}()
	<-held
	short := store.TxOptions{LockTimeout: 50 * time.Millisecond, NoRetry: true}
	for i, other := range s {
		if err := other.InTx(t.Context(), short, lock); !errors.Is(err, store.ErrBusy) {
			t.Errorf("handle %d: %v, want ErrBusy", i, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s[len(s)-1].InTx(ctx, store.TxOptions{}, lock); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller that goes away: %v", err)
	}
	close(let)
	if err := <-holder; err != nil {
		t.Errorf("the holder: %v", err)
	}
	for i, other := range s {
		if err := other.InTx(t.Context(), store.TxOptions{}, lock); err != nil {
			t.Errorf("handle %d afterwards: %v", i, err)
		}
	}
}

func migrateTogether(t *testing.T, s []store.Store) {
	together(t, s, len(s)*2, func(_ int, s store.Store) error {
		_, err := s.MigrateUp(t.Context())
		return err
	})
}

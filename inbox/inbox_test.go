package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/store"
)

// R1.7: what Put acknowledges is durable, received and not processed, with its
// bytes and its work. R1.8: a copy is acknowledged and repeats nothing.
func TestPut(t *testing.T) { onLedgers(t, testPut) }

func testPut(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	d := draft("e1", 4800)
	if got := put(t, in, d); got != (inbox.Receipt{ID: d.ID}) {
		t.Fatalf("receipt %+v", got)
	}
	e := entry(t, s, d.ID)
	if e.State != store.EntryReceived || e.Identity != "e1" || !e.ReceivedAt.Equal(begin) || e.Trace != "trace" {
		t.Errorf("entry %+v", e)
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		b, err := r.Body(t.Context(), d.ID)
		if !bytes.Equal(b.Bytes, []byte("e1 4800 \x00\xff")) {
			t.Errorf("body %q", b.Bytes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := put(t, in, draft("e1", 4800)); got != (inbox.Receipt{ID: d.ID, Duplicate: true}) {
			t.Errorf("copy: receipt %+v", got)
		}
	}
	if got := work(t, s); len(got) != 1 || got[d.ID] != "shop/live//line_e1" {
		t.Errorf("work %v", got)
	}
	stop(t, in)
	if e := entry(t, s, d.ID); e.Deliveries != 3 {
		t.Errorf("%d further deliveries, want 3", e.Deliveries)
	}
	if _, err := in.Put(t.Context(), draft("e2", 1)); !errors.Is(err, inbox.ErrStopped) {
		t.Errorf("after the stop: %v", err)
	}
}

// R1.2: one event id in two accounts, modes, and connected accounts is apart.
func TestIdentityIsScoped(t *testing.T) { onLedgers(t, testIdentityIsScoped) }

func testIdentityIsScoped(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	other := *account
	other.Name = "other"
	ids := map[string]bool{}
	for i := range 4 {
		ev := evidence("e1", 1)
		switch i {
		case 1:
			ev.Account = &other
		case 2:
			ev.Event.Mode = "test"
		case 3:
			ev.Event.Connected, ev.Event.Identity = "acct_9", "acct_9:e1"
		}
		ids[put(t, in, inbox.NewDraft(ev)).ID] = true
	}
	if len(ids) != 4 || len(entries(t, s)) != 4 {
		t.Errorf("%d entries, want 4", len(ids))
	}
}

// What queued up while the previous commit ran is the next commit.
func TestOneCommitForAllThatWait(t *testing.T) {
	const n = 50
	f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
	in := start(t, f, inbox.Options{Flushers: 1})
	var waiting sync.WaitGroup
	store1 := func(i int) {
		waiting.Go(func() {
			if _, err := in.Put(t.Context(), draft(fmt.Sprint("e", i), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	store1(0)
	eventually(t, "first transaction", func() bool { return f.txs.Load() == 1 })
	for i := range n {
		store1(1 + i)
	}
	eventually(t, "queue", func() bool { return in.Queued() == n })
	f.gate <- struct{}{}
	f.gate <- struct{}{}
	waiting.Wait()
	close(f.gate)
	if got := f.txs.Load(); got != 2 {
		t.Errorf("%d transactions, want 2", got)
	}
	if got := len(entries(t, f)); got != n+1 {
		t.Errorf("%d entries, want %d", got, n+1)
	}
}

// R2.2: the unique constraint decides between processes; R1.8: the losers are
// acknowledged and counted.
func TestConcurrentCopies(t *testing.T) { onLedgers(t, testConcurrentCopies) }

func testConcurrentCopies(t *testing.T, open func() store.Store) {
	const events, clients, copies = 40, 64, 8
	a, b := open(), open()
	inboxes := []*inbox.Inbox{start(t, a, inbox.Options{}), start(t, b, inbox.Options{})}
	var mu sync.Mutex
	fresh := map[string]int{}
	var clientsDone sync.WaitGroup
	for c := range clients {
		clientsDone.Go(func() {
			for i := range events * copies / clients * 2 {
				identity := fmt.Sprint("e", (c*7+i*3)%events)
				r, err := inboxes[(c+i)%2].Put(t.Context(), draft(identity, 1))
				if err != nil {
					t.Error(err)
					return
				}
				if !r.Duplicate {
					mu.Lock()
					fresh[identity]++
					mu.Unlock()
				}
			}
		})
	}
	clientsDone.Wait()
	for _, in := range inboxes {
		stop(t, in)
	}
	all := entries(t, a)
	deliveries := 0
	for _, e := range all {
		deliveries += e.Deliveries
		if fresh[e.Identity] != 1 {
			t.Errorf("%s was new %d times", e.Identity, fresh[e.Identity])
		}
	}
	if len(all) != events || len(work(t, a)) != events {
		t.Errorf("%d entries, want %d", len(all), events)
	}
	if want := events*copies*2 - events; deliveries != want {
		t.Errorf("%d further deliveries counted, want %d", deliveries, want)
	}
}

// Duplicates inside one batch: each item once, the batch acknowledged.
func TestPutAll(t *testing.T) { onLedgers(t, testPutAll) }

func testPutAll(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	var drafts []inbox.Draft
	for i := range 200 {
		drafts = append(drafts, draft(fmt.Sprint("e", i%150), 1))
	}
	receipts, err := in.PutAll(t.Context(), drafts)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range receipts {
		if r.Duplicate != (i >= 150) || r.ID != drafts[i%150].ID {
			t.Errorf("item %d: %+v", i, r)
		}
	}
	if got := len(entries(t, s)); got != 150 {
		t.Errorf("%d entries", got)
	}
}

// R1.9: one bad item does not lose the others, nor its neighbors in the batch.
func TestBadRowFailsAlone(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("value out of range") },
		"panic": func() error { panic("row") },
	} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{Store: openSQLite(t)}
			f.insert = func(rows []store.EntryWithBody) error {
				for _, r := range rows {
					if r.Identity == "e13" || r.Identity == "e40" {
						return fail()
					}
				}
				return nil
			}
			in := start(t, f, inbox.Options{Flushers: 1})
			var drafts []inbox.Draft
			for i := range 60 {
				drafts = append(drafts, draft(fmt.Sprint("e", i), 1))
			}
			receipts, err := in.PutAll(t.Context(), drafts)
			if !errors.Is(err, inbox.ErrNotStored) {
				t.Errorf("error %v", err)
			}
			for i, r := range receipts {
				if bad := i == 13 || i == 40; bad != (r.ID == "") {
					t.Errorf("item %d: %+v", i, r)
				}
			}
			if got := len(entries(t, f)); got != 58 {
				t.Errorf("%d entries, want 58", got)
			}
		})
	}
}

// A ledger that is down is asked once for a batch, not once for each row.
func TestUnavailable(t *testing.T) {
	for _, cause := range []error{store.ErrUnavailable, store.ErrBusy, store.ErrFull, store.ErrSchema} {
		f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
		f.before = func() error { return fmt.Errorf("wrapped: %w", cause) }
		in := start(t, f, inbox.Options{Flushers: 1})
		var waiting sync.WaitGroup
		refused := func(d inbox.Draft) {
			waiting.Go(func() {
				r, err := in.Put(t.Context(), d)
				if !errors.Is(err, inbox.ErrNotStored) || !errors.Is(err, cause) || r.ID != "" {
					t.Errorf("%v: %+v, %v", cause, r, err)
				}
			})
		}
		refused(draft("first", 1))
		eventually(t, "first transaction", func() bool { return f.txs.Load() == 1 })
		for i := range 30 {
			refused(draft(fmt.Sprint("e", i), 1))
		}
		eventually(t, "queue", func() bool { return in.Queued() == 30 })
		close(f.gate)
		waiting.Wait()
		if got := f.txs.Load(); got != 2 {
			t.Errorf("%v: %d transactions, want 2", cause, got)
		}
		f.set(func() { f.before = nil })
		if r := put(t, in, draft("e1", 1)); r.Duplicate {
			t.Errorf("%v: afterwards %+v", cause, r)
		}
	}
}

// Overload is an error, never memory: rows and bytes of the queue are bounded.
func TestOverload(t *testing.T) {
	for name, opt := range map[string]inbox.Options{
		"rows":  {Flushers: 1, QueueRowsMax: 4},
		"bytes": {Flushers: 1, QueueBytesMax: 4 * 13},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
			in := start(t, f, opt)
			var waiting sync.WaitGroup
			background := func(identity string) {
				waiting.Go(func() {
					ev := evidence(identity, 1)
					ev.Payload = []byte("thirteen by") // 11 bytes, and 2 of headers
					if _, err := in.Put(t.Context(), inbox.NewDraft(ev)); err != nil {
						t.Errorf("%s: %v", identity, err)
					}
				})
			}
			background("a0")
			eventually(t, "first transaction", func() bool { return f.txs.Load() == 1 })
			for i := range 4 {
				background(fmt.Sprint("b", i))
			}
			eventually(t, "queue", func() bool { return in.Queued() == 4 })
			for i := range 1000 {
				if _, err := in.Put(t.Context(), draft(fmt.Sprint("c", i), 1)); !errors.Is(err, inbox.ErrOverloaded) {
					t.Fatalf("put %d: %v", i, err)
				}
			}
			if in.Queued() != 4 {
				t.Errorf("%d rows wait", in.Queued())
			}
			close(f.gate)
			waiting.Wait()
			if got := len(entries(t, f)); got != 5 {
				t.Errorf("%d entries, want 5", got)
			}
		})
	}
}

// A caller that hangs up leaves whole or nothing, and the batch does not suffer.
func TestHangUp(t *testing.T) {
	f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
	in := start(t, f, inbox.Options{Flushers: 1})
	gone, hangUp := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	left := draft("left", 1)
	waiting.Go(func() {
		if _, err := in.Put(gone, left); !errors.Is(err, inbox.ErrNotStored) || !errors.Is(err, context.Canceled) {
			t.Errorf("the one who left: %v", err)
		}
	})
	eventually(t, "first transaction", func() bool { return f.txs.Load() == 1 })
	waiting.Go(func() {
		if _, err := in.Put(gone, draft("left2", 1)); !errors.Is(err, inbox.ErrNotStored) {
			t.Errorf("the one who left: %v", err)
		}
	})
	waiting.Go(func() {
		if _, err := in.Put(t.Context(), draft("stays", 1)); err != nil {
			t.Errorf("the neighbor: %v", err)
		}
	})
	eventually(t, "queue", func() bool { return in.Queued() == 2 })
	hangUp()
	if _, err := in.Put(gone, draft("late", 1)); !errors.Is(err, inbox.ErrNotStored) {
		t.Errorf("gone before: %v", err)
	}
	close(f.gate)
	waiting.Wait()
	stop(t, in)
	all, queued := entries(t, f), work(t, f)
	if len(all) != 3 || len(queued) != 3 {
		t.Errorf("%d entries and %d items of work, want 3", len(all), len(queued))
	}
	for id := range all {
		err := f.View(t.Context(), func(r store.Reader) error {
			_, err := r.Body(t.Context(), id)
			return err
		})
		if err != nil || queued[id] == "" {
			t.Errorf("entry %s is not whole: %v", id, err)
		}
	}
}

func TestStopDrains(t *testing.T) {
	f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
	in := start(t, f, inbox.Options{Flushers: 2, BatchRowsMax: 2})
	var waiting sync.WaitGroup
	for i := range 9 {
		waiting.Go(func() {
			if _, err := in.Put(t.Context(), draft(fmt.Sprint("e", i), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "flushers", func() bool { return f.txs.Load() == 2 && in.Queued() > 4 })
	stopped := make(chan error)
	go func() { stopped <- in.Stop(context.WithoutCancel(t.Context())) }()
	eventually(t, "closed intake", func() bool {
		late, hangUp := context.WithTimeout(t.Context(), time.Millisecond)
		defer hangUp()
		_, err := in.Put(late, draft("late", 1))
		return errors.Is(err, inbox.ErrStopped)
	})
	close(f.gate)
	waiting.Wait()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := len(entries(t, f)); got < 9 {
		t.Errorf("%d entries, want 9", got)
	}
}

func TestHardStop(t *testing.T) {
	f := &faulty{Store: openSQLite(t), gate: make(chan struct{})}
	in := start(t, f, inbox.Options{Flushers: 1})
	var waiting sync.WaitGroup
	refused := func(identity string) {
		waiting.Go(func() {
			if _, err := in.Put(t.Context(), draft(identity, 1)); !errors.Is(err, inbox.ErrNotStored) {
				t.Errorf("put: %v", err)
			}
		})
	}
	refused("first")
	eventually(t, "first transaction", func() bool { return f.txs.Load() == 1 })
	for i := range 4 {
		refused(fmt.Sprint("e", i))
	}
	eventually(t, "queue", func() bool { return in.Queued() == 4 })
	ended, end := context.WithCancel(t.Context())
	end()
	if err := in.Stop(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	waiting.Wait()
	if got := len(entries(t, f)); got != 0 {
		t.Errorf("%d entries", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	s := openSQLite(t)
	_, err := inbox.New(s, inbox.Options{Flushers: -1, KnownBytesMax: 65 << 20, VariantsMax: 101})
	for _, want := range []string{"flushers", "bytes of the cache", "variants"} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	in := start(t, s, inbox.Options{})
	if err := in.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
}

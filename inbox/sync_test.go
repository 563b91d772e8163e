package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// changer applies an entry by giving it its final state in the transaction
// that stores it, as the port asks.
type changer struct {
	store  store.Store
	calls  atomic.Int64
	inside func(ctx context.Context) error // runs after the entry is stored
}

func (c *changer) ApplyNow(ctx context.Context, e store.EntryWithBody, ev provider.Event) (got store.Inserted, err error) {
	c.calls.Add(1)
	err = c.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		inserted, err := tx.InsertEntries(ctx, []store.EntryWithBody{e})
		if err != nil {
			return err
		}
		got = inserted[0]
		if !got.New {
			return tx.CountDeliveries(ctx, map[string]int{got.ID: 1}, e.ReceivedAt)
		}
		if c.inside != nil {
			if err := c.inside(ctx); err != nil {
				return err
			}
		}
		return tx.Finish(ctx, []store.Result{{
			EntryID: e.ID, State: store.EntryProcessed, Outcome: store.OutcomeApplied, Order: ev.Order, At: e.ReceivedAt,
		}})
	})
	return got, err
}

func putNow(t *testing.T, in *inbox.Inbox, c *changer, ev inbox.Evidence) inbox.Receipt {
	t.Helper()
	r, err := in.PutNow(t.Context(), c, inbox.NewDraft(ev), ev.Event)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// R1.10: verified, changed and acknowledged in one transaction; a copy is
// acknowledged without a second change.
func TestPutNow(t *testing.T) { onLedgers(t, testPutNow) }

func testPutNow(t *testing.T, open func() store.Store) {
	s := open()
	in := start(t, s, inbox.Options{})
	c := &changer{store: s}
	ev := evidence("e1", 1)
	if r := putNow(t, in, c, ev); r != (inbox.Receipt{ID: ev.ID}) {
		t.Errorf("receipt %+v", r)
	}
	if e := entry(t, s, ev.ID); e.State != store.EntryProcessed || e.Outcome != store.OutcomeApplied {
		t.Errorf("entry is %s", e.State)
	}
	other := start(t, s, inbox.Options{}) // knows nothing yet
	for _, in := range []*inbox.Inbox{in, other, other} {
		if r := putNow(t, in, c, evidence("e1", 1)); r != (inbox.Receipt{ID: ev.ID, Duplicate: true}) {
			t.Errorf("copy: %+v", r)
		}
	}
	if c.calls.Load() != 2 {
		t.Errorf("%d calls, want 2: known copies are answered from memory", c.calls.Load())
	}
	variant := evidence("e1", 2)
	if r := putNow(t, other, c, variant); r != (inbox.Receipt{ID: variant.ID, Variant: true}) {
		t.Errorf("other facts: %+v", r)
	}
	if got := work(t, s); len(got) != 1 || got[variant.ID] == "" {
		t.Errorf("work %v", got)
	}
}

// R1.10: on failure, a busy payment or a time limit the event is stored as
// received and acknowledged instead.
func TestPutNowFallsBack(t *testing.T) {
	for name, inside := range map[string]func(context.Context) error{
		"failure":      func(context.Context) error { return errors.New("a name joins two payments") },
		"busy payment": func(context.Context) error { return store.ErrBusy },
		"time limit":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			s := openSQLite(t)
			in := start(t, s, inbox.Options{SyncTimeout: 50 * time.Millisecond})
			ev := evidence("e1", 1)
			if r := putNow(t, in, &changer{store: s, inside: inside}, ev); r != (inbox.Receipt{ID: ev.ID}) {
				t.Errorf("receipt %+v", r)
			}
			if e := entry(t, s, ev.ID); e.State != store.EntryReceived {
				t.Errorf("entry is %s", e.State)
			}
			if got := work(t, s); got[ev.ID] == "" {
				t.Errorf("work %v", got)
			}
		})
	}
}

func TestPutNowMalformed(t *testing.T) {
	s := openSQLite(t)
	in := start(t, s, inbox.Options{})
	c := &changer{store: s}
	ev := evidence("e1", 1)
	ev.ParseError = provider.ErrMalformed
	putNow(t, in, c, ev)
	if e := entry(t, s, ev.ID); e.State != store.EntryDead || c.calls.Load() != 0 {
		t.Errorf("entry is %s after %d calls", e.State, c.calls.Load())
	}
}

// A commit in doubt is settled by identity: once, applied or as received.
func TestPutNowCommitUnknown(t *testing.T) {
	for end, state := range map[fate]string{committedLost: store.EntryProcessed, rolledLost: store.EntryReceived} {
		f := &faulty{Store: openSQLite(t)}
		f.commit = func(nth int64) fate {
			if nth == 1 {
				return end
			}
			return committed
		}
		in := start(t, f, inbox.Options{})
		ev := evidence("e1", 1)
		if r := putNow(t, in, &changer{store: f}, ev); r != (inbox.Receipt{ID: ev.ID}) {
			t.Errorf("%v: receipt %+v", end, r)
		}
		if e := entry(t, f, ev.ID); e.State != state {
			t.Errorf("%v: entry is %s, want %s", end, e.State, state)
		}
		if got := len(work(t, f)); (got == 1) != (state == store.EntryReceived) {
			t.Errorf("%v: %d items of work", end, got)
		}
	}
}

// No more than SyncAtOnce changes run at once; the others are not kept waiting.
func TestPutNowIsBounded(t *testing.T) {
	s := openSQLite(t)
	in := start(t, s, inbox.Options{SyncAtOnce: 2})
	release := make(chan struct{})
	blocked := &blocker{entered: make(chan struct{}), release: release}
	var waiting sync.WaitGroup
	for i := range 2 {
		waiting.Go(func() {
			ev := evidence(fmt.Sprint("slow", i), 1)
			if _, err := in.PutNow(t.Context(), blocked, inbox.NewDraft(ev), ev.Event); err != nil {
				t.Error(err)
			}
		})
		<-blocked.entered
	}
	c := &changer{store: s}
	ev := evidence("e1", 1)
	putNow(t, in, c, ev)
	if e := entry(t, s, ev.ID); e.State != store.EntryReceived || c.calls.Load() != 0 {
		t.Errorf("entry is %s after %d calls", e.State, c.calls.Load())
	}
	close(release)
	waiting.Wait()
	if got := len(entries(t, s)); got != 3 {
		t.Errorf("%d entries, want 3", got)
	}
}

// blocker holds every change until it is released, and then gives up.
type blocker struct{ entered, release chan struct{} }

func (b *blocker) ApplyNow(context.Context, store.EntryWithBody, provider.Event) (store.Inserted, error) {
	b.entered <- struct{}{}
	<-b.release
	return store.Inserted{}, store.ErrBusy
}

package inbox_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/store"
)

// R1.7: a commit in doubt is looked up by identity and proven by a write, or
// the event is not acknowledged. Whatever became of the commit, the event is
// there once, with its work.
func TestCommitUnknown(t *testing.T) {
	for _, c := range []struct {
		name   string
		fates  []fate
		stored bool // acknowledged
		proof  bool // nothing but the proof was left to write
		rows   int
	}{
		{"committed, answer lost", []fate{committedLost}, true, true, 1},
		{"rolled back, answer lost", []fate{rolledLost}, true, false, 1},
		{"committed, and the proof in doubt", []fate{committedLost, rolledLost}, true, true, 1},
		{"rolled back twice", []fate{rolledLost, rolledLost}, true, false, 1},
		{"rolled back, then committed, in doubt for ever", []fate{rolledLost, committedLost, committedLost}, false, true, 1},
		{"rolled back, in doubt for ever", []fate{rolledLost, rolledLost, rolledLost}, false, false, 0},
	} {
		test := func(t *testing.T, open func() store.Store) {
			f := &faulty{Store: open()}
			f.commit = func(nth int64) fate {
				if nth <= int64(len(c.fates)) {
					return c.fates[nth-1]
				}
				return committed
			}
			in := start(t, f, inbox.Options{})
			d := draft("e1", 1)
			r, err := in.Put(t.Context(), d)
			if c.stored && (err != nil || r != inbox.Receipt{ID: d.ID}) {
				t.Errorf("receipt %+v, %v", r, err)
			}
			if !c.stored && (!errors.Is(err, inbox.ErrNotStored) || !errors.Is(err, store.ErrCommitUnknown)) {
				t.Errorf("error %v", err)
			}
			if got := len(entries(t, f)); got != c.rows || len(work(t, f)) != c.rows {
				t.Errorf("%d entries, want %d, each with work", got, c.rows)
			}
			err = f.View(t.Context(), func(r store.Reader) error {
				_, err := r.Setting(t.Context(), "inbox.proof")
				return err
			})
			if c.proof != (err == nil) || !c.proof && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("proof written: %v", err)
			}
			again := put(t, in, draft("e1", 1))
			if again.Duplicate != (c.rows == 1) {
				t.Errorf("the provider's retry: %+v", again)
			}
		}
		t.Run(c.name, func(t *testing.T) { onLedgers(t, test) })
	}
}

// A duplicate whose row this process did not see commit is proven by the write
// that counts it: while that write's commit is in doubt, nothing is acknowledged.
func TestDuplicateIsProven(t *testing.T) { onLedgers(t, testDuplicateIsProven) }

func testDuplicateIsProven(t *testing.T, open func() store.Store) {
	s := open()
	first := start(t, s, inbox.Options{})
	original := put(t, first, draft("e1", 1))
	f := &faulty{Store: s, commit: func(int64) fate { return rolledLost }}
	second := start(t, f, inbox.Options{})
	if _, err := second.Put(t.Context(), draft("e1", 1)); !errors.Is(err, inbox.ErrNotStored) {
		t.Errorf("in doubt: %v", err)
	}
	f.set(func() { f.commit = nil })
	if r := put(t, second, draft("e1", 1)); r != (inbox.Receipt{ID: original.ID, Duplicate: true}) {
		t.Errorf("afterwards: %+v", r)
	}
	if e := entry(t, s, original.ID); e.Deliveries != 1 {
		t.Errorf("%d further deliveries, want 1: the count is the proof", e.Deliveries)
	}
}

// A committed identity is answered without the ledger, and asked again after a
// connection was lost.
func TestKnownUntilTheEpochChanges(t *testing.T) {
	f := &faulty{Store: openSQLite(t)}
	in := start(t, f, inbox.Options{})
	original := put(t, in, draft("e1", 1))
	f.set(func() { f.before = func() error { return store.ErrUnavailable } })
	for range 100 {
		if r := put(t, in, draft("e1", 1)); !r.Duplicate || r.ID != original.ID {
			t.Fatalf("receipt %+v", r)
		}
	}
	f.epoch.Add(1)
	if _, err := in.Put(t.Context(), draft("e1", 1)); !errors.Is(err, inbox.ErrNotStored) {
		t.Errorf("after the epoch changed: %v", err)
	}
	f.set(func() { f.before = nil })
	if r := put(t, in, draft("e1", 1)); !r.Duplicate {
		t.Errorf("asked again: %+v", r)
	}
	stop(t, in)
	if e := entry(t, f, original.ID); e.Deliveries != 101 {
		t.Errorf("%d further deliveries, want 101", e.Deliveries)
	}
}

// What committed while the epoch changed is not remembered.
func TestNothingIsRememberedAcrossEpochs(t *testing.T) {
	f := &faulty{Store: openSQLite(t)}
	f.insert = func([]store.EntryWithBody) error { f.epoch.Add(1); return nil }
	in := start(t, f, inbox.Options{})
	put(t, in, draft("e1", 1))
	f.set(func() { f.insert, f.before = nil, func() error { return store.ErrUnavailable } })
	if _, err := in.Put(t.Context(), draft("e1", 1)); !errors.Is(err, inbox.ErrNotStored) {
		t.Errorf("error %v", err)
	}
}

// Counts in memory are bounded; without room the ledger counts. What could not
// be written is kept and written later.
func TestCounts(t *testing.T) { onLedgers(t, testCounts) }

func testCounts(t *testing.T, open func() store.Store) {
	f := &faulty{Store: open()}
	in := start(t, f, inbox.Options{CountsMax: 2})
	var ids []string
	for i := range 4 {
		ids = append(ids, put(t, in, draft(fmt.Sprint("e", i), 1)).ID)
	}
	for range 3 {
		for i := range ids {
			if r := put(t, in, draft(fmt.Sprint("e", i), 1)); r.ID != ids[i] || !r.Duplicate {
				t.Errorf("receipt %+v", r)
			}
		}
	}
	f.set(func() { f.before = func() error { return store.ErrUnavailable } })
	for range 3 {
		begun := f.txs.Load()
		put(t, in, draft("e0", 1))
		eventually(t, "an attempt to write the counts", func() bool { return f.txs.Load() > begun })
	}
	f.set(func() { f.before = nil })
	stop(t, in)
	for i, want := range []int{6, 3, 3, 3} {
		if e := entry(t, f, ids[i]); e.Deliveries != want {
			t.Errorf("event %d: %d further deliveries, want %d", i, e.Deliveries, want)
		}
	}
}

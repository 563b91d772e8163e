package storetest_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/sqlite"
	"github.com/unavez/unavez/store/storetest"
)

var errInjected = errors.New("injected")

func faulty(t *testing.T, rules ...storetest.Rule) *storetest.Fault {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return storetest.NewFault(s, rules...)
}

func set(f *storetest.Fault, key string) error {
	ctx := context.Background()
	return f.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.SetSetting(ctx, key, "v") })
}

// stored asks the real store behind the wrapper.
func stored(t *testing.T, f *storetest.Fault, key string) bool {
	t.Helper()
	err := f.Store.View(t.Context(), func(r store.Reader) error {
		_, err := r.Setting(t.Context(), key)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   storetest.Rule
		stored bool
	}{
		{"BeforeTheCall", storetest.Rule{Call: "SetSetting", Nth: 1, Err: errInjected}, false},
		{"AfterTheCall", storetest.Rule{Call: "SetSetting", Nth: 1, After: true, Err: errInjected}, false},
		{"AnyCall", storetest.Rule{Call: storetest.CallAny, Nth: 1, Err: errInjected}, false},
		{"AtBegin", storetest.Rule{Call: storetest.CallBegin, Err: errInjected}, false},
		{"CommitNotDone", storetest.Rule{Call: storetest.CallCommit, Err: errInjected}, false},
		{"CommitDone", storetest.Rule{Call: storetest.CallCommit, After: true, Err: errInjected}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := faulty(t, c.rule)
			if err := set(f, "k"); !errors.Is(err, errInjected) {
				t.Fatalf("got %v", err)
			}
			if got := stored(t, f, "k"); got != c.stored {
				t.Errorf("stored: %v, want %v", got, c.stored)
			}
			if f.Fired() != 1 {
				t.Errorf("fired %d times", f.Fired())
			}
			f.Arm()
			if err := set(f, "k2"); err != nil || !stored(t, f, "k2") {
				t.Errorf("without rules: %v", err)
			}
		})
	}
}

func TestFaultCounts(t *testing.T) {
	f := faulty(t, storetest.Rule{Call: "SetSetting", Nth: 3, Err: errInjected})
	for i, want := range []error{nil, nil, errInjected, nil} {
		if err := set(f, "k"); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i+1, err, want)
		}
	}
	calls := f.Calls()
	if calls["SetSetting"] != 4 || calls[storetest.CallBegin] != 4 || calls[storetest.CallCommit] != 3 || calls[storetest.CallAny] != 4 {
		t.Errorf("calls are %v", calls)
	}
}

func TestFaultDoesBesideTheCall(t *testing.T) {
	var f *storetest.Fault
	var seen []bool
	look := func() { seen = append(seen, stored(t, f, "k")) }
	f = faulty(t, storetest.Rule{Call: storetest.CallCommit, Nth: 1, Do: look}, storetest.Rule{Call: storetest.CallCommit, Nth: 2, After: true, Do: look})
	if err := set(f, "k"); err != nil {
		t.Fatal(err)
	}
	if err := set(f, "k"); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] || !seen[1] {
		t.Errorf("before the commit and after it the setting was there: %v", seen)
	}
}

// The own error of the caller's function passes, and its transaction meets no commit.
func TestFaultLeavesOthersAlone(t *testing.T) {
	f := faulty(t, storetest.Rule{Call: storetest.CallCommit, Err: store.ErrCommitUnknown})
	mine := errors.New("mine")
	if err := f.InTx(t.Context(), store.TxOptions{}, func(store.Tx) error { return mine }); !errors.Is(err, mine) || f.Fired() != 0 {
		t.Errorf("%v, fired %d", err, f.Fired())
	}
}

func TestFaultOfTheStoresOwnCalls(t *testing.T) {
	f := faulty(t, storetest.Rule{Call: storetest.CallClaim, Nth: 1, After: true, Err: store.ErrUnavailable},
		storetest.Rule{Call: storetest.CallView, Nth: 1, Err: store.ErrUnavailable}, storetest.Rule{Call: "Now", Err: store.ErrUnavailable},
		storetest.Rule{Call: "Stats", Err: store.ErrUnavailable}, storetest.Rule{Call: "Setting", Err: store.ErrBusy})
	ctx := t.Context()
	err := f.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.Enqueue(ctx, []store.Work{{Queue: "q", ID: "1", Lane: "l"}}) })
	if err != nil {
		t.Fatal(err)
	}
	req := store.ClaimRequest{Queue: "q", Lanes: 1, PerLane: 1}
	if _, err := f.Claim(ctx, req); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("claim: %v", err)
	}
	// The lost answer was a claim: its item comes back as suspect.
	c, err := f.Claim(ctx, req)
	if err != nil || len(c.Items) != 1 || !c.Items[0].Suspect {
		t.Errorf("second claim: %+v, %v", c, err)
	}
	look := func(r store.Reader) error {
		_, err := r.Setting(ctx, "k")
		return err
	}
	if err := f.View(ctx, look); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("view: %v", err)
	}
	if err := f.View(ctx, look); !errors.Is(err, store.ErrBusy) {
		t.Errorf("a call in a view: %v", err)
	}
	if _, err := f.Now(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("now: %v", err)
	}
	if _, err := f.Stats(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("stats: %v", err)
	}
}

package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 12, 1, 10, 0, 0, 123456000, time.UTC)

// onLedgers runs the test on a fresh database of each kind. Every call of open
// is a handle of its own, as another process has it.
func onLedgers(t *testing.T, test func(t *testing.T, open func() store.Store)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.URL(t)
		test(t, func() store.Store {
			return ready(t)(postgres.Open(t.Context(), url, postgres.Options{}))
		})
	})
}

func newSQLite(t *testing.T) func() store.Store {
	path := filepath.Join(t.TempDir(), "ledger.db")
	return func() store.Store { return ready(t)(sqlite.Open(t.Context(), path, sqlite.Options{})) }
}

// openSQLite opens a fresh ledger, for what does not depend on its kind.
func openSQLite(t *testing.T) store.Store { return newSQLite(t)() }

func ready(t *testing.T) func(store.Store, error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
		if _, err := s.MigrateUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// faulty is a real ledger with a hand on its transactions.
type faulty struct {
	store.Store
	epoch atomic.Uint64
	txs   atomic.Int64 // transactions begun
	mu    sync.Mutex
	// before runs first; its error is the transaction's.
	before func() error
	// insert runs before InsertEntries and may fail it.
	insert func([]store.EntryWithBody) error
	// commit decides about the commit of the nth transaction.
	commit func(nth int64) fate
	gate   chan struct{} // each transaction takes one from it
}

type fate int

const (
	committed     fate = iota
	committedLost      // committed, reported as unknown
	rolledLost         // rolled back, reported as unknown
)

var errRollBack = errors.New("roll back")

func (f *faulty) Epoch() uint64 { return f.Store.Epoch() + f.epoch.Load() }

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	nth := f.txs.Add(1)
	f.mu.Lock()
	before, insert, commit, gate := f.before, f.insert, f.commit, f.gate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	end := committed
	if commit != nil {
		end = commit(nth)
	}
	err := f.Store.InTx(ctx, opt, func(tx store.Tx) error {
		if err := fn(&faultyTx{Tx: tx, insert: insert}); err != nil {
			return err
		}
		if end == rolledLost {
			return errRollBack
		}
		return nil
	})
	if errors.Is(err, errRollBack) || err == nil && end == committedLost {
		return fmt.Errorf("the connection is gone: %w", store.ErrCommitUnknown)
	}
	return err
}

type faultyTx struct {
	store.Tx
	insert func([]store.EntryWithBody) error
}

func (tx *faultyTx) InsertEntries(ctx context.Context, entries []store.EntryWithBody) ([]store.Inserted, error) {
	if tx.insert != nil {
		if err := tx.insert(entries); err != nil {
			return nil, err
		}
	}
	return tx.Tx.InsertEntries(ctx, entries)
}

func start(t *testing.T, s store.Store, opt inbox.Options) *inbox.Inbox {
	t.Helper()
	if opt.Now == nil {
		opt.Now = func() time.Time { return begin }
	}
	in, err := inbox.New(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, in) })
	return in
}

func stop(t *testing.T, in *inbox.Inbox) {
	t.Helper()
	if err := in.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

var account = &provider.Account{Name: "shop", Provider: "acme", Mode: provider.Live}

var lastID atomic.Int64

// evidence is an event of one captured amount; the amount is what it says.
func evidence(identity string, amount int64) inbox.Evidence {
	return inbox.Evidence{
		ID: fmt.Sprintf("evt_%06d", lastID.Add(1)), Account: account, Source: store.SourceWebhook, ReceivedAt: begin,
		Trace: "trace", Header: []byte(`{}`), Payload: fmt.Appendf(nil, "%s %d \x00\xff", identity, amount),
		Event: provider.Event{
			Identity: identity, ProviderEventID: identity, Type: "captured", Mode: provider.Live, Lane: "line_" + identity,
			Evidence: payment.Evidence{
				Names: []string{"line_" + identity},
				Facts: []payment.Fact{{
					Kind: payment.KindCapture, Form: payment.FormItem, Object: "cap_" + identity, Stage: payment.StageSucceeded,
					Amount: payment.Money{Value: amount, Currency: "EUR"},
				}},
			},
		},
	}
}

func draft(identity string, amount int64) inbox.Draft {
	return inbox.NewDraft(evidence(identity, amount))
}

func put(t *testing.T, in *inbox.Inbox, d inbox.Draft) inbox.Receipt {
	t.Helper()
	r, err := in.Put(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func entry(t *testing.T, s store.Store, id string) store.EntryStatus {
	t.Helper()
	var e store.EntryStatus
	err := s.View(t.Context(), func(r store.Reader) (err error) {
		e, err = r.Entry(t.Context(), id)
		return err
	})
	if err != nil {
		t.Fatalf("entry %s: %v", id, err)
	}
	return e
}

// entries returns all entries, by id.
func entries(t *testing.T, s store.Store) map[string]store.EntryStatus {
	t.Helper()
	all := map[string]store.EntryStatus{}
	err := s.View(t.Context(), func(r store.Reader) error {
		after := ""
		for {
			page, err := r.Entries(t.Context(), store.List{After: after, Limit: 100})
			if err != nil {
				return err
			}
			for _, e := range page {
				all[e.ID], after = e, e.ID
			}
			if len(page) < 100 {
				return nil
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// work returns the lanes of all queued work, by entry, and claims it.
func work(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	lanes := map[string]string{}
	for {
		claim, err := s.Claim(t.Context(), store.ClaimRequest{Queue: store.QueueInbox, Lanes: 100, PerLane: 100, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if len(claim.Items) == 0 {
			return lanes
		}
		for _, item := range claim.Items {
			lanes[item.ID] = item.Lane
		}
	}
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/internal/pgproxy"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
)

// R1.7, R2.1: COMMIT fails before and after the server saw it. What is not
// known is told as such, and re-reading by identity tells the truth.
func TestCommitInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  pgproxy.Fault
		want   error
		stored bool
		epoch  bool
		runs   int
	}{
		"cut before":      {pgproxy.Fault{Kind: pgproxy.CutBefore}, store.ErrCommitUnknown, false, true, 1},
		"cut after":       {pgproxy.Fault{Kind: pgproxy.CutAfter}, store.ErrCommitUnknown, true, true, 1},
		"shut down":       {pgproxy.Fault{Kind: pgproxy.Fatal, Code: "57P01"}, store.ErrCommitUnknown, false, true, 1},
		"warned":          {pgproxy.Fault{Kind: pgproxy.Warn, Code: "01000"}, store.ErrCommitUnknown, true, true, 1},
		"serialization":   {pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40001"}, nil, true, false, 2},
		"canceled":        {pgproxy.Fault{Kind: pgproxy.Refuse, Code: "57014"}, store.ErrBusy, false, false, 1},
		"deferred unique": {pgproxy.Fault{Kind: pgproxy.Refuse, Code: "23505"}, store.ErrConflict, false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, s, direct, url := proxied(t)
			e := store.EntryWithBody{Entry: store.Entry{ID: "evt_1", Scope: live, Identity: "one", ReceivedAt: at}}
			insert := func(s *postgres.Store) (got []store.Inserted, runs int, err error) {
				err = s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
					runs++
					var err error
					got, err = tx.InsertEntries(t.Context(), []store.EntryWithBody{e})
					return err
				})
				return got, runs, err
			}
			if err := s.InTx(t.Context(), store.TxOptions{}, func(store.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			before := s.Epoch()
			proxy.Arm(c.fault)
			_, runs, err := insert(s)
			if !proxy.Disarm() {
				t.Fatal("the fault did not strike")
			}
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || runs != c.runs {
				t.Errorf("after %d runs: %v, want %v after %d", runs, err, c.want, c.runs)
			}
			if (s.Epoch() > before) != c.epoch {
				t.Errorf("epoch went from %d to %d", before, s.Epoch())
			}
			err = direct.View(t.Context(), func(r store.Reader) error {
				_, err := r.EntryByIdentity(t.Context(), live, "one")
				return err
			})
			if stored := err == nil; stored != c.stored || err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("stored: %v, %v", stored, err)
			}
			// Trying again under the same id settles it.
			got, _, err := insert(s)
			if err != nil || got[0].New == c.stored || got[0].ID != e.ID {
				t.Errorf("again: %+v, %v", got, err)
			}
			clean(t, url)
		})
	}
}

// A caller that hangs up while COMMIT is under way cannot undo it, and one that
// hangs up before leaves nothing.
func TestHangUp(t *testing.T) {
	_, _, s, url := proxied(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		err := tx.SetSetting(ctx, "late", "1")
		cancel()
		return err
	})
	if err != nil || !marked(t, s, "late") {
		t.Errorf("hung up before COMMIT was sent: %v", err)
	}
	epoch := s.Epoch()
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return tx.SetSetting(ctx, "never", "1") })
	if !errors.Is(err, context.Canceled) || marked(t, s, "never") {
		t.Errorf("hung up before it began: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		cancel()
		return tx.SetSetting(t.Context(), "never", "1")
	})
	if !errors.Is(err, context.Canceled) || marked(t, s, "never") {
		t.Errorf("hung up between statements: %v", err)
	}
	if s.Epoch() != epoch {
		t.Error("a caller that hangs up is no failure of the server's")
	}
	clean(t, url)
}

// A panic rolls back and gives the connection back.
func TestPanicRollsBack(t *testing.T) {
	url := database(t)
	s := open(t, url, postgres.Options{ConnsMax: 1})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
			if err := tx.SetSetting(t.Context(), "k", "v"); err != nil {
				return err
			}
			panic("poison")
		})
	}()
	if marked(t, s, "k") {
		t.Error("the panic committed")
	}
}

// One restart of the server, or of what is between, costs nobody a failure.
func TestIdleConnectionsDie(t *testing.T) {
	proxy, s, _, url := proxied(t)
	ctx := t.Context()
	// Several connections, all idle.
	var nest func(depth int) error
	nest = func(depth int) error {
		return s.View(ctx, func(store.Reader) error {
			if depth == 0 {
				return nil
			}
			return nest(depth - 1)
		})
	}
	if err := nest(5); err != nil {
		t.Fatal(err)
	}
	before := s.Epoch()
	proxy.CutAll()
	if err := s.InTx(ctx, store.TxOptions{NoRetry: true}, func(tx store.Tx) error { return tx.SetSetting(ctx, "k", "v") }); err != nil {
		t.Error(err)
	}
	if s.Epoch() == before {
		t.Error("the epoch does not tell of it")
	}
	clean(t, url)
}

// R6.4: a server that is away is ErrUnavailable, soon, and comes back by itself.
func TestServerAway(t *testing.T) {
	s := open(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable", postgres.Options{})
	for name, err := range map[string]error{
		"InTx":  s.InTx(t.Context(), store.TxOptions{}, func(store.Tx) error { return nil }),
		"View":  s.View(t.Context(), func(store.Reader) error { return nil }),
		"Check": func() error { _, err := s.Check(t.Context()); return err }(),
		"Claim": func() error {
			_, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Lanes: 1, PerLane: 1})
			return err
		}(),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema is what Check compares, and what a first statement misses.
func TestSchemaIsChecked(t *testing.T) {
	url := database(t)
	s := open(t, url, postgres.Options{})
	findings, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			t.Errorf("%s: %s", f.Name, f.Message)
		}
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `INSERT INTO unavez_migration (version_id, is_applied) VALUES (99999, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("a newer schema: %v", err)
	}
	if _, err := conn.Exec(t.Context(), `DROP TABLE unavez_migration, setting`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("no schema: %v", err)
	}
	err = s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Setting(t.Context(), "k")
		return err
	})
	if !errors.Is(err, store.ErrSchema) {
		t.Errorf("a statement without its table: %v", err)
	}
}

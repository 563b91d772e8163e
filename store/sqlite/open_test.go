package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/unavez/unavez/store"
)

func openAt(t *testing.T, path string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func migrated(t *testing.T, opt Options) *Store {
	t.Helper()
	s := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), opt)
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// foreign opens the file as another program would.
func foreign(t *testing.T, path string, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return db
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    error
		says    string
	}{
		{"AnotherProgramsTables", func(t *testing.T, path string) { foreign(t, path, "CREATE TABLE t (x)") }, store.ErrSchema, "another program"},
		{"AnotherProgramsMark", func(t *testing.T, path string) {
			foreign(t, path, "PRAGMA application_id = 7", "PRAGMA user_version = 1")
		}, store.ErrSchema, "another program"},
		{"HeldInAnotherMode", func(t *testing.T, path string) {
			foreign(t, path, "PRAGMA journal_mode = DELETE", "CREATE TABLE t (x)", "BEGIN EXCLUSIVE")
		}, store.ErrBusy, "wal"},
		{"NoDatabase", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("this is a text "), 100), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.ErrUnavailable, "not a database"},
		{"NoFolder", nil, store.ErrUnavailable, "no such file or directory"},
		{"AFolder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, store.ErrUnavailable, "unable to open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			if c.prepare == nil {
				path = filepath.Join(path, "none", "ledger.db")
			} else {
				c.prepare(t, path)
			}
			s, err := Open(t.Context(), path, Options{openTimeout: 20 * time.Millisecond})
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
	for _, path := range []string{"", ":memory:", "a\x00b"} {
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("path %q: %v", path, err)
		}
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	for _, name := range []string{"a b.db", "100%.db", "what?.db", "a#b.db", "ñ.db", "%41.db", "a&mode=ro.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path, Options{})
		if _, err := s.MigrateUp(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if info.Mode().Perm() != fileMode {
			t.Errorf("%s may be read by others: %v", name, info.Mode())
		}
	}
}

// The file outlives the store that made it, with the settings that durability needs.
func TestReopen(t *testing.T) {
	s := migrated(t, Options{})
	if err := unit(t.Context(), s, "1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, s.path, Options{})
	if !unitIs(t, again, "1") {
		t.Error("the unit is gone")
	}
	findings, err := again.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			t.Errorf("%s: %s", f.Name, f.Message)
		}
	}
}

func TestCheckFindsWeakness(t *testing.T) {
	s := migrated(t, Options{})
	err := s.writer.lend(t.Context(), func(c *conn) error {
		_, err := c.ExecContext(t.Context(), "PRAGMA synchronous = NORMAL")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	weak := ""
	for _, f := range findings {
		if !f.OK {
			weak += f.Name
		}
	}
	if weak != "synchronous" {
		t.Errorf("weak is %q", weak)
	}
}

func TestCheckOfTheSchema(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), Options{})
	if _, err := s.Check(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("without migration: %v", err)
	}
	if err := unit(t.Context(), s, "1"); !errors.Is(err, store.ErrSchema) {
		t.Errorf("writing without migration: %v", err)
	}
	all, err := s.Migrations(t.Context())
	if err != nil || len(all) == 0 || all[0].Applied || all[0].SQL == "" {
		t.Errorf("what would run: %+v, %v", all, err)
	}
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign(t, s.path, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (9999, 1)")
	if _, err := s.Check(t.Context()); !errors.Is(err, store.ErrSchema) {
		t.Errorf("a file of a newer program: %v", err)
	}
}

// Several handles migrate one fresh file at once; each step is done by one of them.
func TestMigrateTogether(t *testing.T) {
	const handles, rounds = 4, 3
	for range rounds {
		path := filepath.Join(t.TempDir(), "ledger.db")
		var all []*Store
		for range handles {
			all = append(all, openAt(t, path, Options{}))
		}
		var wait sync.WaitGroup
		errs, counts := make([]error, handles), make([]int, handles)
		for i, s := range all {
			wait.Go(func() {
				var done []store.Migration
				done, errs[i] = s.MigrateUp(t.Context())
				counts[i] = len(done)
			})
		}
		wait.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		known, err := all[0].Migrations(t.Context())
		if err := errors.Join(append(errs, err)...); err != nil || total != len(known) {
			t.Fatalf("%d migrations were done %v times: %v", len(known), counts, err)
		}
		if _, err := all[handles-1].Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A migration that was released never changes: files that it made are about.
func TestMigrationsAreFrozen(t *testing.T) {
	sums := map[string]string{
		"migration/0001_ledger.sql": "d4d75a1ba9cc6b7f",
	}
	files, err := fs.Glob(migrations, migrationDir+"/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:8]); got != sums[name] {
			t.Errorf("%s has the sum %s, not %q: write a new migration instead", name, got, sums[name])
		}
	}
	if len(files) != len(sums) {
		t.Errorf("%d files, %d sums", len(files), len(sums))
	}
}

// A file that may not grow, and one that may not be written.
func TestFullAndReadOnly(t *testing.T) {
	s := migrated(t, Options{})
	pragma := func(text string) {
		t.Helper()
		err := s.writer.lend(t.Context(), func(c *conn) error {
			var ignored any
			err := c.QueryRowContext(t.Context(), "PRAGMA "+text).Scan(&ignored)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pragma("max_page_count = 1") // no less than there are
	full := ""
	for i := range 1000 {
		id := fmt.Sprint("u", i)
		err := unit(t.Context(), s, id)
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrFull) || unitIs(t, s, id) {
			t.Fatalf("full: %v", err)
		}
		full = id
		break
	}
	if full == "" {
		t.Fatal("the file is never full")
	}
	pragma("max_page_count = 1000000")
	if err := unit(t.Context(), s, full); err != nil || !unitIs(t, s, full) {
		t.Errorf("with room again: %v", err)
	}
	pragma("query_only = 1")
	if err := unit(t.Context(), s, "ro"); !errors.Is(err, store.ErrFull) || unitIs(t, s, "ro") {
		t.Errorf("read only: %v", err)
	}
	pragma("query_only = 0")
	if err := unit(t.Context(), s, "ro"); err != nil {
		t.Errorf("writable again: %v", err)
	}
}

// The right to write goes in the order of asking, and who gives up is passed over.
func TestWritersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{slots: make(chan *conn, 1), closed: make(chan struct{})}
		p.slots <- &conn{}
		const writers, leaves = 8, 4
		var order []int
		let := make(chan struct{})
		go func() { _ = p.lend(t.Context(), func(*conn) error { <-let; return nil }) }()
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		for i := range writers {
			ctx := t.Context()
			if i == leaves {
				ctx = gone
			}
			go func() {
				err := p.lend(ctx, func(*conn) error { order = append(order, i); return nil })
				if (i == leaves) != errors.Is(err, context.Canceled) {
					t.Errorf("writer %d: %v", i, err)
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		close(let)
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 5, 6, 7}; !slices.Equal(order, want) {
			t.Errorf("served in the order %v, want %v", order, want)
		}
	})
}

// A store that is closed has no goroutine left.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := migrated(t, Options{})
	if err := unit(t.Context(), s, "1"); err != nil {
		t.Fatal(err)
	}
	unitIs(t, s, "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}

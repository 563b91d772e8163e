package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/sqlite"
	"github.com/unavez/unavez/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.CrashMain(openFile)
	limitMain()
	os.Exit(m.Run())
}

func openFile(ctx context.Context, path string) (store.Store, error) {
	return sqlite.Open(ctx, path, sqlite.Options{})
}

func open(t *testing.T) store.Store {
	t.Helper()
	return openMany(t, 1)[0]
}

func openMany(t *testing.T, handles int) []store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	var all []store.Store
	for range handles {
		all = append(all, openAt(t, path, sqlite.Options{}))
	}
	if _, err := all[0].MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

func openAt(t *testing.T, path string, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// R8.1: the suites on the embedded ledger.
func TestConformance(t *testing.T) { storetest.Run(t, open) }

func TestConcurrency(t *testing.T) { storetest.RunConcurrency(t, openMany) }

func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := openAt(t, path, sqlite.Options{}).MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.RunCrash(t, path, openFile)
}

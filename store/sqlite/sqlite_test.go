package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/sqlite"
	"github.com/unavez/unavez/store/storetest"
)

func open(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// R8.1: the conformance suite on the embedded ledger.
func TestConformance(t *testing.T) { storetest.Run(t, open) }

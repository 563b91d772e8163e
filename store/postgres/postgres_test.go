package postgres_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/storetest"
)

// database returns the URL of a fresh, migrated ledger.
func database(t testing.TB) string {
	t.Helper()
	return pgtest.FromTemplate(t, "ledger_"+checksum(t), func(url string) error {
		s, err := postgres.Open(context.Background(), url, postgres.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.MigrateUp(context.Background())
		return err
	})
}

// checksum is that of the migrations, so that no old template is copied.
func checksum(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("migration/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	sum := crc32.NewIEEE()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	return fmt.Sprintf("%08x", sum.Sum32())
}

// open opens a ledger that is closed at the test's end.
func open(t testing.TB, url string, opt postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openURL opens a ledger for whoever closes it.
func openURL(ctx context.Context, url string) (store.Store, error) {
	return postgres.Open(ctx, url, postgres.Options{})
}

func TestMain(m *testing.M) {
	storetest.CrashMain(openURL)
	os.Exit(m.Run())
}

// R8.1: the suites on PostgreSQL.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, database(t), postgres.Options{}) })
}

// R2.2, R8.5: several processes on one ledger, each with its own pool.
func TestConcurrency(t *testing.T) {
	storetest.RunConcurrency(t, func(t *testing.T, handles int) []store.Store {
		url := database(t)
		all := make([]store.Store, handles)
		for i := range all {
			all[i] = open(t, url, postgres.Options{})
		}
		return all
	})
}

// R6.6: a process that is killed leaves whole transactions.
func TestCrash(t *testing.T) { storetest.RunCrash(t, database(t), openURL) }

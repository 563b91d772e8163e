package pgtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

func query[T any](t *testing.T, url, sql string, args ...any) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func run(url string, statements ...string) error { return alone(url, strings.Join(statements, ";")) }

func TestDatabasesAreApartAndDropped(t *testing.T) {
	var names []string
	t.Run("inside/with a name that is longer than an identifier of the server can be", func(t *testing.T) {
		one, two := URL(t), URL(t)
		if err := run(one, `CREATE TABLE t (x int)`); err != nil {
			t.Fatal(err)
		}
		if query[bool](t, two, `SELECT to_regclass('t') IS NOT NULL`) {
			t.Error("a table of one database is seen in the other")
		}
		names = []string{query[string](t, one, `SELECT current_database()`), query[string](t, two, `SELECT current_database()`)}
		// A session that the test forgot must not keep the database alive.
		conn, err := pgx.Connect(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
	})
	if len(names) != 2 || names[0] == names[1] {
		t.Fatalf("names %q", names)
	}
	if n := query[int](t, Server(t), `SELECT count(*) FROM pg_database WHERE datname = ANY($1)`, names); n != 0 {
		t.Errorf("%d of %q are left", n, names)
	}
}

func TestTemplateIsBuiltOnce(t *testing.T) {
	name := "once_" + random()
	t.Cleanup(func() { dropTemplate(t, name) })
	var built atomic.Int32
	migrate := func(url string) error {
		built.Add(1)
		return run(url, `CREATE TABLE t (x int)`, `INSERT INTO t VALUES (7)`)
	}
	var wg sync.WaitGroup
	urls := make([]string, 4)
	for i := range urls {
		wg.Go(func() { urls[i] = FromTemplate(t, name, migrate) })
	}
	wg.Wait()
	if n := built.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
	if err := run(urls[0], `DELETE FROM t`); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, urls[1], `SELECT count(*) FROM t WHERE x = 7`); n != 1 {
		t.Errorf("a copy holds %d rows of the template, want 1", n)
	}
}

func TestFailedTemplateIsBuiltAgain(t *testing.T) {
	name := "again_" + random()
	t.Cleanup(func() { dropTemplate(t, name) })
	broken := errors.New("broken migration")
	err := build(Server(t), prefix+"template_"+name, func(url string) error {
		if err := run(url, `CREATE TABLE half (x int)`); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	url := FromTemplate(t, name, func(url string) error { return run(url, `CREATE TABLE whole (x int)`) })
	if !query[bool](t, url, `SELECT to_regclass('whole') IS NOT NULL AND to_regclass('half') IS NULL`) {
		t.Error("the copy is not what the second migration made")
	}
}

func dropTemplate(t *testing.T, name string) {
	t.Helper()
	for _, suffix := range []string{"", building} {
		if err := alone(Server(t), `DROP DATABASE IF EXISTS `+quote(prefix+"template_"+name+suffix)+` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	}
}

// recorder stands in for a test, to see how one fails.
type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func fatal(of func(testing.TB)) string {
	r := &recorder{}
	var wg sync.WaitGroup
	wg.Go(func() { of(r) })
	wg.Wait()
	return r.message
}

func TestMissingServerFails(t *testing.T) {
	t.Setenv(Variable, "")
	for name, call := range map[string]func(testing.TB){
		"URL":          func(t testing.TB) { URL(t) },
		"FromTemplate": func(t testing.TB) { FromTemplate(t, "x", func(string) error { return nil }) },
	} {
		if got := fatal(call); !strings.Contains(got, "scripts/with-services.sh") {
			t.Errorf("%s: message %q does not say how to run the tests", name, got)
		}
	}
}

func TestLongTemplateNameFails(t *testing.T) {
	got := fatal(func(t testing.TB) {
		FromTemplate(t, strings.Repeat("x", nameBytesMax), func(string) error { return nil })
	})
	if !strings.Contains(got, "longer than") {
		t.Errorf("got %q", got)
	}
}

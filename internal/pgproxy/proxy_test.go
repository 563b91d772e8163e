package pgproxy_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/unavez/unavez/internal/pgproxy"
	"github.com/unavez/unavez/internal/pgtest"
)

func start(t *testing.T) (*pgproxy.Proxy, string) {
	t.Helper()
	url := pgtest.URL(t)
	p, err := pgproxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	direct := connect(t, url)
	if _, err := direct.Exec(t.Context(), `CREATE TABLE t (x int)`); err != nil {
		t.Fatal(err)
	}
	return p, url
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// insert inserts one row in a transaction of its own.
func insert(ctx context.Context, conn *pgx.Conn, x int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO t VALUES ($1)`, x)
		return err
	})
}

func count(t *testing.T, url string, x int) (n int) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM t WHERE x = $1`, x).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func code(err error) string {
	if answer := (*pgconn.PgError)(nil); errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

func TestFaultsAtCommit(t *testing.T) {
	for name, c := range map[string]struct {
		fault  pgproxy.Fault
		code   string
		stored int
		alive  bool
		fails  bool
	}{
		"refuse":     {pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40001"}, "40001", 0, true, true},
		"fatal":      {pgproxy.Fault{Kind: pgproxy.Fatal, Code: "57P01"}, "57P01", 0, false, true},
		"cut before": {pgproxy.Fault{Kind: pgproxy.CutBefore}, "", 0, false, true},
		"cut after":  {pgproxy.Fault{Kind: pgproxy.CutAfter}, "", 1, false, true},
		"warn":       {pgproxy.Fault{Kind: pgproxy.Warn, Code: "01000"}, "", 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, url := start(t)
			conn := connect(t, p.URL())
			p.Arm(c.fault)
			err := insert(t.Context(), conn, 1)
			if !p.Disarm() {
				t.Fatal("the fault did not strike")
			}
			if (err != nil) != c.fails || code(err) != c.code {
				t.Errorf("got %v", err)
			}
			if n := count(t, url, 1); n != c.stored {
				t.Errorf("%d rows, want %d", n, c.stored)
			}
			if alive := conn.Ping(t.Context()) == nil; alive != c.alive {
				t.Errorf("session alive: %v", alive)
			}
		})
	}
}

// Every step of a transaction can be refused, and the session is as good as
// before: the server's transaction has failed as well.
func TestRefuseEachStep(t *testing.T) {
	p, url := start(t)
	for step := 1; ; step++ {
		conn := connect(t, p.URL())
		p.Arm(pgproxy.Fault{Step: step, Kind: pgproxy.Refuse, Code: "57014"})
		err := insert(t.Context(), conn, step)
		if !p.Disarm() {
			if step < 5 || err != nil {
				t.Fatalf("only %d steps, %v", step-1, err)
			}
			return
		}
		if code(err) != "57014" {
			t.Errorf("step %d: %v", step, err)
		}
		if n := count(t, url, step); n != 0 {
			t.Errorf("step %d: stored in spite of the refusal", step)
		}
		if err := insert(t.Context(), conn, -step); err != nil {
			t.Errorf("step %d: the session is spoiled: %v", step, err)
		}
	}
}

func TestRefusedConnection(t *testing.T) {
	p, _ := start(t)
	p.Arm(pgproxy.Fault{Step: 1, Kind: pgproxy.Fatal, Code: "53300"})
	if _, err := pgx.Connect(t.Context(), p.URL()); code(err) != "53300" {
		t.Errorf("got %v", err)
	}
	connect(t, p.URL())
	if n := p.Steps(); n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
}

func TestCutAll(t *testing.T) {
	p, _ := start(t)
	conn := connect(t, p.URL())
	p.CutAll()
	if conn.Ping(t.Context()) == nil {
		t.Error("the session lives")
	}
	connect(t, p.URL())
}

// Requests to cancel go through the proxy too.
func TestCancel(t *testing.T) {
	p, url := start(t)
	conn := connect(t, p.URL())
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), `SELECT pg_sleep(600)`)
		done <- err
	}()
	watch := connect(t, url)
	for asleep := false; !asleep; {
		err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep')`).Scan(&asleep)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; code(err) != "57014" {
		t.Errorf("got %v", err)
	}
}

package campaign

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/unavez/unavez/internal/pgproxy"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

// striker lets one statement of a ledger fail.
type striker interface {
	// arm lets the nth statement from here on fail in the way.
	arm(way way, nth int)
	// disarm takes it back and says whether it has happened.
	disarm() bool
}

// way is a way in which a statement fails.
type way struct {
	name string
	pg   pgproxy.Fault
	// code is a result code of SQLite, given back before the statement is run, or
	// after it.
	code  int
	after bool
}

var postgresWays = []way{
	{name: "40001", pg: pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40001"}},
	{name: "40P01", pg: pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40P01"}},
	{name: "57014", pg: pgproxy.Fault{Kind: pgproxy.Refuse, Code: "57014"}},
	{name: "57P01", pg: pgproxy.Fault{Kind: pgproxy.Fatal, Code: "57P01"}},
	{name: "53300", pg: pgproxy.Fault{Kind: pgproxy.Fatal, Code: "53300"}},
	{name: "08006", pg: pgproxy.Fault{Kind: pgproxy.Fatal, Code: "08006"}},
	{name: "cut_before", pg: pgproxy.Fault{Kind: pgproxy.CutBefore}},
	{name: "cut_after", pg: pgproxy.Fault{Kind: pgproxy.CutAfter}},
	{name: "warning", pg: pgproxy.Fault{Kind: pgproxy.Warn, Code: "01000"}},
}

var sqliteWays = []way{
	{name: "BUSY", code: sqlite3.SQLITE_BUSY},
	{name: "BUSY_SNAPSHOT", code: sqlite3.SQLITE_BUSY_SNAPSHOT},
	{name: "FULL", code: sqlite3.SQLITE_FULL},
	{name: "IOERR_WRITE", code: sqlite3.SQLITE_IOERR_WRITE},
	{name: "IOERR_FSYNC", code: sqlite3.SQLITE_IOERR_FSYNC},
	{name: "IOERR_after", code: sqlite3.SQLITE_IOERR_WRITE, after: true},
	{name: "READONLY", code: sqlite3.SQLITE_READONLY},
}

// proxied is PostgreSQL behind a proxy that strikes.
type proxied struct{ proxy *pgproxy.Proxy }

func (p proxied) arm(w way, nth int) {
	f := w.pg
	f.Step = nth
	p.proxy.Arm(f)
}

func (p proxied) disarm() bool { return p.proxy.Disarm() }

// struck opens a ledger whose statements can be struck, and the same ledger
// past that.
func struck(ctx context.Context, e *Env, kind string) (s, past store.Store, by striker, drop func(), err error) {
	address, remove, err := database(ctx, e, kind)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if kind == sqliteStore {
		by := &wrapped{}
		s, err := sqlite.Open(ctx, address, sqlite.Options{Wrap: func(c driver.Connector) driver.Connector { return wrappedConnector{c, by} }})
		if err != nil {
			return nil, nil, nil, nil, err
		}
		// One process opens the file once: what is struck is disarmed for looks.
		return s, s, by, func() { _ = s.Close() }, nil
	}
	proxy, err := pgproxy.Start(address)
	if err != nil {
		remove()
		return nil, nil, nil, nil, err
	}
	s, err = postgres.Open(ctx, proxy.URL(), postgres.Options{})
	if err == nil {
		past, err = postgres.Open(ctx, address, postgres.Options{ApplicationName: "unavez-oracle"})
	}
	if err != nil {
		remove()
		return nil, nil, nil, nil, errors.Join(err, proxy.Close())
	}
	return s, past, proxied{proxy}, func() {
		_ = s.Close()
		_ = past.Close()
		_ = proxy.Close()
		remove()
	}, nil
}

// injected is an error with a result code of SQLite.
type injected int

func (e injected) Error() string { return fmt.Sprintf("injected result code %d", int(e)) }

// Code is the result code, as the driver's own errors have it.
func (e injected) Code() int { return int(e) }

// wrapped sits between the ledger and the driver of SQLite.
type wrapped struct {
	mu    sync.Mutex
	way   way
	seen  int
	nth   int
	fired bool
}

func (s *wrapped) arm(w way, nth int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way, s.nth, s.seen, s.fired = w, nth, 0, false
}

func (s *wrapped) disarm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nth = 0
	return s.fired
}

// meet counts a statement. The undoing of a transaction is none of its own.
func (s *wrapped) meet(text string) (before, after error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nth == 0 || text == "ROLLBACK" {
		return nil, nil
	}
	if s.seen++; s.seen != s.nth {
		return nil, nil
	}
	s.fired = true
	if s.way.after {
		return nil, injected(s.way.code)
	}
	return injected(s.way.code), nil
}

func met[T any](s *wrapped, text string, fn func() (T, error)) (T, error) {
	var zero T
	before, after := s.meet(text)
	if before != nil {
		return zero, before
	}
	v, err := fn()
	if err == nil && after != nil {
		if rows, ok := any(v).(driver.Rows); ok {
			err = rows.Close()
		}
		return zero, errors.Join(after, err)
	}
	return v, err
}

type wrappedConnector struct {
	driver.Connector
	s *wrapped
}

// Connect implements driver.Connector.
func (c wrappedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	real, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return wrappedConn{Conn: real, s: c.s}, nil
}

type wrappedConn struct {
	driver.Conn
	s *wrapped
}

// ExecContext implements driver.ExecerContext.
func (c wrappedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return met(c.s, text, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args) })
}

// QueryContext implements driver.QueryerContext.
func (c wrappedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return met(c.s, text, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args) })
}

// BeginTx implements driver.ConnBeginTx.
func (c wrappedConn) BeginTx(ctx context.Context, opt driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opt)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c wrappedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	real, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	return wrappedStmt{Stmt: real, s: c.s, text: text}, err
}

type wrappedStmt struct {
	driver.Stmt
	s    *wrapped
	text string
}

// ExecContext implements driver.StmtExecContext.
func (st wrappedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return met(st.s, st.text, func() (driver.Result, error) { return st.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

// QueryContext implements driver.StmtQueryContext.
func (st wrappedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return met(st.s, st.text, func() (driver.Rows, error) { return st.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

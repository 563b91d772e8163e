package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

// stmtsMax bounds the prepared statements of a connection. All but the lists
// with their filters are a fixed set far below it.
const stmtsMax = 512

// conn is a connection with its prepared statements. One goroutine has it at a time.
type conn struct {
	*sql.Conn
	stmts map[string]*sql.Stmt
	// broken says that the connection is to be closed instead of used again.
	broken bool
}

// exec runs a statement. Cancelable contexts cost a goroutine for each call.
func (c *conn) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	st, err := c.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (c *conn) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	st, err := c.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// pragma reads the only value of a pragma.
func (c *conn) pragma(ctx context.Context, name string) (value string, err error) {
	err = c.QueryRowContext(ctx, "PRAGMA "+name).Scan(&value)
	return value, err
}

func (c *conn) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if st := c.stmts[text]; st != nil {
		return st, nil
	}
	if len(c.stmts) >= stmtsMax {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	st, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.stmts[text] = st
	return st, nil
}

// forget closes all prepared statements.
func (c *conn) forget() error {
	var all error
	for text, st := range c.stmts {
		all = errors.Join(all, st.Close())
		delete(c.stmts, text)
	}
	return all
}

// close ends the connection itself, not only its loan from database/sql.
func (c *conn) close() error {
	err := c.forget()
	// ErrBadConn is how database/sql is told to close what is below.
	if raw := c.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(raw, driver.ErrBadConn) {
		err = errors.Join(err, raw)
	}
	if closing := c.Conn.Close(); !errors.Is(closing, sql.ErrConnDone) {
		err = errors.Join(err, closing)
	}
	return err
}

// rollback ends the transaction whatever its state: SQLite may have ended it
// by itself, and a BEGIN that was canceled may have begun. If it cannot be
// ended the connection is broken.
func (c *conn) rollback() {
	if c.broken {
		return
	}
	_, err := c.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && c.open() {
		c.broken = true
	}
}

// open says whether a transaction is open, or the connection is past asking:
// BEGIN inside a transaction is an error, and outside it is undone at once.
func (c *conn) open() bool {
	ctx := context.Background()
	if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
		return true
	}
	_, err := c.ExecContext(ctx, "ROLLBACK")
	return err != nil
}

// pool lends a fixed number of connections, in the order in which callers come.
type pool struct {
	db *sql.DB
	// slots holds connections, nil where one is to be opened first. Goroutines
	// that wait on a channel are served in their order.
	slots  chan *conn
	closed <-chan struct{}
	// lost is called when a connection is given up after a failure.
	lost func(error)
	// admit checks a connection that was opened.
	admit func(ctx context.Context, c *conn) error
}

func newPool(db *sql.DB, size int, closed <-chan struct{}) *pool {
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	p := &pool{db: db, slots: make(chan *conn, size), closed: closed}
	for range size {
		p.slots <- nil
	}
	return p
}

func errClosed() error { return fmt.Errorf("sqlite: closed: %w", store.ErrUnavailable) }

// lend runs fn with a connection of the pool's. The wait for one is bounded by
// the context; its error is then returned as it is.
func (p *pool) lend(ctx context.Context, fn func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-p.closed:
		return errClosed()
	default:
	}
	var c *conn
	select {
	case <-p.closed:
		return errClosed()
	case <-ctx.Done():
		return ctx.Err()
	case c = <-p.slots:
	}
	defer func() {
		if c != nil && c.broken {
			p.lost(c.close())
			c = nil
		}
		p.slots <- c
	}()
	select {
	case <-p.closed:
		return errClosed()
	default:
	}
	if c == nil {
		var err error
		if c, err = p.connect(ctx); err != nil {
			return err
		}
	}
	return fn(c)
}

func (p *pool) connect(ctx context.Context) (*conn, error) {
	raw, err := p.db.Conn(ctx)
	if err != nil {
		return nil, judge(err)
	}
	c := &conn{Conn: raw, stmts: map[string]*sql.Stmt{}}
	if p.admit != nil {
		if err := p.admit(ctx, c); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// drain waits until every connection is back and closes it.
func (p *pool) drain() error {
	var all error
	for range cap(p.slots) {
		if c := <-p.slots; c != nil {
			all = errors.Join(all, c.close())
		}
	}
	return errors.Join(all, p.db.Close())
}

// begin opens a transaction that may write. It waits for other processes until
// the context ends, and longer than busyTimeout in no case.
func (c *conn) begin(ctx context.Context) error {
	_, err := c.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err != nil {
		// A BEGIN that was interrupted may have begun nevertheless.
		c.rollback()
		c.broken = c.broken || doubtful(err)
	}
	return err
}

// busyTimeout bounds the wait for another process's lock in one statement.
const busyTimeout = time.Minute

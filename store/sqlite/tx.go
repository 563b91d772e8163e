package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/unavez/unavez/store"
)

// errBroken says that the connection's state is doubtful; it is never used again.
var errBroken = errors.New("sqlite: the connection is broken")

// querier is a connection.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tx is one transaction, or one snapshot that only reads.
type tx struct {
	s     *Store
	q     querier
	w     *writer
	now   time.Time
	woken map[string]bool
	// failed is the first error that came from the database.
	failed error
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Tx    = (*tx)(nil)
)

// translate maps a driver's error to the port's sentinels.
func translate(err error) error {
	var e *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if s := sentinel(e.Code()); s != nil {
			return fmt.Errorf("%w: %w", s, err)
		}
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn), err.Error() == "sql: database is closed":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func sentinel(code int) error {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return store.ErrBusy
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY:
		return store.ErrFull
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_NOMEM:
		return store.ErrUnavailable
	case sqlite3.SQLITE_CONSTRAINT:
		return store.ErrConflict
	case sqlite3.SQLITE_INTERRUPT:
		return context.Canceled
	case sqlite3.SQLITE_ERROR:
		return nil
	}
	return nil
}

// InTx implements store.Store.
func (s *Store) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	timeout := opt.Timeout
	if timeout == 0 {
		timeout = defaultTxTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for try := 1; ; try++ {
		err, retryable := s.once1(ctx, fn)
		if err == nil || !retryable || opt.NoRetry || try >= retriesMax {
			return err
		}
		if !pause(ctx, try) {
			return err
		}
	}
}

// pause waits with jitter before the next try.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(time.Millisecond) << min(try, 8))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// once1 runs fn in one transaction and says whether the failure may be tried again.
func (s *Store) once1(ctx context.Context, fn func(store.Tx) error) (err error, retryable bool) {
	err = s.withWriter(ctx, func(w *writer) error {
		if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
			retryable = isBusy(err)
			return s.beginFailed(ctx, err)
		}
		t := &tx{s: s, q: w.conn, w: w, now: s.now(), woken: map[string]bool{}}
		done := false
		defer func() {
			if !done { // a panic of fn
				_ = w.rollback()
			}
		}()
		err := fn(t)
		done = true
		if err != nil {
			retryable = t.failed != nil && isBusy(t.failed)
			if e := w.rollback(); e != nil {
				return fmt.Errorf("%w: %w", errBroken, err)
			}
			if ctx.Err() != nil && t.failed != nil {
				return fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			return err
		}
		if err := s.commit(ctx, w); err != nil {
			retryable = errors.Is(err, store.ErrBusy)
			return err
		}
		s.signal(t.woken)
		return nil
	})
	return err, retryable
}

func (s *Store) beginFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("beginning a transaction: %w", translate(err))
}

// commit runs under a context that a hang-up cannot cancel. A busy COMMIT has
// committed nothing and is rolled back; any other failure is doubt.
func (s *Store) commit(ctx context.Context, w *writer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := w.exec(ctx, "COMMIT")
	if err == nil {
		return nil
	}
	if isBusy(err) && w.rollback() == nil {
		return fmt.Errorf("committing: %w", translate(err))
	}
	return fmt.Errorf("%w: %w", store.ErrCommitUnknown, err)
}

func isBusy(err error) bool { return errors.Is(translate(err), store.ErrBusy) }

func (w *writer) exec(ctx context.Context, query string) error {
	_, err := w.conn.ExecContext(ctx, query)
	return err
}

// rollback ends the transaction, whatever its state. A statement that failed
// may have rolled back already.
func (w *writer) rollback() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	err := w.exec(ctx, "ROLLBACK")
	if err != nil && err.Error() == "SQL logic error: cannot rollback - no transaction is active (1)" {
		return nil
	}
	return err
}

// View implements store.Store.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) (err error) {
	if s.isClosed() {
		return fmt.Errorf("sqlite: closed: %w", store.ErrUnavailable)
	}
	conn, err := s.readers.Conn(ctx)
	if err != nil {
		return fmt.Errorf("reading: %w", translate(err))
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("beginning a snapshot: %w", translate(err))
	}
	defer func() {
		if _, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); e != nil && err == nil {
			err = fmt.Errorf("ending a snapshot: %w", translate(e))
		}
	}()
	return fn(&tx{s: s, q: conn, now: s.now()})
}

// stmt prepares a statement once for the writing connection.
func (t *tx) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := t.w.stmt[query]; st != nil {
		return st, nil
	}
	st, err := t.w.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, t.fail(err)
	}
	t.w.stmt[query] = st
	return st, nil
}

// fail remembers the first error of the database and translates it.
func (t *tx) fail(err error) error {
	if err == nil {
		return nil
	}
	err = translate(err)
	if t.failed == nil && !errors.Is(err, store.ErrNotFound) {
		t.failed = err
	}
	return err
}

// exec runs a statement and returns the number of rows that it changed.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	st, err := t.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := res.RowsAffected()
	return n, t.fail(err)
}

// query calls scan for each row.
func (t *tx) query(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	var rows *sql.Rows
	if t.w != nil {
		st, err := t.stmt(ctx, query)
		if err != nil {
			return err
		}
		rows, err = st.QueryContext(ctx, args...)
		if err != nil {
			return t.fail(err)
		}
	} else if rows, err = t.q.QueryContext(ctx, query, args...); err != nil {
		return t.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return t.fail(err)
		}
	}
	return t.fail(rows.Err())
}

// all collects the rows of a query.
func all[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	var out []T
	err := t.query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		out = append(out, v)
		return err
	}, query, args...)
	return out, err
}

// one returns the only row of a query, or store.ErrNotFound.
func one[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	rows, err := all(ctx, t, scan, query, args...)
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return rows[0], nil
}

// scanner is a row.
type scanner interface{ Scan(dest ...any) error }

// micro writes an instant; the zero instant is NULL.
func micro(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// instant reads one back.
func instant(v sql.NullInt64) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return time.UnixMicro(v.Int64).UTC()
}

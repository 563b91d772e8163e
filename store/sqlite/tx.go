package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// Bounds of the tries of one transaction.
const (
	triesMax = 5
	// pauseBase bounds the wait after the first try; it doubles with each.
	pauseBase = 2 * time.Millisecond
	// committingMax is about how long a COMMIT takes that reaches the disk.
	committingMax = 2 * time.Millisecond
)

// tx is one transaction, or one snapshot that only reads.
type tx struct {
	c   *conn
	now time.Time
	// writes says that the transaction may write. Its statements run to their
	// end, since an interrupted one may end the transaction behind our back;
	// contexts are looked at between them.
	writes bool
	until  context.Context
	woken  map[string]bool
	// failed is the first error; from it on there is only the rollback.
	failed error
}

var _ store.Tx = (*tx)(nil)

// InTx implements store.Store.
func (s *Store) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	for try := 1; ; try++ {
		again, err := s.try(ctx, opt, fn)
		if err == nil || !again || opt.NoRetry || try >= triesMax || !pause(ctx, try) {
			return err
		}
	}
}

// pause waits with jitter before the next try; false says that the caller is gone.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(rand.N(pauseBase << try))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// try runs fn in one transaction and says whether the failure may be tried again.
func (s *Store) try(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) (again bool, err error) {
	lockTimeout := opt.LockTimeout
	if lockTimeout <= 0 {
		lockTimeout = s.opt.LockTimeout
	}
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	begun := false
	err = s.writer.lend(waiting, func(c *conn) error {
		if err := c.begin(waiting); err != nil {
			return judge(err)
		}
		begun = true
		again, err = s.run(ctx, c, opt, fn)
		return err
	})
	if err == nil || begun {
		return again, err
	}
	again = errors.Is(err, store.ErrBusy)
	if ctx.Err() == nil && waiting.Err() != nil && !errors.Is(err, store.ErrUnavailable) {
		again, err = true, fmt.Errorf("%w: nobody let go of the right to write within %v", store.ErrBusy, lockTimeout)
	}
	return again, fmt.Errorf("sqlite: beginning a transaction: %w", err)
}

// run is a transaction from its BEGIN on.
func (s *Store) run(ctx context.Context, c *conn, opt store.TxOptions, fn func(store.Tx) error) (again bool, err error) {
	timeout := opt.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	until, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w: the transaction took longer than %v", store.ErrBusy, timeout))
	defer cancel()
	t := &tx{c: c, now: s.now(), writes: true, until: until, woken: map[string]bool{}}
	ended := false
	defer func() {
		if !ended { // fn has panicked
			c.rollback()
		}
	}()
	err = fn(t)
	ended = true
	if err == nil {
		err = t.failed
	}
	if err != nil {
		c.rollback()
		return busy(t.failed), err
	}
	if crashpoint.Enabled {
		crashWhileCommitting(crashpoint.CommitOf(ctx))
	}
	if again, err = c.commit(); err == nil {
		s.wakes.signal(t.woken)
	}
	return again, err
}

// crashWhileCommitting marks the place at a random moment of the COMMIT that
// follows: it is one call, and nobody but another thread can meet it inside.
func crashWhileCommitting(place string) {
	if place != "" {
		time.AfterFunc(rand.N(committingMax), func() { crashpoint.Hit(place) })
	}
}

// commit is never canceled: a caller that hangs up leaves whole or nothing. A
// busy COMMIT has done nothing and is undone. After any other failure nobody
// knows what the log holds, and the connection is given up.
func (c *conn) commit() (again bool, err error) {
	_, err = c.ExecContext(context.Background(), "COMMIT")
	switch {
	case err == nil:
		return false, nil
	case busy(err):
		c.rollback()
		return true, fmt.Errorf("sqlite: committing: %w", judge(err))
	}
	c.broken = true
	return false, fmt.Errorf("sqlite: committing: %w: %w", store.ErrCommitUnknown, judge(err))
}

// View implements store.Store.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	began := false
	err := s.readers.lend(ctx, func(c *conn) error {
		if _, err := c.ExecContext(ctx, "BEGIN"); err != nil {
			c.rollback()
			return judge(err)
		}
		defer c.rollback()
		began = true
		return fn(&tx{c: c, now: s.now(), until: ctx})
	})
	if err != nil && !began {
		return fmt.Errorf("sqlite: beginning a snapshot: %w", err)
	}
	return err
}

// ready says whether a statement may run, and under which context. The
// transaction's own time limit is an error that names it.
func (t *tx) ready(ctx context.Context) (context.Context, error) {
	switch {
	case !t.writes:
		return ctx, nil
	case t.failed != nil:
		return nil, fmt.Errorf("sqlite: the transaction has failed before: %w", t.failed)
	case ctx.Err() != nil:
		t.failed = ctx.Err()
		return nil, t.failed
	case t.until.Err() != nil:
		t.failed = context.Cause(t.until)
		return nil, t.failed
	}
	return context.WithoutCancel(ctx), nil
}

// fail notes an error of the driver, and gives it its sentinel.
func (t *tx) fail(err error) error {
	if err == nil {
		return nil
	}
	t.c.broken = t.c.broken || doubtful(err)
	err = judge(err)
	if t.failed == nil && !errors.Is(err, store.ErrNotFound) {
		t.failed = err
	}
	return err
}

// exec runs a statement and returns the number of rows that it changed.
func (t *tx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	ctx, err := t.ready(ctx)
	if err != nil {
		return 0, err
	}
	res, err := t.c.exec(ctx, text, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := res.RowsAffected()
	return n, t.fail(err)
}

// query calls scan for each row.
func (t *tx) query(ctx context.Context, scan func(*sql.Rows) error, text string, args ...any) error {
	ctx, err := t.ready(ctx)
	if err != nil {
		return err
	}
	rows, err := t.c.query(ctx, text, args...)
	if err != nil {
		return t.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return t.fail(err)
		}
	}
	if err := rows.Err(); err != nil {
		return t.fail(err)
	}
	// RETURNING takes effect with the last step: its failure shows at the end.
	return t.fail(rows.Close())
}

// all collects the rows of a query.
func all[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	var out []T
	err := t.query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		out = append(out, v)
		return err
	}, text, args...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// one returns the first row of a query, or store.ErrNotFound.
func one[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	rows, err := all(ctx, t, scan, text, args...)
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

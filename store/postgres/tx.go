package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// How often a transaction is run, and how long it rests in between.
var (
	conflictPolicy = backoff.Policy{Base: 4 * time.Millisecond, Cap: 250 * time.Millisecond, Attempts: 10}
	busyPolicy     = backoff.Policy{Base: 20 * time.Millisecond, Cap: 500 * time.Millisecond, Attempts: 3}
)

// reconnectsMax is how often a transaction is begun anew because its
// connection was lost before COMMIT was sent.
const reconnectsMax = 1

var errPastDeadline = errors.New("the transaction took longer than it may")

// tx is one open transaction.
type tx struct {
	store *Store // nil in a caller's transaction
	pg    pgx.Tx
	// caller is the context of whoever began the transaction: nothing in it
	// outlasts it, whatever context the methods are given.
	caller context.Context
	// deadline is when the transaction has taken too long; zero is never.
	deadline time.Time
	// err is the first failure: after it there is only rollback.
	err error
	// canceled says that a statement was interrupted from this side.
	canceled bool
	// woken are the queues that have new work once this is committed.
	woken map[string]bool
	// fresh says that statements are planned anew from here on.
	fresh bool
}

var _ store.Tx = (*tx)(nil)

// Wrap lets the ledger's methods work in a transaction of the caller's, who
// commits it: nothing is retried, and a commit in doubt is the caller's to
// settle. Isolation must be READ COMMITTED.
func Wrap(pg pgx.Tx) store.Tx { return &tx{pg: pg, caller: context.Background()} }

// Unwrap returns the transaction of this package that a store.Tx stands for,
// for statements of the caller's own. False if it is of another backend.
func Unwrap(t store.Tx) (pgx.Tx, bool) {
	if own, ok := t.(*tx); ok {
		return own.pg, true
	}
	return nil, false
}

// InTx implements store.Store.
func (s *Store) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	conflicts, waits, reconnects := 0, 0, 0
	for {
		what, err := s.attempt(ctx, opt, fn)
		if err == nil || what == noRemedy || opt.NoRetry || ctx.Err() != nil {
			return err
		}
		var rest time.Duration
		switch what {
		case reconnect:
			if reconnects++; reconnects > reconnectsMax {
				return err
			}
		case waitAgain:
			if waits++; busyPolicy.Exhausted(waits) {
				return err
			}
			rest = busyPolicy.Delay(waits, nil)
		default:
			if conflicts++; conflictPolicy.Exhausted(conflicts) {
				return err
			}
			rest = conflictPolicy.Delay(conflicts, nil)
		}
		if pause(ctx, rest) != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// attempt runs fn in one transaction and says what may be done about a failure.
func (s *Store) attempt(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) (what remedy, err error) {
	t := &tx{store: s, caller: ctx, woken: map[string]bool{}}
	conn, err := s.begin(ctx, t, opt)
	if err != nil {
		err = doing("beginning a transaction", err)
		return remedyOf(err), err
	}
	ended := false
	defer func() {
		if !ended { // fn failed or panicked
			s.rollback(ctx, t, conn)
		}
	}()
	if err := fn(t); err != nil {
		// The server's answer decides even where fn says something else of it.
		if t.err != nil {
			return remedyOf(t.err), err
		}
		return remedyOf(err), err
	}
	if t.err != nil {
		return remedyOf(t.err), t.err
	}
	ended = true
	if err := s.commit(ctx, t, conn); err != nil {
		return remedyOf(err), doing("committing", err)
	}
	s.waker.announce(t.woken)
	return noRemedy, nil
}

func (s *Store) begin(ctx context.Context, t *tx, opt store.TxOptions) (*pgxpool.Conn, error) {
	query, timeout := "begin isolation level read committed", s.opt.Timeout
	if opt.LockTimeout > 0 && opt.LockTimeout != s.opt.LockTimeout {
		query += "; set local lock_timeout = " + millis(opt.LockTimeout)
	}
	if opt.Timeout > 0 && opt.Timeout != s.opt.Timeout {
		timeout = opt.Timeout
		query += "; set local statement_timeout = " + millis(timeout) +
			"; set local idle_in_transaction_session_timeout = " + millis(timeout)
	}
	return s.acquire(ctx, s.pool, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		t.deadline = time.Now().Add(timeout)
		ctx, cancel := t.bound(ctx)
		defer cancel()
		t.pg, err = conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: query})
		return err
	})
}

// View implements store.Store.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	t := &tx{store: s, caller: ctx}
	conn, err := s.acquire(ctx, s.pool, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		t.deadline = time.Now().Add(s.opt.Timeout)
		ctx, cancel := t.bound(ctx)
		defer cancel()
		t.pg, err = conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: "begin isolation level repeatable read read only"})
		return err
	})
	if err != nil {
		return doing("beginning to read", err)
	}
	defer s.rollback(ctx, t, conn)
	return fn(t)
}

// commit ends the transaction and gives the connection back. A caller that
// hangs up does not cancel it.
func (s *Store) commit(ctx context.Context, t *tx, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.CommitTimeout)
	defer cancel()
	raw := conn.Conn().PgConn()
	delete(raw.CustomData(), noticed)
	crashAfterSending(raw, crashpoint.CommitOf(ctx))
	err := t.pg.Commit(ctx)
	notice, warned := raw.CustomData()[noticed].(*pgconn.Notice)
	switch {
	case err == nil && !warned:
		conn.Release()
		return nil
	case err == nil:
		// The server committed, but not as durably as it was asked to.
		s.end(conn, true)
		return &failure{sentinel: store.ErrCommitUnknown, cause: fmt.Errorf("the server warned: %s (SQLSTATE %s)", notice.Message, notice.Code)}
	case refused(err) && raw.TxStatus() == 'I' && !raw.IsClosed():
		conn.Release()
		return judge(err, false)
	default:
		s.end(conn, true)
		return &failure{sentinel: store.ErrCommitUnknown, cause: err}
	}
}

// refused says that the server answered COMMIT by undoing the transaction: an
// ERROR comes before the commit's record is written, anything graver may not.
func refused(err error) bool {
	var answer *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &answer) && !fatal(answer)
}

// rollback ends the transaction and gives the connection back. It closes it if
// the server does not confirm, or if the caller went away: a request to cancel
// may still be on its way, and must not meet another transaction.
func (s *Store) rollback(caller context.Context, t *tx, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), endTimeout)
	defer cancel()
	if conn.Conn().IsClosed() || remedyOf(t.err) == reconnect || t.pg.Rollback(ctx) != nil || t.canceled {
		s.end(conn, !t.canceled)
		return
	}
	conn.Release()
}

// bound lets no statement outlive the caller, nor the transaction's deadline by
// more than a grace, in which the server's own limit is to act.
func (t *tx) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.caller, func() { cancel(t.caller.Err()) })
	end := func() { stop(); cancel(nil) }
	if t.deadline.IsZero() {
		return ctx, end
	}
	ctx, expire := context.WithDeadline(ctx, t.deadline.Add(deadlineGrace))
	return ctx, func() { expire(); end() }
}

// gone puts the caller's own end in front of what came of it.
func gone(caller context.Context, err error) error {
	if err == nil || caller.Err() == nil || errors.Is(err, caller.Err()) {
		return err
	}
	return &failure{sentinel: caller.Err(), cause: err}
}

// fail records what ended the transaction's use, and says what was attempted.
func (t *tx) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	err = doing(what, judge(err, t.pg.Conn().IsClosed()))
	if t.err == nil {
		t.err = err
	}
	return err
}

// run sends something to the server. It refuses to go on after a failure or
// past the deadline.
func (t *tx) run(ctx context.Context, what string, send func(context.Context) error) error {
	if t.err != nil {
		return doing(what, t.err)
	}
	if err := t.caller.Err(); err != nil {
		t.canceled = true
		return t.fail(what, err)
	}
	if !t.deadline.IsZero() && time.Now().After(t.deadline) {
		return t.fail(what, &failure{sentinel: store.ErrBusy, cause: errPastDeadline})
	}
	bound, end := t.bound(ctx)
	defer end()
	err := send(bound)
	if err != nil && bound.Err() != nil {
		t.canceled = true
		err = gone(ctx, gone(t.caller, judge(err, false)))
	}
	return t.fail(what, err)
}

// exec runs one statement and returns the number of rows.
func (t *tx) exec(ctx context.Context, what, sql string, args ...any) (n int64, err error) {
	err = t.run(ctx, what, func(ctx context.Context) error {
		tag, err := t.pg.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// send runs the statements of a batch in one round trip.
func (t *tx) send(ctx context.Context, what string, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return t.run(ctx, what, func(ctx context.Context) error { return t.pg.SendBatch(ctx, b).Close() })
}

// rows runs a query and scans its rows.
func rows[T any](ctx context.Context, t *tx, what string, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) (list []T, err error) {
	err = t.run(ctx, what, func(ctx context.Context) error {
		found, err := t.pg.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(found, scan)
		return err
	})
	return list, err
}

// row is rows where there is one at most; ErrNotFound leaves the transaction
// as good as it was.
func row[T any](ctx context.Context, t *tx, what string, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) (T, error) {
	list, err := rows(ctx, t, what, scan, sql, args...)
	if err != nil || len(list) == 0 {
		var none T
		if err == nil {
			err = doing(what, store.ErrNotFound)
		}
		return none, err
	}
	return list[0], nil
}

// lost ends the transaction because work is no longer held.
func (t *tx) lost(what string) error {
	return t.fail(what, store.ErrLeaseLost)
}

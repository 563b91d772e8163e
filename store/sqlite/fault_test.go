package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// injected is an error with a result code of SQLite.
type injected int

func (e injected) Error() string { return fmt.Sprintf("injected result code %d", int(e)) }
func (e injected) Code() int     { return int(e) }

// saboteur sits between the store and the driver, and lets one statement fail.
type saboteur struct {
	mu    sync.Mutex
	seen  int
	texts []string
	nth   int
	after bool
	err   error
}

// arm lets the nth statement from here on fail, before it is run or after it.
func (s *saboteur) arm(nth int, after bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.texts, s.nth, s.after, s.err = 0, nil, nth, after, err
}

func (s *saboteur) statements() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts
}

// meet counts a statement. The undoing of a failed transaction is no statement
// of its own.
func (s *saboteur) meet(text string) (before, after error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "ROLLBACK" {
		return nil, nil
	}
	s.seen++
	s.texts = append(s.texts, text)
	switch {
	case s.seen != s.nth:
		return nil, nil
	case s.after:
		return nil, s.err
	}
	return s.err, nil
}

func run[T any](s *saboteur, text string, fn func() (T, error)) (T, error) {
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

type saboteurConnector struct {
	driver.Connector
	s *saboteur
}

func (c saboteurConnector) Connect(ctx context.Context) (driver.Conn, error) {
	real, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return saboteurConn{Conn: real, s: c.s}, nil
}

type saboteurConn struct {
	driver.Conn
	s *saboteur
}

func (c saboteurConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return run(c.s, text, func() (driver.Result, error) { return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args) })
}

func (c saboteurConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return run(c.s, text, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args) })
}

func (c saboteurConn) BeginTx(ctx context.Context, opt driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opt)
}

func (c saboteurConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	real, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	return saboteurStmt{Stmt: real, s: c.s, text: text}, err
}

type saboteurStmt struct {
	driver.Stmt
	s    *saboteur
	text string
}

func (st saboteurStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return run(st.s, st.text, func() (driver.Result, error) { return st.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (st saboteurStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return run(st.s, st.text, func() (driver.Rows, error) { return st.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

func sabotaged(t *testing.T) (*Store, *saboteur) {
	t.Helper()
	sab := &saboteur{}
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), Options{
		Wrap: func(c driver.Connector) driver.Connector { return saboteurConnector{c, sab} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, sab
}

// unit is one transaction as the stages make it: it touches most tables.
func unit(ctx context.Context, s store.Store, id string) error {
	scope := store.Scope{Account: "acc", Mode: "live"}
	at := s.(*Store).now()
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		entry := store.EntryWithBody{Entry: store.Entry{ID: "evt_" + id, Scope: scope, Identity: id, ReceivedAt: at}, Body: store.Body{Bytes: []byte(id)}}
		name := store.ScopedName{Scope: scope, Value: "pi_" + id}
		key := store.OrderKey{Shop: "shop", ID: id}
		p := store.Payment{ID: "pay_" + id, Scope: scope, Order: key, CreatedAt: at}
		if _, err := tx.InsertEntries(ctx, []store.EntryWithBody{entry}); err != nil {
			return err
		}
		if _, err := tx.UpsertOrder(ctx, store.Order{ID: "ord_" + id, Key: key}); err != nil {
			return err
		}
		if err := tx.InsertPayment(ctx, p); err != nil {
			return err
		}
		if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: name, Payment: p.ID}}); err != nil {
			return err
		}
		if _, err := tx.WakeWaiting(ctx, []store.ScopedName{name}); err != nil {
			return err
		}
		if err := tx.AppendAudit(ctx, []store.AuditRow{{ID: "aud_" + id, Subject: "s", At: at}}); err != nil {
			return err
		}
		return tx.Save(ctx, store.Changes{
			Facts:    []store.Fact{{Payment: p.ID, Scope: scope, Fact: payment.Fact{Kind: payment.KindCapture, Object: id}, At: at}},
			Payments: []store.Payment{p}, Effects: []store.Effect{{Subject: p.ID, Key: id, At: at}},
			Messages:   []store.Message{{ID: "msg_" + id, Destination: "shop", Cause: id, Lane: p.ID, CreatedAt: at}},
			Exceptions: []store.Exception{{ID: "exc_" + id, Condition: id, OpenedAt: at}},
			Results:    []store.Result{{EntryID: entry.ID, State: store.EntryProcessed, At: at}},
			Work:       []store.Work{{Queue: store.QueueQuiet, ID: p.ID, Lane: p.ID}},
		})
	})
}

// unitIs says whether the unit is there: wholly, or not at all.
func unitIs(t *testing.T, s store.Store, id string) bool {
	t.Helper()
	ctx := t.Context()
	var there, gone int
	note := func(ok bool) {
		if ok {
			there++
		} else {
			gone++
		}
	}
	err := s.View(ctx, func(r store.Reader) error {
		e, err := r.Entry(ctx, "evt_"+id)
		note(err == nil && e.State == store.EntryProcessed)
		_, err = r.Body(ctx, "evt_"+id)
		note(err == nil)
		_, err = r.Order(ctx, store.OrderKey{Shop: "shop", ID: id})
		note(err == nil)
		_, err = r.Payment(ctx, "pay_"+id)
		note(err == nil)
		m, err := r.Message(ctx, "msg_"+id)
		note(err == nil && !m.NextAt.IsZero())
		_, err = r.Exception(ctx, "exc_"+id)
		note(err == nil)
		names, err := r.Names(ctx, "pay_"+id)
		note(len(names) == 1)
		facts, err2 := r.Facts(ctx, []string{"pay_" + id})
		note(len(facts) == 1)
		effects, err3 := r.Effects(ctx, []string{"pay_" + id})
		note(len(effects) == 1)
		return errors.Join(err, err2, err3)
	})
	if err != nil {
		t.Fatalf("reading unit %s: %v", id, err)
	}
	if there > 0 && gone > 0 {
		t.Errorf("unit %s is half there: %d of %d rows", id, there, there+gone)
	}
	return there > 0
}

// Each statement of a transaction fails once in turn, before it is run and
// after it: nothing is acknowledged that is not there, nothing is there by
// halves, and the store goes on.
func TestEachStatementFailsOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		// want is the error, nil where the try is repeated inside.
		want error
		// lost says that the connection is given up.
		lost bool
	}{
		{"BUSY", sqlite3.SQLITE_BUSY, nil, false},
		{"BUSY_SNAPSHOT", sqlite3.SQLITE_BUSY_SNAPSHOT, nil, false},
		{"LOCKED", sqlite3.SQLITE_LOCKED, nil, false},
		{"FULL", sqlite3.SQLITE_FULL, store.ErrFull, false},
		{"READONLY", sqlite3.SQLITE_READONLY, store.ErrFull, false},
		{"IOERR_WRITE", sqlite3.SQLITE_IOERR_WRITE, store.ErrUnavailable, true},
		{"IOERR_FSYNC", sqlite3.SQLITE_IOERR_FSYNC, store.ErrUnavailable, true},
		{"NOMEM", sqlite3.SQLITE_NOMEM, store.ErrUnavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sab := sabotaged(t)
			sab.arm(0, false, nil)
			if err := unit(t.Context(), s, "clean"); err != nil {
				t.Fatal(err)
			}
			texts := sab.statements()
			if len(texts) < 20 || texts[0] != "BEGIN IMMEDIATE" || texts[len(texts)-1] != "COMMIT" {
				t.Fatalf("the statements of a unit are %q", texts)
			}
			for _, after := range []bool{false, true} {
				for nth := 1; nth <= len(texts); nth++ {
					id := fmt.Sprintf("%d%v", nth, after)
					before := s.Epoch()
					sab.arm(nth, after, injected(c.code))
					err := unit(t.Context(), s, id)
					sab.arm(0, false, nil)
					judgeFailure(t, s, id, failure{
						text: texts[nth-1], after: after, got: err, want: c.want, lost: c.lost, replaced: s.Epoch() != before,
					})
				}
			}
		})
	}
}

// failure is what came of one statement that failed.
type failure struct {
	text           string
	after          bool
	got, want      error
	lost, replaced bool
}

func judgeFailure(t *testing.T, s *Store, id string, f failure) {
	t.Helper()
	there := unitIs(t, s, id)
	commit := f.text == "COMMIT"
	switch {
	case f.want == nil && commit && f.after:
		// A COMMIT that is done does not say that it is busy; if it did, the
		// repetition would meet its own rows.
	case f.want == nil:
		if f.got != nil || !there || f.replaced {
			t.Errorf("%s: %v, there %v, connection replaced %v: want a repetition that succeeds", f.text, f.got, there, f.replaced)
		}
	case commit:
		if !errors.Is(f.got, store.ErrCommitUnknown) || !errors.Is(f.got, f.want) || !f.replaced {
			t.Errorf("COMMIT: %v, connection replaced %v: want doubt about %v and a fresh connection", f.got, f.replaced, f.want)
		}
		if there != f.after {
			t.Errorf("COMMIT that was done %v: there %v", f.after, there)
		}
	default:
		if !errors.Is(f.got, f.want) || errors.Is(f.got, store.ErrCommitUnknown) || there {
			t.Errorf("%s: %v, there %v: want %v and nothing", f.text, f.got, there, f.want)
		}
		if f.replaced != f.lost {
			t.Errorf("%s: connection replaced %v, want %v", f.text, f.replaced, f.lost)
		}
	}
	if there {
		return
	}
	if err := unit(t.Context(), s, id); err != nil || !unitIs(t, s, id) {
		t.Errorf("again after %s: %v", f.text, err)
	}
}

// A claim whose statements fail is a claim or none; nobody holds what nobody got.
func TestClaimFails(t *testing.T) {
	s, sab := sabotaged(t)
	ctx := t.Context()
	req := store.ClaimRequest{Queue: "q", Lanes: 5, PerLane: 5}
	enqueue := func() {
		t.Helper()
		err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
			return tx.Enqueue(ctx, []store.Work{{Queue: "q", ID: "1", Lane: "a"}, {Queue: "q", ID: "2", Lane: "b"}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue()
	sab.arm(0, false, nil)
	if _, err := s.Claim(ctx, req); err != nil {
		t.Fatal(err)
	}
	for nth, text := range sab.statements() {
		sab.arm(nth+1, false, injected(sqlite3.SQLITE_IOERR_READ))
		if c, err := s.Claim(ctx, req); !errors.Is(err, store.ErrUnavailable) || len(c.Items) > 0 {
			t.Errorf("%s failed: %+v, %v", text, c, err)
		}
		sab.arm(0, false, nil)
		if c, err := s.Claim(ctx, req); err != nil || len(c.Items) != 2 {
			t.Errorf("after %s failed: %+v, %v", text, c, err)
		}
	}
}

// A snapshot whose statements fail costs its reader an error, and the pool of
// readers stays whole.
func TestReadsFail(t *testing.T) {
	s, sab := sabotaged(t)
	if err := unit(t.Context(), s, "1"); err != nil {
		t.Fatal(err)
	}
	for range 3 * DefaultReaders {
		for nth := 1; nth <= 2; nth++ {
			sab.arm(nth, false, injected(sqlite3.SQLITE_IOERR_READ))
			err := s.View(t.Context(), func(r store.Reader) error {
				_, err := r.Entry(t.Context(), "evt_1")
				return err
			})
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("statement %d: %v", nth, err)
			}
		}
	}
	sab.arm(0, false, nil)
	if !unitIs(t, s, "1") {
		t.Error("the readers have not recovered")
	}
}

// Ends that only show when a retried transaction is out of tries.
func TestBusyForGood(t *testing.T) {
	s, sab := sabotaged(t)
	runs := 0
	err := s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
		runs++
		sab.arm(1, false, injected(sqlite3.SQLITE_BUSY))
		return tx.SetSetting(t.Context(), "k", "v")
	})
	if !errors.Is(err, store.ErrBusy) || runs != triesMax {
		t.Errorf("%d runs, %v", runs, err)
	}
	runs = 0
	err = s.InTx(t.Context(), store.TxOptions{NoRetry: true}, func(tx store.Tx) error {
		runs++
		sab.arm(1, false, injected(sqlite3.SQLITE_BUSY_SNAPSHOT))
		return fmt.Errorf("wrapped: %w", tx.SetSetting(t.Context(), "k", "v"))
	})
	if !errors.Is(err, store.ErrBusy) || runs != 1 || !strings.Contains(err.Error(), "wrapped") {
		t.Errorf("without repetition: %d runs, %v", runs, err)
	}
}

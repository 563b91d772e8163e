package postgres_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
)

// A pooler may keep no prepared statements: every statement works in every way
// of sending it.
func TestExecModes(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, database(t)+"&default_query_exec_mode="+mode, postgres.Options{})
			w := &walk{t: t, s: s, run: 1}
			for _, step := range walkOrder {
				if err := w.steps()[step](); err != nil {
					t.Errorf("%s: %v", step, err)
				}
				if step != "look" && !marked(t, s, w.mark(step)) {
					t.Errorf("%s left no mark", step)
				}
			}
			if _, err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The ledger joins a transaction of the caller's: both commit, or neither.
func TestCallersTransaction(t *testing.T) {
	url := database(t)
	s := open(t, url, postgres.Options{})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE shop_order (id text)`); err != nil {
		t.Fatal(err)
	}
	both := func(id string, fail error) error {
		return pgx.BeginFunc(t.Context(), conn, func(pg pgx.Tx) error {
			if _, err := pg.Exec(t.Context(), `INSERT INTO shop_order VALUES ($1)`, id); err != nil {
				return err
			}
			tx := postgres.Wrap(pg)
			if own, ok := postgres.Unwrap(tx); !ok || own != pg {
				t.Error("what was wrapped is not unwrapped")
			}
			if err := tx.InsertPayment(t.Context(), store.Payment{ID: id, Scope: live}); err != nil {
				return err
			}
			work := []store.Work{{Queue: store.QueueInbox, ID: id, Lane: id}}
			return errors.Join(tx.Enqueue(t.Context(), work), fail)
		})
	}
	undone := errors.New("the shop changed its mind")
	if err := both("pay_1", undone); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if err := both("pay_2", nil); err != nil {
		t.Fatal(err)
	}
	var ids []string
	err = s.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
		pg, ok := postgres.Unwrap(tx)
		if !ok {
			t.Fatal("a transaction of the store is not unwrapped")
		}
		found, err := pg.Query(t.Context(), `SELECT p.id FROM payment p JOIN shop_order o ON o.id = p.id ORDER BY p.id`)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	if err != nil || len(ids) != 1 || ids[0] != "pay_2" {
		t.Errorf("stored %v, %v", ids, err)
	}
	if _, ok := postgres.Unwrap(nil); ok {
		t.Error("nothing was unwrapped")
	}
}

// What one process commits wakes another, also after its listener was cut off.
func TestWakeBetweenProcesses(t *testing.T) {
	proxy, near, far, _ := proxied(t)
	wake := near.Wake("q")
	// The listener may come too late for a hint: poll as a worker does, by
	// leaving work until one is heard.
	await := func(what string) {
		t.Helper()
		for i := 0; ; i++ {
			err := far.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
				return tx.Enqueue(t.Context(), []store.Work{{Queue: "q", ID: "1", Lane: "l"}})
			})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-wake:
				return
			case <-t.Context().Done():
				t.Fatal(what)
			default:
			}
		}
	}
	await("never woken")
	before := near.Epoch()
	proxy.CutAll()
	for near.Epoch() == before { // the listener notices by itself
		runtime.Gosched()
	}
	for len(wake) > 0 {
		<-wake
	}
	await("never woken after the cut")
}

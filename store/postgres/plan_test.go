package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/store"
)

// plan is a node of what EXPLAIN (FORMAT JSON) prints.
type plan struct {
	Node     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Cond     string `json:"Index Cond"`
	Plans    []plan `json:"Plans"`
}

// scans lists the nodes that read a whole table: sequential scans, and scans of
// an index without a condition.
func (p plan) scans() (found []string) {
	switch {
	case p.Node == "Seq Scan":
		found = append(found, "sequential scan of "+p.Relation)
	case strings.HasPrefix(p.Node, "Index") && p.Relation != "" && p.Cond == "":
		found = append(found, "whole index of "+p.Relation)
	case p.Node == "Hash Join", p.Node == "Merge Join":
		found = append(found, p.Node)
	}
	for _, child := range p.Plans {
		found = append(found, child.scans()...)
	}
	return found
}

// hot are the statements that run for each batch.
func hot() map[string]string {
	return map[string]string{
		"takeLanes": takeLanes, "markSuspects": markSuspects, "takeAny": takeAny, "takeInOrder": takeInOrder,
		"leaveAny": leaveAny, "leaveInOrder": leaveInOrder, "dropEmpty": dropEmpty, "countLanes": countLanes,
		"lockHeld": lockHeld, "lockLease": lockLease, "freeLanes": freeLanes,
		"complete":  `DELETE FROM work w WHERE w.queue = $1 AND w.id = ANY($3::text[]) AND` + held,
		"postpone":  postponeWork,
		"firstRows": firstEntries, "bodies": bodiesSQL, "owners": ownersOf, "lockOrders": lockOrders,
		"lockPayments":     paymentSelect + ` WHERE p.id = ANY($1::text[]) ORDER BY p.id FOR UPDATE`,
		"paymentsOfOrders": paymentsOfOrders,
		"facts":            factSelect, "updatePayments": updatePayments, "updateOrders": updateOrders,
		"lockWaiting": lockWaiting, "wakeWork": wakeWork, "wakeLanes": wakeLanes,
	}
}

// explain shows the generic plan, which is what a statement that was prepared
// earlier is run by.
func explain(t *testing.T, conn *pgx.Conn, name, sql string) plan {
	t.Helper()
	ctx := t.Context()
	description, err := conn.Prepare(ctx, name, sql)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(description.ParamOIDs)), ", ")
	var raw []byte
	err = conn.QueryRow(ctx, fmt.Sprintf(`EXPLAIN (FORMAT JSON) EXECUTE %s (%s)`, pgx.Identifier{name}.Sanitize(), nulls), pgx.QueryExecModeSimpleProtocol).Scan(&raw)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(raw, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%s: %v: %s", name, err, raw)
	}
	return plans[0].Plan
}

// The plan trap: a statement is prepared while its tables are empty, and keeps
// its plan when they are full. Every hot statement finds its rows through an
// index from the beginning, and still does after 10,000 items came.
func TestPlansOfAnEmptyLedgerStay(t *testing.T) {
	url := pgtest.URL(t)
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := s.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	look := func(when string) {
		for name, sql := range hot() {
			if found := explain(t, conn, name, sql).scans(); len(found) > 0 {
				t.Errorf("%s, %s: %s", when, name, strings.Join(found, ", "))
			}
		}
	}
	look("empty")
	if err := push(t.Context(), s, 10_000); err != nil {
		t.Fatal(err)
	}
	look("full, never analyzed")
	if err := few(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	look("analyzed while some tables are empty")
	if n := drain(t, s); n != 10_000 {
		t.Errorf("%d items came out", n)
	}
}

func push(ctx context.Context, s *Store, items int) error {
	const batch = 500
	for from := 0; from < items; from += batch {
		err := s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
			work := make([]store.Work, batch)
			for i := range work {
				work[i] = store.Work{Queue: "q", ID: fmt.Sprintf("%06d", from+i), Lane: fmt.Sprint((from + i) % 3000)}
			}
			return tx.Enqueue(ctx, work)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// few stores a few payments and their orders.
func few(ctx context.Context, s *Store) error {
	return s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		for i := range 20 {
			key := store.OrderKey{Shop: "s", ID: fmt.Sprint("o-", i)}
			if _, err := tx.UpsertOrder(ctx, store.Order{ID: fmt.Sprint("ord_", i), Key: key}); err != nil {
				return err
			}
			if err := tx.InsertPayment(ctx, store.Payment{ID: fmt.Sprint("pay_", i), Order: key}); err != nil {
				return err
			}
		}
		return nil
	})
}

func drain(t *testing.T, s *Store) (n int) {
	t.Helper()
	ctx := t.Context()
	for {
		claim, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Lanes: 200, PerLane: 10, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if len(claim.Items) == 0 {
			return n
		}
		var ids []string
		for _, it := range claim.Items {
			ids = append(ids, it.ID)
		}
		err = s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
			if err := tx.Complete(ctx, "q", claim.Token, ids); err != nil {
				return err
			}
			return tx.Release(ctx, "q", claim.Token)
		})
		if err != nil {
			t.Fatal(err)
		}
		n += len(ids)
	}
}

package sqlite

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/store"
)

// plan is what SQLite means to do for a statement; parameters are NULL.
func plan(t *testing.T, s *Store, text string) string {
	t.Helper()
	var lines []string
	err := s.readers.lend(t.Context(), func(c *conn) error {
		rows, err := c.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			lines = append(lines, detail)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return few.ReplaceAllString(strings.Join(lines, "; "), "FEW")
}

// scans are plans that read all of a table, directly or through an index.
var scans = regexp.MustCompile(`SCAN (?:lane|work|l|w|i|r|d|b|p|o|m|x|a|name|waiting|payment|orders|fact|effect|message|inbox\w*)\b`)

// few are indexes that only hold what needs a person.
var few = regexp.MustCompile(`SCAN \w USING INDEX (?:inbox_result_dead|message_state)\b`)

// What the stages do all day costs as much in a ledger of a million payments as
// in an empty one. The statements are those that the connections have prepared.
func TestHotStatementsUseIndexes(t *testing.T) {
	s := migrated(t, Options{Readers: 1})
	ctx := t.Context()
	work(t, s)
	var texts []string
	for _, p := range []*pool{s.writer, s.readers} {
		err := p.lend(ctx, func(c *conn) error {
			for text := range c.stmts {
				texts = append(texts, text)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) < 50 {
		t.Fatalf("only %d statements were prepared", len(texts))
	}
	for _, text := range texts {
		if found := plan(t, s, text); scans.MatchString(found) {
			t.Errorf("%s\n\tis done by: %s", text, found)
		}
	}
}

// work goes once through what the stages do.
func work(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	if err := unit(ctx, s, "1"); err != nil {
		t.Fatal(err)
	}
	unitIs(t, s, "1")
	name := store.ScopedName{Scope: store.Scope{Account: "acc", Mode: "live"}, Value: "pi_2"}
	inTx := func(fn func(tx store.Tx) error) {
		t.Helper()
		if err := s.InTx(ctx, store.TxOptions{}, fn); err != nil {
			t.Fatal(err)
		}
	}
	inTx(func(tx store.Tx) error {
		return tx.Enqueue(ctx, []store.Work{{Queue: "q", ID: "1", Lane: "a"}, {Queue: "q", ID: "2", Lane: "a"}, {Queue: "inbox", ID: "evt_1", Lane: "b"}})
	})
	for _, ordered := range []bool{true, false} {
		c, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Lanes: 5, PerLane: 1, Lease: time.Hour, Ordered: ordered})
		if err != nil || len(c.Items) != 1 {
			t.Fatalf("claimed %+v, %v", c, err)
		}
		inTx(func(tx store.Tx) error {
			id := c.Items[0].ID
			return errors.Join(tx.Extend(ctx, "q", c.Token, time.Hour), tx.CountAttempt(ctx, "q", c.Token, []string{id}),
				tx.Postpone(ctx, "q", c.Token, []store.Postponed{{ID: id, Delay: time.Hour}}), tx.Release(ctx, "q", c.Token),
				tx.Wait(ctx, []store.Waiting{{EntryID: "evt_1", Name: name}}), tx.Unwait(ctx, []string{"evt_1"}))
		})
	}
	c, err := s.Claim(ctx, store.ClaimRequest{Queue: "inbox", Lanes: 5, PerLane: 5, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	inTx(func(tx store.Tx) error { return tx.Complete(ctx, "inbox", c.Token, []string{"evt_1"}) })
	inTx(func(tx store.Tx) error { return everyOtherCall(ctx, tx) })
}

func everyOtherCall(ctx context.Context, tx store.Tx) error {
	live := store.Scope{Account: "acc", Mode: "live"}
	name := store.ScopedName{Scope: live, Value: "pi_1"}
	_, err1 := tx.LockOrders(ctx, []store.OrderKey{{Shop: "shop", ID: "1"}})
	_, err2 := tx.LockPayments(ctx, []string{"pay_1"})
	_, err3 := tx.PaymentsOfOrders(ctx, []store.OrderKey{{Shop: "shop", ID: "1"}})
	_, err4 := tx.Owners(ctx, []store.ScopedName{name})
	_, err5 := tx.OwnersAnywhere(ctx, "acc", []string{"pi_1"})
	_, err6 := tx.OrderKeysOf(ctx, []string{"pay_1"})
	_, err7 := tx.ConditionsOf(ctx, []string{"pay_1"})
	_, err8 := tx.Bodies(ctx, []string{"evt_1"})
	_, err9 := tx.MessagesByID(ctx, []string{"msg_1"})
	_, err10 := tx.EntryByIdentity(ctx, live, "1")
	_, err11 := tx.AuditChain(ctx, "s")
	_, err12 := tx.Attempts(ctx, "msg_1")
	_, err13 := tx.WakeWaiting(ctx, []store.ScopedName{name})
	_, err14 := tx.OrderByID(ctx, "ord_1")
	_, _, err15 := tx.BeginKey(ctx, store.IdempotencyKey{Principal: "p", Key: "k"})
	_, err16 := tx.SweepKeys(ctx, time.UnixMicro(1), 10)
	_, err17 := tx.InsertEntries(ctx, []store.EntryWithBody{{Entry: store.Entry{ID: "evt_2", Scope: live, Identity: "1"}}})
	_, err18 := tx.WaitingUnder(ctx, "acc", "pi_1", 10)
	return errors.Join(err18, err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14, err15, err16, err17,
		tx.CountDeliveries(ctx, map[string]int{"evt_1": 1}, time.UnixMicro(1)),
		tx.RecordAttempts(ctx, []store.Attempt{{ID: "att_1", Message: "msg_1", Number: 1}}, map[string]store.MessageState{"msg_1": store.MessageDead}),
		tx.SetSetting(ctx, "k", "v"), tx.DeleteKey(ctx, "p", "k"))
}

// Lists that people ask for by a rare value do not read the whole ledger.
func TestListsOfFewUseIndexes(t *testing.T) {
	s := migrated(t, Options{Readers: 1})
	ctx := t.Context()
	for _, c := range []struct {
		name  string
		list  func(store.Reader, store.List) error
		where map[string]string
	}{
		{"dead entries", entries, map[string]string{"state": store.EntryDead}},
		{"waiting entries", entries, map[string]string{"state": store.EntryWaiting}},
		{"entries of a payment", entries, map[string]string{"payment": "pay_1"}},
		{"entries of an order", entries, map[string]string{"order": "o-1"}},
		{"variants", entries, map[string]string{"variant_of": "evt_1"}},
		{"entries by the provider's id", entries, map[string]string{"provider_event_id": "evt_1"}},
		{"payments of an order", payments, map[string]string{"order": "o-1"}},
		{"messages of a payment", messages, map[string]string{"payment": "pay_1"}},
		{"messages of an order", messages, map[string]string{"order": "o-1"}},
		{"dead messages", messages, map[string]string{"state": "dead"}},
		{"open exceptions", exceptions, map[string]string{"state": "open"}},
		{"exceptions of a payment", exceptions, map[string]string{"payment": "pay_1"}},
		{"exceptions of an entry", exceptions, map[string]string{"event": "evt_1"}},
		{"audit of a subject", audit, map[string]string{"subject": "s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.readers.lend(ctx, func(conn *conn) error { return conn.forget() })
			if err != nil {
				t.Fatal(err)
			}
			if err := s.View(ctx, func(r store.Reader) error { return c.list(r, store.List{Where: c.where, Limit: 10}) }); err != nil {
				t.Fatal(err)
			}
			var texts []string
			err = s.readers.lend(ctx, func(conn *conn) error {
				for text := range conn.stmts {
					texts = append(texts, text)
				}
				return nil
			})
			if err != nil || len(texts) != 1 {
				t.Fatalf("statements: %q, %v", texts, err)
			}
			if found := plan(t, s, texts[0]); scans.MatchString(found) {
				t.Errorf("is done by: %s", found)
			}
		})
	}
}

func entries(r store.Reader, l store.List) error {
	_, err := r.Entries(context.Background(), l)
	return err
}

func payments(r store.Reader, l store.List) error {
	_, err := r.Payments(context.Background(), l)
	return err
}

func messages(r store.Reader, l store.List) error {
	_, err := r.Messages(context.Background(), l)
	return err
}

func exceptions(r store.Reader, l store.List) error {
	_, err := r.Exceptions(context.Background(), l)
	return err
}

func audit(r store.Reader, l store.List) error {
	_, err := r.Audit(context.Background(), l)
	return err
}

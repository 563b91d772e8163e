package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/internal/pgproxy"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
)

var at = time.Date(2026, 3, 1, 12, 30, 45, 123_456_000, time.UTC)

var live = store.Scope{Account: "acc", Mode: "live"}

// proxied returns a store behind a proxy, and one that reads past it.
func proxied(t *testing.T) (*pgproxy.Proxy, *postgres.Store, *postgres.Store, string) {
	t.Helper()
	url := database(t)
	proxy, err := pgproxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy, open(t, proxy.URL(), postgres.Options{}), open(t, url, postgres.Options{}), url
}

// walk is one way through every statement of the store, each transaction with a
// mark that tells later whether it committed.
type walk struct {
	t   *testing.T
	s   *postgres.Store
	run int
}

func (w *walk) id(kind string) string { return fmt.Sprintf("%s_%d", kind, w.run) }

func (w *walk) mark(step string) string { return fmt.Sprintf("%s.%d", step, w.run) }

func (w *walk) queue() string { return w.id("q") }

func (w *walk) name() store.ScopedName { return store.ScopedName{Scope: live, Value: w.id("pi")} }

func (w *walk) key() store.OrderKey { return store.OrderKey{Shop: "shop", ID: w.id("o")} }

func (w *walk) tx(step string, fn func(ctx context.Context, tx store.Tx) error) error {
	ctx := w.t.Context()
	return w.s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return tx.SetSetting(ctx, w.mark(step), "done")
	})
}

func (w *walk) receive() error {
	return w.tx("receive", func(ctx context.Context, tx store.Tx) error {
		var entries []store.EntryWithBody
		for _, id := range []string{w.id("evt"), w.id("evt2")} {
			entries = append(entries, store.EntryWithBody{
				Entry: store.Entry{ID: id, Scope: live, Identity: "identity " + id, ReceivedAt: at}, Body: store.Body{Bytes: []byte(id)},
			})
		}
		if _, err := tx.InsertEntries(ctx, entries); err != nil {
			return err
		}
		again, err := tx.InsertEntries(ctx, entries[:1])
		if err == nil && again[0].New {
			err = errors.New("one identity is new twice")
		}
		if err != nil {
			return err
		}
		if err := tx.CountDeliveries(ctx, map[string]int{entries[0].ID: 1}, at); err != nil {
			return err
		}
		return tx.Enqueue(ctx, []store.Work{
			{Queue: w.queue(), ID: w.id("evt"), Lane: w.id("lane")}, {Queue: store.QueueInbox, ID: w.id("evt2"), Lane: w.id("lane")},
		})
	})
}

func (w *walk) register() error {
	return w.tx("register", func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.UpsertOrder(ctx, store.Order{ID: w.id("ord"), Key: w.key(), CreatedAt: at}); err != nil {
			return err
		}
		if err := tx.InsertPayment(ctx, store.Payment{ID: w.id("pay"), Scope: live, Order: w.key(), CreatedAt: at}); err != nil {
			return err
		}
		if _, err := tx.Bind(ctx, []store.Binding{{ScopedName: w.name(), Payment: w.id("pay")}}); err != nil {
			return err
		}
		if err := tx.Wait(ctx, []store.Waiting{{EntryID: w.id("evt2"), Name: w.name()}}); err != nil {
			return err
		}
		_, err := tx.WakeWaiting(ctx, []store.ScopedName{w.name()})
		return err
	})
}

// apply works off what was received. The lease lapses at once, so that what a
// fault leaves behind can be claimed again.
func (w *walk) apply() error {
	claim, err := w.s.Claim(w.t.Context(), store.ClaimRequest{Queue: w.queue(), Lanes: 10, PerLane: 10})
	if err != nil || len(claim.Items) == 0 {
		return err
	}
	return w.tx("apply", func(ctx context.Context, tx store.Tx) error {
		if err := tx.Extend(ctx, w.queue(), claim.Token, 0); err != nil {
			return err
		}
		if err := tx.CountAttempt(ctx, w.queue(), claim.Token, []string{w.id("evt")}); err != nil {
			return err
		}
		if err := w.load(ctx, tx); err != nil {
			return err
		}
		if err := tx.Save(ctx, w.changes()); err != nil {
			return err
		}
		if err := tx.Complete(ctx, w.queue(), claim.Token, []string{w.id("evt")}); err != nil {
			return err
		}
		if err := tx.Unwait(ctx, []string{w.id("evt")}); err != nil {
			return err
		}
		return tx.Release(ctx, w.queue(), claim.Token)
	})
}

func (w *walk) load(ctx context.Context, tx store.Tx) error {
	pay, scoped := []string{w.id("pay")}, []store.ScopedName{w.name()}
	_, e1 := tx.Bodies(ctx, []string{w.id("evt")})
	_, e2 := tx.Owners(ctx, scoped)
	_, e3 := tx.OwnersAnywhere(ctx, live.Account, []string{w.name().Value})
	_, e4 := tx.OrderKeysOf(ctx, pay)
	_, e5 := tx.LockOrders(ctx, []store.OrderKey{w.key()})
	_, e6 := tx.PaymentsOfOrders(ctx, []store.OrderKey{w.key()})
	_, e7 := tx.LockPayments(ctx, pay)
	_, e8 := tx.Facts(ctx, pay)
	_, e9 := tx.Effects(ctx, pay)
	_, e10 := tx.WaitingUnder(ctx, live.Account, w.name().Value, 10)
	return errors.Join(e1, e2, e3, e4, e5, e6, e7, e8, e9, e10)
}

// changes has rows of every kind. What register stored may be missing, and
// then so are the changes of it.
func (w *walk) changes() store.Changes {
	row := store.AuditRow{ID: w.id("aud"), Subject: w.id("pay"), At: at}
	store.Chain(store.AuditHead{}, &row)
	return store.Changes{
		Facts: []store.Fact{{Payment: w.id("pay"), Scope: live, EntryID: w.id("evt"), At: at, Fact: payment.Fact{
			Kind: payment.KindCapture, Form: payment.FormItem, Object: w.id("ch"), Stage: payment.StageSucceeded, Amount: payment.Money{Value: 5, Currency: "EUR"},
		}}},
		Effects:    []store.Effect{{Subject: w.id("pay"), Key: "k", At: at}},
		Messages:   []store.Message{{ID: w.id("msg"), Destination: w.id("shop"), Cause: "c", Lane: "l", State: store.MessagePending, CreatedAt: at}},
		Exceptions: []store.Exception{{ID: w.id("exc"), Condition: w.id("cond"), State: store.ExceptionOpen, OpenedAt: at}},
		Audit:      []store.AuditRow{row},
		Results:    []store.Result{{EntryID: w.id("evt"), State: store.EntryProcessed, At: at}},
		Work:       []store.Work{{Queue: store.QueueQuiet, ID: w.id("pay"), Lane: w.id("pay")}},
	}
}

func (w *walk) deliver() error {
	queue := store.QueueOutbox(w.id("shop"))
	claim, err := w.s.Claim(w.t.Context(), store.ClaimRequest{Queue: queue, Lanes: 10, PerLane: 10, Ordered: true})
	if err != nil || len(claim.Items) == 0 {
		return err
	}
	return w.tx("deliver", func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.MessagesByID(ctx, []string{w.id("msg")}); err != nil {
			return err
		}
		if err := tx.Postpone(ctx, queue, claim.Token, []store.Postponed{{ID: w.id("msg")}}); err != nil {
			return err
		}
		return tx.RecordAttempts(ctx, []store.Attempt{{ID: w.id("att"), Message: w.id("msg"), Number: 1, At: at}},
			map[string]store.MessageState{w.id("msg"): store.MessagePending})
	})
}

func (w *walk) serve() error {
	return w.tx("serve", func(ctx context.Context, tx store.Tx) error {
		if _, _, err := tx.BeginKey(ctx, store.IdempotencyKey{Principal: "ops", Key: w.id("k"), CreatedAt: at, ExpiresAt: at}); err != nil {
			return err
		}
		if err := tx.PutKey(ctx, store.IdempotencyKey{Principal: "ops", Key: w.id("k"), State: "done", CreatedAt: at, ExpiresAt: at}); err != nil {
			return err
		}
		if err := tx.AppendAudit(ctx, []store.AuditRow{{ID: w.id("audit"), Subject: w.id("tok"), At: at}}); err != nil {
			return err
		}
		return tx.InsertToken(ctx, store.Token{ID: w.id("tok"), Hash: []byte(w.id("tok")), CreatedAt: at})
	})
}

func (w *walk) look() error {
	ctx := w.t.Context()
	err := w.s.View(ctx, func(r store.Reader) error {
		_, e1 := r.Entries(ctx, store.List{Limit: 1})
		_, e2 := r.Payments(ctx, store.List{Limit: 1})
		return errors.Join(e1, e2)
	})
	_, e1 := w.s.Stats(ctx)
	_, e2 := w.s.Now(ctx)
	return errors.Join(err, e1, e2)
}

// steps are the walk's transactions by the mark that each leaves.
func (w *walk) steps() map[string]func() error {
	return map[string]func() error{
		"receive": w.receive, "register": w.register, "apply": w.apply, "deliver": w.deliver, "serve": w.serve, "look": w.look,
	}
}

var walkOrder = []string{"receive", "register", "apply", "deliver", "serve", "look"}

func marked(t *testing.T, s *postgres.Store, mark string) bool {
	t.Helper()
	err := s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Setting(t.Context(), mark)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// faultCase is a kind of fault and the errors that may be told of it.
type faultCase struct {
	name    string
	fault   pgproxy.Fault
	allowed []error
}

var faultCases = []faultCase{
	{"40001", pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40001"}, nil},
	{"40P01", pgproxy.Fault{Kind: pgproxy.Refuse, Code: "40P01"}, nil},
	{"57014", pgproxy.Fault{Kind: pgproxy.Refuse, Code: "57014"}, []error{store.ErrBusy}},
	{"57P01", pgproxy.Fault{Kind: pgproxy.Fatal, Code: "57P01"}, []error{store.ErrCommitUnknown, store.ErrUnavailable}},
	{"53300", pgproxy.Fault{Kind: pgproxy.Fatal, Code: "53300"}, []error{store.ErrCommitUnknown, store.ErrUnavailable}},
	{"08006", pgproxy.Fault{Kind: pgproxy.Fatal, Code: "08006"}, []error{store.ErrCommitUnknown, store.ErrUnavailable}},
	{"cut before", pgproxy.Fault{Kind: pgproxy.CutBefore}, []error{store.ErrCommitUnknown, store.ErrUnavailable}},
	{"cut after", pgproxy.Fault{Kind: pgproxy.CutAfter}, []error{store.ErrCommitUnknown, store.ErrUnavailable}},
}

// R2.1, R6.6: each statement fails once in turn, in every way. No row is lost,
// no result is told as stored that is not, and the pool is clean afterwards.
func TestEachStatementFails(t *testing.T) {
	for _, c := range faultCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			failEach(t, c)
		})
	}
}

func failEach(t *testing.T, c faultCase) {
	proxy, s, direct, url := proxied(t)
	for run := 1; ; run++ {
		w := &walk{t: t, s: s, run: run}
		fault := c.fault
		fault.Step = run
		proxy.Arm(fault)
		results := map[string]error{}
		for _, step := range walkOrder {
			results[step] = w.steps()[step]()
		}
		struck := proxy.Disarm()
		// A session that was cut holds its locks until the server has noticed,
		// and a claim skips what is locked.
		clean(t, url)
		for step, err := range results {
			judgeStep(t, c, direct, w, step, err)
		}
		w.nothingIsLost(direct)
		if !struck {
			if run < 50 {
				t.Fatalf("only %d steps", run-1)
			}
			return
		}
		if t.Failed() {
			t.Fatalf("step %d", run)
		}
	}
}

// judgeStep holds what was told against what is stored.
func judgeStep(t *testing.T, c faultCase, direct *postgres.Store, w *walk, step string, err error) {
	t.Helper()
	if step == "look" && errors.Is(err, store.ErrBusy) {
		return // readers are not run again: what they collected would be there twice
	}
	if err != nil && !slices.ContainsFunc(c.allowed, func(a error) bool { return errors.Is(err, a) }) {
		// What depends on a step that failed may miss it.
		if len(c.allowed) == 0 || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", step, err)
		}
	}
	if step == "look" || errors.Is(err, store.ErrCommitUnknown) {
		return
	}
	switch stored := marked(t, direct, w.mark(step)); {
	case err != nil && stored:
		t.Errorf("%s: stored, but told as %v", step, err)
	case err == nil && !stored && (step == "receive" || step == "register" || step == "serve" || len(c.allowed) == 0):
		t.Errorf("%s: told as stored, and is not", step)
	}
}

// nothingIsLost: what was received is either worked off or can be claimed.
func (w *walk) nothingIsLost(direct *postgres.Store) {
	w.t.Helper()
	if !marked(w.t, direct, w.mark("receive")) {
		return
	}
	claim, err := direct.Claim(w.t.Context(), store.ClaimRequest{Queue: w.queue(), Lanes: 10, PerLane: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	if applied := marked(w.t, direct, w.mark("apply")); applied != (len(claim.Items) == 0) {
		w.t.Errorf("applied is %v, and %d items are left", applied, len(claim.Items))
	}
	if !marked(w.t, direct, w.mark("apply")) {
		return
	}
	claim, err = direct.Claim(w.t.Context(), store.ClaimRequest{Queue: store.QueueOutbox(w.id("shop")), Lanes: 10, PerLane: 10})
	if err != nil || len(claim.Items) != 1 {
		w.t.Errorf("the message is not queued: %+v, %v", claim, err)
	}
}

// clean: no transaction is open, no lock is held, nothing waits. Sessions that
// were cut may take a moment to end, on which nothing here depends.
func clean(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const left = `SELECT count(*) FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
AND a.backend_type = 'client backend' AND (a.xact_start IS NOT NULL OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid))`
	n := -1
	for end := time.Now().Add(20 * time.Second); n != 0 && time.Now().Before(end); {
		if err := conn.QueryRow(t.Context(), left).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if n != 0 {
		t.Errorf("%d sessions are left in a transaction or with locks", n)
	}
}

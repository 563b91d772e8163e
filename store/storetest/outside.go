package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/unavez/unavez/store"
)

func number(i int) string { return fmt.Sprintf("%05d", i) }

func (b *bench) message(id string) store.Message {
	b.Helper()
	return read(b, func(ctx context.Context, r store.Reader) (store.Message, error) { return r.Message(ctx, id) })
}

// whole clears what the queue decides about a message.
func whole(m store.Message) store.Message {
	m.NextAt = time.Time{}
	return m
}

var messageProofs = []proof{
	{"RoundTrip", func(b *bench) {
		want := message("msg_1")
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.InsertMessages(ctx, []store.Message{want, message("msg_2")})
		})
		b.equal("message", whole(b.message("msg_1")), whole(want))
		b.equal("not enqueued", len(b.claim(store.QueueOutbox("shop")).Items), 0)
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.Message, error) {
			return r.MessagesByID(ctx, []string{"msg_2", "msg_none", "msg_1", "msg_1"})
		})
		slices.SortFunc(got, func(x, y store.Message) int { return int(x.ID[4]) - int(y.ID[4]) })
		b.equal("by id", ids(got, func(m store.Message) string { return m.ID }), "msg_1 msg_2")
		b.equal("body", string(got[0].Body), string(want.Body))
	}},
	{"OneCause", func(b *bench) {
		again := message("msg_2")
		again.Cause = message("msg_1").Cause
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.InsertMessages(ctx, []store.Message{message("msg_1")})
		})
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error {
			return tx.InsertMessages(ctx, []store.Message{again})
		})
	}},
	{"NextAtFollowsTheQueue", func(b *bench) {
		b.save(store.Changes{Messages: []store.Message{message("msg_1")}})
		c := b.claim(store.QueueOutbox("shop"))
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.Postpone(ctx, store.QueueOutbox("shop"), c.Token, []store.Postponed{{ID: "msg_1", Delay: time.Hour}})
		})
		now, err := b.s.Now(b.Context())
		if got := b.message("msg_1").NextAt; err != nil || !got.After(now) {
			b.Errorf("next attempt at %v, now is %v, %v", got, now, err)
		}
	}},
	{"RecordAttempts", func(b *bench) {
		b.save(store.Changes{Messages: []store.Message{message("msg_1"), message("msg_2")}})
		attempt := func(n int, verdict, text string) store.Attempt {
			return store.Attempt{
				ID: "att_" + number(n), Message: "msg_1", Number: n, At: base.Add(time.Duration(n) * time.Second),
				Duration: 1234567 * time.Microsecond, Status: 500 + n, Verdict: verdict, Error: text,
			}
		}
		first, second, third := attempt(1, "refused", "no"), attempt(2, "unknown", "lost"), attempt(3, "delivered", "")
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.RecordAttempts(ctx, []store.Attempt{first, second}, map[string]store.MessageState{"msg_1": store.MessagePending, "msg_2": store.MessageDead})
		})
		m := b.message("msg_1")
		b.equal("pending", []any{m.State, m.Attempts, m.LastError, m.DeliveredAt.IsZero()}, []any{store.MessagePending, 2, "lost", true})
		b.equal("dead", b.message("msg_2").State, store.MessageDead)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.RecordAttempts(ctx, []store.Attempt{third}, map[string]store.MessageState{"msg_1": store.MessageDelivered})
		})
		m = b.message("msg_1")
		b.equal("delivered", []any{m.State, m.Attempts, m.DeliveredAt}, []any{store.MessageDelivered, 3, third.At})
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.Attempt, error) { return r.Attempts(ctx, "msg_1") })
		b.equal("attempts", got, []store.Attempt{first, second, third})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.RecordAttempts(ctx, nil, map[string]store.MessageState{"msg_2": store.MessagePending})
		})
		b.equal("redriven", b.message("msg_2").State, store.MessagePending)
		stats, err := b.s.Stats(b.Context())
		b.equal("dead messages", stats.DeadMessages, 0)
		if err != nil {
			b.Error(err)
		}
	}},
}

func exception(id string) store.Exception {
	return store.Exception{
		ID: id, Kind: "contradiction", Condition: "cond|" + id, Subject: "pay_1", Reason: "amount", State: store.ExceptionOpen,
		Account: "acc", Event: "evt_1", ProviderEventID: "prov_1", Payment: "pay_1", Order: "o-1", Operation: "op_1", Message: "msg_1",
		Urgency: "high", Amount: eur(5), Detail: []byte(`{"seen":1}`), OpenedAt: base, UpdatedAt: base,
	}
}

func (b *bench) put(e ...store.Exception) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.PutExceptions(ctx, e) })
}

var exceptionProofs = []proof{
	{"RoundTrip", func(b *bench) {
		want := exception("exc_1")
		want.ClosedAt, want.Closing = base.Add(time.Hour), "explained"
		b.put(want)
		got := read(b, func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
		b.equal("exception", got, want)
	}},
	{"OneCondition", func(b *bench) {
		b.put(exception("exc_1"), exception("exc_2"))
		again := exception("exc_9")
		again.Condition, again.State, again.Detail = exception("exc_1").Condition, store.ExceptionExplained, []byte(`{"seen":2}`)
		again.UpdatedAt, again.ClosedAt, again.Closing = base.Add(time.Hour), base.Add(time.Hour), "complete"
		b.put(again)
		again.ID = "exc_1"
		got := read(b, func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
		b.equal("updated", got, again)
		missing(b, "the second", func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_9") })
		again.State, again.ClosedAt, again.Closing = store.ExceptionOpen, time.Time{}, ""
		b.put(again)
		got = read(b, func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
		b.equal("reopened", got, again)
	}},
	{"OneConditionTwiceInOneCall", func(b *bench) {
		first, second := exception("exc_1"), exception("exc_2")
		second.Condition, second.State = first.Condition, store.ExceptionResolved
		b.put(first, second)
		got := read(b, func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
		b.equal("state", got.State, store.ExceptionResolved)
	}},
	{"ConditionsOf", func(b *bench) {
		closed, foreign := exception("exc_2"), exception("exc_3")
		closed.State, foreign.Subject = store.ExceptionExplained, "pay_2"
		b.put(exception("exc_1"), closed, foreign)
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.Exception, error) {
			return r.ConditionsOf(ctx, []string{"pay_1", "pay_none", "pay_1"})
		})
		slices.SortFunc(got, func(x, y store.Exception) int { return int(x.ID[4]) - int(y.ID[4]) })
		b.equal("conditions", ids(got, func(e store.Exception) string { return e.ID }), "exc_1 exc_2")
	}},
	{"Stats", func(b *bench) {
		dead, surplus, closed, acknowledged := exception("exc_1"), exception("exc_2"), exception("exc_3"), exception("exc_4")
		dead.Kind, surplus.Kind, closed.State, acknowledged.State = "dead_letter", "surplus", store.ExceptionResolved, store.ExceptionAcknowledged
		b.put(dead, surplus, closed, acknowledged)
		b.insert(entry("evt_1"))
		b.finish(store.Result{EntryID: "evt_1", State: store.EntryDead, At: base})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			m := message("msg_1")
			m.State = store.MessageDead
			return tx.InsertMessages(ctx, []store.Message{m})
		})
		stats, err := b.s.Stats(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		// An acknowledged exception still needs its person.
		b.equal("open", stats.OpenExceptions, map[string]int{"dead_letter": 1, "surplus": 1, "contradiction": 1})
		b.equal("dead", []int{stats.DeadEntries, stats.DeadMessages}, []int{1, 1})
	}},
}

var auditProofs = []proof{
	{"Chain", func(b *bench) {
		row := func(id, subject string) store.AuditRow {
			return store.AuditRow{ID: id, Subject: subject, Action: "a", Actor: "ops", Entry: "evt_1", Detail: []byte(`{"x":"ñ"}`), At: base}
		}
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.AppendAudit(ctx, []store.AuditRow{row("aud_1", "s1"), row("aud_2", "s2"), row("aud_3", "s1")})
		})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.AppendAudit(ctx, []store.AuditRow{row("aud_4", "s1")})
		})
		chain := read(b, func(ctx context.Context, r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(ctx, "s1") })
		b.equal("rows", ids(chain, func(r store.AuditRow) string { return r.ID }), "aud_1 aud_3 aud_4")
		head := store.AuditHead{}
		for i := range chain {
			if !chain[i].Intact(head) {
				b.Errorf("row %d breaks the chain: %+v", i, chain[i])
			}
			head = store.AuditHead{Version: chain[i].Version, Hash: chain[i].Hash}
		}
		want := row("aud_4", "s1")
		want.Version, want.Prev, want.Hash = 3, chain[1].Hash, chain[2].Hash
		b.equal("row", chain[2], want)
	}},
	{"RolledBackRowsLeaveNoGap", func(b *bench) {
		b.fails(errMine, func(ctx context.Context, tx store.Tx) error {
			if err := tx.AppendAudit(ctx, []store.AuditRow{{ID: "aud_1", Subject: "s", At: base}}); err != nil {
				return err
			}
			return errMine
		})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.AppendAudit(ctx, []store.AuditRow{{ID: "aud_2", Subject: "s", At: base}})
		})
		chain := read(b, func(ctx context.Context, r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(ctx, "s") })
		if len(chain) != 1 || !chain[0].Intact(store.AuditHead{}) {
			b.Errorf("chain is %+v", chain)
		}
	}},
}

func key(k string) store.IdempotencyKey {
	return store.IdempotencyKey{
		Principal: "ops", Key: k, Route: "POST /v1/payments", Fingerprint: []byte{1, 0}, State: "running", Token: "t",
		LeaseAt: base, CreatedAt: base, ExpiresAt: base.Add(time.Hour),
	}
}

func (b *bench) begin(k store.IdempotencyKey) (got store.IdempotencyKey, isNew bool) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) (err error) {
		got, isNew, err = tx.BeginKey(ctx, k)
		return err
	})
	return got, isNew
}

var keyProofs = []proof{
	{"BeginOnce", func(b *bench) {
		got, isNew := b.begin(key("k"))
		b.equal("first", []any{got, isNew}, []any{key("k"), true})
		other := key("k")
		other.Fingerprint, other.Token = []byte{2}, "u"
		got, isNew = b.begin(other)
		b.equal("second", []any{got, isNew}, []any{key("k"), false})
		other.Principal = "another"
		_, isNew = b.begin(other)
		b.equal("another's key", isNew, true)
	}},
	{"PutAndDelete", func(b *bench) {
		b.begin(key("k"))
		done := key("k")
		done.State, done.Status, done.Header, done.Body = "done", 201, []byte(`{"a":"b"}`), []byte("\x00\xff")
		done.Route, done.Fingerprint, done.Token, done.LeaseAt = "r", []byte{5}, "u", base.Add(time.Second)
		done.CreatedAt, done.ExpiresAt = base.Add(time.Second), base.Add(2*time.Hour)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.PutKey(ctx, done) })
		got := read(b, func(ctx context.Context, r store.Reader) (store.IdempotencyKey, error) {
			return r.IdempotencyKey(ctx, "ops", "k")
		})
		b.equal("key", got, done)
		for range 2 {
			b.tx(func(ctx context.Context, tx store.Tx) error { return tx.DeleteKey(ctx, "ops", "k") })
		}
		_, isNew := b.begin(key("k"))
		b.equal("new again", isNew, true)
	}},
	{"Sweep", func(b *bench) {
		for i := range 5 {
			k := key(number(i))
			k.ExpiresAt = base.Add(time.Duration(i) * time.Minute)
			b.begin(k)
		}
		sweep := func(before time.Time, limit int) (swept int) {
			b.tx(func(ctx context.Context, tx store.Tx) (err error) {
				swept, err = tx.SweepKeys(ctx, before, limit)
				return err
			})
			return swept
		}
		b.equal("limited", sweep(base.Add(3*time.Minute), 2), 2)
		b.equal("the rest", sweep(base.Add(3*time.Minute), 10), 1)
		b.equal("none", sweep(base.Add(3*time.Minute), 10), 0)
		_, isNew := b.begin(key(number(3)))
		b.equal("one that expires at the instant stays", isNew, false)
	}},
}

var tokenProofs = []proof{
	{"RoundTrip", func(b *bench) {
		want := store.Token{ID: "tok_1", Name: "ops", Role: "admin", Hash: []byte{0, 0xff}, CreatedAt: base}
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.InsertToken(ctx, want) })
		byHash := func() store.Token {
			return read(b, func(ctx context.Context, r store.Reader) (store.Token, error) { return r.TokenByHash(ctx, want.Hash) })
		}
		b.equal("token", byHash(), want)
		want.LastUsed, want.RevokedAt = base.Add(time.Second), base.Add(time.Minute)
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.TouchToken(ctx, "tok_1", want.LastUsed) })
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.RevokeToken(ctx, "tok_1", want.RevokedAt) })
		b.equal("revoked", byHash(), want)
		// Revoking again keeps the first instant.
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.RevokeToken(ctx, "tok_1", base.Add(time.Hour)) })
		b.equal("revoked again", byHash(), want)
	}},
	{"Unique", func(b *bench) {
		first := store.Token{ID: "tok_1", Name: "ops", Hash: []byte{1}, CreatedAt: base}
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.InsertToken(ctx, first) })
		for _, other := range []store.Token{{ID: "tok_1", Name: "b", Hash: []byte{2}, CreatedAt: base}, {ID: "tok_2", Name: "c", Hash: []byte{1}, CreatedAt: base}} {
			b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error { return tx.InsertToken(ctx, other) })
		}
	}},
}

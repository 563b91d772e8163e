package storetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/unavez/unavez/store"
)

var entryProofs = []proof{
	{"RoundTrip", func(b *bench) {
		e := entry("evt_1")
		e.Scope.Connected, e.VariantOf, e.Malformed = "acct_9", "evt_0", true
		got := b.insert(e)
		b.equal("answer", got, []store.Inserted{{New: true, ID: "evt_1", BodyDigest: e.BodyDigest, FactDigest: e.FactDigest}})
		status := b.status("evt_1")
		b.equal("entry", status.Entry, e.Entry)
		b.equal("state", status.State, store.EntryReceived)
		b.equal("deliveries", status.Deliveries, 0)
		b.equal("result", status.Result, store.Result{})
		body := read(b, func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, "evt_1") })
		b.equal("body", body, e.Body)
		byIdentity := read(b, func(ctx context.Context, r store.Reader) (store.EntryStatus, error) {
			return r.EntryByIdentity(ctx, e.Scope, e.Identity)
		})
		b.equal("by identity", byIdentity, status)
	}},
	{"BodyIsExact", bodyIsExact},
	{"ZeroInstantsAndEmptyBytes", func(b *bench) {
		e := entry("evt_1")
		e.OccurredAt, e.FactDigest, e.Body = time.Time{}, nil, store.Body{}
		b.insert(e)
		status := b.status("evt_1")
		if !status.OccurredAt.IsZero() || len(status.FactDigest) != 0 {
			b.Errorf("came back as %v, %x", status.OccurredAt, status.FactDigest)
		}
		body := read(b, func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, "evt_1") })
		b.equal("bytes", len(body.Bytes)+len(body.Header), 0)
	}},
	{"InstantsToTheMicrosecond", func(b *bench) {
		early, late := entry("evt_1"), entry("evt_2")
		early.ReceivedAt = time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
		late.ReceivedAt = time.Date(2261, 1, 2, 3, 4, 5, 1_000, time.FixedZone("east", 5*3600)) // 22:04:05 the day before in UTC
		b.insert(early, late)
		b.equal("early", b.status("evt_1").ReceivedAt, early.ReceivedAt)
		b.equal("late", b.status("evt_2").ReceivedAt, late.ReceivedAt.UTC())
	}},
	{"DuplicateKeepsTheFirst", func(b *bench) {
		// R1.3, R2.2: one identity, one entry; the constraint decides.
		first, second := entry("evt_1"), entry("evt_2")
		second.Identity, second.BodyDigest, second.Bytes = first.Identity, []byte{7}, []byte("other")
		b.insert(first)
		got := b.insert(entry("evt_0"), second, entry("evt_3"))
		b.equal("neighbors", []bool{got[0].New, got[2].New}, []bool{true, true})
		b.equal("duplicate", got[1], store.Inserted{ID: "evt_1", BodyDigest: first.BodyDigest, FactDigest: first.FactDigest})
		body := read(b, func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, "evt_1") })
		b.equal("body", string(body.Bytes), string(first.Bytes))
		missing(b, "the duplicate", func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, "evt_2") })
	}},
	{"DuplicateInOneCall", func(b *bench) {
		z, y := entry("evt_z"), entry("evt_y")
		y.Identity, y.BodyDigest = z.Identity, []byte{7}
		got := b.insert(z, entry("evt_a"), y)
		b.equal("first wins", got[0], store.Inserted{New: true, ID: "evt_z", BodyDigest: z.BodyDigest, FactDigest: z.FactDigest})
		b.equal("second", got[2], store.Inserted{ID: "evt_z", BodyDigest: z.BodyDigest, FactDigest: z.FactDigest})
		b.equal("neighbor", got[1].New, true)
	}},
	{"IdentityIsScoped", func(b *bench) {
		account, mode, connected := entry("evt_2"), entry("evt_3"), entry("evt_4")
		for _, e := range []*store.EntryWithBody{&account, &mode, &connected} {
			e.Identity = "identity-evt_1"
		}
		account.Scope.Account, mode.Scope.Mode, connected.Scope.Connected = "other", "test", "acct_1"
		for i, got := range b.insert(entry("evt_1"), account, mode, connected) {
			// The identity of a connected account contains it, so it is not in the constraint.
			b.equal("new", got.New, i != 3)
		}
	}},
	{"IDsAreUnique", func(b *bench) {
		b.insert(entry("evt_1"))
		other := entry("evt_1")
		other.Identity = "something else"
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error {
			_, err := tx.InsertEntries(ctx, []store.EntryWithBody{other})
			return err
		})
	}},
	{"Bodies", func(b *bench) {
		b.insert(entry("evt_1"), entry("evt_2"), entry("evt_3"))
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.EntryWithBody, error) {
			return r.Bodies(ctx, []string{"evt_3", "evt_none", "evt_1", "evt_1"})
		})
		byID := map[string]store.EntryWithBody{}
		for _, e := range got {
			byID[e.ID] = e
		}
		b.equal("bodies", byID, map[string]store.EntryWithBody{"evt_1": entry("evt_1"), "evt_3": entry("evt_3")})
		b.equal("rows", len(got), 2)
	}},
	{"Deliveries", func(b *bench) {
		b.insert(entry("evt_1"), entry("evt_2"))
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.CountDeliveries(ctx, map[string]int{"evt_1": 1, "evt_2": 3}, base)
		})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.CountDeliveries(ctx, map[string]int{"evt_1": 2}, base.Add(time.Minute))
		})
		// Counts may be written late and out of order; the newest instant stays.
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.CountDeliveries(ctx, map[string]int{"evt_1": 1}, base.Add(-time.Minute))
		})
		one, two := b.status("evt_1"), b.status("evt_2")
		b.equal("counts", []int{one.Deliveries, two.Deliveries}, []int{4, 3})
		b.equal("instants", []time.Time{one.LastDeliveredAt, two.LastDeliveredAt}, []time.Time{base.Add(time.Minute), base})
	}},
}

// bodyIsExact: what was received is what is read, whatever the bytes.
func bodyIsExact(b *bench) {
	random := make([]byte, 5000)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	cases := map[string][]byte{
		"evt_nul":      []byte("\x00"),
		"evt_invalid":  []byte("\xff\xfe\xc3\x28{\"a\":\xed\xa0\x80}"),
		"evt_newline":  []byte("{\"a\":1}\r\n"),
		"evt_every":    every,
		"evt_repeated": []byte(strings.Repeat(`{"id":"evt_1","amount":4800}`+"\x00", 200)),
		"evt_random":   random,
		"evt_large":    bytes.Repeat(random, 1<<20/len(random)),
	}
	for id, raw := range cases {
		e := entry(id)
		e.Body = store.Body{Bytes: raw, Header: raw}
		b.insert(e)
	}
	for id, raw := range cases {
		body := read(b, func(ctx context.Context, r store.Reader) (store.Body, error) { return r.Body(ctx, id) })
		if !bytes.Equal(body.Bytes, raw) || !bytes.Equal(body.Header, raw) {
			b.Errorf("%s: %d bytes came back as %d", id, len(raw), len(body.Bytes))
		}
	}
}

func result(id string) store.Result {
	return store.Result{
		EntryID: id, State: store.EntryProcessed, Outcome: store.OutcomeApplied, Payment: "pay_1", Order: "o-1", Attempts: 1, At: base,
	}
}

func (b *bench) finish(r ...store.Result) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Finish(ctx, r) })
}

// R1.7: received and processed are distinct states.
var entryStateProofs = []proof{
	{"Lifecycle", func(b *bench) {
		b.insert(entry("evt_1"))
		b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_1", Lane: "l"})
		b.equal("queued", b.status("evt_1").State, store.EntryReceived)
		c := b.claim(store.QueueInbox)
		b.equal("held", b.status("evt_1").State, store.EntryProcessing)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			err := tx.Postpone(ctx, store.QueueInbox, c.Token, []store.Postponed{{ID: "evt_1", Delay: time.Hour, Waiting: true, Error: "no payment"}})
			if err != nil {
				return err
			}
			return tx.Release(ctx, store.QueueInbox, c.Token)
		})
		waiting := b.status("evt_1")
		b.equal("postponed", []string{waiting.State, waiting.LastError}, []string{store.EntryWaiting, "no payment"})
		now, err := b.s.Now(b.Context())
		if err != nil || !waiting.NextAt.After(now) || waiting.NextAt.After(now.Add(time.Hour)) {
			b.Errorf("next at %v, now %v, %v", waiting.NextAt, now, err)
		}
		r := result("evt_1")
		r.Error, r.Stack, r.Reason = "e", "s", "why"
		b.finish(r)
		done := b.status("evt_1")
		b.equal("state", done.State, store.EntryProcessed)
		b.equal("result", done.Result, r)
	}},
	{"LapsedLeaseIsReceived", func(b *bench) {
		b.insert(entry("evt_1"))
		b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_1", Lane: "l"})
		b.crashed(store.QueueInbox)
		b.equal("state", b.status("evt_1").State, store.EntryReceived)
	}},
	{"SoloRunsAreShown", func(b *bench) {
		b.insert(entry("evt_1"))
		b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_1", Lane: "l"})
		c := b.claim(store.QueueInbox)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.CountAttempt(ctx, store.QueueInbox, c.Token, []string{"evt_1"})
		})
		b.equal("attempts", b.status("evt_1").WorkAttempts, 1)
	}},
	{"SecondFinishReplaces", func(b *bench) {
		b.insert(entry("evt_1"))
		dead := store.Result{EntryID: "evt_1", State: store.EntryDead, Reason: "poison", Error: "e", Stack: "s", Attempts: 5, At: base}
		b.finish(dead)
		b.equal("dead", b.status("evt_1").Result, dead)
		b.finish(result("evt_1"))
		b.equal("result", b.status("evt_1").Result, result("evt_1"))
	}},
	{"TwoResultsInOneCall", func(b *bench) {
		b.insert(entry("evt_1"))
		dead := store.Result{EntryID: "evt_1", State: store.EntryDead, At: base}
		b.finish(dead, result("evt_1"))
		b.equal("the later one stays", b.status("evt_1").Result, result("evt_1"))
	}},
	{"ReopenOnlyTheDead", func(b *bench) {
		b.insert(entry("evt_1"), entry("evt_2"))
		b.finish(store.Result{EntryID: "evt_1", State: store.EntryDead, At: base}, result("evt_2"))
		b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Reopen(ctx, "evt_1") })
		b.equal("state", b.status("evt_1").State, store.EntryReceived)
		b.equal("result", b.status("evt_1").Result, store.Result{})
		b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error { return tx.Reopen(ctx, "evt_1") })
		b.fails(store.ErrNotFound, func(ctx context.Context, tx store.Tx) error { return tx.Reopen(ctx, "evt_2") })
		b.equal("the processed one", b.status("evt_2").State, store.EntryProcessed)
	}},
}

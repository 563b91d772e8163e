package storetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// Open returns a store that is migrated, empty and closed at the test's end.
type Open func(t *testing.T) store.Store

// Run proves every method of the port. Each subtest gets a store of its own.
func Run(t *testing.T, open Open) {
	for _, group := range []struct {
		name  string
		cases []proof
	}{
		{"Tx", txProofs}, {"Entry", entryProofs}, {"EntryState", entryStateProofs}, {"Work", workProofs},
		{"Lane", laneProofs}, {"Waiting", waitingProofs}, {"Payment", paymentProofs}, {"Save", saveProofs},
		{"Message", messageProofs}, {"Exception", exceptionProofs}, {"Audit", auditProofs}, {"Key", keyProofs},
		{"Token", tokenProofs}, {"List", listProofs}, {"Bytewise", bytewiseProofs},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) { c.run(&bench{T: t, s: open(t)}) })
			}
		})
	}
}

// proof is one subtest.
type proof struct {
	name string
	run  func(b *bench)
}

// bench is a subtest and its store.
type bench struct {
	*testing.T
	s store.Store
}

// tx runs fn in a transaction that must commit.
func (b *bench) tx(fn func(ctx context.Context, tx store.Tx) error) {
	b.Helper()
	ctx := b.Context()
	if err := b.s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return fn(ctx, tx) }); err != nil {
		b.Fatalf("transaction: %v", err)
	}
}

// fails runs fn in a transaction that must end with the wanted error.
func (b *bench) fails(want error, fn func(ctx context.Context, tx store.Tx) error) {
	b.Helper()
	ctx := b.Context()
	err := b.s.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error { return fn(ctx, tx) })
	if !errors.Is(err, want) {
		b.Fatalf("transaction ended with %v, want %v", err, want)
	}
}

// view runs fn in a snapshot.
func (b *bench) view(fn func(ctx context.Context, r store.Reader) error) {
	b.Helper()
	ctx := b.Context()
	if err := b.s.View(ctx, func(r store.Reader) error { return fn(ctx, r) }); err != nil {
		b.Fatalf("view: %v", err)
	}
}

// read returns what fn reads in a snapshot.
func read[T any](b *bench, fn func(ctx context.Context, r store.Reader) (T, error)) T {
	b.Helper()
	var out T
	b.view(func(ctx context.Context, r store.Reader) (err error) {
		out, err = fn(ctx, r)
		return err
	})
	return out
}

// missing asserts that fn reads nothing.
func missing[T any](b *bench, what string, fn func(ctx context.Context, r store.Reader) (T, error)) {
	b.Helper()
	ctx := b.Context()
	err := b.s.View(ctx, func(r store.Reader) error {
		_, err := fn(ctx, r)
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		b.Fatalf("%s: %v, want ErrNotFound", what, err)
	}
}

func (b *bench) equal(what string, got, want any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// claim claims with room for everything; the lease is an hour.
func (b *bench) claim(queue string) store.Claim {
	b.Helper()
	return b.claimWith(store.ClaimRequest{Queue: queue, Lanes: 1000, PerLane: 1000, Lease: time.Hour})
}

func (b *bench) claimWith(req store.ClaimRequest) store.Claim {
	b.Helper()
	c, err := b.s.Claim(b.Context(), req)
	if err != nil {
		b.Fatalf("claiming: %v", err)
	}
	return c
}

// crashed claims everything under a lease that has lapsed already, as a worker
// does that dies.
func (b *bench) crashed(queue string) store.Claim {
	b.Helper()
	return b.claimWith(store.ClaimRequest{Queue: queue, Lanes: 1000, PerLane: 1000})
}

func (b *bench) enqueue(work ...store.Work) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Enqueue(ctx, work) })
}

func itemIDs(c store.Claim) []string {
	var ids []string
	for _, it := range c.Items {
		ids = append(ids, it.ID)
	}
	return ids
}

func sorted(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

// base is an instant with microseconds.
var base = time.Date(2026, 3, 1, 12, 30, 45, 123_456_000, time.UTC)

var live = store.Scope{Account: "acc", Mode: "live"}

func eur(value int64) payment.Money { return payment.Money{Value: value, Currency: "EUR"} }

func entry(id string) store.EntryWithBody {
	return store.EntryWithBody{
		Entry: store.Entry{
			ID: id, Scope: live, Identity: "identity-" + id, ProviderEventID: "prov-" + id, Type: "charge.captured",
			Source: store.SourceWebhook, ReceivedAt: base, OccurredAt: base.Add(-time.Second),
			BodyDigest: []byte{0, 1, 2, 0xff}, FactDigest: []byte{9, 0}, Trace: "trace-" + id,
		},
		Body: store.Body{Bytes: []byte(`{"id":"` + id + `"}`), Header: []byte(`{"content-type":"application/json"}`)},
	}
}

func (b *bench) insert(entries ...store.EntryWithBody) []store.Inserted {
	b.Helper()
	var got []store.Inserted
	b.tx(func(ctx context.Context, tx store.Tx) (err error) {
		got, err = tx.InsertEntries(ctx, entries)
		return err
	})
	if len(got) != len(entries) {
		b.Fatalf("%d entries, %d answers", len(entries), len(got))
	}
	return got
}

func (b *bench) status(id string) store.EntryStatus {
	b.Helper()
	return read(b, func(ctx context.Context, r store.Reader) (store.EntryStatus, error) { return r.Entry(ctx, id) })
}

func order(id, orderID string) store.Order {
	return store.Order{
		ID: id, Key: store.OrderKey{Shop: "shop", ID: orderID}, Total: eur(4800), Fulfillment: store.FulfillNone,
		CreatedAt: base, UpdatedAt: base,
	}
}

func pay(id, orderID string) store.Payment {
	return store.Payment{
		ID: id, Scope: live, Order: store.OrderKey{Shop: "shop", ID: orderID}, Expected: eur(4800),
		Rule: payment.RuleExact, FulfillOn: payment.OnCaptured, References: []string{"pi_" + id, "ñ<&>\u2028"},
		View: payment.View{
			State: payment.StateCaptured, Dispute: payment.DisputeNone, Currency: "EUR",
			Totals:      payment.Totals{Captured: 1<<62 + 1, Refundable: 3},
			OtherTotals: map[string]payment.Totals{"USD": {Captured: 5}},
			Conditions:  []payment.Condition{{Kind: payment.ConditionFlip, Object: "du_1", Keys: []string{"a", "b"}}},
			Earned:      true, EarnedAmount: 4800, GoodCaptured: 4800, GoodLeft: 4800,
		},
		Version: 3, Sequence: 7, NewestFactAt: base, CreatedAt: base, UpdatedAt: base.Add(time.Microsecond),
	}
}

func (b *bench) insertPayment(p store.Payment) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.InsertPayment(ctx, p) })
}

func named(value string) store.ScopedName { return store.ScopedName{Scope: live, Value: value} }

func message(id string) store.Message {
	return store.Message{
		ID: id, Destination: "shop", Type: "payment.captured", Account: "acc", Payment: "pay_1", Order: "o-1",
		Cause: "pay_1|" + id, Lane: "pay_1", Sequence: 2, Body: []byte("{\"a\":\"\\u0000\"}\x00\xff"), Header: []byte(`{"x":"y"}`),
		State: store.MessagePending, NextAt: base, CreatedAt: base,
	}
}

func ids[T any](rows []T, id func(T) string) string {
	var all []string
	for _, row := range rows {
		all = append(all, id(row))
	}
	return strings.Join(all, " ")
}

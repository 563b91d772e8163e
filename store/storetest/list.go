package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// lister lists one kind of rows by id.
type lister func(ctx context.Context, r store.Reader, l store.List) ([]string, error)

func listing[T any](list func(store.Reader, context.Context, store.List) ([]T, error), id func(T) string) lister {
	return func(ctx context.Context, r store.Reader, l store.List) ([]string, error) {
		rows, err := list(r, ctx, l)
		var all []string
		for _, row := range rows {
			all = append(all, id(row))
		}
		return all, err
	}
}

var (
	listEntries    = listing(store.Reader.Entries, func(e store.EntryStatus) string { return e.ID })
	listPayments   = listing(store.Reader.Payments, func(p store.Payment) string { return p.ID })
	listOrders     = listing(store.Reader.Orders, func(o store.Order) string { return o.ID })
	listMessages   = listing(store.Reader.Messages, func(m store.Message) string { return m.ID })
	listExceptions = listing(store.Reader.Exceptions, func(e store.Exception) string { return e.ID })
	listAudit      = listing(store.Reader.Audit, func(a store.AuditRow) string { return a.ID })
	listTokens     = listing(store.Reader.Tokens, func(t store.Token) string { return t.ID })
)

// found lists with the filter given as pairs of column and value.
func (b *bench) found(list lister, where ...string) string {
	b.Helper()
	l := store.List{Where: map[string]string{}, Limit: 101}
	for i := 0; i < len(where); i += 2 {
		l.Where[where[i]] = where[i+1]
	}
	got := read(b, func(ctx context.Context, r store.Reader) ([]string, error) { return list(ctx, r, l) })
	return strings.Join(got, " ")
}

// filters proves each filter: the rows found, newest first.
func (b *bench) filters(list lister, cases [][]string) {
	b.Helper()
	for _, c := range cases {
		where, want := c[:len(c)-1], c[len(c)-1]
		b.equal(strings.Join(where, " "), b.found(list, where...), want)
	}
}

var listProofs = []proof{
	{"Entries", listsEntries},
	{"Payments", func(b *bench) {
		one, two, three := pay("pay_1", "o-1"), pay("pay_2", "o-2"), pay("pay_3", "o-1")
		two.Scope.Account, two.View.State, two.Adopted = "other", payment.StateExpected, true
		three.Scope.Mode, three.View.Dispute, three.Order.Shop = "test", payment.DisputeOpen, "b"
		for _, p := range []store.Payment{two, three, one} {
			b.insertPayment(p)
		}
		b.filters(listPayments, [][]string{
			{"pay_3 pay_2 pay_1"},
			{"account", "acc", "pay_3 pay_1"}, {"mode", "test", "pay_3"}, {"order", "o-1", "pay_3 pay_1"}, {"shop", "shop", "pay_2 pay_1"},
			{"state", "captured", "pay_3 pay_1"}, {"dispute", "open", "pay_3"}, {"adopted", "true", "pay_2"}, {"adopted", "false", "pay_3 pay_1"},
			{"order", "o-1", "shop", "shop", "pay_1"}, {"state", "nonsense", ""},
		})
	}},
	{"Orders", func(b *bench) {
		one, two, three := order("ord_1", "o-1"), order("ord_2", "o-2"), order("ord_3", "o-1")
		two.Fulfillment, three.Key.Shop = store.FulfillSent, "b"
		b.tx(func(ctx context.Context, tx store.Tx) error {
			var all error
			for _, o := range []store.Order{two, three, one} {
				_, err := tx.UpsertOrder(ctx, o)
				all = errors.Join(all, err)
			}
			return all
		})
		b.filters(listOrders, [][]string{
			{"ord_3 ord_2 ord_1"}, {"shop", "shop", "ord_2 ord_1"}, {"order", "o-1", "ord_3 ord_1"}, {"fulfillment", "sent", "ord_2"},
		})
	}},
	{"Messages", func(b *bench) {
		one, two, three := message("msg_1"), message("msg_2"), message("msg_3")
		two.Destination, two.Type, two.State = "books", "order.fulfill", store.MessageDead
		three.Payment, three.Order = "pay_2", "o-2"
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.InsertMessages(ctx, []store.Message{two, three, one})
		})
		b.filters(listMessages, [][]string{
			{"msg_3 msg_2 msg_1"}, {"destination", "books", "msg_2"}, {"type", "payment.captured", "msg_3 msg_1"}, {"state", "dead", "msg_2"},
			{"payment", "pay_1", "msg_2 msg_1"}, {"order", "o-2", "msg_3"}, {"payment", "pay_1", "state", "pending", "msg_1"},
		})
	}},
	{"Exceptions", func(b *bench) {
		one, two, three := exception("exc_1"), exception("exc_2"), exception("exc_3")
		two.Kind, two.State, two.Account, two.Event = "surplus", store.ExceptionResolved, "b", "evt_2"
		three.ProviderEventID, three.Payment, three.Order, three.Operation, three.Message = "prov_3", "pay_3", "o-3", "op_3", "msg_3"
		b.put(two, three, one)
		b.filters(listExceptions, [][]string{
			{"exc_3 exc_2 exc_1"}, {"kind", "surplus", "exc_2"}, {"state", "open", "exc_3 exc_1"}, {"account", "b", "exc_2"}, {"event", "evt_2", "exc_2"},
			{"provider_event_id", "prov_3", "exc_3"}, {"payment", "pay_3", "exc_3"}, {"order", "o-3", "exc_3"}, {"operation", "op_3", "exc_3"},
			{"message", "msg_3", "exc_3"},
		})
	}},
	{"Audit", func(b *bench) {
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return tx.AppendAudit(ctx, []store.AuditRow{
				{ID: "aud_2", Subject: "s1", Action: "a", Actor: "x", At: base}, {ID: "aud_1", Subject: "s1", Action: "b", Actor: "x", At: base},
				{ID: "aud_3", Subject: "s2", Action: "a", Actor: "y", At: base},
			})
		})
		b.filters(listAudit, [][]string{
			{"aud_3 aud_2 aud_1"}, {"subject", "s1", "aud_2 aud_1"}, {"action", "a", "aud_3 aud_2"}, {"actor", "y", "aud_3"},
		})
	}},
	{"Tokens", func(b *bench) {
		b.tx(func(ctx context.Context, tx store.Tx) error {
			return errors.Join(
				tx.InsertToken(ctx, store.Token{ID: "tok_2", Name: "a", Role: "read", Hash: []byte{2}, CreatedAt: base}),
				tx.InsertToken(ctx, store.Token{ID: "tok_1", Name: "b", Role: "admin", Hash: []byte{1}, CreatedAt: base}))
		})
		b.filters(listTokens, [][]string{{"tok_2 tok_1"}, {"role", "admin", "tok_1"}, {"name", "a", "tok_2"}})
	}},
	{"UnknownColumnsAreRefused", func(b *bench) {
		for name, list := range map[string]lister{
			"entries": listEntries, "payments": listPayments, "orders": listOrders, "messages": listMessages,
			"exceptions": listExceptions, "audit": listAudit, "tokens": listTokens,
		} {
			b.Run(name, func(t *testing.T) {
				for _, column := range []string{"nonsense", "", "id = id --", "account\x00"} {
					err := b.s.View(t.Context(), func(r store.Reader) error {
						_, err := list(t.Context(), r, store.List{Where: map[string]string{column: "x"}, Limit: 10})
						return err
					})
					if !errors.Is(err, store.ErrFilter) {
						t.Errorf("column %q: %v, want ErrFilter", column, err)
					}
				}
			})
		}
	}},
	{"ImpossibleValuesAreRefused", func(b *bench) {
		err := b.s.View(b.Context(), func(r store.Reader) error {
			_, err := r.Payments(b.Context(), store.List{Where: map[string]string{"adopted": "perhaps"}, Limit: 10})
			return err
		})
		if !errors.Is(err, store.ErrFilter) {
			b.Errorf("%v, want ErrFilter", err)
		}
	}},
	{"LimitsAreBounded", func(b *bench) {
		const rows = 110
		for i := range rows {
			b.insertPayment(pay("pay_"+number(i), "o-1"))
		}
		for limit, want := range map[int]int{-1: 1, 0: 1, 1: 1, 101: 101, 1 << 40: 101} {
			got := read(b, func(ctx context.Context, r store.Reader) ([]string, error) {
				return listPayments(ctx, r, store.List{Limit: limit})
			})
			b.equal("rows of limit "+number(limit), len(got), want)
		}
	}},
	{"Pages", func(b *bench) {
		const rows = 25
		want := make([]string, rows)
		for i := range rows {
			p := pay("pay_"+number((i*7)%rows), "o-1")
			if i%5 == 0 {
				p.Scope.Account = "other"
			}
			b.insertPayment(p)
			want[i] = "pay_" + number(rows-1-i)
		}
		var got []string
		l := store.List{Limit: 4}
		for {
			page := read(b, func(ctx context.Context, r store.Reader) ([]string, error) { return listPayments(ctx, r, l) })
			if len(page) > l.Limit {
				b.Fatalf("a page of %d rows, the limit is %d", len(page), l.Limit)
			}
			got = append(got, page...)
			if len(page) < l.Limit {
				break
			}
			l.After = page[len(page)-1]
		}
		b.equal("rows over the pages", got, want)
		l = store.List{Limit: 101, After: "pay_" + number(10), Where: map[string]string{"account": "acc"}}
		page := read(b, func(ctx context.Context, r store.Reader) ([]string, error) { return listPayments(ctx, r, l) })
		if len(page) == 0 || !slices.IsSortedFunc(page, func(x, y string) int { return strings.Compare(y, x) }) || page[0] >= l.After {
			b.Errorf("after %s come %v", l.After, page)
		}
	}},
	{"ValuesAreNotSQL", func(b *bench) {
		b.insertPayment(pay("pay_1", "o-1"))
		b.equal("rows", b.found(listPayments, "account", "' or ''='"), "")
		b.equal("rows", b.found(listPayments, "order", "%"), "")
	}},
}

func listsEntries(b *bench) {
	one, two, three, four, five := entry("evt_1"), entry("evt_2"), entry("evt_3"), entry("evt_4"), entry("evt_5")
	two.Scope.Account, two.Type, two.VariantOf = "other", "refund.created", "evt_1"
	three.Scope.Mode, three.Source = "test", store.SourceAnswer
	four.ProviderEventID = one.ProviderEventID
	b.insert(five, two, one, four, three)
	dead := store.Result{EntryID: "evt_2", State: store.EntryDead, Outcome: "", At: base}
	applied := result("evt_3")
	applied.Payment, applied.Order, applied.Outcome = "pay_3", "o-3", store.OutcomeIgnored
	b.finish(dead, applied)
	// evt_1 waits, evt_4 is held, evt_5 is queued; the work of finished ones may still stand.
	b.wait("evt_1", "pi_1")
	b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_4", Lane: "four"})
	b.claim(store.QueueInbox)
	b.enqueue(store.Work{Queue: store.QueueInbox, ID: "evt_5", Lane: "five"}, store.Work{Queue: store.QueueInbox, ID: "evt_3", Lane: "five", Delay: time.Hour})
	b.filters(listEntries, [][]string{
		{"evt_5 evt_4 evt_3 evt_2 evt_1"},
		{"account", "other", "evt_2"}, {"mode", "test", "evt_3"}, {"type", "refund.created", "evt_2"}, {"source", "answer", "evt_3"},
		{"variant_of", "evt_1", "evt_2"}, {"provider_event_id", one.ProviderEventID, "evt_4 evt_1"},
		{"state", "dead", "evt_2"}, {"state", "processed", "evt_3"}, {"state", "waiting", "evt_1"}, {"state", "processing", "evt_4"},
		{"state", "received", "evt_5"}, {"state", "nonsense", ""}, {"outcome", "ignored", "evt_3"}, {"payment", "pay_3", "evt_3"}, {"order", "o-3", "evt_3"},
		{"account", "acc", "state", "received", "evt_5"},
	})
}

// The ids of one letter in the order of their bytes; none equals another.
var bytewiseIDs = []string{"A", "Z", "_", "a", "a b", "a_", "aa", "b", "\u00e9", "\u00f1", "\u4e2d", "\U0001f600", "e\u0301"}

var bytewiseProofs = []proof{
	{"ListsSortByBytes", func(b *bench) {
		want := sorted(bytewiseIDs)
		slices.Reverse(want)
		for _, id := range bytewiseIDs {
			b.insertPayment(pay(id, "o-1"))
		}
		b.equal("payments", b.found(listPayments), strings.Join(want, " "))
		l := store.List{Limit: 101, After: "a"}
		got := read(b, func(ctx context.Context, r store.Reader) ([]string, error) { return listPayments(ctx, r, l) })
		b.equal("after a", strings.Join(got, " "), "_ Z A")
	}},
	{"NamesAreNotFolded", func(b *bench) {
		var bindings []store.Binding
		for i, v := range bytewiseIDs {
			bindings = append(bindings, store.Binding{ScopedName: named(v), Payment: "pay_" + number(i)})
		}
		b.bind(bindings...)
		for i, v := range bytewiseIDs {
			b.equal(v, b.names("pay_"+number(i)), []store.Name{{ScopedName: named(v)}})
		}
	}},
	{"IdentitiesAreNotFolded", func(b *bench) {
		for i, v := range bytewiseIDs {
			e := entry("evt_" + number(i))
			e.Identity = v
			b.equal(v, b.insert(e)[0].New, true)
		}
		missing(b, "upper case", func(ctx context.Context, r store.Reader) (store.EntryStatus, error) {
			return r.EntryByIdentity(ctx, live, "B")
		})
		missing(b, "trailing space", func(ctx context.Context, r store.Reader) (store.EntryStatus, error) {
			return r.EntryByIdentity(ctx, live, "a ")
		})
	}},
	{"LanesAreNotFolded", func(b *bench) {
		b.enqueue(work("1", "a"), work("2", "A"), work("3", "a "))
		c := b.claimWith(store.ClaimRequest{Queue: q, Lanes: 1, PerLane: 10, Lease: time.Hour})
		b.equal("items of a lane", len(c.Items), 1)
	}},
	{"SortedResults", func(b *bench) {
		for _, id := range bytewiseIDs {
			b.insertPayment(pay(id, "o-1"))
		}
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.Payment, error) {
			return r.PaymentsOfOrders(ctx, []store.OrderKey{{Shop: "shop", ID: "o-1"}})
		})
		b.equal("payments", ids(got, func(p store.Payment) string { return p.ID }), strings.Join(sorted(bytewiseIDs), " "))
	}},
}

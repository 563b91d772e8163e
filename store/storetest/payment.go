package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

func (b *bench) bind(bindings ...store.Binding) map[store.ScopedName]string {
	b.Helper()
	var owners map[store.ScopedName]string
	b.tx(func(ctx context.Context, tx store.Tx) (err error) {
		owners, err = tx.Bind(ctx, bindings)
		return err
	})
	return owners
}

var paymentProofs = []proof{
	{"RoundTrip", func(b *bench) {
		want := pay("pay_1", "o-1")
		want.Scope.Connected, want.Adopted, want.ByOrder = "acct_1", true, true
		want.Audit = store.AuditHead{Version: 2, Hash: []byte{1, 2}}
		b.insertPayment(want)
		got := read(b, func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "pay_1") })
		b.equal("payment", got, want)
		var locked []store.Payment
		b.tx(func(ctx context.Context, tx store.Tx) (err error) {
			locked, err = tx.LockPayments(ctx, []string{"pay_1", "pay_none", "pay_1"})
			return err
		})
		b.equal("locked", locked, []store.Payment{want})
	}},
	{"EmptyPayment", func(b *bench) {
		want := store.Payment{ID: "pay_1", Scope: live, CreatedAt: base, UpdatedAt: base}
		b.insertPayment(want)
		got := read(b, func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "pay_1") })
		b.equal("payment", got, want)
	}},
	{"IDIsUnique", func(b *bench) {
		b.insertPayment(pay("pay_1", "o-1"))
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error { return tx.InsertPayment(ctx, pay("pay_1", "o-2")) })
	}},
	{"Orders", func(b *bench) {
		want := order("ord_1", "o-1")
		want.ShippedAt, want.Revocations, want.Audit = base, 2, store.AuditHead{Version: 1, Hash: []byte{3}}
		b.tx(func(ctx context.Context, tx store.Tx) error {
			got, err := tx.UpsertOrder(ctx, want)
			b.equal("inserted", got, want)
			return err
		})
		b.tx(func(ctx context.Context, tx store.Tx) error {
			other := order("ord_2", "o-1")
			other.Total = eur(1)
			got, err := tx.UpsertOrder(ctx, other)
			b.equal("the stored one", got, want)
			return err
		})
		got := read(b, func(ctx context.Context, r store.Reader) (store.Order, error) { return r.OrderByID(ctx, "ord_1") })
		b.equal("by id", got, want)
		got = read(b, func(ctx context.Context, r store.Reader) (store.Order, error) { return r.Order(ctx, want.Key) })
		b.equal("by key", got, want)
		b.tx(func(ctx context.Context, tx store.Tx) error {
			other := order("ord_3", "o-1")
			other.Key.Shop = "another"
			got, err := tx.UpsertOrder(ctx, other)
			b.equal("the same id in another shop", got, other)
			if err != nil {
				return err
			}
			locked, err := tx.LockOrders(ctx, []store.OrderKey{other.Key, want.Key, {Shop: "shop", ID: "none"}, want.Key})
			slices.SortFunc(locked, func(x, y store.Order) int { return len(x.Key.Shop) - len(y.Key.Shop) })
			b.equal("locked", locked, []store.Order{want, other})
			return err
		})
	}},
	{"PaymentsOfOrders", func(b *bench) {
		for _, p := range []store.Payment{pay("pay_3", "o-1"), pay("pay_1", "o-1"), pay("pay_2", "o-2"), pay("pay_4", "o-4")} {
			b.insertPayment(p)
		}
		got := read(b, func(ctx context.Context, r store.Reader) ([]store.Payment, error) {
			return r.PaymentsOfOrders(ctx, []store.OrderKey{{Shop: "shop", ID: "o-2"}, {Shop: "shop", ID: "o-1"}, {Shop: "b", ID: "o-4"}, {Shop: "shop", ID: "o-1"}})
		})
		b.equal("payments", ids(got, func(p store.Payment) string { return p.ID }), "pay_1 pay_2 pay_3")
		keys := read(b, func(ctx context.Context, r store.Reader) (map[string]store.OrderKey, error) {
			return r.OrderKeysOf(ctx, []string{"pay_1", "pay_4", "pay_none"})
		})
		b.equal("keys", keys, map[string]store.OrderKey{"pay_1": {Shop: "shop", ID: "o-1"}, "pay_4": {Shop: "shop", ID: "o-4"}})
	}},
	{"BindGivesOnce", func(b *bench) {
		first := b.bind(store.Binding{ScopedName: named("pi_2"), Payment: "pay_1"}, store.Binding{ScopedName: named("pi_1")})
		b.equal("first", first, map[store.ScopedName]string{named("pi_1"): "", named("pi_2"): "pay_1"})
		second := b.bind(store.Binding{ScopedName: named("pi_1"), Payment: "pay_2"}, store.Binding{ScopedName: named("pi_2"), Payment: "pay_2"})
		b.equal("second", second, map[store.ScopedName]string{named("pi_1"): "pay_2", named("pi_2"): "pay_1"})
		owners := read(b, func(ctx context.Context, r store.Reader) (map[store.ScopedName]string, error) {
			return r.Owners(ctx, []store.ScopedName{named("pi_1"), named("pi_2"), named("pi_3"), {Scope: store.Scope{Account: "acc", Mode: "test"}, Value: "pi_1"}})
		})
		b.equal("owners", owners, map[store.ScopedName]string{named("pi_1"): "pay_2", named("pi_2"): "pay_1"})
	}},
	{"BoundNameWithoutOwnerIsLeftOut", func(b *bench) {
		b.bind(store.Binding{ScopedName: named("pi_1")})
		owners := read(b, func(ctx context.Context, r store.Reader) (map[store.ScopedName]string, error) {
			return r.Owners(ctx, []store.ScopedName{named("pi_1")})
		})
		b.equal("owners", len(owners), 0)
	}},
	{"BindOneNameTwice", func(b *bench) {
		got := b.bind(store.Binding{ScopedName: named("pi_1")}, store.Binding{ScopedName: named("pi_1"), Payment: "pay_1"},
			store.Binding{ScopedName: named("pi_1"), Payment: "pay_2"}, store.Binding{ScopedName: named("pi_1"), Payment: "pay_1", Registered: true})
		b.equal("the first that wants it", got, map[store.ScopedName]string{named("pi_1"): "pay_1"})
		b.equal("names", b.names("pay_1"), []store.Name{{ScopedName: named("pi_1"), Registered: true}})
	}},
	{"Names", func(b *bench) {
		test := store.ScopedName{Scope: store.Scope{Account: "acc", Mode: "test"}, Value: "a"}
		b.bind(store.Binding{ScopedName: named("z"), Payment: "pay_1"}, store.Binding{ScopedName: named("b"), Payment: "pay_1", Registered: true},
			store.Binding{ScopedName: test, Payment: "pay_1"}, store.Binding{ScopedName: named("c"), Payment: "pay_2"})
		want := []store.Name{{ScopedName: named("b"), Registered: true}, {ScopedName: named("z")}, {ScopedName: test}}
		b.equal("names, sorted by scope and value", b.names("pay_1"), want)
		// Registering a learned name marks it; learning a registered one leaves the mark.
		b.bind(store.Binding{ScopedName: named("z"), Payment: "pay_1", Registered: true}, store.Binding{ScopedName: named("b"), Payment: "pay_1"},
			store.Binding{ScopedName: named("c"), Payment: "pay_1", Registered: true})
		want[1].Registered = true
		b.equal("names", b.names("pay_1"), want)
		b.equal("another's name is not marked", b.names("pay_2"), []store.Name{{ScopedName: named("c")}})
	}},
	{"OwnersAnywhere", func(b *bench) {
		test := store.ScopedName{Scope: store.Scope{Account: "acc", Mode: "test"}, Value: "pi_1"}
		connected := store.ScopedName{Scope: store.Scope{Account: "acc", Mode: "live", Connected: "c"}, Value: "pi_1"}
		foreign := store.ScopedName{Scope: store.Scope{Account: "other", Mode: "live"}, Value: "pi_1"}
		b.bind(store.Binding{ScopedName: test, Payment: "pay_2"}, store.Binding{ScopedName: connected, Payment: "pay_1"},
			store.Binding{ScopedName: foreign, Payment: "pay_3"}, store.Binding{ScopedName: named("pi_1")}, store.Binding{ScopedName: named("pi_2")})
		got := read(b, func(ctx context.Context, r store.Reader) (map[string][]string, error) {
			return r.OwnersAnywhere(ctx, "acc", []string{"pi_1", "pi_2", "pi_3"})
		})
		for _, owners := range got {
			slices.Sort(owners)
		}
		b.equal("owners", got, map[string][]string{"pi_1": {"pay_1", "pay_2"}})
	}},
}

func (b *bench) names(id string) []store.Name {
	b.Helper()
	return read(b, func(ctx context.Context, r store.Reader) ([]store.Name, error) { return r.Names(ctx, id) })
}

func fact(id, object string) store.Fact {
	return store.Fact{
		Payment: id, Scope: live, EntryID: "evt_1", At: base,
		Fact: payment.Fact{
			Kind: payment.KindCapture, Form: payment.FormItem, Object: object, Parent: "pi_1", Stage: payment.StageSucceeded,
			Amount: eur(1<<62 + 3), Version: 2, Read: 1<<53 + 1, Covers: []string{"k1", "k2"}, Operation: "op_1", Loud: true, Silent: true,
		},
	}
}

func (b *bench) save(c store.Changes) {
	b.Helper()
	b.tx(func(ctx context.Context, tx store.Tx) error { return tx.Save(ctx, c) })
}

func (b *bench) facts(payments ...string) []store.Fact {
	b.Helper()
	return read(b, func(ctx context.Context, r store.Reader) ([]store.Fact, error) { return r.Facts(ctx, payments) })
}

var saveProofs = []proof{
	{"FactsRoundTripInOrder", func(b *bench) {
		want := []store.Fact{fact("pay_1", "ch_9"), fact("pay_1", "ch_1"), fact("pay_1", "ch_5")}
		want[1].Fact = payment.Link("ch_1", "ñ\"\\")
		b.save(store.Changes{Facts: want[:2]})
		b.save(store.Changes{Facts: append(want[2:], fact("pay_2", "ch_x"))})
		b.equal("facts", b.facts("pay_1", "pay_none", "pay_1"), want)
		b.equal("both", len(b.facts("pay_2", "pay_1")), 4)
	}},
	{"FactOnce", func(b *bench) {
		// R2.3: the fact has its own unique identity; a repetition is no error.
		first, again := fact("pay_1", "ch_1"), fact("pay_1", "ch_1")
		again.EntryID, again.At = "evt_2", base.Add(time.Hour)
		variant := fact("pay_1", "ch_1")
		variant.Amount = eur(5)
		connected := fact("pay_1", "ch_1")
		connected.Scope.Connected = "c"
		b.save(store.Changes{Facts: []store.Fact{first, again}})
		b.save(store.Changes{Facts: []store.Fact{again, variant, connected}})
		b.equal("facts", b.facts("pay_1"), []store.Fact{first, variant, connected})
	}},
	{"EffectsAreUpserted", func(b *bench) {
		effects := func() map[string]store.Effect {
			all := map[string]store.Effect{}
			for _, e := range read(b, func(ctx context.Context, r store.Reader) ([]store.Effect, error) {
				return r.Effects(ctx, []string{"pay_1", "pay_none"})
			}) {
				all[e.Key] = e
			}
			return all
		}
		held := store.Effect{Subject: "pay_1", Key: "capture|ch_1", Type: "payment.captured", Decision: "hold", At: base}
		other := store.Effect{Subject: "pay_1", Key: "capture|ch_2", Type: "payment.captured", Decision: "send", At: base}
		foreign := store.Effect{Subject: "ord_1", Key: "capture|ch_1", Type: "order.fulfill", Decision: "send", At: base}
		b.save(store.Changes{Effects: []store.Effect{held, other, foreign}})
		b.equal("effects", effects(), map[string]store.Effect{held.Key: held, other.Key: other})
		held.Decision, held.At = "send", base.Add(time.Second)
		b.save(store.Changes{Effects: []store.Effect{held}})
		b.equal("effects", effects(), map[string]store.Effect{held.Key: held, other.Key: other})
	}},
	{"PaymentsAndOrders", func(b *bench) {
		p, o := pay("pay_1", "o-1"), order("ord_1", "o-1")
		b.insertPayment(p)
		b.insertPayment(pay("pay_2", "o-1"))
		b.tx(func(ctx context.Context, tx store.Tx) error {
			_, err := tx.UpsertOrder(ctx, o)
			return err
		})
		p.View.State, p.View.Dispute, p.Version, p.Sequence, p.UpdatedAt = payment.StateRefunded, payment.DisputeOpen, 4, 9, base.Add(time.Hour)
		p.Audit, p.Adopted, p.NewestFactAt, p.Expected = store.AuditHead{Version: 1, Hash: []byte{1}}, true, base.Add(time.Minute), eur(4801)
		p.Order, p.References, p.ByOrder = store.OrderKey{Shop: "shop", ID: "o-9"}, []string{"pi_9"}, true
		p.Rule, p.FulfillOn = payment.RuleUpTo, payment.OnAuthorized
		o.Total, o.Fulfillment, o.Revocations, o.ShippedAt, o.UpdatedAt = eur(9), store.FulfillSent, 1, base, base.Add(time.Hour)
		o.Audit = store.AuditHead{Version: 5, Hash: []byte{5}}
		b.save(store.Changes{Payments: []store.Payment{p}, Orders: []store.Order{o}})
		got := read(b, func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "pay_1") })
		b.equal("payment", got, p)
		got = read(b, func(ctx context.Context, r store.Reader) (store.Payment, error) { return r.Payment(ctx, "pay_2") })
		b.equal("its neighbor", got, pay("pay_2", "o-1"))
		gotOrder := read(b, func(ctx context.Context, r store.Reader) (store.Order, error) { return r.OrderByID(ctx, "ord_1") })
		b.equal("order", gotOrder, o)
	}},
	{"MessagesAreEnqueued", func(b *bench) {
		m1, m2, m3 := message("msg_1"), message("msg_2"), message("msg_3")
		m3.Destination = "books"
		b.save(store.Changes{Messages: []store.Message{m1, m2, m3}})
		c := b.claim(store.QueueOutbox("shop"))
		b.equal("queue", itemIDs(c), []string{"msg_1", "msg_2"})
		b.equal("lane", c.Items[0].Lane, "pay_1")
		b.equal("other queue", itemIDs(b.claim(store.QueueOutbox("books"))), []string{"msg_3"})
	}},
	{"WorkResultsExceptionsAudit", func(b *bench) {
		b.insert(entry("evt_1"))
		e, a := exception("exc_1"), store.AuditRow{ID: "aud_1", Subject: "pay_1", Action: "applied", At: base, Detail: []byte(`{}`)}
		head := store.Chain(store.AuditHead{}, &a)
		b.save(store.Changes{
			Work:    []store.Work{{Queue: store.QueueQuiet, ID: "pay_1", Lane: "pay_1"}},
			Results: []store.Result{result("evt_1")}, Exceptions: []store.Exception{e}, Audit: []store.AuditRow{a},
		})
		b.equal("work", itemIDs(b.claim(store.QueueQuiet)), []string{"pay_1"})
		b.equal("result", b.status("evt_1").Result, result("evt_1"))
		got := read(b, func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
		b.equal("exception", got, e)
		chain := read(b, func(ctx context.Context, r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(ctx, "pay_1") })
		b.equal("chain", chain, []store.AuditRow{a})
		b.equal("head", head.Version, int64(1))
	}},
	{"OneCauseOneMessage", func(b *bench) {
		// R2.5: a constraint keeps one effect from being told twice to one destination.
		b.save(store.Changes{Messages: []store.Message{message("msg_1")}})
		again, elsewhere := message("msg_2"), message("msg_3")
		again.Cause, elsewhere.Cause, elsewhere.Destination = "pay_1|msg_1", "pay_1|msg_1", "books"
		b.save(store.Changes{Messages: []store.Message{elsewhere}})
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error {
			return tx.Save(ctx, store.Changes{Messages: []store.Message{again}})
		})
		b.equal("queue", itemIDs(b.claim(store.QueueOutbox("shop"))), []string{"msg_1"})
	}},
	{"ChainsDoNotFork", func(b *bench) {
		first := store.AuditRow{ID: "aud_1", Subject: "pay_1", At: base}
		store.Chain(store.AuditHead{}, &first)
		b.save(store.Changes{Audit: []store.AuditRow{first}})
		fork := store.AuditRow{ID: "aud_2", Subject: "pay_1", At: base, Action: "other"}
		store.Chain(store.AuditHead{}, &fork)
		b.fails(store.ErrConflict, func(ctx context.Context, tx store.Tx) error {
			return tx.Save(ctx, store.Changes{Audit: []store.AuditRow{fork}})
		})
	}},
	{"WholeOrNothing", func(b *bench) {
		b.fails(errMine, func(ctx context.Context, tx store.Tx) error {
			err := tx.Save(ctx, store.Changes{
				Facts: []store.Fact{fact("pay_1", "ch_1")}, Messages: []store.Message{message("msg_1")},
				Effects: []store.Effect{{Subject: "pay_1", Key: "k", At: base}}, Exceptions: []store.Exception{exception("exc_1")},
			})
			return errors.Join(err, errMine)
		})
		b.equal("facts", len(b.facts("pay_1")), 0)
		missing(b, "message", func(ctx context.Context, r store.Reader) (store.Message, error) { return r.Message(ctx, "msg_1") })
		missing(b, "exception", func(ctx context.Context, r store.Reader) (store.Exception, error) { return r.Exception(ctx, "exc_1") })
	}},
	{"ManyRows", func(b *bench) {
		var c store.Changes
		const rows = 2000
		for i := range rows {
			f := fact("pay_1", "ch_"+number(i))
			c.Facts = append(c.Facts, f)
			c.Effects = append(c.Effects, store.Effect{Subject: "pay_1", Key: number(i), Type: "t", Decision: "send", At: base})
			m := message("msg_" + number(i))
			c.Messages = append(c.Messages, m)
		}
		b.save(c)
		b.equal("facts", len(b.facts("pay_1")), rows)
		b.equal("queue", len(b.claimWith(store.ClaimRequest{Queue: store.QueueOutbox("shop"), Lanes: 1, PerLane: rows + 1, Lease: time.Hour}).Items), rows)
	}},
}

package campaign

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Orders are the rules that hold over several payments of one order.
var Orders = Campaign{
	Name:  "orders",
	About: "an order over its payments: parts, surplus, two shops, adopted and then registered",
	Units: func(bool) []Unit {
		var units []Unit
		for _, s := range orderScenes {
			units = append(units, onStores(s.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return inScene(ctx, e, kind, s.opt, s.play)
			})...)
		}
		return units
	},
}

// The second account belongs to another shop, the third adopts.
const (
	otherAccount = "stripe-fr"
	adopting     = "stripe-it"
)

var orderScenes = []struct {
	name string
	opt  options
	play func(*scene)
}{
	{"two_parts", options{entry: time.Second}, twoParts},
	{"surplus", options{entry: time.Second}, surplus},
	{"two_shops", options{
		entry: time.Second, accounts: accountLines(account, "default", "wait") + accountLines(otherAccount, "paris", "wait"),
	}, twoShops},
	{"adopted_then_registered", options{entry: time.Second, accounts: accountLines(adopting, "default", "adopt")}, adopted},
}

// R2.7: an order of two payments is fulfilled when both parts are captured.
func twoParts(sc *scene) {
	sc.begin(crash{})
	for _, part := range []struct {
		reference string
		amount    int64
	}{{"pi_a", 4000}, {"pi_b", 6000}} {
		sc.must(sc.register(sc.ctx, sc.n, registration{
			Order: "P-1", OrderTotal: eur(10000), Amount: eur(part.amount), References: []string{part.reference},
		}))
	}
	sc.deliver(succeeded("evt_b", "pi_b", "P-1", 6000), http.StatusOK)
	sc.settled()
	sc.fulfilled("P-1", 0)
	sc.deliver(succeeded("evt_a", "pi_a", "P-1", 4000), http.StatusOK)
	sc.settled()
	sc.fulfilled("P-1", 1)
	expect(sc, "exceptions", sc.open("P-1"), "")
}

// R2.11: two payments of the whole raise the surplus.
func surplus(sc *scene) {
	sc.begin(crash{})
	sc.order("Q-1", "pi_c", 10000)
	sc.order("Q-1", "pi_d", 10000)
	sc.deliver(succeeded("evt_c", "pi_c", "Q-1", 10000), http.StatusOK)
	sc.deliver(succeeded("evt_d", "pi_d", "Q-1", 10000), http.StatusOK)
	sc.settled()
	sc.fulfilled("Q-1", 1)
	rows, err := sc.exceptions(sc.ctx, sc.n)
	sc.must(err)
	if len(rows) != 1 || rows[0].Kind != "surplus" || rows[0].State != "open" || rows[0].Amount != *eur(10000) {
		sc.v.add("the exceptions are %+v, want one surplus of 100.00 EUR", rows)
	}
	expect(sc, "surplus told", sc.shop.effects("order.surplus")["Q-1"], 1)
}

// R1.2 R2.9: the same order id of two shops is two orders.
func twoShops(sc *scene) {
	sc.begin(crash{})
	for _, name := range []string{account, otherAccount} {
		sc.must(sc.register(sc.ctx, sc.n, registration{Order: "N-1", Account: name, Amount: eur(4800), References: []string{"pi_" + name}}))
		d := succeeded("evt_1", "pi_"+name, "N-1", 4800) // the same event id at both accounts
		d.Account = name
		sc.deliver(d, http.StatusOK)
	}
	sc.settled()
	shops := map[string]int{}
	for _, m := range sc.shop.all() {
		if m.Type == "order.fulfill" {
			shops[m.Shop]++
		}
	}
	expect(sc, "fulfillments of shop default", shops["default"], 1)
	expect(sc, "fulfillments of shop paris", shops["paris"], 1)
	expect(sc, "shops", len(shops), 2)
}

// R2.10: a payment that was adopted and is registered then fulfills once.
func adopted(sc *scene) {
	sc.begin(crash{})
	d := succeeded("evt_1", "pi_1", "M-1", 4800)
	d.Account = adopting
	sc.deliver(d, http.StatusOK)
	sc.settled()
	sc.fulfilled("M-1", 0)
	if p := sc.paymentOf("M-1"); !p.Adopted || p.State != "captured" {
		sc.v.add("before the registration the payment is %+v, want an adopted one that is captured", p)
	}
	r := registration{Order: "M-1", Account: adopting, Amount: eur(4800), References: []string{"pi_1"}}
	sc.must(sc.register(sc.ctx, sc.n, r))
	sc.settled()
	sc.fulfilled("M-1", 1)
	again := succeeded("evt_2", "pi_1", "M-1", 4800)
	again.Account = adopting
	sc.deliver(again, http.StatusOK)
	sc.must(sc.register(sc.ctx, sc.n, r))
	sc.settled()
	sc.fulfilled("M-1", 1)
	rows, err := sc.payments(sc.ctx, sc.n, url.Values{"order": {"M-1"}})
	sc.must(err)
	expect(sc, "payments", len(rows), 1)
}

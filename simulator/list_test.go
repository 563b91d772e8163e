package simulator

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

func ids(a answer) []string {
	var out []string
	for _, row := range a.rows() {
		id, _ := row["id"].(string)
		out = append(out, id)
	}
	return out
}

func TestListsAndCursors(t *testing.T) {
	now := newClock()
	w := newWorld(t, Config{Now: now.read})
	var made []string
	for i := range 5 {
		in := w.pay(fmt.Sprintf("amount=%d&currency=eur&customer=cus_%d", 500+i, i%2))
		made = append([]string{in.str("id")}, made...) // newest first
		now.advance(time.Minute)
	}
	first := w.ok(w.get("/v1/payment_intents?limit=2"))
	if !slices.Equal(ids(first), made[:2]) || first.body["has_more"] != true || first.str("url") != "/v1/payment_intents" {
		t.Fatal(first.raw)
	}
	rest := w.ok(w.get("/v1/payment_intents?limit=100&starting_after=" + made[1]))
	if !slices.Equal(ids(rest), made[2:]) || rest.body["has_more"] != false {
		t.Fatal(rest.raw)
	}
	newer := w.ok(w.get("/v1/payment_intents?limit=2&ending_before=" + made[3]))
	if !slices.Equal(ids(newer), made[1:3]) || newer.body["has_more"] != true {
		t.Fatal(newer.raw)
	}
	for query, want := range map[string][]string{
		"created[gte]=1700000120":                          made[:3],
		"created[gt]=1700000120":                           made[:2],
		"created[lt]=1700000120":                           made[3:],
		"created[lte]=1700000120":                          made[2:],
		"created[gte]=1700000060&created[lt]=1700000180":   made[2:4],
		"created=1700000060":                               made[3:4],
		"customer=cus_1":                                   {made[1], made[3]},
		"customer=cus_9":                                   nil,
		"customer=cus_1&limit=1&starting_after=" + made[1]: {made[3]},
	} {
		a := w.get("/v1/payment_intents?" + query)
		if !slices.Equal(ids(a), want) {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
	for _, query := range []string{
		"limit=0", "limit=101", "limit=ten", "created[gte]=today", "created[near]=1", "status=succeeded",
		"starting_after=pi_none", "starting_after=" + made[0] + "&ending_before=" + made[1],
	} {
		if a := w.get("/v1/payment_intents?" + query); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.raw)
		}
	}
	if a := w.get("/v1/payment_intents", "Stripe-Account", "acct_other"); len(ids(a)) != 0 {
		t.Fatal("another account sees ours", a.raw)
	}
	w.refusal(w.get("/v1/payment_intents/"+made[0], "Stripe-Account", "acct_other"), 404, typeInvalid, "resource_missing")
	w.ok(w.get("/v1/payment_intents/"+made[0], "Stripe-Account", defaultAccount))
}

func TestSearch(t *testing.T) {
	now := newClock()
	w := newWorld(t, Config{Now: now.read, SearchDelay: time.Minute})
	one := w.pay(paid)
	two := w.pay("amount=700&currency=usd&metadata[order_id]=o2&metadata[unavez_payment]=p2")
	search := func(query string) answer {
		return w.get("/v1/payment_intents/search?query=" + url.QueryEscape(query))
	}
	if a := search(`metadata['order_id']:'o1'`); len(ids(a)) != 0 {
		t.Fatal("seen at once", a.raw)
	}
	now.advance(time.Minute)
	for query, want := range map[string][]string{
		`metadata['order_id']:'o1'`:                                     {one.str("id")},
		`metadata["order_id"]:"o2" AND metadata['unavez_payment']:'p2'`: {two.str("id")},
		`metadata['order_id']:'o2' AND status:'succeeded'`:              nil,
		`currency:'usd'`:           {two.str("id")},
		`status:'succeeded'`:       {one.str("id")},
		`metadata['missing']:''`:   nil,
		`metadata['order_id']:'o'`: nil,
	} {
		if a := w.ok(search(query)); !slices.Equal(ids(a), want) || a.str("object") != "search_result" {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
	for _, query := range []string{"", "order", `metadata['a']:'b' OR metadata['c']:'d'`, `metadata['a']:'b' AND`} {
		if a := search(query); a.status != 400 {
			t.Errorf("%s: %d", query, a.status)
		}
	}
	for range 3 {
		w.pay(paid)
	}
	now.advance(time.Minute)
	page := w.get("/v1/payment_intents/search?limit=3&query=" + url.QueryEscape(`metadata['order_id']:'o1'`))
	if len(ids(page)) != 3 || page.body["has_more"] != true {
		t.Fatal(page.raw)
	}
	rest := w.get("/v1/payment_intents/search?limit=3&page=" + page.str("next_page") + "&query=" + url.QueryEscape(`metadata['order_id']:'o1'`))
	if !slices.Equal(ids(rest), []string{one.str("id")}) {
		t.Fatal(rest.raw)
	}
}

func TestEventLists(t *testing.T) {
	now := newClock()
	w := newWorld(t, Config{Now: now.read})
	in := w.pay(paid)
	w.ok(w.post("/v1/refunds", "amount=1&payment_intent="+in.str("id")))
	for query, want := range map[string]int{
		"type=refund.created": 1, "type=charge.*": 2, "types[]=refund.created&types[]=charge.refunded": 2,
		"types[0]=refund.created&types[1]=charge.refunded": 2, "delivery_success=false": 0, "delivery_success=true": 5,
		"created[gt]=1700000000": 0,
	} {
		if a := w.ok(w.get("/v1/events?" + query)); len(a.rows()) != want {
			t.Errorf("%s: %d %s", query, len(a.rows()), a.raw)
		}
	}
	all := ids(w.get("/v1/events"))
	if page := w.get("/v1/events?limit=2&starting_after=" + all[1]); !slices.Equal(ids(page), all[2:4]) || page.body["has_more"] != true {
		t.Fatal(page.raw)
	}
	if page := w.get("/v1/events?ending_before=" + all[3]); !slices.Equal(ids(page), all[:3]) {
		t.Fatal(page.raw)
	}
	tooMany := "delivery_success=false"
	for range eventTypesMax + 1 {
		tooMany += "&types[]=charge.captured"
	}
	w.refusal(w.get("/v1/events?"+tooMany), 400, typeInvalid, "")
	w.refusal(w.get("/v1/events?delivery_success=maybe"), 400, typeInvalid, "parameter_invalid_boolean")
	now.advance(31 * 24 * time.Hour)
	if a := w.get("/v1/events"); len(a.rows()) != 0 {
		t.Fatal("events are listed for thirty days", a.raw)
	}
}

func TestBalanceTransactions(t *testing.T) {
	w := newWorld(t, Config{FeeBasisPoints: 150})
	in := w.pay(paid)
	re := w.ok(w.post("/v1/refunds", "amount=1000&payment_intent="+in.str("id")))
	w.trigger(Trigger{Type: RefundFail, Refund: re.str("id")})
	d := w.trigger(Trigger{Type: DisputeOpen, PaymentIntent: in.str("id")})
	w.trigger(Trigger{Type: DisputeWin, Dispute: d.Object})
	rows := w.ok(w.get("/v1/balance_transactions")).rows()
	var got []string
	for _, row := range slices.Backward(rows) {
		got = append(got, fmt.Sprintf("%v %v %v %v", row["type"], row["reporting_category"], row["amount"], row["net"]))
	}
	want := []string{
		"charge charge 4800 4728", "refund refund -1000 -1000", "refund_failure refund_failure 1000 1000",
		"adjustment dispute -4800 -4800", "adjustment dispute_reversal 4800 4800",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	for query, n := range map[string]int{
		"type=adjustment": 2, "source=" + re.str("id"): 2, "currency=eur": 5, "currency=usd": 0, "payout=po_1": 0, "limit=1&type=refund": 1,
	} {
		if a := w.ok(w.get("/v1/balance_transactions?" + query)); len(a.rows()) != n {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
	id, _ := rows[0]["id"].(string)
	w.ok(w.get("/v1/balance_transactions/" + id))
	w.refusal(w.get("/v1/balance_transactions/txn_none"), 404, typeInvalid, "resource_missing")
}

func TestExpandAndUnknownURL(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid + "&expand[]=latest_charge")
	ch, _ := in.body["latest_charge"].(object)
	if ch["object"] != "charge" {
		t.Fatal(in.raw)
	}
	list := w.get("/v1/charges?expand[]=data.payment_intent")
	if pi, _ := list.rows()[0]["payment_intent"].(object); pi["id"] != in.str("id") {
		t.Fatal(list.raw)
	}
	w.refusal(w.get("/v1/nothing"), 404, typeInvalid, "")
	w.refusal(w.post("/v1/events", ""), 404, typeInvalid, "")
	w.refusal(w.get("/v1/account", "Authorization", ""), 401, typeInvalid, "")
	w.ok(w.get("/v1/account", "Authorization", "Basic c2tfdGVzdF9zaW11bGF0b3I6"))
}

package simulator

import (
	"net/http"
	"slices"
	"testing"
)

func TestAutomaticCapture(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid)
	if in.str("status") != intentSucceeded || in.num("amount_received") != 4800 || in.str("latest_charge") == "" {
		t.Fatal(in.raw)
	}
	want := []string{"payment_intent.created", "charge.succeeded", "payment_intent.succeeded"}
	if got := w.eventTypes(); !slices.Equal(got, want) {
		t.Fatalf("events %v", got)
	}
	b := w.s.Books()
	if len(b.Movements) != 2 || b.Movements[0].Kind != Authorized || b.Movements[1].Kind != Captured {
		t.Fatalf("%+v", b.Movements)
	}
	m := b.Movements[1]
	if m.Order != "o1" || m.PaymentIntent != in.str("id") || m.Charge != in.str("latest_charge") ||
		m.Currency != "EUR" || m.Amount != 4800 || m.Request != in.header.Get("Request-Id") {
		t.Fatalf("%+v", m)
	}
	ch := w.ok(w.get("/v1/charges/" + in.str("latest_charge")))
	if ch.num("amount_captured") != 4800 || ch.body["captured"] != true || ch.str("payment_intent") != in.str("id") {
		t.Fatal(ch.raw)
	}
}

const held = "amount=4800&currency=eur&payment_method=pm_card_visa&confirm=true&capture_method=manual&metadata[order_id]=o2"

func TestManualCapture(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held)
	if in.str("status") != intentRequiresCapture || in.num("amount_capturable") != 4800 || w.total(Captured) != 0 {
		t.Fatal(in.raw)
	}
	path := "/v1/payment_intents/" + in.str("id") + "/capture"
	w.refusal(w.post(path, "amount_to_capture=4801"), 400, typeInvalid, "amount_too_large")
	part := w.ok(w.post(path, "amount_to_capture=3000"))
	if part.str("status") != intentSucceeded || part.num("amount_received") != 3000 || part.num("amount_capturable") != 0 {
		t.Fatal(part.raw)
	}
	if w.total(Captured) != 3000 || w.total(Released) != 1800 || w.total(Refunded) != 0 {
		t.Fatalf("%+v", w.s.Sums())
	}
	ch := w.get("/v1/charges/" + in.str("latest_charge"))
	if ch.num("amount_refunded") != 0 || ch.body["refunded"] != false {
		t.Fatal("a released rest is shown as a refund", ch.raw)
	}
	w.refusal(w.post(path, ""), 400, typeInvalid, codeAlreadyCaptured)
	want := []string{
		"payment_intent.created", "charge.succeeded", "payment_intent.amount_capturable_updated",
		"charge.captured", "payment_intent.succeeded",
	}
	if got := w.eventTypes(); !slices.Equal(got, want) {
		t.Fatalf("events %v", got)
	}
}

func TestSeveralCaptures(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held)
	path := "/v1/payment_intents/" + in.str("id") + "/capture"
	for i, step := range []struct {
		form                          string
		status                        string
		received, capturable, charged int64
	}{
		{"amount_to_capture=1000&final_capture=false", intentRequiresCapture, 1000, 3800, 1000},
		{"amount_to_capture=1000&final_capture=false", intentRequiresCapture, 2000, 2800, 2000},
		{"amount_to_capture=2000", intentSucceeded, 4000, 0, 4000},
	} {
		a := w.ok(w.post(path, step.form))
		if a.str("status") != step.status || a.num("amount_received") != step.received || a.num("amount_capturable") != step.capturable {
			t.Fatalf("step %d: %s", i, a.raw)
		}
		if ch := w.get("/v1/charges/" + in.str("latest_charge")); ch.num("amount_captured") != step.charged {
			t.Fatalf("step %d: %s", i, ch.raw)
		}
	}
	if w.total(Captured) != 4000 || w.total(Released) != 800 || w.total(Authorized) != 4800 {
		t.Fatalf("%+v", w.s.Sums())
	}
	txns := w.get("/v1/balance_transactions?source=" + in.str("latest_charge"))
	if len(txns.rows()) != 3 {
		t.Fatalf("each capture moves the balance: %s", txns.raw)
	}
}

func TestCancelAndExpire(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held)
	path := "/v1/payment_intents/" + in.str("id")
	w.refusal(w.post(path+"/cancel", "cancellation_reason=because"), 400, typeInvalid, "")
	a := w.ok(w.post(path+"/cancel", "cancellation_reason=requested_by_customer"))
	if a.str("status") != intentCanceled || a.str("cancellation_reason") != "requested_by_customer" || w.total(Released) != 4800 {
		t.Fatal(a.raw)
	}
	w.refusal(w.post(path+"/cancel", ""), 400, typeInvalid, codeUnexpectedState)
	e := w.refusal(w.post(path+"/capture", ""), 400, typeInvalid, codeUnexpectedState)
	if shown, _ := e.body["error"].(object)["payment_intent"].(object); shown["status"] != intentCanceled {
		t.Fatal("the error shows no payment intent", e.raw)
	}

	second := w.pay(held)
	w.trigger(Trigger{Type: IntentExpire, PaymentIntent: second.str("id")})
	got := w.get("/v1/payment_intents/" + second.str("id"))
	if got.str("status") != intentCanceled || got.str("cancellation_reason") != "expired" || w.total(Released) != 9600 {
		t.Fatal(got.raw)
	}
	types := w.eventTypes()
	if want := []string{"charge.expired", "payment_intent.canceled"}; !slices.Equal(types[len(types)-2:], want) {
		t.Fatalf("events %v", types)
	}
}

func TestExpiryAfterAPartialCapture(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held)
	w.ok(w.post("/v1/payment_intents/"+in.str("id")+"/capture", "amount_to_capture=1000&final_capture=false"))
	w.refusal(w.post("/v1/payment_intents/"+in.str("id")+"/cancel", ""), 400, typeInvalid, codeUnexpectedState)
	w.trigger(Trigger{Type: IntentExpire, PaymentIntent: in.str("id")})
	if a := w.get("/v1/payment_intents/" + in.str("id")); a.str("status") != intentSucceeded || a.num("amount_received") != 1000 {
		t.Fatal(a.raw)
	}
	if w.total(Released) != 3800 || w.total(Captured) != 1000 {
		t.Fatalf("%+v", w.s.Sums())
	}
}

func TestReleaseShownAsRefund(t *testing.T) {
	w := newWorld(t, Config{ReleaseAsRefund: true})
	in := w.pay(held)
	w.ok(w.post("/v1/payment_intents/"+in.str("id")+"/capture", "amount_to_capture=3000"))
	ch := w.get("/v1/charges/" + in.str("latest_charge"))
	if ch.num("amount_refunded") != 1800 || ch.body["refunded"] != false || !slices.Contains(w.eventTypes(), "charge.refunded") {
		t.Fatal(ch.raw)
	}
	if w.total(Refunded) != 0 || w.total(Released) != 1800 {
		t.Fatalf("the books tell a release from a refund: %+v", w.s.Sums())
	}
	w.ok(w.post("/v1/refunds", "amount=3000&payment_intent="+in.str("id")))
	if ch = w.get("/v1/charges/" + in.str("latest_charge")); ch.body["refunded"] != true {
		t.Fatal(ch.raw)
	}
}

func TestIncrementAuthorization(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held)
	a := w.ok(w.post("/v1/payment_intents/"+in.str("id")+"/increment_authorization", "amount=6000"))
	if a.num("amount") != 6000 || a.num("amount_capturable") != 6000 || w.total(Authorized) != 6000 {
		t.Fatal(a.raw)
	}
	w.refusal(w.post("/v1/payment_intents/"+in.str("id")+"/increment_authorization", "amount=6000"), 400, typeInvalid, "")
}

func TestConfirmLater(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay("amount=500&currency=JPY")
	if in.str("status") != intentRequiresMethod || in.str("currency") != "jpy" || len(w.s.Books().Movements) != 0 {
		t.Fatal(in.raw)
	}
	path := "/v1/payment_intents/" + in.str("id") + "/confirm"
	w.refusal(w.post(path, ""), 400, typeInvalid, codeUnexpectedState)
	a := w.ok(w.post(path, "payment_method=pm_card_visa"))
	if a.str("status") != intentSucceeded || w.s.Sums().Totals[Captured]["JPY"] != 500 {
		t.Fatal(a.raw)
	}
	w.refusal(w.post(path, ""), 400, typeInvalid, codeUnexpectedState)
}

func TestDeclineIsNotTheEnd(t *testing.T) {
	w := newWorld(t, Config{})
	a := w.refusal(w.post("/v1/payment_intents", "amount=500&currency=eur&payment_method=pm_card_chargeDeclined&confirm=true"),
		http.StatusPaymentRequired, typeCard, "card_declined")
	e, _ := a.body["error"].(object)
	shown, _ := e["payment_intent"].(object)
	id, _ := shown["id"].(string)
	if shown["status"] != intentRequiresMethod || e["charge"] == nil || e["decline_code"] != "generic_decline" {
		t.Fatal(a.raw)
	}
	if len(w.s.Books().Movements) != 0 {
		t.Fatal("a declined card moved money")
	}
	again := w.ok(w.post("/v1/payment_intents/"+id+"/confirm", "payment_method=pm_card_visa"))
	if again.str("status") != intentSucceeded || w.total(Captured) != 500 {
		t.Fatal(again.raw)
	}
	want := []string{
		"payment_intent.created", "charge.failed", "payment_intent.payment_failed", "charge.succeeded", "payment_intent.succeeded",
	}
	if got := w.eventTypes(); !slices.Equal(got, want) {
		t.Fatalf("events %v", got)
	}
	if list := w.get("/v1/charges?payment_intent=" + id); len(list.rows()) != 2 {
		t.Fatal(list.raw)
	}
}

func TestActionAndAsyncMethods(t *testing.T) {
	for _, c := range []struct{ method, trigger, waiting, end string }{
		{methodAction, IntentSucceed, intentRequiresAction, intentSucceeded},
		{methodAction, IntentFail, intentRequiresAction, intentRequiresMethod},
		{methodAsync, IntentSucceed, intentProcessing, intentSucceeded},
		{methodAsync, IntentFail, intentProcessing, intentRequiresMethod},
	} {
		t.Run(c.method+" "+c.trigger, func(t *testing.T) {
			w := newWorld(t, Config{})
			in := w.pay("amount=500&currency=eur&confirm=true&payment_method=" + c.method)
			if in.str("status") != c.waiting || len(w.s.Books().Movements) != 0 {
				t.Fatal(in.raw)
			}
			w.trigger(Trigger{Type: c.trigger, PaymentIntent: in.str("id")})
			if got := w.get("/v1/payment_intents/" + in.str("id")); got.str("status") != c.end {
				t.Fatal(got.raw)
			}
			if captured := w.total(Captured); (captured == 500) != (c.end == intentSucceeded) {
				t.Fatalf("captured %d", captured)
			}
			if _, err := w.s.Trigger(Trigger{Type: c.trigger, PaymentIntent: in.str("id")}); err == nil {
				t.Fatal("the same end twice")
			}
		})
	}
}

// R2.8: amounts are integers, and each currency has its rules.
func TestAmounts(t *testing.T) {
	w := newWorld(t, Config{})
	for _, c := range []struct{ amount, currency, code string }{
		{"", "eur", "parameter_missing"}, {"0", "eur", "parameter_invalid_integer"}, {"-5", "eur", "parameter_invalid_integer"},
		{"5.1", "eur", "parameter_invalid_integer"}, {"1e3", "eur", "parameter_invalid_integer"},
		{"510.0", "eur", "parameter_invalid_integer"}, {"%2B5", "eur", "parameter_invalid_integer"},
		{"99999999999999999999", "eur", "parameter_invalid_integer"}, {"1000000000000", "eur", "amount_too_large"},
		{"550", "isk", codeNoDecimal}, {"550", "UGX", codeNoDecimal}, {"5124", "kwd", ""},
		{"500", "", "parameter_missing"}, {"500", "euro", ""},
	} {
		a := w.post("/v1/payment_intents", "amount="+c.amount+"&currency="+c.currency)
		w.refusal(a, 400, typeInvalid, c.code)
	}
	for _, form := range []string{"amount=500&currency=isk", "amount=5120&currency=kwd", "amount=501&currency=jpy", "amount=501&currency=mga"} {
		w.pay(form)
	}
	in := w.pay("amount=1000&currency=isk&confirm=true&payment_method=pm_card_visa")
	w.refusal(w.post("/v1/refunds", "amount=550&payment_intent="+in.str("id")), 400, typeInvalid, codeNoDecimal)
}

func TestAsynchronousCapture(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid + "&capture_method=automatic_async")
	if in.str("capture_method") != "automatic_async" || w.total(Captured) != 4800 {
		t.Fatal(in.raw)
	}
	events := w.get("/v1/events?type=charge.*").rows() // newest first
	charge := func(ev object) object {
		data, _ := ev["data"].(object)
		ch, _ := data["object"].(object)
		return ch
	}
	if len(events) != 2 || events[0]["type"] != "charge.updated" || charge(events[0])["balance_transaction"] == nil ||
		charge(events[1])["balance_transaction"] != nil {
		t.Fatal(events)
	}
}

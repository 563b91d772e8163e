package simulator

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// R4.7, R4.10: repeating under one key is one execution and one answer.
func TestReplay(t *testing.T) {
	w := newWorld(t, Config{})
	first := w.pay(paid, "Idempotency-Key", "k1")
	if first.header.Get("Idempotency-Key") != "k1" || first.header.Get("Idempotent-Replayed") != "" {
		t.Fatal(first.header)
	}
	for range 10 {
		again := w.pay(paid, "Idempotency-Key", "k1")
		if again.raw != first.raw || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatal(again.raw, again.header)
		}
		if again.header.Get("Original-Request") != first.header.Get("Request-Id") {
			t.Fatal(again.header)
		}
	}
	if w.total(Captured) != 4800 {
		t.Fatalf("%+v", w.s.Sums())
	}
	if other := w.pay(paid, "Idempotency-Key", "k2"); other.str("id") == first.str("id") {
		t.Fatal("another key is another payment")
	}
	w.pay(paid, "Idempotency-Key", "k1", "Stripe-Account", "acct_other")
	if w.total(Captured) != 3*4800 {
		t.Fatal("an account has keys of its own")
	}
}

func TestMismatch(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(held, "Idempotency-Key", "k1")
	for _, c := range []struct{ path, form, version string }{
		{"/v1/payment_intents", strings.Replace(held, "4800", "4900", 1), ""},
		{"/v1/payment_intents/" + in.str("id") + "/capture", "", ""},
		{"/v1/payment_intents", held, "2020-08-27"},
	} {
		a := w.post(c.path, c.form, "Idempotency-Key", "k1", "Stripe-Version", c.version)
		w.refusal(a, 400, typeIdempotency, "")
		if e, _ := a.body["error"].(object)["message"].(string); !strings.HasPrefix(e, "Keys for idempotent requests can only be used with the same parameters") {
			t.Fatal(a.raw)
		}
	}
	if w.total(Captured) != 0 || w.total(Authorized) != 4800 {
		t.Fatalf("%+v", w.s.Sums())
	}
	// The order of parameters is no difference.
	parts := strings.Split(held, "&")
	parts[0], parts[1] = parts[1], parts[0]
	if a := w.pay(strings.Join(parts, "&"), "Idempotency-Key", "k1"); a.raw != in.raw {
		t.Fatal(a.raw)
	}
}

func TestWhatAKeyKeeps(t *testing.T) {
	w := newWorld(t, Config{})
	decline := "amount=500&currency=eur&payment_method=pm_card_chargeDeclined&confirm=true"
	w.refusal(w.post("/v1/payment_intents", decline, "Idempotency-Key", "card"), 402, typeCard, "card_declined")
	again := w.refusal(w.post("/v1/payment_intents", decline, "Idempotency-Key", "card"), 402, typeCard, "card_declined")
	if again.header.Get("Idempotent-Replayed") != "true" || len(w.s.charges.rows) != 1 {
		t.Fatal("a card error is kept")
	}
	// A failed validation is not kept: the same key may bring the right request.
	w.refusal(w.post("/v1/payment_intents", "amount=x&currency=eur", "Idempotency-Key", "form"), 400, typeInvalid, "parameter_invalid_integer")
	w.pay("amount=500&currency=eur", "Idempotency-Key", "form")
	w.refusal(w.post("/v1/payment_intents", "amount=500&currency=eur&color=red", "Idempotency-Key", "word"), 400, typeInvalid, "parameter_unknown")
	w.pay("amount=500&currency=eur", "Idempotency-Key", "word")
	w.refusal(w.post("/v1/payment_intents", paid, "Idempotency-Key", "who", "Authorization", "Bearer sk_test_wrong"), 401, typeInvalid, "")
	w.pay(paid, "Idempotency-Key", "who")
	w.refusal(w.post("/v1/payment_intents", paid, "Idempotency-Key", strings.Repeat("k", 256)), 400, typeInvalid, "")
	w.pay(paid, "Idempotency-Key", strings.Repeat("k", 255))
	// A GET knows no key.
	if a := w.ok(w.get("/v1/account", "Idempotency-Key", "card")); a.header.Get("Idempotency-Key") != "" {
		t.Fatal(a.header)
	}
}

// R4.8: after its day a key is forgotten, and the same request pays again.
func TestForgetting(t *testing.T) {
	now := newClock()
	w := newWorld(t, Config{Now: now.read})
	first := w.pay(paid, "Idempotency-Key", "k1")
	now.advance(24*time.Hour - time.Second)
	if a := w.pay(paid, "Idempotency-Key", "k1"); a.str("id") != first.str("id") {
		t.Fatal("forgotten within a day")
	}
	now.advance(time.Second)
	second := w.pay(paid, "Idempotency-Key", "k1")
	if second.str("id") == first.str("id") || second.header.Get("Idempotent-Replayed") != "" {
		t.Fatal("kept after a day")
	}
	w.pay(paid, "Idempotency-Key", "k2")
	if n := w.s.ForgetKeys("k1"); n != 1 {
		t.Fatalf("%d forgotten", n)
	}
	if a := w.pay(paid, "Idempotency-Key", "k1"); a.str("id") == second.str("id") {
		t.Fatal("kept after the instruction")
	}
	if n := w.s.ForgetKeys(""); n != 2 {
		t.Fatalf("%d forgotten", n)
	}
}

func TestKeyInUse(t *testing.T) {
	w := newWorld(t, Config{})
	w.inject(Fault{Kind: FaultLate, Method: "POST", Times: 1})
	type result struct {
		a   answer
		err error
	}
	first := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		a, err := w.try(ctx, http.MethodPost, "/v1/payment_intents", paid, "Idempotency-Key", "k1")
		first <- result{a, err}
	}()
	if err := w.s.WaitHeld(ctx, 1); err != nil {
		t.Fatal(err)
	}
	w.refusal(w.post("/v1/payment_intents", paid, "Idempotency-Key", "k1"), 409, typeIdempotency, codeKeyInUse)
	w.refusal(w.post("/v1/payment_intents", held, "Idempotency-Key", "k1"), 400, typeIdempotency, "")
	if w.total(Captured) != 0 {
		t.Fatal("executed while held")
	}
	w.s.Release()
	r := <-first
	if r.err != nil || r.a.status != 200 {
		t.Fatal(r.a.raw, r.err)
	}
	if a := w.pay(paid, "Idempotency-Key", "k1"); a.raw != r.a.raw || w.total(Captured) != 4800 {
		t.Fatal(a.raw)
	}
}

func TestKeysAreBounded(t *testing.T) {
	now := newClock()
	w := newWorld(t, Config{KeysMax: 2, Now: now.read})
	w.pay(paid, "Idempotency-Key", "a")
	w.pay(paid, "Idempotency-Key", "b")
	w.refusal(w.post("/v1/payment_intents", paid, "Idempotency-Key", "c"), 429, typeInvalid, "rate_limit")
	w.pay(paid, "Idempotency-Key", "a")
	now.advance(24 * time.Hour)
	w.pay(paid, "Idempotency-Key", "c")
	if w.total(Captured) != 3*4800 || len(w.s.keys) != 1 {
		t.Fatalf("%+v %d", w.s.Sums(), len(w.s.keys))
	}
}

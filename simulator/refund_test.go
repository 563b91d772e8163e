package simulator

import (
	"errors"
	"slices"
	"testing"
)

func TestPartialRefunds(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid)
	pi := "payment_intent=" + in.str("id")
	for i, amount := range []string{"1000", "1000", "2800"} {
		re := w.ok(w.post("/v1/refunds", pi+"&amount="+amount+"&reason=requested_by_customer&metadata[case]=c"))
		if re.str("status") != statusSucceeded || re.str("charge") != in.str("latest_charge") {
			t.Fatalf("refund %d: %s", i, re.raw)
		}
		if i == 0 {
			w.refusal(w.post("/v1/refunds", pi+"&amount=3801"), 400, typeInvalid, "")
		}
	}
	w.refusal(w.post("/v1/refunds", pi), 400, typeInvalid, codeAlreadyRefunded)
	ch := w.get("/v1/charges/" + in.str("latest_charge"))
	if ch.num("amount_refunded") != 4800 || ch.body["refunded"] != true || w.total(Refunded) != 4800 {
		t.Fatal(ch.raw)
	}
	if list := w.get("/v1/refunds?" + pi + "&limit=2"); len(list.rows()) != 2 || list.body["has_more"] != true {
		t.Fatal(list.raw)
	}
	if list := w.get("/v1/refunds?charge=ch_other"); len(list.rows()) != 0 {
		t.Fatal(list.raw)
	}
}

func TestRefundsThatAreRefused(t *testing.T) {
	w := newWorld(t, Config{})
	w.refusal(w.post("/v1/refunds", "amount=1"), 400, typeInvalid, "parameter_missing")
	w.refusal(w.post("/v1/refunds", "payment_intent=pi_none"), 404, typeInvalid, "resource_missing")
	in := w.pay(held)
	w.refusal(w.post("/v1/refunds", "payment_intent="+in.str("id")), 400, typeInvalid, "")
	open := w.pay("amount=500&currency=eur")
	w.refusal(w.post("/v1/refunds", "payment_intent="+open.str("id")), 400, typeInvalid, "")
	w.refusal(w.post("/v1/refunds", "reason=mood&payment_intent="+in.str("id")), 400, typeInvalid, "")
	if w.total(Refunded) != 0 {
		t.Fatal("refused and paid back")
	}
}

func TestRefundFailsAfterSuccess(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid)
	re := w.ok(w.post("/v1/refunds", "payment_intent="+in.str("id")))
	w.trigger(Trigger{Type: RefundFail, Refund: re.str("id"), Reason: "expired_or_canceled_card"})
	got := w.get("/v1/refunds/" + re.str("id"))
	if got.str("status") != statusFailed || got.str("failure_reason") != "expired_or_canceled_card" || got.str("failure_balance_transaction") == "" {
		t.Fatal(got.raw)
	}
	sums := w.s.Sums()
	if sums.Totals[Refunded]["EUR"] != 4800 || sums.Totals[RefundFailed]["EUR"] != 4800 || sums.Net["refunded"]["EUR"] != 0 {
		t.Fatalf("%+v", sums)
	}
	types := w.eventTypes()
	if want := []string{"refund.created", "charge.refunded", "refund.updated", "refund.failed"}; !slices.Equal(types[len(types)-4:], want) {
		t.Fatalf("events %v", types)
	}
	if _, err := w.s.Trigger(Trigger{Type: RefundFail, Refund: re.str("id")}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("failed twice: %v", err)
	}
	w.ok(w.post("/v1/refunds", "payment_intent="+in.str("id"))) // the money can be sent back again
}

func TestPendingRefunds(t *testing.T) {
	for _, c := range []struct {
		trigger, end string
		refunded     int64
	}{
		{RefundSucceed, statusSucceeded, 1000}, {RefundFail, statusFailed, 0}, {RefundCancel, statusCanceled, 0},
	} {
		t.Run(c.trigger, func(t *testing.T) {
			w := newWorld(t, Config{RefundsPending: true})
			in := w.pay(paid)
			re := w.ok(w.post("/v1/refunds", "amount=1000&payment_intent="+in.str("id")))
			if re.str("status") != statusPending || w.total(Refunded) != 0 {
				t.Fatal(re.raw)
			}
			w.refusal(w.post("/v1/refunds", "amount=3801&payment_intent="+in.str("id")), 400, typeInvalid, "")
			w.trigger(Trigger{Type: c.trigger, Refund: re.str("id")})
			if got := w.get("/v1/refunds/" + re.str("id")); got.str("status") != c.end {
				t.Fatal(got.raw)
			}
			if w.total(Refunded) != c.refunded || w.total(RefundFailed) != 0 {
				t.Fatalf("%+v", w.s.Sums())
			}
			if ch := w.get("/v1/charges/" + in.str("latest_charge")); ch.num("amount_refunded") != c.refunded {
				t.Fatal(ch.raw)
			}
		})
	}
}

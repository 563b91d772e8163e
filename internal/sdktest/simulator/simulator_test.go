package simulator

import (
	"net/http"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	sim "github.com/unavez/unavez/simulator"
)

func TestPayAndRefund(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	in := w.create("automatic", "")
	if in.Status != stripe.PaymentIntentStatusSucceeded || in.AmountReceived != 4800 || in.Metadata["order_id"] != "o1" || in.LatestCharge == nil {
		t.Fatalf("%+v", in)
	}
	re, err := w.client.V1Refunds.Create(ctx, &stripe.RefundCreateParams{
		PaymentIntent: stripe.String(in.ID), Amount: stripe.Int64(1000), Reason: stripe.String("requested_by_customer"),
	})
	if err != nil || re.Status != stripe.RefundStatusSucceeded || re.Charge.ID != in.LatestCharge.ID || re.PaymentIntent.ID != in.ID {
		t.Fatalf("%+v %v", re, err)
	}
	_, err = w.client.V1Refunds.Create(ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(in.ID), Amount: stripe.Int64(3801)})
	if e := refusal(t, err); e.Type != stripe.ErrorTypeInvalidRequest || e.HTTPStatusCode != 400 {
		t.Fatal(e)
	}
	if _, err = w.client.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: stripe.String(in.LatestCharge.ID)}); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.V1Refunds.Create(ctx, &stripe.RefundCreateParams{PaymentIntent: stripe.String(in.ID)})
	if e := refusal(t, err); e.Code != stripe.ErrorCodeChargeAlreadyRefunded {
		t.Fatal(e)
	}
	ch, err := w.client.V1Charges.Retrieve(ctx, in.LatestCharge.ID, nil)
	if err != nil || ch.AmountRefunded != 4800 || !ch.Refunded || ch.AmountCaptured != 4800 || !ch.Captured || ch.PaymentIntent.ID != in.ID {
		t.Fatalf("%+v %v", ch, err)
	}
	n := 0
	for re, err := range w.client.V1Refunds.List(ctx, &stripe.RefundListParams{PaymentIntent: stripe.String(in.ID)}).All(ctx) {
		if err != nil || re.Charge.ID != ch.ID {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || w.total(sim.Refunded) != 4800 || w.total(sim.Captured) != 4800 {
		t.Fatalf("%d %+v", n, w.s.Sums())
	}
}

func TestCaptures(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	in := w.create("manual", "")
	if in.Status != stripe.PaymentIntentStatusRequiresCapture || in.AmountCapturable != 4800 {
		t.Fatalf("%+v", in)
	}
	for i, c := range []struct {
		amount   int64
		final    bool
		received int64
		status   stripe.PaymentIntentStatus
	}{
		{1000, false, 1000, stripe.PaymentIntentStatusRequiresCapture},
		{1000, false, 2000, stripe.PaymentIntentStatusRequiresCapture},
		{2000, true, 4000, stripe.PaymentIntentStatusSucceeded},
	} {
		got, err := w.client.V1PaymentIntents.Capture(ctx, in.ID, &stripe.PaymentIntentCaptureParams{
			AmountToCapture: stripe.Int64(c.amount), FinalCapture: stripe.Bool(c.final),
		})
		if err != nil || got.AmountReceived != c.received || got.Status != c.status {
			t.Fatalf("capture %d: %+v %v", i, got, err)
		}
	}
	_, err := w.client.V1PaymentIntents.Capture(ctx, in.ID, nil)
	if e := refusal(t, err); e.Code != stripe.ErrorCodeChargeAlreadyCaptured || e.PaymentIntent.ID != in.ID {
		t.Fatal(e)
	}
	if w.total(sim.Captured) != 4000 || w.total(sim.Released) != 800 {
		t.Fatalf("%+v", w.s.Sums())
	}
}

func TestCancelConfirmDecline(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	in := w.create("manual", "")
	got, err := w.client.V1PaymentIntents.Cancel(ctx, in.ID, &stripe.PaymentIntentCancelParams{CancellationReason: stripe.String("duplicate")})
	if err != nil || got.Status != stripe.PaymentIntentStatusCanceled || got.CancellationReason != stripe.PaymentIntentCancellationReasonDuplicate {
		t.Fatalf("%+v %v", got, err)
	}
	_, err = w.client.V1PaymentIntents.Capture(ctx, in.ID, nil)
	if e := refusal(t, err); e.Code != stripe.ErrorCodePaymentIntentUnexpectedState {
		t.Fatal(e)
	}
	p := intentParams("automatic", "")
	p.PaymentMethod = stripe.String("pm_card_chargeDeclined")
	_, err = w.client.V1PaymentIntents.Create(ctx, p)
	e := refusal(t, err)
	if e.Type != stripe.ErrorTypeCard || e.Code != stripe.ErrorCodeCardDeclined || e.HTTPStatusCode != http.StatusPaymentRequired ||
		e.PaymentIntent.Status != stripe.PaymentIntentStatusRequiresPaymentMethod || e.ChargeID == "" {
		t.Fatal(e)
	}
	got, err = w.client.V1PaymentIntents.Confirm(ctx, e.PaymentIntent.ID, &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_visa")})
	if err != nil || got.Status != stripe.PaymentIntentStatusSucceeded {
		t.Fatalf("%+v %v", got, err)
	}
	if w.total(sim.Released) != 4800 || w.total(sim.Captured) != 4800 {
		t.Fatalf("%+v", w.s.Sums())
	}
}

func TestListAndSearch(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	for range 7 {
		w.create("automatic", "")
	}
	seen := map[string]bool{}
	params := &stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: 1}}
	params.Limit = stripe.Int64(3)
	for in, err := range w.client.V1PaymentIntents.List(ctx, params).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		seen[in.ID] = true
	}
	if len(seen) != 7 {
		t.Fatalf("%d of 7 over three pages", len(seen))
	}
	search := &stripe.PaymentIntentSearchParams{}
	search.Query, search.Limit = "metadata['order_id']:'o1'", stripe.Int64(4)
	found := 0
	for in, err := range w.client.V1PaymentIntents.Search(ctx, search).All(ctx) {
		if err != nil || !seen[in.ID] {
			t.Fatal(err)
		}
		found++
	}
	if found != 7 {
		t.Fatalf("%d of 7 found", found)
	}
	balance := int64(0)
	for tx, err := range w.client.V1BalanceTransactions.List(ctx, &stripe.BalanceTransactionListParams{Type: stripe.String("charge")}).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		balance += tx.Amount
	}
	if balance != 7*4800 || balance != w.total(sim.Captured) {
		t.Fatalf("balance %d, %+v", balance, w.s.Sums())
	}
}

// R4.7: the key's rules, as the official client meets them.
func TestIdempotency(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	first := w.create("automatic", "k1")
	again := w.create("automatic", "k1")
	if again.ID != first.ID || again.LastResponse.Header.Get("Idempotent-Replayed") != "true" || again.LastResponse.IdempotencyKey != "k1" {
		t.Fatalf("%s %s %v", first.ID, again.ID, again.LastResponse.Header)
	}
	other := intentParams("automatic", "k1")
	other.Amount = stripe.Int64(4900)
	_, err := w.client.V1PaymentIntents.Create(ctx, other)
	if e := refusal(t, err); e.Type != stripe.ErrorTypeIdempotency || e.HTTPStatusCode != 400 {
		t.Fatal(e)
	}
	if _, err := w.s.Inject(sim.Fault{Kind: sim.FaultKeyInUse, Times: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.V1PaymentIntents.Create(ctx, intentParams("automatic", "k2"))
	if e := refusal(t, err); e.Code != stripe.ErrorCodeIdempotencyKeyInUse || e.HTTPStatusCode != 409 {
		t.Fatal(e)
	}
	if w.total(sim.Captured) != 4800 {
		t.Fatalf("%+v", w.s.Sums())
	}
	w.s.ForgetKeys("k1")
	if after := w.create("automatic", "k1"); after.ID == first.ID {
		t.Fatal("the key was not forgotten")
	}
}

// One payment comes through every fault after which the same key may be sent
// again. The client repeats by itself where the connection failed; where the
// provider answered with an error, the caller does.
func TestRepeatingThroughFaults(t *testing.T) {
	for kind, byClient := range map[string]bool{
		sim.FaultDropAnswer: true, sim.FaultReset: true, sim.FaultErrorBefore: false, sim.FaultKeyInUse: false,
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, 2)
			if _, err := w.s.Inject(sim.Fault{Kind: kind, Times: 1}); err != nil {
				t.Fatal(err)
			}
			in, err := w.client.V1PaymentIntents.Create(t.Context(), intentParams("automatic", "k1"))
			if !byClient {
				if e := refusal(t, err); e.HTTPStatusCode < 409 {
					t.Fatal(e)
				}
				in, err = w.client.V1PaymentIntents.Create(t.Context(), intentParams("automatic", "k1"))
			}
			if err != nil || in.Status != stripe.PaymentIntentStatusSucceeded || w.total(sim.Captured) != 4800 {
				t.Fatalf("%+v %v %+v", in, err, w.s.Sums())
			}
			if w.s.Faults()[0].Hits != 1 {
				t.Fatal("the fault did not strike")
			}
		})
	}
	w := newWorld(t, 2)
	if _, err := w.s.Inject(sim.Fault{Kind: sim.FaultErrorAfter, Times: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := w.client.V1PaymentIntents.Create(t.Context(), intentParams("automatic", "k1"))
	if e := refusal(t, err); e.HTTPStatusCode != 500 || w.total(sim.Captured) != 4800 {
		t.Fatal("the stored 500 hides a payment", e)
	}
}

func TestWebhooksVerify(t *testing.T) {
	w := newWorld(t, 0)
	for _, kind := range []string{sim.FaultDuplicate, sim.FaultSecondEvent, sim.FaultLostAnswer, sim.FaultDisorder} {
		if _, err := w.s.Inject(sim.Fault{Kind: kind, Probability: 0.3}); err != nil {
			t.Fatal(err)
		}
	}
	in := w.create("manual", "k1")
	if _, err := w.client.V1PaymentIntents.Capture(t.Context(), in.ID, nil); err != nil {
		t.Fatal(err)
	}
	d, err := w.s.Trigger(sim.Trigger{Type: sim.DisputeOpen, PaymentIntent: in.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Trigger(sim.Trigger{Type: sim.DisputeWin, Dispute: d.Object}); err != nil {
		t.Fatal(err)
	}
	w.drain()
	options := webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true, Tolerance: time.Hour}
	types := map[stripe.EventType]bool{}
	for _, got := range w.shop.all() {
		ev, err := webhook.ConstructEventWithOptions(got.body, got.signature, secret, options)
		if err != nil {
			t.Fatalf("%v\n%s", err, got.body)
		}
		types[ev.Type] = true
		if ev.Type == stripe.EventTypePaymentIntentSucceeded && ev.Data.Object["id"] != in.ID {
			t.Fatalf("%s", got.body)
		}
		if ev.Type == stripe.EventTypePaymentIntentCreated && ev.Request.IdempotencyKey != "k1" {
			t.Fatalf("%s", got.body)
		}
		if _, err := webhook.ConstructEventWithOptions(append(got.body, ' '), got.signature, secret, options); err == nil {
			t.Fatal("a changed body verifies")
		}
		if _, err := webhook.ConstructEventWithOptions(got.body, got.signature, "whsec_other", options); err == nil {
			t.Fatal("another secret verifies")
		}
	}
	for _, want := range []stripe.EventType{
		stripe.EventTypePaymentIntentAmountCapturableUpdated, stripe.EventTypeChargeCaptured, stripe.EventTypePaymentIntentSucceeded,
		stripe.EventTypeChargeDisputeCreated, stripe.EventTypeChargeDisputeFundsWithdrawn, stripe.EventTypeChargeDisputeClosed,
	} {
		if !types[want] {
			t.Errorf("no %s came", want)
		}
	}
	dp, err := w.client.V1Disputes.Retrieve(t.Context(), d.Object, nil)
	if err != nil || dp.Status != stripe.DisputeStatusWon || len(dp.BalanceTransactions) != 2 {
		t.Fatalf("%+v %v", dp, err)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	if _, err := w.s.Inject(sim.Fault{Kind: sim.FaultLoss, EventType: "charge.*"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.create("automatic", "")
	}
	w.drain()
	count := func(p *stripe.EventListParams) int {
		n := 0
		p.Limit = stripe.Int64(2)
		for ev, err := range w.client.V1Events.List(ctx, p).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if one, err := w.client.V1Events.Retrieve(ctx, ev.ID, nil); err != nil || one.Type != ev.Type {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for i, c := range []struct {
		p    *stripe.EventListParams
		want int
	}{
		{&stripe.EventListParams{}, 9},
		{&stripe.EventListParams{DeliverySuccess: stripe.Bool(false)}, 3},
		{&stripe.EventListParams{DeliverySuccess: stripe.Bool(true)}, 6},
		{&stripe.EventListParams{Type: stripe.String("charge.*")}, 3},
		{&stripe.EventListParams{Types: stripe.StringSlice([]string{"charge.succeeded", "payment_intent.succeeded"})}, 6},
	} {
		if got := count(c.p); got != c.want {
			t.Errorf("list %d: %d, want %d", i, got, c.want)
		}
	}
}

func TestConnectedAccount(t *testing.T) {
	w := newWorld(t, 0)
	p := intentParams("automatic", "k1")
	p.SetStripeAccount("acct_connected")
	in, err := w.client.V1PaymentIntents.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	w.drain()
	for _, got := range w.shop.all() {
		ev, err := webhook.ConstructEventWithOptions(got.body, got.signature, secret, webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true, Tolerance: time.Hour})
		if err != nil || ev.Account != "acct_connected" {
			t.Fatalf("%v\n%s", err, got.body)
		}
	}
	if _, err := w.client.V1PaymentIntents.Retrieve(t.Context(), in.ID, nil); refusal(t, err).HTTPStatusCode != 404 {
		t.Fatal("our own account sees the other's payment")
	}
	if own := w.create("automatic", "k1"); own.ID == in.ID {
		t.Fatal("the accounts share their keys")
	}
}

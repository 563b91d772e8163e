package simulator

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func last(types []string, n int) []string { return types[max(0, len(types)-n):] }

func TestDisputeLives(t *testing.T) {
	for _, c := range []struct {
		name        string
		inquiry     bool
		steps       []string
		status      string
		net         int64
		lastEvents  []string
		refundAfter bool
	}{
		{"won", false, []string{DisputeReview, DisputeWin}, disputeWon, 0, []string{"charge.dispute.closed", "charge.dispute.funds_reinstated"}, true},
		{"lost", false, []string{DisputeLose}, disputeLost, 4800, []string{"charge.dispute.closed"}, false},
		{"open", false, nil, disputeNeeds, 4800, []string{"charge.dispute.created", "charge.dispute.funds_withdrawn"}, false},
		{"inquiry closed", true, []string{DisputeClose}, disputeWarningClosed, 0, []string{"charge.dispute.created", "charge.dispute.closed"}, true},
		{"inquiry escalated", true, []string{DisputeEscalate}, disputeNeeds, 4800, []string{"charge.dispute.updated", "charge.dispute.funds_withdrawn"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			in := w.pay(paid)
			d := w.trigger(Trigger{Type: DisputeOpen, PaymentIntent: in.str("id"), Reason: "product_not_received", Inquiry: c.inquiry})
			for _, step := range c.steps {
				w.trigger(Trigger{Type: step, Dispute: d.Object})
			}
			got := w.ok(w.get("/v1/disputes/" + d.Object))
			if got.str("status") != c.status || got.str("reason") != "product_not_received" || got.str("payment_intent") != in.str("id") {
				t.Fatal(got.raw)
			}
			if net := w.s.Sums().Net["disputed"]["EUR"]; net != c.net {
				t.Fatalf("net %d", net)
			}
			if got := last(w.eventTypes(), len(c.lastEvents)); !slices.Equal(got, c.lastEvents) {
				t.Fatalf("events %v", got)
			}
			a := w.post("/v1/refunds", "amount=1&payment_intent="+in.str("id"))
			if c.refundAfter {
				w.ok(a)
			} else {
				w.refusal(a, 400, typeInvalid, "charge_disputed")
			}
		})
	}
}

func TestTriggersThatCannotBe(t *testing.T) {
	w := newWorld(t, Config{})
	in, open := w.pay(paid), w.pay("amount=500&currency=eur")
	d := w.trigger(Trigger{Type: DisputeOpen, Charge: in.str("latest_charge"), Amount: 1000})
	w.trigger(Trigger{Type: DisputeLose, Dispute: d.Object})
	re := w.pay(paid)
	before := len(w.s.Books().Movements)
	for _, c := range []struct {
		t    Trigger
		want error
	}{
		{Trigger{Type: "nonsense"}, ErrInvalid},
		{Trigger{Type: DisputeOpen, PaymentIntent: "pi_none"}, ErrNotFound},
		{Trigger{Type: DisputeOpen, Charge: "ch_none"}, ErrNotFound},
		{Trigger{Type: DisputeOpen, PaymentIntent: open.str("id")}, ErrInvalid},
		{Trigger{Type: DisputeOpen, PaymentIntent: re.str("id"), Amount: 4801}, ErrInvalid},
		{Trigger{Type: DisputeWin, Dispute: d.Object}, ErrInvalid},
		{Trigger{Type: DisputeWin, Dispute: "dp_none"}, ErrNotFound},
		{Trigger{Type: RefundFail, Refund: "re_none"}, ErrNotFound},
		{Trigger{Type: IntentExpire, PaymentIntent: in.str("id")}, ErrInvalid},
		{Trigger{Type: IntentSucceed, PaymentIntent: in.str("id")}, ErrInvalid},
		{Trigger{Type: SessionComplete, PaymentIntent: open.str("id")}, ErrInvalid},
		{Trigger{Type: SessionSucceed, Session: "cs_none"}, ErrNotFound},
		{Trigger{Type: SessionExpire}, ErrInvalid},
		{Trigger{Type: InvoicePay, PaymentIntent: open.str("id")}, ErrInvalid},
		{Trigger{Type: EventResend, Event: "evt_none"}, ErrNotFound},
		{Trigger{Type: EventCustom, EventType: "customer.created"}, ErrInvalid},
	} {
		if _, err := w.s.Trigger(c.t); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.t, err)
		}
	}
	if after := len(w.s.Books().Movements); after != before {
		t.Fatalf("%d movements by refused triggers", after-before)
	}
}

func TestCheckoutSessions(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid)
	done := w.trigger(Trigger{Type: SessionComplete, PaymentIntent: in.str("id"), Reference: "cart-1", Metadata: map[string]string{"order_id": "o1"}})
	cs := w.ok(w.get("/v1/checkout/sessions/" + done.Object))
	if cs.str("payment_intent") != in.str("id") || cs.str("payment_status") != "paid" || cs.num("amount_total") != 4800 || cs.str("client_reference_id") != "cart-1" {
		t.Fatal(cs.raw)
	}
	if list := w.get("/v1/checkout/sessions?payment_intent=" + in.str("id")); len(list.rows()) != 1 {
		t.Fatal(list.raw)
	}

	for trigger, want := range map[string]string{
		SessionSucceed: "checkout.session.async_payment_succeeded", SessionFail: "checkout.session.async_payment_failed",
	} {
		in := w.pay("amount=700&currency=eur&confirm=true&payment_method=" + methodAsync)
		cs := w.trigger(Trigger{Type: SessionComplete, PaymentIntent: in.str("id")})
		if got := w.get("/v1/checkout/sessions/" + cs.Object); got.str("payment_status") != "unpaid" {
			t.Fatal(got.raw)
		}
		w.trigger(Trigger{Type: trigger, Session: cs.Object})
		if got := last(w.eventTypes(), 1); got[0] != want {
			t.Fatalf("events %v", got)
		}
		if _, err := w.s.Trigger(Trigger{Type: trigger, Session: cs.Object}); !errors.Is(err, ErrInvalid) {
			t.Fatalf("the same end twice: %v", err)
		}
	}
	if w.total(Captured) != 4800+700 {
		t.Fatalf("%+v", w.s.Sums())
	}
	gone := w.trigger(Trigger{Type: SessionExpire, Amount: 100, Currency: "eur"})
	if got := w.get("/v1/checkout/sessions/" + gone.Object); got.str("status") != "expired" || got.body["payment_intent"] != nil {
		t.Fatal(got.raw)
	}
}

func TestInvoicesNameTheirPaymentByVersion(t *testing.T) {
	for _, c := range []struct {
		version string
		named   bool
		events  []string
	}{
		{"2022-08-01", true, []string{"invoice.paid"}},
		{"2024-06-20", true, []string{"invoice.paid"}},
		{"2025-03-31.basil", false, []string{"invoice.paid", "invoice_payment.paid"}},
		{"", false, []string{"invoice.paid", "invoice_payment.paid"}},
	} {
		w := newWorld(t, Config{APIVersion: c.version})
		in := w.pay(paid)
		if _, embedded := in.body["charges"]; embedded != (c.version == "2022-08-01") {
			t.Fatal(in.raw)
		}
		done := w.trigger(Trigger{Type: InvoicePay, PaymentIntent: in.str("id")})
		inv := w.ok(w.get("/v1/invoices/" + done.Object))
		if (inv.str("payment_intent") == in.str("id")) != c.named || inv.num("amount_paid") != 4800 {
			t.Fatalf("%s: %s", c.version, inv.raw)
		}
		if got := last(w.eventTypes(), len(c.events)); !slices.Equal(got, c.events) {
			t.Fatalf("%s: events %v", c.version, got)
		}
		ev := w.get("/v1/events/" + done.Events[len(done.Events)-1])
		data, _ := ev.body["data"].(object)
		shown, _ := data["object"].(object)
		link, _ := shown["payment"].(object)
		if !c.named && (link["payment_intent"] != in.str("id") || shown["invoice"] != done.Object) {
			t.Fatal(ev.raw)
		}
	}
}

func TestCustomAndRepeatedEvents(t *testing.T) {
	sh := newShop(t, nil)
	w := newWorld(t, Config{WebhookURL: sh.url}).started()
	raw := jsontext.Value(`{"id":"cus_1","object":"customer"}`)
	made := w.trigger(Trigger{Type: EventCustom, EventType: "customer.created", Object: raw, Account: "acct_connected"})
	w.drain()
	w.trigger(Trigger{Type: EventResend, Event: made.Object})
	w.drain()
	second := w.trigger(Trigger{Type: EventSecond, Event: made.Object})
	w.drain()
	got := sh.all()
	if len(got) != 3 || got[0].id != made.Object || got[1].id != made.Object || got[2].id != second.Object || second.Object == made.Object {
		t.Fatalf("%+v", got)
	}
	if string(got[0].body) != string(got[1].body) {
		t.Fatal("a resend has other bytes")
	}
	for _, r := range got {
		data, _ := r.event["data"].(object)
		shown, _ := data["object"].(object)
		if r.event["account"] != "acct_connected" || shown["id"] != "cus_1" {
			t.Fatalf("%s", r.body)
		}
	}
	if d := w.s.Deliveries(); d.SecondEvents != 1 || d.Duplicates != 1 {
		t.Fatalf("%+v", d)
	}
	if a := w.get("/v1/events/" + made.Object); a.status != 404 {
		t.Fatal("another account's event", a.raw)
	}
	w.ok(w.get("/v1/events/"+made.Object, "Stripe-Account", "acct_connected"))
}

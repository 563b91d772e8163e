package simulator

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestBooksAgreeWithTheObjects lets chance act and checks after every act that
// the books, the objects and the balance tell one story.
func TestBooksAgreeWithTheObjects(t *testing.T) {
	all := Sums{}
	for seed := range uint64(8) {
		s := New(Config{Seed: seed, RefundsPending: seed%2 == 1, ReleaseAsRefund: seed%3 == 1})
		for _, kind := range []string{FaultErrorAfter, FaultStored500, FaultErrorBefore, FaultAlreadyDone, FaultWrongAmount} {
			if _, err := s.Inject(Fault{Kind: kind, Probability: 0.1}); err != nil {
				t.Fatal(err)
			}
		}
		r := rand.New(rand.NewPCG(seed, 99))
		for step := range 300 {
			before := s.Books().Movements
			act(s, r, step)
			after := s.Books().Movements
			if !slices.Equal(after[:len(before)], before) {
				t.Fatalf("seed %d step %d: a line was changed", seed, step)
			}
			if why := disagreement(s); why != "" {
				t.Fatalf("seed %d step %d: %s", seed, step, why)
			}
		}
		for kind, by := range s.Sums().Totals {
			all.add(kind, "EUR", by["EUR"])
		}
	}
	if len(all) != 7 {
		t.Fatalf("chance never moved some kind of money: %v", all)
	}
}

// act does one random thing, often a nonsensical one.
func act(s *Server, r *rand.Rand, step int) {
	call := func(path, form string) {
		req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
		req.Header.Set("Authorization", "Bearer "+testKey)
		req.Header.Set("Idempotency-Key", fmt.Sprintf("k%d", step-r.IntN(2)))
		s.ServeHTTP(httptest.NewRecorder(), req)
	}
	pick := func(n int) int { return r.IntN(n) }
	var in *intent
	if n := len(s.intents.rows); n > 0 {
		in = s.intents.rows[n-1-pick(min(n, 10))]
	}
	switch k := pick(10); {
	case in == nil || k < 3:
		call("/v1/payment_intents", []string{held, paid, paid}[pick(3)])
	case k < 5:
		call("/v1/payment_intents/"+in.id+"/capture", fmt.Sprintf("amount_to_capture=%d&final_capture=%v", 1+pick(4000), pick(2) == 0))
	case k == 5:
		call("/v1/payment_intents/"+in.id+"/cancel", "")
	case k < 8:
		call("/v1/refunds", fmt.Sprintf("amount=%d&payment_intent=%s", 1+pick(3000), in.id))
	case k == 8:
		_, _ = s.Trigger(Trigger{Type: []string{DisputeOpen, IntentExpire}[pick(2)], PaymentIntent: in.id, Inquiry: pick(2) == 0})
	default:
		if n := len(s.disputes.rows); n > 0 && pick(2) == 0 {
			type_ := []string{DisputeEscalate, DisputeReview, DisputeWin, DisputeLose, DisputeClose}[pick(5)]
			_, _ = s.Trigger(Trigger{Type: type_, Dispute: s.disputes.rows[pick(n)].id})
		} else if n := len(s.refunds.rows); n > 0 {
			type_ := []string{RefundSucceed, RefundFail, RefundCancel}[pick(3)]
			_, _ = s.Trigger(Trigger{Type: type_, Refund: s.refunds.rows[pick(n)].id})
		}
	}
}

// disagreement compares three accounts of the same money.
func disagreement(s *Server) string {
	want, balance := Sums{}, int64(0)
	for _, ch := range s.charges.rows {
		want.add(Authorized, "EUR", ch.amount)
		want.add(Captured, "EUR", ch.captured)
		want.add(Released, "EUR", ch.released)
		if ch.captured+ch.released+ch.intent.capturable != ch.amount {
			return fmt.Sprintf("%s: %d held, %d captured, %d released, %d capturable", ch.id, ch.amount, ch.captured, ch.released, ch.intent.capturable)
		}
		if ch.refunded < 0 || ch.refunded > ch.captured {
			return fmt.Sprintf("%s: %d refunded of %d", ch.id, ch.refunded, ch.captured)
		}
	}
	for _, re := range s.refunds.rows {
		if re.txn != "" {
			want.add(Refunded, "EUR", re.amount)
		}
		if re.failureTxn != "" {
			want.add(RefundFailed, "EUR", re.amount)
		}
	}
	for _, d := range s.disputes.rows {
		if len(d.txns) > 0 {
			want.add(DisputeWithdrawn, "EUR", d.amount)
		}
		if d.status == disputeWon {
			want.add(DisputeReinstated, "EUR", d.amount)
		}
	}
	for _, tx := range s.txns.rows {
		balance += tx.amount
	}
	got := s.Sums()
	for _, kind := range []string{Authorized, Captured, Released, Refunded, RefundFailed, DisputeWithdrawn, DisputeReinstated} {
		if got.Totals[kind]["EUR"] != want[kind]["EUR"] {
			return fmt.Sprintf("%s: books %d, objects %d", kind, got.Totals[kind]["EUR"], want[kind]["EUR"])
		}
	}
	if net := got.Net["captured"]["EUR"] - got.Net["refunded"]["EUR"] - got.Net["disputed"]["EUR"]; net != balance {
		return fmt.Sprintf("net %d, balance %d", net, balance)
	}
	return ""
}

func TestIdsAreShapedAndSeeded(t *testing.T) {
	first := func(seed uint64) []string {
		w := newWorld(t, Config{Seed: seed})
		in := w.pay(paid)
		re := w.ok(w.post("/v1/refunds", "amount=1&payment_intent="+in.str("id")))
		d := w.trigger(Trigger{Type: DisputeOpen, PaymentIntent: in.str("id")})
		cs := w.trigger(Trigger{Type: SessionComplete, PaymentIntent: in.str("id")})
		inv := w.trigger(Trigger{Type: InvoicePay, PaymentIntent: in.str("id")})
		return []string{in.str("id"), in.str("latest_charge"), re.str("id"), d.Object, d.Events[0], cs.Object, inv.Object, re.str("balance_transaction")}
	}
	one := first(1)
	for i, prefix := range []string{"pi_", "ch_", "re_", "dp_", "evt_", "cs_test_", "in_", "txn_"} {
		if !strings.HasPrefix(one[i], prefix) || len(one[i]) != len(prefix)+idChars {
			t.Errorf("%s for %s", one[i], prefix)
		}
	}
	if !slices.Equal(one, first(1)) || slices.Equal(one, first(2)) {
		t.Fatal("ids do not follow the seed")
	}
}

package simulator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

// TestFaults plays each fault on a refund: what the caller sees, what the books
// say, and what the same key brings afterwards.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		kind     string
		delay    int
		lost     bool // no complete answer
		status   int
		code     string
		moved    bool
		after    int  // status of the same key without a fault
		replayed bool // is it a replay
	}{
		{kind: FaultDropAnswer, lost: true, moved: true, after: 200, replayed: true},
		{kind: FaultErrorBefore, status: 500, after: 200},
		{kind: FaultErrorAfter, status: 500, moved: true, after: 500, replayed: true},
		{kind: FaultHang, delay: 1, lost: true, after: 200},
		{kind: FaultHangAfter, delay: 1, lost: true, moved: true, after: 200, replayed: true},
		{kind: FaultLate, delay: 1, status: 200, moved: true, after: 200, replayed: true},
		{kind: FaultDelay, delay: 1, status: 200, moved: true, after: 200, replayed: true},
		{kind: FaultReset, lost: true, moved: true, after: 200, replayed: true},
		{kind: FaultSlow, delay: 1, status: 200, moved: true, after: 200, replayed: true},
		{kind: FaultTruncated, lost: true, moved: true, after: 200, replayed: true},
		{kind: FaultKeyInUse, status: 409, code: codeKeyInUse, after: 200},
		{kind: FaultRateLimited, status: 429, code: "rate_limit", after: 200},
		{kind: FaultLockTimeout, status: 429, code: "lock_timeout", after: 200},
		{kind: FaultUnauthorized, status: 401, after: 200},
		{kind: FaultStored400, status: 400, after: 400, replayed: true},
		{kind: FaultStored500, status: 500, after: 500, replayed: true},
		{kind: FaultAlreadyDone, status: 400, code: codeAlreadyRefunded, moved: true, after: 400, replayed: true},
		{kind: FaultWrongAmount, status: 200, moved: true, after: 200, replayed: true},
	} {
		t.Run(c.kind, func(t *testing.T) {
			w := newWorld(t, Config{})
			form := "amount=1000&payment_intent=" + w.pay(paid).str("id")
			id := w.inject(Fault{Kind: c.kind, Path: "/v1/refunds", Times: 1, DelayMS: c.delay, RetryAfter: 7})
			a, err := w.try(t.Context(), http.MethodPost, "/v1/refunds", form, "Idempotency-Key", "k1")
			if (err != nil) != c.lost {
				t.Fatalf("answer %q, error %v", a.raw, err)
			}
			if !c.lost && a.status != c.status {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			if e, ok := a.body["error"].(object); ok && c.code != "" && e["code"] != c.code {
				t.Fatal(a.raw)
			}
			if moved := w.total(Refunded) == 1000; moved != c.moved {
				t.Fatalf("moved %v: %+v", moved, w.s.Sums())
			}
			switch c.kind {
			case FaultRateLimited:
				if a.header.Get("Retry-After") != "7" {
					t.Fatal(a.header)
				}
			case FaultWrongAmount:
				if a.num("amount") != 1001 {
					t.Fatal(a.raw)
				}
			case FaultTruncated:
				if a.status != 200 || a.raw == "" {
					t.Fatal("truncated JSON comes in a whole answer", a.raw)
				}
			}
			if f := w.s.Faults(); len(f) != 1 || f[0].ID != id || f[0].Hits != 1 {
				t.Fatalf("%+v", f)
			}
			again := w.post("/v1/refunds", form, "Idempotency-Key", "k1")
			if again.status != c.after || (again.header.Get("Idempotent-Replayed") == "true") != c.replayed {
				t.Fatalf("%d %s %v", again.status, again.raw, again.header)
			}
			if c.kind == FaultWrongAmount && again.num("amount") != 1000 {
				t.Fatal("the stored answer is the right one", again.raw)
			}
			if got := w.total(Refunded); c.after == 200 && got != 1000 || got > 1000 {
				t.Fatalf("refunded %d", got)
			}
		})
	}
}

// R4.4: absence proves nothing while a request may still be executed.
func TestLateExecution(t *testing.T) {
	w := newWorld(t, Config{})
	in := w.pay(paid)
	w.inject(Fault{Kind: FaultLate, Path: "/v1/refunds", Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/refunds", "payment_intent="+in.str("id"), "Idempotency-Key", "k1")
		gone <- err
	}()
	limit, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := w.s.WaitHeld(limit, 1); err != nil {
		t.Fatal(err)
	}
	cancel() // the caller gives up
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if list := w.get("/v1/refunds?payment_intent=" + in.str("id")); len(list.rows()) != 0 {
		t.Fatal(list.raw)
	}
	w.refusal(w.post("/v1/refunds", "payment_intent="+in.str("id"), "Idempotency-Key", "k1"), 409, typeIdempotency, codeKeyInUse)
	if n := w.s.Release(); n != 1 {
		t.Fatalf("%d held", n)
	}
	// Whatever comes first, this request or the late one, one refund is made.
	for {
		a := w.post("/v1/refunds", "payment_intent="+in.str("id"), "Idempotency-Key", "k1")
		if a.status == http.StatusConflict {
			continue
		}
		if w.ok(a).header.Get("Idempotent-Replayed") != "true" || w.total(Refunded) != 4800 {
			t.Fatal(a.raw)
		}
		return
	}
}

func TestWhichRequestsAFaultStrikes(t *testing.T) {
	w := newWorld(t, Config{Seed: 3})
	retry := false
	w.inject(Fault{Kind: FaultErrorBefore, Method: "POST", Path: "/v1/payment_intents/*/capture", Times: 2, Skip: 1, ShouldRetry: &retry})
	in := w.pay(held)
	w.ok(w.get("/v1/payment_intents/" + in.str("id")))
	path := "/v1/payment_intents/" + in.str("id") + "/capture"
	w.ok(w.post(path, "amount_to_capture=1&final_capture=false"))
	for range 2 {
		if a := w.post(path, ""); a.status != 500 || a.header.Get("Stripe-Should-Retry") != "false" {
			t.Fatal(a.raw, a.header)
		}
	}
	w.ok(w.post(path, ""))
	if a := w.get("/v1/account", "Simulator-Fault", FaultErrorBefore); a.status != 500 {
		t.Fatal("a request brings its own fault", a.raw)
	}
	w.inject(Fault{Kind: FaultAlreadyDone})
	w.pay(paid) // what makes something new cannot have been done before
}

func TestChanceIsSeeded(t *testing.T) {
	pattern := func(seed uint64) string {
		w := newWorld(t, Config{Seed: seed})
		w.inject(Fault{Kind: FaultErrorBefore, Probability: 0.5})
		out := ""
		for range 64 {
			if w.get("/v1/account").status == 500 {
				out += "x"
			} else {
				out += "."
			}
		}
		return out
	}
	one := pattern(1)
	if one != pattern(1) {
		t.Fatal("one seed, two outcomes")
	}
	if other := pattern(2); one == other {
		t.Fatal("two seeds, one outcome: " + other)
	}
}

func TestFaultsThatCannotBe(t *testing.T) {
	w := newWorld(t, Config{})
	for _, f := range []Fault{
		{Kind: "nonsense"}, {Kind: FaultHang, Probability: 1.5}, {Kind: FaultHang, Times: -1},
		{Kind: FaultHang, Path: "["}, {Kind: FaultDuplicate, Copies: 101},
	} {
		if _, err := w.s.Inject(f); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	id := w.inject(Fault{Kind: FaultErrorBefore})
	if err := w.s.ClearFaults("flt_99"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := w.s.ClearFaults(id); err != nil || len(w.s.Faults()) != 0 {
		t.Fatal(err)
	}
	w.ok(w.get("/v1/account"))
	for range faultsMax {
		w.inject(Fault{Kind: FaultDelay, Path: "/nowhere"})
	}
	if _, err := w.s.Inject(Fault{Kind: FaultDelay}); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if err := w.s.ClearFaults(""); err != nil || len(w.s.Faults()) != 0 {
		t.Fatal(err)
	}
}

func TestHangEndsWithTheCaller(t *testing.T) {
	w := newWorld(t, Config{})
	w.inject(Fault{Kind: FaultHang, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/payment_intents", paid)
		done <- err
	}()
	limit, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := w.s.WaitHeld(limit, 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("an answer from a hanging request")
	}
	if w.total(Captured) != 0 {
		t.Fatal("executed")
	}
	if d := (&Fault{}).delay(time.Second); d != time.Second {
		t.Fatal(d)
	}
}

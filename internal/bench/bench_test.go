package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// The load is what the goals say: events of about 3 KB that verify, and that
// capture the payment that was registered.
func TestEvents(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	for _, n := range []int{0, 7, 999_999} {
		raw := request("evt_1", n, now)
		r, body, _ := strings.Cut(string(raw), "\r\n\r\n")
		if len(body) < 2800 || len(body) > 3900 {
			t.Errorf("payment %d: body of %d bytes", n, len(body))
		}
		_, signature, _ := strings.Cut(r, "Stripe-Signature: ")
		signature, _, _ = strings.Cut(signature, "\r\n")
		d := &provider.Delivery{Header: http.Header{"Stripe-Signature": {signature}}, Body: []byte(body), ReceivedAt: now}
		if _, err := (stripe.Adapter{}).Verify(&account, d); err != nil {
			t.Error(err)
		}
		e, err := stripe.Adapter{}.Parse(&account, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		captured := payment.Money{}
		for _, f := range e.Facts {
			if f.Kind == payment.KindCapture && f.Object == intentID(n) {
				captured = f.Amount
			}
		}
		if want := (payment.Money{Value: amount, Currency: currency}); captured != want || e.Order != orderID(n) {
			t.Errorf("payment %d: captures %v for order %q", n, captured, e.Order)
		}
	}
}

func TestStormKeepsEveryCopy(t *testing.T) {
	seen := map[string]int{}
	for _, raw := range stormed("x", 500, time.Unix(1_790_000_000, 0)) {
		seen[string(raw)]++
	}
	if len(seen) != 50 {
		t.Errorf("%d events, not 50", len(seen))
	}
	for raw, n := range seen {
		if n != copiesEach {
			t.Errorf("%d copies of %.60s", n, raw)
		}
	}
}

// A refusal is no acknowledgement, however fast it comes.
func TestLoadCountsNothingButSuccess(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(s.Close)
	requests := deliveries("x", 20, 0, time.Unix(1_790_000_000, 0))
	address := strings.TrimPrefix(s.URL, "http://")
	got, err := load(t.Context(), address, 4, requests)
	if err != nil || got.count != 20 || got.p50 > got.p99 || got.elapsed <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
	status = http.StatusServiceUnavailable
	if _, err := load(t.Context(), address, 4, requests); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := load(ended, address, 4, requests); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal  goal
		ratio float64
		holds bool
	}{
		{goal{must: 5}, 5, true},
		{goal{must: 5}, 4.99, false},
		{goal{must: 0.4, most: true}, 0.4, true},
		{goal{must: 0.4, most: true}, 0.41, false},
	} {
		if got := c.goal.holds(c.ratio); got != c.holds {
			t.Errorf("%+v at %v: %v", c.goal, c.ratio, got)
		}
	}
	for values, want := range map[[4]float64]float64{{4, 1, 3, 2}: 2.5, {1, 1, 9, 9}: 5} {
		if got := median(values[:]); got != want {
			t.Errorf("median of %v is %v", values, got)
		}
	}
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median is %v", got)
	}
	for ratio, want := range map[float64]float64{0: 0, 0.123456: 0.123, 6.1049: 6.1, 73.26: 73.3, 151: 151} {
		if got := rounded(ratio); got != want {
			t.Errorf("%v is rounded to %v", ratio, got)
		}
	}
}

func TestProcessFigures(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Fatal("the benchmarks read Linux's /proc: ", err)
	}
	s, err := readStat(os.Getpid())
	if err != nil || s.parent != os.Getppid() {
		t.Errorf("%+v, %v", s, err)
	}
	now, err := memory(os.Getpid(), "VmRSS")
	if err != nil || now <= 1 {
		t.Errorf("%v MiB, %v", now, err)
	}
	peak, err := memory(os.Getpid(), "VmHWM")
	if err != nil || peak < 1 {
		t.Errorf("at most %v MiB, %v", peak, err)
	}
}

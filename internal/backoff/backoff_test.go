package backoff

import (
	"math"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func fixed(f float64) func() float64 { return func() float64 { return f } }

// R3.4, R6.1: waits grow exponentially to a cap and are random over their range.
func TestDelay(t *testing.T) {
	p := Policy{Base: time.Second, Cap: 10 * time.Second, Attempts: 5}
	for _, c := range []struct {
		policy  Policy
		attempt int
		random  float64
		want    time.Duration
	}{
		{p, 1, 0, 0},
		{p, 1, 0.5, 500 * time.Millisecond},
		{p, 2, 0.5, time.Second},
		{p, 3, 0.5, 2 * time.Second},
		{p, 4, 0.5, 4 * time.Second},
		{p, 5, 0.5, 5 * time.Second},
		{p, 1000, 0.5, 5 * time.Second},
		{p, 0, 0.5, 500 * time.Millisecond},
		{Policy{Base: 10 * time.Second, Factor: 5, Cap: time.Hour}, 4, 0.5, 625 * time.Second},
		{Policy{Base: time.Second}, 500, 0, 0},
		{Policy{Base: time.Minute, Cap: time.Second}, 1, 0.5, 500 * time.Millisecond},
		{Policy{}, 3, 0.5, 0},
	} {
		if got := c.policy.Delay(c.attempt, fixed(c.random)); got != c.want {
			t.Errorf("%+v: delay after %d at %v: %s, want %s", c.policy, c.attempt, c.random, got, c.want)
		}
	}
	if got := (Policy{Base: time.Second}).Bound(500); got != math.MaxInt64 {
		t.Errorf("a bound without a cap is %s after 500 attempts", got)
	}
}

func TestDelayStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:   time.Duration(rapid.Int64Min(0).Draw(t, "base")),
			Cap:    time.Duration(rapid.Int64Min(1).Draw(t, "cap")),
			Factor: rapid.IntRange(0, 100).Draw(t, "factor"),
		}
		attempt := rapid.IntRange(1, 200).Draw(t, "attempt")
		random := fixed(rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random"))
		if d := p.Delay(attempt, random); d < 0 || d > p.Cap {
			t.Fatalf("%s is outside of 0 to %s", d, p.Cap)
		}
		if p.Bound(attempt) > p.Bound(attempt+1) {
			t.Fatalf("the bound falls from %s to %s", p.Bound(attempt), p.Bound(attempt+1))
		}
	})
}

// What was told to come back after the same pause does not come at one instant.
func TestDelayAfter(t *testing.T) {
	p := Policy{Base: time.Second, Cap: time.Hour, Attempts: 5}
	for _, c := range []struct {
		pause, longest time.Duration
		random         float64
		want           time.Duration
	}{
		{time.Minute, time.Hour, 0, time.Minute},
		{time.Minute, time.Hour, 0.5, time.Minute + 500*time.Millisecond},
		{24 * time.Hour, time.Hour, 0, time.Hour},
		{24 * time.Hour, time.Hour, 0.5, time.Hour + 500*time.Millisecond},
		{5 * time.Second, 5 * time.Second, 0.5, 5*time.Second + 250*time.Millisecond},
		{-time.Minute, time.Hour, 0, 0},
	} {
		if got := p.DelayAfter(1, c.pause, c.longest, fixed(c.random)); got != c.want {
			t.Errorf("pause %s of at most %s: %s, want %s", c.pause, c.longest, got, c.want)
		}
	}
}

func TestExhausted(t *testing.T) {
	p := Policy{Attempts: 5}
	if p.Exhausted(4) || !p.Exhausted(5) || !p.Exhausted(6) || !(Policy{}).Exhausted(1) {
		t.Error("five attempts are not five")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"", 0, false},
		{"120", 2 * time.Minute, true},
		{"0", 0, true},
		{"-1", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"18446744073709551615", math.MaxInt64 / time.Second * time.Second, true},
		{"99999999999999999999", 0, false},
		{"Sun, 01 Mar 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", 0, true},
	} {
		h := http.Header{}
		if c.value != "" {
			h.Set("Retry-After", c.value)
		}
		if got, ok := RetryAfter(h, now); got != c.want || ok != c.ok {
			t.Errorf("%q: %s, %t, want %s, %t", c.value, got, ok, c.want, c.ok)
		}
	}
}

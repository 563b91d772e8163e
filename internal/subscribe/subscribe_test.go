package subscribe

import (
	"slices"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, messageType string
		want                 bool
	}{
		{"*", "order.fulfill", true},
		{"*", "eventual.thing", true},
		{"*", "event.charge.refunded", false},
		{"event.*", "event.charge.refunded", true},
		{"event.charge.*", "event.charge.refunded", true},
		{"event.charge.*", "event.charge", false},
		{"event.charge.*", "event.charges.refunded", false},
		{"event.*", "order.fulfill", false},
		{"refund.*", "refund.succeeded", true},
		{"refund.*", "refund.", false},
		{"refund.*", "refund", false},
		{"refund.*", "refunds.succeeded", false},
		{"order.fulfill", "order.fulfill", true},
		{"order.fulfill", "order.fulfilled", false},
		{"order.fulfill", "Order.fulfill", false},
		{"", "", true},
	} {
		if got := Matches(c.pattern, c.messageType); got != c.want {
			t.Errorf("%q for %q: %t, want %t", c.pattern, c.messageType, got, c.want)
		}
	}
}

func TestDestinations(t *testing.T) {
	types := map[string][]string{
		"shop":  {"*"},
		"books": {"refund.*", "refund.failed", "payment.captured"},
		"old":   {"event.*"},
		"none":  nil,
	}
	s := NewSet(types)
	types["shop"][0] = "nothing"
	for _, c := range []struct {
		messageType string
		want        []string
	}{
		{"order.fulfill", []string{"shop"}},
		{"refund.failed", []string{"books", "shop"}},
		{"payment.captured", []string{"books", "shop"}},
		{"event.payment_intent.succeeded", []string{"old"}},
	} {
		if got := s.Destinations(c.messageType); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.messageType, got, c.want)
		}
	}
	if got := (Set{}).Destinations("order.fulfill"); len(got) != 0 {
		t.Errorf("nobody subscribes, and %q hear", got)
	}
}

func TestCheckPattern(t *testing.T) {
	for _, good := range []string{"*", "event.*", "event.payment_intent.*", "order.fulfill", "ping", "event.AUTHORISATION"} {
		if err := CheckPattern(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".*", "**", "refund*", "refund.*.x", "a..b", ".a", "a.", "a b", "ä.b", strings.Repeat("a", 129)} {
		if CheckPattern(bad) == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

package stripe_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// R1.2, R1.3: account, event and payment stay apart: an event id is an event only
// together with the account that it belongs to, and the mode is the event's own.
func TestScope(t *testing.T) {
	base := event("charge.failed", charge+`"status":"failed"`)
	with := func(old, new string) string { return strings.Replace(base, old, new, 1) }
	for _, c := range []struct {
		name, payload, identity, connected string
		mode                               provider.Mode
	}{
		{"own", base, "evt_1", "", provider.Live},
		{"own by name", with(`"object":"event"`, `"object":"event","account":"acct_mine"`), "evt_1", "", provider.Live},
		{"null account", with(`"object":"event"`, `"object":"event","account":null`), "evt_1", "", provider.Live},
		{"connected", with(`"object":"event"`, `"object":"event","account":"acct_x"`), "acct_x:evt_1", "acct_x", provider.Live},
		{"context names no account", with(`"object":"event"`, `"object":"event","context":"acct_x"`), "evt_1", "", provider.Live},
		{"test", with(`"livemode":true`, `"livemode":false`), "evt_1", "", provider.Test},
		{"no word of what it is", with(`"object":"event",`, ``), "evt_1", "", provider.Live},
	} {
		ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(c.payload))
		if err != nil || ev.Identity != c.identity || ev.Connected != c.connected || ev.Mode != c.mode ||
			ev.ProviderEventID != "evt_1" || ev.Lane != "pi" {
			t.Errorf("%s: %+v, %v", c.name, ev, err)
		}
	}
	acc := testAccount()
	acc.ProviderAccount = ""
	ev, err := stripe.Adapter{}.Parse(acc, []byte(with(`"object":"event"`, `"object":"event","account":"acct_mine"`)))
	if err != nil || ev.Connected != "acct_mine" {
		t.Errorf("an account that does not know its own name: %+v, %v", ev, err)
	}
}

// R6.2: Thin events are kept with their identity and what they refer to, without
// facts; one about a payment is for a person, since nothing else tells of it.
func TestThin(t *testing.T) {
	thin := func(rest string) string {
		return `{"id":"evt_1","object":"v2.core.event","type":"v1.charge.succeeded","created":"2026-02-25T06:13:20Z"` + rest + `}`
	}
	for _, c := range []struct {
		name, payload, identity string
		names                   []string
		mode                    provider.Mode
	}{
		{"bare", thin(""), "evt_1", nil, provider.Live},
		{"of an account", thin(`,"context":"acct_x"`), "acct_x:evt_1", nil, provider.Live},
		{"of our own", thin(`,"context":"acct_mine"`), "evt_1", nil, provider.Live},
		{"about a charge", thin(`,"livemode":false,"related_object":{"id":"ch_1","type":"charge"}`), "evt_1", []string{"ch_1"}, provider.Test},
		{"about a customer", thin(`,"related_object":{"id":"cus_1","type":"customer"}`), "evt_1", nil, provider.Live},
		{"about nothing", thin(`,"related_object":[]`), "evt_1", nil, provider.Live},
	} {
		ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(c.payload))
		if errors.Is(err, provider.ErrMalformed) != (c.names != nil) || !ev.Thin || ev.Identity != c.identity || !slices.Equal(ev.Names, c.names) || ev.Mode != c.mode ||
			len(ev.Facts) != 0 || ev.OccurredAt.Unix() != 1772000000 {
			t.Errorf("%s: %+v, %v", c.name, ev, err)
		}
	}
	if _, err := (stripe.Adapter{}).Parse(testAccount(), []byte(strings.Replace(thin(""), "T06", " 06", 1))); !errors.Is(err, provider.ErrMalformed) {
		t.Errorf("an instant that is none: %v", err)
	}
}

// R1.5 (the adapter's part): references come from metadata and from the session,
// and only what carries ours or the account's prefix is ours.
func TestReferences(t *testing.T) {
	meta := func(pairs string) string { return event("charge.failed", charge+`"status":"failed","metadata":`+pairs) }
	session := func(reference string) string {
		return event("checkout.session.completed", cart+`"payment_status":"unpaid","client_reference_id":`+reference)
	}
	for _, c := range []struct {
		name, payload, key, prefix string
		order, payment, operation  string
		ours                       bool
		names                      string
	}{
		{"none", meta(`{}`), "", "", "", "", "", false, "ch pi"},
		{"null", meta(`null`), "", "", "", "", "", false, "ch pi"},
		{"a list", meta(`[]`), "", "", "", "", "", false, "ch pi"},
		{"order under the usual key", meta(`{"order_id":"o-1"}`), "", "", "o-1", "", "", true, "ch pi"},
		{"order under the account's key", meta(`{"order_id":"o-1","cart":"c-1"}`), "cart", "", "c-1", "", "", true, "ch pi"},
		{"order that is a number", meta(`{"order_id":7}`), "", "", "", "", "", false, "ch pi"},
		{"order with a line break", meta(`{"order_id":"a\nb"}`), "", "", "", "", "", false, "ch pi"},
		{"order in another script", meta(`{"order_id":"pedido-ñ"}`), "", "", "pedido-ñ", "", "", true, "ch pi"},
		{"order without end", meta(`{"order_id":"` + strings.Repeat("x", 256) + `"}`), "", "", "", "", "", false, "ch pi"},
		{"our ids", meta(`{"unavez_payment":"pay_1","unavez_operation":"op_1"}`), "", "", "", "pay_1", "op_1", true, "ch pi"},
		{"session's reference", session(`"cart-1"`), "", "", "", "", "", false, "cs pi cart-1"},
		{"session's own reference", session(`"shop-1"`), "", "shop-", "", "", "", true, "cs pi shop-1"},
		{"somebody else's reference", session(`"user-1"`), "", "shop-", "", "", "", false, "cs pi"},
		{"no reference", session(`null`), "", "", "", "", "", false, "cs pi"},
		{"a customer's order", event("customer.updated", `"id":"cus_1","object":"customer","metadata":{"order_id":"o-1"}`), "", "", "", "", "", false, ""},
	} {
		acc := testAccount()
		acc.OrderMetadata, acc.EventPrefix = c.key, c.prefix
		ev, err := stripe.Adapter{}.Parse(acc, []byte(c.payload))
		if err != nil || ev.Order != c.order || ev.Payment != c.payment || ev.Operation != c.operation || ev.Ours != c.ours ||
			strings.Join(ev.Names, " ") != c.names {
			t.Errorf("%s: %+v, %v", c.name, ev, err)
		}
	}
}

// Names are ids of this one payment: no customer, method, transaction or application.
func TestNamesAreOfThePayment(t *testing.T) {
	for name, raw := range raws(t) {
		ev, err := stripe.Adapter{}.Parse(testAccount(), raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, id := range ev.Names {
			for _, foreign := range []string{"cus_", "pm_", "txn_", "sub_", "acct_", "req_", "evt_", "ca_"} {
				if strings.HasPrefix(id, foreign) {
					t.Errorf("%s names %s", name, id)
				}
			}
		}
	}
}

// What a payload nests is bounded.
func TestBoundedNesting(t *testing.T) {
	list := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, `{"id":"ch_`+strconv.Itoa(i)+`","object":"charge","payment_intent":"pi","status":"failed"}`)
		}
		return event("payment_intent.created", intent+`"status":"processing","charges":{"data":[`+strings.Join(parts, ",")+`]}`)
	}
	if ev, err := (stripe.Adapter{}).Parse(testAccount(), []byte(list(255))); err != nil || len(ev.Names) != 256 {
		t.Errorf("at the bound: %d names, %v", len(ev.Names), err)
	}
	if ev, err := (stripe.Adapter{}).Parse(testAccount(), []byte(list(256))); !errors.Is(err, provider.ErrMalformed) || ev.Identity != "evt_1" {
		t.Errorf("beyond the bound: %v", err)
	}
	deep := event("charge.failed", strings.Repeat(`"a":{`, 20000)+strings.Repeat("}", 20000))
	if ev, err := (stripe.Adapter{}).Parse(testAccount(), []byte(deep)); !errors.Is(err, provider.ErrMalformed) || ev.Identity != "evt_1" {
		t.Errorf("20,000 objects deep: %v", err)
	}
}

package stripe_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/providertest"
	"github.com/unavez/unavez/provider/stripe"
)

// identities of the payloads in testdata whose id alone is not the identity.
var scoped = map[string]string{
	"connected": "acct_other:evt_1Q29", "thin": "acct_other:evt_test_65QThin", "vector": "acct_123:evt_123",
}

// R1.1, R1.2, R1.3, R1.4, R2.3, R2.8: the adapter keeps what holds of every adapter.
func TestConformance(t *testing.T) {
	suite := providertest.Suite{
		Adapter: stripe.Adapter{},
		Account: testAccount,
		Deliver: func(_ *provider.Account, secret provider.Secret, payload []byte, at time.Time) *provider.Delivery {
			return delivery(payload, at, stripe.Sign(payload, at, secret))
		},
		Vectors:   vectors(t),
		Malformed: malformed(t),
	}
	for name, raw := range raws(t) {
		identity := scoped[name]
		if identity == "" {
			_, rest, _ := bytes.Cut(raw, []byte(`"id": "`))
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			identity = string(id)
		}
		suite.Payloads = append(suite.Payloads, providertest.Payload{Name: name, Bytes: raw, Identity: identity})
	}
	providertest.Run(t, suite)
}

// malformed are payloads of which only some identity can be read.
func malformed(t *testing.T) []providertest.Malformed {
	good := string(raws(t)["charge_refunded"])
	const id = "evt_1Q11"
	change := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the payload does not contain %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	long := strings.Repeat("x", 300)
	var out []providertest.Malformed
	for _, c := range []struct{ name, payload, identity string }{
		{"white space", " \n", ""},
		{"an array", "[" + good + "]", ""},
		{"two values", good + "{}", id},
		{"cut off", good[:len(good)/2], id},
		{"a byte order mark", "\ufeff" + good, ""},
		{"a name twice in the charge", change(`"amount": 4800,`, `"amount": 4800, "amount": 4800,`), id},
		{"a name twice in metadata", change(`"order_id": "ord-7"`, `"order_id": "ord-7", "order_id": "ord-8"`), id},
		{"bytes that are not UTF-8", change("ord-7", "ord-\xff"), id},
		{"half a surrogate pair", change("ord-7", `ord-\ud800`), id},
		{"the id twice, differing", change(`"object": "event",`, `"object": "event", "id": "evt_other",`), ""},
		{"the id twice, the same", change(`"object": "event",`, `"object": "event", "id": "`+id+`",`), id},
		{"no id", change(`"id": "`+id+`",`, ""), ""},
		{"a number as id", change(`"`+id+`"`, "7"), ""},
		{"an empty id", change(id, ""), ""},
		{"an id with NUL", change(id, `evt\u0000`), ""},
		{"an id with a space", change(id, "evt 1"), ""},
		{"an id without end", change(id, long), ""},
		{"another object", change(`"object": "event"`, `"object": "list"`), id},
		{"no type", change(`"type": "charge.refunded"`, `"type": null`), id},
		{"a type without end", change("charge.refunded", long), id},
		{"livemode in quotes", change(`"livemode": true,
  "pending`, `"livemode": "false",
  "pending`), id},
		{"no livemode", change(`"livemode": true,
  "pending`, `"pending`), id},
		{"a number as account", change(`"object": "event",`, `"object": "event", "account": 5,`), ""},
		{"of a connected account, without type", change(`"type": "charge.refunded"`, `"account": "acct_x"`), "acct_x:" + id},
		{"created in quotes", change(`"created": 1772000011`, `"created": "1772000011"`), id},
		{"created beyond all calendars", change(`"created": 1772000011`, `"created": 253402300800`), id},
		{"no data", change(`"data": {`, `"date": {`), id},
		{"null data", `{"id":"evt_1","object":"event","type":"charge.succeeded","livemode":true,"data":null}`, "evt_1"},
		{"a null object", `{"id":"evt_1","object":"event","type":"charge.succeeded","livemode":true,"data":{"object":null}}`, "evt_1"},
		{"data that is a list", `{"id":"evt_1","object":"event","type":"charge.succeeded","livemode":true,"data":[]}`, "evt_1"},
		{"a customer as a charge", change(`"object": "charge"`, `"object": "customer"`), id},
		{"a charge without id", change(`"id": "ch_3A",`, ""), id},
		{"a charge whose id is empty", change(`"id": "ch_3A"`, `"id": ""`), id},
		{"an intent that is a number", change(`"payment_intent": "pi_3A"`, `"payment_intent": 3`), id},
		{"an intent with a control character", change(`"payment_intent": "pi_3A"`, `"payment_intent": "pi\u0001"`), id},
		{"an expanded intent without id", change(`"payment_intent": "pi_3A"`, `"payment_intent": {"object":"payment_intent"}`), id},
		{"no currency", change(`"currency": "eur",`, ""), id},
		{"a currency that does not exist", change(`"eur"`, `"xqz"`), id},
		{"a currency of four letters", change(`"eur"`, `"euro"`), id},
		{"a status that is a number", change(`"status": "succeeded"`, `"status": 1`), id},
	} {
		out = append(out, providertest.Malformed{Name: c.name, Bytes: []byte(c.payload), Identity: c.identity})
	}
	return out
}

// R1.1: the page about the provider speaks of every event type of the contract.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/providers/stripe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range (stripe.Adapter{}).Contract().Events {
		if !strings.Contains(string(page), "`"+e.Type+"`") {
			t.Errorf("the page does not speak of %s", e.Type)
		}
	}
}

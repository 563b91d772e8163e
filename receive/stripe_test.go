package receive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
)

// R1.4, R1.3: Stripe's deliveries at the edge: verified over the bytes as they
// came, under any of the secrets, stored under Stripe's id with the header that
// proves them; one changed byte, however harmless to a JSON reader, is refused.
func TestStripe(t *testing.T) {
	e := newEdge(t, change{accounts: []receive.Account{{
		Account: provider.Account{
			Name: "stripe-es", Provider: "stripe", ProviderAccount: "acct_1", Mode: provider.Live,
			Secrets: []provider.Secret{oldSecret, newSecret},
		},
		Adapter: stripe.Adapter{},
	}}})
	body := `{"id":"evt_1","object":"event","api_version":"2024-06-20","created":1764583200,"livemode":true,` +
		`"type":"customer.updated","data":{"object":{"id":"cus_1","object":"customer","name":"Mañana \/ ñ"}}}` + "\n"
	sign := func(body string, at time.Time, secrets ...provider.Secret) string {
		return stripe.Sign([]byte(body), at, secrets...)
	}
	now := time.Now()
	for _, c := range []struct {
		name, body, header string
		status             int
	}{
		{"as signed", body, sign(body, now, newSecret), 200},
		{"while rotating", body, sign(body, now, "guess", oldSecret), 200},
		{"without the newline", strings.TrimSpace(body), sign(body, now, newSecret), 400},
		{"escaped otherwise", strings.Replace(body, `\/`, `/`, 1), sign(body, now, newSecret), 400},
		{"other secret", body, sign(body, now, "guess"), 400},
		{"too old", body, sign(body, now.Add(-time.Hour), newSecret), 400},
		{"from the future", body, sign(body, now.Add(time.Hour), newSecret), 400},
		{"no header", body, "", 400},
		{"empty, and signed", "", sign("", now, newSecret), 400},
		{"authentic, and cut off", body[:60], sign(body[:60], now, newSecret), 200},
	} {
		got := e.post(t, "stripe-es", c.body, "Stripe-Signature", c.header)
		if got.status != c.status {
			t.Errorf("%s: %d %q", c.name, got.status, got.body)
		}
	}
	e.stop(t)
	stored := e.stored(t)
	whole := stored["stripe-es/evt_1"]
	if whole.State != store.EntryReceived || whole.Type != "customer.updated" || len(stored) != 2 {
		t.Errorf("stored %+v", stored)
	}
	err := e.store.View(t.Context(), func(r store.Reader) error {
		b, err := r.Body(t.Context(), whole.ID)
		if string(b.Bytes) != body || !strings.Contains(string(b.Header), "Stripe-Signature") {
			t.Errorf("kept %q with %s", b.Bytes, b.Header)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

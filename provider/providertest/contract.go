package providertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// confidences are all that a statement may claim.
var confidences = []provider.Confidence{
	provider.Documented, provider.FromSource, provider.ThirdParty,
	provider.Recalled, provider.Inferred, provider.Uncertain,
}

// Contract: it is complete data that people can read, and says of each figure
// where and when it was read (R1.1).
func Contract(t *testing.T, s Suite) {
	c := s.Adapter.Contract()
	if c.Provider == "" || c.Title == "" || c.AcknowledgeWithin <= 0 || len(c.Identity) == 0 || slices.Contains(c.Identity, "") {
		t.Errorf("provider %q, title %q, budget %s, identity %q", c.Provider, c.Title, c.AcknowledgeWithin, c.Identity)
	}
	for name, st := range statements(c) {
		if strings.TrimSpace(st.Value) == "" || !slices.Contains(confidences, st.Confidence) || st.Source == "" {
			t.Errorf("%s: %+v", name, st)
		}
		if _, err := time.Parse(time.DateOnly, st.Read); err != nil {
			t.Errorf("%s: read on %q", name, st.Read)
		}
	}
	seen := map[string]bool{}
	for _, e := range c.Events {
		if e.Type == "" || e.Means == "" || e.Facts == "" || seen[e.Type] {
			t.Errorf("event %+v is incomplete or stands twice", e)
		}
		seen[e.Type] = true
	}
	if len(c.Events) == 0 {
		t.Error("no events")
	}
	text, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(text), `"provider":"`+c.Provider+`"`) {
		t.Errorf("as JSON: %v, %s", err, text)
	}
	c.Events[0].Type, c.Identity[0] = "changed", "changed"
	if again := s.Adapter.Contract(); again.Events[0].Type == "changed" || again.Identity[0] == "changed" {
		t.Error("a caller can change the contract")
	}
	if form := s.Adapter.CaptureSpeaks(s.Account()); form != payment.FormItem && form != payment.FormTotal {
		t.Errorf("captures speak in form %q", form)
	}
}

func statements(c *provider.Contract) map[string]provider.Statement {
	all := map[string]provider.Statement{
		"identity_note": c.IdentityNote, "account": c.Account, "payment": c.Payment, "signature": c.Signature,
		"ordering": c.Ordering, "retries": c.Retries, "manual_resend": c.ManualResend, "acknowledge": c.Acknowledge,
		"time_limit": c.TimeLimit, "batching": c.Batching, "second_events": c.SecondEvents,
		"missed_events": c.MissedEvents, "api_idempotency": c.APIIdempotency, "amounts": c.Amounts,
	}
	for _, d := range c.Details {
		all["details: "+d.Topic] = d.Statement
	}
	return all
}

// Acknowledgement: the answer is a success, and a body has a type.
func Acknowledgement(t *testing.T, s Suite) {
	a := s.Adapter.Acknowledgement()
	if a.Status < 200 || a.Status > 299 {
		t.Errorf("status %d", a.Status)
	}
	if (len(a.Body) > 0) != (a.ContentType != "") {
		t.Errorf("body %q of type %q", a.Body, a.ContentType)
	}
}

package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/provider"
)

// R1.1: a contract is data that leaves the program as readable JSON.
func TestContractAsJSON(t *testing.T) {
	c := provider.Contract{
		Provider: "p", TolerancePast: 5 * time.Minute, AcknowledgeWithin: 10 * time.Second,
		Ordering: provider.Statement{Value: "none", Confidence: provider.Documented, Read: "2026-12-01"},
		Details:  []provider.Detail{{Topic: "transport", Statement: provider.Statement{Value: "HTTPS"}}},
		Events:   []provider.EventType{{Type: "a.*", Means: "m", Facts: "f"}},
	}
	for _, v := range []any{c, &c} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"provider":"p"`, `"tolerance_past":"5m0s"`, `"tolerance_future":"0s"`, `"acknowledge_within":"10s"`,
			`"ordering":{"value":"none","confidence":"documented","read":"2026-12-01"}`,
			`"topic":"transport","value":"HTTPS"`, `"type":"a.*"`,
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s is missing in %s", want, text)
			}
		}
	}
}

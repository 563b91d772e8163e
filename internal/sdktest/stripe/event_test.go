package stripe_test

import (
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// R1.2, R1.3: Stripe's library reads the same id, type, account and mode out of
// each payload that the adapter's own tests are made of, and out of random ones.
func TestSameEnvelope(t *testing.T) {
	rng := source(t)
	payloads := map[string][]byte{}
	files, err := filepath.Glob("../../../provider/stripe/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d payloads, %v", len(files), err)
	}
	for _, file := range files {
		if payloads[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count(1000) {
		payloads[strconv.Itoa(i)] = payload(rng)
	}
	for name, body := range payloads {
		if name == "thin.json" {
			continue // theirs has another call for it, below
		}
		theirs, err := webhook.ConstructEventWithOptions(body, header(body, time.Now(), "s"), "s",
			webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ours, err := stripe.Adapter{}.Parse(&provider.Account{Mode: provider.Live}, body)
		if err != nil || ours.ProviderEventID != theirs.ID || ours.Type != string(theirs.Type) || ours.Connected != theirs.Account ||
			(ours.Mode == provider.Live) != theirs.Livemode || ours.OccurredAt.Unix() != theirs.Created {
			t.Errorf("%s: %+v, %v; theirs %s %s %q %t %d", name, ours, err, theirs.ID, theirs.Type, theirs.Account, theirs.Livemode, theirs.Created)
		}
	}
	thin := payloads["thin.json"]
	if _, err := webhook.ConstructEvent(thin, header(thin, time.Now(), "s"), "s"); err == nil {
		t.Error("theirs takes a thin event for an event")
	}
}

func header(body []byte, at time.Time, secret string) string {
	return "t=" + strconv.FormatInt(at.Unix(), 10) + ",v1=" + hex.EncodeToString(webhook.ComputeSignature(at, body, secret))
}

// R1.4: the differences to Stripe's library, each as it is explained.
func TestDifferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, body := time.Now(), []byte(`{"id":"evt_1"}`)
		good := header(body, now, "s")
		for _, c := range []struct {
			name, header, secret, body string
			ours                       error
		}{
			{"the future, a second beyond", header(body, now.Add(301*time.Second), "s"), "s", string(body), provider.ErrAge},
			{"an empty body", header(nil, now, "s"), "s", "", provider.ErrForm},
			{"an empty secret", header(body, now, ""), "", string(body), provider.ErrSignature},
			{"more than 32 signatures", good + strings.Repeat(",v1=00", 32), "s", string(body), provider.ErrSignature},
			{"a header of more than 8 KiB", good + ",x=" + strings.Repeat("y", 8<<10), "s", string(body), provider.ErrSignature},
		} {
			if err := webhook.ValidatePayload([]byte(c.body), c.header, c.secret); err != nil {
				t.Errorf("%s: theirs refuses: %v", c.name, err)
			}
			_, err := stripe.Adapter{}.Verify(&provider.Account{Secrets: []provider.Secret{provider.Secret(c.secret)}}, &provider.Delivery{
				Header: http.Header{"Stripe-Signature": {c.header}}, Body: []byte(c.body), ReceivedAt: now,
			})
			if !errors.Is(err, c.ours) {
				t.Errorf("%s: ours %v, want %v", c.name, err, c.ours)
			}
		}
	})
}

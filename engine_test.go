package unavez_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop records what it is told.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	told []told
}

type told struct {
	id, body, stripe string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, told{r.Header.Get("webhook-id"), string(body), r.Header.Get("Stripe-Signature")})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) ids(part string) map[string]told {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]told{}
	for _, m := range s.told {
		if strings.Contains(m.body, part) {
			found[m.id] = m
		}
	}
	return found
}

const endpointSecret = "whsec_endpoint"

// start runs an engine on the database and returns the URL of its ingress.
func start(t *testing.T, database string, s *shop, processing string) (*unavez.Engine, string) {
	t.Helper()
	ctx := context.Background()
	ledger, err := unavez.Open(ctx, database, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	if _, err := ledger.MigrateUp(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := unavez.New(ctx, ledger, unavez.Config{
		Accounts: []unavez.Account{{
			Name: "stripe-es", Provider: "stripe", Mode: provider.Test, Secrets: []provider.Secret{endpointSecret}, Processing: processing,
		}},
		Destinations: []unavez.Destination{
			{Name: "shop", URL: s.URL, Types: []string{"*"}, Secret: "a secret of the shop", AllowPrivate: true},
			{Name: "handler", URL: s.URL, Types: []string{"event.*"}, Secret: "a secret of the handler", AllowPrivate: true},
		},
	}, unavez.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e.Receiver)
	t.Cleanup(func() {
		server.Close()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return e, server.URL
}

// deliver posts an event as Stripe does and returns the status.
func deliver(t *testing.T, url, event string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/webhooks/stripe-es", strings.NewReader(event))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Stripe-Signature", stripe.Sign([]byte(event), time.Now(), endpointSecret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func succeeded(event, intent string) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","type":"payment_intent.succeeded","livemode":false,"created":%d,
		"data":{"object":{"id":%q,"object":"payment_intent","status":"succeeded","amount":4800,"amount_received":4800,
		"currency":"eur","latest_charge":"ch_%s","metadata":{"order_id":"A-1"}}}}`, event, time.Now().Unix(), intent, intent)
}

// R1.7, R1.8, R2.3, R3.1: the whole flow in one process, on both ledgers and in
// both ways of processing: a paid order is fulfilled once, however often and by
// whatever events the shop's provider says so.
func TestPaidOrderIsFulfilledOnce(t *testing.T) {
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		for _, processing := range []string{"async", "sync"} {
			t.Run(name+"/"+processing, func(t *testing.T) {
				s := newShop(t)
				e, url := start(t, database(t), s, processing)
				_, err := e.Applier.Register(t.Context(), apply.Registration{
					Order: "A-1", Account: "stripe-es", Amount: payment.Money{Value: 4800, Currency: "EUR"}, References: []string{"pi_1"},
				}, "shop")
				if err != nil {
					t.Fatal(err)
				}
				for _, event := range []string{succeeded("evt_1", "pi_1"), succeeded("evt_1", "pi_1"), succeeded("evt_2", "pi_1")} {
					if status := deliver(t, url, event); status != http.StatusOK {
						t.Fatalf("status %d", status)
					}
				}
				for range 3000 {
					if len(s.ids(`"type":"order.fulfill"`)) > 0 && len(s.ids(`"object":"event"`)) >= 2 {
						break
					}
					time.Sleep(10 * time.Millisecond) // the shop tells nobody
				}
				if n := len(s.ids(`"type":"order.fulfill"`)); n != 1 {
					t.Errorf("the shop was told %d times to fulfill", n)
				}
				passed := s.ids(`"object":"event"`)
				if len(passed) != 2 {
					t.Errorf("%d events were passed on, want 2", len(passed))
				}
				for _, m := range passed {
					if m.stripe == "" {
						t.Error("a passed-on event is not signed in the provider's scheme")
					}
				}
			})
		}
	}
}

package simulator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"

	sim "github.com/unavez/unavez/simulator"
)

const (
	key    = "sk_test_simulator"
	secret = "whsec_sdktest"
)

// patience is a bound for what must happen, never a measure of it.
const patience = 30 * time.Second

// world is a simulator, the official client towards it, and a receiver.
type world struct {
	t      *testing.T
	s      *sim.Server
	client *stripe.Client
	shop   *shop
}

// newWorld makes a client that never repeats by itself unless told to, and
// never reuses a connection, since Go's transport repeats on those.
func newWorld(t *testing.T, retries int64) *world {
	t.Helper()
	sh := &shop{}
	hook := httptest.NewServer(sh)
	t.Cleanup(hook.Close)
	s := sim.New(sim.Config{
		APIKey: key, WebhookURL: hook.URL, WebhookSecret: secret,
		RetryBase: time.Millisecond, RetryMax: 4 * time.Millisecond,
	})
	api := httptest.NewServer(s)
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
		api.Close()
	})
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(api.URL), MaxNetworkRetries: stripe.Int64(retries), EnableTelemetry: stripe.Bool(false),
		HTTPClient:    &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}},
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	backends.API.(*stripe.BackendImplementation).SetNetworkRetriesSleep(false)
	return &world{t: t, s: s, shop: sh, client: stripe.NewClient(key, stripe.WithBackends(backends))}
}

func (w *world) drain() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.s.FlushAll(ctx); err != nil {
		w.t.Fatalf("drain: %v, %+v", err, w.s.Deliveries())
	}
}

func (w *world) total(kind string) int64 { return w.s.Sums().Totals[kind]["EUR"] }

// create pays 48.00 EUR, captured at once or held.
func (w *world) create(capture, idempotencyKey string) *stripe.PaymentIntent {
	w.t.Helper()
	in, err := w.client.V1PaymentIntents.Create(w.t.Context(), intentParams(capture, idempotencyKey))
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

func intentParams(capture, idempotencyKey string) *stripe.PaymentIntentCreateParams {
	p := &stripe.PaymentIntentCreateParams{
		Amount: stripe.Int64(4800), Currency: stripe.String("eur"), Confirm: stripe.Bool(true),
		PaymentMethod: stripe.String("pm_card_visa"), CaptureMethod: stripe.String(capture),
	}
	p.AddMetadata("order_id", "o1")
	if idempotencyKey != "" {
		p.SetIdempotencyKey(idempotencyKey)
	}
	return p
}

// refusal is the error in the client's own terms.
func refusal(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var e *stripe.Error
	if !errors.As(err, &e) {
		t.Fatalf("want a refusal, got %v", err)
	}
	return e
}

// shop receives webhooks.
type shop struct {
	mu  sync.Mutex
	got []delivery
}

type delivery struct {
	signature string
	body      []byte
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, delivery{signature: r.Header.Get("Stripe-Signature"), body: body})
}

func (s *shop) all() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivery(nil), s.got...)
}

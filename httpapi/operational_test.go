package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// sick is a store whose clock, migrations and figures can be made to fail.
type sick struct {
	store.Store
	down, old bool
	looks     int
}

func (s *sick) Now(ctx context.Context) (time.Time, error) {
	s.looks++
	if s.down {
		return time.Time{}, store.ErrUnavailable
	}
	return s.Store.Now(ctx)
}

func (s *sick) Migrations(ctx context.Context) ([]store.Migration, error) {
	steps, err := s.Store.Migrations(ctx)
	if s.old {
		steps = append(steps, store.Migration{Version: 9999})
	}
	return steps, err
}

func (s *sick) Stats(ctx context.Context) (store.Stats, error) {
	s.looks++
	if s.down {
		return store.Stats{}, store.ErrUnavailable
	}
	return s.Store.Stats(ctx)
}

func TestReadiness(t *testing.T) {
	s := &sick{Store: openSQLite(t)}
	h := newHouse(t, s, nil)
	plain := func(status int, body string) {
		t.Helper()
		a := h.ask(http.MethodGet, "/readyz", "", without("Authorization"))
		if a.status != status || string(a.body) != body {
			t.Fatalf("readyz: %d %q, want %d %q", a.status, a.body, status, body)
		}
	}
	verbose := func(lines ...string) {
		t.Helper()
		a := h.get("/readyz?verbose")
		for _, line := range lines {
			if !strings.Contains(string(a.body), line+"\n") {
				t.Fatalf("readyz?verbose lacks %q: %s", line, a.body)
			}
		}
	}
	for range 3 {
		plain(http.StatusOK, "ok\n")
	}
	verbose("[+] database ok", "[+] schema ok", "[+] draining ok")
	expect(t, "looks within a second", s.looks, 1)

	s.down = true
	h.advance(time.Second)
	plain(http.StatusServiceUnavailable, "not ready\n")
	verbose("[-] database: cannot be reached")
	expect(t, "livez", h.ask(http.MethodGet, "/livez", "", without("Authorization")).status, http.StatusOK)
	s.down, s.old = false, true
	h.advance(time.Second)
	plain(http.StatusServiceUnavailable, "not ready\n")
	verbose("[-] schema: does not fit this program")
	s.old = false
	h.advance(time.Second)
	plain(http.StatusOK, "ok\n")
	h.api.Drain()
	plain(http.StatusServiceUnavailable, "not ready\n")
	verbose("[-] draining: the server is about to stop")
	h.get("/v1/payments").items(http.StatusOK)
	h.get("/readyz?what").refused(httpapi.CodeUnknownParameter, http.StatusBadRequest)
}

func TestVersion(t *testing.T) {
	h := newHouse(t, openSQLite(t), func(d *httpapi.Deps) { d.Version = httpapi.Version{Version: "1.2.3", Revision: "abc"} })
	v := h.ask(http.MethodGet, "/version", "", without("Authorization")).ok(http.StatusOK)
	expect(t, "version", v, map[string]any{"version": "1.2.3", "revision": "abc"})
}

// R9.2: dead letters, the age of the oldest entry and open exceptions are
// figures, and a ledger that does not answer leaves them out instead of
// repeating old ones.
func TestMetrics(t *testing.T) {
	s := &sick{Store: openSQLite(t)}
	h := newHouse(t, s, nil)
	h.register("A", "pi_1")
	h.register("A", "pi_2")
	h.receive(captured("evt_1", "pi_1", 4800), captured("evt_2", "pi_2", 4800))
	h.receiveRaw(provider.Event{Identity: "evt_dead"}, []byte("not understood"))
	h.get("/v1/payments/pay_none")
	a := h.get("/metrics")
	for _, line := range []string{
		`unavez_build_info{goversion="",revision="",version="devel"} 1`, `unavez_inbox_pending 0`,
		`unavez_dead_letters_open{queue="inbox"} 1`, `unavez_dead_letters_open{queue="outbox"} 0`,
		`unavez_exceptions_open{kind="surplus"} 1`, `unavez_exceptions_open{kind="dead_letter"} 1`,
		`unavez_http_request_duration_seconds_count{code="404",method="GET",route="/v1/payments/{id}"} 1`,
		`unavez_http_request_duration_seconds_count{code="201",method="POST",route="/v1/payments"} 2`,
	} {
		if a.status != http.StatusOK || !strings.Contains(string(a.body), line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if t.Failed() {
		t.Fatalf("metrics: %s", a.body)
	}
	looks := s.looks
	h.get("/metrics")
	expect(t, "looks within five seconds", s.looks, looks)

	s.down = true
	h.advance(5 * time.Second)
	if a = h.get("/metrics"); a.status != http.StatusOK || strings.Contains(string(a.body), "unavez_dead_letters_open") {
		t.Fatalf("old figures are repeated: %d %s", a.status, a.body)
	}
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Fatalf("lint: %v %v", problems, err)
	}
}

func TestOldestPendingEntry(t *testing.T) {
	h := onSQLite(t)
	err := h.store.InTx(t.Context(), store.TxOptions{}, func(tx store.Tx) error {
		return tx.Enqueue(context.Background(), []store.Work{{Queue: store.QueueInbox, ID: "evt_x", Lane: "x"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	body := string(h.get("/metrics").body)
	if !strings.Contains(body, "unavez_inbox_pending 1\n") || !strings.Contains(body, "unavez_inbox_oldest_pending_timestamp_seconds ") {
		t.Fatalf("metrics: %s", body)
	}
}

// Labels are bounded: what a client invents does not become one.
func TestLabelsAreBounded(t *testing.T) {
	h := onSQLite(t)
	for range 3 {
		h.ask("BREW", "/v1/payments/4242424242424242", "")
		h.get("/nowhere/4242424242424242")
		h.get("//v1//payments/4242424242424242")
	}
	body := string(h.get("/metrics").body)
	if strings.Contains(body, "4242") || strings.Contains(body, "BREW") {
		t.Fatalf("a client's words are labels: %s", body)
	}
}

func TestMetricsOpen(t *testing.T) {
	h := newHouse(t, openSQLite(t), func(d *httpapi.Deps) { d.MetricsOpen = true })
	expect(t, "status", h.ask(http.MethodGet, "/metrics", "", without("Authorization")).status, http.StatusOK)
	h.ask(http.MethodGet, "/readyz?verbose", "", without("Authorization")).refused(httpapi.CodeUnauthenticated, http.StatusUnauthorized)
}

// The API sweeps old keys in a goroutine that Stop waits for.
func TestStartStop(t *testing.T) {
	h := onSQLite(t)
	h.api.Start(t.Context())
	h.api.Stop()
}

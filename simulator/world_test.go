package simulator

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

const testKey = "sk_test_simulator"

// patience is a bound for what must happen, never a measure of it.
const patience = 30 * time.Second

// world is a simulator behind a real listener.
type world struct {
	t   *testing.T
	s   *Server
	url string
	hc  *http.Client
}

type answer struct {
	status int
	header http.Header
	body   object
	raw    string
}

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	if cfg.RetryBase == 0 {
		cfg.RetryBase, cfg.RetryMax = time.Millisecond, 4*time.Millisecond
	}
	s := New(cfg)
	srv := httptest.NewServer(s)
	// Fresh connections: on a reused one Go's transport itself repeats a request
	// that carries an Idempotency-Key, and a test would not see its answer lost.
	w := &world{t: t, s: s, url: srv.URL, hc: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
		w.hc.CloseIdleConnections()
		srv.Close()
	})
	return w
}

func (w *world) started() *world {
	w.t.Helper()
	if err := w.s.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

// try makes a request; headers are name, value pairs.
func (w *world) try(ctx context.Context, method, path, form string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(form))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.hc.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(raw, &a.body)
}

func (w *world) post(path, form string, headers ...string) answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), http.MethodPost, path, form, headers...)
	if err != nil {
		w.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), http.MethodGet, path, "", headers...)
	if err != nil {
		w.t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

// ok fails unless the answer is a 200.
func (w *world) ok(a answer) answer {
	w.t.Helper()
	if a.status != http.StatusOK {
		w.t.Fatalf("status %d: %s", a.status, a.raw)
	}
	return a
}

// refusal fails unless the answer is this error.
func (w *world) refusal(a answer, status int, typ, code string) answer {
	w.t.Helper()
	e, _ := a.body["error"].(object)
	got, _ := e["code"].(string)
	if a.status != status || e["type"] != typ || got != code {
		w.t.Fatalf("want %d %s %s, got %d %s", status, typ, code, a.status, a.raw)
	}
	return a
}

const paid = "amount=4800&currency=eur&payment_method=pm_card_visa&confirm=true&metadata[order_id]=o1"

func (w *world) pay(form string, headers ...string) answer {
	w.t.Helper()
	return w.ok(w.post("/v1/payment_intents", form, headers...))
}

func (w *world) trigger(t Trigger) Triggered {
	w.t.Helper()
	done, err := w.s.Trigger(t)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

func (w *world) inject(f Fault) string {
	w.t.Helper()
	id, err := w.s.Inject(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) drain() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.s.Drain(ctx); err != nil {
		w.t.Fatalf("drain: %v, %+v", err, w.s.Deliveries())
	}
}

// total is the sum of one kind of movement in euro.
func (w *world) total(kind string) int64 { return w.s.Sums().Totals[kind]["EUR"] }

// eventTypes are the types of all events, oldest first.
func (w *world) eventTypes() []string {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	var types []string
	for _, ev := range w.s.events.rows {
		types = append(types, ev.typ)
	}
	return types
}

func (a answer) str(name string) string { s, _ := a.body[name].(string); return s }

func (a answer) num(name string) int64 { f, _ := a.body[name].(float64); return int64(f) }

func (a answer) rows() []object {
	list, _ := a.body["data"].([]any)
	var out []object
	for _, row := range list {
		o, _ := row.(object)
		out = append(out, o)
	}
	return out
}

// clock is an injected now.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) read() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// shop receives webhooks and keeps what it got.
type shop struct {
	url   string
	mu    sync.Mutex
	got   []received
	reply func(n int, ev object) int // status of the n-th request, counted from 1
}

type received struct {
	id, typ, signature string
	body               []byte
	event              object
}

func newShop(t *testing.T, reply func(n int, ev object) int) *shop {
	t.Helper()
	sh := &shop{reply: reply}
	srv := httptest.NewServer(sh)
	t.Cleanup(srv.Close)
	sh.url = srv.URL + "/hook"
	return sh
}

func (sh *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var ev object
	_ = json.Unmarshal(body, &ev) // a test that looks at the event sees nil then
	id, _ := ev["id"].(string)
	typ, _ := ev["type"].(string)
	sh.mu.Lock()
	sh.got = append(sh.got, received{id: id, typ: typ, signature: r.Header.Get("Stripe-Signature"), body: body, event: ev})
	n := len(sh.got)
	sh.mu.Unlock()
	status := http.StatusOK
	if sh.reply != nil {
		status = sh.reply(n, ev)
	}
	if status >= 300 && status < 400 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
}

func (sh *shop) all() []received {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return append([]received(nil), sh.got...)
}

package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/httpapi"
	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

// plain is an adapter whose payloads are provider.Event as JSON.
type plain struct{}

func (plain) Contract() *provider.Contract { return &provider.Contract{Provider: "plain"} }
func (plain) Verify(*provider.Account, *provider.Delivery) ([]provider.Item, error) {
	return nil, provider.ErrSignature
}
func (plain) Acknowledgement() provider.Acknowledgement    { return provider.Acknowledgement{Status: 200} }
func (plain) CaptureSpeaks(*provider.Account) payment.Form { return payment.FormTotal }
func (plain) Parse(_ *provider.Account, raw []byte) (e provider.Event, err error) {
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("%w: %w", provider.ErrMalformed, err)
	}
	return e, nil
}

// Names and secrets of the house.
const (
	account    = "acc"
	second     = "acc-two"
	secondShop = "two"
	shop       = "shop"
	host       = "127.0.0.1:8081"

	readToken    = "token-of-the-reader"
	operateToken = "token-of-the-operator"
	approveToken = "token-of-the-approver"
	adminToken   = "token-of-the-admin"

	destinationSecret = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5IQ=="
	destinationPath   = "/hook/path-with-a-token"
)

// house is a ledger with an API over it, driven by hand.
type house struct {
	t        *testing.T
	store    store.Store
	applier  *apply.Applier
	relay    *outbox.Relay
	api      *httpapi.API
	registry *prometheus.Registry
	logs     *logs

	mu  sync.Mutex
	now time.Time
}

// logs collects what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// eachStore runs the test on both backends.
func eachStore(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, newHouse(t, openSQLite(t), nil)) })
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
		test(t, newHouse(t, ready(t, s, err), nil))
	})
}

func onSQLite(t *testing.T) *house { return newHouse(t, openSQLite(t), nil) }

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{})
	return ready(t, s, err)
}

func ready(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func newHouse(t *testing.T, s store.Store, change func(*httpapi.Deps)) *house {
	t.Helper()
	h := &house{
		t: t, store: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), registry: prometheus.NewRegistry(), logs: &logs{},
	}
	logger := slog.New(slog.NewJSONHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	destinations := []outbox.Destination{{
		Name: shop, URL: "https://shop.example" + destinationPath, Types: []string{"*"}, Secrets: []provider.Secret{destinationSecret},
	}}
	var err error
	h.applier, err = apply.New(s, apply.Options{
		Accounts: map[string]*apply.Account{
			account: {Account: provider.Account{Name: account, Provider: "plain", Mode: provider.Live}, Adapter: plain{}},
			second:  {Account: provider.Account{Name: second, Provider: "plain", Mode: provider.Live}, Adapter: plain{}, Shop: secondShop},
		},
		Destinations: func(string) []string { return []string{shop} }, Now: h.clock, Logger: logger,
		Backoff: backoff.Policy{Base: time.Nanosecond, Cap: time.Nanosecond, Attempts: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.relay, err = outbox.New(s, destinations, outbox.Options{Now: h.clock, Logger: logger}); err != nil {
		t.Fatal(err)
	}
	deps := httpapi.Deps{
		Store: s, Applier: h.applier, Relay: h.relay, Destinations: destinations, Listen: host, Now: h.clock, Logger: logger,
		Registry: h.registry, Accounts: []httpapi.Account{{Name: account, Shop: "default"}, {Name: second, Shop: secondShop}},
		Tokens: []httpapi.Token{
			{Name: "reader", Role: httpapi.RoleRead, Secret: readToken}, {Name: "operator", Role: httpapi.RoleOperate, Secret: operateToken},
			{Name: "approver", Role: httpapi.RoleApprove, Secret: approveToken}, {Name: "chief", Role: httpapi.RoleAdmin, Secret: adminToken},
		},
	}
	deps.Keys.Clock = func(context.Context) (time.Time, error) { return h.clock(), nil }
	if change != nil {
		change(&deps)
	}
	if h.api, err = httpapi.New(deps); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Ids sort by the millisecond, so that each look is a later one.
	h.now = h.now.Add(time.Millisecond)
	return h.now
}

func (h *house) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// answer is what the API answered.
type answer struct {
	t      *testing.T
	call   string
	status int
	header http.Header
	body   []byte
}

// ask sends a request as the chief, unless change says otherwise.
func (h *house) ask(method, path, body string, change ...func(*http.Request)) *answer {
	h.t.Helper()
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r)
	return &answer{h.t, method + " " + path, w.Code, w.Header(), w.Body.Bytes()}
}

func (h *house) get(path string) *answer { h.t.Helper(); return h.ask(http.MethodGet, path, "") }
func (h *house) post(path, body string) *answer {
	h.t.Helper()
	return h.ask(http.MethodPost, path, body)
}
func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}
func key(k string) func(*http.Request)    { return with("Idempotency-Key", k) }
func as(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }
func without(header string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del(header) }
}
func hosted(name string) func(*http.Request)        { return func(r *http.Request) { r.Host = name } }
func (a *answer) ok(status int) map[string]any      { a.t.Helper(); return a.object(status) }
func (a *answer) items(status int) []map[string]any { a.t.Helper(); return a.list(status, false) }

// object expects the status and returns the body as an object.
func (a *answer) object(status int) map[string]any {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.call, a.status, status, a.body)
	}
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.t.Fatalf("%s: the body is no object: %v: %s", a.call, err, a.body)
	}
	return v
}

// list expects a page and returns its items.
func (a *answer) list(status int, more bool) []map[string]any {
	a.t.Helper()
	v := a.object(status)
	if got := slices.Sorted(maps.Keys(v)); !slices.Equal(got, []string{"data", "has_more"}) || v["has_more"] != more {
		a.t.Fatalf("%s: members %q, has_more %v, want %t", a.call, got, v["has_more"], more)
	}
	var items []map[string]any
	for _, item := range v["data"].([]any) {
		items = append(items, item.(map[string]any))
	}
	return items
}

// refused expects a problem of the code, complete and in its media type.
func (a *answer) refused(code httpapi.Code, status int) map[string]any {
	a.t.Helper()
	v := a.object(status)
	if v["code"] != string(code) || v["status"] != float64(status) || v["type"] != "/problems/"+string(code) || v["title"] == "" ||
		v["detail"] == "" || v["request_id"] != a.header.Get("X-Request-Id") || v["request_id"] == "" || v["retryable"] == nil {
		a.t.Fatalf("%s: problem %s, want %s with every member", a.call, a.body, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Fatalf("%s: content type %q", a.call, got)
	}
	if v["retryable"] == true && a.header.Get("Retry-After") == "" {
		a.t.Fatalf("%s: retryable without Retry-After", a.call)
	}
	return v
}

// pointers are the places that a problem names.
func pointers(v map[string]any) []string {
	var out []string
	errs, _ := v["errors"].([]any)
	for _, e := range errs {
		out = append(out, e.(map[string]any)["pointer"].(string))
	}
	return out
}

func text(v map[string]any, name string) string { s, _ := v[name].(string); return s }

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// register registers a payment of 48.00 EUR.
func (h *house) register(order string, references ...string) map[string]any {
	h.t.Helper()
	body, err := json.Marshal(map[string]any{
		"order": order, "account": account, "amount": map[string]any{"value": 4800, "currency": "EUR"}, "references": references,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.post("/v1/payments", string(body)).ok(http.StatusCreated)
}

func eur(v int64) payment.Money { return payment.Money{Value: v, Currency: "EUR"} }

// captured is an event that proves a capture of the payment intent.
func captured(identity, intent string, amount int64) provider.Event {
	return provider.Event{Identity: identity, ProviderEventID: identity, Type: "charge.captured", Mode: provider.Live, Ours: true,
		Evidence: payment.Evidence{Names: []string{intent, "ch_" + intent}, Facts: []payment.Fact{
			{Kind: payment.KindAuthorization, Form: payment.FormTotal, Object: intent, Parent: intent, Stage: payment.StageAuthorized, Amount: eur(amount)},
			{Kind: payment.KindCapture, Form: payment.FormTotal, Object: intent, Parent: intent, Stage: payment.StageSucceeded, Amount: eur(amount)},
		}}}
}

// receive stores events as the inbox does, works on them, and returns their ids.
func (h *house) receive(events ...provider.Event) []string {
	h.t.Helper()
	var ids []string
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			h.t.Fatal(err)
		}
		ids = append(ids, h.receiveRaw(e, raw))
	}
	return ids
}

func (h *house) receiveRaw(e provider.Event, raw []byte) string {
	h.t.Helper()
	digest := sha256.Sum256(raw)
	now := h.clock()
	row := store.EntryWithBody{
		Entry: store.Entry{
			ID: id.New(id.Event, now), Scope: store.Scope{Account: account, Mode: string(provider.Live)}, Identity: e.Identity,
			ProviderEventID: e.Identity, Type: e.Type, Source: store.SourceWebhook, ReceivedAt: now,
			BodyDigest: digest[:], FactDigest: inbox.FactDigest(e.Evidence),
		},
		Body: store.Body{Bytes: raw, Header: []byte(`{}`)},
	}
	err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
		if _, err := tx.InsertEntries(context.Background(), []store.EntryWithBody{row}); err != nil {
			return err
		}
		return tx.Enqueue(context.Background(), []store.Work{{Queue: store.QueueInbox, ID: row.ID, Lane: row.ID}})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.work()
	return row.ID
}

// work works the queues off.
func (h *house) work() {
	h.t.Helper()
	for range 100 {
		if !h.applier.WorkOnce(context.Background()) {
			return
		}
	}
	h.t.Fatal("the queue does not become empty")
}

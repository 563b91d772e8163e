package apply_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

// plain is an adapter whose payloads are provider.Event as JSON, so that these
// tests can speak of every kind of fact without a provider's detours.
type plain struct{ speaks payment.Form }

func (plain) Contract() *provider.Contract { return &provider.Contract{Provider: "plain"} }
func (plain) Verify(*provider.Account, *provider.Delivery) ([]provider.Item, error) {
	return nil, provider.ErrSignature
}
func (plain) Acknowledgement() provider.Acknowledgement      { return provider.Acknowledgement{Status: 200} }
func (p plain) CaptureSpeaks(*provider.Account) payment.Form { return p.speaks }
func (plain) Parse(_ *provider.Account, raw []byte) (e provider.Event, err error) {
	if string(raw) == "panic" {
		panic("the adapter met something impossible")
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("%w: %w", provider.ErrMalformed, err)
	}
	return e, nil
}

// house is one ledger with an applier that is driven by hand.
type house struct {
	t       *testing.T
	store   store.Store
	applier *apply.Applier
	mu      sync.Mutex
	now     time.Time
}

const (
	shopDestination = "shop"
	account         = "acc"
)

// eachStore runs the test on both backends.
func eachStore(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, newHouse(t, openSQLite(t), nil)) })
	t.Run("postgres", func(t *testing.T) { test(t, newHouse(t, openPostgres(t), nil)) })
}

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{})
	return ready(t, s, err)
}

func openPostgres(t *testing.T) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
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

func newHouse(t *testing.T, s store.Store, change func(*apply.Options)) *house {
	t.Helper()
	h := &house{t: t, store: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	opt := apply.Options{
		Accounts: map[string]*apply.Account{
			account: {Account: provider.Account{Name: account, Provider: "plain", Mode: provider.Live}, Adapter: plain{payment.FormTotal}},
			"adopting": {
				Account: provider.Account{Name: "adopting", Provider: "plain", Mode: provider.Live}, Adapter: plain{payment.FormTotal},
				Unregistered: apply.UnregisteredAdopt,
			},
		},
		Destinations: func(string) []string { return []string{shopDestination} },
		Now:          h.clock,
		Backoff:      backoff.Policy{Base: time.Nanosecond, Cap: time.Nanosecond, Attempts: 3},
		Poll:         5 * time.Millisecond,
	}
	if change != nil {
		change(&opt)
	}
	a, err := apply.New(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	h.applier = a
	return h
}

func (h *house) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *house) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// entry makes an inbox entry of an event.
func (h *house) entry(acc string, e provider.Event) store.EntryWithBody {
	h.t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.raw(acc, e, raw)
}

func (h *house) raw(acc string, e provider.Event, raw []byte) store.EntryWithBody {
	digest := sha256.Sum256(raw)
	mode := string(e.Mode)
	if mode == "" {
		mode = string(provider.Live)
	}
	return store.EntryWithBody{
		Entry: store.Entry{
			ID: id.New(id.Event, h.clock()), Scope: store.Scope{Account: acc, Mode: mode, Connected: e.Connected},
			Identity: e.Identity, ProviderEventID: e.Identity, Type: e.Type, Source: store.SourceWebhook,
			ReceivedAt: h.clock(), OccurredAt: e.OccurredAt, BodyDigest: digest[:], FactDigest: inbox.FactDigest(e.Evidence),
		},
		Body: store.Body{Bytes: raw, Header: []byte(`{}`)},
	}
}

// put stores events as the inbox does and returns their ids.
func (h *house) put(acc string, events ...provider.Event) []string {
	h.t.Helper()
	rows := make([]store.EntryWithBody, 0, len(events))
	for _, e := range events {
		rows = append(rows, h.entry(acc, e))
	}
	return h.putRows(rows)
}

func (h *house) putRows(rows []store.EntryWithBody) []string {
	h.t.Helper()
	var ids []string
	err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
		ids = nil
		got, err := tx.InsertEntries(context.Background(), rows)
		if err != nil {
			return err
		}
		var work []store.Work
		for i, g := range got {
			ids = append(ids, g.ID)
			if g.New {
				work = append(work, store.Work{Queue: store.QueueInbox, ID: g.ID, Lane: "lane/" + rows[i].Identity})
			}
		}
		return tx.Enqueue(context.Background(), work)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return ids
}

// work works the queues off until nothing is due.
func (h *house) work() {
	h.t.Helper()
	for range 100 {
		if !h.applier.WorkOnce(context.Background()) {
			return
		}
	}
	h.t.Fatal("the queue does not become empty")
}

func (h *house) register(r apply.Registration) store.Payment {
	h.t.Helper()
	got, err := h.applier.Register(context.Background(), r, "tester")
	if err != nil {
		h.t.Fatalf("registering %+v: %v", r, err)
	}
	return got.Payment
}

func (h *house) view(fn func(store.Reader) error) {
	h.t.Helper()
	if err := h.store.View(context.Background(), fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) payment(id string) (p store.Payment) {
	h.t.Helper()
	h.view(func(r store.Reader) (err error) { p, err = r.Payment(context.Background(), id); return err })
	return p
}

func (h *house) order(id string) (o store.Order) {
	h.t.Helper()
	h.view(func(r store.Reader) (err error) {
		o, err = r.Order(context.Background(), store.OrderKey{Shop: "default", ID: id})
		return err
	})
	return o
}

func (h *house) event(id string) (e store.EntryStatus) {
	h.t.Helper()
	h.view(func(r store.Reader) (err error) { e, err = r.Entry(context.Background(), id); return err })
	return e
}

// messages returns the types of the messages of these kinds, by their sequence.
func (h *house) messages(kinds ...string) (types []string) {
	h.t.Helper()
	h.view(func(r store.Reader) error {
		list, err := r.Messages(context.Background(), store.List{Limit: 100})
		slices.SortFunc(list, func(a, b store.Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for _, m := range list {
			if slices.Contains(kinds, m.Type) {
				types = append(types, m.Type)
			}
		}
		return err
	})
	return types
}

func (h *house) exceptions() (list []store.Exception) {
	h.t.Helper()
	h.view(func(r store.Reader) (err error) {
		list, err = r.Exceptions(context.Background(), store.List{Limit: 100})
		return err
	})
	return list
}

// open returns kind/reason of the exceptions that are open.
func (h *house) open() (open []string) {
	h.t.Helper()
	for _, e := range h.exceptions() {
		if e.State == store.ExceptionOpen {
			open = append(open, e.Kind+"/"+e.Reason)
		}
	}
	return open
}

func (h *house) expectState(id string, want payment.State) {
	h.t.Helper()
	if got := h.payment(id).View.State; got != want {
		h.t.Errorf("payment is %s, want %s", got, want)
	}
}

func (h *house) expect(what string, got, want any) {
	h.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		h.t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func eur(v int64) payment.Money { return payment.Money{Value: v, Currency: "EUR"} }

// captured is the event of a line that was authorized and captured.
func captured(event, line string, amount payment.Money, names ...string) provider.Event {
	return provider.Event{
		Identity: event, Type: "captured", Lane: line, Evidence: payment.Evidence{
			Names: append([]string{line}, names...), Root: true,
			Facts: []payment.Fact{
				{Kind: payment.KindAuthorization, Form: payment.FormTotal, Object: line, Parent: line, Stage: payment.StageAuthorized, Amount: amount},
				{Kind: payment.KindCapture, Form: payment.FormTotal, Object: line, Parent: line, Stage: payment.StageSucceeded, Amount: amount},
			},
		},
	}
}

func refunded(event, line, refund string, stage payment.Stage, amount payment.Money) provider.Event {
	return provider.Event{
		Identity: event, Type: "refund", Lane: line, Evidence: payment.Evidence{
			Names: []string{refund, line},
			Facts: []payment.Fact{{Kind: payment.KindRefund, Form: payment.FormItem, Object: refund, Parent: line, Stage: stage, Amount: amount}},
		},
	}
}

func failedAttempt(event, line, charge string) provider.Event {
	return provider.Event{
		Identity: event, Type: "failed", Lane: line, Evidence: payment.Evidence{
			Names: []string{charge, line},
			Facts: []payment.Fact{{Kind: payment.KindAttempt, Form: payment.FormItem, Object: charge, Parent: line, Stage: payment.StageFailed}},
		},
	}
}

func itoa(n int) string { return fmt.Sprint(n) }

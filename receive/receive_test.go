package receive_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
)

// R1.4: what does not verify is refused and leaves nothing behind. R1.7, R1.8:
// what is durable, or was, gets the provider's acknowledgement.
func TestAnswers(t *testing.T) {
	e := newEdge(t, change{})
	now := time.Now().Unix()
	for _, c := range []struct {
		name, method, account, body string
		header                      []string
		status                      int
		answer                      string
	}{
		{"new", "POST", "shop", signed(oldSecret, "e1 10"), nil, 200, "[accepted]"},
		{"again", "POST", "shop", signed(oldSecret, "e1 10"), nil, 200, "[accepted]"},
		{"the other secret", "POST", "shop", signed(newSecret, "e2 10"), nil, 200, "[accepted]"},
		{"same event, second endpoint", "POST", "shop", signed(newSecret, "e1 10"), []string{"User-Agent", "other"}, 200, "[accepted]"},
		{"identity encoding", "POST", "shop", signed(oldSecret, "e3 10"), []string{"Content-Encoding", "identity"}, 200, "[accepted]"},
		{"malformed", "POST", "shop", signed(oldSecret, "bad1 x"), nil, 200, "[accepted]"},
		{"adapter panics on the payload", "POST", "shop", signed(oldSecret, "crash1 x"), nil, 200, "[accepted]"},
		{"wrong secret", "POST", "shop", signed("guess", "x1 10"), nil, 400, "signature does not verify\n"},
		{"no signature", "POST", "shop", "x2 10", nil, 400, "signature does not verify\n"},
		{"too old", "POST", "shop", signed(oldSecret, "x3 10"), []string{"Acme-Time", strconv.FormatInt(now-600, 10)}, 400, "time stamp outside the tolerance\n"},
		{"from the future", "POST", "shop", signed(oldSecret, "x4 10"), []string{"Acme-Time", strconv.FormatInt(now+600, 10)}, 400, "time stamp outside the tolerance\n"},
		{"no form", "POST", "shop", "form", nil, 400, "body has no readable form\n"},
		{"empty batch", "POST", "shop", "nothing", nil, 400, "no notification in the body\n"},
		{"empty", "POST", "shop", "", nil, 400, "empty body\n"},
		{"unknown account", "POST", "nobody", signed(oldSecret, "x5 10"), nil, 404, "unknown account\n"},
		{"no account", "POST", "", signed(oldSecret, "x6 10"), nil, 404, "unknown account\n"},
		{"longer path", "POST", "shop/", signed(oldSecret, "x7 10"), nil, 404, "unknown account\n"},
		{"GET", "GET", "shop", "", nil, 405, "method is not POST\n"},
		{"PUT", "PUT", "shop", signed(oldSecret, "x8 10"), nil, 405, "method is not POST\n"},
		{"compressed", "POST", "shop", zipped(signed(oldSecret, "x9 10")), []string{"Content-Encoding", "gzip"}, 415, "body is compressed\n"},
		{"verification broken", "POST", "shop", "certificate", nil, 503, "verification is not possible now\n"},
		{"adapter panics on the bytes", "POST", "shop", "panic", nil, 503, "verification is not possible now\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := e.do(t, c.method, c.account, strings.NewReader(c.body), c.header...)
			if got.status != c.status || got.body != c.answer {
				t.Errorf("%d %q, want %d %q", got.status, got.body, c.status, c.answer)
			}
			if (got.status == 200) != (got.header.Get("Content-Type") == "text/x-acme") {
				t.Errorf("content type %q", got.header.Get("Content-Type"))
			}
			if (got.status == 503) != (got.header.Get("Retry-After") != "") {
				t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
			}
			if (got.status == 405) != (got.header.Get("Allow") == "POST") {
				t.Errorf("Allow %q", got.header.Get("Allow"))
			}
		})
	}
	e.stop(t)
	stored := e.stored(t)
	for identity, want := range map[string]struct {
		state      string
		deliveries int
	}{
		"e1": {store.EntryReceived, 2}, "e2": {store.EntryReceived, 0}, "e3": {store.EntryReceived, 0},
		"bad1": {store.EntryDead, 0},
	} {
		if got := stored["shop/"+identity]; got.State != want.state || got.Deliveries != want.deliveries {
			t.Errorf("%s is %s after %d further deliveries, want %v", identity, got.State, got.Deliveries, want)
		}
	}
	// An adapter that panics tells no identity: the digest stands for it.
	if len(stored) != 5 {
		t.Errorf("%d entries: %v", len(stored), stored)
	}
	if got := counted(t, e.metrics); got["acme/stored"] != 5 || got["acme/duplicate"] != 2 || got["acme/bad_signature"] != 2 ||
		got["acme/too_old"] != 2 || got["other/unknown_account"] != 3 || got["acme/error"] != 2 || got["acme/bad_form"] != 6 {
		t.Errorf("counted %v", got)
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

// counted reads unavez_inbox_received_total by provider and outcome.
func counted(t *testing.T, m *inbox.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "unavez_inbox_received_total" {
			continue
		}
		for _, metric := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			got[labels["provider"]+"/"+labels["outcome"]] = metric.GetCounter().GetValue()
		}
	}
	return got
}

// The bytes are kept as received, with the headers that matter and no others.
func TestBytesAndHeadersAreKept(t *testing.T) {
	e := newEdge(t, change{})
	payload := "e1 ñ \\/ \x00\xff\r"
	e.post(t, "shop", signed(oldSecret, payload), "Cookie", "secret", "Authorization", "Basic c2VjcmV0", "Acme-Time",
		strconv.FormatInt(time.Now().Unix(), 10), "User-Agent", "Acme/1", "Content-Type", "text/plain")
	entry := e.stored(t)["shop/e1"]
	err := e.store.View(t.Context(), func(r store.Reader) error {
		b, err := r.Body(t.Context(), entry.ID)
		if string(b.Bytes) != payload {
			t.Errorf("bytes %q", b.Bytes)
		}
		kept := string(b.Header)
		for name, want := range map[string]bool{"Acme-Time": true, "User-Agent": true, "Content-Type": true, "Cookie": false, "Authorization": false} {
			if strings.Contains(kept, name) != want {
				t.Errorf("%s kept: %t in %s", name, !want, kept)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(entry.Trace) != 32 {
		t.Errorf("trace %q", entry.Trace)
	}
}

// The body's limit is exact, announced or not.
func TestBodyLimit(t *testing.T) {
	e := newEdge(t, change{})
	fits := func(identity string, size int) string {
		rest := size - len(signed(oldSecret, identity+" "))
		return signed(oldSecret, identity+" "+strings.Repeat("x", rest))
	}
	for _, c := range []struct {
		size, status int
	}{{receive.DefaultBodyBytesMax, 200}, {receive.DefaultBodyBytesMax + 1, 413}, {100_000, 200}, {4 << 10, 200}, {4<<10 - 1, 200}} {
		for _, announced := range []bool{true, false} {
			body := fits(fmt.Sprint("e", c.size, announced), c.size)
			if len(body) != c.size {
				t.Fatalf("built %d bytes, not %d", len(body), c.size)
			}
			var r io.Reader = strings.NewReader(body)
			if !announced {
				r = io.MultiReader(r) // hides its length
			}
			if got := e.do(t, "POST", "shop", r); got.status != c.status {
				t.Errorf("%d bytes, announced %t: %d %q", c.size, announced, got.status, got.body)
			}
		}
	}
}

// R1.9: each item of a batch by its own identity; items that do not verify
// make the answer 400 after the good ones are stored.
func TestBatch(t *testing.T) {
	e := newEdge(t, change{})
	body := signed(oldSecret, "e1 10", "e2 20", "e1 10", "bad1 x", "hint1 5") + signed("guess", "x1 10") + signed(newSecret, "e3 30")
	if got := e.post(t, "shop", body); got.status != 400 {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := e.post(t, "shop", signed(newSecret, "e1 10", "e2 20", "e3 30", "e4 40")); got.status != 200 {
		t.Errorf("%d %q", got.status, got.body)
	}
	e.stop(t)
	stored := e.stored(t)
	for identity, deliveries := range map[string]int{"e1": 2, "e2": 1, "e3": 1, "e4": 0, "bad1": 0, "hint1": 0} {
		if got := stored["shop/"+identity].Deliveries; got != deliveries {
			t.Errorf("%s: %d further deliveries, want %d", identity, got, deliveries)
		}
	}
	if len(stored) != 6 {
		t.Errorf("%d entries", len(stored))
	}
}

// R1.2, R1.8, R2.2: 64 clients, several accounts, every event many times: one
// entry each, every delivery acknowledged and counted.
func TestStormOfDuplicates(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) { storm(t, open) })
	}
}

func storm(t *testing.T, open func(*testing.T) store.Store) {
	const events, copies, clients = 50, 16, 64
	second := shop()
	second.Name = "second"
	e := newEdge(t, change{open: open, accounts: []receive.Account{shop(), second}})
	var done sync.WaitGroup
	for c := range clients {
		done.Go(func() {
			for i := range events * copies / clients {
				for _, account := range []string{"shop", "second"} {
					identity := fmt.Sprint("e", (c*13+i*5)%events)
					if got := e.post(t, account, signed(oldSecret, identity+" 1")); got.status != 200 {
						t.Errorf("%d %q", got.status, got.body)
					}
				}
			}
		})
	}
	done.Wait()
	e.stop(t)
	deliveries := 0
	stored := e.stored(t)
	for _, s := range stored {
		deliveries += s.Deliveries
	}
	// 13c+5i visits every residue: each event came, in each account.
	if len(stored) != 2*events || deliveries != 2*clients*(events*copies/clients)-2*events {
		t.Errorf("%d entries, %d further deliveries", len(stored), deliveries)
	}
}

// hold is a ledger whose transactions wait at a gate, or fail while it is down.
type hold struct {
	store.Store
	gate  chan struct{}
	begun atomic.Int64
	down  atomic.Bool
}

func (h *hold) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	h.begun.Add(1)
	if h.down.Load() {
		return fmt.Errorf("connecting: %w", store.ErrUnavailable)
	}
	select {
	case <-h.gate:
		return h.Store.InTx(ctx, opt, fn)
	case <-ctx.Done():
		return fmt.Errorf("waiting: %w", store.ErrUnavailable)
	}
}

func (h *hold) over(s store.Store) store.Store {
	h.Store = s
	return h
}

// Overload is 503 with a drawn Retry-After, and what is refused is not kept.
func TestOverload(t *testing.T) {
	held := &hold{gate: make(chan struct{})}
	e := newEdge(t, change{
		inbox:  inbox.Options{Flushers: 1, QueueRowsMax: 3},
		limits: receive.Limits{RetryAfterMin: 3 * time.Second, RetryAfterMax: 9 * time.Second, AcknowledgeWithin: time.Minute},
		wrap:   held.over,
	})
	var waiting sync.WaitGroup
	accepted := func(identity string) {
		waiting.Go(func() {
			if got := e.post(t, "shop", signed(oldSecret, identity+" 1")); got.status != 200 {
				t.Errorf("%s: %d %q", identity, got.status, got.body)
			}
		})
	}
	accepted("e0")
	eventually(t, "first transaction", func() bool { return held.begun.Load() == 1 })
	for i := range 3 {
		accepted(fmt.Sprint("e", 1+i))
	}
	eventually(t, "full queue", func() bool { return e.inbox.Queued() == 3 })
	seen := map[string]bool{}
	for i := range 100 {
		got := e.post(t, "shop", signed(oldSecret, fmt.Sprint("x", i, " 1")))
		after, err := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != 503 || err != nil || after < 3 || after > 9 {
			t.Fatalf("%d %q, Retry-After %q", got.status, got.body, got.header.Get("Retry-After"))
		}
		seen[got.header.Get("Retry-After")] = true
		if e.inbox.Queued() > 3 {
			t.Fatalf("%d rows wait", e.inbox.Queued())
		}
	}
	if len(seen) < 2 {
		t.Error("Retry-After is always the same")
	}
	close(held.gate)
	waiting.Wait()
	if got := len(e.stored(t)); got != 4 {
		t.Errorf("%d entries, want 4", got)
	}
}

// A ledger that is down is 503: not stored, not acknowledged.
func TestLedgerDown(t *testing.T) {
	held := &hold{gate: make(chan struct{})}
	close(held.gate)
	held.down.Store(true)
	e := newEdge(t, change{wrap: held.over})
	if got := e.post(t, "shop", signed(oldSecret, "e1 1")); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %q", got.status, got.body)
	}
	held.down.Store(false)
	if got := e.post(t, "shop", signed(oldSecret, "e1 1")); got.status != 200 {
		t.Errorf("afterwards: %d %q", got.status, got.body)
	}
	if got := e.stored(t); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// R1.10: a synchronous account's event is applied before the answer; what
// needs a look-up, and a batch, is stored as received.
func TestSynchronous(t *testing.T) {
	acc := shop()
	acc.Processing = receive.ProcessingSync
	applied := &applier{}
	e := newEdge(t, change{
		accounts: []receive.Account{acc}, sync: applied,
		wrap: func(s store.Store) store.Store { applied.store = s; return s },
	})
	for _, body := range []string{
		signed(oldSecret, "e1 1"), signed(oldSecret, "e1 1"), signed(oldSecret, "thin1 1"), signed(oldSecret, "hint1 1"),
		signed(oldSecret, "bad1 1"), signed(oldSecret, "e2 1", "e3 1"), signed(oldSecret, "busy1 1"),
	} {
		if got := e.post(t, "shop", body); got.status != 200 {
			t.Errorf("%q: %d %q", body, got.status, got.body)
		}
	}
	stored := e.stored(t)
	for identity, state := range map[string]string{
		"e1": store.EntryProcessed, "thin1": store.EntryReceived, "hint1": store.EntryReceived, "bad1": store.EntryDead,
		"e2": store.EntryReceived, "e3": store.EntryReceived, "busy1": store.EntryReceived,
	} {
		if got := stored["shop/"+identity].State; got != state {
			t.Errorf("%s is %q, want %s", identity, got, state)
		}
	}
}

type applier struct{ store store.Store }

func (a *applier) ApplyNow(ctx context.Context, e store.EntryWithBody, ev provider.Event) (got store.Inserted, err error) {
	err = a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		inserted, err := tx.InsertEntries(ctx, []store.EntryWithBody{e})
		if err != nil {
			return err
		}
		got = inserted[0]
		if strings.HasPrefix(ev.Identity, "busy") {
			return store.ErrBusy
		}
		return tx.Finish(ctx, []store.Result{{EntryID: e.ID, State: store.EntryProcessed, Outcome: store.OutcomeApplied, At: e.ReceivedAt}})
	})
	return got, err
}

// R1.4, R9.1: no secret, signature, card number or foreign name in logs, answers
// or metrics, whatever is refused or breaks.
func TestCanaries(t *testing.T) {
	const card = "4242424242424242"
	e := newEdge(t, change{})
	bad := signature("guess", "x "+card)
	var answers strings.Builder
	for _, body := range []string{
		signed(oldSecret, "e1 "+card), signed("guess", "x "+card), "form " + card, "certificate " + card, "panic " + card,
		signed(oldSecret, "bad "+card), signed(oldSecret, "crash "+card), "", signed(oldSecret, "e1 9"+card),
		strings.Repeat(card, 1<<17),
	} {
		for _, account := range []string{"shop", card, "nobody?" + card} {
			got := e.post(t, account, body, "Authorization", "Bearer "+card, "Acme-Signature", bad, "X-Card", card)
			fmt.Fprint(&answers, got)
		}
	}
	e.stop(t)
	shown := e.log.String() + answers.String() + fmt.Sprint(counted(t, e.metrics))
	for _, canary := range []string{card, "canary", oldSecret, newSecret, bad, signature(oldSecret, "e1 "+card)} {
		if i := strings.Index(shown, canary); i >= 0 {
			t.Errorf("%q is shown: …%s…", canary, shown[max(0, i-200):min(len(shown), i+100)])
		}
	}
	for _, reason := range []string{"signature does not verify", "body has no readable form", "unknown account", "empty body", "body too large"} {
		if !strings.Contains(e.log.String(), "reason=\""+reason+"\"") {
			t.Errorf("no log line for %q", reason)
		}
	}
	if want, got := 3*10-4, strings.Count(e.log.String(), `msg="delivery refused"`); got != want {
		t.Errorf("%d log lines of refusals, want %d", got, want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	in, err := inbox.New(openSQLite(t), inbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	none, empty, odd, twice := shop(), shop(), shop(), shop()
	none.Name, none.Secrets = "none", nil
	empty.Name, empty.Secrets = "empty", []provider.Secret{newSecret, ""}
	odd.Name, odd.Mode, odd.Adapter, odd.Processing = "Odd Name", "sandbox", nil, "later"
	twice.Processing = receive.ProcessingSync
	_, err = receive.New(receive.Options{
		Accounts: []receive.Account{shop(), none, empty, odd, twice}, Inbox: in,
		Limits: receive.Limits{BodyBytesMax: 1 << 20, InFlightBytesMax: 1 << 20, RetryAfterMin: time.Minute, RetryAfterMax: time.Second, ConnectionsMax: -1},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`account "none": no secret`, `account "empty": an empty secret`, `account "Odd Name": the name`, `no adapter for provider "acme"`,
		`mode is "sandbox"`, `processing is "later"`, `account "shop": processing is sync and nothing applies`, `account "shop" stands twice`,
		"bytes in flight leave no room", "longest Retry-After", "connections",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), newSecret) {
		t.Error("the error shows a secret")
	}
	if _, err := receive.New(receive.Options{}); err == nil || !strings.Contains(err.Error(), "no inbox") {
		t.Errorf("without an inbox: %v", err)
	}
	if _, err := receive.Listen(t.Context(), "256.0.0.1:0", receive.Limits{}); err == nil {
		t.Error("listens nowhere")
	}
	if errors.Is(err, http.ErrServerClosed) {
		t.Error("impossible")
	}
}

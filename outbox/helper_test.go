package outbox

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/sqlite"
)

// awaitWithin ends a test that would wait for ever; no test depends on it.
const awaitWithin = 60 * time.Second

// clock stands still until it is told otherwise. It is the ledger's and the
// relay's.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// watched tells when something was written or looked for, and can fail a
// transaction before or after the fact.
type watched struct {
	store.Store
	mu      sync.Mutex
	changed chan struct{}
	looks   int
	// before and after may replace the result of a transaction.
	before func() error
	after  func(error) error
}

func (w *watched) tell(looks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks += looks
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) next() (<-chan struct{}, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed, w.looks
}

func (w *watched) fail(before func() error, after func(error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func (w *watched) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	defer w.tell(0)
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	err := w.Store.InTx(ctx, opt, fn)
	if after != nil {
		err = after(err)
	}
	return err
}

func (w *watched) Claim(ctx context.Context, req store.ClaimRequest) (store.Claim, error) {
	defer w.tell(1)
	return w.Store.Claim(ctx, req)
}

// bench is a ledger with a clock.
type bench struct {
	*testing.T
	store *watched
	clock *clock
	made  int
}

func newBench(t *testing.T) *bench {
	c := &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	b := over(t, s)
	b.clock = c
	return b
}

func over(t *testing.T, s store.Store) *bench {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, store: &watched{Store: s, changed: make(chan struct{})}}
}

// options never wait long for a look, always the longest for an attempt, and
// never cut off.
func (b *bench) options() Options {
	opt := Options{
		Poll: 5 * time.Millisecond, Random: func() float64 { return math.Nextafter(1, 0) }, CutOffAfter: math.MaxInt32,
		Backoff: backoff.Policy{Base: time.Second, Cap: time.Hour, Attempts: 5, Factor: 2},
	}
	if b.clock != nil {
		opt.Now = b.clock.Now
	}
	return opt
}

// start runs a relay until the test or the returned function ends it.
func (b *bench) start(opt Options, destinations ...Destination) (*Relay, func()) {
	b.Helper()
	r, err := New(b.store, destinations, opt)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		if err := r.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return r, stop
}

// put queues a message for each body, in one lane, and returns their ids.
func (b *bench) put(destination, lane string, bodies ...string) []string {
	b.Helper()
	var ids []string
	err := b.store.Store.InTx(b.Context(), store.TxOptions{}, func(tx store.Tx) error {
		ids = nil
		now, err := b.store.Now(b.Context())
		if err != nil {
			return err
		}
		var messages []store.Message
		for _, body := range bodies {
			b.made++
			id := fmt.Sprintf("msg_%06d", b.made)
			ids = append(ids, id)
			messages = append(messages, store.Message{
				ID: id, Destination: destination, Type: "payment.captured", Account: "stripe-es", Payment: lane, Order: "order-" + lane,
				Cause: id, Lane: lane, Sequence: int64(b.made), Body: []byte(body), State: store.MessagePending, CreatedAt: now, NextAt: now,
			})
		}
		if err := tx.InsertMessages(b.Context(), messages); err != nil {
			return err
		}
		var work []store.Work
		for _, m := range messages {
			work = append(work, store.Work{Queue: store.QueueOutbox(destination), ID: m.ID, Lane: lane})
		}
		return tx.Enqueue(b.Context(), work)
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

// await waits until the condition holds, looking again whenever the ledger changed.
func (b *bench) await(what string, holds func() bool) {
	b.Helper()
	limit := time.After(awaitWithin)
	for {
		changed, _ := b.store.next()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			b.Fatalf("waited too long until %s", what)
		}
	}
}

// looked waits until relays have looked for work some more times, so that
// whatever they could do by now has begun.
func (b *bench) looked() {
	b.Helper()
	_, from := b.store.next()
	b.await("relays looked again", func() bool { _, n := b.store.next(); return n >= from+6 })
}

func (b *bench) message(id string) store.Message {
	b.Helper()
	return view(b, func(r store.Reader) (store.Message, error) { return r.Message(b.Context(), id) })
}

func (b *bench) attempts(id string) []store.Attempt {
	b.Helper()
	return view(b, func(r store.Reader) ([]store.Attempt, error) { return r.Attempts(b.Context(), id) })
}

// exceptions returns the kind, reason and state of the message's exceptions.
func (b *bench) exceptions(id string) (all []string) {
	b.Helper()
	rows := view(b, func(r store.Reader) ([]store.Exception, error) {
		return r.Exceptions(b.Context(), store.List{Where: map[string]string{"message": id}, Limit: 100})
	})
	for _, e := range rows {
		all = append(all, e.Kind+" "+e.Reason+" "+e.State)
	}
	return all
}

func view[T any](b *bench, read func(store.Reader) (T, error)) T {
	b.Helper()
	var v T
	err := b.store.Store.View(b.Context(), func(r store.Reader) (err error) {
		v, err = read(r)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// is says whether all messages have come to the state.
func (b *bench) is(state store.MessageState, ids ...string) func() bool {
	return func() bool {
		rows := view(b, func(r store.Reader) ([]store.Message, error) { return r.MessagesByID(b.Context(), ids) })
		if len(rows) != len(ids) {
			b.Fatalf("%d of %d messages are there", len(rows), len(ids))
		}
		ids = nil
		for _, m := range rows {
			if m.State != state {
				ids = append(ids, m.ID)
			}
		}
		return len(ids) == 0
	}
}

func verdicts(attempts []store.Attempt) (all []string) {
	for i, a := range attempts {
		if a.Number != i+1 {
			all = append(all, fmt.Sprintf("number %d", a.Number))
		}
		all = append(all, a.Verdict)
	}
	return all
}

// hit is one request that a shop got.
type hit struct {
	id, body string
	header   http.Header
}

// shop is a merchant's system: it notes every request and answers as told.
type shop struct {
	*httptest.Server
	mu   sync.Mutex
	hits []hit
}

// newShop answers with the status that answer gives for the n-th request with
// an id; 0 hangs up.
func newShop(t testing.TB, answer func(h hit, nth int) int) *shop {
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		h := hit{r.Header.Get("webhook-id"), string(body), r.Header}
		s.mu.Lock()
		s.hits = append(s.hits, h)
		nth := 0
		for _, other := range s.hits {
			if other.id == h.id {
				nth++
			}
		}
		s.mu.Unlock()
		status := answer(h, nth)
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

func takesAll(hit, int) int { return http.StatusOK }

// got returns the bodies in the order of their arrival.
func (s *shop) got() (bodies []string) {
	for _, h := range s.all() {
		bodies = append(bodies, h.body)
	}
	return bodies
}

func (s *shop) all() []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits...)
}

func (s *shop) destination(name string) Destination {
	return Destination{Name: name, URL: s.URL + "/hook", Types: []string{"*"}, Secrets: []provider.Secret{textSecret}, AllowPrivate: true}
}

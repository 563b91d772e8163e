package outbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verified checks a request as a receiver of Standard Webhooks would, with one
// secret, and nothing of ours.
func verified(h hit, key []byte) bool {
	signed := h.header.Get("webhook-id") + "." + h.header.Get("webhook-timestamp") + "." + h.body
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for entry := range strings.FieldsSeq(h.header.Get("webhook-signature")) {
		if version, value, ok := strings.Cut(entry, ","); ok && version == "v1" && value == want {
			return true
		}
	}
	return false
}

// R3.1: what is stored in the outbox is delivered to each destination, bytes
// exact, signed with each secret, and marked. R3.2: with its id as the key.
func TestDelivers(t *testing.T) {
	b := newBench(t)
	one, two := newShop(t, takesAll), newShop(t, func(hit, int) int { return http.StatusAccepted })
	first, second := one.destination("one"), two.destination("two")
	first.Secrets = []provider.Secret{whsec(32), textSecret}
	ids := b.put("one", "pay_1", `{"n":1}`, "{\"n\":\"é\"}\n")
	ids = append(ids, b.put("two", "pay_1", `{"n":3}`)...)
	b.start(b.options(), first, second)
	ids = append(ids, b.put("one", "pay_2", `{"n":4}`)...)
	b.await("all are delivered", b.is(store.MessageDelivered, ids...))

	hits := append(one.all(), two.all()...)
	if len(hits) != 4 || !slices.Equal(two.got(), []string{`{"n":3}`}) {
		t.Errorf("arrived: %q and %q", one.got(), two.got())
	}
	for _, h := range hits {
		m := b.message(h.id)
		if h.body != string(m.Body) || h.header.Get("Idempotency-Key") != m.ID || h.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s arrived as %q with %v", m.ID, h.body, h.header)
		}
		if !verified(h, []byte(textSecret)) || m.Destination == "one" && !verified(h, make([]byte, 32)) || verified(h, []byte("another text of 16 bytes")) {
			t.Errorf("%s does not verify: %v", m.ID, h.header)
		}
		if h.header.Get("webhook-timestamp") != fmt.Sprint(b.clock.Now().Unix()) {
			t.Errorf("time stamp %s", h.header.Get("webhook-timestamp"))
		}
	}
	for _, id := range ids {
		m, a := b.message(id), b.attempts(id)
		if len(a) != 1 || a[0].Verdict != VerdictDelivered || a[0].Status/100 != 2 || m.Attempts != 1 || !m.DeliveredAt.Equal(b.clock.Now()) {
			t.Errorf("%s: %+v, attempts %+v", id, m, a)
		}
		if found := b.exceptions(id); len(found) != 0 {
			t.Errorf("%s: %q", id, found)
		}
	}
}

// Within one payment nothing overtakes a message that is being tried again,
// neither what waited with it nor what came later; other payments go on.
func TestOrderHoldsWhileTheHeadIsTried(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(h hit, nth int) int {
		if h.body == "a1" && nth <= 2 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	ids := b.put("shop", "pay_a", "a1", "a2")
	b.start(b.options(), s.destination("shop"))
	b.await("a1 is refused", func() bool { return len(b.attempts(ids[0])) == 1 })
	other := b.put("shop", "pay_b", "b1")
	ids = append(ids, b.put("shop", "pay_a", "a3")...)
	b.await("b1 is delivered", b.is(store.MessageDelivered, other...))
	b.looked()
	if got := s.got(); !slices.Equal(got, []string{"a1", "b1"}) {
		t.Fatalf("arrived: %q", got)
	}
	b.clock.advance(time.Second) // after the first failure up to 1 s
	b.await("a1 is refused again", func() bool { return len(b.attempts(ids[0])) == 2 })
	b.clock.advance(time.Second) // after the second up to 2 s
	b.looked()
	if got := s.got(); !slices.Equal(got, []string{"a1", "b1", "a1"}) {
		t.Fatalf("arrived: %q", got)
	}
	b.clock.advance(time.Second)
	b.await("all are delivered", b.is(store.MessageDelivered, ids...))
	if got := s.got(); !slices.Equal(got, []string{"a1", "b1", "a1", "a1", "a2", "a3"}) {
		t.Errorf("arrived: %q", got)
	}
	// R3.2: one key over all attempts.
	for _, h := range s.all() {
		if h.body == "a1" && h.id != ids[0] {
			t.Errorf("a1 came as %s and %s", ids[0], h.id)
		}
	}
	if got := verdicts(b.attempts(ids[0])); !slices.Equal(got, []string{VerdictRefused, VerdictRefused, VerdictDelivered}) {
		t.Errorf("attempts: %q", got)
	}
}

// R6.1: after its attempts a message is dead and an exception; the next ones go on.
func TestDeadAfterItsAttempts(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(h hit, nth int) int {
		if h.body == "poison" {
			return http.StatusBadRequest
		}
		return http.StatusOK
	})
	ids := b.put("shop", "pay_1", "poison", "next")
	b.start(b.options(), s.destination("shop"))
	for n := 1; n < 5; n++ {
		b.await("an attempt", func() bool { return len(b.attempts(ids[0])) == n })
		b.clock.advance(time.Minute)
	}
	b.await("the next is delivered", b.is(store.MessageDelivered, ids[1]))
	m := b.message(ids[0])
	if m.State != store.MessageDead || m.Attempts != 5 || m.LastError != "answered 400" {
		t.Errorf("%+v", m)
	}
	if got := b.exceptions(ids[0]); !slices.Equal(got, []string{"dead_letter attempts_exhausted open"}) {
		t.Errorf("exceptions %q", got)
	}
	e := view(b, func(r store.Reader) ([]store.Exception, error) {
		return r.Exceptions(b.Context(), store.List{Where: map[string]string{"kind": "dead_letter"}, Limit: 10})
	})[0]
	if e.Payment != "pay_1" || e.Order != "order-pay_1" || e.Account != "stripe-es" || e.Subject != ids[0] ||
		!strings.Contains(string(e.Detail), `"status":400`) || !strings.Contains(string(e.Detail), `"attempts":5`) {
		t.Errorf("%+v %s", e, e.Detail)
	}
}

// R3.4: a pause that the destination asks for holds everything for it, and
// nothing for others; it is bounded.
func TestRetryAfter(t *testing.T) {
	b := newBench(t)
	var status atomic.Int64
	status.Store(http.StatusTooManyRequests)
	busy := newShop(t, takesAll)
	busy.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.mu.Lock()
		busy.hits = append(busy.hits, hit{id: r.Header.Get("webhook-id")})
		busy.mu.Unlock()
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(int(status.Load()))
	})
	free := newShop(t, takesAll)
	ids := b.put("busy", "pay_1", "1")
	r, _ := b.start(b.options(), busy.destination("busy"), free.destination("free"))
	b.await("it is refused", func() bool { return len(b.attempts(ids[0])) == 1 })
	status.Store(http.StatusOK)
	b.clock.advance(119 * time.Second)
	ids = append(ids, b.put("busy", "pay_2", "2")...)
	b.await("the other has its own", b.is(store.MessageDelivered, b.put("free", "pay_1", "3")...))
	b.looked()
	if n := len(busy.all()); n != 1 {
		t.Errorf("%d requests within the pause", n)
	}
	states, err := r.States(t.Context())
	if err != nil || states[0].HeldUntil.Sub(b.clock.Now()) != time.Second || !states[1].HeldUntil.IsZero() {
		t.Errorf("states %+v, %v", states, err)
	}
	b.clock.advance(2 * time.Second) // the pause, and up to a second of jitter
	b.await("all are delivered", b.is(store.MessageDelivered, ids...))

	opt := b.options()
	opt.RetryAfterMax = time.Minute
	idle, err := New(b.store, []Destination{busy.destination("busy")}, opt)
	if err != nil {
		t.Fatal(err)
	}
	g := idle.groups["busy"]
	g.hold(outcome{paused: true, pause: 24 * time.Hour})
	if held := time.UnixMicro(g.heldUntil.Load()).Sub(b.clock.Now()); held != time.Minute {
		t.Errorf("a day's pause holds for %s", held)
	}
}

// R3.4: a destination that fails is cut off; one that hangs fills its own slots
// alone; others have everything meanwhile.
func TestOthersDoNotNotice(t *testing.T) {
	b := newBench(t)
	release := make(chan struct{})
	down := newShop(t, func(hit, int) int { return http.StatusInternalServerError })
	slow := newShop(t, func(hit, int) int { <-release; return http.StatusOK })
	well := newShop(t, takesAll)
	hanging := slow.destination("slow")
	hanging.Concurrency = 3
	var ids, stuck []string
	for n := range 20 {
		lane := fmt.Sprint("pay_", n)
		b.put("down", lane, "x")
		stuck = append(stuck, b.put("slow", lane, "x")...)
		ids = append(ids, b.put("well", lane, "x", "y")...)
	}
	opt := b.options()
	opt.CutOffAfter, opt.CutOffFor = 5, time.Hour
	r, _ := b.start(opt, down.destination("down"), hanging, well.destination("well"))
	b.await("the well one has all", b.is(store.MessageDelivered, ids...))
	b.await("the breaker opens", func() bool {
		states, err := r.States(t.Context())
		return err == nil && states[0].Breaker == "open" && states[0].InFlight == 0
	})
	b.looked()
	if n := len(down.all()); n < 5 || n > 5+DefaultConcurrency {
		t.Errorf("%d requests to the failing one", n)
	}
	if n := len(slow.all()); n > 3 {
		t.Errorf("%d requests at once to the hanging one", n)
	}
	states, err := r.States(t.Context())
	if err != nil || states[1].Breaker != "closed" || states[2].Breaker != "closed" {
		t.Errorf("%+v, %v", states, err)
	}
	close(release)
	b.await("the hanging one has all", b.is(store.MessageDelivered, stuck...))
}

// R3.4: a destination that was cut off is probed, one attempt at a time, and has
// everything when it is back.
func TestBreakerCloses(t *testing.T) {
	b := newBench(t)
	var up atomic.Bool
	var inside, most atomic.Int64
	s := newShop(t, func(hit, int) int {
		if up.Load() {
			return http.StatusOK
		}
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		return http.StatusBadGateway
	})
	opt := b.options()
	opt.CutOffAfter, opt.CutOffFor = 1, time.Millisecond
	opt.Backoff.Attempts = 1 << 20
	d := s.destination("shop")
	ids := b.put("shop", "pay_0", "x")
	b.start(opt, d)
	b.await("it is cut off", func() bool { return len(s.all()) >= 1 })
	most.Store(0)
	for n := range 20 {
		ids = append(ids, b.put("shop", fmt.Sprint("pay_", n+1), "x")...)
	}
	b.await("probes", func() bool { return len(s.all()) > 10 })
	if n := most.Load(); n > 1 {
		t.Errorf("%d attempts at once while on probation", n)
	}
	up.Store(true)
	for !b.is(store.MessageDelivered, ids...)() {
		b.looked()
		b.clock.advance(time.Hour)
	}
}

// R8.5: several relays share the work; in normal running each message comes
// once, in order per payment.
func TestTwoRelays(t *testing.T) {
	b := newBench(t)
	twoRelays(b, b.store.Store)
}

// twoRelays runs one relay over each of two handles on one ledger.
func twoRelays(b *bench, other store.Store) {
	s := newShop(b, takesAll)
	_, one := b.start(b.options(), s.destination("shop"))
	handle := &bench{T: b.T, clock: b.clock, store: &watched{Store: other, changed: make(chan struct{})}}
	_, two := handle.start(b.options(), s.destination("shop"))
	var ids []string
	for n := range 300 {
		ids = append(ids, b.put("shop", fmt.Sprint("pay_", n%40), fmt.Sprintf("%d %06d", n%40, n))...)
	}
	b.await("all are delivered", b.is(store.MessageDelivered, ids...))
	one()
	two()
	if got := s.all(); len(got) != len(ids) {
		b.Errorf("%d requests for %d messages", len(got), len(ids))
	}
	inOrder(b, s)
}

// inOrder checks that each payment's messages arrived first in their order, and
// returns how many different ones arrived.
func inOrder(b *bench, s *shop) int {
	b.Helper()
	seen, last := map[string]bool{}, map[string]string{}
	for _, h := range s.all() {
		if seen[h.id] {
			continue
		}
		seen[h.id] = true
		lane, n, _ := strings.Cut(h.body, " ")
		if n <= last[lane] {
			b.Errorf("payment %s: %s after %s", lane, n, last[lane])
		}
		last[lane] = n
	}
	return len(seen)
}

// A stop ends what is under way within the time it is given, and cuts off what
// is not; that is then unknown and no fault of the destination.
func TestStop(t *testing.T) {
	b := newBench(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	s := newShop(t, func(hit, int) int { arrived <- struct{}{}; <-release; return http.StatusOK })
	r, err := New(b.store, []Destination{s.destination("shop")}, b.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Errorf("stopping what never started: %v", err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.Start(t.Context()) == nil {
		t.Error("a relay starts twice")
	}
	ids := b.put("shop", "pay_1", "1", "2")
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	var stopping sync.WaitGroup
	stopping.Go(func() {
		if err := r.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped with %v", err)
		}
	})
	cancel()
	stopping.Wait()
	close(release)
	if got := verdicts(b.attempts(ids[0])); !slices.Equal(got, []string{VerdictUnknown}) {
		t.Errorf("attempts %q", got)
	}
	if got := b.attempts(ids[1]); len(got) != 0 {
		t.Errorf("the next began: %+v", got)
	}
	b.clock.advance(time.Minute)
	b.start(b.options(), s.destination("shop"))
	b.await("all are delivered", b.is(store.MessageDelivered, ids...))
}

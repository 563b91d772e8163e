package outbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/store"
)

// lapse leaves a message as a relay does that dies: claimed, and, if begun,
// counted as well. Its lease has run out afterwards.
func (b *bench) lapse(destination string, begun bool) {
	b.Helper()
	queue := store.QueueOutbox(destination)
	claim, err := b.store.Store.Claim(b.Context(), store.ClaimRequest{Queue: queue, Lanes: 1, PerLane: 1, Lease: time.Minute, Ordered: true})
	if err != nil || len(claim.Items) != 1 {
		b.Fatalf("claimed %+v, %v", claim, err)
	}
	if begun {
		err := b.store.Store.InTx(b.Context(), store.TxOptions{}, func(tx store.Tx) error {
			return tx.CountAttempt(b.Context(), queue, claim.Token, []string{claim.Items[0].ID})
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.clock.advance(time.Minute + time.Second)
}

func keyless(s *shop) Destination {
	no := false
	d := s.destination("shop")
	d.Idempotent = &no
	return d
}

// R3.2, R6.6: a relay that dies between the remote success and its mark leaves
// the message to be sent again, with the same id and key.
func TestCrashBeforeTheMarkRepeatsTheSameKey(t *testing.T) {
	b := newBench(t)
	s := newShop(t, takesAll)
	id := b.put("shop", "pay_1", "x")[0]
	b.lapse("shop", true)
	m := b.message(id)
	if o := testSender(t, s.destination("shop"), b.options()).send(t.Context(), &m); o.verdict != VerdictDelivered {
		t.Fatalf("%+v", o)
	}
	b.start(b.options(), s.destination("shop"))
	b.await("it is delivered", b.is(store.MessageDelivered, id))
	hits := s.all()
	if len(hits) != 2 || hits[0].id != id || hits[1].id != id || hits[1].header.Get("Idempotency-Key") != id {
		t.Errorf("arrived: %+v", hits)
	}
	a := b.attempts(id)
	if got := verdicts(a); !slices.Equal(got, []string{VerdictUnknown, VerdictDelivered}) || a[0].Error != errorLost {
		t.Errorf("attempts %+v", a)
	}
}

// R6.3: a message that ends its relay each time ends in the dead letters.
func TestEveryAttemptLost(t *testing.T) {
	b := newBench(t)
	s := newShop(t, takesAll)
	ids := b.put("shop", "pay_1", "x", "y")
	for range 5 {
		b.lapse("shop", true)
	}
	b.start(b.options(), s.destination("shop"))
	b.await("the next is delivered", b.is(store.MessageDelivered, ids[1]))
	if m := b.message(ids[0]); m.State != store.MessageDead || !slices.Equal(s.got(), []string{"y"}) {
		t.Errorf("%+v; arrived %q", m, s.got())
	}
	if got := b.exceptions(ids[0]); !slices.Equal(got, []string{"dead_letter attempts_exhausted open"}) {
		t.Errorf("exceptions %q", got)
	}
}

// R3.3: where a repetition would not be recognized, an attempt with an unclear
// end stops for a person, and nothing sends the message again.
func TestUnclearAttemptStops(t *testing.T) {
	for name, answer := range map[string]int{"hangs up": 0, "gateway without an answer": 502, "gateway times out": 504} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s := newShop(t, func(h hit, nth int) int {
				if h.body == "x" {
					return answer
				}
				return http.StatusOK
			})
			ids := b.put("shop", "pay_1", "x", "y")
			_, stop := b.start(b.options(), keyless(s))
			b.await("the next is delivered", b.is(store.MessageDelivered, ids[1]))
			b.clock.advance(24 * time.Hour)
			b.looked()
			stop()
			b.start(b.options(), keyless(s))
			b.looked()
			if got := s.got(); !slices.Equal(got, []string{"x", "y"}) {
				t.Errorf("arrived: %q", got)
			}
			if m := b.message(ids[0]); m.State != store.MessageAmbiguous || m.Attempts != 1 {
				t.Errorf("%+v", m)
			}
			if got := b.exceptions(ids[0]); !slices.Equal(got, []string{"ambiguous_message attempt_unclear open"}) {
				t.Errorf("exceptions %q", got)
			}
		})
	}
}

// R3.3: the same holds for an attempt that was begun by a relay that died, and
// only for such a one.
func TestLostAttemptStops(t *testing.T) {
	for _, begun := range []bool{true, false} {
		b := newBench(t)
		s := newShop(t, takesAll)
		ids := b.put("shop", "pay_1", "x", "y")
		b.lapse("shop", begun)
		b.start(b.options(), keyless(s))
		b.await("the next is delivered", b.is(store.MessageDelivered, ids[1]))
		state, arrived := store.MessageDelivered, []string{"x", "y"}
		if begun {
			state, arrived = store.MessageAmbiguous, []string{"y"}
		}
		if m := b.message(ids[0]); m.State != state || !slices.Equal(s.got(), arrived) {
			t.Errorf("begun %t: %+v, arrived %q", begun, m, s.got())
		}
	}
}

// R3.3: what was not sent, or was refused, is tried again there too.
func TestClearFailuresAreTriedAgain(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(h hit, nth int) int {
		if nth == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	id := b.put("shop", "pay_1", "x")[0]
	nobody := keyless(s)
	nobody.URL = "http://127.0.0.1:1/"
	_, stop := b.start(b.options(), nobody)
	b.await("it is not sent", func() bool { return len(b.attempts(id)) == 1 })
	stop()
	b.clock.advance(time.Second)
	b.start(b.options(), keyless(s))
	b.await("it is refused", func() bool { return len(b.attempts(id)) == 2 })
	b.clock.advance(2 * time.Second)
	b.await("it is delivered", b.is(store.MessageDelivered, id))
	if got := verdicts(b.attempts(id)); !slices.Equal(got, []string{VerdictNotSent, VerdictRefused, VerdictDelivered}) {
		t.Errorf("attempts %q", got)
	}
}

// R3.3: a person decides; the message goes out under the id that it had, and a
// relay that dies on the way makes it ambiguous anew.
func TestRetryByAPerson(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(h hit, nth int) int {
		if nth == 1 {
			return 0
		}
		return http.StatusOK
	})
	id := b.put("shop", "pay_1", "x")[0]
	r, stop := b.start(b.options(), keyless(s))
	b.await("it is ambiguous", b.is(store.MessageAmbiguous, id))
	stop()
	if err := r.Retry(t.Context(), id, "", "why"); !errors.Is(err, ErrWho) {
		t.Errorf("retried by nobody: %v", err)
	}
	if err := r.Retry(t.Context(), "msg_none", "ana", "why"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("retrying nothing: %v", err)
	}
	if err := r.Retry(t.Context(), id, "ana", "the shop has not seen it"); err != nil {
		t.Fatal(err)
	}
	if err := r.Retry(t.Context(), id, "eva", "me too"); !errors.Is(err, ErrNotStopped) {
		t.Errorf("retried twice: %v", err)
	}
	if got := b.exceptions(id); !slices.Equal(got, []string{"ambiguous_message attempt_unclear resolved"}) {
		t.Errorf("exceptions %q", got)
	}
	b.lapse("shop", true)
	_, stop = b.start(b.options(), keyless(s))
	b.await("it is ambiguous again", b.is(store.MessageAmbiguous, id))
	stop()
	if got := b.exceptions(id); len(s.all()) != 1 || !slices.Equal(got, []string{"ambiguous_message attempt_unclear open"}) {
		t.Errorf("%d requests, exceptions %q", len(s.all()), got)
	}
	if err := r.Retry(t.Context(), id, "ana", "still not"); err != nil {
		t.Fatal(err)
	}
	b.start(b.options(), keyless(s))
	b.await("it is delivered", b.is(store.MessageDelivered, id))
	hits := s.all()
	if len(hits) != 2 || hits[1].id != id {
		t.Errorf("arrived: %+v", hits)
	}
	if got := verdicts(b.attempts(id)); !slices.Equal(got, []string{VerdictUnknown, VerdictUnknown, VerdictDelivered}) {
		t.Errorf("attempts %q", got)
	}
	chain := view(b, func(r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(t.Context(), id) })
	if len(chain) != 2 || chain[0].Actor != "ana" || string(chain[0].Detail) !=
		`{"reason":"the shop has not seen it","attempts":1,"destination":"shop","state":"ambiguous"}` {
		t.Errorf("audit %+v", chain)
	}
	if err := r.Retry(t.Context(), id, "ana", "again"); !errors.Is(err, ErrNotStopped) {
		t.Errorf("retrying what is delivered: %v", err)
	}
}

// Of people who retry at once, one does.
func TestRetryAtOnce(t *testing.T) { retryAtOnce(newBench(t)) }

func retryAtOnce(b *bench) {
	s := newShop(b, func(hit, int) int { return http.StatusGone })
	id := b.put("shop", "pay_1", "x")[0]
	r, stop := b.start(b.options(), s.destination("shop"))
	b.await("it is dead", b.is(store.MessageDead, id))
	stop()
	var done atomic.Int64
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			err := r.Retry(b.Context(), id, fmt.Sprint("person ", n), "why")
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, ErrNotStopped) {
				b.Error(err)
			}
		})
	}
	all.Wait()
	if n := done.Load(); n != 1 {
		b.Errorf("%d retries", n)
	}
}

// A ledger that fails while the result is recorded costs no repetition as long
// as the lease lasts, whether it failed before or after the commit.
func TestMarkIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		before func() error
		after  func(error) error
	}{
		"unavailable":              {before: func() error { return store.ErrUnavailable }},
		"busy":                     {before: func() error { return store.ErrBusy }},
		"committed and unknown":    {after: func(err error) error { return errors.Join(store.ErrCommitUnknown, err) }},
		"rolled back and unknown":  {before: func() error { return store.ErrCommitUnknown }},
		"some error of the driver": {before: func() error { return errors.New("broken") }},
	} {
		for _, status := range []int{http.StatusOK, http.StatusGone, http.StatusInternalServerError} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				b := newBench(t)
				var failures atomic.Int64
				once := func(fails func() error) error {
					if failures.Add(-1) >= 0 {
						return fails()
					}
					return nil
				}
				// It fails from the request on, three times.
				s := newShop(t, func(h hit, nth int) int {
					failures.Store(3)
					var before func() error
					var after func(error) error
					if c.before != nil {
						before = func() error { return once(c.before) }
					}
					if c.after != nil {
						after = func(err error) error { return errors.Join(err, once(func() error { return c.after(nil) })) }
					}
					b.store.fail(before, after)
					return status
				})
				id := b.put("shop", "pay_1", "x")[0]
				r, _ := b.start(b.options(), keyless(s))
				registry := prometheus.NewRegistry()
				registry.MustRegister(r.Collectors()...)
				b.await("it is recorded", func() bool { return len(b.attempts(id)) == 1 })
				b.looked()
				b.store.fail(nil, nil)
				b.clock.advance(500 * time.Millisecond)
				b.await("the relay knows", func() bool {
					counted := 0.0
					for name, n := range gather(t, registry) {
						if strings.HasPrefix(name, "unavez_deliveries_total ") {
							counted += n
						}
					}
					return counted == 1
				})
				want := map[int]store.MessageState{200: store.MessageDelivered, 410: store.MessageDead, 500: store.MessagePending}[status]
				if m := b.message(id); m.State != want || len(s.all()) != 1 || m.Attempts != 1 {
					t.Errorf("%+v after %d requests", m, len(s.all()))
				}
			})
		}
	}
}

// Nothing is sent whose count is not surely committed; no attempt is lost by it.
func TestCountInDoubtSendsNothing(t *testing.T) {
	for name, after := range map[string]bool{"committed": true, "rolled back": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s := newShop(t, takesAll)
			id := b.put("shop", "pay_1", "x")[0]
			var first atomic.Bool
			doubt := func() error {
				if first.CompareAndSwap(false, true) {
					if n := len(s.all()); n != 0 {
						t.Errorf("%d requests before the count", n)
					}
					return store.ErrCommitUnknown
				}
				return nil
			}
			if after {
				b.store.fail(nil, func(err error) error { return errors.Join(err, doubt()) })
			} else {
				b.store.fail(doubt, nil)
			}
			b.start(b.options(), keyless(s))
			b.await("it is delivered", b.is(store.MessageDelivered, id))
			if got := verdicts(b.attempts(id)); !slices.Equal(got, []string{VerdictDelivered}) || len(s.all()) != 1 {
				t.Errorf("attempts %q, %d requests", got, len(s.all()))
			}
		})
	}
}

// R3.2, R3.4, R6.6: whatever shops answer and however relays come and go, each
// message arrives, under one id, and first arrivals keep the payment's order.
func TestDisorder(t *testing.T) {
	b := newBench(t)
	opt := b.options()
	opt.Backoff.Attempts = 1000
	disorder(b, opt, func() { b.clock.advance(time.Hour) })
}

func disorder(b *bench, opt Options, later func()) {
	seed := rand.Uint64()
	b.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	s := newShop(b, func(h hit, nth int) int {
		mu.Lock()
		defer mu.Unlock()
		return []int{0, 200, 200, 200, 500, 429, 301}[random.IntN(7)]
	})
	var ids []string
	for n := range 75 {
		ids = append(ids, b.put("shop", fmt.Sprint("pay_", n%15), fmt.Sprintf("%d %06d", n%15, n))...)
	}
	for !b.is(store.MessageDelivered, ids...)() {
		_, one := b.start(opt, s.destination("shop"))
		_, two := b.start(opt, s.destination("shop"))
		b.looked()
		one()
		b.looked()
		two()
		later()
	}
	if n := inOrder(b, s); n != len(ids) {
		b.Errorf("%d ids arrived of %d messages", n, len(ids))
	}
}

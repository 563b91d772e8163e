package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unavez/unavez/idempotency"
	"github.com/unavez/unavez/internal/pgtest"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
	"github.com/unavez/unavez/store/storetest"
)

// desk is a handler behind a keeper, with a clock of its own.
type desk struct {
	t      *testing.T
	store  store.Store
	keeper *idempotency.Keeper
	served atomic.Int64
	mu     sync.Mutex
	now    time.Time
	// answer is what the handler does; it counts itself.
	answer http.HandlerFunc
	redact func([]byte) []byte
}

const lifetime = 24 * time.Hour

func newDesk(t *testing.T, s store.Store) *desk {
	t.Helper()
	d := &desk{t: t, store: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	d.answer = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/made/1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"run":%d,"bytes":%d}`, d.served.Load(), len(body))
	}
	k, err := idempotency.New(s, idempotency.Options{
		Lifetime: lifetime, SweepBatch: 2, Clock: func(context.Context) (time.Time, error) { return d.clock(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.keeper = k
	return d
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// statuses of refusals in these tests, so that an answer tells which it was.
var statuses = []struct {
	err    error
	status int
}{
	{idempotency.ErrMalformed, 400}, {idempotency.ErrReused, 422}, {idempotency.ErrInProgress, 409}, {idempotency.ErrExpired, 410},
	{idempotency.ErrNotKept, 503},
}

func (d *desk) handler() http.Handler {
	return d.keeper.Handler(idempotency.Route{
		Principal: func(r *http.Request) string { return r.Header.Get("X-Caller") },
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
			for _, s := range statuses {
				if errors.Is(err, s.err) {
					w.WriteHeader(s.status)
					return
				}
			}
			w.WriteHeader(500)
		},
		Redact: d.redact,
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.served.Add(1)
		d.answer(w, r)
	}))
}

type sent struct {
	caller, key, path, body string
}

func (d *desk) send(s sent) *httptest.ResponseRecorder {
	d.t.Helper()
	return d.sendWith(d.t.Context(), s)
}

func (d *desk) sendWith(ctx context.Context, s sent) *httptest.ResponseRecorder {
	if s.path == "" {
		s.path = "/things"
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, s.path, strings.NewReader(s.body))
	r.Header.Set("X-Caller", s.caller)
	if s.key != "" {
		r.Header.Set(idempotency.Header, s.key)
	}
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, r)
	return w
}

func (d *desk) expect(w *httptest.ResponseRecorder, status int, replayed bool, runs int64) {
	d.t.Helper()
	if w.Code != status || (w.Header().Get(idempotency.Replayed) == "true") != replayed || d.served.Load() != runs {
		d.t.Fatalf("status %d, replayed %q, %d runs, want %d, %t, %d: %s", w.Code, w.Header().Get(idempotency.Replayed),
			d.served.Load(), status, replayed, runs, w.Body)
	}
}

func eachStore(t *testing.T, test func(t *testing.T, open func() store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		test(t, func() store.Store {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			return ready(t, s, err)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.URL(t)
		test(t, func() store.Store {
			s, err := postgres.Open(t.Context(), url, postgres.Options{})
			return ready(t, s, err)
		})
	})
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

// R5.1: the finished answer is replayed as it was, whatever the spaces and the
// order of members; another payload is refused; other callers have keys of
// their own; a request without a key is run each time.
func TestReplay(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		first := d.send(sent{"ana", "k-1", "", `{"a":1,"b":2}`})
		d.expect(first, 201, false, 1)
		for _, same := range []sent{
			{"ana", "k-1", "", `{"a":1,"b":2}`}, {"ana", `"k-1"`, "", `{"a":1,"b":2}`}, {"ana", "k-1", "", "{ \"b\" : 2,\n\"a\":1}"},
		} {
			again := d.send(same)
			d.expect(again, 201, true, 1)
			if !bytes.Equal(again.Body.Bytes(), first.Body.Bytes()) || again.Header().Get("Location") != "/made/1" ||
				again.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("replay differs: %v %s", again.Header(), again.Body)
			}
		}
		for _, other := range []sent{
			{"ana", "k-1", "", `{"a":1,"b":3}`}, {"ana", "k-1", "/others", `{"a":1,"b":2}`}, {"ana", "k-1", "/things?x=1", `{"a":1,"b":2}`},
			{"ana", "k-1", "", ``}, {"ana", "k-1", "", `not json`},
		} {
			d.expect(d.send(other), 422, false, 1)
		}
		d.expect(d.send(sent{"ben", "k-1", "", `{"a":1,"b":2}`}), 201, false, 2)
		d.expect(d.send(sent{"ana", "", "", `{"a":1,"b":2}`}), 201, false, 3)
		d.expect(d.send(sent{"ana", "", "", `{"a":1,"b":2}`}), 201, false, 4)
	})
}

// R5.1: two amounts that floating point cannot tell apart are two payloads.
func TestDigitsAreKept(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		d.expect(d.send(sent{"ana", "big", "", `{"value":9007199254740993}`}), 201, false, 1)
		d.expect(d.send(sent{"ana", "big", "", `{"value":9007199254740992}`}), 422, false, 1)
		d.expect(d.send(sent{"ana", "big", "", `{"value":9007199254740993.0}`}), 422, false, 1)
		d.expect(d.send(sent{"ana", "big", "", `{"value":9007199254740993}`}), 201, true, 1)
	})
}

func TestMalformedKeys(t *testing.T) {
	d := newDesk(t, openOne(t))
	for name, key := range map[string]string{
		"too long": strings.Repeat("x", 256), "space": "a b", "control": "a\x01b", "not ASCII": "clé", "open quote": `"abc`,
		"quote only": `"`, "empty quoted": `""`, "inner quote": `"a"b"`, "bad escape": `"a\b"`, "parameters": `"abc";v=1`,
		"too long quoted": `"` + strings.Repeat("x", 256) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			if w := d.send(sent{"ana", key, "", "{}"}); w.Code != 400 {
				t.Fatalf("key %q: status %d, want 400", key, w.Code)
			}
		})
	}
	r := httptest.NewRequest(http.MethodPost, "/things", nil)
	r.Header.Add(idempotency.Header, "a")
	r.Header.Add(idempotency.Header, "a")
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, r)
	if w.Code != 400 || d.served.Load() != 0 {
		t.Fatalf("two headers: status %d, %d runs, want 400 and none", w.Code, d.served.Load())
	}
	for _, key := range []string{"!", "~", strings.Repeat("x", 255), `"a\"b\\c"`, ` padded `} {
		if w := d.send(sent{"ana", key, "", "{}"}); w.Code != 201 {
			t.Errorf("key %q: status %d, want 201", key, w.Code)
		}
	}
	if w := d.send(sent{"ana", `a"b\c`, "", "{}"}); w.Header().Get(idempotency.Replayed) != "true" {
		t.Error("the bare form of a quoted key is another key")
	}
}

func openOne(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{})
	return ready(t, s, err)
}

// An answer that refuses or fails is not kept: the request can be mended and
// sent again under the same key.
func TestRefusalsAreNotKept(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		for _, status := range []int{400, 404, 409, 422, 429, 500, 503} {
			t.Run(strconv.Itoa(status), func(t *testing.T) {
				d := newDesk(t, open())
				good := d.answer
				d.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
				key := "k-" + strconv.Itoa(status)
				d.expect(d.send(sent{"ana", key, "", `{"a":1}`}), status, false, 1)
				d.answer = good
				d.expect(d.send(sent{"ana", key, "", `{"a":2}`}), 201, false, 2)
				d.expect(d.send(sent{"ana", key, "", `{"a":2}`}), 201, true, 2)
			})
		}
	})
}

// R5.1: of many equal requests at once one is run; each other is told to wait
// or gets the one answer.
func TestConcurrentRequestsRunOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		inside, leave := make(chan struct{}), make(chan struct{})
		good := d.answer
		d.answer = func(w http.ResponseWriter, r *http.Request) {
			close(inside)
			<-leave
			good(w, r)
		}
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- d.sendWith(context.Background(), sent{"ana", "k", "", "{}"}) }()
		<-inside
		var all sync.WaitGroup
		var progress atomic.Int64
		for range 20 {
			all.Go(func() {
				if w := d.sendWith(context.Background(), sent{"ana", "k", "", "{}"}); w.Code == 409 {
					progress.Add(1)
				}
			})
		}
		all.Wait()
		close(leave)
		d.expect(<-first, 201, false, 1)
		if progress.Load() != 20 {
			t.Fatalf("%d of 20 were told to wait", progress.Load())
		}
		d.expect(d.send(sent{"ana", "k", "", "{}"}), 201, true, 1)
	})
}

// R5.2: an answer is replayed for its lifetime, then the key is refused for as
// long again, and only then is it new. The sweeper touches nothing before that.
func TestLifetime(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			d.send(sent{"ana", key, "", "{}"})
		}
		sweep := func(want int) {
			t.Helper()
			if n, err := d.keeper.Sweep(t.Context()); err != nil || n != want {
				t.Fatalf("swept %d, %v, want %d", n, err, want)
			}
		}
		d.advance(lifetime - time.Microsecond)
		sweep(0)
		d.expect(d.send(sent{"ana", "a", "", "{}"}), 201, true, 5)
		d.advance(time.Microsecond)
		sweep(0)
		d.expect(d.send(sent{"ana", "a", "", "{}"}), 410, false, 5)
		d.expect(d.send(sent{"ana", "a", "", `{"other":1}`}), 410, false, 5)
		d.advance(lifetime - time.Microsecond)
		sweep(0)
		d.expect(d.send(sent{"ana", "a", "", "{}"}), 410, false, 5)
		d.advance(time.Microsecond)
		d.expect(d.send(sent{"ana", "b", "", "{}"}), 201, false, 6)
		d.advance(time.Microsecond)
		sweep(4)
		d.expect(d.send(sent{"ana", "a", "", "{}"}), 201, false, 7)
		d.expect(d.send(sent{"ana", "b", "", "{}"}), 201, true, 7)
	})
}

// R5.2: answers and leases survive a restart, and a key whose request died is
// run again after its lease.
func TestRestart(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		d.send(sent{"ana", "kept", "", "{}"})
		// The process dies between begin and finish: its finish never commits.
		fault := storetest.NewFault(d.store, storetest.Rule{Call: "PutKey", Err: store.ErrUnavailable})
		dying := newDesk(t, fault)
		dying.expect(dying.send(sent{"ana", "died", "", "{}"}), 503, false, 1)

		again := newDesk(t, open())
		again.expect(again.send(sent{"ana", "kept", "", "{}"}), 201, true, 0)
		again.expect(again.send(sent{"ana", "died", "", "{}"}), 409, false, 0)
		again.advance(idempotency.DefaultLease)
		again.expect(again.send(sent{"ana", "died", "", `{"other":1}`}), 422, false, 0)
		again.expect(again.send(sent{"ana", "died", "", "{}"}), 201, false, 1)
		again.expect(again.send(sent{"ana", "died", "", "{}"}), 201, true, 1)
	})
}

// A request that outlived its lease does not overwrite the answer of the one
// that took its key over, and its caller does not get an answer of its own.
func TestTakenOver(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		good := d.answer
		var slow atomic.Bool
		slow.Store(true)
		d.answer = func(w http.ResponseWriter, r *http.Request) {
			if slow.CompareAndSwap(true, false) {
				d.advance(idempotency.DefaultLease)
				if w := d.sendWith(context.Background(), sent{"ana", "k", "", "{}"}); w.Code != 201 {
					t.Errorf("taking over: status %d, want 201", w.Code)
				}
			}
			good(w, r)
		}
		d.expect(d.send(sent{"ana", "k", "", "{}"}), 503, false, 2)
		d.expect(d.send(sent{"ana", "k", "", "{}"}), 201, true, 2)
	})
}

// A hang-up of the caller does not leave its key taken.
func TestHangUp(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() store.Store) {
		d := newDesk(t, open())
		ctx, cancel := context.WithCancel(t.Context())
		good := d.answer
		d.answer = func(w http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			w.WriteHeader(503)
		}
		d.sendWith(ctx, sent{"ana", "k", "", "{}"})
		d.answer = good
		d.expect(d.send(sent{"ana", "k", "", "{}"}), 201, false, 2)
	})
}

func TestPanicFreesTheKey(t *testing.T) {
	d := newDesk(t, openOne(t))
	good := d.answer
	d.answer = func(http.ResponseWriter, *http.Request) { panic("boom") }
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v, want the handler's panic", v)
			}
		}()
		d.send(sent{"ana", "k", "", "{}"})
	}()
	d.answer = good
	d.expect(d.send(sent{"ana", "k", "", "{}"}), 201, false, 2)
}

// A secret of an answer is not stored: the first answer has it, a replay does not.
func TestRedact(t *testing.T) {
	d := newDesk(t, openOne(t))
	d.redact = func([]byte) []byte { return []byte(`{"redacted":true}`) }
	d.answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"secret":"s3cret"}`) }
	if w := d.send(sent{"ana", "k", "", "{}"}); !strings.Contains(w.Body.String(), "s3cret") {
		t.Fatalf("the first answer lacks the secret: %s", w.Body)
	}
	if w := d.send(sent{"ana", "k", "", "{}"}); w.Body.String() != `{"redacted":true}` {
		t.Fatalf("the replay is %s", w.Body)
	}
}

// An answer that could not be stored is not sent: it might never be replayed.
func TestDoubt(t *testing.T) {
	s := openOne(t)
	for key, err := range map[string]error{"doubt": store.ErrCommitUnknown, "lost": store.ErrUnavailable} {
		begun := newDesk(t, storetest.NewFault(s, storetest.Rule{Call: storetest.CallCommit, Nth: 1, After: true, Err: err}))
		begun.expect(begun.send(sent{"ana", "begin-" + key, "", "{}"}), 503, false, 0)
		begun.expect(begun.send(sent{"ana", "begin-" + key, "", "{}"}), 409, false, 0)
		done := newDesk(t, storetest.NewFault(s, storetest.Rule{Call: storetest.CallCommit, Nth: 2, After: true, Err: err}))
		done.expect(done.send(sent{"ana", "finish-" + key, "", "{}"}), 503, false, 1)
		done.expect(done.send(sent{"ana", "finish-" + key, "", "{}"}), 201, true, 1)
	}
}

func TestOptions(t *testing.T) {
	for name, opt := range map[string]idempotency.Options{
		"negative lifetime": {Lifetime: -1}, "negative batch": {SweepBatch: -1}, "lease longer than lifetime": {Lifetime: time.Second},
	} {
		if _, err := idempotency.New(openOne(t), opt); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The sweeper has an owner that waits for it.
func TestStartStop(t *testing.T) {
	d := newDesk(t, openOne(t))
	d.send(sent{"ana", "k", "", "{}"})
	d.advance(2*lifetime + time.Microsecond)
	d.keeper.Start(t.Context())
	d.keeper.Stop()
	d.keeper.Stop()
}

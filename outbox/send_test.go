package outbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// target is a destination with its real server.
func target(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Destination) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	d := good()
	d.URL, d.AllowPrivate = server.URL, true
	return server, d
}

func testSender(t *testing.T, d Destination, opt Options) *sender {
	if err := opt.fill([]Destination{d}); err != nil {
		t.Fatal(err)
	}
	s, err := newSender(d.filled(), &opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func message() *store.Message {
	return &store.Message{ID: "msg_1", Type: "order.fulfill", Body: []byte(`{"a":1}`), State: store.MessagePending}
}

// hangUp ends the connection under the request.
func hangUp(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

func TestVerdictOfAnswers(t *testing.T) {
	no := false
	for _, c := range []struct {
		status           int
		verdict, keyless string // for a destination that recognizes ids, and one that does not
		pauses           bool
	}{
		{200, VerdictDelivered, VerdictDelivered, false},
		{204, VerdictDelivered, VerdictDelivered, false},
		{299, VerdictDelivered, VerdictDelivered, false},
		{300, VerdictRefused, VerdictRefused, false},
		{302, VerdictRefused, VerdictRefused, false},
		{304, VerdictRefused, VerdictRefused, false},
		{307, VerdictRefused, VerdictRefused, false},
		{400, VerdictRefused, VerdictRefused, false},
		{410, VerdictRefused, VerdictRefused, false},
		{429, VerdictRefused, VerdictRefused, true},
		{500, VerdictRefused, VerdictRefused, false},
		{502, VerdictRefused, VerdictUnknown, true},
		{503, VerdictRefused, VerdictRefused, true},
		{504, VerdictRefused, VerdictUnknown, true},
		{599, VerdictRefused, VerdictRefused, false},
	} {
		_, d := target(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
		})
		o := testSender(t, d, Options{}).send(t.Context(), message())
		d.Idempotent = &no
		k := testSender(t, d, Options{}).send(t.Context(), message())
		if o.verdict != c.verdict || k.verdict != c.keyless || o.status != c.status || o.paused != c.pauses {
			t.Errorf("%d: %+v, %+v", c.status, o, k)
		}
		if c.pauses && o.pause != 7*time.Second {
			t.Errorf("%d: pause %s", c.status, o.pause)
		}
	}
}

func TestVerdictWithoutAnswer(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	cases := map[string]struct {
		handler http.HandlerFunc
		url     string
		verdict string
		says    string
	}{
		"nobody listens": {url: closed.URL, verdict: VerdictNotSent, says: "refused"},
		"no such name":   {url: "http://unavez.invalid", verdict: VerdictNotSent},
		"hangs up":       {handler: hangUp, verdict: VerdictUnknown},
		"no HTTP": {verdict: VerdictUnknown, handler: func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Write([]byte("SSH-2.0-no\r\n\r\n"))
			conn.Close()
		}},
	}
	for name, c := range cases {
		_, d := target(t, c.handler)
		if c.url != "" {
			d.URL = c.url
		}
		o := testSender(t, d, Options{}).send(t.Context(), message())
		if o.verdict != c.verdict || o.status != 0 || o.err == "" || !strings.Contains(o.err, c.says) || o.stopped {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// The time limit runs out after the request has arrived: the end is unclear. On
// a slow machine a short limit may run out before; then a longer one is tried.
func TestVerdictTooLate(t *testing.T) {
	arrived := make(chan struct{}, 16)
	slow := make(chan struct{})
	_, d := target(t, func(w http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; <-slow })
	defer close(slow)
	for d.Timeout = 20 * time.Millisecond; d.Timeout <= TimeoutMax; d.Timeout *= 2 {
		o := testSender(t, d, Options{}).send(t.Context(), message())
		select {
		case <-arrived:
			if o.verdict != VerdictUnknown || o.status != 0 || !strings.Contains(o.err, "time limit") || o.stopped {
				t.Errorf("after %s: %+v", d.Timeout, o)
			}
			return
		default:
			if o.verdict == VerdictDelivered {
				t.Fatalf("delivered what never arrived: %+v", o)
			}
		}
	}
	t.Error("no request arrived within any limit")
}

func TestStoppedIsNotTheDestinationsFault(t *testing.T) {
	arrived := make(chan struct{})
	release := make(chan struct{})
	_, d := target(t, func(w http.ResponseWriter, r *http.Request) { close(arrived); <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	o := testSender(t, d, Options{}).send(ctx, message())
	if o.verdict != VerdictUnknown || !o.stopped || !errors.Is(failure(o), errNotTried) {
		t.Errorf("%+v", o)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	_, d := target(t, func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 32<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if o := testSender(t, d, Options{}).send(t.Context(), message()); o.verdict != VerdictDelivered {
		t.Errorf("an endless 200: %+v", o)
	}
	_, d = target(t, func(w http.ResponseWriter, r *http.Request) {
		for range 128 {
			w.Header().Add("X-Big", strings.Repeat("x", 1<<10))
		}
	})
	if o := testSender(t, d, Options{}).send(t.Context(), message()); o.verdict != VerdictUnknown {
		t.Errorf("endless headers: %+v", o)
	}
}

// A redirect leads nowhere, least of all into our own network.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	inner, _ := target(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		_, d := target(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner.URL, status) })
		if o := testSender(t, d, Options{}).send(t.Context(), message()); o.verdict != VerdictRefused || o.status != status {
			t.Errorf("%d: %+v", status, o)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests were led elsewhere", n)
	}
}

// The name is allowed, the address behind it is not: nothing is connected.
func TestPrivateAddressBehindAName(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	d := good()
	d.URL = "https://localhost:" + port + "/hook"
	o := testSender(t, d, Options{}).send(t.Context(), message())
	if o.verdict != VerdictNotSent || !strings.Contains(o.err, "loopback") {
		t.Errorf("%+v", o)
	}
	listener.(*net.TCPListener).SetDeadline(time.Now())
	if conn, err := listener.Accept(); err == nil {
		conn.Close()
		t.Error("a connection arrived")
	}
}

// A proxy named by the environment would connect in our stead, unguarded.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	_, d := target(t, func(http.ResponseWriter, *http.Request) {})
	if testSender(t, d, Options{}).transport.Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

func TestTLS(t *testing.T) {
	serve := func(version uint16) (*httptest.Server, Destination) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{MaxVersion: version, MinVersion: tls.VersionTLS10}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		d := good()
		d.URL, d.AllowPrivate = server.URL, true
		return server, d
	}
	server, d := serve(tls.VersionTLS13)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if o := testSender(t, d, Options{RootCAs: roots}).send(t.Context(), message()); o.verdict != VerdictDelivered {
		t.Errorf("a good certificate: %+v", o)
	}
	if o := testSender(t, d, Options{}).send(t.Context(), message()); o.verdict != VerdictNotSent || o.err != "certificate does not verify" {
		t.Errorf("an unknown certificate: %+v", o)
	}
	server, d = serve(tls.VersionTLS11)
	roots.AddCert(server.Certificate())
	if o := testSender(t, d, Options{RootCAs: roots}).send(t.Context(), message()); o.verdict != VerdictNotSent {
		t.Errorf("TLS 1.1: %+v", o)
	}
}

func TestRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	body := make(chan []byte, 1)
	_, d := target(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- b
	})
	d.Headers = map[string]string{"X-Shop": "es"}
	m := message()
	m.Body = []byte("{\"x\":\"\x00\xff\"} ")
	m.Type = "event.charge.refunded"
	m.Header = []byte(`{"Content-Type":["text/plain"],"Stripe-Signature":["old"],"X-Two":["a","b"],"Webhook-Id":["forged"],` +
		`"Host":["evil"],"Authorization":["canary"],"Cookie":["canary"],"Transfer-Encoding":["chunked"],"X-Bad":["a\nb"]}`)
	sign := func(m *store.Message, secrets []provider.Secret, at time.Time) (http.Header, error) {
		return http.Header{"stripe-signature": {"new " + m.ID + " " + string(secrets[0])}}, nil
	}
	if o := testSender(t, d, Options{SignEvent: sign}).send(t.Context(), m); o.verdict != VerdictDelivered {
		t.Fatalf("%+v", o)
	}
	r, b := <-got, <-body
	if string(b) != string(m.Body) || r.ContentLength != int64(len(b)) || r.Method != http.MethodPost {
		t.Errorf("%s of %d bytes: %q", r.Method, r.ContentLength, b)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/plain", "Stripe-Signature": "new msg_1 " + string(textSecret), "X-Two": "a,b", "X-Shop": "es",
		"Webhook-Id": "msg_1", "Idempotency-Key": "msg_1", "User-Agent": "unavez", "Authorization": "", "Cookie": "", "X-Bad": "",
	} {
		if has := strings.Join(r.Header.Values(name), ","); has != want {
			t.Errorf("%s: %q, want %q", name, has, want)
		}
	}
	if len(r.TransferEncoding) != 0 || r.Host == "evil" {
		t.Errorf("the kept headers changed the connection: %v, %s", r.TransferEncoding, r.Host)
	}
	failing := func(*store.Message, []provider.Secret, time.Time) (http.Header, error) {
		return nil, errors.New("no key")
	}
	if o := testSender(t, d, Options{SignEvent: failing}).send(t.Context(), m); o.verdict != VerdictNotSent {
		t.Errorf("an event that cannot be signed: %+v", o)
	}
	m.Header = []byte("{")
	if o := testSender(t, d, Options{}).send(t.Context(), m); o.verdict != VerdictNotSent {
		t.Errorf("headers that cannot be read: %+v", o)
	}
}

// R3.3: the HTTP client itself repeats nothing behind our back.
func TestOneAttemptIsOneRequest(t *testing.T) {
	no := false
	var requests atomic.Int64
	_, d := target(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			hangUp(w, r)
		}
	})
	d.Idempotent = &no
	s := testSender(t, d, Options{})
	if o := s.send(t.Context(), message()); o.verdict != VerdictDelivered {
		t.Fatalf("%+v", o)
	}
	if o := s.send(t.Context(), message()); o.verdict != VerdictUnknown {
		t.Errorf("%+v", o)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("two attempts made %d requests", n)
	}
}

func TestErrorsFitToBeStored(t *testing.T) {
	got := clip("a\x00b\xff" + strings.Repeat("é", errorBytesMax))
	if !strings.HasPrefix(got, "ab�é") || len(got) > errorBytesMax+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
}

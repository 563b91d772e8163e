package outbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/internal/safedial"
	"github.com/unavez/unavez/store"
)

// Verdicts on one attempt.
const (
	// VerdictDelivered: the destination answered 2xx.
	VerdictDelivered = "delivered"
	// VerdictRefused: it answered something else; it says that it has not taken
	// the message.
	VerdictRefused = "refused"
	// VerdictNotSent: no byte of the request can have arrived.
	VerdictNotSent = "not_sent"
	// VerdictUnknown: it may or may not have arrived.
	VerdictUnknown = "unknown"
)

// Bounds of an exchange.
const (
	answerBytesMax       = 64 << 10 // read and thrown away, so that the connection can serve again
	answerHeaderBytesMax = 64 << 10
	idleConnWithin       = 60 * time.Second
	tlsWithin            = 10 * time.Second
	errorBytesMax        = 500
)

// outcome is what one attempt came to.
type outcome struct {
	verdict  string
	status   int
	err      string
	at       time.Time
	duration time.Duration
	// pause is what Retry-After asked for, if paused.
	pause  time.Duration
	paused bool
	// stopped says that we cut the attempt off ourselves.
	stopped bool
}

// sender makes the requests of one destination.
type sender struct {
	dest      Destination
	opt       *Options
	signer    signer
	transport *http.Transport
}

func newSender(d Destination, opt *Options) (*sender, error) {
	sign, err := newSigner(&d)
	if err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.Name, err)
	}
	return &sender{dest: d, opt: opt, signer: sign, transport: newTransport(d, opt)}, nil
}

// newTransport speaks HTTP/1.1, one request at a time on a connection, so that
// it is known what was written for whom. It has no proxy and follows nothing.
func newTransport(d Destination, opt *Options) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	guard := safedial.Guard{AllowPrivate: d.AllowPrivate, Resolver: opt.Resolver}
	return &http.Transport{
		DialContext:            guard.Dialer().DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.RootCAs},
		TLSHandshakeTimeout:    tlsWithin,
		MaxIdleConnsPerHost:    d.Concurrency,
		MaxConnsPerHost:        d.Concurrency,
		IdleConnTimeout:        idleConnWithin,
		MaxResponseHeaderBytes: answerHeaderBytesMax,
		Protocols:              protocols,
		DisableCompression:     true,
		// A kept connection may be closed under a request, which leaves its end
		// unclear; where that needs a person, each request gets a fresh one.
		DisableKeepAlives: !d.idempotent(),
	}
}

func (s *sender) close() { s.transport.CloseIdleConnections() }

// send makes one attempt within the destination's time limit. Canceling ctx
// ends it early; what is known by then is the verdict.
func (s *sender) send(ctx context.Context, m *store.Message) outcome {
	at := s.opt.Now()
	req, err := s.request(m, at)
	if err != nil {
		return outcome{verdict: VerdictNotSent, err: clip(err.Error()), at: at}
	}
	ctx, cancel := context.WithTimeout(ctx, s.dest.Timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				crashpoint.Hit("outbox.published_before_answer")
			}
		},
	})
	resp, err := s.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		verdict := VerdictNotSent
		if connected.Load() {
			verdict = VerdictUnknown
		}
		stopped := errors.Is(err, context.Canceled)
		return outcome{verdict: verdict, err: clip(reason(err)), at: at, duration: s.opt.Now().Sub(at), stopped: stopped}
	}
	io.CopyN(io.Discard, resp.Body, answerBytesMax) //nolint:errcheck // the status has decided already
	resp.Body.Close()
	crashpoint.Hit("outbox.answered_before_mark")
	return s.answered(resp, at)
}

// answered judges an answer. A gateway's 502 or 504 says that the gateway has no
// answer: that is unknown where a repetition would not be recognized.
func (s *sender) answered(resp *http.Response, at time.Time) outcome {
	now := s.opt.Now()
	o := outcome{status: resp.StatusCode, at: at, duration: now.Sub(at), verdict: VerdictRefused}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		o.verdict = VerdictDelivered
		return o
	case !s.dest.idempotent() && (o.status == http.StatusBadGateway || o.status == http.StatusGatewayTimeout):
		o.verdict = VerdictUnknown
	}
	o.err = fmt.Sprintf("answered %d", o.status)
	switch o.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
		o.pause, o.paused = backoff.RetryAfter(resp.Header, now)
	}
	return o
}

func (s *sender) request(m *store.Message, at time.Time) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodPost, s.dest.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, errors.New("composing the request: the url is not valid")
	}
	if !s.dest.idempotent() {
		req.GetBody = nil // without it the transport never repeats a request by itself
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.passOn(req.Header, m, at); err != nil {
		return nil, err
	}
	for name, value := range s.dest.Headers {
		req.Header.Set(name, value)
	}
	timestamp, signature := s.signer.sign(m.ID, at, m.Body)
	req.Header.Set(headerID, m.ID)
	req.Header.Set(headerTimestamp, timestamp)
	req.Header.Set(headerSignature, signature)
	req.Header.Set(headerKey, m.ID)
	req.Header.Set("User-Agent", s.opt.UserAgent)
	return req, nil
}

// passOn adds the headers that came with a provider's event, and its signature
// made anew where the provider's scheme allows it: a handler that checks the
// signature's age could not take a message that waited.
func (s *sender) passOn(h http.Header, m *store.Message, at time.Time) error {
	if len(m.Header) == 0 {
		return nil
	}
	var kept http.Header
	if err := json.Unmarshal(m.Header, &kept); err != nil {
		return errors.New("the kept headers are not readable")
	}
	for name, values := range kept {
		name = http.CanonicalHeaderKey(name)
		if name != "Content-Type" && (reserved(name) || name == "Authorization" || name == "Cookie") {
			continue
		}
		h.Del(name)
		for _, value := range values {
			if validHeader(name, value) {
				h.Add(name, value)
			}
		}
	}
	if s.opt.SignEvent == nil {
		return nil
	}
	signed, err := s.opt.SignEvent(m, s.dest.Secrets, at)
	if err != nil {
		return fmt.Errorf("signing the event anew: %w", err)
	}
	for name, values := range signed {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return nil
}

// reason is the error without the URL, whose path may be a secret.
func reason(err error) string {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "time limit reached"
	case errors.Is(err, context.Canceled):
		return "stopped before the answer"
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.UnknownAuthorityError)):
		return "certificate does not verify"
	}
	return err.Error()
}

// clip makes an error's text fit to be stored.
func clip(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "�")
	if len(text) > errorBytesMax {
		text = strings.ToValidUTF8(text[:errorBytesMax], "") + "…"
	}
	return text
}

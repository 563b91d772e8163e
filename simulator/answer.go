package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// serve is the way of every API call: who, what, which fault, execute, answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	c := &call{
		srv: s, id: s.requestID(), url: r.URL.Path, now: s.cfg.Now(),
		account: r.Header.Get("Stripe-Account"), path: map[string]string{"id": r.PathValue("id")},
	}
	h := w.Header()
	h.Set("Request-Id", c.id)
	h.Set("Stripe-Version", or(r.Header.Get("Stripe-Version"), s.cfg.APIVersion))
	if c.account != "" {
		h.Set("Stripe-Account", c.account)
	}
	if r.Method == http.MethodPost {
		if c.key = strings.TrimSpace(r.Header.Get("Idempotency-Key")); c.key != "" {
			h.Set("Idempotency-Key", c.key)
		}
	}
	if bad := s.admit(r, c, rt); bad != nil {
		write(w, failure(bad))
		return
	}
	f := s.faults.api(r)
	if f != nil && s.answerBefore(w, r, c, f) {
		return
	}
	rep := s.run(r, c, rt, f)
	s.answer(w, r, rep, f)
}

// admit checks everything that comes before execution: credentials, form.
func (s *Server) admit(r *http.Request, c *call, rt route) *apiError {
	if s.apiKey(r) != s.cfg.APIKey {
		return &apiError{status: http.StatusUnauthorized, typ: typeInvalid, early: true, message: "Invalid API Key provided."}
	}
	if len(c.key) > keyCharsMax {
		return badParam("", "", "Idempotency keys have at most 255 characters.")
	}
	if c.account == s.cfg.Account {
		c.account = ""
	}
	raw := r.URL.RawQuery
	if r.Method == http.MethodPost {
		b, err := io.ReadAll(io.LimitReader(r.Body, bodyBytesMax+1))
		if err != nil || len(b) > bodyBytesMax {
			return badParam("", "", "The request body could not be read or is too large.")
		}
		if len(b) > 0 && raw != "" {
			raw += "&"
		}
		raw += string(b)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return badParam("", "", "The request's parameters are not form-encoded.")
	}
	c.params = params(values)
	if rt.pattern == "" { // no endpoint, no parameters to know
		return nil
	}
	return c.params.unknown(rt.allowed)
}

func (s *Server) apiKey(r *http.Request) string {
	if user, _, ok := r.BasicAuth(); ok {
		return user
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// run reserves the key, waits where a fault says so, and executes.
func (s *Server) run(r *http.Request, c *call, rt route, f *Fault) reply {
	if c.key != "" {
		s.mu.Lock()
		rep, done := s.reserve(c, r.Method+" "+r.URL.Path+" "+r.Header.Get("Stripe-Version")+" "+c.params.canonical())
		s.mu.Unlock()
		if done {
			return rep
		}
	}
	if f.is(FaultLate) {
		// On purpose not the request's context: it executes although the
		// caller is gone.
		s.holds.wait(context.WithoutCancel(r.Context()), f.delay(0))
	}
	return s.execute(c, rt, f)
}

// execute changes the world and stores the answer in one critical section.
func (s *Server) execute(c *call, rt route, f *Fault) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.now = s.cfg.Now() // a held request happens when it is let go
	post := strings.HasPrefix(rt.pattern, http.MethodPost)
	var shown object
	var bad *apiError
	switch {
	case f.is(FaultStored500):
		bad = serverError()
	case f.is(FaultStored400):
		bad = refused("", "The request was refused.")
	case post && !s.room():
		bad = tooMany("rate_limit", "The simulator's bounds are reached.")
	default:
		shown, bad = rt.handle(c)
	}
	early := bad != nil && bad.early
	if bad == nil {
		switch {
		case f.is(FaultErrorAfter):
			bad = serverError()
		case f.is(FaultAlreadyDone):
			bad = alreadyDone(c.url)
		}
	}
	var rep reply
	if bad != nil {
		rep = failure(bad)
	} else {
		s.expand(shown, c.params.list("expand"))
		rep = reply{status: http.StatusOK, body: encode(shown)}
	}
	if c.key != "" {
		s.keep(c, rep, early)
	}
	return rep
}

// alreadyDone is the answer to a request whose work somebody else has done, as
// far as anyone can tell.
func alreadyDone(path string) *apiError {
	switch {
	case strings.HasSuffix(path, "/capture"):
		return refused(codeAlreadyCaptured, "This PaymentIntent could not be captured because it has already been captured.")
	case strings.HasSuffix(path, "/refunds"):
		return refused(codeAlreadyRefunded, "The charge has already been refunded.")
	}
	return refused(codeUnexpectedState, "This PaymentIntent's status does not allow this.")
}

// answerBefore plays the faults that come instead of execution.
func (s *Server) answerBefore(w http.ResponseWriter, r *http.Request, c *call, f *Fault) bool {
	switch f.Kind {
	case FaultErrorBefore:
		f.hint(w)
		write(w, failure(serverError()))
	case FaultKeyInUse:
		f.hint(w)
		write(w, failure(keyInUse(c.key)))
	case FaultRateLimited, FaultLockTimeout:
		f.hint(w)
		code, message := "rate_limit", "Too many requests hit the API too quickly."
		if f.Kind == FaultLockTimeout {
			code, message = "lock_timeout", "This object cannot be accessed right now because another request is accessing it."
		}
		w.Header().Set("Retry-After", strconv.Itoa(or(f.RetryAfter, 1)))
		write(w, failure(tooMany(code, message)))
	case FaultUnauthorized:
		write(w, failure(&apiError{status: http.StatusUnauthorized, typ: typeInvalid, message: "Invalid API Key provided."}))
	case FaultHang:
		s.holds.wait(r.Context(), f.delay(0))
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// answer sends what was executed, or what a fault leaves of it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, rep reply, f *Fault) {
	if rep.origin != "" {
		w.Header().Set("Idempotent-Replayed", "true")
		w.Header().Set("Original-Request", rep.origin)
	}
	if f == nil {
		write(w, rep)
		return
	}
	f.hint(w)
	switch f.Kind {
	case FaultDropAnswer:
		panic(http.ErrAbortHandler)
	case FaultHangAfter:
		s.holds.wait(r.Context(), f.delay(0))
		panic(http.ErrAbortHandler)
	case FaultDelay:
		s.holds.wait(r.Context(), f.delay(slowInterval))
		write(w, rep)
	case FaultTruncated:
		rep.body = rep.body[:len(rep.body)/2]
		write(w, rep)
	case FaultWrongAmount:
		rep.body = wrongAmount(rep.body)
		write(w, rep)
	case FaultReset:
		reset(w, rep)
	case FaultSlow:
		s.drip(w, r, rep, f.delay(slowInterval))
	default:
		write(w, rep)
	}
}

func write(w http.ResponseWriter, rep reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(rep.body)))
	w.WriteHeader(rep.status)
	_, _ = w.Write(rep.body) // the caller may have gone; the books do not care
}

// wrongAmount raises every amount at the top of the answer by one.
func wrongAmount(body []byte) []byte {
	top := map[string]jsontext.Value{}
	if err := json.Unmarshal(body, &top); err != nil {
		panic("simulator: impossible: an own answer that cannot be read: " + err.Error())
	}
	for name, raw := range top {
		if !strings.HasPrefix(name, "amount") {
			continue
		}
		if n, ok := digits(string(raw)); ok {
			top[name] = jsontext.Value(strconv.FormatInt(n+1, 10))
		}
	}
	return encode(top)
}

// reset sends half of the answer and then ends the connection hard.
func reset(w http.ResponseWriter, rep reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(rep.body)))
	w.WriteHeader(rep.status)
	_, _ = w.Write(rep.body[:len(rep.body)/2])
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	conn, _, err := rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset instead of an orderly end
	}
	_ = conn.Close()
}

// drip sends the answer byte by byte.
func (s *Server) drip(w http.ResponseWriter, r *http.Request, rep reply, every time.Duration) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(rep.body)))
	w.WriteHeader(rep.status)
	rc := http.NewResponseController(w)
	for i := range rep.body {
		if _, err := w.Write(rep.body[i : i+1]); err != nil {
			return
		}
		if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		s.holds.wait(r.Context(), every)
		if r.Context().Err() != nil {
			return
		}
	}
}

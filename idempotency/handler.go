package idempotency

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/store"
)

// Replayed is the response header that marks a stored answer.
const Replayed = "Idempotent-Replayed"

// storedHeaders are the response headers that are kept with an answer.
var storedHeaders = []string{"Content-Type", "Location"}

// answerBytesMax bounds an answer that is kept; a longer one is sent and its
// key freed.
const answerBytesMax = 1 << 20

// Route says how one kind of request is kept.
type Route struct {
	// Principal names the caller. It stays the same when the caller's token changes.
	Principal func(*http.Request) string
	// Refuse writes the answer for a refusal of this package.
	Refuse func(http.ResponseWriter, *http.Request, error)
	// Redact, if set, returns the body that is stored instead of the answer's,
	// where that holds a secret.
	Redact func(body []byte) []byte
}

// Handler runs next once for each key. A request without the header is passed
// on as it is. The body has to be bounded already; it is read whole. The
// answers that are kept are those below 400: what was refused can be mended and
// sent again under the same key, and what failed has to be tried again.
func (k *Keeper) Handler(route Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, key, err := principalKey(r, &route)
		switch {
		case err != nil:
			route.Refuse(w, r, err)
			return
		case key == "":
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			route.Refuse(w, r, fmt.Errorf("reading the request: %w", err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		row, v, err := k.begin(r.Context(), store.IdempotencyKey{
			Principal: principal, Key: key, Route: r.Method + " " + r.URL.Path, Fingerprint: fingerprint(r, body),
		})
		switch {
		case err != nil:
			route.Refuse(w, r, err)
		case v == replay:
			send(w, row)
		default:
			k.run(w, r, row, &route, next)
		}
	})
}

// run serves the request and sends its answer once that is stored.
func (k *Keeper) run(w http.ResponseWriter, r *http.Request, row store.IdempotencyKey, route *Route, next http.Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), k.opt.Lease/handlerShare)
	defer cancel()
	a := &answer{header: http.Header{}, redact: route.Redact}
	ended := false
	defer func() {
		if !ended {
			// The handler panicked; whoever recovers answers.
			_ = k.finish(r.Context(), row, nil)
		}
	}()
	next.ServeHTTP(a, r.WithContext(ctx))
	ended = true
	if err := k.finish(r.Context(), row, a); err != nil {
		route.Refuse(w, r, err)
		return
	}
	a.sendTo(w)
}

// send replays a stored answer.
func send(w http.ResponseWriter, row store.IdempotencyKey) {
	var kept map[string]string
	if len(row.Header) > 0 {
		if err := json.Unmarshal(row.Header, &kept); err != nil {
			panic(fmt.Sprintf("idempotency: impossible: stored headers do not decode: %v", err))
		}
	}
	for name, value := range kept {
		w.Header().Set(name, value)
	}
	w.Header().Set(Replayed, "true")
	w.WriteHeader(row.Status)
	_, _ = w.Write(row.Body)
}

// answer is a response that is held back until it is stored.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	redact func([]byte) []byte
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) kept() bool {
	a.WriteHeader(http.StatusOK)
	return a.status < http.StatusBadRequest && a.body.Len() <= answerBytesMax
}

func (a *answer) storedBody() []byte {
	if a.redact != nil {
		return a.redact(a.body.Bytes())
	}
	return a.body.Bytes()
}

func (a *answer) storedHeader() []byte {
	kept := map[string]string{}
	for _, name := range storedHeaders {
		if v := a.header.Get(name); v != "" {
			kept[name] = v
		}
	}
	b, err := json.Marshal(kept, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("idempotency: impossible: headers do not encode: %v", err))
	}
	return b
}

func (a *answer) sendTo(w http.ResponseWriter) {
	a.WriteHeader(http.StatusOK)
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/unavez/unavez/idempotency"
)

// ServeHTTP serves the private listener: every request gets an id, is logged
// once, and a panic becomes a problem.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	i := &info{id: a.deps.NewID("req"), route: "none"}
	r = r.WithContext(withInfo(r.Context(), i))
	out := &recorder{ResponseWriter: w}
	out.Header().Set(requestIDHeader, i.id)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	defer func() {
		if v := recover(); v != nil {
			a.recovered(out, r, v)
		}
		took := time.Since(begun)
		a.metrics.served(i.route, r.Method, out.code(), took)
		a.log(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method), slog.Int("status", out.code()),
			slog.String("actor", i.principal.name), slog.Int64("bytes", out.bytes), slog.Duration("took", took))
	}()
	a.enter(out, r)
}

func (a *API) recovered(w *recorder, r *http.Request, v any) {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	a.log(r.Context(), slog.LevelError, "call panicked", slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
	if w.status == 0 {
		a.write(w, r, problem(CodeInternal, "the error stands in the server's log under this request_id"))
	}
}

// enter checks what holds for every request, and finds its route.
func (a *API) enter(w http.ResponseWriter, r *http.Request) {
	h, pattern := a.mux.Handler(r)
	i := infoOf(r.Context())
	if pattern != "" {
		i.route = pattern
	}
	probe := probes[r.URL.Path] && r.URL.RawQuery == ""
	switch {
	case !probe && !a.hosts.allow(r.Host):
		a.refuse(w, r, problem(CodeForeignHost, "the Host header names none of the allowed hosts"))
	case foreignOrigin(r, a.browsers):
		a.refuse(w, r, problem(CodeForeignOrigin, "the request was sent for a page of another origin"))
	case pattern == "":
		a.astray(w, r, h)
	default:
		a.mux.ServeHTTP(w, r)
	}
}

// probes may be asked under any host: an orchestrator addresses them by an
// address that nobody configures, and they tell nothing.
var probes = map[string]bool{"/livez": true, "/readyz": true}

// astray answers for paths and methods that do not exist. Nobody without a
// token learns which do.
func (a *API) astray(w http.ResponseWriter, r *http.Request, h http.Handler) {
	if !a.authenticate(w, r) {
		return
	}
	found := &recorder{ResponseWriter: discard{http.Header{}}}
	h.ServeHTTP(found, r)
	if found.code() != http.StatusMethodNotAllowed {
		a.write(w, r, problem(CodeNotFound, "the path does not exist"))
		return
	}
	w.Header().Set("Allow", found.Header().Get("Allow"))
	a.write(w, r, problem(CodeMethodNotAllowed, "the path takes "+found.Header().Get("Allow")))
}

// authenticate notes the caller, or refuses.
func (a *API) authenticate(w http.ResponseWriter, r *http.Request) bool {
	who, err := a.door.enter(r)
	switch {
	case errors.Is(err, errUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Bearer realm="unavez"`)
		a.refuse(w, r, problem(CodeUnauthenticated, "send Authorization: Bearer with a valid token"))
		return false
	case err != nil:
		a.write(w, r, a.problemOf(r.Context(), err))
		return false
	}
	infoOf(r.Context()).principal = who
	return true
}

// guarded lets callers with the role through to a handler.
func (a *API) guarded(needed Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needed != roleNone {
			if !a.authenticate(w, r) {
				return
			}
			if !infoOf(r.Context()).principal.role.allows(needed) {
				a.refuse(w, r, problem(CodeForbidden, "the call needs a token with the role "+string(needed)))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// adapter binds the library's operations to the mux. Everything around a call
// is plain net/http; the library reads parameters and writes answers.
type adapter struct{ api *API }

// metadata of an operation.
const (
	roleKey   = "role"
	redactKey = "redact"
)

// Handle implements huma.Adapter.
func (ad adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	a := ad.api
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler(&callContext{base: humago.NewContext(op, r, w)})
	})
	if op.Method == http.MethodPost {
		redact, _ := op.Metadata[redactKey].(func([]byte) []byte)
		h = a.withBody(a.keeper.Handler(idempotency.Route{
			Principal: func(r *http.Request) string { return actorOf(r.Context()) },
			Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
				a.write(w, r, a.problemOf(r.Context(), err))
			},
			Redact: redact,
		}, h))
	}
	role, ok := op.Metadata[roleKey].(Role)
	if !ok {
		panic("httpapi: impossible: " + op.OperationID + " has no role")
	}
	a.mux.Handle(op.Method+" "+op.Path, a.guarded(role, a.bounded(h)))
}

// ServeHTTP implements huma.Adapter.
func (ad adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { ad.api.ServeHTTP(w, r) }

// bounded limits how many calls run at once, how long one may take, and what a
// query may look like.
func (a *API) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		default:
			a.write(w, r, problem(CodeOverloaded, "too many requests at once"))
			return
		}
		if p := checkQuery(r.URL.RawQuery); p != nil {
			a.write(w, r, p)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func checkQuery(raw string) *Problem {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return problem(CodeInvalid, "the query cannot be read")
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return problem(CodeInvalid, "a parameter stands more than once", ProblemField{plainName(name), "stands more than once"})
		case values[0] == "":
			return problem(CodeInvalid, "a parameter is empty", ProblemField{plainName(name), "is empty"})
		case len(values[0]) > idBytesMax:
			return problem(CodeInvalid, "a parameter is too long", ProblemField{plainName(name), "is too long"})
		}
	}
	return nil
}

// withBody reads the body of a POST, within its bound.
func (a *API) withBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			a.write(w, r, a.problemOf(r.Context(), err))
			return
		case err != nil:
			a.write(w, r, problem(CodeMalformed, "the body could not be read to its end"))
			return
		case len(body) > 0 && !isJSON(r.Header.Get("Content-Type")):
			a.write(w, r, problem(CodeUnsupportedMedia, "send Content-Type: application/json"))
			return
		}
		infoOf(r.Context()).body = body
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	return err == nil && kind == jsonContentType && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// callContext lets a problem that replaced the library's own refusal decide the
// status of the answer.
type callContext struct {
	base
	status int
}

// base is embedded under a name of its own, because the interface has a method
// that is called as itself.
type base = huma.Context

// SetStatus implements huma.Context.
func (c *callContext) SetStatus(status int) {
	if c.status != 0 {
		status = c.status
	}
	c.base.SetStatus(status)
}

// transform completes problems before they are written.
func (a *API) transform(ctx huma.Context, _ string, v any) (any, error) {
	if e, ok := v.(*huma.ErrorModel); ok {
		v = ours(e)
	}
	if p, ok := v.(*Problem); ok {
		p.RequestID = infoOf(ctx.Context()).id
		if c, ok := ctx.(*callContext); ok {
			c.status = p.Status
		}
	}
	return v, nil
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unavez/unavez/store"
)

// registerOperational wires what is asked by machines around the API. These
// routes are plain handlers and stand in the document by hand.
func (a *API) registerOperational() {
	metricsRole := RoleRead
	if a.deps.MetricsOpen {
		metricsRole = roleNone
	}
	figures := promhttp.HandlerFor(a.deps.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	for _, r := range []struct {
		path, summary, contentType string
		role                       Role
		handler                    http.HandlerFunc
	}{
		{"/livez", "Whether the process runs", "text/plain", roleNone, a.livez},
		{"/readyz", "Whether the process serves; with ?verbose and a token, why not", "text/plain", roleNone, a.readyz},
		{"/version", "Which program answers", jsonContentType, roleNone, a.version},
		{"/openapi.json", "This document", "application/openapi+json", roleNone, a.openapi},
		{"/metrics", "Figures for Prometheus", "text/plain", metricsRole, figures.ServeHTTP},
		{problemPath + "{code}", "What a code of a problem means", "text/markdown", roleNone, a.problemPage},
	} {
		a.mux.Handle("GET "+r.path, a.guarded(r.role, r.handler))
		a.huma.OpenAPI().AddOperation(plainOperation(r.path, r.summary, r.contentType, r.role))
	}
}

func plainOperation(path, summary, contentType string, role Role) *huma.Operation {
	op := &huma.Operation{
		OperationID: "get" + strings.NewReplacer("/", "-", ".", "-", "{", "", "}", "").Replace(path), Method: http.MethodGet, Path: path,
		Summary: summary, Tags: []string{"operation"}, Responses: map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{contentType: {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
	}
	if contentType != "text/plain" && contentType != "text/markdown" {
		op.Responses["200"].Content[contentType].Schema = &huma.Schema{Type: huma.TypeObject}
	}
	if path == "/readyz" {
		op.Responses["503"] = &huma.Response{Description: "Not ready"}
	}
	if path == problemPath+"{code}" {
		op.Parameters = []*huma.Param{{Name: "code", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	if role != roleNone {
		op.Security = []map[string][]string{{securityName: {}}}
	}
	return op
}

// render writes the document with a stable order and line breaks, so that a
// change of it can be read.
func render(doc *huma.OpenAPI) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("httpapi: writing the OpenAPI document: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("httpapi: writing the OpenAPI document: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "application/openapi+json", string(a.document))
}

func (a *API) version(w http.ResponseWriter, _ *http.Request) {
	text, err := json.Marshal(a.deps.Version)
	if err != nil {
		panic("httpapi: impossible: the version does not encode: " + err.Error())
	}
	send(w, http.StatusOK, jsonContentType, string(text)+"\n")
}

func (a *API) problemPage(w http.ResponseWriter, r *http.Request) {
	text, ok := Code(r.PathValue("code")).Page()
	if !ok {
		a.write(w, r, problem(CodeNotFound, "no such code"))
		return
	}
	send(w, http.StatusOK, "text/markdown; charset=utf-8", text)
}

// livez never asks the database: a restart would not help it.
func (a *API) livez(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "text/plain", "ok\n")
}

const verboseParameter = "verbose"

func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	_, verbose := query[verboseParameter]
	if len(query) > 1 || len(query) == 1 && !verbose {
		a.write(w, r, problem(CodeUnknownParameter, "readyz takes verbose alone"))
		return
	}
	if verbose {
		a.guarded(RoleRead, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.ready(w, r, true) })).ServeHTTP(w, r)
		return
	}
	a.ready(w, r, false)
}

func (a *API) ready(w http.ResponseWriter, r *http.Request, verbose bool) {
	checks := a.health.look(r.Context(), a.deps.Store, a.deps.Now())
	if a.draining.Load() {
		checks = append(checks, check{"draining", "the server is about to stop"})
	} else {
		checks = append(checks, check{"draining", ""})
	}
	status, word := http.StatusOK, "ok\n"
	var lines strings.Builder
	for _, c := range checks {
		if c.problem == "" {
			fmt.Fprintf(&lines, "[+] %s ok\n", c.name)
			continue
		}
		status, word = http.StatusServiceUnavailable, "not ready\n"
		fmt.Fprintf(&lines, "[-] %s: %s\n", c.name, c.problem)
	}
	if verbose {
		word = lines.String() + word
	}
	send(w, status, "text/plain", word)
}

func send(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// check is one thing that readiness needs.
type check struct{ name, problem string }

// health remembers the last look at the ledger for a moment, so that probes
// cannot load it.
type health struct {
	mu     sync.Mutex
	looked time.Time
	checks []check
}

func (h *health) look(ctx context.Context, s store.Store, now time.Time) []check {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checks != nil && now.Sub(h.looked) < readyCacheFor && now.Sub(h.looked) >= 0 {
		return append([]check(nil), h.checks...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
	defer cancel()
	database, schema := check{name: "database"}, check{name: "schema"}
	if _, err := s.Now(ctx); err != nil {
		database.problem = "cannot be reached"
		schema.problem = "not known"
	} else if err := current(ctx, s); err != nil {
		schema.problem = "does not fit this program"
	}
	h.looked, h.checks = now, []check{database, schema}
	return append([]check(nil), h.checks...)
}

var errSchema = errors.New("httpapi: migrations are missing")

// current says whether every migration of the program is applied.
func current(ctx context.Context, s store.Store) error {
	steps, err := s.Migrations(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if !step.Applied {
			return errSchema
		}
	}
	return nil
}

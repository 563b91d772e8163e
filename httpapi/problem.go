package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/idempotency"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/store"
)

// Problem is the body of every refusal, by RFC 9457.
type Problem struct {
	Type      string `json:"type" doc:"Reference to the page that explains the code"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      Code   `json:"code" doc:"Stable name of the problem"`
	RequestID string `json:"request_id" doc:"Name of the request in the server's log"`
	Retryable bool   `json:"retryable" doc:"Whether the same request may succeed later"`
	// Payment is the record that a registration conflicts with.
	Payment string         `json:"payment,omitzero"`
	Errors  []ProblemField `json:"errors,omitzero"`

	retryAfter time.Duration
}

// ProblemField is one fault of a request. It names a place, never a value.
type ProblemField struct {
	Pointer string `json:"pointer" doc:"JSON pointer into the body, or the name of a parameter"`
	Detail  string `json:"detail"`
}

// Error implements error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// GetStatus makes it the answer of a call.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType makes it application/problem+json.
func (p *Problem) ContentType(string) string { return problemContentType }

// GetHeaders adds the pause after which to try again.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", seconds(p.retryAfter))
	}
	return h
}

// seconds rounds a pause up to the whole seconds of Retry-After.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func problem(code Code, detail string, fields ...ProblemField) *Problem {
	m := meanings[code]
	p := &Problem{
		Type: problemPath + string(code), Title: m.title, Status: m.status, Detail: detail, Code: code,
		Retryable: m.retryable, Errors: fields,
	}
	if m.retryable {
		p.retryAfter = overloadedPause
	}
	return p
}

// refused turns a fault of one field into a problem.
func refused(pointer, detail string) *Problem {
	name := strings.TrimPrefix(pointer, "/")
	if name == "" {
		name = "the body, or a member that is not shown,"
	}
	return problem(CodeInvalid, name+" "+detail, ProblemField{pointer, detail})
}

// problemOf is the one place where errors become answers. An error that no line
// names is internal: its text goes to the log alone.
func (a *API) problemOf(ctx context.Context, err error) *Problem {
	var p *Problem
	var field *apply.FieldError
	var conflict *apply.ConflictError
	var running *idempotency.InProgressError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &field):
		return refused("/"+field.Field, field.Problem)
	case errors.As(err, &conflict):
		return conflictOf(conflict)
	case errors.As(err, &running):
		p = problem(CodeKeyInProgress, "the first request with this key has not been answered yet")
		p.retryAfter = running.RetryAfter
		return p
	case errors.As(err, &tooLarge):
		return problem(CodeTooLarge, "the body is larger than 64 KiB")
	}
	for _, row := range sentinels {
		if errors.Is(err, row.err) {
			if meanings[row.code].status >= http.StatusInternalServerError {
				a.log(ctx, slog.LevelWarn, "call not served", slog.String("error", err.Error()))
			}
			return problem(row.code, row.detail)
		}
	}
	a.log(ctx, slog.LevelError, "call not served", slog.String("error", err.Error()))
	return problem(CodeInternal, "the error stands in the server's log under this request_id")
}

var sentinels = []struct {
	err    error
	code   Code
	detail string
}{
	{apply.ErrNotDead, CodeNotRedrivable, "the event is not in the dead letters"},
	{apply.ErrRunning, CodeAlreadyRunning, "the event is queued or being worked on"},
	{outbox.ErrNotStopped, CodeNotRetryable, "the message is neither dead nor ambiguous"},
	{outbox.ErrDestination, CodeNotFound, "no destination of this name is configured"},
	{idempotency.ErrMalformed, CodeKeyMalformed, "Idempotency-Key is not one key of 1 to 255 visible ASCII characters"},
	{idempotency.ErrReused, CodeKeyReused, "this Idempotency-Key was used for another request"},
	{idempotency.ErrExpired, CodeKeyExpired, "the answer under this Idempotency-Key is no longer kept"},
	{store.ErrCommitUnknown, CodeResultUnknown, "the connection was lost while the change was being committed"},
	{idempotency.ErrNotKept, CodeUnavailable, "the answer could not be kept under its Idempotency-Key"},
	{store.ErrNotFound, CodeNotFound, "no such object"},
	{store.ErrBusy, CodeUnavailable, "the ledger is busy"},
	{store.ErrUnavailable, CodeUnavailable, "the ledger cannot be reached"},
	{store.ErrFull, CodeUnavailable, "the ledger is full or not writable"},
	{store.ErrSchema, CodeUnavailable, "the ledger's schema does not fit this program"},
	{context.DeadlineExceeded, CodeUnavailable, "the request took longer than it may"},
	{context.Canceled, CodeUnavailable, "the request was canceled"},
}

// conflictOf names the fields that differ, never what they hold.
func conflictOf(c *apply.ConflictError) *Problem {
	p := problem(CodePaymentConflict, "differs from the earlier registration in "+strings.Join(c.Fields, ", "))
	p.Payment = c.Payment
	for _, f := range c.Fields {
		pointer := "/" + f
		if f == "currency" {
			pointer = "/amount/currency"
		}
		p.Errors = append(p.Errors, ProblemField{pointer, "differs from the earlier registration"})
	}
	return p
}

// write sends a problem outside of the calls' own path.
func (a *API) write(w http.ResponseWriter, r *http.Request, p *Problem) {
	p.RequestID = infoOf(r.Context()).id
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemContentType)
	w.WriteHeader(p.Status)
	if err := json.MarshalWrite(w, p, json.Deterministic(true)); err != nil {
		a.log(r.Context(), slog.LevelDebug, "problem not sent", slog.String("error", err.Error()))
	}
}

// unknownParameter is what the library says of a parameter that it does not know.
const unknownParameter = "unknown query parameter"

// ours turns the library's own refusals, which are about parameters or a body
// that is missing, into problems. Its values are dropped.
func ours(e *huma.ErrorModel) *Problem {
	switch {
	case e.Status >= http.StatusInternalServerError:
		return problem(CodeInternal, "the request could not be read or answered")
	case len(e.Errors) == 0:
		return problem(CodeMalformed, "the body is missing")
	}
	p := problem(CodeInvalid, "a parameter does not fit")
	for _, d := range e.Errors {
		if d == nil {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(d.Location, "query."), "path.")
		detail := d.Message
		if detail == unknownParameter {
			p = problem(CodeUnknownParameter, "the call does not know this parameter or filter", p.Errors...)
		}
		p.Errors = append(p.Errors, ProblemField{plainName(name), detail})
	}
	return p
}

var plainPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// plainName returns a foreign name if it looks like one of ours, so that
// nothing that somebody typed into the wrong place is repeated.
func plainName(name string) string {
	if plainPattern.MatchString(name) {
		return name
	}
	return "(not shown)"
}

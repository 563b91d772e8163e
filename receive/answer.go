package receive

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/crashpoint"
)

// refusal is an answer other than the acknowledgement.
type refusal struct {
	status  int
	outcome string
	// reason is a stable phrase without anything of the request. The provider's
	// dashboard shows it to the merchant.
	reason string
	// retry says that a later attempt may succeed: Retry-After is sent.
	retry bool
	// close ends the connection, because the body was not read.
	close bool
	// err is for the log alone. It comes from the ledger, never from the request.
	err error
}

func tooLarge() *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, outcome: inbox.OutcomeTooLarge, reason: "body too large", close: true}
}

func overloaded(what string) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, outcome: inbox.OutcomeError, reason: "overloaded: " + what, retry: true, close: true}
}

func badForm(reason string) *refusal {
	return &refusal{status: http.StatusBadRequest, outcome: inbox.OutcomeBadForm, reason: reason}
}

// refuse writes the answer and the one log line of a refusal.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, who string, ref *refusal) {
	level := slog.LevelWarn
	if ref.outcome == inbox.OutcomeError {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("account", who), slog.Int("status", ref.status), slog.String("reason", ref.reason)}
	if ref.err != nil {
		attrs = append(attrs, slog.String("error", ref.err.Error()))
	}
	h.opt.Logger.LogAttrs(r.Context(), level, "delivery refused", attrs...)

	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	if ref.retry {
		header.Set("Retry-After", strconv.FormatInt(h.retryAfter(), 10))
	}
	if ref.status == http.StatusMethodNotAllowed {
		header.Set("Allow", http.MethodPost)
	}
	if ref.close {
		header.Set("Connection", "close")
	}
	text := ref.reason + "\n"
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(ref.status)
	_, _ = w.Write([]byte(text)) // the caller is gone: there is nobody to tell
}

// retryAfter draws whole seconds, so that providers that obey do not all come
// back at once.
func (h *Handler) retryAfter() int64 {
	low, high := seconds(h.opt.Limits.RetryAfterMin), seconds(h.opt.Limits.RetryAfterMax)
	return low + rand.Int64N(high-low+1)
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// acknowledge makes the provider stop delivering.
func (h *Handler) acknowledge(w http.ResponseWriter, acc *account) {
	ack := acc.Adapter.Acknowledgement()
	setDefault(&ack.Status, http.StatusOK)
	if ack.ContentType != "" {
		w.Header().Set("Content-Type", ack.ContentType)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(ack.Body)))
	w.WriteHeader(ack.Status)
	_, _ = w.Write(ack.Body) // a lost answer brings a duplicate, which is known
	crashpoint.Hit("receive.answer_unflushed")
}

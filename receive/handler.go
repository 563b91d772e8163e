package receive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// pathPrefix stands before the account's name.
const pathPrefix = "/webhooks/"

// unknownName is logged for a name that is no account's. The name itself comes
// from a stranger and is not logged.
const unknownName = "(unknown)"

// Handler answers POST /webhooks/{account}:
//
//	200            every item is durable, or was; the provider's acknowledgement
//	400            signature, age or form; nothing of the bad items is stored
//	404, 405, 415  unknown account, other method, compressed body
//	408, 413       too slow, too large
//	429, 503       not stored, with Retry-After
//
// In a batch, the items that verify are stored before the others make the
// answer 400. The bounds in time need the Server of NewServer, or a
// ResponseWriter that supports read deadlines.
type Handler struct {
	opt      Options
	accounts map[string]*account
	gate     gate
}

// account is an account at work.
type account struct {
	Account
	inFlight atomic.Int64
	kept     []string
	within   time.Duration
}

// New checks the options, all problems at once, and makes a handler.
func New(opt Options) (*Handler, error) {
	opt.Accounts = slices.Clone(opt.Accounts)
	if err := opt.fill(); err != nil {
		return nil, err
	}
	h := &Handler{opt: opt, accounts: make(map[string]*account, len(opt.Accounts))}
	h.gate.max = opt.Limits.InFlightBytesMax
	for _, a := range opt.Accounts {
		contract := a.Adapter.Contract()
		acc := &account{Account: a, within: opt.Limits.AcknowledgeWithin, kept: slices.Clone(keptAlways)}
		if contract.AcknowledgeWithin > 0 {
			acc.within = min(acc.within, contract.AcknowledgeWithin)
		}
		for _, name := range contract.SignatureHeaders {
			acc.kept = append(acc.kept, textproto.CanonicalMIMEHeaderKey(name))
		}
		h.accounts[a.Name] = acc
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := h.opt.Now()
	who, label := unknownName, inbox.ProviderOther
	acc := h.lookUp(r.URL.Path)
	if acc != nil {
		who, label = acc.Name, acc.Provider
	}
	ref := h.receive(w, r, acc)
	if ref == nil {
		h.acknowledge(w, acc)
	} else {
		h.opt.Metrics.Received(label, ref.outcome)
		h.refuse(w, r, who, ref)
	}
	h.opt.Metrics.Answered(label, h.opt.Now().Sub(begun))
}

func (h *Handler) lookUp(path string) *account {
	name, ok := strings.CutPrefix(path, pathPrefix)
	if !ok {
		return nil
	}
	return h.accounts[name]
}

// receive takes one delivery; nil means that it may be acknowledged.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, acc *account) *refusal {
	control := http.NewResponseController(w)
	// From here on nobody may keep us waiting, also not for a body that is only
	// thrown away. Deadlines of connections are by the machine's clock.
	_ = control.SetReadDeadline(time.Now().Add(h.opt.Limits.BodyTimeout))
	if ref := h.admit(r, acc); ref != nil {
		return ref
	}
	defer acc.inFlight.Add(-1)
	crashpoint.Hit("receive.headers_read")

	b := &body{gate: &h.gate}
	defer b.release()
	if ref := b.read(r, h.opt.Limits.BodyBytesMax); ref != nil {
		return ref
	}
	// A deadline that stayed would look like a caller that hung up.
	_ = control.SetReadDeadline(time.Time{})
	crashpoint.Hit("receive.body_read")

	if len(b.bytes) == 0 {
		return badForm("empty body")
	}
	d := provider.Delivery{Header: r.Header, Query: r.URL.Query(), Body: b.bytes, ReceivedAt: h.now()}
	items, err := h.verify(acc, &d)
	var ref *refusal
	if err != nil || len(items) == 0 {
		ref = h.unverified(err)
	}
	if len(items) == 0 {
		return ref
	}
	crashpoint.Hit("receive.verified")
	if notStored := h.store(r.Context(), acc, &d, items); notStored != nil {
		return notStored
	}
	return ref
}

// admit judges what can be judged before the body; a request that is admitted
// counts as in flight.
func (h *Handler) admit(r *http.Request, acc *account) *refusal {
	switch {
	case acc == nil:
		return &refusal{status: http.StatusNotFound, outcome: inbox.OutcomeUnknownAccount, reason: "unknown account", close: true}
	case r.Method != http.MethodPost:
		return &refusal{status: http.StatusMethodNotAllowed, outcome: inbox.OutcomeBadForm, reason: "method is not POST", close: true}
	case encoded(r.Header):
		return &refusal{status: http.StatusUnsupportedMediaType, outcome: inbox.OutcomeBadForm, reason: "body is compressed", close: true}
	case acc.inFlight.Add(1) > int64(h.opt.Limits.AccountInFlightMax):
		acc.inFlight.Add(-1)
		return &refusal{
			status: http.StatusTooManyRequests, outcome: inbox.OutcomeError, reason: "overloaded: requests of the account", retry: true, close: true,
		}
	}
	return nil
}

func encoded(h http.Header) bool {
	for _, value := range h.Values("Content-Encoding") {
		if value != "" && !strings.EqualFold(strings.TrimSpace(value), "identity") {
			return true
		}
	}
	return false
}

// errPanicked stands for a panic of an adapter. Its value is not kept: it may
// hold parts of the payload.
var errPanicked = errors.New("receive: the adapter panicked")

func (h *Handler) verify(acc *account, d *provider.Delivery) (items []provider.Item, err error) {
	defer h.recovered(acc, &err)
	return acc.Adapter.Verify(&acc.Account.Account, d)
}

func (h *Handler) parse(acc *account, payload []byte) (ev provider.Event, err error) {
	defer h.recovered(acc, &err)
	return acc.Adapter.Parse(&acc.Account.Account, payload)
}

func (h *Handler) recovered(acc *account, err *error) {
	if p := recover(); p != nil {
		*err = errPanicked
		h.opt.Logger.Error("an adapter panicked", "account", acc.Name, "provider", acc.Provider,
			"type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
	}
}

// unverified is the answer to a delivery of which something did not verify.
func (h *Handler) unverified(err error) *refusal {
	switch {
	case err == nil:
		return badForm("no notification in the body")
	case errors.Is(err, provider.ErrAge):
		return &refusal{status: http.StatusBadRequest, outcome: inbox.OutcomeTooOld, reason: "time stamp outside the tolerance"}
	case errors.Is(err, provider.ErrSignature):
		return &refusal{status: http.StatusBadRequest, outcome: inbox.OutcomeBadSignature, reason: "signature does not verify"}
	case errors.Is(err, provider.ErrForm):
		return badForm("body has no readable form")
	}
	// Verification itself did not work, say for want of a certificate.
	return &refusal{status: http.StatusServiceUnavailable, outcome: inbox.OutcomeError, reason: "verification is not possible now", retry: true}
}

// store makes every item durable; nil means that all of them are.
func (h *Handler) store(ctx context.Context, acc *account, d *provider.Delivery, items []provider.Item) *refusal {
	ctx, cancel := context.WithTimeout(ctx, acc.within)
	defer cancel()
	trace, header := newTrace(), keep(d.Header, acc.kept)
	drafts := make([]inbox.Draft, len(items))
	events := make([]provider.Event, len(items))
	for i, item := range items {
		ev, err := h.parse(acc, item.Payload)
		events[i] = ev
		drafts[i] = inbox.NewDraft(inbox.Evidence{
			ID: h.opt.NewID(id.Event), Account: &acc.Account.Account, Source: store.SourceWebhook, ReceivedAt: d.ReceivedAt,
			Trace: trace, Payload: item.Payload, Header: header, Hint: item.Hint, Event: ev, ParseError: err,
		})
	}
	receipts, err := h.put(ctx, acc, items, drafts, events)
	for i, receipt := range receipts {
		h.note(acc, &drafts[i], receipt)
	}
	if err != nil {
		return notStored(err)
	}
	return nil
}

// put hands the drafts to the inbox. A synchronous account's single item is
// applied while the provider waits; what needs a look-up first, and batches,
// whose changes together nobody can bound, are stored as received.
func (h *Handler) put(ctx context.Context, acc *account, items []provider.Item, drafts []inbox.Draft, events []provider.Event) ([]inbox.Receipt, error) {
	if acc.Processing != ProcessingSync || len(items) > 1 || items[0].Hint || events[0].Thin {
		return h.opt.Inbox.PutAll(ctx, drafts)
	}
	receipt, err := h.opt.Inbox.PutNow(ctx, h.opt.Sync, drafts[0], events[0])
	return []inbox.Receipt{receipt}, err
}

func notStored(err error) *refusal {
	if errors.Is(err, inbox.ErrOverloaded) {
		return &refusal{status: http.StatusServiceUnavailable, outcome: inbox.OutcomeError, reason: "overloaded: queue", retry: true, err: err}
	}
	return &refusal{status: http.StatusServiceUnavailable, outcome: inbox.OutcomeError, reason: "not stored", retry: true, err: err}
}

// note counts and logs what became of an item that is durable.
func (h *Handler) note(acc *account, d *inbox.Draft, receipt inbox.Receipt) {
	if receipt.ID == "" {
		return
	}
	outcome := inbox.OutcomeStored
	if receipt.Duplicate {
		outcome = inbox.OutcomeDuplicate
	}
	h.opt.Metrics.Received(acc.Provider, outcome)
	h.opt.Metrics.Heard(acc.Provider, d.ReceivedAt)
	level := slog.LevelDebug
	if d.Malformed || receipt.Variant && !receipt.Duplicate {
		level = slog.LevelWarn
	}
	h.opt.Logger.LogAttrs(context.Background(), level, "event received",
		slog.String("account", acc.Name), slog.String("event_id", receipt.ID), slog.String("trace_id", d.Trace),
		slog.String("outcome", outcome), slog.Bool("malformed", d.Malformed),
		slog.Bool("variant", receipt.Variant), slog.Bool("other_bytes", receipt.OtherBytes))
}

func (h *Handler) now() time.Time { return h.opt.Now().UTC().Truncate(time.Microsecond) }

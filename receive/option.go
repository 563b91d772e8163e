package receive

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/provider"
)

// Ways of processing, per account.
const (
	// ProcessingAsync stores and acknowledges; workers apply later.
	ProcessingAsync = "async"
	// ProcessingSync stores, applies and acknowledges in one transaction, and
	// falls back to async for what cannot be applied so.
	ProcessingSync = "sync"
)

// Defaults of Limits.
const (
	DefaultBodyBytesMax       = 1 << 20
	DefaultBodyTimeout        = 10 * time.Second
	DefaultHeaderBytesMax     = 16 << 10
	DefaultHeaderTimeout      = 5 * time.Second
	DefaultIdleTimeout        = 75 * time.Second
	DefaultConnectionsMax     = 2048
	DefaultInFlightBytesMax   = 32 << 20
	DefaultAccountInFlightMax = 1024
	DefaultAcknowledgeWithin  = 10 * time.Second
	DefaultRetryAfterMin      = 2 * time.Second
	DefaultRetryAfterMax      = 15 * time.Second
)

// Account is one provider account whose deliveries are received under
// /webhooks/{Name}. Several endpoints at the provider are one account with
// several secrets.
type Account struct {
	provider.Account
	Adapter provider.Adapter
	// Processing is ProcessingAsync (the default) or ProcessingSync.
	Processing string
}

// Limits bound what strangers can make us spend. Zero values are the defaults.
type Limits struct {
	// BodyBytesMax is the largest body; one byte more is 413. Bodies are never
	// inflated: a Content-Encoding is 415, because signatures are over the bytes
	// as received and no provider compresses.
	BodyBytesMax int64
	// BodyTimeout bounds the time from the headers to the last byte of the body.
	BodyTimeout time.Duration
	// HeaderBytesMax and HeaderTimeout bound the headers, IdleTimeout the pause
	// between two requests on a connection.
	HeaderBytesMax int
	HeaderTimeout  time.Duration
	IdleTimeout    time.Duration
	// ConnectionsMax bounds open connections; more wait in the kernel.
	ConnectionsMax int
	// InFlightBytesMax bounds the bytes of all bodies being received; at least
	// twice BodyBytesMax, because a body that grows holds two rooms for a moment.
	InFlightBytesMax int64
	// AccountInFlightMax bounds one account's requests at once, so that one
	// account cannot crowd out the others.
	AccountInFlightMax int
	// AcknowledgeWithin is the longest wait for the inbox; the contract's own
	// budget counts if it is shorter.
	AcknowledgeWithin time.Duration
	// RetryAfterMin and RetryAfterMax bound the drawn Retry-After.
	RetryAfterMin, RetryAfterMax time.Duration
}

// Options configure a Handler.
type Options struct {
	Accounts []Account
	Inbox    *inbox.Inbox
	// Sync applies in the receiving transaction; needed by accounts with
	// ProcessingSync.
	Sync    inbox.Synchronous
	Limits  Limits
	Now     func() time.Time
	NewID   func(prefix string) string
	Logger  *slog.Logger
	Metrics *inbox.Metrics
}

// Filled returns the limits with defaults in place of zeros.
func (l Limits) Filled() Limits {
	setDefault(&l.BodyBytesMax, DefaultBodyBytesMax)
	setDefault(&l.BodyTimeout, DefaultBodyTimeout)
	setDefault(&l.HeaderBytesMax, DefaultHeaderBytesMax)
	setDefault(&l.HeaderTimeout, DefaultHeaderTimeout)
	setDefault(&l.IdleTimeout, DefaultIdleTimeout)
	setDefault(&l.ConnectionsMax, DefaultConnectionsMax)
	setDefault(&l.InFlightBytesMax, DefaultInFlightBytesMax)
	setDefault(&l.AccountInFlightMax, DefaultAccountInFlightMax)
	setDefault(&l.AcknowledgeWithin, DefaultAcknowledgeWithin)
	setDefault(&l.RetryAfterMin, DefaultRetryAfterMin)
	setDefault(&l.RetryAfterMax, max(l.RetryAfterMin, DefaultRetryAfterMax))
	return l
}

// Check returns every problem of filled limits.
func (l Limits) Check() error {
	var problems []error
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"body bytes", l.BodyBytesMax}, {"body timeout", int64(l.BodyTimeout)}, {"header bytes", int64(l.HeaderBytesMax)},
		{"header timeout", int64(l.HeaderTimeout)}, {"idle timeout", int64(l.IdleTimeout)},
		{"connections", int64(l.ConnectionsMax)}, {"bytes in flight", l.InFlightBytesMax},
		{"requests of an account", int64(l.AccountInFlightMax)}, {"time to acknowledge", int64(l.AcknowledgeWithin)},
		{"shortest Retry-After", int64(l.RetryAfterMin)},
	} {
		if limit.value <= 0 {
			problems = append(problems, fmt.Errorf("receive: %s: %d is not positive", limit.name, limit.value))
		}
	}
	if l.RetryAfterMax < l.RetryAfterMin {
		problems = append(problems, fmt.Errorf("receive: longest Retry-After %s is shorter than the shortest, %s", l.RetryAfterMax, l.RetryAfterMin))
	}
	if l.InFlightBytesMax < 2*l.BodyBytesMax {
		problems = append(problems, fmt.Errorf("receive: %d bytes in flight leave no room for a body of %d", l.InFlightBytesMax, l.BodyBytesMax))
	}
	return errors.Join(problems...)
}

func (o *Options) fill() error {
	o.Limits = o.Limits.Filled()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func(prefix string) string { return id.New(prefix, o.Now()) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = inbox.NewMetrics()
	}
	problems := []error{o.Limits.Check()}
	if o.Inbox == nil {
		problems = append(problems, errors.New("receive: no inbox"))
	}
	seen := map[string]bool{}
	for i := range o.Accounts {
		a := &o.Accounts[i]
		setDefault(&a.Processing, ProcessingAsync)
		for _, problem := range o.problemsOf(a) {
			problems = append(problems, fmt.Errorf("receive: account %q: %w", a.Name, problem))
		}
		if seen[a.Name] {
			problems = append(problems, fmt.Errorf("receive: account %q stands twice", a.Name))
		}
		seen[a.Name] = true
	}
	return errors.Join(problems...)
}

// accountName is what may stand in a URL, a lane and a log.
var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func (o *Options) problemsOf(a *Account) []error {
	var problems []error
	if !accountName.MatchString(a.Name) {
		problems = append(problems, errors.New("the name is not 1 to 64 of a-z, 0-9, _ and -"))
	}
	if a.Adapter == nil {
		problems = append(problems, fmt.Errorf("no adapter for provider %q", a.Provider))
	}
	if a.Mode != provider.Live && a.Mode != provider.Test {
		problems = append(problems, fmt.Errorf("mode is %q, not live or test", string(a.Mode)))
	}
	if len(a.Secrets) == 0 {
		problems = append(problems, errors.New("no secret, so nothing could be verified"))
	}
	for _, secret := range a.Secrets {
		if secret == "" {
			problems = append(problems, errors.New("an empty secret would verify anything"))
		}
	}
	switch {
	case a.Processing != ProcessingAsync && a.Processing != ProcessingSync:
		problems = append(problems, fmt.Errorf("processing is %q, not async or sync", a.Processing))
	case a.Processing == ProcessingSync && o.Sync == nil:
		problems = append(problems, errors.New("processing is sync and nothing applies"))
	}
	return problems
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// newTrace mints the trace id of a delivery, 16 random bytes in hex. What a
// caller sends as a trace is not taken: callers here are strangers.
func newTrace() string {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		panic("receive: impossible: no randomness: " + err.Error())
	}
	return hex.EncodeToString(raw[:])
}

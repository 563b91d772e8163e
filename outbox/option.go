package outbox

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// Defaults and bounds of a relay.
const (
	DefaultAttempts      = 5
	DefaultBackoffBase   = 10 * time.Second
	DefaultBackoffFactor = 5
	DefaultBackoffCap    = 4 * time.Hour
	DefaultRetryAfterMax = time.Hour
	DefaultPoll          = time.Second
	DefaultCutOffAfter   = 5
	DefaultCutOffFor     = 30 * time.Second
	DefaultUserAgent     = "unavez"

	// leaseFactor is how many time limits of an attempt a lease must outlast.
	leaseFactor = 2
	// perLane is the number of messages of one payment that a claim takes.
	perLane = 16
	// lanesPerRequest is the number of lanes in work for each request at once.
	lanesPerRequest = 4
	// writesMax is the number of changes in one transaction.
	writesMax = 64
	// writeWithin bounds one transaction of a relay.
	writeWithin = 10 * time.Second
	// markTriesMax bounds the tries to record a result while the lease lasts.
	markTriesMax = 20
)

// Options configure a Relay; zero values are the defaults.
type Options struct {
	// Backoff spaces the attempts at one message and bounds their number.
	Backoff backoff.Policy
	// RetryAfterMax bounds what a Retry-After may ask for.
	RetryAfterMax time.Duration
	// Lease is how long claimed lanes belong to this relay; at least twice the
	// longest time limit of a destination, which is the default.
	Lease time.Duration
	// Poll is the longest pause between two looks for work.
	Poll time.Duration
	// CutOffAfter consecutive failures, a destination gets nothing for CutOffFor,
	// and then single attempts until one succeeds.
	CutOffAfter int
	CutOffFor   time.Duration
	// SignEvent signs a provider's event anew in the provider's own scheme, for
	// event.* messages; its headers are added. Nil adds none.
	SignEvent func(m *store.Message, secrets []provider.Secret, at time.Time) (http.Header, error)
	// Resolver and RootCAs are those of the system if nil.
	Resolver  *net.Resolver
	RootCAs   *x509.CertPool
	UserAgent string
	Now       func() time.Time
	NewID     func(prefix string) string
	// Random returns numbers in [0, 1) for the jitter.
	Random func() float64
	Logger *slog.Logger
}

// fill sets the defaults and returns everything that does not fit.
func (o *Options) fill(destinations []Destination) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func(prefix string) string { return id.New(prefix, o.Now()) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Backoff.Base, DefaultBackoffBase)
	setDefault(&o.Backoff.Factor, DefaultBackoffFactor)
	setDefault(&o.Backoff.Cap, DefaultBackoffCap)
	setDefault(&o.Backoff.Attempts, DefaultAttempts)
	setDefault(&o.RetryAfterMax, DefaultRetryAfterMax)
	setDefault(&o.Poll, DefaultPoll)
	setDefault(&o.CutOffAfter, DefaultCutOffAfter)
	setDefault(&o.CutOffFor, DefaultCutOffFor)
	setDefault(&o.UserAgent, DefaultUserAgent)
	longest := DefaultTimeout
	if len(destinations) > 0 {
		longest = 0
	}
	for _, d := range destinations {
		longest = max(longest, d.filled().Timeout)
	}
	setDefault(&o.Lease, leaseFactor*longest)
	return o.check(longest)
}

func (o *Options) check(longest time.Duration) error {
	var problems []error
	if o.Lease < leaseFactor*longest {
		problems = append(problems, fmt.Errorf("outbox: lease %s is shorter than %d × the longest time limit, %s", o.Lease, leaseFactor, longest))
	}
	for _, bound := range []struct {
		name  string
		value time.Duration
	}{
		{"backoff base", o.Backoff.Base}, {"backoff cap", o.Backoff.Cap}, {"retry-after bound", o.RetryAfterMax},
		{"poll", o.Poll}, {"cut-off time", o.CutOffFor},
	} {
		if bound.value < 0 {
			problems = append(problems, fmt.Errorf("outbox: %s is negative", bound.name))
		}
	}
	if o.Backoff.Attempts < 0 || o.CutOffAfter < 0 {
		problems = append(problems, errors.New("outbox: attempts and failures before the cut-off are counted from 1"))
	}
	return errors.Join(problems...)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

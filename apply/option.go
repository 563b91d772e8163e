package apply

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// What an account does with evidence of a payment that was never registered.
const (
	// UnregisteredWait keeps it until the record appears; an exception after WaitFor.
	UnregisteredWait = "wait"
	// UnregisteredAdopt creates a payment from the authentic root object; it
	// notifies and never fulfills until it is registered.
	UnregisteredAdopt = "adopt"
	// UnregisteredIgnore finishes it without effect.
	UnregisteredIgnore = "ignore"
)

// Defaults and bounds.
const (
	DefaultFulfillWithin = 7 * 24 * time.Hour
	DefaultWaitFor       = 24 * time.Hour
	DefaultQuiet         = time.Hour
	// quietMax is the latest that a quiet condition opens after it first held.
	quietMax            = 24 * time.Hour
	DefaultEntryTimeout = 30 * time.Second
	DefaultLanes        = 256
	DefaultPerLane      = 16
	DefaultWorkers      = 2
	DefaultPoll         = time.Second
	DefaultGather       = 25 * time.Millisecond
	DefaultAttempts     = 5
	stepRetriesMax      = 10
	referencesMax       = 32
	nameBytesMax        = 512
	foreignWait         = 400 * 24 * time.Hour
	syncLockTimeout     = 2 * time.Second
	stackBytesMax       = 16 << 10
	errorBytesMax       = 2 << 10
)

// Account is an account as far as apply needs it.
type Account struct {
	provider.Account
	Adapter       provider.Adapter
	Shop          string
	FulfillOn     payment.FulfillOn
	FulfillWithin time.Duration
	Unregistered  string
	WaitFor       time.Duration
	Quiet         time.Duration
}

// Options configure an Applier; zero values are the defaults.
type Options struct {
	Accounts map[string]*Account
	// Destinations names the destinations that subscribe to a message type.
	Destinations func(messageType string) []string
	Now          func() time.Time
	NewID        func(prefix string) string
	// Workers is the number of batches in work at once; Lanes and PerLane bound a batch.
	Workers, Lanes, PerLane int
	// EntryTimeout is the time limit of one entry; Lease must be at least twice as long.
	EntryTimeout, Lease time.Duration
	// Poll is the longest pause between two looks at an empty queue.
	Poll time.Duration
	// Gather is how long a worker that has nothing left waits before it looks
	// again, though hinted, so that evidence that trickles in shares claims and
	// transactions, and a caller's commit does not wait behind those of the
	// event before.
	Gather  time.Duration
	Backoff backoff.Policy
	Logger  *slog.Logger
}

func (o *Options) fill() error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func(prefix string) string { return id.New(prefix, o.Now()) }
	}
	if o.Destinations == nil {
		o.Destinations = func(string) []string { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Workers, DefaultWorkers)
	setDefault(&o.Lanes, DefaultLanes)
	setDefault(&o.PerLane, DefaultPerLane)
	setDefault(&o.EntryTimeout, DefaultEntryTimeout)
	setDefault(&o.Lease, 2*o.EntryTimeout)
	setDefault(&o.Poll, DefaultPoll)
	setDefault(&o.Gather, DefaultGather)
	setDefault(&o.Backoff.Attempts, DefaultAttempts)
	setDefault(&o.Backoff.Base, time.Second)
	setDefault(&o.Backoff.Cap, 10*time.Minute)
	if o.Lease < 2*o.EntryTimeout {
		return fmt.Errorf("apply: lease %s is shorter than twice the time limit of an entry, %s", o.Lease, o.EntryTimeout)
	}
	for name, a := range o.Accounts {
		if err := a.fill(); err != nil {
			return fmt.Errorf("apply: account %s: %w", name, err)
		}
	}
	return nil
}

func (a *Account) fill() error {
	if a.Adapter == nil {
		return fmt.Errorf("no adapter for provider %q", a.Provider)
	}
	setDefault(&a.Shop, "default")
	setDefault(&a.FulfillOn, payment.OnCaptured)
	setDefault(&a.FulfillWithin, DefaultFulfillWithin)
	setDefault(&a.Unregistered, UnregisteredWait)
	setDefault(&a.WaitFor, DefaultWaitFor)
	setDefault(&a.Quiet, DefaultQuiet)
	switch a.Unregistered {
	case UnregisteredWait, UnregisteredAdopt, UnregisteredIgnore:
	default:
		return fmt.Errorf("unregistered is %q, not wait, adopt or ignore", a.Unregistered)
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

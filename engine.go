package unavez

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/subscribe"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/all"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/postgres"
	"github.com/unavez/unavez/store/sqlite"
)

// Options are what an Engine takes besides its configuration; zero values are
// the process's clock, a discarded log and a registry of its own.
type Options struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry
	Now      func() time.Time
	// AllowWeakDurability starts although Check reports a finding that is not OK.
	AllowWeakDurability bool
}

// Engine is the whole flow over one ledger: receive → inbox → apply → outbox.
type Engine struct {
	Config   Config
	Store    store.Store
	Inbox    *inbox.Inbox
	Applier  *apply.Applier
	Relay    *outbox.Relay
	Receiver *receive.Handler
	Limits   receive.Limits
	Registry *prometheus.Registry
	Logger   *slog.Logger

	started bool
}

// ErrWeakDurability says that the database would lose what it acknowledged.
var ErrWeakDurability = errors.New("unavez: the database's settings weaken durability")

// Open opens the ledger that the configuration names: a postgres:// URL, or the
// path of an SQLite file.
func Open(ctx context.Context, database string, logger *slog.Logger) (store.Store, error) {
	if strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://") {
		return postgres.Open(ctx, database, postgres.Options{Logger: logger})
	}
	return sqlite.Open(ctx, strings.TrimPrefix(database, "sqlite://"), sqlite.Options{Logger: logger})
}

// New checks the configuration and wires the stages over the ledger, in the
// order of the flow. It starts nothing. The schema must be current.
func New(ctx context.Context, s store.Store, c Config, opt Options) (*Engine, error) {
	if err := c.Fill(); err != nil {
		return nil, err
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Registry == nil {
		opt.Registry = prometheus.NewRegistry()
	}
	if err := check(ctx, s, opt); err != nil {
		return nil, err
	}
	e := &Engine{Config: c, Store: s, Registry: opt.Registry, Logger: opt.Logger}
	if err := e.wire(opt); err != nil {
		return nil, err
	}
	return e, nil
}

func check(ctx context.Context, s store.Store, opt Options) error {
	findings, err := s.Check(ctx)
	if err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	var weak []string
	for _, f := range findings {
		if !f.OK {
			weak = append(weak, f.Name+": "+f.Message)
		}
	}
	if len(weak) == 0 {
		return nil
	}
	if opt.AllowWeakDurability {
		opt.Logger.Warn("the database's settings weaken durability", "findings", weak)
		return nil
	}
	return fmt.Errorf("%w: %s", ErrWeakDurability, strings.Join(weak, "; "))
}

// wire builds the stages from the end of the flow to its beginning.
func (e *Engine) wire(opt Options) (err error) {
	destinations := e.Config.destinations()
	e.Relay, err = outbox.New(e.Store, destinations, outbox.Options{
		Backoff: e.backoff(0), Poll: e.Config.Work.Poll, Now: opt.Now, Logger: opt.Logger,
		SignEvent: e.signEvent,
	})
	if err != nil {
		return err
	}
	types := map[string][]string{}
	for _, d := range destinations {
		types[d.Name] = d.Types
	}
	e.Applier, err = apply.New(e.Store, apply.Options{
		Accounts: e.applyAccounts(), Destinations: subscribe.NewSet(types).Destinations, Now: opt.Now,
		Workers: e.Config.Work.Workers, EntryTimeout: e.Config.Work.EntryTimeout, Lease: e.Config.Work.Lease,
		Poll: e.Config.Work.Poll, Backoff: e.backoff(e.Config.Work.Attempts), Logger: opt.Logger,
	})
	if err != nil {
		return err
	}
	metrics := inbox.NewMetrics()
	e.Inbox, err = inbox.New(e.Store, inbox.Options{
		Notices: e.Applier.Notices, Forward: e.Applier.Forward, QueueRowsMax: e.Config.Limits.QueueEntriesMax, Now: opt.Now, Logger: opt.Logger, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	e.Limits = receive.Limits{
		BodyBytesMax: e.Config.Limits.BodyBytesMax, BodyTimeout: e.Config.Limits.ReadBodyTimeout,
		HeaderTimeout: e.Config.Limits.ReadHeaderTimeout, ConnectionsMax: e.Config.Limits.ConnectionsMax,
		InFlightBytesMax: e.Config.Limits.InFlightBytesMax,
	}
	e.Receiver, err = receive.New(receive.Options{
		Accounts: e.receiveAccounts(), Inbox: e.Inbox, Sync: e.Applier, Limits: e.Limits, Now: opt.Now,
		Logger: opt.Logger, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	for _, c := range append(e.Relay.Collectors(), metrics, e.Applier.Collector()) {
		if err := opt.Registry.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

func (e *Engine) backoff(attempts int) backoff.Policy {
	return backoff.Policy{Base: e.Config.Work.BackoffBase, Cap: e.Config.Work.BackoffCap, Attempts: attempts}
}

func (a *Account) account() provider.Account {
	own := a.ProviderAccount
	if own == "" {
		own = a.MerchantAccount
	}
	return provider.Account{
		Name: a.Name, Provider: a.Provider, ProviderAccount: own, Mode: a.Mode, Secrets: a.Secrets, APIKey: a.APIKey,
		BaseURL: a.BaseURL, OrderMetadata: a.OrderMetadata, EventPrefix: a.EventPrefix, Capture: a.Capture,
	}
}

func (e *Engine) applyAccounts() map[string]*apply.Account {
	adapters := all.Adapters()
	accounts := map[string]*apply.Account{}
	for i := range e.Config.Accounts {
		a := &e.Config.Accounts[i]
		accounts[a.Name] = &apply.Account{
			Account: a.account(), Adapter: adapters[a.Provider], Shop: a.Shop, FulfillOn: a.FulfillOn,
			FulfillWithin: a.FulfillWithin, Unregistered: a.Unregistered, WaitFor: a.WaitFor, Quiet: a.Quiet,
		}
	}
	return accounts
}

func (e *Engine) receiveAccounts() []receive.Account {
	adapters := all.Adapters()
	var accounts []receive.Account
	for i := range e.Config.Accounts {
		a := &e.Config.Accounts[i]
		accounts = append(accounts, receive.Account{Account: a.account(), Adapter: adapters[a.Provider], Processing: a.Processing})
	}
	return accounts
}

// signEvent signs a provider's event anew for a handler that exists already,
// where the provider's scheme allows it.
func (e *Engine) signEvent(m *store.Message, secrets []provider.Secret, at time.Time) (http.Header, error) {
	adapters := all.Adapters()
	for i := range e.Config.Accounts {
		if a := &e.Config.Accounts[i]; a.Name == m.Account {
			if r, ok := adapters[a.Provider].(provider.Resigner); ok {
				return r.Resign(m.Body, secrets, at), nil
			}
		}
	}
	return nil, nil
}

// Start starts the stages against the flow, so that nothing is received before
// somebody works it off.
func (e *Engine) Start(ctx context.Context) error {
	if e.started {
		return errors.New("unavez: started twice")
	}
	e.started = true
	if err := e.Relay.Start(ctx); err != nil {
		return err
	}
	e.Applier.Start(ctx)
	return e.Inbox.Start(ctx)
}

// Stop stops the stages along the flow: intake first, then the workers, then
// the relay. The ledger is the caller's to close afterwards. When ctx ends, what
// is in work is left to its lease; nothing is lost.
func (e *Engine) Stop(ctx context.Context) error {
	return errors.Join(e.Inbox.Stop(ctx), e.Applier.Stop(ctx), e.Relay.Stop(ctx))
}

// Ingress is the server of the internet's edge: POST /webhooks/{account}.
func (e *Engine) Ingress() *http.Server {
	return receive.NewServer(e.Receiver, e.Limits.Filled(), e.Logger)
}

package httpapi

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/idempotency"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/store"
)

// Bounds of the private listener.
const (
	bodyBytesMax    = 64 << 10
	headerBytesMax  = 16 << 10
	requestsMax     = 256
	requestTimeout  = 30 * time.Second
	headerTimeout   = 5 * time.Second
	readTimeout     = 15 * time.Second
	writeTimeout    = 60 * time.Second
	idleTimeout     = 2 * time.Minute
	limitDefault    = 25
	limitMax        = 100
	idBytesMax      = 512
	reasonRunesMax  = 1000
	timelineRowsMax = 1000
	searchHitsMax   = 100
	readyCacheFor   = time.Second
	readyWithin     = 2 * time.Second
	statsCacheFor   = 5 * time.Second
	touchEvery      = time.Minute
	overloadedPause = time.Second
)

// Account is an account of the configuration as far as the API needs it.
type Account struct{ Name, Shop string }

// Token is an API token of the configuration.
type Token struct {
	Name   string
	Role   Role
	Secret string
}

// Version tells which program answers.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Go       string `json:"go,omitzero"`
}

// Deps is what the API stands on. Store, Applier and Relay are required; zero
// values of the rest are the defaults.
type Deps struct {
	Store        store.Store
	Applier      *apply.Applier
	Relay        *outbox.Relay
	Accounts     []Account
	Destinations []outbox.Destination
	Tokens       []Token
	// Listen is the address of the private listener, Hosts the further names
	// under which it may be addressed.
	Listen string
	Hosts  []string
	// KeyLifetime is how long answers are kept under their Idempotency-Key.
	KeyLifetime time.Duration
	// MetricsOpen serves /metrics without a token.
	MetricsOpen bool
	Version     Version
	Registry    *prometheus.Registry
	Logger      *slog.Logger
	Now         func() time.Time
	NewID       func(prefix string) string
	// Keys tune the keeping of answers further.
	Keys idempotency.Options
}

func (d *Deps) fill() error {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.NewID == nil {
		d.NewID = func(prefix string) string { return id.New(prefix, d.Now()) }
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Registry == nil {
		d.Registry = prometheus.NewRegistry()
	}
	if d.Version.Version == "" {
		d.Version.Version = "devel"
	}
	if d.Keys.Lifetime == 0 {
		d.Keys.Lifetime = d.KeyLifetime
	}
	if d.Keys.Logger == nil {
		d.Keys.Logger = d.Logger
	}
	if d.Store == nil || d.Applier == nil || d.Relay == nil {
		return errors.New("httpapi: store, applier and relay are needed")
	}
	return nil
}

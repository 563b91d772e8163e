package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/bench/naive"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/receive"
)

const (
	// collectPercent and memoryBytesMax are how a server is run that has its
	// machine to itself: fewer collections, within a bound.
	collectPercent = 400
	memoryBytesMax = 160 << 20
	stopWithin     = 20 * time.Second
	// aloneWorkers is the number of workers that apply one event each.
	aloneWorkers = 8
)

// serve is the process under test: it listens, says where, and ends with its
// standard input.
func serve(raw string) error {
	var s spec
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return err
	}
	debug.SetGCPercent(collectPercent)
	debug.SetMemoryLimit(memoryBytesMax)
	if s.Profile != "" {
		f, err := os.Create(s.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	ctx := context.Background()
	server, stop, err := prepare(ctx, s)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Println(listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	bound, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	err = errors.Join(err, server.Shutdown(bound), stop(bound))
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func prepare(ctx context.Context, s spec) (*http.Server, func(context.Context) error, error) {
	switch s.Kind {
	case "naive":
		h, err := naive.New(ctx, s.Database, secret, time.Now)
		if err != nil {
			return nil, nil, err
		}
		return &http.Server{Handler: h}, func(context.Context) error { h.Close(); return nil }, nil
	case "verify":
		return &http.Server{Handler: http.HandlerFunc(verifyOnly)}, func(context.Context) error { return nil }, nil
	}
	return prepareLedger(ctx, s)
}

var account = provider.Account{Name: accountName, Provider: "stripe", Mode: provider.Live, Secrets: []provider.Secret{secret}}

// verifyOnly is the most that any receiver of signed events can do.
func verifyOnly(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d := &provider.Delivery{Header: r.Header, Body: body, ReceivedAt: time.Now()}
	if _, err := (stripe.Adapter{}).Verify(&account, d); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func config(s spec) unavez.Config {
	c := unavez.Config{
		Database: s.Database,
		Accounts: []unavez.Account{{Name: accountName, Provider: "stripe", Mode: provider.Live, Secrets: account.Secrets}},
	}
	if s.Sink != "" {
		c.Destinations = []unavez.Destination{{
			Name: "shop", URL: s.Sink, Types: []string{"*"}, Secret: "whsec_c2luay1vZi10aGUtYmVuY2htYXJr", AllowPrivate: true,
			Concurrency: sinkConcurrency,
		}}
	}
	return c
}

// prepareLedger wires the stages as the product does, and starts those that
// the spec names.
func prepareLedger(ctx context.Context, s spec) (*http.Server, func(context.Context) error, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ledger, err := unavez.Open(ctx, s.Database, logger)
	if err != nil {
		return nil, nil, err
	}
	e, err := unavez.New(ctx, ledger, config(s), unavez.Options{Logger: logger})
	if err != nil {
		return nil, nil, errors.Join(err, ledger.Close())
	}
	if err := vary(e, s, logger); err != nil {
		return nil, nil, errors.Join(err, ledger.Close())
	}
	if s.Deliver {
		if err := e.Relay.Start(ctx); err != nil {
			return nil, nil, errors.Join(err, ledger.Close())
		}
	}
	if s.Work {
		e.Applier.Start(ctx)
	}
	if s.Receive {
		if err := e.Inbox.Start(ctx); err != nil {
			return nil, nil, errors.Join(err, ledger.Close())
		}
	}
	return e.Ingress(), func(ctx context.Context) error { return errors.Join(stopStages(ctx, e, s), ledger.Close()) }, nil
}

func stopStages(ctx context.Context, e *unavez.Engine, s spec) error {
	err := e.Inbox.Stop(ctx)
	if s.Work {
		err = errors.Join(err, e.Applier.Stop(ctx))
	}
	if s.Deliver {
		err = errors.Join(err, e.Relay.Stop(ctx))
	}
	return err
}

// vary replaces the stages of which a case measures the other way.
func vary(e *unavez.Engine, s spec, logger *slog.Logger) (err error) {
	if s.Alone {
		e.Applier, err = apply.New(e.Store, apply.Options{
			Accounts: map[string]*apply.Account{accountName: {Account: account, Adapter: stripe.Adapter{}}},
			Workers:  aloneWorkers, Lanes: 1, PerLane: 1, Logger: logger,
		})
		if err != nil {
			return err
		}
	}
	if s.Forget {
		if e.Inbox, err = inbox.New(e.Store, inbox.Options{KnownBytesMax: 1, Logger: logger}); err != nil {
			return err
		}
		e.Receiver, err = receive.New(receive.Options{
			Accounts: []receive.Account{{Account: account, Adapter: stripe.Adapter{}, Processing: receive.ProcessingAsync}},
			Inbox:    e.Inbox, Sync: e.Applier, Limits: e.Limits, Logger: logger,
		})
	}
	return err
}

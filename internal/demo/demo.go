package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/unavez/unavez/simulator"
)

// Bounds.
const (
	DefaultPayments = 200
	// PaymentsMax bounds what one demonstration plays.
	PaymentsMax = 100_000
	killsMax    = 6
	buyers      = 8
	triesMax    = 600
	providerKey = "sk_test_simulator"

	callWithin  = 10 * time.Second
	startWithin = 60 * time.Second
	stopWithin  = 40 * time.Second
	readyPoll   = 20 * time.Millisecond
	retryPause  = 50 * time.Millisecond
	// settleWithin bounds the wait for the last delivery and the last message.
	settleWithin = 10 * time.Minute
)

// Options of a demonstration.
type Options struct {
	Payments int
	Seed     uint64
	// Database is a postgres:// URL or a path; a temporary SQLite file if empty.
	Database string
	// Executable is the program whose serve command is demonstrated.
	Executable string
	// Talk is where progress goes.
	Talk io.Writer
	// Bend lets a test change what the shop hears of an order.
	Bend func(order string) (times int)
	// Stay, if not nil, is called with the addresses when the report is ready,
	// while the server still runs.
	Stay func(ctx context.Context, r Report, where Where) error
}

// Where says where the server of a demonstration is.
type Where struct {
	Ingress, Private, TokenFile, Folder string
}

// demo is one demonstration.
type demo struct {
	opt    Options
	node   *node
	shop   *shop
	sim    *simulator.Server
	simSrv *http.Server
	simURL string
	client *http.Client
	kills  int
}

// Run plays the demonstration and compares the books. The error is about the
// demonstration itself; whether the books agree says the report.
func Run(ctx context.Context, opt Options) (r Report, err error) {
	begun := time.Now()
	folder, err := os.MkdirTemp("", "unavez-demo-")
	if err != nil {
		return r, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	d := &demo{opt: opt, client: &http.Client{Timeout: callWithin}}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if err := d.open(ctx, folder); err != nil {
		return r, err
	}
	if err := d.trade(ctx); err != nil {
		return r, err
	}
	if err := d.settle(ctx); err != nil {
		return r, err
	}
	if r, err = d.compare(ctx); err != nil {
		return r, err
	}
	r.Seconds = float64(time.Since(begun).Milliseconds()) / 1000
	r.judge()
	if opt.Stay != nil {
		where := Where{Ingress: d.node.ingress, Private: d.node.private, Folder: folder, TokenFile: filepath.Join(folder, "token")}
		if err := os.WriteFile(where.TokenFile, []byte(d.node.token+"\n"), 0o600); err != nil {
			return r, fmt.Errorf("writing the token: %w", err)
		}
		return r, opt.Stay(ctx, r, where)
	}
	return r, nil
}

func (d *demo) say(format string, args ...any) {
	if d.opt.Talk != nil {
		fmt.Fprintf(d.opt.Talk, format+"\n", args...)
	}
}

// open starts the shop, the provider and the server.
func (d *demo) open(ctx context.Context, folder string) (err error) {
	if d.shop, err = openShop(); err != nil {
		return fmt.Errorf("opening the shop: %w", err)
	}
	d.shop.bend = d.opt.Bend
	if d.node, err = newNode(folder, d.opt.Executable, d.opt.Database, d.shop); err != nil {
		return err
	}
	d.sim = simulator.New(simulator.Config{
		APIKey: providerKey, Seed: d.opt.Seed, WebhookURL: "http://" + d.node.ingress + "/webhooks/" + account,
		WebhookSecret: d.node.secret, RetryBase: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond, AttemptsMax: 10_000,
	})
	for _, f := range []simulator.Fault{
		{Kind: simulator.FaultDuplicate, Probability: 0.4, Copies: 3},
		{Kind: simulator.FaultDisorder, Probability: 0.5, Window: 6, DelayMS: 100},
		{Kind: simulator.FaultWait, Probability: 0.3, DelayMS: 300},
		{Kind: simulator.FaultSecondEvent, Probability: 0.1},
		{Kind: simulator.FaultLostAnswer, Probability: 0.1},
		{Kind: simulator.FaultDropAnswer, Probability: 0.05},
	} {
		if _, err := d.sim.Inject(f); err != nil {
			return fmt.Errorf("instructing the provider: %w", err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening the provider: %w", err)
	}
	d.simURL = "http://" + l.Addr().String()
	d.simSrv = &http.Server{Handler: d.sim, ReadHeaderTimeout: callWithin}
	go func() { _ = d.simSrv.Serve(l) }()
	if err := d.sim.Start(ctx); err != nil {
		return fmt.Errorf("starting the provider's deliveries: %w", err)
	}
	d.say("shop %s, provider %s, server http://%s", d.shop.url, d.simURL, d.node.private)
	if err := d.node.start(ctx); err != nil {
		return err
	}
	return d.fresh(ctx)
}

// errNotEmpty says that the demonstration was given a ledger in use.
var errNotEmpty = errors.New("the database holds payments already; the demonstration needs an empty one")

// fresh refuses a ledger in use: its payments would be counted too.
func (d *demo) fresh(ctx context.Context) error {
	p, err := d.page(ctx, "/v1/payments?limit=1")
	if err == nil && len(p.Data) > 0 {
		err = errNotEmpty
	}
	return err
}

// trade plays every order, and kills the server on the way.
func (d *demo) trade(ctx context.Context) error {
	all := plans(d.opt.Payments, rand.New(rand.NewPCG(d.opt.Seed, 1)))
	work := make(chan plan)
	group, ctx := errgroup.WithContext(ctx)
	var sold atomic.Int64
	for range buyers {
		group.Go(func() error {
			for p := range work {
				if err := d.buy(ctx, p); err != nil {
					return err
				}
				sold.Add(1)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(work)
		every := max(len(all)/(killsMax+1), 1)
		for i, p := range all {
			select {
			case work <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
			if (i+1)%every == 0 && d.kills < killsMax {
				if err := d.crash(ctx); err != nil {
					return err
				}
				d.say("%d of %d orders placed; server killed and started again (%d of %d)", sold.Load(), len(all), d.kills, min(killsMax, len(all)/every))
			}
		}
		return nil
	})
	return group.Wait()
}

func (d *demo) crash(ctx context.Context) error {
	if err := d.node.kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	d.kills++
	return d.node.start(ctx)
}

func (d *demo) close(ctx context.Context) error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if d.sim != nil {
		errs = append(errs, d.sim.Stop(ctx))
	}
	if d.simSrv != nil {
		errs = append(errs, d.simSrv.Close())
	}
	if d.node != nil {
		errs = append(errs, d.node.stop())
	}
	if d.shop != nil {
		d.shop.close()
	}
	return errors.Join(errs...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
)

// messagesEach is how many messages the success of a payment makes for a
// destination that wants all of them: payment.captured and order.fulfill.
const messagesEach = 2

func delivered(ctx context.Context, b *bench) (got []reached, err error) {
	shop, err := newSink()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shop.close(context.WithoutCancel(ctx))) }()
	with := whole
	with.Deliver, with.Sink = true, shop.url
	events := unavezEvents / 2
	all, err := b.turns(ctx, b.rounds,
		job{spec: baseline, connections: 128, events: naiveEvents},
		job{spec: with, connections: 128, events: events})
	if err != nil {
		return nil, err
	}
	if want := b.rounds * (events + warmUps) * messagesEach; shop.count() != want {
		return nil, fmt.Errorf("%d messages arrived, not %d", shop.count(), want)
	}
	return []reached{{"end_to_end_delivered", ratio(all[0], all[1], measured.processed)}}, nil
}

const hotCount = 10

// hotPayments sends what a provider sends when it tells of one success again
// and again under new event ids: each is stored, applied and recorded.
func hotPayments(ctx context.Context, b *bench) ([]reached, error) {
	all, err := b.turns(ctx, b.rounds,
		job{spec: baseline, connections: 128, events: naiveEvents, payments: hotCount, hot: hotCount},
		job{spec: whole, connections: 128, events: unavezEvents, payments: hotCount, hot: hotCount})
	if err != nil {
		return nil, err
	}
	return []reached{{"hot_payments", ratio(all[0], all[1], measured.processed)}}, nil
}

const (
	copiesEach = 10
	// copiesWithin is how far a copy strays from its place.
	copiesWithin = 2000
)

// stormed makes each event ten times, the copies near each other as in a
// provider's retries, in an order that the seed decides.
func stormed(run string, count int, now time.Time) [][]byte {
	random := rand.New(rand.NewPCG(1, uint64(count)))
	list := make([][]byte, 0, count)
	for i := range count / copiesEach {
		one := request(fmt.Sprintf("evt_%s_%08d", run, i), i, now)
		for range copiesEach {
			list = append(list, one)
		}
	}
	for i := range list {
		j := min(len(list)-1, i+random.IntN(copiesWithin))
		list[i], list[j] = list[j], list[i]
	}
	return list
}

func duplicates(ctx context.Context, b *bench) ([]reached, error) {
	forgetful := receiving
	forgetful.Forget = true
	events := 2 * unavezEvents
	all, err := b.turns(ctx, b.rounds,
		job{spec: forgetful, connections: 128, events: events, payments: unavezEvents, requests: stormed},
		job{spec: receiving, connections: 128, events: events, payments: unavezEvents, requests: stormed})
	if err != nil {
		return nil, err
	}
	return []reached{{"duplicates_cached", ratio(all[0], all[1], measured.perSecond)}}, nil
}

const (
	limitRows    = 20000
	limitBatch   = 128
	limitWriters = 4
)

// additiveLimit compares with a receiver that verifies as fast as one that
// stores nothing, and stores as fast as an insert of the bytes alone.
func additiveLimit(ctx context.Context, b *bench) ([]reached, error) {
	var ratios []float64
	for range b.rounds {
		verified, err := b.verified(ctx)
		if err != nil {
			return nil, err
		}
		inserted, err := b.inserted(ctx)
		if err != nil {
			return nil, err
		}
		ours, err := b.run(ctx, job{spec: receiving, connections: 128, events: unavezEvents})
		if err != nil {
			return nil, err
		}
		limit := 1 / (1/verified + 1/inserted)
		fmt.Fprintf(b.talk, "  verified %.0f/s, inserted %.0f/s, limit %.0f/s\n  unavez receive  %s\n", verified, inserted, limit, ours)
		ratios = append(ratios, ours.perSecond()/limit)
	}
	return []reached{{"ack_of_limit", median(ratios)}}, nil
}

// verified is the rate of a receiver that only verifies.
func (b *bench) verified(ctx context.Context) (rate float64, err error) {
	c, err := start(ctx, spec{Kind: "verify"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	b.runs++
	got, err := load(ctx, c.address, 128, deliveries(fmt.Sprint(b.runs), limitRows, 0, time.Now()))
	return got.perSecond(), err
}

// inserted is the rate at which batches of bytes become durable, each once.
func (b *bench) inserted(ctx context.Context) (rate float64, err error) {
	conn, drop, err := b.bareDatabase(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	if _, err := conn.Exec(ctx, `ALTER TABLE bare ALTER COLUMN body SET COMPRESSION lz4`); err != nil {
		return 0, err
	}
	now := time.Now()
	ids, bodies := make([]string, limitRows), make([][]byte, limitRows)
	for i := range ids {
		ids[i] = fmt.Sprintf("evt_%08d", i)
		bodies[i] = eventBody(ids[i], i, now)
	}
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for part := range limitWriters {
		group.Go(func() error { return insertBatches(ctx, conn.Config(), part, ids, bodies) })
	}
	err = group.Wait()
	return limitRows / time.Since(begun).Seconds(), err
}

func insertBatches(ctx context.Context, config *pgx.ConnConfig, part int, ids []string, bodies [][]byte) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for begin := part * limitBatch; begin < len(ids); begin += limitWriters * limitBatch {
		end := min(begin+limitBatch, len(ids))
		if _, err := conn.Exec(ctx, `INSERT INTO bare SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT DO NOTHING RETURNING id`,
			ids[begin:end], bodies[begin:end]); err != nil {
			return err
		}
	}
	return nil
}

const million = 1_000_000

// ledgerMillion runs the same load on a large ledger and on a small one.
func ledgerMillion(ctx context.Context, b *bench) (got []reached, err error) {
	name := databasePrefix + "million"
	if err := b.server.template(ctx, "unavez", name, million); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.server.drop(context.WithoutCancel(ctx), name)) }()
	var ratios []float64
	for round := range b.rounds {
		// Each round has payments of its own, spread over the ledger.
		step := million / (unavezEvents + warmUps)
		large := job{spec: whole, connections: 128, events: unavezEvents, spread: step, first: round % step}
		small, err := b.run(ctx, job{spec: whole, connections: 128, events: unavezEvents})
		if err != nil {
			return nil, err
		}
		big, err := b.runOn(ctx, large, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.talk, "  small           %s\n  million         %s\n", small, big)
		ratios = append(ratios, big.processed()/small.processed())
	}
	return []reached{{"ledger_million", median(ratios)}}, nil
}

const sqliteEvents = 3000

// onSQLite has no goal; its figures stand beside PostgreSQL's.
func onSQLite(ctx context.Context, b *bench) ([]reached, error) {
	for range b.rounds {
		got, err := b.sqlite(ctx)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.talk, "  sqlite          %6.0f ack/s  p50 %6.2f  p99 %6.2f ms  %6.0f done/s  %3.0f MiB\n",
			got.perSecond(), ms(got.p50), ms(got.p99), got.processed(), got.peak)
	}
	return nil, nil
}

func (b *bench) sqlite(ctx context.Context) (m measured, err error) {
	dir, err := os.MkdirTemp("", "unavez-bench-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := whole
	s.Database = filepath.Join(dir, "ledger.db")
	if err := registerEach(ctx, s, sqliteEvents+warmUps); err != nil {
		return m, err
	}
	c, err := start(ctx, s)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	ledger, err := unavez.Open(ctx, s.Database, nil)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	warm, list := b.requests(job{events: sqliteEvents})
	if _, err := load(ctx, c.address, 128, warm); err != nil {
		return m, err
	}
	begun := time.Now()
	if m.answered, err = load(ctx, c.address, 128, list); err != nil {
		return m, err
	}
	for {
		stats, err := ledger.Stats(ctx)
		if err != nil {
			return m, err
		}
		left := 0
		for _, q := range stats.Queues {
			left += q.Pending + q.Waiting
		}
		if left == 0 {
			break
		}
		time.Sleep(pollEvery)
	}
	m.done, m.events = time.Since(begun), sqliteEvents
	m.peak, err = memory(c.pid, "VmHWM")
	return m, err
}

// registerEach registers payments one by one, as merchants do.
func registerEach(ctx context.Context, s spec, payments int) error {
	ledger, err := unavez.Open(ctx, s.Database, nil)
	if err != nil {
		return err
	}
	defer ledger.Close()
	if _, err := ledger.MigrateUp(ctx); err != nil {
		return err
	}
	e, err := unavez.New(ctx, ledger, config(s), unavez.Options{})
	if err != nil {
		return err
	}
	for n := range payments {
		if _, err := e.Applier.Register(ctx, apply.Registration{
			Order: orderID(n), Account: accountName, Amount: payment.Money{Value: amount, Currency: currency}, References: []string{intentID(n)},
		}, "bench"); err != nil {
			return err
		}
	}
	return nil
}

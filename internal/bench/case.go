package main

import (
	"context"
	"fmt"
)

// benchCase is something that is measured; it yields one goal or several.
type benchCase struct {
	name, about string
	quick       bool
	run         func(context.Context, *bench) ([]reached, error)
}

var cases = []benchCase{
	{"load_128", "naive and unavez in turns, 128 connections", true, load128},
	{"one_client", "one delivery after the other, against one bare durable insert", true, oneClient},
	{"drain", "a full inbox, workers that started when it was empty against an analyzed one", true, drainAfterEmpty},
	{"batch", "batches against one transaction for each event", false, batchOfSingle},
	{"delivered", "every message delivered by HTTP; the baseline delivers nothing", false, delivered},
	{"hot", "all events on ten payments", false, hotPayments},
	{"duplicates", "nine of ten deliveries are copies, with and without the cache of identities", false, duplicates},
	{"limit", "acknowledgements against what verifying and inserting alone allow", false, additiveLimit},
	{"million", "a ledger of 1,000,000 payments against a small one", false, ledgerMillion},
	{"sqlite", "the whole flow on SQLite", false, onSQLite},
	{"memory", "memory under load", false, memoryUnderLoad},
	{"connections", "the same at 1, 32 and 512 connections", false, otherConnections},
}

// Events of one round, so that either side is measured for some seconds.
const (
	naiveEvents  = 3000
	unavezEvents = 10000
)

// The servers under test that most cases share.
var (
	baseline  = spec{Kind: "naive"}
	receiving = spec{Kind: "unavez", Receive: true}
	whole     = spec{Kind: "unavez", Receive: true, Work: true}
)

// events is a number of events for one measurement: fewer where it must be quick.
func (b *bench) events(n int) int {
	if b.quick {
		return n * 2 / 5
	}
	return n
}

// turns measures the jobs in turns, from another one on in each round.
func (b *bench) turns(ctx context.Context, rounds int, jobs ...job) ([][]measured, error) {
	all := make([][]measured, len(jobs))
	for round := range rounds {
		for i := range jobs {
			at := (i + round) % len(jobs)
			got, err := b.run(ctx, jobs[at])
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", jobs[at].spec, round+1, err)
			}
			fmt.Fprintf(b.talk, "  %-15s %s\n", jobs[at].spec, got)
			all[at] = append(all[at], got)
		}
	}
	return all, nil
}

// ratio is the median over the rounds of what the second did to what the first did.
func ratio(first, second []measured, figure func(measured) float64) float64 {
	list := make([]float64, len(first))
	for i := range first {
		list[i] = figure(second[i]) / figure(first[i])
	}
	return median(list)
}

func perEvent(n float64, m measured) float64 { return n / float64(m.events) }

// load128 measures acknowledgements where they are all that is done, as in a
// process that only receives, and the whole flow beside it.
func load128(ctx context.Context, b *bench) ([]reached, error) {
	all, err := b.turns(ctx, b.rounds,
		job{spec: baseline, connections: 128, events: b.events(naiveEvents)},
		job{spec: receiving, connections: 128, events: b.events(unavezEvents)},
		job{spec: whole, connections: 128, events: b.events(unavezEvents)})
	if err != nil {
		return nil, err
	}
	naive, acks, ours := all[0], all[1], all[2]
	return []reached{
		{"ack_rate_128", ratio(naive, acks, measured.perSecond)},
		{"ack_p99_128", ratio(naive, acks, func(m measured) float64 { return ms(m.p99) })},
		{"end_to_end_128", ratio(naive, ours, measured.processed)},
		{"cpu_per_event", ratio(naive, ours, func(m measured) float64 { return perEvent(m.cpu.Seconds(), m) })},
		{"wal_per_event", ratio(naive, ours, func(m measured) float64 { return perEvent(float64(m.wal), m) })},
	}, nil
}

// otherConnections has no goals; its figures are for docs/performance.md.
func otherConnections(ctx context.Context, b *bench) ([]reached, error) {
	for _, n := range []int{1, 32, 512} {
		fmt.Fprintf(b.talk, " %d connections\n", n)
		if _, err := b.turns(ctx, b.rounds,
			job{spec: baseline, connections: n, events: min(naiveEvents, 1000*n)},
			job{spec: receiving, connections: n, events: min(unavezEvents, 2000*n)},
			job{spec: whole, connections: n, events: min(unavezEvents, 2000*n)}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

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
	{"drain", "10,000 events, workers that started on an empty inbox against an analyzed one", true, drainAfterEmpty},
	{"batch", "batches against one transaction for each event", false, batchOfSingle},
	{"connections", "the same at 1, 32 and 512 connections", false, otherConnections},
}

// Events of one round, so that either side is measured for some seconds.
const (
	naiveEvents  = 3000
	unavezEvents = 10000
)

var whole = spec{Kind: "unavez", Receive: true, Work: true}

// pair measures two jobs in turns, the first first in even rounds.
func (b *bench) pair(ctx context.Context, rounds int, one, other job) (first, second []measured, err error) {
	for round := range rounds {
		turn := []job{one, other}
		got := make([]measured, 2)
		for i := range turn {
			at := (i + round) % 2
			if got[at], err = b.run(ctx, turn[at]); err != nil {
				return nil, nil, fmt.Errorf("%s, round %d: %w", turn[at].spec.Kind, round+1, err)
			}
			fmt.Fprintf(b.talk, "  %-8s %s\n", turn[at].spec.Kind, got[at])
		}
		first, second = append(first, got[0]), append(second, got[1])
	}
	return first, second, nil
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

func load128(ctx context.Context, b *bench) ([]reached, error) {
	naive, ours, err := b.pair(ctx, b.rounds,
		job{spec: spec{Kind: "naive"}, connections: 128, events: naiveEvents},
		job{spec: whole, connections: 128, events: unavezEvents})
	if err != nil {
		return nil, err
	}
	return []reached{
		{"ack_rate_128", ratio(naive, ours, measured.perSecond)},
		{"ack_p99_128", ratio(naive, ours, func(m measured) float64 { return ms(m.p99) })},
		{"end_to_end_128", ratio(naive, ours, measured.processed)},
		{"cpu_per_event", ratio(naive, ours, func(m measured) float64 { return perEvent(m.cpu.Seconds(), m) })},
		{"wal_per_event", ratio(naive, ours, func(m measured) float64 { return perEvent(float64(m.wal), m) })},
	}, nil
}

// otherConnections has no goals; its figures are for docs/performance.md.
func otherConnections(ctx context.Context, b *bench) ([]reached, error) {
	for _, n := range []int{1, 32, 512} {
		fmt.Fprintf(b.talk, " %d connections\n", n)
		if _, _, err := b.pair(ctx, b.rounds,
			job{spec: spec{Kind: "naive"}, connections: n, events: min(naiveEvents, 1000*n)},
			job{spec: whole, connections: n, events: min(unavezEvents, 2000*n)}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	memoryPayments = 20000
	// memoryConnections is the most that is measured anywhere.
	memoryConnections = 512
	memoryEvery       = 10 * time.Second
)

// memoryUnderLoad watches the server's memory under a load that lasts. The
// events are new, their payments are not: the ledger grows, the server must not.
func memoryUnderLoad(ctx context.Context, b *bench) (got []reached, err error) {
	name, err := b.server.fresh(ctx, "unavez", memoryPayments)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.server.drop(context.WithoutCancel(ctx), name)) }()
	s := whole
	s.Database = b.server.address(name)
	c, err := start(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	seen, err := b.watchMemory(ctx, c)
	if err != nil {
		return nil, err
	}
	peak, err := memory(c.pid, "VmHWM")
	if err != nil {
		return nil, err
	}
	third := len(seen) / 3
	if third == 0 {
		return nil, errors.New("too few looks at the memory; give it more -minutes")
	}
	flat := median(seen[len(seen)-third:]) / median(seen[third:2*third])
	fmt.Fprintf(b.talk, "  peak %.0f MiB; last third of the time against the middle one: %.3f\n", peak, flat)
	return []reached{{"memory_mib", math.Ceil(peak)}, {"memory_flat", flat}}, nil
}

// watchMemory looks at the resident memory between portions of the load.
func (b *bench) watchMemory(ctx context.Context, c *child) (seen []float64, err error) {
	end := time.Now().Add(time.Duration(b.minutes) * time.Minute)
	for next := time.Now(); time.Now().Before(end); {
		b.runs++
		if _, err := load(ctx, c.address, memoryConnections, deliveries(fmt.Sprint(b.runs), unavezEvents, memoryPayments, time.Now())); err != nil {
			return nil, err
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(memoryEvery)
		now, err := memory(c.pid, "VmRSS")
		if err != nil {
			return nil, err
		}
		seen = append(seen, now)
	}
	return seen, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pollEvery = 10 * time.Millisecond
	// drainWithin is the longest that the work may take after the last answer.
	drainWithin = 5 * time.Minute
	warmUps     = 200
)

// job is one measurement of one server under one load.
type job struct {
	spec        spec
	connections int
	events      int
	// payments are registered beforehand; zero is one for each event.
	payments int
	// hot spreads the events over the first so many payments.
	hot int
	// spread and first, if spread is set, choose every spread-th payment from first on.
	spread, first int
	// requests, if set, makes the deliveries instead.
	requests func(run string, count int, now time.Time) [][]byte
}

// measured is what came of a job.
type measured struct {
	answered
	// done is the time until the last payment had its state (and the last
	// message was delivered, where there is a sink).
	done time.Duration
	// cpu is of the server under test and of the database server.
	cpu time.Duration
	// own is the part of the server under test.
	own     time.Duration
	wal     int64
	commits int64
	// peak and rest are MiB of the server under test, at most and at the end.
	peak, rest float64
	events     int
}

func (m measured) processed() float64 { return float64(m.events) / m.done.Seconds() }

func (m measured) String() string {
	return fmt.Sprintf("%6.0f ack/s  p50 %6.2f  p99 %6.2f ms  %6.0f done/s  cpu %4.0f (%.0f) µs  wal %5.2f KB  %.3f commits  %3.0f MiB",
		m.perSecond(), ms(m.p50), ms(m.p99), m.processed(), perEvent(float64(m.cpu.Microseconds()), m), perEvent(float64(m.own.Microseconds()), m),
		float64(m.wal)/float64(m.events)/1024, float64(m.commits)/float64(m.events), m.peak)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// run measures one job on a fresh database.
func (b *bench) run(ctx context.Context, j job) (m measured, err error) {
	payments := j.payments
	if payments == 0 {
		payments = j.events + warmUps
	}
	name, err := b.server.fresh(ctx, j.spec.Kind, payments)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.server.drop(ctx, name)) }()
	return b.runOn(ctx, j, name)
}

func (b *bench) runOn(ctx context.Context, j job, name string) (m measured, err error) {
	w, err := b.server.watch(ctx, name, j.spec.Kind)
	if err != nil {
		return m, err
	}
	defer w.close()
	j.spec.Database, j.spec.Profile = b.server.address(name), b.profile(j)
	c, err := start(ctx, j.spec)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	before, err := w.captured(ctx)
	if err != nil {
		return m, err
	}
	warm, requests := b.requests(j)
	if _, err := load(ctx, c.address, j.connections, warm); err != nil {
		return m, err
	}
	if err := w.drained(ctx, j); err != nil {
		return m, err
	}
	if m, err = b.observe(ctx, j, w, c, requests); err != nil || !j.spec.Work && j.spec.Kind != "naive" {
		return m, err
	}
	return m, w.check(ctx, j, before)
}

// requests renders the load, and before it one of the same kind that warms up
// the connections and caches: its events are of the payments after the last.
func (b *bench) requests(j job) (warm, list [][]byte) {
	b.runs++
	run, now := fmt.Sprintf("%d", b.runs), time.Now()
	for i := range warmUps {
		n := j.events + i
		if j.hot > 0 {
			n = i % j.hot
		}
		if j.spread > 0 {
			n = j.first + n*j.spread
		}
		warm = append(warm, request(fmt.Sprintf("evt_%s_w%d", run, i), n, now))
	}
	if j.requests != nil {
		return warm, j.requests(run, j.events, now)
	}
	if j.spread > 0 {
		for i := range j.events {
			n := j.first + i*j.spread
			list = append(list, request(fmt.Sprintf("evt_%s_%08d", run, i), n, now))
		}
		return warm, list
	}
	return warm, deliveries(run, j.events, j.hot, now)
}

func (b *bench) observe(ctx context.Context, j job, w *watch, c *child, requests [][]byte) (m measured, err error) {
	first, err := w.figures(ctx)
	if err != nil {
		return m, err
	}
	own, err := readStat(c.pid)
	if err != nil {
		return m, err
	}
	begun := time.Now()
	if m.answered, err = load(ctx, c.address, j.connections, requests); err != nil {
		return m, err
	}
	if err = w.drained(ctx, j); err != nil {
		return m, err
	}
	m.done, m.events = time.Since(begun), j.events
	last, err := w.figures(ctx)
	if err != nil {
		return m, err
	}
	end, err := readStat(c.pid)
	if err != nil {
		return m, err
	}
	m.own = end.own - own.own
	m.cpu = m.own + last.time - first.time
	m.wal, m.commits = last.wal-first.wal, last.commits-first.commits
	if m.peak, err = memory(c.pid, "VmHWM"); err != nil {
		return m, err
	}
	m.rest, err = memory(c.pid, "VmRSS")
	return m, err
}

// drained waits until nothing is left to do.
func (w *watch) drained(ctx context.Context, j job) error {
	if !j.spec.Work {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	for {
		some, err := w.pending(ctx, j.spec.Sink != "")
		if err != nil || !some {
			return err
		}
		time.Sleep(pollEvery)
	}
}

// check makes sure that what was counted was done.
func (w *watch) check(ctx context.Context, j job, before int) error {
	want := before + j.events + warmUps
	if j.hot > 0 {
		want = j.hot
	}
	if j.requests != nil {
		return nil // the case checks itself
	}
	n, err := w.captured(ctx)
	if err == nil && n != want {
		err = fmt.Errorf("%d payments are captured, not %d", n, want)
	}
	return err
}

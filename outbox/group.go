package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// ledgerBackoff spaces the tries at a ledger that does not answer.
var ledgerBackoff = backoff.Policy{Base: 50 * time.Millisecond, Cap: 2 * time.Second}

// group is everything that serves one destination.
type group struct {
	relay   *Relay
	opt     *Options
	dest    Destination
	queue   string
	sender  *sender
	breaker *breaker
	ledger  *ledger
	// slots holds a token for each lane that may still be taken into work, and
	// requests one for each request under way.
	slots, requests chan struct{}
	// kick wakes the claiming loop when a claim has ended or a person acted.
	kick chan struct{}
	// heldUntil is when the destination wants to hear from us again, in
	// microseconds, 0 for now.
	heldUntil atomic.Int64
	claims    sync.WaitGroup
}

func newGroup(r *Relay, d Destination) (*group, error) {
	sender, err := newSender(d, &r.opt)
	if err != nil {
		return nil, err
	}
	g := &group{
		relay: r, opt: &r.opt, dest: d, queue: store.QueueOutbox(d.Name), sender: sender,
		breaker: newBreaker(d.Name, &r.opt), requests: make(chan struct{}, d.Concurrency), kick: make(chan struct{}, 1),
	}
	g.ledger = newLedger(r.store, g.queue)
	g.slots = make(chan struct{}, lanesAhead(d))
	g.give(cap(g.slots))
	return g, nil
}

// lanesAhead is the number of lanes in work at once. While some messages are
// with the destination, others are being counted or marked. Where a counted
// message that was not sent needs a person if we die, none waits for its turn.
func lanesAhead(d Destination) int {
	if !d.idempotent() {
		return d.Concurrency
	}
	return d.Concurrency * lanesPerRequest
}

// run claims until soft ends, and returns when every claim has ended. Ending
// hard cancels the requests that are under way.
func (g *group) run(soft, hard context.Context) {
	var writing sync.WaitGroup
	writing.Go(g.ledger.run)
	news := g.relay.store.Wake(g.queue)
	failures := 0
	for soft.Err() == nil {
		more, err := g.turn(soft, hard)
		pause := g.opt.Poll
		switch {
		case soft.Err() != nil:
		case err != nil:
			failures++
			pause = ledgerBackoff.Delay(failures, g.opt.Random)
			if failures == 1 {
				g.opt.Logger.Warn("claiming messages", slog.String("destination", g.dest.Name), slog.Any("error", err))
			}
		default:
			failures = 0
		}
		if err != nil || !more {
			g.rest(soft, news, pause)
		}
	}
	g.claims.Wait()
	close(g.ledger.in)
	writing.Wait()
	g.sender.close()
}

// rest waits for a reason to look again.
func (g *group) rest(ctx context.Context, news <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-g.kick:
	case <-news:
	}
}

func (g *group) wake() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// turn makes one claim, if the destination may get anything now, and starts
// work on it. It says whether there may be more at once.
func (g *group) turn(soft, hard context.Context) (more bool, err error) {
	room := g.take(soft)
	if room == 0 {
		return false, nil
	}
	open, err := g.open(soft)
	if err != nil || !open {
		g.give(room)
		return false, err
	}
	started := g.opt.Now()
	claim, err := g.claim(soft, room)
	if err != nil {
		g.give(room)
		return false, err
	}
	lanes := countLanes(claim.Items)
	g.give(room - lanes)
	if lanes == 0 {
		return false, nil
	}
	crashpoint.Hit("outbox.claimed")
	b := &batch{group: g, token: claim.Token, until: started.Add(g.opt.Lease), soft: soft, hard: hard}
	g.claims.Go(func() {
		b.work(claim.Items)
		g.wake()
	})
	return lanes == room, nil
}

// claim is not cut short by a stop, which would leave lanes leased to nobody.
func (g *group) claim(ctx context.Context, lanes int) (store.Claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	claim, err := g.relay.store.Claim(ctx, store.ClaimRequest{
		Queue: g.queue, Lanes: lanes, PerLane: perLane, Lease: g.opt.Lease, Ordered: true,
	})
	if err != nil {
		return store.Claim{}, fmt.Errorf("claiming for %s: %w", g.dest.Name, err)
	}
	return claim, nil
}

// open says whether the destination may get anything now.
func (g *group) open(ctx context.Context) (bool, error) {
	if until := g.heldUntil.Load(); until > g.opt.Now().UnixMicro() {
		return false, nil
	}
	if g.breaker.state() == gobreaker.StateOpen {
		return false, nil
	}
	var paused bool
	err := g.relay.store.View(ctx, func(r store.Reader) (err error) {
		paused, err = isPaused(ctx, r, g.dest.Name)
		return err
	})
	return !paused, err
}

// take waits for a free slot and takes those that are free: one alone, and
// none while another is taken, when the destination is on probation.
func (g *group) take(ctx context.Context) int {
	if g.breaker.state() == gobreaker.StateHalfOpen && len(g.slots) < cap(g.slots) {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case <-g.slots:
	}
	n := 1
	for g.breaker.state() == gobreaker.StateClosed && n < cap(g.slots) {
		select {
		case <-g.slots:
			n++
			continue
		default:
		}
		break
	}
	return n
}

func (g *group) give(n int) {
	for range n {
		g.slots <- struct{}{}
	}
}

// hold keeps what the destination asked for with Retry-After when it has too
// much to do; other messages would only meet the same answer.
func (g *group) hold(o outcome) {
	if !o.paused || o.pause <= 0 {
		return
	}
	until := g.opt.Now().Add(min(o.pause, g.opt.RetryAfterMax)).UnixMicro()
	for {
		held := g.heldUntil.Load()
		if held >= until || g.heldUntil.CompareAndSwap(held, until) {
			return
		}
	}
}

// mark writes the result of an attempt, again and again while the lease lasts
// and nobody insists on stopping: without it the attempt would be taken for
// unknown.
func (g *group) mark(hard context.Context, c change, until time.Time) error {
	doubt := false
	for try := 1; ; try++ {
		err := g.ledger.write(c)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrLeaseLost):
			if doubt && g.recorded(c) {
				return nil
			}
			return err
		case errors.Is(err, store.ErrCommitUnknown):
			doubt = true
		}
		pause := ledgerBackoff.Delay(try, g.opt.Random)
		if try == markTriesMax || g.opt.Now().Add(pause).After(until) || !sleep(hard, pause) {
			return err
		}
	}
}

func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// recorded says whether the change was committed after all.
func (g *group) recorded(c change) bool {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	found := 0
	err := g.relay.store.View(ctx, func(r store.Reader) error {
		found = 0
		for _, want := range c.attempts {
			history, err := r.Attempts(ctx, want.Message)
			if err != nil {
				return err
			}
			for _, a := range history {
				if a.ID == want.ID {
					found++
				}
			}
		}
		return nil
	})
	return err == nil && found == len(c.attempts) && found > 0
}

func countLanes(items []store.ClaimedItem) int {
	seen := map[string]bool{}
	for _, item := range items {
		seen[item.Lane] = true
	}
	return len(seen)
}

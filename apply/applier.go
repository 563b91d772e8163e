package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// Applier works off the inbox. Start it once; Stop waits for what is in work.
type Applier struct {
	store   store.Store
	opt     Options
	metrics *metrics

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New checks the options and returns an Applier that is not started yet. Its
// methods ApplyNow, Register, Ship and Redrive work without Start.
func New(s store.Store, opt Options) (*Applier, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	return &Applier{store: s, opt: opt, metrics: newMetrics()}, nil
}

// Start begins to claim work with the configured number of workers and one
// worker for quiet periods.
func (a *Applier) Start(ctx context.Context) {
	ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range a.opt.Workers {
		a.done.Go(func() { a.loop(ctx, store.QueueInbox, a.workInbox) })
	}
	a.done.Go(func() { a.loop(ctx, store.QueueQuiet, a.workQuiet) })
}

// Stop stops claiming and waits until the batches in work have ended, or until
// ctx ends; what was not finished then is claimed again after its lease.
func (a *Applier) Stop(ctx context.Context) error {
	if a.cancel == nil {
		return nil
	}
	a.cancel()
	ended := make(chan struct{})
	go func() { a.done.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping apply: %w", ctx.Err())
	}
}

// loop claims and works until the context ends. An empty queue is looked at
// again when the store hints at work or the poll interval has passed, one that
// was taken whole after a moment in which more may come; a store that fails is
// left alone for a while that grows.
func (a *Applier) loop(ctx context.Context, queue string, work func(context.Context, store.Claim)) {
	failures := 0
	wake := a.store.Wake(queue)
	for ctx.Err() == nil {
		claim, err := a.store.Claim(ctx, store.ClaimRequest{
			Queue: queue, Lanes: a.opt.Lanes, PerLane: a.opt.PerLane, Lease: a.opt.Lease,
		})
		pause, hint := time.Duration(0), wake
		switch {
		case err != nil:
			if ctx.Err() != nil {
				return
			}
			failures++
			pause = a.opt.Backoff.Delay(failures, rand.Float64)
			pause = min(pause, a.opt.Poll*10)
			a.opt.Logger.Warn("claiming failed", "queue", queue, "failures", failures, "pause", pause, "error", err)
			hint = nil
		case len(claim.Items) == 0:
			failures, pause = 0, a.opt.Poll
		default:
			failures = 0
			work(ctx, claim)
			if !a.full(claim) {
				hinted(ctx, nil, a.opt.Gather)
			}
			continue
		}
		if hinted(ctx, hint, pause) {
			hinted(ctx, nil, a.opt.Gather)
		}
	}
}

// full says whether the claim may have left something behind that is due.
func (a *Applier) full(claim store.Claim) bool {
	lanes := map[string]int{}
	for _, it := range claim.Items {
		if lanes[it.Lane]++; lanes[it.Lane] >= a.opt.PerLane {
			return true
		}
	}
	return len(lanes) >= a.opt.Lanes
}

// hinted waits for a hint, at most as long as the pause, and says whether it came.
func hinted(ctx context.Context, hint <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-hint:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// within runs fn in a transaction with the limits of one entry, again with
// fresh reads when a name changed hands.
func (a *Applier) within(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, a.opt.EntryTimeout)
	defer cancel()
	opt.Timeout = a.opt.EntryTimeout
	ctx = crashpoint.AtCommit(ctx, "apply.commit_sent")
	for try := 0; ; try++ {
		err := a.store.InTx(ctx, opt, fn)
		if !errors.Is(err, errAgain) || try >= stepRetriesMax {
			return err
		}
	}
}

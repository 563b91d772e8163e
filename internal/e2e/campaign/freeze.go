package campaign

import (
	"context"
	"fmt"
	"time"
)

// Freezes lets a worker stand still past its lease, and then go on.
var Freezes = Campaign{
	Name:  "freezes",
	About: "SIGSTOP past the lease at every place of a worker, then SIGCONT: nobody's work is done twice",
	Units: func(bool) []Unit {
		var units []Unit
		for _, p := range places {
			if !p.lease || p.name == "apply.commit_sent" || p.name == "outbox.marked" {
				continue // the same state as the place after or before it
			}
			units = append(units, onStores(p.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return freezeAt(ctx, e, kind, p)
			})...)
		}
		return units
	},
}

const (
	freezesFull = 4
	freezesCI   = 1
	// freezeEntry is the time limit; leases are twice as long, and the process
	// stands still for two and a half leases.
	freezeEntry = 800 * time.Millisecond
	freezeFor   = 5 * freezeEntry
)

func freezeAt(ctx context.Context, e *Env, kind string, p place) (string, error) {
	w, err := newWorld(ctx, e, kind, options{entry: freezeEntry})
	if err != nil {
		return "", err
	}
	defer w.close()
	t := &trial{w: w, s: newSender(w.client), r: e.Rand()}
	rounds, orders := freezesCI, ordersARoundCI
	if e.Full {
		rounds, orders = freezesFull, ordersARound
	}
	for number := range rounds {
		c := crash{place: p.name, nth: 1 + t.r.IntN(min(p.nthMax, 3)), stop: true}
		if err := t.freeze(ctx, newRound(t.r, number, orders), c); err != nil {
			return "", fmt.Errorf("round %d, %s:%d: %w", number+1, c.place, c.nth, err)
		}
	}
	return fmt.Sprintf("%d freezes, %d orders, %d events acknowledged", rounds, len(t.expected), len(t.s.acked)), nil
}

// freeze lets one process stand still under load. On PostgreSQL another one
// takes its work meanwhile. On SQLite the frozen one may hold the only right to
// write, and everybody waits for it.
func (t *trial) freeze(ctx context.Context, next round, c crash) error {
	t.expected = append(t.expected, next.orders...)
	clean, err := t.w.start(ctx, crash{})
	if err != nil {
		return err
	}
	if err := t.registerAll(ctx, clean, next.early); err != nil {
		return err
	}
	if err := clean.stop(); err != nil {
		return err
	}
	frozen, err := t.w.start(ctx, c)
	if err != nil {
		return err
	}
	still := make(chan struct{})
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go watchStill(watching, frozen, still)
	sent, err := t.load(ctx, frozen, next.deliveries, still)
	if err != nil {
		return err
	}
	awake := frozen
	if t.w.kind == postgresStore {
		if awake, err = t.w.start(ctx, crash{}); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(freezeFor):
	}
	if awake != frozen {
		if err := t.w.settle(ctx, awake); err != nil {
			return fmt.Errorf("while the other stands still: %w", err)
		}
	}
	if err := frozen.goOn(); err != nil {
		return err
	}
	if err := t.recover(ctx, awake, next, sent); err != nil {
		return err
	}
	if err := frozen.stop(); err != nil {
		return err
	}
	if awake != frozen {
		return awake.stop()
	}
	return nil
}

// watchStill closes still when the process stands still.
func watchStill(ctx context.Context, n *node, still chan<- struct{}) {
	for {
		if n.stopped() || n.gone() {
			close(still)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

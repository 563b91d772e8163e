package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Kills ends the process at every border of durability, under load.
var Kills = Campaign{
	Name:  "kills",
	About: "SIGKILL at every border of durability, under load: nothing acknowledged is lost, every effect once",
	Units: func(bool) []Unit {
		var units []Unit
		for _, p := range places {
			units = append(units, onStores(p.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return killAt(ctx, e, kind, p)
			})...)
		}
		return units
	},
}

// place is a crash point, and up to which passage of it a process is let live.
type place struct {
	name   string
	nthMax int
	// lease says that work is left leased there, so that a lease must lapse.
	lease bool
}

// places are in the order of the flow.
var places = []place{
	{"receive.headers_read", 40, false},
	{"receive.body_read", 40, false},
	{"receive.verified", 40, false},
	{"inbox.inserted_before_commit", 6, false},
	{"inbox.commit_sent", 6, false},
	{"inbox.committed_before_answer", 6, false},
	{"receive.answer_unflushed", 40, false},
	{"apply.claimed", 4, true},
	{"apply.saved", 4, true},
	{"apply.before_commit", 4, true},
	{"apply.commit_sent", 4, true},
	{"apply.committed", 4, true},
	{"outbox.claimed", 4, true},
	{"outbox.published_before_answer", 30, true},
	{"outbox.answered_before_mark", 30, true},
	{"outbox.marked", 8, true},
}

// The sizes of a round of kills.
const (
	killsFull       = 8
	killsCI         = 2
	ordersARound    = 60
	ordersARoundCI  = 16
	killConnections = 8
	// burstPercent of a round's deliveries come at once, the others one by one,
	// so that there are batches of every size.
	burstPercent = 60
	trickleEvery = 15 * time.Millisecond
	// metWithin bounds the wait for a process to meet its place once everything
	// was sent.
	metWithin = 2 * time.Minute
)

// round is what is sent in one life of a process.
type round struct {
	orders     []expectation
	early      []registration // registered before the process is struck
	late       []registration // registered when it is back
	deliveries []delivery
}

// newRound draws orders: each is paid, some are paid by two events, some have a
// refund as well, some are registered only afterwards; each event comes once or
// several times, in no order.
func newRound(r *rand.Rand, number, orders int) round {
	var out round
	for i := range orders {
		order := fmt.Sprintf("O-%d-%d", number, i)
		in := fmt.Sprintf("pi_%d_%d", number, i)
		x := expectation{order: order, pays: []delivery{succeeded("evt_"+in+"_a", in, order, 4800)}}
		if r.IntN(5) == 0 {
			x.pays = append(x.pays, succeeded("evt_"+in+"_b", in, order, 4800))
		}
		if r.IntN(4) == 0 {
			x.refunds = append(x.refunds, refunded("evt_"+in+"_r", in, order, "re_"+in, 1200))
		}
		reg := registration{Order: order, Amount: eur(4800), References: []string{in}}
		if r.IntN(8) == 0 {
			out.late = append(out.late, reg)
		} else {
			out.early = append(out.early, reg)
		}
		out.orders = append(out.orders, x)
		for _, d := range append(append([]delivery{}, x.pays...), x.refunds...) {
			for range 1 + r.IntN(2) {
				out.deliveries = append(out.deliveries, d)
			}
		}
	}
	r.Shuffle(len(out.deliveries), func(i, j int) { out.deliveries[i], out.deliveries[j] = out.deliveries[j], out.deliveries[i] })
	return out
}

// trial is one ledger that lives through several rounds.
type trial struct {
	w        *world
	s        *sender
	r        *rand.Rand
	expected []expectation
	kills    int
	// slowest is the longest time from readiness to empty queues, what the
	// provider sent meanwhile included.
	slowest time.Duration
}

func killAt(ctx context.Context, e *Env, kind string, p place) (string, error) {
	w, err := newWorld(ctx, e, kind, options{entry: time.Second})
	if err != nil {
		return "", err
	}
	defer w.close()
	t := &trial{w: w, s: newSender(w.client), r: e.Rand()}
	rounds, orders := killsCI, ordersARoundCI
	if e.Full {
		rounds, orders = killsFull, ordersARound
	}
	clean, err := w.start(ctx, crash{})
	if err != nil {
		return "", err
	}
	for number := range rounds {
		next := newRound(t.r, number, orders)
		if clean, err = t.live(ctx, clean, next, crash{place: p.name, nth: 1 + t.r.IntN(p.nthMax)}); err != nil {
			return "", fmt.Errorf("round %d: %w", number+1, err)
		}
	}
	if err := clean.stop(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d kills, %d orders, %d events acknowledged, %d deliveries unanswered, queues empty again within %s of readiness",
		t.kills, len(t.expected), len(t.s.acked), t.s.broken, t.slowest.Round(100*time.Millisecond)), nil
}

// live lets a process be struck under load, and judges what is left when the
// next one has worked it off.
func (t *trial) live(ctx context.Context, clean *node, next round, c crash) (*node, error) {
	if err := t.registerAll(ctx, clean, next.early); err != nil {
		return nil, err
	}
	t.expected = append(t.expected, next.orders...)
	if err := clean.stop(); err != nil {
		return nil, err
	}
	struck, err := t.w.start(ctx, c)
	if err != nil {
		return nil, err
	}
	rest, err := t.load(ctx, struck, next.deliveries, struck.ended)
	if err != nil {
		return nil, fmt.Errorf("place %s:%d: %w", c.place, c.nth, err)
	}
	if !struck.killed() {
		return nil, fmt.Errorf("place %s:%d: the process ended with %v", c.place, c.nth, struck.state)
	}
	t.kills++
	clean, err = t.w.start(ctx, crash{})
	if err != nil {
		return nil, err
	}
	if err := t.recover(ctx, clean, next, rest); err != nil {
		return nil, fmt.Errorf("after %s:%d: %w", c.place, c.nth, err)
	}
	return clean, nil
}

// load sends until the process is gone, and returns how many were sent.
func (t *trial) load(ctx context.Context, n *node, deliveries []delivery, gone <-chan struct{}) (int, error) {
	burst := len(deliveries) * burstPercent / 100
	sending, hangUp := context.WithCancel(ctx)
	defer hangUp()
	go func() { // nobody waits for a process that stands still
		select {
		case <-gone:
			hangUp()
		case <-sending.Done():
		}
	}()
	to := func(int) string { return n.ingress }
	sent := t.s.storm(sending, killConnections, deliveries[:burst], to, gone)
	deadline := time.NewTimer(metWithin)
	defer deadline.Stop()
	for {
		select {
		case <-gone:
			return sent, nil
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-deadline.C:
			return sent, fmt.Errorf("not met within %s of load", metWithin)
		case <-time.After(trickleEvery):
		}
		if sent < len(deliveries) {
			t.s.send(sending, n.ingress, deliveries[sent])
			sent++
		} else { // duplicates keep the edge at work
			t.s.send(sending, n.ingress, deliveries[t.r.IntN(len(deliveries))])
		}
	}
}

// recover sends what the provider would still send, registers what came late,
// and judges when the work is done. Of what was sent and not acknowledged only
// a half is sent again: the rest may be in the ledger or not, but not by half.
func (t *trial) recover(ctx context.Context, n *node, next round, sent int) error {
	begun := time.Now()
	var again []delivery
	for i, d := range next.deliveries {
		if i >= sent || !t.s.acknowledged(d) && t.r.IntN(2) == 0 {
			again = append(again, d)
		}
	}
	to := func(int) string { return n.ingress }
	t.s.storm(ctx, killConnections, again, to, n.ended)
	for _, d := range again {
		if !t.s.acknowledged(d) {
			return fmt.Errorf("event %s was not acknowledged by a process that is well: %s", d.ID, t.s.others())
		}
	}
	if err := t.registerAll(ctx, n, next.late); err != nil {
		return err
	}
	if err := t.w.settle(ctx, n); err != nil {
		return err
	}
	t.slowest = max(t.slowest, time.Since(begun))
	return t.w.judge(ctx, n, t.s, t.expected)
}

// registerAll registers over several connections.
func (t *trial) registerAll(ctx context.Context, n *node, list []registration) error {
	return registerAll(ctx, t.w, list, func(int) *node { return n })
}

func registerAll(ctx context.Context, w *world, list []registration, at func(i int) *node) error {
	var next atomic.Int64
	errs := make(chan error, killConnections)
	for range killConnections {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					errs <- nil
					return
				}
				if err := w.register(ctx, at(i), list[i]); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	var first error
	for range killConnections {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

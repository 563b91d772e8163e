package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unavez/unavez/store"
)

// Relay delivers the messages of a ledger. Several relays may serve one ledger.
type Relay struct {
	store   store.Store
	opt     Options
	groups  map[string]*group
	metrics *metrics

	started    atomic.Bool
	soft, hard context.CancelFunc
	running    sync.WaitGroup
}

// New returns a relay that has not started, or everything that is wrong with
// the destinations and options.
func New(s store.Store, destinations []Destination, opt Options) (*Relay, error) {
	if err := errors.Join(Validate(destinations), opt.fill(destinations)); err != nil {
		return nil, err
	}
	r := &Relay{store: s, opt: opt, groups: map[string]*group{}}
	r.metrics = newMetrics(r)
	for _, d := range destinations {
		g, err := newGroup(r, d.filled())
		if err != nil {
			return nil, err
		}
		r.groups[d.Name] = g
	}
	return r, nil
}

// Start begins to deliver. It may be called once. The end of ctx does not stop
// the relay; Stop does.
func (r *Relay) Start(ctx context.Context) error {
	if !r.started.CompareAndSwap(false, true) {
		return errors.New("outbox: started twice")
	}
	hard, stopHard := context.WithCancel(context.WithoutCancel(ctx))
	soft, stopSoft := context.WithCancel(hard)
	r.soft, r.hard = stopSoft, stopHard
	for _, g := range r.groups {
		r.running.Go(func() { g.run(soft, hard) })
	}
	return nil
}

// Stop begins no further attempt and waits for those under way. When ctx ends
// first, their requests are cut off and recorded as what they are by then; Stop
// still waits for that, which takes no longer than a transaction may.
func (r *Relay) Stop(ctx context.Context) error {
	if !r.started.Load() {
		return nil
	}
	r.soft()
	ended := make(chan struct{})
	go func() { r.running.Wait(); close(ended) }()
	select {
	case <-ended:
		r.hard()
		return nil
	case <-ctx.Done():
		r.hard()
		<-ended
		return fmt.Errorf("outbox: requests cut off: %w", context.Cause(ctx))
	}
}

// State is how a destination stands, as this relay sees it.
type State struct {
	Name string
	// Breaker is closed (all is well), open (nothing is sent) or half-open (one
	// attempt at a time).
	Breaker string
	// Paused by a person.
	Paused bool
	// GoneAt is when the destination last answered 410, zero if it never did
	// since it was resumed.
	GoneAt time.Time
	// HeldUntil is when it wants to hear from us again, zero for now.
	HeldUntil time.Time
	// InFlight is the number of lanes in work.
	InFlight int
}

// States returns the state of every destination, by name.
func (r *Relay) States(ctx context.Context) ([]State, error) {
	var states []State
	err := r.store.View(ctx, func(tx store.Reader) error {
		states = nil
		for _, name := range slices.Sorted(maps.Keys(r.groups)) {
			g := r.groups[name]
			s := State{Name: name, Breaker: g.breaker.state().String(), InFlight: cap(g.slots) - len(g.slots)}
			if until := g.heldUntil.Load(); until > r.opt.Now().UnixMicro() {
				s.HeldUntil = time.UnixMicro(until).UTC()
			}
			var err error
			if s.Paused, err = isPaused(ctx, tx, name); err != nil {
				return err
			}
			if s.GoneAt, err = goneAt(ctx, tx, name); err != nil {
				return err
			}
			states = append(states, s)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the states of destinations: %w", err)
	}
	return states, nil
}

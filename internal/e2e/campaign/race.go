package campaign

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/unavez/unavez/inbox"
	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// Race holds a registration and the event that it is for at each other's steps.
var Race = Campaign{
	Name:  "race",
	About: "a registration against an event that is just being stored as waiting, each session held at each of its steps",
	Units: func(bool) []Unit {
		var units []Unit
		for _, r := range []struct {
			name string
			held func(*raceBench, int) (bool, error)
		}{
			{"worker_held", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, account, b.received, b.worker, b.registrar)
			}},
			{"registrar_held", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, account, b.received, b.registrar, b.worker)
			}},
			{"registrar_held_by_another", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, account, b.received, b.registrar, b.registrar)
			}},
			{"edge_held", func(b *raceBench, nth int) (bool, error) { return b.meet(nth, atOnce, b.nothing, b.edge, b.registrar) }},
			{"registrar_held_by_edge", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, atOnce, b.nothing, b.registrar, b.edge)
			}},
			{"webhook_held_by_answer", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, account, b.expected, b.worker, b.answer)
			}},
			{"answer_held_by_webhook", func(b *raceBench, nth int) (bool, error) {
				return b.meet(nth, account, b.expected, b.answer, b.worker)
			}},
		} {
			units = append(units, onStores(r.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return race(ctx, e, kind, r.held)
			})...)
		}
		return units
	},
}

const (
	// heldFor is how long the second side may run while the first is held, where
	// it cannot come to its end. Another value tries other things, and claims
	// nothing else.
	heldFor = 60 * time.Millisecond
	// stepsMin is fewer steps than either side has.
	stepsMin = 6
)

// raceBench has two sides, each with a store whose calls can be held.
type raceBench struct {
	ctx                context.Context
	base               store.Store
	first, second, all *bed
	hold               *storetest.Fault
	number             int
}

// side acts as one of the two for an order of the account.
type side func(on *bed, account string, number int) error

func race(ctx context.Context, e *Env, kind string, held func(*raceBench, int) (bool, error)) (string, error) {
	s, drop, err := openLedger(ctx, e, kind)
	if err != nil {
		return "", err
	}
	defer drop()
	b := &raceBench{ctx: ctx, base: s, hold: storetest.NewFault(s)}
	for _, part := range []struct {
		bed   **bed
		store store.Store
	}{{&b.first, b.hold}, {&b.second, s}, {&b.all, s}} {
		if *part.bed, err = newBed(ctx, part.store); err != nil {
			return "", err
		}
		defer func() { _ = (*part.bed).engine.Inbox.Stop(context.WithoutCancel(ctx)) }()
	}
	steps := 0
	for nth := 1; ; nth++ {
		more, err := held(b, nth)
		if err != nil {
			return "", fmt.Errorf("held at step %d: %w", nth, err)
		}
		if !more {
			break
		}
		steps++
	}
	if steps < stepsMin {
		return "", fmt.Errorf("only %d steps were held", steps)
	}
	return fmt.Sprintf("held at each of %d steps, every order fulfilled once", steps), nil
}

func (b *raceBench) worker(on *bed, _ string, _ int) error {
	on.engine.Applier.WorkOnce(b.ctx)
	return nil
}

func (b *raceBench) registrar(on *bed, account string, number int) error {
	return on.register(account, number)
}

// edge receives the event, of an account whose events are applied at once
// where that is possible.
func (b *raceBench) edge(on *bed, account string, number int) error {
	if status := on.deliver(account, b.event(number).Body); status != http.StatusOK {
		return fmt.Errorf("the event was answered %d", status)
	}
	return nil
}

func (b *raceBench) event(number int) delivery {
	in, order := renamed("pi_meeting00", number), renamed(lifeOrder, number)
	return succeeded("evt_"+in, in, order, 10000)
}

// answer is what the checkout was told by the provider at once. It is evidence
// like the event, of the same fact, and comes by the same way.
func (b *raceBench) answer(on *bed, name string, number int) error {
	in, order := renamed("pi_meeting00", number), renamed(lifeOrder, number)
	d := succeeded("answer_"+in, in, order, 10000)
	acc := provider.Account{Name: name, Provider: "stripe", Mode: provider.Test, OrderMetadata: provider.DefaultOrderMetadata}
	event, err := stripe.Adapter{}.Parse(&acc, []byte(d.Body))
	now := time.Now()
	draft := inbox.NewDraft(inbox.Evidence{
		ID: id.New(id.Event, now), Account: &acc, Source: store.SourceAnswer, ReceivedAt: now.UTC().Truncate(time.Microsecond),
		Payload: []byte(d.Body), Event: event, ParseError: err,
	})
	if _, err := on.engine.Inbox.Put(b.ctx, draft); err != nil {
		return err
	}
	on.engine.Applier.WorkOnce(b.ctx)
	return nil
}

// nothing, received and expected are what was before the two sides met: nothing,
// the event in the inbox, or that and the registration.
func (b *raceBench) nothing(string, int) error { return nil }

func (b *raceBench) received(account string, number int) error { return b.edge(b.all, account, number) }

func (b *raceBench) expected(account string, number int) error {
	if err := b.registrar(b.all, account, number); err != nil {
		return err
	}
	return b.received(account, number)
}

// meet holds the first side at a step while the second runs as far as it can,
// and says whether there was such a step.
func (b *raceBench) meet(nth int, account string, before func(string, int) error, first, second side) (bool, error) {
	number := b.number
	b.number++
	if err := before(account, number); err != nil {
		return false, err
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.hold.Arm(storetest.Rule{Call: storetest.CallAny, Nth: nth, Do: func() { once.Do(func() { close(reached); <-goOn }) }})
	var sides sync.WaitGroup
	var failed [2]error
	firstEnded, secondEnded := make(chan struct{}), make(chan struct{})
	sides.Go(func() { defer close(firstEnded); failed[0] = first(b.first, account, number) })
	select {
	case <-reached:
	case <-firstEnded:
	}
	sides.Go(func() { defer close(secondEnded); failed[1] = second(b.second, account, number) })
	select {
	case <-secondEnded:
	case <-time.After(heldFor):
	}
	close(goOn)
	sides.Wait()
	more := b.hold.Fired() > 0
	b.hold.Arm()
	for i, err := range failed {
		if err != nil {
			return more, fmt.Errorf("side %d: %w", i+1, err)
		}
	}
	b.all.work()
	return more, b.judge(number)
}

// judge: nothing waits that could be applied, and the order was fulfilled once.
func (b *raceBench) judge(number int) error {
	o, err := b.all.outcome(number)
	if err != nil {
		return err
	}
	if o.fulfilled != 1 || o.state != "captured" || len(o.entries) == 0 {
		return fmt.Errorf("the order came to %+v, want one fulfillment of a captured payment", o)
	}
	return nil
}

package campaign

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unavez/unavez"
	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
	"github.com/unavez/unavez/receive"
	"github.com/unavez/unavez/store"
)

// Orderings tells the provider's real sequences in every order.
var Orderings = Campaign{
	Name:  "orderings",
	About: "real sequences of the provider in every order and with repetitions: one final state, one set of recorded effects",
	Units: func(bool) []Unit {
		var units []Unit
		for _, s := range sequences {
			units = append(units, onStores(s.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return inEveryOrder(ctx, e, kind, s)
			})...)
		}
		return units
	},
}

const (
	// permutedMax is the number of events up to which every order is tried.
	permutedMax = 5
	sampledFull = 600
	sampledCI   = 10
	permutedCI  = 3 // all orders of so many events in CI size
	// putAtOnce is how many deliveries are under way at once.
	putAtOnce = 32
)

// telling is one order in which a life is told.
type telling struct {
	number int
	steps  []string
	// registered is the step before which the merchant registers.
	registered int
}

// tellings draws the orders. The first is the one in which it happened.
func tellings(r *rand.Rand, events []string, full bool) []telling {
	var orders [][]int
	switch {
	case len(events) <= permutedMax && full, len(events) <= permutedCI:
		orders = permutations(len(events))
	default:
		orders = append(orders, ascending(len(events)))
		for range map[bool]int{true: sampledFull, false: sampledCI}[full] {
			orders = append(orders, r.Perm(len(events)))
		}
	}
	var list []telling
	for number, order := range orders {
		t := telling{number: number}
		for _, i := range order {
			t.steps = append(t.steps, renamed(events[i], number))
		}
		if number > 0 {
			for range r.IntN(len(events)) { // repetitions, anywhere after or before
				t.steps = slices.Insert(t.steps, r.IntN(len(t.steps)+1), t.steps[r.IntN(len(t.steps))])
			}
			t.registered = r.IntN(len(t.steps) + 1)
		}
		list = append(list, t)
	}
	return list
}

func ascending(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// permutations returns all orders of n things, the ascending one first.
func permutations(n int) (all [][]int) {
	order := ascending(n)
	var visit func(at int)
	visit = func(at int) {
		if at == n {
			all = append(all, slices.Clone(order))
			return
		}
		for i := at; i < n; i++ {
			order[at], order[i] = order[i], order[at]
			visit(at + 1)
			order[at], order[i] = order[i], order[at]
		}
	}
	visit(0)
	return all
}

// atOnce is the account of a bed whose events are applied while the provider waits.
const atOnce = "stripe-at-once"

// bed is an engine on a ledger in this process, whose work is driven by hand.
type bed struct {
	ctx    context.Context
	engine *unavez.Engine
	store  store.Store
}

func newBed(ctx context.Context, s store.Store) (*bed, error) {
	return newBedWithin(ctx, s, faultEntry)
}

// newBedWithin makes a bed with another time limit of an entry.
func newBedWithin(ctx context.Context, s store.Store, limit time.Duration) (*bed, error) {
	engine, err := unavez.New(ctx, s, unavez.Config{
		Accounts: []unavez.Account{
			{Name: account, Provider: "stripe", Mode: provider.Test, Secrets: []provider.Secret{endpointSecret}, Quiet: time.Millisecond},
			{Name: atOnce, Provider: "stripe", Mode: provider.Test, Secrets: []provider.Secret{endpointSecret}, Processing: receive.ProcessingSync},
		},
		// Nothing is sent: the outbox is what the shop would be told.
		Destinations: []unavez.Destination{{Name: "shop", URL: "https://shop.invalid/", Types: []string{"*"}, Secret: shopSecret}},
		Work:         unavez.Work{EntryTimeout: limit, Lease: 2 * limit, BackoffBase: time.Millisecond, BackoffCap: 100 * time.Millisecond, Attempts: 100},
	}, unavez.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return &bed{ctx: ctx, engine: engine, store: s}, engine.Inbox.Start(ctx)
}

// deliver hands an event to the edge and returns the status.
func (b *bed) deliver(account, body string) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+account, strings.NewReader(body))
	r.Header.Set("Stripe-Signature", stripe.Sign([]byte(body), time.Now(), endpointSecret))
	w := httptest.NewRecorder()
	b.engine.Receiver.ServeHTTP(w, r)
	return w.Code
}

// work works until nothing is due.
func (b *bed) work() {
	for idle := 0; idle < 2; {
		if b.engine.Applier.WorkOnce(b.ctx) {
			idle = 0
			continue
		}
		idle++
		time.Sleep(2 * time.Millisecond) // quiet periods of a millisecond end
	}
}

func (b *bed) register(account string, number int) error {
	_, err := b.engine.Applier.Register(b.ctx, apply.Registration{
		Order: renamed(lifeOrder, number), Account: account, Amount: payment.Money{Value: 10000, Currency: "EUR"},
	}, "merchant")
	return err
}

func inEveryOrder(ctx context.Context, e *Env, kind string, q sequence) (string, error) {
	events, err := happened(q, e.Seed)
	if err != nil {
		return "", err
	}
	s, drop, err := openLedger(ctx, e, kind)
	if err != nil {
		return "", err
	}
	defer drop()
	b, err := newBed(ctx, s)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.engine.Inbox.Stop(context.WithoutCancel(ctx)) }()
	list := tellings(e.Rand(), events, e.Full)
	if err := b.tell(list); err != nil {
		return "", err
	}
	v := &verdict{}
	first, err := b.outcome(list[0].number)
	if err != nil {
		return "", err
	}
	for _, t := range list {
		got, err := b.outcome(t.number)
		if err != nil {
			return "", err
		}
		first.compare(v, q, t, got)
	}
	if err := v.err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d orders of %d events; %s, %d effects recorded, fulfillment %s", len(list), len(events), first.state, len(first.recorded), first.fulfillment), nil
}

// tell tells all lives step by step, each step of all lives at once.
func (b *bed) tell(list []telling) error {
	for step := 0; ; step++ {
		more := false
		var putting sync.WaitGroup
		slots := make(chan struct{}, putAtOnce)
		refused := make(chan error, len(list))
		for _, t := range list {
			if step == t.registered {
				if err := b.register(account, t.number); err != nil {
					return err
				}
			}
			if step >= len(t.steps) {
				continue
			}
			more = true
			slots <- struct{}{}
			putting.Go(func() {
				defer func() { <-slots }()
				if status := b.deliver(account, t.steps[step]); status != http.StatusOK {
					refused <- fmt.Errorf("telling %d, step %d was answered %d", t.number, step, status)
				}
			})
		}
		putting.Wait()
		select {
		case err := <-refused:
			return err
		default:
		}
		b.work()
		if !more {
			return nil
		}
	}
}

package campaign

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/outbox"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// Faults lets every statement under the real stages fail once in turn.
var Faults = Campaign{
	Name:  "faults",
	About: "each statement under the stages fails once in turn, in every way: no acknowledgement without a row, no row lost, sessions clean",
	Units: func(bool) []Unit {
		var units []Unit
		for kind, ways := range map[string][]way{sqliteStore: sqliteWays, postgresStore: postgresWays} {
			for _, w := range ways {
				units = append(units, Unit{Name: kind + "/" + w.name, Run: func(ctx context.Context, e *Env) (string, error) {
					return failEach(ctx, e, kind, w)
				}})
			}
		}
		sortUnits(units)
		return units
	},
}

const (
	// faultStride is how many statements a CI run leaves out between two.
	faultStride = 17
	// faultEntry is the time limit of an entry, faultAttempt of a delivery to the
	// shop: what a lost claim leaves behind is taken up after twice as long.
	faultEntry   = 5 * time.Second
	faultAttempt = time.Second
	// flowStatementsMin is fewer statements than the flow has.
	flowStatementsMin = 10
	// missesMax is how many trials in a row need no longer meet their statement
	// for the end to be reached.
	missesMax = 3
	// relayWithin bounds the wait for a message that a struck relay may not send.
	relayWithin = 1500 * time.Millisecond
)

// faultBench is a bed whose ledger can be struck.
type faultBench struct {
	*bed
	past   store.Store
	by     striker
	shop   *shop
	way    way
	number int
	v      verdict
}

func failEach(ctx context.Context, e *Env, kind string, w way) (string, error) {
	s, past, by, drop, err := struck(ctx, e, kind)
	if err != nil {
		return "", err
	}
	defer drop()
	shop := newShop()
	defer shop.close()
	b, err := newBed(ctx, s)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.engine.Inbox.Stop(context.WithoutCancel(ctx)) }()
	f := &faultBench{bed: b, past: past, by: by, shop: shop, way: w}
	stride, from := 1, 1
	if !e.Full {
		stride, from = faultStride, 1+e.Rand().IntN(faultStride)
	}
	flow := 0
	for _, account := range []string{account, atOnce} {
		fired, err := f.each(from, stride, func(nth int) (bool, error) { return f.flow(account, nth) })
		if err != nil {
			return "", fmt.Errorf("account %s: %w", account, err)
		}
		if e.Full && fired < flowStatementsMin {
			f.v.add("account %s: only %d statements of the flow were struck", account, fired)
		}
		flow += fired
	}
	relay, err := f.each(1+(from-1)/3, 1+stride/3, f.relayed)
	if err != nil {
		return "", err
	}
	if err := f.finish(kind); err != nil {
		return "", err
	}
	if err := f.v.err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d statements of inbox and apply and %d of the outbox failed, %d orders, each fulfilled once", flow, relay, f.number), nil
}

// each runs trials with the next statement failing in each, until none is left.
func (f *faultBench) each(from, stride int, trial func(nth int) (bool, error)) (fired int, err error) {
	for nth, misses := from, 0; misses < missesMax; nth += stride {
		if err := f.ctx.Err(); err != nil {
			return fired, err
		}
		hit, err := trial(nth)
		if err != nil {
			return fired, fmt.Errorf("%s at statement %d: %w", f.way.name, nth, err)
		}
		if hit {
			fired, misses = fired+1, 0
		} else {
			misses++
		}
	}
	return fired, nil
}

func (f *faultBench) names(number int) (event, intentID, order string) {
	return fmt.Sprintf("evt_f_%d", number), fmt.Sprintf("pi_f_%d", number), fmt.Sprintf("F-%d", number)
}

func (f *faultBench) registration(account string, number int) apply.Registration {
	_, in, order := f.names(number)
	return apply.Registration{Order: order, Account: account, Amount: payment.Money{Value: 4800, Currency: "EUR"}, References: []string{in}}
}

// flow strikes one statement of a registration, a delivery and the work on it.
func (f *faultBench) flow(account string, nth int) (bool, error) {
	number := f.number
	f.number++
	event, in, order := f.names(number)
	d := succeeded(event, in, order, 4800)
	f.work() // what the trial before has left, unless it is leased
	f.by.arm(f.way, nth)
	_, registered := f.engine.Applier.Register(f.ctx, f.registration(account, number), "merchant")
	status := f.deliver(account, d.Body)
	f.engine.Applier.WorkOnce(f.ctx)
	hit := f.by.disarm()
	if err := f.acknowledged(event, status); err != nil {
		return hit, err
	}
	if registered != nil { // the merchant asks again
		if _, err := f.engine.Applier.Register(f.ctx, f.registration(account, number), "merchant"); err != nil {
			return hit, fmt.Errorf("registering again after %v: %w", registered, err)
		}
	}
	if status != http.StatusOK { // the provider sends again
		if status = f.deliver(account, d.Body); status != http.StatusOK {
			return hit, fmt.Errorf("the repetition was answered %d", status)
		}
		return hit, f.acknowledged(event, status)
	}
	return hit, nil
}

// acknowledged checks that what was acknowledged is there, and that nothing
// else than 503 refuses.
func (f *faultBench) acknowledged(event string, status int) error {
	switch status {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return nil
	default:
		return fmt.Errorf("the delivery was answered %d", status)
	}
	return f.past.View(f.ctx, func(r store.Reader) error {
		rows, err := r.Entries(f.ctx, store.List{Where: map[string]string{"provider_event_id": event}, Limit: 2})
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("event %s was acknowledged and stands %d times in the ledger", event, len(rows))
		}
		return err
	})
}

// relayed strikes one statement of a relay that delivers an order's messages.
func (f *faultBench) relayed(nth int) (bool, error) {
	number := f.number
	f.number++
	event, in, order := f.names(number)
	if _, err := f.engine.Applier.Register(f.ctx, f.registration(account, number), "merchant"); err != nil {
		return false, err
	}
	if status := f.deliver(account, succeeded(event, in, order, 4800).Body); status != http.StatusOK {
		return false, fmt.Errorf("a delivery was answered %d", status)
	}
	f.work()
	relay, err := f.newRelay()
	if err != nil {
		return false, err
	}
	f.by.arm(f.way, nth)
	if err := relay.Start(f.ctx); err != nil {
		return false, err
	}
	f.await(relayWithin, func() bool { return f.shop.effects("order.fulfill")[order] > 0 })
	stopping, cancel := context.WithTimeout(f.ctx, settleWithin)
	defer cancel()
	err = relay.Stop(stopping)
	return f.by.disarm(), err
}

func (f *faultBench) newRelay() (*outbox.Relay, error) {
	return outbox.New(f.store, []outbox.Destination{{
		Name: "shop", URL: f.shop.server.URL, Types: []string{"*"}, Secrets: []provider.Secret{shopSecret}, AllowPrivate: true, Timeout: faultAttempt,
	}}, outbox.Options{Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
}

// await waits for something that tells nobody.
func (f *faultBench) await(within time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(within); !done(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) || f.ctx.Err() != nil {
			return false
		}
	}
	return true
}

// finish works everything off without faults and compares.
func (f *faultBench) finish(kind string) error {
	relay, err := f.newRelay()
	if err != nil {
		return err
	}
	if err := relay.Start(f.ctx); err != nil {
		return err
	}
	settled := f.await(settleWithin, func() bool {
		f.engine.Applier.WorkOnce(f.ctx)
		left, err := f.left()
		return err == nil && left == 0
	})
	if err := relay.Stop(f.ctx); err != nil {
		return err
	}
	if !settled {
		left, err := f.left()
		return fmt.Errorf("%d pieces of work are left: %w", left, err)
	}
	for number := range f.number {
		f.judgeOrder(number)
	}
	for _, p := range f.shop.problems() {
		f.v.add("the shop: %s", p)
	}
	if kind == postgresStore {
		return f.sessions()
	}
	return nil
}

// left is the number of things that are to be done.
func (f *faultBench) left() (int, error) {
	stats, err := f.past.Stats(f.ctx)
	left := 0
	for _, q := range stats.Queues {
		if q.Queue != store.QueueQuiet {
			left += q.Pending + q.Waiting
		}
	}
	return left, err
}

func (f *faultBench) judgeOrder(number int) {
	event, _, order := f.names(number)
	if got := f.shop.effects("order.fulfill")[order]; got != 1 {
		f.v.add("order %s was fulfilled %d times", order, got)
	}
	if got := f.shop.effects("payment.captured")[order]; got != 1 {
		f.v.add("order %s: its capture was told %d times", order, got)
	}
	err := f.past.View(f.ctx, func(r store.Reader) error {
		rows, err := r.Entries(f.ctx, store.List{Where: map[string]string{"provider_event_id": event}, Limit: 2})
		if err == nil && (len(rows) != 1 || rows[0].Outcome != store.OutcomeApplied) {
			err = fmt.Errorf("event %s: %+v", event, rows)
		}
		return err
	})
	if err != nil {
		f.v.add("order %s: %w", order, err)
	}
}

// sessions checks that nobody holds a transaction open.
func (f *faultBench) sessions() error {
	address := f.by.(proxied).proxy.URL()
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	query := u.Query()
	query.Del("pool_max_conns")
	u.RawQuery = query.Encode()
	conn, err := pgx.Connect(f.ctx, u.String())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(f.ctx))
	const open = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`
	var n int
	clean := f.await(settleWithin, func() bool {
		err = conn.QueryRow(f.ctx, open).Scan(&n)
		return err == nil && n == 0
	})
	if !clean {
		f.v.add("%d transactions are left open: %v", n, err)
	}
	return nil
}

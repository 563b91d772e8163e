package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/simulator"
)

const (
	// settlePoll is how often the queues are looked at.
	settlePoll = 100 * time.Millisecond
	// sayEvery is how often somebody who waits hears what for.
	sayEvery = 2 * time.Second
)

// settle waits until the provider has delivered everything and the server has
// nothing left to do.
func (d *demo) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	d.say("all orders placed; waiting for the last delivery and the last message")
	spoken := time.NewTicker(sayEvery)
	defer spoken.Stop()
	flushed := make(chan error, 1)
	go func() { flushed <- d.sim.FlushAll(ctx) }()
	for waiting := true; waiting; {
		select {
		case err := <-flushed:
			if err != nil {
				return fmt.Errorf("waiting for the provider's deliveries: %w", err)
			}
			waiting = false
		case <-spoken.C:
			d.say("%d deliveries to go", d.sim.Deliveries().Pending)
		}
	}
	for {
		left, err := d.left(ctx)
		if err != nil {
			return err
		}
		if left == "" {
			return nil
		}
		select {
		case <-spoken.C:
			d.say("there are %s", left)
		default:
		}
		if !pause(ctx, settlePoll) {
			return fmt.Errorf("the queues do not become empty, there are %s: %w", left, ctx.Err())
		}
	}
}

// left names what will still move, nothing if all is quiet.
func (d *demo) left(ctx context.Context) (string, error) {
	for _, q := range []struct{ path, what string }{
		{"/v1/events?state=received", "events to work on"}, {"/v1/events?state=processing", "events in work"}, {"/v1/messages?state=pending", "messages to send"},
	} {
		p, err := d.page(ctx, q.path+"&limit=1")
		if err != nil {
			return "", err
		}
		if len(p.Data) > 0 {
			return q.what, nil
		}
	}
	return "", nil
}

type money struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

// row is what the comparison reads of a document.
type row struct {
	ID          string `json:"id"`
	Order       string `json:"order"`
	Fulfillment string `json:"fulfillment"`
	Totals      struct {
		Captured money `json:"captured"`
		Refunded money `json:"refunded"`
		Disputed money `json:"disputed"`
	} `json:"totals"`
}

type rowPage struct {
	Data    []row `json:"data"`
	HasMore bool  `json:"has_more"`
}

func (d *demo) page(ctx context.Context, path string) (p rowPage, err error) {
	status, raw, err := d.api(ctx, http.MethodGet, path, nil)
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", path, err)
	}
	if status != http.StatusOK {
		return p, fmt.Errorf("reading %s: status %d", path, status)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("reading %s: %w", path, err)
	}
	return p, nil
}

// every reads a whole list.
func (d *demo) every(ctx context.Context, path string, each func(row)) error {
	query := url.Values{"limit": {"100"}}
	for {
		p, err := d.page(ctx, path+"&"+query.Encode())
		if err != nil {
			return err
		}
		for _, r := range p.Data {
			each(r)
		}
		if !p.HasMore {
			return nil
		}
		if len(p.Data) == 0 {
			return errors.New("a page is empty although there is more")
		}
		query.Set("starting_after", p.Data[len(p.Data)-1].ID)
	}
}

// compare reads the three books.
func (d *demo) compare(ctx context.Context) (Report, error) {
	books, deliveries := d.sim.Books(), d.sim.Deliveries()
	r := Report{
		Seed: d.opt.Seed, Payments: d.opt.Payments, Deliveries: deliveries.Attempts, Duplicates: deliveries.Duplicates,
		OutOfOrder: deliveries.OutOfOrder, LostAnswers: deliveries.DroppedAnswers + d.lostAnswers(), Kills: d.kills, Differences: []string{},
		Books:  Money{Captured: sums(books.Net["captured"]), Refunded: sums(books.Net["refunded"]), Disputed: sums(books.Net["disputed"])},
		Ledger: Money{Captured: Sums{}, Refunded: Sums{}, Disputed: Sums{}},
	}
	held := map[string]bool{}
	err := d.every(ctx, "/v1/payments?account="+account, func(p row) {
		r.Ledger.Captured.add(p.Totals.Captured)
		r.Ledger.Refunded.add(p.Totals.Refunded)
		r.Ledger.Disputed.add(p.Totals.Disputed)
		held[p.Order] = p.Fulfillment == "held"
	})
	if err != nil {
		return r, err
	}
	for _, list := range []string{
		"/v1/events?state=received", "/v1/events?state=processing", "/v1/events?state=waiting", "/v1/events?state=dead",
		"/v1/messages?state=pending", "/v1/messages?state=dead", "/v1/messages?state=ambiguous",
	} {
		if err := d.every(ctx, list, func(row) { r.Unresolved++ }); err != nil {
			return r, err
		}
	}
	if n := deliveries.Lost + deliveries.GaveUp; n > 0 {
		r.differ("the provider never delivered %d event(s)", n)
	}
	r.count(books, d.shop.counts(), held)
	return r, nil
}

// lostAnswers counts the answers of the provider's API that were dropped.
func (d *demo) lostAnswers() int {
	n := 0
	for _, f := range d.sim.Faults() {
		if f.Kind == simulator.FaultDropAnswer {
			n += f.Hits
		}
	}
	return n
}

// count compares the orders that the provider's books show as paid with what
// the shop counted, by order. An order counts as held only if the books themselves show
// that its money has gone back.
func (r *Report) count(books simulator.Books, fulfilled map[string]int, held map[string]bool) {
	captured, back := map[string]int64{}, map[string]int64{}
	for _, m := range books.Movements {
		switch m.Kind {
		case simulator.Captured:
			captured[m.Order] += m.Amount
		case simulator.Refunded, simulator.DisputeWithdrawn:
			back[m.Order] += m.Amount
		case simulator.RefundFailed, simulator.DisputeReinstated:
			back[m.Order] -= m.Amount
		}
	}
	for order, paid := range captured {
		if paid < price {
			continue
		}
		r.Effects.Expected++
		switch n := fulfilled[order]; {
		case n == 1:
			r.Effects.Once++
		case n > 1:
			r.Effects.MoreThanOnce++
		case held[order] && back[order] >= paid:
			r.Effects.Held++
		default:
			r.Effects.Missing++
		}
	}
	for order, n := range fulfilled {
		if captured[order] < price && n > 0 {
			r.differ("order %s was fulfilled and not paid", order)
		}
	}
}

func sums(in map[string]int64) Sums {
	out := Sums{}
	for c, v := range in {
		if v != 0 {
			out[c] = v
		}
	}
	return out
}

func (s Sums) add(m money) {
	if m.Value != 0 {
		s[m.Currency] += m.Value
	}
}

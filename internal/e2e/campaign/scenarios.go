package campaign

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Scenarios are the ways in which an acknowledgement goes wrong.
var Scenarios = Campaign{
	Name:  "scenarios",
	About: "the eight ways in which an acknowledgement goes wrong, and a browser's return, on the built program",
	Units: func(bool) []Unit {
		var units []Unit
		for _, s := range scenarios {
			units = append(units, onStores(s.name, func(ctx context.Context, e *Env, kind string) (string, error) {
				return inScene(ctx, e, kind, options{entry: time.Second}, s.play)
			})...)
		}
		return units
	},
}

type scenario struct {
	name string
	play func(*scene)
}

var scenarios = []scenario{
	{"same_event_twice", sameEventTwice},
	{"two_workers_on_one_event", twoWorkers},
	{"failure_before_commit", failureBeforeCommit},
	{"answer_lost_after_commit", answerLost},
	{"two_events_for_one_payment", twoEvents},
	{"old_pending_event_after_success", oldPending},
	{"wrong_signature_merchant_amount_currency", wrongEverything},
	{"relay_retried_after_remote_success", relayRetried},
	{"browser_returns_to_the_success_page", browserReturns},
}

// scene is a world with short ways to act in it. After the first failure
// nothing more is done.
type scene struct {
	*world
	ctx context.Context
	s   *sender
	v   verdict
	n   *node
}

// stopScene unwinds a scene after a step that could not be done.
type stopScene struct{}

func inScene(ctx context.Context, e *Env, kind string, opt options, play func(*scene)) (said string, err error) {
	w, err := newWorld(ctx, e, kind, opt)
	if err != nil {
		return "", err
	}
	defer w.close()
	sc := &scene{world: w, ctx: ctx, s: newSender(w.client)}
	defer func() {
		if p := recover(); p != nil {
			if _, ours := p.(stopScene); !ours {
				panic(p)
			}
			said, err = "", sc.v.err()
		}
	}()
	play(sc)
	for _, p := range w.shop.problems() {
		sc.v.add("the shop: %s", p)
	}
	if err := sc.v.err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d deliveries acknowledged, %d without an answer, %d messages at the shop", len(sc.s.acked), sc.s.broken, len(w.shop.all())), nil
}

// must ends the scene on an error.
func (sc *scene) must(err error) {
	if err != nil {
		sc.v.add("%w", err)
		panic(stopScene{})
	}
}

// begin starts a process, to be struck or not, and makes it the scene's own.
func (sc *scene) begin(c crash) *node {
	n, err := sc.start(sc.ctx, c)
	sc.must(err)
	sc.n = n
	return n
}

func (sc *scene) order(order, reference string, amount int64) {
	sc.must(sc.register(sc.ctx, sc.n, registration{Order: order, Amount: eur(amount), References: []string{reference}}))
}

// deliver sends and wants a status; 0 is no answer.
func (sc *scene) deliver(d delivery, want int) {
	if got := sc.s.send(sc.ctx, sc.n.ingress, d); got != want {
		sc.v.add("event %s was answered %d, want %d", d.ID, got, want)
	}
}

func (sc *scene) settled() { sc.must(sc.settle(sc.ctx, sc.n)) }

// died waits until the process has met its place.
func (sc *scene) died() {
	select {
	case <-sc.n.ended:
	case <-time.After(metWithin):
		sc.v.add("the process has not met its place")
		panic(stopScene{})
	}
	if !sc.n.killed() {
		sc.v.add("the process ended with %v", sc.n.state)
	}
}

func expect[T comparable](sc *scene, what string, got, want T) {
	if got != want {
		sc.v.add("%s is %v, want %v", what, got, want)
	}
}

func (sc *scene) fulfilled(order string, times int) {
	expect(sc, "fulfillments of "+order, sc.shop.effects("order.fulfill")[order], times)
}

func (sc *scene) row(id string) eventRow {
	row, err := sc.event(sc.ctx, sc.n, id)
	sc.must(err)
	return row
}

func (sc *scene) paymentOf(order string) paymentRow {
	rows, err := sc.payments(sc.ctx, sc.n, url.Values{"order": {order}})
	sc.must(err)
	if len(rows) != 1 {
		sc.v.add("order %s has %d payments, want 1", order, len(rows))
		panic(stopScene{})
	}
	return rows[0]
}

// open lists the reasons of open exceptions of an order.
func (sc *scene) open(order string) string {
	rows, err := sc.exceptions(sc.ctx, sc.n)
	sc.must(err)
	var reasons []string
	for _, x := range rows {
		if x.State == "open" && x.Order == order {
			reasons = append(reasons, x.Reason)
		}
	}
	return strings.Join(reasons, " ")
}

// counted waits until the deliveries of an event are counted: that may lag.
func (sc *scene) counted(id string, want int) {
	deadline := time.Now().Add(settleWithin)
	for {
		got := sc.row(id).Deliveries
		if got >= want || time.Now().After(deadline) {
			expect(sc, "deliveries of "+id, got, want)
			return
		}
		time.Sleep(pollEvery)
	}
}

// R1.8: the same event twice, one after the other and at once.
func sameEventTwice(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	d := succeeded("evt_1", "pi_1", "A-1", 4800)
	sc.deliver(d, http.StatusOK)
	sc.deliver(d, http.StatusOK)
	var sending sync.WaitGroup
	for range 16 {
		sending.Go(func() { sc.s.send(sc.ctx, sc.n.ingress, d) })
	}
	sending.Wait()
	expect(sc, "answers that were no acknowledgement", sc.s.others(), "")
	sc.settled()
	expect(sc, "outcome", sc.row("evt_1").Outcome, "applied")
	sc.counted("evt_1", 18)
	sc.fulfilled("A-1", 1)
	expect(sc, "captured", sc.paymentOf("A-1").Totals.Captured.Value, 4800)
}

// R2.2 R2.7: two processes, each with its workers, get one event at once.
func twoWorkers(sc *scene) {
	first, second := sc.begin(crash{}), sc.begin(crash{})
	const orders = 24
	var sending sync.WaitGroup
	for i := range orders {
		order, in := fmt.Sprintf("W-%d", i), fmt.Sprintf("pi_w_%d", i)
		d := succeeded("evt_"+in, in, order, 4800)
		if i%2 == 0 { // registered before, or while the events wait
			sc.order(order, in, 4800)
		}
		for _, n := range []*node{first, second, first, second} {
			sending.Go(func() { sc.s.send(sc.ctx, n.ingress, d) })
		}
		if i%2 == 1 {
			sc.order(order, in, 4800)
		}
	}
	sending.Wait()
	expect(sc, "answers that were no acknowledgement", sc.s.others(), "")
	sc.settled()
	events, err := sc.events(sc.ctx, sc.n, nil)
	sc.must(err)
	expect(sc, "events", len(events), orders)
	for i := range orders {
		sc.fulfilled(fmt.Sprintf("W-%d", i), 1)
	}
}

// R2.1 R6.6: the process dies before the commit, first of the inbox, then of apply.
func failureBeforeCommit(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	sc.order("A-2", "pi_2", 4800)
	sc.must(sc.n.stop())
	d := succeeded("evt_1", "pi_1", "A-1", 4800)
	sc.begin(crash{place: "inbox.inserted_before_commit", nth: 1})
	sc.deliver(d, 0)
	sc.died()
	sc.begin(crash{})
	events, err := sc.events(sc.ctx, sc.n, nil)
	sc.must(err)
	expect(sc, "events after the failure", len(events), 0)
	sc.deliver(d, http.StatusOK) // the provider tries again
	sc.settled()
	sc.fulfilled("A-1", 1)
	sc.must(sc.n.stop())

	sc.begin(crash{place: "apply.before_commit", nth: 1})
	sc.s.send(sc.ctx, sc.n.ingress, succeeded("evt_2", "pi_2", "A-2", 4800)) // acknowledged, or cut off by the death
	sc.died()
	sc.fulfilled("A-2", 0)
	sc.begin(crash{})
	sc.settled()
	expect(sc, "outcome", sc.row("evt_2").Outcome, "applied")
	sc.fulfilled("A-2", 1)
}

// R1.7 R1.8: the answer is lost after the commit; the provider's repetition is
// a duplicate.
func answerLost(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	sc.must(sc.n.stop())
	d := succeeded("evt_1", "pi_1", "A-1", 4800)
	sc.begin(crash{place: "inbox.committed_before_answer", nth: 1})
	sc.deliver(d, 0)
	sc.died()
	sc.begin(crash{})
	sc.row("evt_1") // it is there
	sc.deliver(d, http.StatusOK)
	sc.settled()
	sc.counted("evt_1", 2)
	sc.fulfilled("A-1", 1)
}

// R2.3: two different events tell of one successful payment.
func twoEvents(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	charge := `{"id":"ch_pi_1","object":"charge","amount":4800,"amount_captured":4800,"amount_refunded":0,"captured":true,"paid":true,"status":"succeeded","currency":"eur","payment_intent":"pi_1","metadata":{"order_id":"A-1"}}`
	for _, d := range []delivery{
		succeeded("evt_1", "pi_1", "A-1", 4800), succeeded("evt_2", "pi_1", "A-1", 4800),
		{ID: "evt_3", Account: account, Order: "A-1", Body: eventBody("evt_3", "charge.succeeded", charge)},
	} {
		sc.deliver(d, http.StatusOK)
	}
	sc.settled()
	sc.fulfilled("A-1", 1)
	expect(sc, "captures told", sc.shop.effects("payment.captured")["A-1"], 1)
	expect(sc, "captured", sc.paymentOf("A-1").Totals.Captured.Value, 4800)
	expect(sc, "exceptions", sc.open("A-1"), "")
}

// R2.4: an old event says pending after the success.
func oldPending(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	sc.deliver(succeeded("evt_2", "pi_1", "A-1", 4800), http.StatusOK)
	sc.settled()
	sc.deliver(processing("evt_1", "pi_1", "A-1", 4800), http.StatusOK)
	sc.settled()
	expect(sc, "state", sc.paymentOf("A-1").State, "captured")
	sc.fulfilled("A-1", 1)
	sc.row("evt_1")
}

// R1.4 R1.5 R2.9: wrong signature, merchant, amount and currency.
func wrongEverything(sc *scene) {
	sc.begin(crash{})
	for i := range 5 {
		sc.order(fmt.Sprintf("A-%d", i), fmt.Sprintf("pi_%d", i), 4800)
	}
	forged := succeeded("evt_0", "pi_0", "A-0", 4800)
	expect(sc, "forged", sc.s.post(sc.ctx, sc.n.ingress, forged, "whsec_somebody_else", time.Now()), http.StatusBadRequest)
	expect(sc, "too old", sc.s.post(sc.ctx, sc.n.ingress, forged, endpointSecret, time.Now().Add(-time.Hour)), http.StatusBadRequest)
	expect(sc, "from the future", sc.s.post(sc.ctx, sc.n.ingress, forged, endpointSecret, time.Now().Add(time.Hour)), http.StatusBadRequest)
	stranger := forged
	stranger.Account = "nobody"
	sc.deliver(stranger, http.StatusNotFound)
	events, err := sc.events(sc.ctx, sc.n, nil)
	sc.must(err)
	expect(sc, "events after what must not be stored", len(events), 0)

	connected := succeeded("evt_1", "pi_1", "A-1", 4800)
	connected.Body = strings.Replace(connected.Body, `"object":"event"`, `"object":"event","account":"acct_somebody"`, 1)
	sc.deliver(connected, http.StatusOK)
	sc.deliver(succeeded("evt_2", "pi_2", "A-2", 1), http.StatusOK)
	other := intent{id: "pi_3", order: "A-3", status: "succeeded", amount: 4800, received: 4800, currency: "usd"}
	sc.deliver(delivery{ID: "evt_3", Account: account, Body: eventBody("evt_3", "payment_intent.succeeded", other.json())}, http.StatusOK)
	live := succeeded("evt_4", "pi_4", "A-4", 4800)
	live.Body = strings.ReplaceAll(live.Body, `"livemode":false`, `"livemode":true`)
	sc.deliver(live, http.StatusOK)
	sc.settled()
	for i := range 5 {
		sc.fulfilled(fmt.Sprintf("A-%d", i), 0)
	}
	expect(sc, "captured of the other merchant's", sc.paymentOf("A-1").Totals.Captured.Value, 0)
	expect(sc, "captured of the other mode's", sc.paymentOf("A-4").Totals.Captured.Value, 0)
	expect(sc, "captured of the wrong amount", sc.paymentOf("A-2").Totals.Captured.Value, 1)
	expect(sc, "captured in the wrong currency", sc.paymentOf("A-3").OtherTotals["USD"].Captured.Value, 4800)
	expect(sc, "exceptions of the wrong amount", sc.open("A-2"), "amount")
	expect(sc, "exceptions of the wrong currency", sc.open("A-3"), "currency")
	for _, id := range []string{"evt_2", "evt_3"} {
		expect(sc, "outcome of "+id, sc.row(id).Outcome, "contradiction")
	}
}

// R3.2: the relay dies between the shop's answer and its mark; the message goes
// again under the same id.
func relayRetried(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	sc.must(sc.n.stop())
	sc.begin(crash{place: "outbox.answered_before_mark", nth: 1})
	sc.s.send(sc.ctx, sc.n.ingress, succeeded("evt_1", "pi_1", "A-1", 4800)) // acknowledged, or cut off by the death
	sc.died()
	sc.begin(crash{})
	sc.settled()
	twice := 0
	for _, m := range sc.shop.all() {
		if m.Times > 1 {
			twice++
		}
	}
	expect(sc, "messages that came again under their id", twice, 1)
	sc.fulfilled("A-1", 1)
}

// R1.6: a browser that comes back confirms nothing, wherever it comes to.
func browserReturns(sc *scene) {
	sc.begin(crash{})
	sc.order("A-1", "pi_1", 4800)
	const query = "?payment_intent=pi_1&redirect_status=succeeded"
	for _, visit := range []struct {
		method, url string
		want        int
	}{
		{http.MethodGet, sc.n.ingress + "/webhooks/" + account + query, http.StatusMethodNotAllowed},
		{http.MethodPost, sc.n.ingress + "/webhooks/" + account + query, http.StatusBadRequest},
		{http.MethodGet, sc.n.ingress + "/success" + query, http.StatusNotFound},
		{http.MethodGet, sc.n.private + "/success" + query, http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(sc.ctx, visit.method, visit.url, nil)
		sc.must(err)
		resp, err := sc.client.Do(req)
		sc.must(err)
		_ = resp.Body.Close()
		expect(sc, visit.method+" "+visit.url, resp.StatusCode, visit.want)
	}
	sc.settled()
	sc.fulfilled("A-1", 0)
	expect(sc, "state", sc.paymentOf("A-1").State, "expected")
	events, err := sc.events(sc.ctx, sc.n, nil)
	sc.must(err)
	expect(sc, "events", len(events), 0)
}

package campaign

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/simulator"
)

// sequence is a life of a payment, told by the provider's own simulator.
type sequence struct {
	name string
	// live makes it happen.
	live func(*life)
	// keep are the types of events that are permuted; all if empty.
	keep []string
	// fulfillment is what an order may end as.
	fulfillment string
}

// sequences are lives of a payment of 100.00 EUR.
var sequences = []sequence{
	{"paid", func(l *life) { l.pay("automatic") }, nil, "sent"},
	{"authorized_and_captured", func(l *life) {
		l.pay("manual")
		l.post("/v1/payment_intents/"+l.intent+"/capture", "")
	}, []string{"payment_intent.created", "charge.succeeded", "payment_intent.amount_capturable_updated", "charge.captured", "payment_intent.succeeded"}, "sent"},
	{"refunded_in_two_parts", func(l *life) {
		l.pay("automatic")
		l.refund(3000)
		l.refund(7000)
	}, []string{"payment_intent.succeeded", "charge.succeeded", "charge.refunded", "refund.created"}, "sent held"},
	{"refund_that_failed", func(l *life) {
		l.pay("automatic")
		re := l.refund(4000)
		l.trigger(simulator.Trigger{Type: simulator.RefundFail, Refund: re, Reason: "lost_or_stolen_card"})
	}, []string{"payment_intent.succeeded", "charge.refunded", "refund.created", "refund.failed", "refund.updated"}, "sent"},
	{"dispute_lost", func(l *life) {
		l.pay("automatic")
		dp := l.trigger(simulator.Trigger{Type: simulator.DisputeOpen, PaymentIntent: l.intent, Amount: 10000, Reason: "fraudulent"})
		l.trigger(simulator.Trigger{Type: simulator.DisputeLose, Dispute: dp})
	}, []string{"payment_intent.succeeded", "charge.dispute.created", "charge.dispute.funds_withdrawn", "charge.dispute.closed"}, "sent held"},
	{"canceled", func(l *life) {
		l.pay("manual")
		l.post("/v1/payment_intents/"+l.intent+"/cancel", "")
	}, nil, "none"},
	{"second_events", func(l *life) {
		l.pay("automatic")
		for _, id := range l.ids() {
			l.trigger(simulator.Trigger{Type: simulator.EventSecond, Event: id})
		}
	}, nil, "sent"},
	{"whole_life", func(l *life) {
		l.pay("manual")
		l.post("/v1/payment_intents/"+l.intent+"/capture", "amount_to_capture=9000")
		re := l.refund(2000)
		l.refund(1000)
		l.trigger(simulator.Trigger{Type: simulator.RefundFail, Refund: re, Reason: "declined"})
		dp := l.trigger(simulator.Trigger{Type: simulator.DisputeOpen, PaymentIntent: l.intent, Amount: 3000, Reason: "general"})
		l.trigger(simulator.Trigger{Type: simulator.DisputeWin, Dispute: dp})
	}, nil, "none"},
}

// life drives the simulator through one sequence.
type life struct {
	sim    *simulator.Server
	intent string
}

// lifeOrder is the order whose id is in the payment's metadata.
const lifeOrder = "order_of_the_life"

// happened lets the sequence happen and returns its events, oldest first.
func happened(s sequence, seed uint64) (events []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, fmt.Errorf("sequence %s: %v", s.name, p)
		}
	}()
	l := &life{sim: simulator.New(simulator.Config{Seed: seed})}
	s.live(l)
	for _, e := range l.events() {
		if len(s.keep) == 0 || slices.Contains(s.keep, e.kind) {
			events = append(events, e.raw)
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("sequence %s has no events", s.name)
	}
	return events, nil
}

func (l *life) request(method, path, form string) []byte {
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.Header.Set("Authorization", "Bearer sk_test_simulator")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	l.sim.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		panic(fmt.Sprintf("%s %s: %d: %s", method, path, w.Code, w.Body))
	}
	return w.Body.Bytes()
}

func (l *life) post(path, form string) string {
	var object struct {
		ID   string         `json:"id"`
		Rest jsontext.Value `json:",unknown"`
	}
	if err := json.Unmarshal(l.request(http.MethodPost, path, form), &object); err != nil {
		panic(err)
	}
	return object.ID
}

func (l *life) pay(capture string) {
	form := url.Values{
		"amount": {"10000"}, "currency": {"eur"}, "confirm": {"true"}, "payment_method": {"pm_card_visa"},
		"capture_method": {capture}, "metadata[order_id]": {lifeOrder},
	}
	l.intent = l.post("/v1/payment_intents", form.Encode())
}

func (l *life) refund(amount int64) string {
	return l.post("/v1/refunds", fmt.Sprintf("payment_intent=%s&amount=%d", l.intent, amount))
}

func (l *life) trigger(t simulator.Trigger) string {
	done, err := l.sim.Trigger(t)
	if err != nil {
		panic(err)
	}
	return done.Object
}

type lifeEvent struct{ id, kind, raw string }

func (l *life) events() []lifeEvent {
	var page struct {
		Data []jsontext.Value `json:"data"`
		Rest jsontext.Value   `json:",unknown"`
	}
	if err := json.Unmarshal(l.request(http.MethodGet, "/v1/events?limit=100", ""), &page); err != nil {
		panic(err)
	}
	var events []lifeEvent
	for _, raw := range page.Data {
		var e struct {
			ID   string         `json:"id"`
			Type string         `json:"type"`
			Rest jsontext.Value `json:",unknown"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			panic(err)
		}
		events = append(events, lifeEvent{e.ID, e.Type, string(raw)})
	}
	slices.Reverse(events)
	return events
}

func (l *life) ids() []string {
	var ids []string
	for _, e := range l.events() {
		ids = append(ids, e.id)
	}
	return ids
}

// named matches the names of the simulator's objects and the order's.
var named = regexp.MustCompile(`\b(?:pi|ch|re|du|dp|txn|evt|py|pyr|in|cs_test|cs)_[A-Za-z0-9]{8,}|` + lifeOrder)

// nameMark stands between a name and the number of the life that it is of.
const nameMark = "xLIFEx"

// renamed tells the same of other objects, so that many lives fit one ledger.
func renamed(raw string, number int) string {
	return named.ReplaceAllStringFunc(raw, func(name string) string { return fmt.Sprintf("%s%s%d", name, nameMark, number) })
}

var marked = regexp.MustCompile(nameMark + `\d+`)

// unnamed takes the numbers of lives away again.
func unnamed(text string) string { return marked.ReplaceAllString(text, "") }

var kindOf = regexp.MustCompile(`"type":\s*"([a-z_]+\.[a-z_.]+)"`)

// kinds are the types of the events, in the order in which they are told.
func (t telling) kinds() []string {
	var kinds []string
	for _, step := range t.steps {
		if found := kindOf.FindStringSubmatch(step); found != nil {
			kinds = append(kinds, found[1])
		}
	}
	return kinds
}

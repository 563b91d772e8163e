package simulator

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// delivery is one event on its way to one endpoint.
type delivery struct {
	event    *event
	endpoint int
	attempt  int
	due      time.Time // by the runtime's clock
	order    uint64    // among equal due times
}

// Deliveries counts what happened to webhooks since New. An attempt that a 2xx
// answered is acknowledged, any other is failed. Duplicates are attempts of an
// event that the endpoint had acknowledged before; out of order are first
// attempts that began after one of a newer event of the same payment.
type Deliveries struct {
	Events         int `json:"events"`
	SecondEvents   int `json:"second_events"`
	Attempts       int `json:"attempts"`
	Acknowledged   int `json:"acknowledged"`
	Failed         int `json:"failed"`
	Duplicates     int `json:"duplicates"`
	OutOfOrder     int `json:"out_of_order"`
	DroppedAnswers int `json:"dropped_answers"`
	Lost           int `json:"lost"`
	GaveUp         int `json:"gave_up"` // out of attempts
	Pending        int `json:"pending"`
}

// window is a set of deliveries that leave together, shuffled.
type window struct {
	items []*delivery
	due   time.Time
}

// queue holds the pending deliveries, the soonest first. Its lock may be taken
// under Server.mu, never the other way round.
type queue struct {
	cfg     Config
	settled func(*event)

	mu        sync.Mutex
	endpoints []Endpoint
	heap      deliveries
	window    window
	sending   int
	serial    uint64
	chance    *rand.Rand
	newest    map[string]int64 // by payment: the newest event whose sending began
	counts    Deliveries
	changed   chan struct{} // closed on every change, then replaced

	wake chan struct{}
	life lifecycle
}

func newQueue(cfg Config, settled func(*event)) *queue {
	return &queue{
		cfg: cfg, settled: settled, endpoints: cfg.endpoints(), chance: newRand(cfg.Seed, streamQueue),
		newest: map[string]int64{}, changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// add queues the event for every endpoint that takes its type and says how many
// deliveries that makes.
func (q *queue) add(ev *event, p plan) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.Events++
	if p.lost {
		q.counts.Lost++
		return 0
	}
	n := 0
	for i, ep := range q.endpoints {
		if len(ep.Types) > 0 && !slices.ContainsFunc(ep.Types, func(t string) bool { return glob(t, ev.typ) }) {
			continue
		}
		for range 1 + p.copies {
			q.push(&delivery{event: ev, endpoint: i, due: time.Now().Add(p.delay)}, p)
			n++
		}
	}
	q.change()
	return n
}

// push puts a delivery into the heap; with a window its place in it is random.
// The caller holds q.mu.
func (q *queue) push(d *delivery, p plan) {
	q.serial++
	d.order = q.serial
	if p.window > 1 {
		if len(q.window.items) == 0 || !q.window.due.After(time.Now()) {
			q.window = window{due: time.Now().Add(p.hold)}
		}
		d.order, d.due = q.chance.Uint64(), laterOf(d.due, q.window.due)
		q.window.items = append(q.window.items, d)
	}
	heap.Push(&q.heap, d)
	if p.window > 1 && len(q.window.items) >= p.window {
		q.openWindow()
	}
}

// openWindow lets the deliveries of the current window leave now.
func (q *queue) openWindow() {
	now := time.Now()
	for _, d := range q.window.items {
		if d.due.Equal(q.window.due) { // not one that is delayed beyond it
			d.due = now
		}
	}
	q.window = window{}
	heap.Init(&q.heap)
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// change tells waiters and the dispatcher. The caller holds q.mu.
func (q *queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take removes the next delivery that is due, or says how long until one is.
func (q *queue) take() (*delivery, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(q.heap[0].due); wait > 0 {
		return nil, wait
	}
	q.sending++
	return heap.Pop(&q.heap).(*delivery), 0
}

// putBack returns a delivery that was taken and not tried.
func (q *queue) putBack(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending--
	heap.Push(&q.heap, d)
	q.change()
}

// begin counts an attempt and answers where it goes. It is false where the
// endpoint has meanwhile been taken away.
func (q *queue) begin(d *delivery) (Endpoint, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.endpoint >= len(q.endpoints) {
		return Endpoint{}, false
	}
	q.counts.Attempts++
	d.attempt++
	switch ev := d.event; {
	case ev.acked&(1<<d.endpoint) != 0:
		q.counts.Duplicates++
	case d.attempt == 1 && ev.payment != "":
		if ev.seq < q.newest[ev.payment] {
			q.counts.OutOfOrder++
		}
		q.newest[ev.payment] = max(q.newest[ev.payment], ev.seq)
	}
	return q.endpoints[d.endpoint], true
}

// end books the result of an attempt: done, again later, or given up.
func (q *queue) end(d *delivery, acknowledged, dropped bool) {
	q.mu.Lock()
	if acknowledged {
		q.counts.Acknowledged++
		d.event.acked |= 1 << d.endpoint
	} else {
		q.counts.Failed++
	}
	if dropped {
		q.counts.DroppedAnswers++
	}
	over := acknowledged && !dropped
	if !over && d.attempt >= q.cfg.AttemptsMax {
		q.counts.GaveUp++
		over = true
	}
	if over {
		// The event's own count goes first, so that whoever sees nothing
		// pending sees the event settled too.
		q.mu.Unlock()
		q.settled(d.event)
		q.mu.Lock()
	} else {
		d.due = time.Now().Add(q.backoff(d.attempt))
		heap.Push(&q.heap, d)
	}
	q.sending--
	q.change()
	q.mu.Unlock()
}

// drop ends a delivery whose endpoint is gone.
func (q *queue) drop(d *delivery) {
	q.settled(d.event)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending--
	q.change()
}

// backoff doubles from the base up to the bound, and adds up to a quarter.
func (q *queue) backoff(attempt int) time.Duration {
	d := q.cfg.RetryBase
	for i := 1; i < attempt && d < q.cfg.RetryMax; i++ {
		d *= 2
	}
	d = min(d, q.cfg.RetryMax)
	return d + time.Duration(q.chance.Int64N(int64(d)/retryJitterPart+1))
}

func (q *queue) countSecond() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.SecondEvents++
}

// delivered says whether every endpoint that should have the event has it.
func (q *queue) delivered(ev *event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, ep := range q.endpoints {
		takes := len(ep.Types) == 0 || slices.ContainsFunc(ep.Types, func(t string) bool { return glob(t, ev.typ) })
		if takes && ev.acked&(1<<i) == 0 {
			return false
		}
	}
	return true
}

// Deliveries counts what happened to webhooks.
func (s *Server) Deliveries() Deliveries {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := q.counts
	counts.Pending = len(q.heap) + q.sending
	return counts
}

// Flush makes everything that is pending due now, retries and windows too, and
// says how much that is. It does not wait; see Drain.
func (s *Server) Flush() int {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flush()
}

func (q *queue) flush() int {
	now := time.Now()
	for _, d := range q.heap {
		d.due = now
	}
	q.window = window{}
	heap.Init(&q.heap)
	q.change()
	return len(q.heap)
}

// Drain waits until no delivery is pending. It does not hasten anything; call
// Flush for that.
func (s *Server) Drain(ctx context.Context) error {
	for {
		q := s.queue
		q.mu.Lock()
		pending, changed := len(q.heap)+q.sending, q.changed
		q.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// FlushAll flushes and waits, again and again, until no delivery is pending. A
// receiver that never acknowledges gets its attempts without a pause.
func (s *Server) FlushAll(ctx context.Context) error {
	for {
		q := s.queue
		q.mu.Lock()
		q.flush()
		pending, changed := len(q.heap)+q.sending, q.changed
		q.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetEndpoints says where webhooks go from now on, pending ones too: the first
// endpoint takes over what was pending for the first, and so on.
func (s *Server) SetEndpoints(endpoints ...Endpoint) error {
	if len(endpoints) > endpointsMax {
		return ErrFull
	}
	for _, ep := range endpoints {
		if !strings.HasPrefix(ep.URL, "http://") && !strings.HasPrefix(ep.URL, "https://") {
			return ErrInvalid
		}
	}
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endpoints = slices.Clone(endpoints)
	q.change()
	return nil
}

// EndpointURLs lists where webhooks go.
func (s *Server) EndpointURLs() []string {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	urls := make([]string, 0, len(q.endpoints))
	for _, ep := range q.endpoints {
		urls = append(urls, ep.URL)
	}
	return urls
}

// deliveries is a heap by due time, then order.
type deliveries []*delivery

func (h deliveries) Len() int { return len(h) }
func (h deliveries) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].order < h[j].order
}
func (h deliveries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *deliveries) Push(x any)   { *h = append(*h, x.(*delivery)) }
func (h *deliveries) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return d
}

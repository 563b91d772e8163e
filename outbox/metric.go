package outbox

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/unavez/unavez/store"
)

// statsWithin bounds what a scrape asks of the ledger.
const statsWithin = 5 * time.Second

// metrics count what this relay does, and read what the ledger holds when they
// are scraped.
type metrics struct {
	relay      *Relay
	deliveries *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	lag        *prometheus.HistogramVec
	halted     *prometheus.CounterVec

	pending, oldest, held, breaker *prometheus.Desc
}

func newMetrics(r *Relay) *metrics {
	one := []string{"destination"}
	return &metrics{
		relay: r,
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unavez_deliveries_total", Help: "Attempts to deliver a message.",
		}, []string{"destination", "outcome", "code_class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_delivery_duration_seconds", Help: "Time of one attempt to deliver a message.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 11),
		}, []string{"destination", "outcome", "code_class"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_delivery_lag_seconds", Help: "Time from a message's making to its delivery.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 11),
		}, one),
		halted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unavez_messages_stopped_total", Help: "Messages that were given up and wait for a person, dead or ambiguous.",
		}, []string{"destination", "state"}),
		pending: prometheus.NewDesc("unavez_outbox_pending", "Messages that are to be delivered.", one, nil),
		oldest: prometheus.NewDesc("unavez_outbox_oldest_pending_timestamp_seconds",
			"When the oldest message that is to be delivered was queued.", one, nil),
		held: prometheus.NewDesc("unavez_outbox_held",
			"1 if nothing is sent to the destination because it is paused, cut off or asked for a pause.", one, nil),
		breaker: prometheus.NewDesc("unavez_destination_breaker",
			"The breaker of the destination: 0 closed, 1 half-open, 2 open.", one, nil),
	}
}

func (m *metrics) attempted(destination string, o outcome) {
	class := "none"
	if o.status > 0 {
		class = strconv.Itoa(o.status/100) + "xx"
	}
	m.deliveries.WithLabelValues(destination, o.verdict, class).Inc()
	m.duration.WithLabelValues(destination, o.verdict, class).Observe(o.duration.Seconds())
}

func (m *metrics) delivered(destination string, lag time.Duration) {
	m.lag.WithLabelValues(destination).Observe(lag.Seconds())
}

func (m *metrics) stopped(destination string, state store.MessageState) {
	m.halted.WithLabelValues(destination, string(state)).Inc()
}

// Collectors returns the relay's metrics, to be registered by the caller.
func (r *Relay) Collectors() []prometheus.Collector { return []prometheus.Collector{r.metrics} }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.counted() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{m.pending, m.oldest, m.held, m.breaker} {
		to <- d
	}
}

// Collect implements prometheus.Collector. A ledger that does not answer leaves
// its figures out.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.counted() {
		c.Collect(to)
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
	defer cancel()
	if stats, err := m.relay.store.Stats(ctx); err == nil {
		m.collectQueues(to, stats)
	}
	states, err := m.relay.States(ctx)
	if err != nil {
		return
	}
	for _, s := range states {
		held := 0.0
		if s.Paused || !s.HeldUntil.IsZero() || s.Breaker == gobreaker.StateOpen.String() {
			held = 1
		}
		to <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, held, s.Name)
		to <- prometheus.MustNewConstMetric(m.breaker, prometheus.GaugeValue, breakerValue(s.Breaker), s.Name)
	}
}

func (m *metrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.deliveries, m.duration, m.lag, m.halted}
}

func (m *metrics) collectQueues(to chan<- prometheus.Metric, stats store.Stats) {
	queues := map[string]store.QueueStats{}
	for _, q := range stats.Queues {
		if name, ok := strings.CutPrefix(q.Queue, store.QueueOutbox("")); ok {
			queues[name] = q
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.relay.groups)) {
		q := queues[name]
		to <- prometheus.MustNewConstMetric(m.pending, prometheus.GaugeValue, float64(q.Pending), name)
		if !q.Oldest.IsZero() && q.Pending > 0 {
			to <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, float64(q.Oldest.UnixMicro())/1e6, name)
		}
	}
}

func breakerValue(state string) float64 {
	switch state {
	case gobreaker.StateHalfOpen.String():
		return 1
	case gobreaker.StateOpen.String():
		return 2
	}
	return 0
}

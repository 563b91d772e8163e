package apply

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/store"
)

// metrics counts what apply does. Labels are bounded: providers are those of
// the configuration, outcomes those of the outside interface.
type metrics struct {
	processed  *prometheus.CounterVec
	lag        *prometheus.HistogramVec
	steps      *prometheus.HistogramVec
	duplicates *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		processed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unavez_inbox_processed_total", Help: "Entries that reached a result, by outcome.",
		}, []string{"provider", "outcome"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_inbox_lag_seconds", Help: "Time from receipt to result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"provider"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_inbox_process_duration_seconds", Help: "Duration of one transaction of apply.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"result"}),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unavez_duplicates_prevented_total", Help: "Events whose every fact was known already.",
		}, []string{"provider"}),
	}
}

// Collector returns the metrics of the applier for a registry.
func (a *Applier) Collector() prometheus.Collector { return a.metrics }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.processed, m.lag, m.steps, m.duplicates}
}

// finished counts inputs whose results have committed.
func (m *metrics) finished(inputs []*input) {
	for _, in := range inputs {
		if in.result == nil || in.account == nil {
			continue
		}
		m.processed.WithLabelValues(in.account.Provider, in.result.Outcome).Inc()
		m.lag.WithLabelValues(in.account.Provider).Observe(in.result.At.Sub(in.entry.ReceivedAt).Seconds())
		if in.result.Outcome == store.OutcomeDuplicate {
			m.duplicates.WithLabelValues(in.account.Provider).Inc()
		}
	}
}

func (m *metrics) stepped(result string, took time.Duration) {
	m.steps.WithLabelValues(result).Observe(took.Seconds())
}

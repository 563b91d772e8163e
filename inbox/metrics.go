package inbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of a delivery, as the label outcome of unavez_inbox_received_total.
// One delivery of several items counts as several.
const (
	OutcomeStored       = "stored"
	OutcomeDuplicate    = "duplicate"
	OutcomeBadSignature = "bad_signature"
	OutcomeTooOld       = "too_old"
	OutcomeTooLarge     = "too_large"
	// OutcomeBadForm: nothing that could be verified.
	OutcomeBadForm = "bad_form"
	// OutcomeUnknownAccount carries the provider ProviderOther.
	OutcomeUnknownAccount = "unknown_account"
	// OutcomeAborted: the caller went away, or was too slow.
	OutcomeAborted = "aborted"
	// OutcomeError: authentic or not, it was not stored, and that is on us.
	OutcomeError = "error"
)

// ProviderOther is the label of requests that belong to no account.
const ProviderOther = "other"

// Metrics are the figures of the inbound path. They are a
// prometheus.Collector, to be registered once.
type Metrics struct {
	received   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	lastEvent  *prometheus.GaugeVec
	batchRows  prometheus.Histogram
	doubts     prometheus.Counter
	queueRows  prometheus.Gauge
	queueBytes prometheus.Gauge
}

// NewMetrics makes metrics that are registered nowhere yet.
func NewMetrics() *Metrics {
	return &Metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unavez_inbox_received_total", Help: "Notifications received, by what became of them.",
		}, []string{"provider", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_inbox_request_duration_seconds", Help: "Time from the end of a request's headers to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"provider"}),
		lastEvent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "unavez_provider_last_event_timestamp_seconds", Help: "When the last authentic notification became durable or was known.",
		}, []string{"provider"}),
		batchRows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unavez_inbox_batch_rows", Help: "Notifications that shared one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
		doubts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "unavez_inbox_commit_unknown_total", Help: "Commits whose result was unknown and was looked up.",
		}),
		queueRows: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "unavez_inbox_queue_rows", Help: "Notifications that wait for a commit.",
		}),
		queueBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "unavez_inbox_queue_bytes", Help: "Bytes of the notifications that wait for a commit.",
		}),
	}
}

// Received counts a notification of the provider.
func (m *Metrics) Received(provider, outcome string) {
	m.received.WithLabelValues(provider, outcome).Inc()
}

// Answered observes the time that a request took.
func (m *Metrics) Answered(provider string, took time.Duration) {
	m.duration.WithLabelValues(provider).Observe(took.Seconds())
}

// Heard notes that the provider has been heard of.
func (m *Metrics) Heard(provider string, at time.Time) {
	m.lastEvent.WithLabelValues(provider).Set(float64(at.UnixMicro()) / 1e6)
}

func (m *Metrics) queued(rows int, bytes int64) {
	m.queueRows.Set(float64(rows))
	m.queueBytes.Set(float64(bytes))
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.received, m.duration, m.lastEvent, m.batchRows, m.doubts, m.queueRows, m.queueBytes}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
}

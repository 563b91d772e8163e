package httpapi

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/store"
)

// statsWithin bounds what a scrape asks of the ledger.
const statsWithin = 5 * time.Second

// metrics count requests, and read what the ledger holds when they are
// scraped, at most once in statsCacheFor. The outbox tells of its queues itself.
type metrics struct {
	store  store.Store
	now    func() time.Time
	logger *slog.Logger

	requests *prometheus.HistogramVec
	build    prometheus.Gauge

	pending, waiting, oldest, dead, open *prometheus.Desc

	mu     sync.Mutex
	read   time.Time
	stats  store.Stats
	usable bool
}

func newMetrics(d *Deps) *metrics {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "unavez_build_info", Help: "1, with the program's version.",
		ConstLabels: prometheus.Labels{"version": d.Version.Version, "revision": d.Version.Revision, "goversion": d.Version.Go},
	})
	build.Set(1)
	return &metrics{
		store: d.Store, now: d.Now, logger: d.Logger, build: build,
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unavez_http_request_duration_seconds", Help: "Time of a request on the private listener.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"route", "method", "code"}),
		pending: prometheus.NewDesc("unavez_inbox_pending", "Entries that are due or in work.", nil, nil),
		waiting: prometheus.NewDesc("unavez_inbox_waiting", "Entries that wait for their payment.", nil, nil),
		oldest: prometheus.NewDesc("unavez_inbox_oldest_pending_timestamp_seconds",
			"When the oldest entry that is to be worked on was queued.", nil, nil),
		dead: prometheus.NewDesc("unavez_dead_letters_open", "Entries and messages that were given up.", []string{"queue"}, nil),
		open: prometheus.NewDesc("unavez_exceptions_open", "Exceptions that are not resolved.", []string{"kind"}, nil),
	}
}

// methods bound the label: what a client sends may be any word.
var methods = []string{"GET", "HEAD", "POST"}

func (m *metrics) served(route, method string, code int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = "other"
	}
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.requests.Describe(to)
	m.build.Describe(to)
	for _, d := range []*prometheus.Desc{m.pending, m.waiting, m.oldest, m.dead, m.open} {
		to <- d
	}
}

// Collect implements prometheus.Collector. A ledger that does not answer leaves
// its figures out: an old figure would look like a good one.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.requests.Collect(to)
	m.build.Collect(to)
	stats, ok := m.look()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var inbox store.QueueStats
	for _, q := range stats.Queues {
		if q.Queue == store.QueueInbox {
			inbox = q
		}
	}
	gauge(m.pending, float64(inbox.Pending))
	gauge(m.waiting, float64(inbox.Waiting))
	if !inbox.Oldest.IsZero() && inbox.Pending > 0 {
		gauge(m.oldest, float64(inbox.Oldest.UnixMicro())/1e6)
	}
	gauge(m.dead, float64(stats.DeadEntries), "inbox")
	gauge(m.dead, float64(stats.DeadMessages), "outbox")
	for _, kind := range slices.Sorted(maps.Keys(stats.OpenExceptions)) {
		gauge(m.open, float64(stats.OpenExceptions[kind]), kind)
	}
}

func (m *metrics) look() (store.Stats, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if age := now.Sub(m.read); m.usable && age >= 0 && age < statsCacheFor {
		return m.stats, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsWithin)
	defer cancel()
	stats, err := m.store.Stats(ctx)
	if err != nil {
		m.logger.Warn("figures of the ledger not read", slog.String("error", err.Error()))
		m.usable = false
		return store.Stats{}, false
	}
	m.stats, m.read, m.usable = stats, now, true
	return stats, true
}

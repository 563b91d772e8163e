package outbox

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unavez/unavez/store"
)

func TestPauseAndResume(t *testing.T) {
	b := newBench(t)
	paused, other := newShop(t, takesAll), newShop(t, takesAll)
	r, _ := b.start(b.options(), paused.destination("paused"), other.destination("other"))
	elsewhere, err := New(b.store, []Destination{paused.destination("paused")}, b.options())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := elsewhere.Pause(t.Context(), "paused", "ana", "moving house"); err != nil {
			t.Fatal(err)
		}
	}
	b.looked() // a claim that had begun before the pause is over
	held := b.put("paused", "pay_1", "1", "2")
	b.await("the other has its own", b.is(store.MessageDelivered, b.put("other", "pay_1", "3")...))
	b.looked()
	if n := len(paused.all()); n != 0 {
		t.Errorf("%d requests while paused", n)
	}
	states, err := r.States(t.Context())
	if err != nil || len(states) != 2 || states[0].Name != "other" || states[0].Paused || !states[1].Paused {
		t.Errorf("%+v, %v", states, err)
	}
	if err := elsewhere.Resume(t.Context(), "paused", "eva", "there"); err != nil {
		t.Fatal(err)
	}
	b.await("all are delivered", b.is(store.MessageDelivered, held...))
	chain := view(b, func(r store.Reader) ([]store.AuditRow, error) { return r.AuditChain(t.Context(), "destination.paused") })
	var did []string
	for _, row := range chain {
		did = append(did, row.Actor+" "+row.Action+" "+string(row.Detail))
	}
	if want := []string{
		`ana destination.paused {"reason":"moving house"}`, `ana destination.paused {"reason":"moving house"}`,
		`eva destination.resumed {"reason":"there"}`,
	}; !slices.Equal(did, want) {
		t.Errorf("audit %q", did)
	}
	for name, err := range map[string]error{
		"pause":  r.Pause(t.Context(), "nobody", "ana", "why"),
		"resume": r.Resume(t.Context(), "nobody", "ana", "why"),
		"test":   func() error { _, err := r.Test(t.Context(), "nobody", "ana"); return err }(),
	} {
		if !errors.Is(err, ErrDestination) {
			t.Errorf("%s of an unknown destination: %v", name, err)
		}
	}
	if err := r.Pause(t.Context(), "paused", "", "why"); !errors.Is(err, ErrWho) {
		t.Errorf("paused by nobody: %v", err)
	}
}

func TestGone(t *testing.T) {
	b := newBench(t)
	var back atomic.Bool
	s := newShop(t, func(hit, int) int {
		if back.Load() {
			return http.StatusOK
		}
		return http.StatusGone
	})
	id := b.put("shop", "pay_1", "x")[0]
	r, _ := b.start(b.options(), s.destination("shop"))
	b.await("it is dead", b.is(store.MessageDead, id))
	states, err := r.States(t.Context())
	if err != nil || !states[0].GoneAt.Equal(b.clock.Now()) || len(s.all()) != 1 {
		t.Errorf("%+v, %v after %d requests", states, err, len(s.all()))
	}
	if got := b.exceptions(id); !slices.Equal(got, []string{"dead_letter destination_gone open"}) {
		t.Errorf("exceptions %q", got)
	}
	back.Store(true)
	if err := r.Resume(t.Context(), "shop", "ana", "back"); err != nil {
		t.Fatal(err)
	}
	if states, err = r.States(t.Context()); err != nil || !states[0].GoneAt.IsZero() {
		t.Errorf("%+v, %v", states, err)
	}
	if err := r.Retry(t.Context(), id, "ana", "back"); err != nil {
		t.Fatal(err)
	}
	b.await("it is delivered", b.is(store.MessageDelivered, id))
}

func TestTestMessage(t *testing.T) {
	b := newBench(t)
	s := newShop(t, takesAll)
	d := s.destination("shop")
	d.Types = []string{"refund.*"}
	r, _ := b.start(b.options(), d)
	id, err := r.Test(t.Context(), "shop", "ana")
	if err != nil {
		t.Fatal(err)
	}
	b.await("it is delivered", b.is(store.MessageDelivered, id))
	h := s.all()[0]
	want := `{"id":"` + id + `","type":"destination.test","sequence":1,"created_at":"2026-03-01T12:00:00Z","data":{"destination":"shop"}}`
	if h.id != id || h.body != want || !verified(h, []byte(textSecret)) {
		t.Errorf("%+v, want %s", h, want)
	}
}

// A message whose destination is no longer configured waits, and cannot be
// retried into nowhere.
func TestRetryOfARemovedDestination(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(hit, int) int { return http.StatusGone })
	id := b.put("old", "pay_1", "x")[0]
	_, stop := b.start(b.options(), s.destination("old"))
	b.await("it is dead", b.is(store.MessageDead, id))
	stop()
	r, _ := b.start(b.options(), s.destination("new"))
	if err := r.Retry(t.Context(), id, "ana", "why"); !errors.Is(err, ErrDestination) {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	b := newBench(t)
	s := newShop(t, func(h hit, nth int) int {
		switch h.body {
		case "bad":
			return http.StatusGone
		case "late":
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	r, _ := b.start(b.options(), s.destination("shop"), s.destination("idle"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Collectors()...)
	good, bad, late := b.put("shop", "pay_1", "good"), b.put("shop", "pay_2", "bad"), b.put("shop", "pay_3", "late")
	b.await("they are judged", func() bool {
		return b.is(store.MessageDelivered, good...)() && b.is(store.MessageDead, bad...)() && len(b.attempts(late[0])) == 1
	})
	if err := r.Pause(t.Context(), "idle", "ana", "why"); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"unavez_deliveries_total code_class=2xx destination=shop outcome=delivered":          1,
		"unavez_deliveries_total code_class=4xx destination=shop outcome=refused":            1,
		"unavez_deliveries_total code_class=5xx destination=shop outcome=refused":            1,
		"unavez_delivery_duration_seconds code_class=2xx destination=shop outcome=delivered": 1,
		"unavez_delivery_lag_seconds destination=shop":                                       1,
		"unavez_messages_stopped_total destination=shop state=dead":                          1,
		"unavez_outbox_pending destination=shop":                                             1,
		"unavez_outbox_pending destination=idle":                                             0,
		"unavez_outbox_oldest_pending_timestamp_seconds destination=shop":                    float64(b.clock.Now().Unix()),
		"unavez_outbox_held destination=shop":                                                0,
		"unavez_outbox_held destination=idle":                                                1,
		"unavez_destination_breaker destination=shop":                                        0,
	}
	b.await("the attempts are counted", func() bool {
		return gather(t, registry)["unavez_deliveries_total code_class=5xx destination=shop outcome=refused"] == 1
	})
	got := gather(t, registry)
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %v (%t), want %v", name, v, ok, value)
		}
	}
}

// gather returns the value of each metric, the count of a histogram.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			values[strings.Join(name, " ")] = value
		}
	}
	return values
}

package apply_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// R2.2, R6.6: an applier that stands still past its lease, wherever in its step,
// and goes on when another has done its work, changes nothing and tells nothing
// again.
func TestLapsedLease(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, s store.Store) {
		var places []storetest.Rule
		for nth := range 4 {
			places = append(places, storetest.Rule{Call: storetest.CallBegin, Nth: nth + 1})
		}
		if t.Name() == "TestLapsedLease/postgres" { // a transaction of SQLite lets no other begin
			for _, call := range callsOfStep {
				places = append(places, storetest.Rule{Call: call, Nth: 1})
			}
		}
		for run, place := range places {
			lapsed(t, s, run, place)
		}
	})
}

func lapsed(t *testing.T, s store.Store, run int, place storetest.Rule) {
	t.Helper()
	var other sync.WaitGroup
	f := storetest.NewFault(s)
	slow, quick := newHouse(t, lapsing{f}, nil), newHouse(t, s, nil)
	r := suffixed(run)
	p := quick.register(r)
	names := func(e string) string { return e + "_r" + itoa(run) }
	ids := quick.put(account, captured(names("evt_1"), names("pi_1"), eur(100)),
		refunded(names("evt_2"), names("pi_1"), names("re_1"), payment.StageSucceeded, eur(40)),
		captured(names("evt_3"), names("pi_other"), eur(100)))
	quick.putRows([]store.EntryWithBody{quick.raw(account, captured(names("evt_4"), "x", eur(1)), []byte("panic"))})
	place.Do = func() {
		done := make(chan struct{})
		other.Go(func() { defer close(done); quick.applier.WorkOnce(context.Background()) })
		select {
		case <-done:
		case <-time.After(blockedAfter):
		}
	}
	f.Arm(place)
	slow.applier.WorkOnce(context.Background())
	other.Wait()
	f.Arm()
	for range 50 {
		if !slow.applier.WorkOnce(context.Background()) {
			break
		}
	}
	for i, want := range []string{store.EntryProcessed, store.EntryProcessed, store.EntryWaiting} {
		quick.expect(place.Call, quick.event(ids[i]).State, want)
	}
	quick.expectState(p.ID, payment.StatePartiallyRefunded)
	got := quick.ofOrder(r.Order, "order.fulfill", "payment.captured", "refund.succeeded")
	if !slices.Equal(got, []string{"order.fulfill", "payment.captured", "refund.succeeded"}) {
		t.Errorf("%s %d: told %v", place.Call, place.Nth, got)
	}
	quick.intact(p.ID)
}

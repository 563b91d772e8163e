package apply_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// deadly ends the goroutine that parses the payload, as a crash ends a process:
// nothing is recovered and no result is written.
type deadly struct{ plain }

func (d deadly) Parse(acc *provider.Account, raw []byte) (provider.Event, error) {
	if string(raw) == "deadly" {
		runtime.Goexit()
	}
	return d.plain.Parse(acc, raw)
}

// lives runs one look through the queues that may not come back.
func (h *house) lives() (some bool) {
	var wg sync.WaitGroup
	some = true
	wg.Go(func() { some = h.applier.WorkOnce(context.Background()) })
	wg.Wait()
	return some
}

// R6.3: an entry that ends its worker each time is in the dead letters after the
// configured solo runs, and its neighbors are applied.
func TestEntryThatEndsItsWorker(t *testing.T) {
	eachBackend(t, func(t *testing.T, s store.Store) {
		h := newHouse(t, lapsing{s}, func(o *apply.Options) { o.Accounts[account].Adapter = deadly{plain{payment.FormTotal}} })
		p := h.order48("pi_1")
		bad := h.raw(account, provider.Event{Identity: "evt_bad", Type: "x"}, []byte("deadly"))
		ids := h.putRows([]store.EntryWithBody{bad, h.entry(account, captured("evt_1", "pi_1", eur(4800)))})
		for range 20 {
			if !h.lives() {
				break
			}
		}
		h.expectState(p.ID, payment.StateCaptured)
		e := h.event(ids[0])
		h.expect("deadly", e.State+" "+itoa(e.Result.Attempts), "dead 3")
		h.expect("open", h.open(), []string{"dead_letter/dead_letter"})
		h.expect("fulfilled", h.messages("order.fulfill"), []string{"order.fulfill"})
	})
}

// R6.1: only failures of its own bring an entry nearer to the dead letters: what
// ended in waiting begins anew, and a busy or full ledger is nobody's fault.
func TestAttemptsCountOwnFailuresOnly(t *testing.T) {
	eachBackend(t, func(t *testing.T, s store.Store) {
		f := storetest.NewFault(s)
		h := newHouse(t, f, nil)
		entry := h.put(account, captured("evt_1", "pi_1", eur(4800)))[0]
		for _, err := range []error{store.ErrBusy, store.ErrFull, store.ErrCommitUnknown, store.ErrUnavailable} {
			for range 3 {
				f.Arm(storetest.Rule{Call: "Owners", Err: err})
				h.applier.WorkOnce(t.Context())
				f.Arm()
				h.expect(err.Error(), h.event(entry).WorkAttempts, 0)
			}
		}
		for range 3 {
			// Beside a poison everything is tried alone, with success or to wait.
			h.putRows([]store.EntryWithBody{h.raw(account, provider.Event{Identity: "evt_bad" + itoa(h.clock().Nanosecond()), Type: "x"}, []byte("{"))})
			h.redue([]string{entry})
			h.applier.WorkOnce(t.Context())
			e := h.event(entry)
			h.expect("waits", e.State+" "+itoa(e.WorkAttempts), "waiting 0")
			h.advance(1)
		}
		p := h.order48("pi_1")
		h.work()
		h.expectState(p.ID, payment.StateCaptured)
	})
}

// R2.9: an event that could not be read when it came is of the scope that it
// states, once it can be.
func TestRedrivenMalformedKeepsItsScope(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		test := captured("evt_1", "pi_1", eur(4800))
		test.Mode = provider.Test
		row := h.entry(account, test)
		row.Scope.Mode, row.Malformed = string(provider.Live), true
		ids := h.putRows([]store.EntryWithBody{row})
		h.work()
		h.expect("outcome", h.event(ids[0]).Outcome, store.OutcomeContradiction)
		h.expectState(p.ID, payment.StateExpected)
	})
}

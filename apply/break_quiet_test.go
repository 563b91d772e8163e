package apply_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/internal/backoff"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// judged makes the payment's quiet conditions due now, as time would, and judges them.
func (h *house) judged(payment string) {
	h.t.Helper()
	err := h.store.InTx(h.t.Context(), store.TxOptions{}, func(tx store.Tx) error {
		return tx.Enqueue(h.t.Context(), []store.Work{{Queue: store.QueueQuiet, ID: payment, Lane: payment}})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.work()
}

// A payment that cannot be judged is put back with a pause, not looked at again
// at once, and is judged when the trouble is over.
func TestQuietTrouble(t *testing.T) {
	eachBackend(t, func(t *testing.T, s store.Store) {
		f := storetest.NewFault(s)
		h := newHouse(t, f, func(o *apply.Options) { o.Backoff = backoff.Policy{Base: time.Hour, Cap: 10 * time.Hour, Attempts: 3} })
		p := h.order48("pi_1")
		h.put1(refunded("evt_1", "pi_1", "re_1", payment.StageSucceeded, eur(10)))
		h.advance(2 * time.Hour)
		f.Arm(storetest.Rule{Call: "ConditionsOf", Err: errors.New("broken")})
		h.judged(p.ID)
		h.expect("tried once", f.Fired(), 1)
		f.Arm()
		h.judged(p.ID)
		h.expect("opened", h.open(), []string{"contradiction/returned_exceeds_captured"})
	})
}

// G6: the last day's limit of one quiet condition does not open another that
// has only begun to hold.
func TestQuietConditionsEachForItself(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		h.put1(refunded("evt_1", "pi_1", "re_1", payment.StageSucceeded, eur(10)))
		h.advance(25*time.Hour - time.Minute)
		h.put1(event("evt_2", []string{"pi_1"}, captureTotal("pi_1", eur(5))))
		h.judged(p.ID)
		h.expect("the old one", h.open(), []string{"contradiction/returned_exceeds_captured"})
		h.advance(time.Hour)
		h.judged(p.ID)
		h.expect("both", h.states(), []string{"capture_without_authorization=open", "returned_exceeds_captured=open"})
	})
}

// A quiet condition that a person resolved stays resolved for what it showed,
// and is quiet for a while again when new facts show it.
func TestQuietResolved(t *testing.T) {
	eachStore(t, func(t *testing.T, h *house) {
		p := h.order48("pi_1")
		h.put1(refunded("evt_1", "pi_1", "re_1", payment.StageSucceeded, eur(10)))
		h.advance(2 * time.Hour)
		h.judged(p.ID)
		h.closeAs("returned_exceeds_captured")
		h.put1(failedAttempt("evt_2", "pi_1", "ch_0"))
		h.advance(2 * time.Hour)
		h.judged(p.ID)
		h.expect("nothing new", h.states(), []string{"returned_exceeds_captured=resolved"})
		h.put1(refunded("evt_3", "pi_1", "re_2", payment.StageSucceeded, eur(10)))
		h.expect("early", h.states(), []string{"returned_exceeds_captured=resolved"})
		h.advance(2 * time.Hour)
		h.judged(p.ID)
		h.expect("after the quiet period", h.states(), []string{"returned_exceeds_captured=open"})
		h.put1(captured("evt_4", "pi_1", eur(4800)))
		h.expect("completed", h.states(), []string{"returned_exceeds_captured=explained"})
		h.put1(refunded("evt_5", "pi_1", "re_3", payment.StageSucceeded, eur(4790)))
		h.expect("early again", h.states(), []string{"returned_exceeds_captured=explained"})
		h.advance(2 * time.Hour)
		h.judged(p.ID)
		h.expect("reopened", h.states(), []string{"returned_exceeds_captured=open"})
	})
}

// A quiet period begins by itself with the facts that show the condition.
func TestQuietBeginsByItself(t *testing.T) {
	eachBackend(t, func(t *testing.T, s store.Store) {
		var h *house
		h = newHouse(t, s, func(o *apply.Options) {
			o.Accounts[account].Quiet = time.Microsecond
			now := o.Now
			o.Now = func() time.Time { h.advance(time.Millisecond); return now() }
		})
		h.order48("pi_1")
		h.put(account, refunded("evt_1", "pi_1", "re_1", payment.StageSucceeded, eur(10)))
		h.until(func() bool {
			h.work()
			return slices.Equal(h.open(), []string{"contradiction/returned_exceeds_captured"})
		})
	})
}

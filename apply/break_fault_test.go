package apply_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// struck is one run of the same story on a ledger of which one call fails.
type struck struct {
	h       *house
	plain   *house
	fault   *storetest.Fault
	run     int
	payment string
	entries []string
}

// R2.1, R6.6: whichever call of a step, of a registration, of a dead letter or
// of settling the work fails once, before or after it was done, the end is that
// of a run without failures, and everything is told once.
func TestEveryCallFailsOnce(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, s store.Store) {
		run, want := 0, ""
		try := func(what string, rule storetest.Rule) bool {
			run++
			k := newStruck(t, s, run)
			k.fault.Arm(rule)
			k.story()
			met := k.fault.Fired() > 0
			k.fault.Arm()
			k.drive()
			got := k.end()
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s: the run ends in\n%s\nnot\n%s", what, got, want)
			}
			return met
		}
		try("no failure", storetest.Rule{Call: "none"})
		broken := errors.New("broken")
		for _, c := range []struct {
			call  string
			err   error
			after bool
		}{
			{storetest.CallAny, broken, false},
			{storetest.CallAny, store.ErrUnavailable, true},
			{storetest.CallBegin, store.ErrUnavailable, false},
			{storetest.CallCommit, store.ErrCommitUnknown, false},
			{storetest.CallCommit, store.ErrCommitUnknown, true},
			{storetest.CallCommit, store.ErrUnavailable, false},
			{storetest.CallClaim, store.ErrUnavailable, true},
		} {
			for nth := 1; ; nth++ {
				what := fmt.Sprintf("%s %d, after=%t: %v", c.call, nth, c.after, c.err)
				if !try(what, storetest.Rule{Call: c.call, Nth: nth, After: c.after, Err: c.err}) {
					break
				}
			}
		}
		t.Logf("%d runs, each ending in\n%s", run, want)
	})
}

func newStruck(t *testing.T, s store.Store, run int) *struck {
	f := storetest.NewFault(s)
	h := newHouse(t, lapsing{f}, nil)
	return &struck{h: h, plain: newHouse(t, s, nil), fault: f, run: run}
}

// put stores events without failures.
func (k *struck) put(events ...provider.Event) {
	for _, e := range events {
		e = renamed(e, k.run)
		e.Order = strings.Replace(e.Order, "O", "O_r"+itoa(k.run), 1)
		k.entries = append(k.entries, k.plain.put(account, e)...)
	}
}

// story is everything that apply does: evidence that waits under a name and
// under an order, a registration that wakes it, a link that wakes more, a second
// payment too much, a dead letter, and a failure after success.
func (k *struck) story() {
	auth := authorization("pi_1", payment.StageAuthorized, eur(100))
	early := event("evt_cap", []string{"pi_1", "cap_1"}, auth, captureItem("cap_1", "pi_1", payment.StageSucceeded, eur(100)), captureTotal("pi_1", eur(100)))
	early.Order = "O"
	k.put(early, refunded("evt_re", "ch_1", "re_1", payment.StageSucceeded, eur(30)))
	k.drive()
	k.register(suffixed(k.run))
	k.drive()
	bad := k.plain.raw(account, provider.Event{Identity: "evt_bad_r" + itoa(k.run), Type: "x"}, []byte("{"))
	k.entries = append(k.entries, k.plain.putRows([]store.EntryWithBody{bad})...)
	k.put(event("evt_link", []string{"ch_1", "pi_1"}, payment.Fact{Kind: payment.KindLink, Object: "ch_1", Parent: "pi_1"}))
	k.drive()
	second := suffixed(k.run)
	second.References = []string{"pi_2_r" + itoa(k.run)}
	k.register(second)
	k.put(captured("evt_2", "pi_2", eur(100)))
	k.drive()
	k.put(refunded("evt_ref", "pi_1", "re_1", payment.StageFailed, eur(30)))
	k.drive()
}

// register registers until it is answered, as a merchant does.
func (k *struck) register(r apply.Registration) {
	var err error
	for range 5 {
		var got apply.Registered
		if got, err = k.h.applier.Register(context.Background(), r, "tester"); err == nil {
			if k.payment == "" {
				k.payment = got.Payment.ID
			}
			return
		}
	}
	k.h.t.Fatalf("registering: %v", err)
}

// drive works until nothing is due; a look that failed does not count as empty.
func (k *struck) drive() {
	for idle := 0; idle < 2; {
		before := k.fault.Fired()
		if k.h.applier.WorkOnce(context.Background()) || k.fault.Fired() > before {
			idle = 0
		} else {
			idle++
		}
	}
}

// end is everything that a failure must not change.
func (k *struck) end() string {
	h, ctx := k.plain, context.Background()
	p := h.payment(k.payment)
	h.intact(p.ID)
	h.intact(h.order(p.Order.ID).ID)
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	h.view(func(r store.Reader) error {
		effects, err := r.Effects(ctx, []string{p.ID, h.order(p.Order.ID).ID})
		for _, e := range effects {
			add("effect %s %s", e.Key, e.Decision)
		}
		return err
	})
	for _, id := range k.entries {
		e := h.event(id)
		add("event %s %s %s", e.Identity, e.State, e.Outcome)
	}
	order := map[string]string{"order": p.Order.ID}
	h.view(func(r store.Reader) error {
		messages, err := r.Messages(ctx, store.List{Where: order, Limit: 100})
		for _, m := range messages {
			add("message %s", m.Type)
		}
		return err
	})
	h.view(func(r store.Reader) error {
		list, err := r.Exceptions(ctx, store.List{Where: order, Limit: 100})
		dead, err2 := r.Exceptions(ctx, store.List{Where: map[string]string{"provider_event_id": "evt_bad_r" + itoa(k.run)}, Limit: 100})
		for _, e := range append(list, dead...) {
			add("exception %s %s %v", e.Reason, e.State, e.Amount)
		}
		return errors.Join(err, err2)
	})
	slices.Sort(lines)
	add("%s %+v %s", p.View.State, p.View.Totals, h.order(p.Order.ID).Fulfillment)
	return strings.ReplaceAll(strings.Join(lines, "\n"), "_r"+itoa(k.run), "")
}

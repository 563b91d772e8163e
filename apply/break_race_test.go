package apply_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
	"github.com/unavez/unavez/store/storetest"
)

// blockedAfter is how long the other side may run while one side stands still.
// If it is not done by then it waits for a lock, or is slow; both are allowed.
const blockedAfter = 30 * time.Millisecond

// callsOfStep are the places before which either side is made to stand still;
// what follows one is what comes before the next.
var callsOfStep = []string{
	"Owners", "PaymentsOfOrders", "Payment", "OrderKeysOf", "OwnersAnywhere", "UpsertOrder", "LockOrders", "LockPayments",
	"InsertPayment", "Bind", "Facts", "Effects", "ConditionsOf", "Save", "Wait", "WakeWaiting", "Complete", "Postpone",
	storetest.CallCommit,
}

// R2.10: wherever a registration commits during a step, or a step during a
// registration, the payment gets its money and the order is told once.
func TestRegistrationDuringStep(t *testing.T) {
	t.Parallel()
	s := openPostgres(t)
	run := 0
	for _, acc := range []string{account, "adopting"} {
		for _, byOrder := range []bool{false, true} {
			for _, pausesStep := range []bool{true, false} {
				for _, call := range callsOfStep {
					run++
					name := fmt.Sprintf("%s byOrder=%t pausesStep=%t %s", acc, byOrder, pausesStep, call)
					raced(t, s, name, run, acc, byOrder, pausesStep, storetest.Rule{Call: call, Nth: 1})
				}
			}
		}
	}
}

func raced(t *testing.T, s store.Store, name string, run int, acc string, byOrder, pausesStep bool, rule storetest.Rule) {
	t.Helper()
	var other sync.WaitGroup
	defer other.Wait()
	f := storetest.NewFault(s)
	slow, quick := newHouse(t, f, nil), newHouse(t, s, nil)
	order, line := "O"+itoa(run), "pi_"+itoa(run)
	r := apply.Registration{Order: order, Account: acc, Amount: eur(100), References: []string{line}}
	if byOrder {
		r.References = nil
	}
	e := captured("evt_"+itoa(run), line, eur(100))
	e.Order = order
	entry := quick.put(acc, e)[0]
	register := func(h *house) {
		if _, err := h.applier.Register(context.Background(), r, "tester"); err != nil {
			t.Errorf("%s: registering: %v", name, err)
		}
	}
	work := func(h *house) { h.applier.WorkOnce(context.Background()) }
	first, second := work, register
	if !pausesStep {
		first, second = register, work
	}
	rule.Do = func() {
		done := make(chan struct{})
		other.Go(func() { defer close(done); second(quick) })
		select {
		case <-done:
		case <-time.After(blockedAfter):
		}
	}
	f.Arm(rule)
	first(slow)
	other.Wait()
	if f.Fired() == 0 {
		second(quick)
	}
	f.Arm()
	quick.work()
	status := quick.event(entry)
	if status.State != store.EntryProcessed || status.Outcome != store.OutcomeApplied {
		t.Errorf("%s: the event is %s %s", name, status.State, status.Outcome)
		return
	}
	p := quick.payment(status.Result.Payment)
	if p.Adopted || p.View.State != payment.StateCaptured || quick.order(order).Fulfillment != store.FulfillSent {
		t.Errorf("%s: adopted %t, %s, order %s", name, p.Adopted, p.View.State, quick.order(order).Fulfillment)
	}
	if got := quick.ofOrder(order, "order.fulfill", "payment.captured"); !slices.Equal(got, []string{"order.fulfill", "payment.captured"}) {
		t.Errorf("%s: told %v", name, got)
	}
}

// ofOrder returns the sorted types of the order's messages of these kinds.
func (h *house) ofOrder(order string, kinds ...string) (types []string) {
	h.t.Helper()
	h.view(func(r store.Reader) error {
		list, err := r.Messages(context.Background(), store.List{Where: map[string]string{"order": order}, Limit: 100})
		for _, m := range list {
			if slices.Contains(kinds, m.Type) {
				types = append(types, m.Type)
			}
		}
		return err
	})
	slices.Sort(types)
	return types
}

package payment

import (
	"fmt"
	"slices"
	"testing"
)

// lifecycle is a payment of 100: authorized, captured in two parts, refunded
// twice, a third refund that failed (known by its failure alone: its acceptance
// would be a ninth fact), and a dispute that is opened and won.
func lifecycle(items bool) []Fact {
	first, second := capTotal("pi_1", 60), capTotal("pi_1", 100)
	if items {
		first, second = capItem("cap_1", "pi_1", StageSucceeded, 60), capItem("cap_2", "pi_1", StageSucceeded, 40)
	}
	return []Fact{
		authItem("pi_1", 100),
		first,
		second,
		refund("re_1", "pi_1", StageSucceeded, 30),
		refund("re_2", "pi_1", StageSucceeded, 20),
		refund("re_3", "pi_1", StageFailed, 10),
		disputed("dp_1", "pi_1", 1, StageOpen, 40),
		disputed("dp_1", "pi_1", 1, StageWon, 40),
	}
}

// R2.4 R2.5: all 40,320 orders of a lifecycle of eight facts, without any time
// stamp to help, each also with every fact doubled where it stands and all of
// them replayed at the end. The orders are walked as a tree, so that every
// order's every step is checked once.
func TestEveryOrderOfALifecycle(t *testing.T) {
	for _, items := range []bool{false, true} {
		for first := range 8 {
			t.Run(fmt.Sprintf("items=%t/first=%d", items, first), func(t *testing.T) {
				t.Parallel()
				r := registered()
				if items {
					r.CaptureSpeaks = FormItem
				}
				facts := lifecycle(items)
				w := walk{t: t, facts: facts, want: truthOf(t, r, facts)}
				wantState(t, w.want.view, StatePartiallyRefunded)
				wantTotals(t, w.want.view, Totals{Authorized: 100, Captured: 100, Refunded: 50})
				wantConditions(t, w.want.view, "failure_without_acceptance re_3")
				w.down(newSim(t, r), newSim(t, r), 1<<first, first)
				if w.leaves != 5040 {
					t.Fatalf("%d orders from this first fact, want 5040", w.leaves)
				}
			})
		}
	}
}

type walk struct {
	t      *testing.T
	facts  []Fact
	want   *truth
	leaves int
}

// down takes fact next on a plain and on a doubled ledger and goes on with
// every fact that is not used.
func (w *walk) down(plain, doubled *sim, used, next int) {
	plain, doubled = plain.clone(), doubled.clone()
	plain.step(w.facts[next])
	doubled.step(w.facts[next])
	told, orders := len(doubled.told), len(doubled.orders)
	doubled.step(w.facts[next])
	if len(doubled.told) != told || len(doubled.orders) != orders {
		w.t.Fatalf("R2.5: a repeated fact has an effect")
	}
	if used == 1<<len(w.facts)-1 {
		w.leaf(plain, doubled)
		return
	}
	for i := range w.facts {
		if used&(1<<i) == 0 {
			w.down(plain, doubled, used|1<<i, i)
		}
	}
}

func (w *walk) leaf(plain, doubled *sim) {
	w.leaves++
	plain.finishAs(w.want)
	replay := slices.Clone(w.facts)
	slices.Reverse(replay)
	doubled.step(replay...)
	doubled.finishAs(w.want)
	if !slices.EqualFunc(plain.told, doubled.told, func(a, b Notification) bool { return a.Key() == b.Key() }) {
		w.t.Fatalf("R2.5: repetition changes what is told: %v, %v", keysOf(plain.told), keysOf(doubled.told))
	}
	if !slices.Equal(plain.orders, []string{MessageFulfill}) || !slices.Equal(doubled.orders, plain.orders) {
		w.t.Fatalf("R2.3: the order was told %q and %q", plain.orders, doubled.orders)
	}
}

func keysOf(ns []Notification) []string {
	var out []string
	for _, n := range ns {
		out = append(out, n.Key())
	}
	return out
}

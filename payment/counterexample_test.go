package payment

import (
	"slices"
	"testing"
)

// settle runs facts step by step in every order, or many, checks the guarantees
// each time, and returns the ledgers.
func settleEvery(t failer, r Record, facts ...Fact) []*sim {
	t.Helper()
	want := truthOf(t, r, facts)
	var out []*sim
	permute(slices.Clone(facts), 0, func(order []Fact) {
		s := newSim(t, r)
		for _, f := range order {
			s.step(f)
			s.step(f)
		}
		s.finishAs(want)
		out = append(out, s)
	})
	return out
}

// neverTold fails if any run told a message.
func neverTold(t failer, runs []*sim, messages ...string) {
	t.Helper()
	for _, s := range runs {
		for _, n := range s.told {
			if slices.Contains(messages, n.Type) {
				t.Fatalf("%s was told, %q", n.Type, keysOf(s.told))
			}
		}
		for _, m := range s.orders {
			if slices.Contains(messages, m) {
				t.Fatalf("%s was told, %q", m, s.orders)
			}
		}
	}
}

// alwaysTold fails if some run did not tell a notification once.
func alwaysTold(t failer, runs []*sim, keys ...string) {
	t.Helper()
	for _, s := range runs {
		for _, k := range keys {
			if !slices.Contains(keysOf(s.told), k) {
				t.Fatalf("%s was not told, %q", k, keysOf(s.told))
			}
		}
	}
}

// R2.5: the counter-examples that the rules of the model came from.
func TestCounterExamples(t *testing.T) {
	for _, c := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"conservation clamps and never rejects", func(t *testing.T) {
			v := settleEvery(t, registered(), authTotal("pi_1", 100), capTotal("pi_1", 100),
				refund("re_1", "pi_1", StageSucceeded, 30), refund("re_2", "pi_1", StageSucceeded, 30),
				refTotal("pi_1", 60), refTotal("pi_1", 100))[0].view
			wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 100})
			wantConditions(t, v, "total_without_items pi_1")
		}},
		{"smallest in, largest out", func(t *testing.T) {
			v := settleEvery(t, byItem(), authItem("p", 100), capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StageSucceeded, 90),
				refund("r", "p", StageSucceeded, 30), refund("r", "p", StageSucceeded, 40))[0].view
			wantTotals(t, v, Totals{Authorized: 100, Captured: 90, Refunded: 40})
			wantConditions(t, v, "contested c", "contested r")
		}},
		{"totals are explained by items", func(t *testing.T) {
			v := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 100), refund("kept", "p", StageSucceeded, 30),
				refund("lost", "p", StageSucceeded, 40), refund("lost", "p", StageFailed, 40), refTotal("p", 70))[0].view
			wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 30})
			wantConditions(t, v)
		}},
		{"primary names for money in", func(t *testing.T) {
			runs := settleEvery(t, registered(), authTotal("pi", 100), capTotal("pi", 50), Link("ch", "pi"),
				attempt("ch", "pi", StagePending), refund("r", "ch", StageSucceeded, 10))
			neverTold(t, runs, MessageFulfill, MessageRevoke)
			wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 50, Refunded: 10})
		}},
		{"money speaks only for recognized lines", func(t *testing.T) {
			runs := settleEvery(t, registered(), capTotal("p", 150), authTotal("p", 150))
			neverTold(t, runs, MessageFulfill, MessageRevoke, MessageCaptured)
			wantConditions(t, runs[0].view, "amount p", "over_captured")
			wantState(t, runs[0].view, StateCaptured)
		}},
		{"identities use names in facts", func(t *testing.T) {
			runs := settleEvery(t, byItem(), authItem("z_line", 90), Link("a_name", "z_line"), capItem("c", "z_line", StageSucceeded, 90))
			wantConditions(t, runs[0].view, "amount z_line")
		}},
		{"only a completed direct capture implies an authorization", func(t *testing.T) {
			// The reversal brings none, so that the line stays as it was.
			runs := settleEvery(t, byItem(), authItem("o", 100), closing("o", StageCompleted), capItem("c", "o", StageSucceeded, 100), reversal("c", 40))
			wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100, Lost: 40})
			wantConditions(t, runs[0].view)
		}},
		{"a refused capture counts as failure, a direct capture closes its line", func(t *testing.T) {
			pending := settleEvery(t, byItem(), capItem("c", "o", StagePending, 100), capItem("c", "o", StageRefused, 100))
			wantState(t, pending[0].view, StateFailed)
			both := settleEvery(t, byItem(), authItem("o", 100), closing("o", StageCompleted),
				capItem("c", "o", StageSucceeded, 100), capItem("c", "o", StageRefused, 100))
			wantState(t, both[0].view, StateFailed)
			wantConditions(t, both[0].view, "flip c")
		}},
		{"attempts have their own id", func(t *testing.T) {
			runs := settleEvery(t, registered(), attempt("ch_1", "pi", StageFailed), attempt("ch_2", "pi", StagePending))
			wantState(t, runs[0].view, StatePending)
			without := settleEvery(t, registered(), attempt("pi", "", StageFailed), attempt("pi", "", StagePending))
			wantState(t, without[0].view, StateFailed)
			hidden := settleEvery(t, registered(), attempt("ch_1", "pi", StageFailed), attempt("pi", "", StagePending))
			wantState(t, hidden[0].view, StateFailed)
		}},
		{"two refunds of one amount by two operations are two", func(t *testing.T) {
			v := settleEvery(t, registered(), authItem("o", 100), capTotal("o", 100),
				of("op_1", refund("op_1", "o", StageSucceeded, 20)), of("op_2", refund("op_2", "o", StageSucceeded, 20)),
				reservation("op_1", "o", StageReserved, 20), reservation("op_2", "o", StageReserved, 20))[0].view
			wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 40})
		}},
		{"smallest per name, largest per line", func(t *testing.T) {
			v := settleEvery(t, byItem(), authItem("a", 100), authItem("a", 60), authItem("b", 80), Link("a", "b"))[0].view
			wantTotals(t, v, Totals{Authorized: 80})
			v = settleEvery(t, byItem(), authItem("a", 100), adjusted("x", "a", 70, 1), adjusted("x", "a", 75, 1), adjusted("y", "a", 90, 1))[0].view
			wantTotals(t, v, Totals{Authorized: 90})
			wantConditions(t, v, "contested x")
		}},
		{"the parent is the first recognized one", func(t *testing.T) {
			runs := settleEvery(t, registered(), authTotal("pi", 100), capTotal("pi", 100),
				refund("r", "ch", StagePending, 30), refund("r", "pi", StagePending, 30), refund("r", "ch", StageSucceeded, 30))
			alwaysTold(t, runs, "refund|r|succeeded")
			wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100, Refunded: 30})
		}},
		{"merging disputes moves totals and axis only", func(t *testing.T) {
			runs := settleEvery(t, byItem(), authItem("p", 100), capItem("c", "p", StageSucceeded, 100),
				unstated(disputed("p", "p", 1, StageLost, 0)), disputed("d1", "p", 1, StageOpen, 30), disputed("d2", "p", 1, StageOpen, 10))
			alwaysTold(t, runs, "dispute|p|1|lost", "dispute|d1|1|open", "dispute|d2|1|open")
			wantConditions(t, runs[0].view, "which_dispute p")
		}},
		{"clamps per line", func(t *testing.T) {
			r := byItem()
			r.Rule = RuleUpTo
			v := settleEvery(t, r, authItem("a", 50), capItem("ca", "a", StageSucceeded, 50), refund("ra", "a", StageSucceeded, 50),
				disputed("da", "a", 1, StageLost, 50), authItem("b", 50), capItem("cb", "b", StageSucceeded, 50))[0].view
			wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 50, Unmatched: 50})
			wantConditions(t, v, "returned_exceeds_captured")
		}},
		{"a grown authorization is recognized by any amount", func(t *testing.T) {
			runs := settleEvery(t, registered(), authTotal("pi", 100), authTotal("pi", 150), capTotal("pi", 100))
			wantConditions(t, runs[0].view)
			for _, s := range runs {
				if !slices.Equal(s.orders, []string{MessageFulfill}) {
					t.Fatalf("told %q", s.orders)
				}
			}
		}},
	} {
		t.Run(c.name, c.check)
	}
}

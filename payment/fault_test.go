package payment

import (
	"slices"
	"testing"
)

// R2.3 R2.5: cumulative refunds 30 + 30 + 40, as items, as totals, mixed, in
// every order, each fact twice, make 100.
func TestCumulativeRefunds(t *testing.T) {
	items := []Fact{refund("a", "p", StageSucceeded, 30), refund("b", "p", StageSucceeded, 30), refund("c", "p", StageSucceeded, 40)}
	totals := []Fact{refTotal("p", 30), refTotal("p", 60), refTotal("p", 100)}
	for name, set := range map[string][]Fact{
		"items": items, "totals": totals,
		"two items, last total": {items[0], items[1], totals[2]},
		"one item, two totals":  {items[2], totals[0], totals[2]},
		"last item, totals":     {items[2], totals[1], totals[2]},
		"all":                   append(slices.Clone(items), totals...),
	} {
		t.Run(name, func(t *testing.T) {
			v := foldEvery(t, registered(), append(slices.Clone(set), authTotal("p", 100), capTotal("p", 100))...)
			if v.Totals.Refunded != 100 || v.State != StateRefunded || v.Totals.Unmatched != 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// R2.4 R2.5: faults that concern facts, each in every order and doubled.
func TestFaults(t *testing.T) {
	t.Run("failed then succeeded: money wins", func(t *testing.T) {
		runs := settleEvery(t, registered(), attempt("ch_1", "p", StageFailed), closing("p", StageCompleted), authTotal("p", 100), capTotal("p", 100))
		wantState(t, runs[0].view, StateCaptured)
		alwaysTold(t, runs, "capture|p|total|100")
		for _, s := range runs {
			if !slices.Equal(s.orders, []string{MessageFulfill}) {
				t.Fatalf("told %q", s.orders)
			}
		}
	})
	t.Run("captured after a loud cancel", func(t *testing.T) {
		runs := settleEvery(t, registered(), loud("p", StageVoided), authTotal("p", 100), capTotal("p", 100))
		alwaysTold(t, runs, MessageMoneyAfterCancel)
		wantState(t, runs[0].view, StateCaptured)
	})
	t.Run("capture succeeded, then failed", func(t *testing.T) {
		runs := settleEvery(t, byItem(), authItem("p", 100), capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StageFailed, 100))
		wantState(t, runs[0].view, StateAuthorized)
		alwaysTold(t, runs, "capture|c|failed")
		for _, s := range runs {
			if last := len(s.orders) - 1; last >= 0 && s.orders[last] != MessageRevoke {
				t.Fatalf("the order was told %q", s.orders)
			}
		}
	})
	t.Run("automatic capture, then failed: its failure has a voice", func(t *testing.T) {
		runs := settleEvery(t, registered(), authItem("p", 100), capTotal("p", 100), capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StageFailed, 100))
		alwaysTold(t, runs, "capture|p|total|100", "capture|c|failed")
		if v := runs[0].view; v.Earned || v.Totals.Captured != 0 {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("a capture repeated after failure is a new life", func(t *testing.T) {
		runs := settleEvery(t, byItem(), authItem("p", 100), capItem("c", "p", StageFailed, 100), capItem("c", "p", StageSucceeded, 100), capItem("d", "p", StageSucceeded, 100))
		wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100})
		for _, s := range runs {
			if s.order.Fulfillment != FulfillmentSent {
				t.Fatalf("%q", s.orders)
			}
		}
	})
	t.Run("refund succeeded, then failed", func(t *testing.T) {
		runs := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 100), refund("r", "p", StageSucceeded, 40), refund("r", "p", StageFailed, 40))
		wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100})
		alwaysTold(t, runs, "refund|r|failed")
	})
	t.Run("own refund from answer and event counts once", func(t *testing.T) {
		answer := of("op_1", refund("r", "p", StageSucceeded, 40))
		runs := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 100), reservation("op_1", "p", StageReserved, 40),
			answer, refund("r", "p", StageSucceeded, 40))
		wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100, Refunded: 40})
		alwaysTold(t, runs, "refund|r|succeeded")
	})
	t.Run("partial capture: the rest is released, not refunded", func(t *testing.T) {
		v := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 60), closing("p", StageCompleted))[0].view
		wantTotals(t, v, Totals{Authorized: 100, Captured: 60, Released: 40})
		wantState(t, v, StatePartiallyCaptured)
	})
	t.Run("swallowed capture: the second figure of one charge counts", func(t *testing.T) {
		runs := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 60), capTotal("p", 100))
		wantTotals(t, runs[0].view, Totals{Authorized: 100, Captured: 100})
		alwaysTold(t, runs, "capture|p|total|100")
	})
	t.Run("stuck too high: 30 kept, 40 failed, total 70 is 30", func(t *testing.T) {
		v := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 100), refTotal("p", 70), refund("a", "p", StageSucceeded, 30),
			refund("b", "p", StageSucceeded, 40), refund("b", "p", StageFailed, 40))[0].view
		if v.Totals.Refunded != 30 {
			t.Errorf("refunded %d", v.Totals.Refunded)
		}
	})
	t.Run("zero and three decimals", func(t *testing.T) {
		for _, c := range []struct {
			code        string
			there, here int64
		}{{"JPY", 4800, 4800}, {"KWD", 4800, 4800}, {"ISK", 4800, 48}} {
			m, err := FromProvider(c.there, c.code, stripeUnits)
			if err != nil || m.Value != c.here {
				t.Fatalf("%s: %+v, %v", c.code, m, err)
			}
			auth, captured := authTotal("p", 0), capTotal("p", 0)
			auth.Amount, captured.Amount = m, m
			r := registered()
			r.Expected = Money{Value: c.here, Currency: c.code}
			if v := foldEvery(t, r, auth, captured); !v.Earned || v.EarnedAmount != c.here {
				t.Errorf("%s: %+v", c.code, v)
			}
		}
	})
	t.Run("both lines of one order paid: over captured", func(t *testing.T) {
		runs := settleEvery(t, registered(), authTotal("p", 100), capTotal("p", 100), authTotal("q", 100), capTotal("q", 100))
		wantConditions(t, runs[0].view, "over_captured")
		for _, s := range runs {
			if !slices.Equal(s.orders, []string{MessageFulfill}) {
				t.Fatalf("told %q", s.orders)
			}
		}
	})
}

// R2.5: reads and corrections settle what a set cannot know.
func TestReads(t *testing.T) {
	paid := []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 100)}
	refused := capItem("c", "p", StageRefused, 100)
	t.Run("a read settles a flip", func(t *testing.T) {
		read := readAs(1, capItem("c", "p", StageSucceeded, 100), paid[1], refused)
		v := foldEvery(t, byItem(), paid[0], paid[1], refused, read)
		wantConditions(t, v)
		wantTotals(t, v, Totals{Authorized: 100, Captured: 100})
		_, effects := Effects(byItem(), []Fact{paid[0], paid[1], refused, read}, nil)
		got := map[string]Decision{}
		for _, e := range effects {
			got[e.Key()] = e.Decision
		}
		if got["capture|c|succeeded"] != Send || got["capture|c|refused"] != Supersede {
			t.Errorf("%v", got)
		}
	})
	t.Run("a fact that was not covered raises it again", func(t *testing.T) {
		v := foldEvery(t, byItem(), paid[0], paid[1], refused, readAs(1, capItem("c", "p", StageSucceeded, 100), paid[1]))
		wantConditions(t, v, "flip c")
	})
	t.Run("the highest number counts, stages may go down", func(t *testing.T) {
		lost := readAs(1, disputed("m", "p", 1, StageLost, 40))
		open := readAs(2, disputed("m", "p", 1, StageOpen, 40), lost)
		v := foldEvery(t, byItem(), append(paid, lost, open)...)
		wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Open: 40})
	})
	t.Run("clear is nothing, or won once a dispute was seen", func(t *testing.T) {
		clear := func(n int64) Fact { return readAs(n, unstated(disputed("m", "p", 1, StageClear, 0))) }
		never := foldEvery(t, byItem(), append(paid, clear(1))...)
		if never.Dispute != DisputeNone || len(Notifications(byItem(), []Fact{clear(1)})) != 0 {
			t.Errorf("%+v", never)
		}
		facts := append(paid, clear(1), readAs(2, disputed("m", "p", 1, StageOpen, 40)), clear(3))
		if v := foldEvery(t, byItem(), facts...); v.Dispute != DisputeWon || v.Totals.Open != 0 {
			t.Errorf("%+v", v)
		}
		runs := settleEvery(t, byItem(), facts...)
		for _, s := range runs {
			if s.decided["dispute|m|1|won"] != Send {
				t.Errorf("%v", s.decided)
			}
		}
	})
	t.Run("a list read covers the totals of the parent", func(t *testing.T) {
		total := refTotal("p", 70)
		v := foldEvery(t, byItem(), append(paid, total, readAs(1, refund("a", "p", StageSucceeded, 30), total))...)
		wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 30})
		wantConditions(t, v)
	})
	t.Run("links are never covered", func(t *testing.T) {
		link := Link("ch", "p")
		v := foldEvery(t, byItem(), append(paid, link, readAs(1, refund("a", "ch", StageSucceeded, 30), link))...)
		wantTotals(t, v, Totals{Authorized: 100, Captured: 100, Refunded: 30})
	})
}

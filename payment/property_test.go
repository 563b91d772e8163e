package payment

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawFact draws sense and nonsense over few names, so that facts meet. Money in
// stands under primary names alone, as adapters promise; "alias" and "order" are
// other names of the lines.
func drawFact(t *rapid.T) Fact {
	line := func() string { return rapid.SampledFrom([]string{"pi_1", "pi_2"}).Draw(t, "line") }
	anyParent := func() string {
		return rapid.SampledFrom([]string{"pi_1", "pi_1", "pi_2", "alias", "order", "cap_1", "cap_2", "nowhere", ""}).Draw(t, "parent")
	}
	amount := func() int64 { return rapid.SampledFrom([]int64{100, 100, 60, 40, 30, 150, 0}).Draw(t, "amount") }
	stage := func(k Kind) Stage { return rapid.SampledFrom(Stages(k)).Draw(t, "stage") }
	id := func(prefix string) string {
		return rapid.SampledFrom([]string{prefix + "1", prefix + "2"}).Draw(t, "id")
	}
	var f Fact
	switch rapid.SampledFrom(drawn).Draw(t, "kind") {
	case "link":
		return rapid.SampledFrom([]Fact{Link("alias", "pi_1"), Link("order", "pi_2")}).Draw(t, "link")
	case "authorization":
		// A provider states the amounts of one line in one form.
		if f = authItem(line(), amount()); f.Object == "pi_1" {
			f.Form = FormTotal
		}
	case "close":
		f = closing(line(), rapid.SampledFrom(Stages(KindAuthorization)[1:]).Draw(t, "stage"))
		f.Loud = rapid.Bool().Draw(t, "loud")
		return f
	case "adjustment":
		f = adjusted(id("adj_"), line(), amount(), rapid.IntRange(0, 2).Draw(t, "version"))
	case "attempt":
		f = attempt(rapid.SampledFrom([]string{"ch_1", "ch_2", "pi_1"}).Draw(t, "id"), line(), stage(KindAttempt))
		return f
	case "capture":
		f = capItem(id("cap_"), line(), stage(KindCapture), amount())
	case "captured":
		f = capTotal(line(), amount())
	case "refund":
		f = refund(id("re_"), anyParent(), stage(KindRefund), amount())
		f.Operation = rapid.SampledFrom([]string{"", "op_1"}).Draw(t, "operation")
	case "refunded":
		f = refTotal(rapid.SampledFrom([]string{"pi_1", "pi_2", "cap_1"}).Draw(t, "parent"), amount())
	case "dispute":
		object := rapid.SampledFrom([]string{"dp_1", "dp_2", "pi_1", "alias"}).Draw(t, "dispute")
		f = disputed(object, anyParent(), rapid.IntRange(0, 2).Draw(t, "round"), stage(KindDispute), amount())
		if rapid.Bool().Draw(t, "unstated") {
			return unstated(f)
		}
	case "reversal":
		f = reversal(rapid.SampledFrom([]string{"pi_1", "cap_1"}).Draw(t, "parent"), amount())
	default:
		f = reservation(id("op_"), anyParent(), stage(KindReservation), amount())
	}
	if rapid.IntRange(0, 9).Draw(t, "currency") == 0 {
		f = inUSD(f)
	}
	return f
}

var drawn = []string{
	"link", "authorization", "authorization", "authorization", "close", "adjustment", "attempt", "capture",
	"capture", "captured", "captured", "refund", "refund", "refunded", "dispute", "dispute", "reversal", "reservation",
}

func drawRecord(t *rapid.T) Record {
	return Record{
		Expected:      eur(full),
		Rule:          rapid.SampledFrom([]AmountRule{RuleExact, RuleExact, RuleUpTo}).Draw(t, "rule"),
		FulfillOn:     rapid.SampledFrom([]FulfillOn{OnCaptured, OnCaptured, OnAuthorized}).Draw(t, "fulfill_on"),
		CaptureSpeaks: rapid.SampledFrom([]Form{FormItem, FormTotal}).Draw(t, "capture_speaks"),
	}
}

// R2.3 R2.4 R2.5 R2.9: G1 to G6 for random sets, sense or nonsense, each in
// several orders, with repetitions, one fact or several in a step.
func TestGuaranteesOfRandomSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		facts := rapid.SliceOfN(rapid.Custom(drawFact), 1, 9).Draw(t, "facts")
		want := truthOf(t, r, facts)
		for range 4 {
			runRandomly(t, r, facts, want)
		}
	})
}

func runRandomly(t *rapid.T, r Record, facts []Fact, want *truth) {
	order := rapid.Permutation(append(slices.Clone(facts), rapid.SliceOf(rapid.SampledFrom(facts)).Draw(t, "again")...)).Draw(t, "order")
	s := newSim(t, r)
	for len(order) > 0 {
		n := min(len(order), rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(t, "step"))
		s.step(order[:n]...)
		order = order[n:]
	}
	s.finishAs(want)
}

// R2.5: a payment that nobody registered is told about and fulfills nothing.
func TestGuaranteesOfAdoptedPayments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Adopted: true, CaptureSpeaks: rapid.SampledFrom([]Form{FormItem, FormTotal}).Draw(t, "capture_speaks")}
		// With two currencies the smallest name decides, which is not free of order.
		facts := rapid.SliceOfN(rapid.Custom(drawFact).Filter(func(f Fact) bool { return f.Amount.Currency != "USD" }), 1, 9).Draw(t, "facts")
		want := truthOf(t, r, facts)
		for range 2 {
			runRandomly(t, r, facts, want)
		}
	})
}

// R2.5: with numbered reads, whose stages may go down, G1 to G3 hold.
func TestGuaranteesWithReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		facts := rapid.SliceOfN(rapid.Custom(drawFact), 1, 6).Draw(t, "events")
		for n := range rapid.IntRange(1, 3).Draw(t, "reads") {
			f := rapid.Custom(drawFact).Filter(func(f Fact) bool { return f.Kind != KindLink && f.Kind != KindReservation }).Draw(t, "read")
			if f.Kind == KindDispute && rapid.Bool().Draw(t, "clear") {
				f.Stage = StageClear
			}
			known := rapid.SliceOf(rapid.SampledFrom(facts)).Draw(t, "covered")
			facts = append(facts, readAs(int64(n+1), f, known...))
		}
		want := truthOf(t, r, facts)
		for range 3 {
			runRandomly(t, r, facts, want)
		}
	})
}

// R2.9: no input, not even amounts that no adapter lets through, breaks
// conservation or the fold's independence of order.
func TestConservationOfExtremeAmounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extreme := rapid.Custom(func(t *rapid.T) Fact {
			f := drawFact(t)
			if f.Amount.Currency != "" {
				f.Amount.Value = rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{maxAmount, maxAmount - 1, -1, -maxAmount - 1})).Draw(t, "extreme")
			}
			return f
		})
		facts := rapid.SliceOfN(extreme, 1, 10).Draw(t, "facts")
		r := drawRecord(t)
		conserved(t, Fold(r, facts))
		conserved(t, foldEvery(t, r, facts[:min(4, len(facts))]...))
	})
}

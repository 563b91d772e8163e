package payment

import (
	"fmt"
	"strings"
	"testing"
)

// examples are sets that show each state; newFacts are what arrives next.
var examples = []struct {
	state State
	facts []Fact
}{
	{StateExpected, nil},
	{StatePending, []Fact{attempt("ch_1", "p", StagePending)}},
	{StateAuthorized, []Fact{authTotal("p", 100)}},
	{StatePartiallyCaptured, []Fact{authTotal("p", 100), capTotal("p", 50)}},
	{StateCaptured, []Fact{authTotal("p", 100), capTotal("p", 100)}},
	{StatePartiallyRefunded, []Fact{authTotal("p", 100), capTotal("p", 100), refund("r", "p", StageSucceeded, 30)}},
	{StateRefunded, []Fact{authTotal("p", 100), capTotal("p", 100), refund("r", "p", StageSucceeded, 100)}},
	{StateCanceled, []Fact{authTotal("p", 100), closing("p", StageVoided)}},
	{StateFailed, []Fact{attempt("ch_1", "p", StageFailed)}},
}

var newFacts = []struct {
	name string
	fact Fact
	// want has one letter for each example: E expected, P pending, A authorized,
	// c partially captured, C captured, r partially refunded, R refunded, X canceled, F failed.
	want string
}{
	{"link", Link("ch_1", "p"), "EPAcCrRXF"},
	{"authorized", authTotal("p", 100), "AAAcCrRXA"},
	{"completed", closing("p", StageCompleted), "FFFcCrRXF"},
	{"expired", closing("p", StageExpired), "XXXcCrRXX"},
	{"voided", closing("p", StageVoided), "XXXcCrRXX"},
	{"loudly voided", loud("p", StageVoided), "XXXcCrRXX"},
	{"adjusted", adjusted("x", "p", 120, 1), "EPAcCrRXF"},
	{"attempt pending", attempt("ch_2", "p", StagePending), "PPAcCrRXP"},
	{"attempt failed", attempt("ch_2", "p", StageFailed), "FPAcCrRXF"},
	{"capture pending", capItem("c", "p", StagePending, 60), "PPAcCrRPP"},
	{"capture succeeded", capItem("c", "p", StageSucceeded, 60), "ccccCrRcc"},
	{"capture refused", capItem("c", "p", StageRefused, 60), "FPAAcrRXF"},
	{"capture failed", capItem("c", "p", StageFailed, 60), "FPAAcrRXF"},
	{"captured total", capTotal("p", 100), "CCCCCrRCC"},
	{"refund pending", refund("n", "p", StagePending, 20), "EPAcCrRXF"},
	{"refund succeeded", refund("n", "p", StageSucceeded, 20), "EPArrrRXF"},
	{"refund refused", refund("n", "p", StageRefused, 20), "EPAcCrRXF"},
	{"refund canceled", refund("n", "p", StageCanceled, 20), "EPAcCrRXF"},
	{"refund failed", refund("n", "p", StageFailed, 20), "EPAcCrRXF"},
	{"refunded total", refTotal("p", 100), "EPARRRRXF"},
	{"dispute opened", disputed("d", "p", 1, StageOpen, 100), "EPAcCrRXF"},
	{"dispute won", disputed("d", "p", 1, StageWon, 100), "EPAcCrRXF"},
	{"dispute lost", disputed("d", "p", 1, StageLost, 100), "EPAcCrRXF"},
	{"reversal", reversal("p", 100), "EPAcCrRXF"},
	{"reserved", reservation("op", "p", StageReserved, 20), "EPAcCrRXF"},
	{"reservation refused", reservation("op", "p", StageRefused, 20), "EPAcCrRXF"},
}

var letters = map[State]string{
	StateExpected: "E", StatePending: "P", StateAuthorized: "A", StatePartiallyCaptured: "c", StateCaptured: "C",
	StatePartiallyRefunded: "r", StateRefunded: "R", StateCanceled: "X", StateFailed: "F",
}

// R2.4: all states × all facts.
func TestStatesAndFacts(t *testing.T) {
	covered := map[string]bool{}
	for _, n := range newFacts {
		covered[fmt.Sprint(n.fact.Kind, n.fact.Stage)] = true
		var got strings.Builder
		for _, e := range examples {
			before := foldEvery(t, registered(), e.facts...)
			wantState(t, before, e.state)
			after := foldEvery(t, registered(), append(append([]Fact{}, e.facts...), n.fact)...)
			conserved(t, after)
			got.WriteString(letters[after.State])
		}
		if got.String() != n.want {
			t.Errorf("%s: %s, want %s", n.name, got.String(), n.want)
		}
	}
	for _, k := range Kinds() {
		for _, s := range Stages(k) {
			if !covered[fmt.Sprint(k, s)] {
				t.Errorf("%s %s is not in the table", k, s)
			}
		}
	}
}

// R2.4: for every state, a late attempt that failed or is pending regresses nothing.
func TestLateAttemptRegressesNothing(t *testing.T) {
	for _, e := range examples {
		before := Fold(registered(), e.facts)
		if before.Totals.Captured == 0 && before.State != StateAuthorized {
			continue
		}
		for _, s := range Stages(KindAttempt) {
			after := foldEvery(t, registered(), append(append([]Fact{}, e.facts...), attempt("late", "p", s))...)
			if after.State != before.State || after.Totals != before.Totals || after.Earned != before.Earned {
				t.Errorf("%s after attempt %s: %+v", e.state, s, after)
			}
		}
	}
}

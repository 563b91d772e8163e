package payment

import "testing"

// R2.5 R2.9: every condition, with a set that shows it, and one that does not.
func TestConditions(t *testing.T) {
	paid := []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 100)}
	for _, c := range []struct {
		name  string
		facts []Fact
		want  []string
	}{
		{"nothing odd", paid, nil},
		{"currency", []Fact{inUSD(authItem("p", 100)), inUSD(capItem("c", "p", StageSucceeded, 100))}, []string{"currency c", "currency p"}},
		{"no amount is no other currency", []Fact{unstated(authItem("p", 0))}, nil},
		{"amount", []Fact{authItem("p", 99)}, []string{"amount p"}},
		{"amount, then the expected one", []Fact{authItem("p", 99), authItem("p", 100)}, []string{"contested p"}},
		{"contested authorization", []Fact{authItem("p", 100), authItem("p", 120)}, []string{"contested p"}},
		{"contested dispute", append([]Fact{disputed("d", "p", 1, StageOpen, 10), disputed("d", "p", 1, StageOpen, 20)}, paid...), []string{"contested d"}},
		{"another amount at another stage is none", append([]Fact{disputed("d", "p", 1, StageOpen, 10), disputed("d", "p", 1, StageLost, 20)}, paid...), nil},
		{"another amount in another round is none", append([]Fact{disputed("d", "p", 1, StageOpen, 10), disputed("d", "p", 2, StageOpen, 20)}, paid...), nil},
		{"flip of a capture", append([]Fact{capItem("c", "p", StageRefused, 100)}, paid...), []string{"flip c"}},
		{"failed after success is none", append([]Fact{capItem("c", "p", StageFailed, 100)}, paid...), nil},
		{"flip of a refund", append([]Fact{refund("r", "p", StageSucceeded, 5), refund("r", "p", StageRefused, 5)}, paid...), []string{"flip r"}},
		{"flip of a dispute", append([]Fact{disputed("d", "p", 1, StageWon, 5), disputed("d", "p", 1, StageLost, 5)}, paid...), []string{"flip d"}},
		{"lost in a later round is none", append([]Fact{disputed("d", "p", 1, StageWon, 5), disputed("d", "p", 2, StageLost, 5)}, paid...), nil},
		{"money after a loud close", append([]Fact{loud("p", StageVoided)}, paid...), []string{"money_after_cancel p"}},
		{"money after a loud expiry", append([]Fact{loud("p", StageExpired)}, paid...), []string{"money_after_cancel p"}},
		{"money and a close that releases a rest", append([]Fact{closing("p", StageVoided)}, paid...), nil},
		{"returned twice", append([]Fact{refund("r", "p", StageSucceeded, 100), disputed("d", "p", 1, StageLost, 1)}, paid...), []string{"returned_exceeds_captured"}},
		{"early refund", []Fact{refund("r", "p", StageSucceeded, 5)}, []string{"returned_exceeds_captured"}},
		{"over captured", append([]Fact{capItem("c2", "p", StageSucceeded, 15)}, paid...), []string{"over_captured"}},
		{"capture without authorization", []Fact{capItem("c", "p", StageSucceeded, 100)}, []string{"capture_without_authorization p"}},
		{"capture without line", []Fact{capItem("c", "", StageSucceeded, 100)}, []string{"capture_without_authorization c"}},
		{"captured total without authorization", []Fact{capTotal("p", 100)}, []string{"capture_without_authorization p"}},
		{"refunded total without items", append([]Fact{refTotal("p", 30), refund("r", "p", StageSucceeded, 10)}, paid...), []string{"total_without_items p"}},
		{"refunded total of a capture without items", append([]Fact{refTotal("c", 30)}, paid...), []string{"total_without_items c"}},
		{"refunded total with items", append([]Fact{refTotal("c", 30), refund("r", "c", StageSucceeded, 30)}, paid...), nil},
		{"capture known as failed alone", []Fact{authItem("p", 100), capItem("x", "p", StageFailed, 100)}, []string{"failure_without_acceptance x"}},
		{"its total covers it", []Fact{authItem("p", 100), capTotal("p", 100), capItem("x", "p", StageFailed, 100)}, nil},
		{"refund known as failed alone", append([]Fact{refund("r", "p", StageFailed, 5)}, paid...), []string{"failure_without_acceptance r"}},
		{"its total covers the refund", append([]Fact{refund("r", "c", StageFailed, 5), refTotal("c", 5)}, paid...), []string{"total_without_items c"}},
		{"a read knows", append([]Fact{readAs(1, refund("r", "p", StageFailed, 5))}, paid...), nil},
		{"canceled is not failed", append([]Fact{refund("r", "p", StageCanceled, 5)}, paid...), nil},
		{"adjustments of foreign hands", append([]Fact{adjusted("x", "p", 80, 0), adjusted("y", "p", 120, 0)}, paid...), []string{"adjustments p"}},
		{"one foreign adjustment", append([]Fact{adjusted("x", "p", 120, 0)}, paid...), nil},
		{"foreign against ours", append([]Fact{adjusted("x", "p", 120, 0), adjusted("y", "p", 130, 1)}, paid...), []string{"adjustments p"}},
		{"foreign as ours", append([]Fact{adjusted("x", "p", 120, 0), adjusted("y", "p", 120, 1)}, paid...), nil},
		{"ours alone", append([]Fact{adjusted("x", "p", 120, 1), adjusted("y", "p", 130, 2)}, paid...), nil},
		{"two parents", append([]Fact{authItem("q", 100), refund("r", "p", StageSucceeded, 5), refund("r", "q", StageSucceeded, 5)}, paid...), []string{"parents r"}},
		{"two parents that are linked", append([]Fact{authItem("q", 100), Link("p", "q"), refund("r", "p", StageSucceeded, 5), refund("r", "q", StageSucceeded, 5)}, paid...), nil},
		{"two parents, one not known", append([]Fact{refund("r", "p", StageSucceeded, 5), refund("r", "q", StageSucceeded, 5)}, paid...), nil},
		{"which dispute", append([]Fact{disputed("p", "p", 1, StageOpen, 5), disputed("d", "p", 1, StageOpen, 5), disputed("e", "p", 1, StageOpen, 5)}, paid...), []string{"which_dispute p"}},
		{"the only other dispute", append([]Fact{disputed("p", "p", 1, StageOpen, 5), disputed("d", "p", 1, StageOpen, 5)}, paid...), nil},
		{"dispute in another currency", append([]Fact{inUSD(disputed("d", "p", 1, StageOpen, 5))}, paid...), []string{"dispute_currency d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := foldEvery(t, byItem(), c.facts...)
			wantConditions(t, v, c.want...)
			conserved(t, v)
		})
	}
}

// A condition shows the facts that make it, and them alone.
func TestConditionShowsItsFacts(t *testing.T) {
	first, second := capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StageRefused, 100)
	v := Fold(byItem(), []Fact{second, first, authItem("p", 100), first})
	if len(v.Conditions) != 1 {
		t.Fatalf("%+v", v.Conditions)
	}
	got := v.Conditions[0].Keys
	if len(got) != 2 || got[0] != second.Key() || got[1] != first.Key() {
		t.Errorf("%q", got)
	}
}

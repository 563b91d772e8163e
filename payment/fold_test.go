package payment

import (
	"testing"
)

// R2.4: totals of one rule each.
func TestTotals(t *testing.T) {
	paid := []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 100)}
	and := func(facts ...Fact) []Fact { return append(facts, paid...) }
	whole := Totals{Authorized: 100, Captured: 100}
	with := func(change func(*Totals)) Totals { t := whole; change(&t); return t }
	for _, c := range []struct {
		name  string
		facts []Fact
		want  Totals
	}{
		{"nothing", nil, Totals{}},
		{"paid", paid, whole},
		{"a capture proves its authorization", []Fact{capItem("c", "p", StageSucceeded, 80)}, Totals{Authorized: 80, Captured: 80}},
		{"pending captures nothing", []Fact{authItem("p", 100), capItem("c", "p", StagePending, 80)}, Totals{Authorized: 100}},
		{"an amount known at pending counts", []Fact{capItem("c", "p", StagePending, 80), unstated(capItem("c", "p", StageSucceeded, 0))}, Totals{Authorized: 80, Captured: 80}},
		{"captured total and items are not added", and(capTotal("p", 100)), whole},
		{"captured total beyond the items", []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 60), capTotal("p", 100)}, whole},
		{"a failed item explains the total", []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 60), capItem("c", "p", StageFailed, 60), capTotal("p", 100)}, Totals{Authorized: 100, Captured: 40}},
		{"released", []Fact{authItem("p", 100), capItem("c", "p", StageSucceeded, 60), closing("p", StageCompleted)}, Totals{Authorized: 100, Captured: 60, Released: 40}},
		{"not released while another name is open", []Fact{authItem("p", 100), closing("p", StageVoided), authItem("q", 100), Link("p", "q")}, Totals{Authorized: 100}},
		{"two lines", []Fact{authItem("p", 100), authItem("q", 50), closing("q", StageExpired)}, Totals{Authorized: 150, Released: 50}},
		{"adjusted up", []Fact{authItem("p", 100), adjusted("x", "p", 130, 1)}, Totals{Authorized: 130}},
		{"adjusted by the highest version", []Fact{authItem("p", 100), adjusted("x", "p", 130, 2), adjusted("y", "p", 150, 1)}, Totals{Authorized: 130}},
		{"adjusted by foreign hands, the smallest", []Fact{authItem("p", 100), adjusted("x", "p", 130, 0), adjusted("y", "p", 90, 0), adjusted("z", "p", 80, 3)}, Totals{Authorized: 80}},
		{"adjusted below what is captured", and(adjusted("x", "p", 80, 1)), whole},
		{"adjustment without amount", []Fact{authItem("p", 100), unstated(adjusted("x", "p", 0, 1))}, Totals{Authorized: 100}},
		{"refund", and(refund("r", "p", StageSucceeded, 30)), with(func(t *Totals) { t.Refunded = 30 })},
		{"refund without parent", and(refund("r", "", StageSucceeded, 30)), with(func(t *Totals) { t.Refunded = 30 })},
		{"refund of a capture", and(refund("r", "c", StageSucceeded, 30), refTotal("c", 30)), with(func(t *Totals) { t.Refunded = 30 })},
		{"totals of capture and line", and(refund("r", "c", StageSucceeded, 30), refTotal("c", 40), refTotal("p", 50)), with(func(t *Totals) { t.Refunded = 50 })},
		{"pending refund", and(refund("r", "p", StagePending, 30), refTotal("p", 30)), with(func(t *Totals) { t.PendingRefunds = 30 })},
		{"pending refund without parent", and(refund("r", "", StagePending, 30)), with(func(t *Totals) { t.PendingRefunds = 30 })},
		{"refused and succeeded stays reserved", and(refund("r", "p", StageSucceeded, 30), refund("r", "p", StageRefused, 30)), with(func(t *Totals) { t.Reserved = 30 })},
		{"the same without parent", and(refund("r", "", StageSucceeded, 30), refund("r", "", StageRefused, 30)), with(func(t *Totals) { t.Reserved = 30 })},
		{"canceled refund", and(refund("r", "p", StagePending, 30), refund("r", "p", StageCanceled, 30)), whole},
		{"dead refund does not explain", and(refund("r", "p", StageFailed, 30), refTotal("p", 30)), with(func(t *Totals) { t.Refunded = 30 })},
		{"more refunds than money", and(refund("r", "p", StageSucceeded, 130)), with(func(t *Totals) { t.Refunded, t.Unmatched = 100, 30 })},
		{"early refund", []Fact{authItem("p", 100), refund("r", "p", StageSucceeded, 30)}, Totals{Authorized: 100, Unmatched: 30}},
		{"reserved", and(reservation("op", "p", StageReserved, 30)), with(func(t *Totals) { t.Reserved = 30 })},
		{"reserved for the payment", and(reservation("op", "", StageReserved, 30)), with(func(t *Totals) { t.Reserved = 30 })},
		{"reserved and named by a refund", and(reservation("op", "p", StageReserved, 30), of("op", refund("r", "p", StagePending, 30))), with(func(t *Totals) { t.PendingRefunds = 30 })},
		{"reserved and refused", and(reservation("op", "p", StageReserved, 30), reservation("op", "p", StageRefused, 30)), whole},
		{"refused, and yet refunded", and(reservation("op", "p", StageRefused, 30), of("op", refund("r", "p", StageSucceeded, 30))), with(func(t *Totals) { t.Refunded = 30 })},
		{"inquiry debits nothing", and(disputed("d", "p", 0, StageOpen, 30)), whole},
		{"chargeback", and(disputed("d", "p", 1, StageOpen, 30)), with(func(t *Totals) { t.Open = 30 })},
		{"chargeback won", and(disputed("d", "p", 1, StageOpen, 30), disputed("d", "p", 1, StageWon, 30)), whole},
		{"chargeback lost", and(disputed("d", "p", 1, StageLost, 30)), with(func(t *Totals) { t.Lost = 30 })},
		{"won, then lost in a later round", and(disputed("d", "p", 1, StageWon, 30), disputed("d", "p", 2, StageLost, 20)), with(func(t *Totals) { t.Lost = 20 })},
		{"amount of the highest round that states one", and(disputed("d", "p", 1, StageOpen, 30), unstated(disputed("d", "p", 2, StageLost, 0))), with(func(t *Totals) { t.Lost = 30 })},
		{"no amount: all that is left, open", and(refund("r", "p", StageSucceeded, 10), unstated(disputed("d", "p", 1, StageOpen, 0))), with(func(t *Totals) { t.Refunded, t.Open = 10, 90 })},
		{"no amount: all that is left, lost", and(refund("r", "p", StageSucceeded, 10), unstated(disputed("d", "p", 1, StageLost, 0))), with(func(t *Totals) { t.Refunded, t.Lost = 10, 90 })},
		{"no amount and no line: all of the payment", and(unstated(disputed("d", "", 1, StageLost, 0))), with(func(t *Totals) { t.Lost = 100 })},
		{"no amount and no line, open", and(unstated(disputed("d", "", 1, StageOpen, 0))), with(func(t *Totals) { t.Open = 100 })},
		{"no amount on a provisional line: that line's", and(capTotal("q", 40), unstated(disputed("d", "q", 1, StageLost, 0)), unstated(disputed("e", "q", 1, StageOpen, 0))), Totals{Authorized: 140, Captured: 140, Lost: 40}},
		{"no amount, open, on a provisional line", and(capTotal("q", 40), refund("r", "q", StageSucceeded, 10), unstated(disputed("e", "q", 1, StageOpen, 0))), Totals{Authorized: 140, Captured: 140, Refunded: 10, Open: 30}},
		{"no amount on a line without money", and(unstated(disputed("d", "q", 1, StageLost, 0))), whole},
		{"the one without id is the other", and(disputed("p", "p", 1, StageOpen, 30), disputed("d", "p", 1, StageLost, 40)), with(func(t *Totals) { t.Lost = 40 })},
		{"by its own name alone", and(disputed("p", "", 1, StageOpen, 30)), with(func(t *Totals) { t.Open = 30 })},
		{"two names of one line are one dispute", and(Link("p", "ch"), disputed("p", "p", 1, StageOpen, 30), disputed("ch", "p", 1, StageLost, 30)), with(func(t *Totals) { t.Lost = 30 })},
		{"reversal", and(reversal("c", 30)), with(func(t *Totals) { t.Lost = 30 })},
		{"reversal explained by its dispute", and(reversal("c", 30), disputed("d", "c", 1, StageOpen, 30)), with(func(t *Totals) { t.Open = 30 })},
		{"reversal of a line in part", and(reversal("p", 50), disputed("d", "p", 1, StageOpen, 30)), with(func(t *Totals) { t.Lost, t.Open = 20, 30 })},
		{"an inquiry explains no reversal", and(reversal("p", 30), disputed("d", "p", 0, StageOpen, 30)), with(func(t *Totals) { t.Lost = 30 })},
		{"no amount explains any reversal", and(reversal("p", 30), unstated(disputed("d", "p", 1, StageWon, 0))), whole},
		{"of a capture too", and(reversal("c", 30), unstated(disputed("d", "c", 1, StageWon, 0))), whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := foldEvery(t, byItem(), c.facts...)
			conserved(t, v)
			wantTotals(t, v, c.want)
		})
	}
}

// R2.4: the rows of the state table, the first that fits.
func TestState(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts []Fact
		want  State
	}{
		{"nothing", nil, StateExpected},
		{"bare names", []Fact{Link("a", "b")}, StateExpected},
		{"a refund alone", []Fact{refund("r", "p", StageSucceeded, 5)}, StateExpected},
		{"captured in full", []Fact{authItem("p", 100), capTotal("p", 100)}, StateCaptured},
		{"captured in part", []Fact{authItem("p", 100), capTotal("p", 99)}, StatePartiallyCaptured},
		{"captured in part, a part of it back", []Fact{capTotal("p", 60), refTotal("p", 30), authItem("p", 100)}, StatePartiallyRefunded},
		{"captured in part, all of it back", []Fact{capTotal("p", 60), refTotal("p", 60), authItem("p", 100)}, StateRefunded},
		{"a lost dispute leaves captured", []Fact{authItem("p", 100), capTotal("p", 100), disputed("d", "p", 1, StageLost, 100)}, StateCaptured},
		{"open name beside a closed line", []Fact{authItem("p", 100), closing("p", StageVoided), authItem("q", 100)}, StateAuthorized},
		{"authorized before a pending capture", []Fact{authItem("p", 100), capItem("c", "p", StagePending, 100)}, StateAuthorized},
		{"pending capture of a closed line", []Fact{authItem("p", 100), closing("p", StageCompleted), capItem("c", "p", StagePending, 100)}, StatePending},
		{"attempt with its own id", []Fact{attempt("ch", "p", StagePending)}, StatePending},
		{"attempt of the line itself", []Fact{attempt("p", "p", StagePending)}, StatePending},
		{"attempt in a closed line", []Fact{attempt("ch", "p", StagePending), closing("p", StageVoided)}, StateCanceled},
		{"all closed", []Fact{authItem("p", 100), closing("p", StageVoided), closing("q", StageExpired)}, StateCanceled},
		{"one closed, one failed", []Fact{closing("p", StageVoided), attempt("ch", "q", StageFailed)}, StateFailed},
		{"one closed, one unknown", []Fact{closing("p", StageVoided), unstated(capTotal("q", 0))}, StateCanceled},
		{"completed without capture", []Fact{authItem("p", 100), closing("p", StageCompleted)}, StateFailed},
		{"refused capture", []Fact{capItem("c", "p", StageRefused, 100)}, StateFailed},
		{"failed, then authorized", []Fact{attempt("ch", "p", StageFailed), authItem("p", 100)}, StateAuthorized},
		{"failed, then captured", []Fact{attempt("ch", "p", StageFailed), capTotal("p", 100)}, StateCaptured},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantState(t, foldEvery(t, registered(), c.facts...), c.want)
		})
	}
}

func TestDisputeAxis(t *testing.T) {
	for _, c := range []struct {
		facts []Fact
		want  DisputeState
	}{
		{nil, DisputeNone},
		{[]Fact{disputed("d", "p", 0, StageOpen, 5)}, DisputeOpen},
		{[]Fact{disputed("d", "p", 0, StageWon, 5)}, DisputeWon},
		{[]Fact{disputed("d", "p", 1, StageLost, 5), disputed("e", "p", 1, StageWon, 5)}, DisputeLost},
		{[]Fact{disputed("d", "p", 1, StageLost, 5), disputed("e", "p", 0, StageOpen, 5)}, DisputeOpen},
		{[]Fact{inUSD(disputed("d", "p", 1, StageLost, 5))}, DisputeLost},
		{[]Fact{disputed("d", "p", 1, StageLost, 5), disputed("d", "p", 3, StageWon, 5)}, DisputeWon},
	} {
		if v := foldEvery(t, registered(), c.facts...); v.Dispute != c.want {
			t.Errorf("%+v: %s, want %s", c.facts, v.Dispute, c.want)
		}
	}
}

// R2.9: earned and returned, over the lines of the record alone.
func TestEarnedAndReturned(t *testing.T) {
	onAuthorized, upTo := registered(), registered()
	onAuthorized.FulfillOn = OnAuthorized
	upTo.Rule = RuleUpTo
	for _, c := range []struct {
		name     string
		r        Record
		facts    []Fact
		amount   int64
		returned bool
	}{
		{"captured", registered(), []Fact{authItem("p", 100), capTotal("p", 100)}, 100, false},
		{"captured in part", registered(), []Fact{authItem("p", 100), capTotal("p", 60)}, 0, false},
		{"not authorized by name", registered(), []Fact{capTotal("p", 100)}, 0, false},
		{"another amount", registered(), []Fact{authItem("p", 150), capTotal("p", 150)}, 0, false},
		{"another currency", registered(), []Fact{inUSD(authItem("p", 100)), inUSD(capTotal("p", 100))}, 0, false},
		{"in parts", upTo, []Fact{authItem("p", 60), capTotal("p", 60), authItem("q", 40), capTotal("q", 40)}, 100, false},
		{"a part too large", upTo, []Fact{authItem("p", 101), capTotal("p", 101)}, 0, false},
		{"authorized", onAuthorized, []Fact{authItem("p", 100)}, 100, false},
		{"authorized and closed", onAuthorized, []Fact{authItem("p", 100), closing("p", StageVoided)}, 0, false},
		{"authorized, closed and captured", onAuthorized, []Fact{authItem("p", 100), closing("p", StageCompleted), capTotal("p", 100)}, 100, false},
		{"only authorized", registered(), []Fact{authItem("p", 100)}, 0, false},
		{"adopted", Record{Adopted: true}, []Fact{authItem("p", 70), capTotal("p", 70)}, 70, false},
		{"refunded", registered(), []Fact{authItem("p", 100), capTotal("p", 100), refTotal("p", 100)}, 100, true},
		{"disputed whole", registered(), []Fact{authItem("p", 100), capTotal("p", 100), disputed("d", "p", 1, StageOpen, 100)}, 100, true},
		{"disputed in part", registered(), []Fact{authItem("p", 100), capTotal("p", 100), disputed("d", "p", 1, StageOpen, 99)}, 100, false},
		{"returned on no known line", registered(), []Fact{authItem("p", 100), capTotal("p", 100), refund("r", "", StageSucceeded, 100)}, 100, true},
		{"returned without amount or line", registered(), []Fact{authItem("p", 100), capTotal("p", 100), unstated(disputed("d", "", 1, StageOpen, 0))}, 100, true},
		{"another's money does not make up for it", registered(), []Fact{authItem("p", 100), capTotal("p", 100), refTotal("p", 100), authItem("q", 50), capTotal("q", 50)}, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := foldEvery(t, c.r, c.facts...)
			if v.Earned != (c.amount > 0) || v.EarnedAmount != c.amount || v.Returned != c.returned {
				t.Errorf("earned %t %d, returned %t (%+v)", v.Earned, v.EarnedAmount, v.Returned, v)
			}
		})
	}
}

// R2.9: money in another currency counts beside, so that the books can meet.
func TestOtherCurrencies(t *testing.T) {
	v := foldEvery(t, registered(), authItem("p", 100), capTotal("p", 100), inUSD(authItem("q", 70)), inUSD(capTotal("q", 70)),
		inUSD(refund("r", "q", StageSucceeded, 20)), inUSD(disputed("d", "q", 1, StageLost, 10)))
	// The dispute's amount counts as not stated, and its line holds no euro.
	wantTotals(t, v, Totals{Authorized: 100, Captured: 100})
	if got := v.OtherTotals["USD"]; got != (Totals{Authorized: 70, Captured: 70, Refunded: 20, Lost: 10, Disputed: 10, Refundable: 40}) {
		t.Errorf("%+v", got)
	}
	if v.Currency != "EUR" || len(v.OtherTotals) != 1 {
		t.Errorf("%+v", v)
	}
	// Without a record the smallest line name decides.
	v = foldEvery(t, Record{Adopted: true}, inUSD(authItem("a", 70)), authItem("b", 100), capTotal("b", 100))
	if v.Currency != "USD" || v.Totals.Authorized != 70 || v.OtherTotals["EUR"].Captured != 100 {
		t.Errorf("%+v", v)
	}
	wantConditions(t, v, "currency b")
	if v := foldEvery(t, Record{Adopted: true}, refund("r", "p", StageSucceeded, 5), inUSD(disputed("d", "o", 1, StageOpen, 5))); v.Currency != "USD" {
		t.Errorf("currency %q", v.Currency)
	}
}

package payment

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

const full = 100

func eur(v int64) Money { return Money{Value: v, Currency: "EUR"} }

// registered is a record that expects 100 EUR and whose captures speak by total.
func registered() Record {
	return Record{Expected: eur(full), Rule: RuleExact, FulfillOn: OnCaptured, CaptureSpeaks: FormTotal}
}

func byItem() Record { r := registered(); r.CaptureSpeaks = FormItem; return r }

func authTotal(line string, v int64) Fact {
	return Fact{Kind: KindAuthorization, Form: FormTotal, Object: line, Stage: StageAuthorized, Amount: eur(v)}
}

func authItem(line string, v int64) Fact {
	return Fact{Kind: KindAuthorization, Form: FormItem, Object: line, Stage: StageAuthorized, Amount: eur(v)}
}

func closing(line string, s Stage) Fact {
	return Fact{Kind: KindAuthorization, Form: FormItem, Object: line, Stage: s}
}

func loud(line string, s Stage) Fact { f := closing(line, s); f.Loud = true; return f }

func adjusted(id, line string, v int64, version int) Fact {
	return Fact{Kind: KindAdjustment, Object: id, Parent: line, Amount: eur(v), Version: version}
}

func attempt(id, line string, s Stage) Fact {
	return Fact{Kind: KindAttempt, Object: id, Parent: line, Stage: s}
}

func capTotal(line string, v int64) Fact {
	return Fact{Kind: KindCapture, Form: FormTotal, Object: line, Amount: eur(v)}
}

func capItem(id, line string, s Stage, v int64) Fact {
	return Fact{Kind: KindCapture, Form: FormItem, Object: id, Parent: line, Stage: s, Amount: eur(v)}
}

func refund(id, parent string, s Stage, v int64) Fact {
	return Fact{Kind: KindRefund, Form: FormItem, Object: id, Parent: parent, Stage: s, Amount: eur(v)}
}

func refTotal(parent string, v int64) Fact {
	return Fact{Kind: KindRefund, Form: FormTotal, Object: parent, Amount: eur(v)}
}

func disputed(id, parent string, round int, s Stage, v int64) Fact {
	return Fact{Kind: KindDispute, Form: FormItem, Object: id, Parent: parent, Round: round, Stage: s, Amount: eur(v)}
}

func unstated(f Fact) Fact { f.Amount = Money{}; return f }

func inUSD(f Fact) Fact { f.Amount.Currency = "USD"; return f }

func reversal(parent string, v int64) Fact {
	return Fact{Kind: KindReversal, Form: FormTotal, Object: parent, Amount: eur(v)}
}

func reservation(op, parent string, s Stage, v int64) Fact {
	return Fact{Kind: KindReservation, Object: op, Parent: parent, Stage: s, Amount: eur(v)}
}

func of(op string, f Fact) Fact { f.Operation = op; return f }

// readAs makes a fact one of a numbered read that knew the given facts.
func readAs(n int64, f Fact, covered ...Fact) Fact {
	f.Read = n
	for _, c := range covered {
		f.Covers = append(f.Covers, c.Key())
	}
	return f
}

// failer is what a test and a property test have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// foldEvery folds facts in every order where they are few, else in many
// orders, each also with every fact doubled, and returns the one view.
func foldEvery(t failer, r Record, facts ...Fact) View {
	t.Helper()
	want := Fold(r, facts)
	check := func(order []Fact) {
		if got := Fold(r, order); !reflect.DeepEqual(got, want) {
			t.Fatalf("R2.5: another order gives another view:\n%+v\n%+v", got, want)
		}
		doubled := append(slices.Clone(order), order...)
		if got := Fold(r, doubled); !reflect.DeepEqual(got, want) {
			t.Fatalf("R2.5: doubled facts give another view:\n%+v\n%+v", got, want)
		}
	}
	if len(facts) <= 6 {
		permute(slices.Clone(facts), 0, check)
		return want
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(facts))))
	for range 300 {
		order := slices.Clone(facts)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		check(order)
	}
	return want
}

func permute(facts []Fact, from int, visit func([]Fact)) {
	if from == len(facts) {
		visit(facts)
		return
	}
	for i := from; i < len(facts); i++ {
		facts[from], facts[i] = facts[i], facts[from]
		permute(facts, from+1, visit)
		facts[from], facts[i] = facts[i], facts[from]
	}
}

func conditionsOf(v View) []string {
	var out []string
	for _, c := range v.Conditions {
		s := string(c.Kind)
		if c.Object != "" {
			s += " " + c.Object
		}
		out = append(out, s)
	}
	return out
}

func wantConditions(t failer, v View, want ...string) {
	t.Helper()
	got := conditionsOf(v)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("conditions %q, want %q", got, want)
	}
	for _, c := range v.Conditions {
		if len(c.Keys) == 0 || !slices.IsSorted(c.Keys) {
			t.Fatalf("condition %s shows no sorted facts: %q", c.Kind, c.Keys)
		}
	}
}

func wantTotals(t failer, v View, want Totals) {
	t.Helper()
	// What follows from the others is checked where it is the subject.
	want.Disputed = want.Open + want.Lost
	want.Refundable = max(0, want.Captured-want.Refunded-want.Disputed-want.PendingRefunds-want.Reserved)
	if v.Totals != want {
		t.Fatalf("totals\n%+v, want\n%+v", v.Totals, want)
	}
}

func wantState(t failer, v View, want State) {
	t.Helper()
	if v.State != want {
		t.Fatalf("state %s, want %s (%+v)", v.State, want, v)
	}
}

var _ failer = (*testing.T)(nil)

package payment

import (
	"errors"
	"testing"
)

// R2.3: the key holds what cannot be contested, the variant what may differ.
func TestIdentityOfFacts(t *testing.T) {
	same := func(a, b Fact) {
		t.Helper()
		if a.Key() != b.Key() {
			t.Errorf("%q and %q are two facts", a.Key(), b.Key())
		}
	}
	differ := func(a, b Fact) {
		t.Helper()
		if a.Key() == b.Key() {
			t.Errorf("%+v and %+v are one fact, %q", a, b, a.Key())
		}
	}
	variant := func(a, b Fact) {
		t.Helper()
		same(a, b)
		if a.Variant() == b.Variant() {
			t.Errorf("%+v and %+v are one variant, %q", a, b, a.Variant())
		}
	}
	same(Link("ch_1", "pi_1"), Link("pi_1", "ch_1"))
	differ(Link("a", "b|c"), Link("a|b", "c"))
	if v := Link("a", "b").Variant(); v != "" {
		t.Errorf("a link has a variant: %q", v)
	}
	differ(authTotal("pi_1", 100), authTotal("pi_1", 150))
	variant(authItem("pi_1", 100), authItem("pi_1", 150))
	differ(capTotal("pi_1", 60), capTotal("pi_1", 100))
	variant(capItem("c", "pi_1", StageSucceeded, 60), capItem("c", "pi_1", StageSucceeded, 61))
	variant(capItem("c", "pi_1", StageSucceeded, 60), capItem("c", "pi_2", StageSucceeded, 60))
	variant(capItem("c", "pi_1", StageSucceeded, 60), inUSD(capItem("c", "pi_1", StageSucceeded, 60)))
	differ(capItem("c", "pi_1", StageSucceeded, 60), capItem("c", "pi_1", StageFailed, 60))
	differ(disputed("d", "pi_1", 1, StageOpen, 5), disputed("d", "pi_1", 2, StageOpen, 5))
	variant(adjusted("a", "pi_1", 80, 0), adjusted("a", "pi_1", 90, 0))
	differ(refTotal("pi_1", 30), refTotal("pi_1", 60))
	differ(capItem("c", "pi_1", StageSucceeded, 60), readAs(1, capItem("c", "pi_1", StageSucceeded, 60)))
	// A mark is not lost when the same fact came first without it.
	variant(refund("r", "pi_1", StageSucceeded, 5), of("op_1", refund("r", "pi_1", StageSucceeded, 5)))
	variant(closing("pi_1", StageVoided), loud("pi_1", StageVoided))
	variant(adjusted("a", "pi_1", 80, 0), adjusted("a", "pi_1", 80, 1))
	silent := authItem("o", 100)
	silent.Silent = true
	variant(authItem("o", 100), silent)
}

func TestValidate(t *testing.T) {
	good := append(lifecycle(true), lifecycle(false)...)
	good = append(good, Link("a", "b"), loud("pi_1", StageVoided), attempt("ch_1", "pi_1", StageFailed), refTotal("pi_1", 5),
		reversal("cap_1", 5), reservation("op_1", "pi_1", StageReserved, 5), adjusted("a", "pi_1", 80, 1), authTotal("pi_1", 5),
		readAs(1, unstated(disputed("m", "pi_1", 1, StageClear, 0))))
	for _, f := range good {
		if err := f.Validate(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	change := func(f Fact, with func(*Fact)) Fact { with(&f); return f }
	capture := capItem("c", "pi_1", StageSucceeded, 5)
	for _, f := range []Fact{
		{},
		change(capture, func(f *Fact) { f.Kind = "captured" }),
		change(capture, func(f *Fact) { f.Object = "" }),
		change(capture, func(f *Fact) { f.Stage = StageWon }),
		change(capture, func(f *Fact) { f.Form = "" }),
		change(capture, func(f *Fact) { f.Round = 1 }),
		change(capture, func(f *Fact) { f.Read = -1 }),
		change(capture, func(f *Fact) { f.Version = -1 }),
		change(capture, func(f *Fact) { f.Amount.Value = -1 }),
		change(capture, func(f *Fact) { f.Amount.Currency = "eur" }),
		change(capTotal("pi_1", 5), func(f *Fact) { f.Amount = Money{} }),
		change(disputed("d", "pi_1", 5, StageOpen, 5), func(*Fact) {}),
		disputed("d", "pi_1", 1, StageClear, 5),
		change(disputed("d", "pi_1", 1, StageOpen, 5), func(f *Fact) { f.Form = FormTotal }),
		change(reversal("c", 5), func(f *Fact) { f.Form = FormItem }),
		change(attempt("ch_1", "pi_1", StageFailed), func(f *Fact) { f.Form = FormItem }),
		{Kind: KindLink, Object: "b", Parent: "a"},
	} {
		if err := f.Validate(); !errors.Is(err, ErrFact) {
			t.Errorf("%+v is let pass: %v", f, err)
		}
	}
}

// A newer program's facts do not stop an older one.
func TestUnknownFactsAreIgnored(t *testing.T) {
	facts := lifecycle(false)
	want := Fold(registered(), facts)
	facts = append(facts, Fact{Kind: "loyalty", Object: "x"}, Fact{Kind: KindCapture, Form: FormItem, Object: "c", Stage: "settled", Amount: eur(5)})
	got := foldEvery(t, registered(), facts...)
	if got.Totals != want.Totals || got.State != want.State {
		t.Errorf("%+v, want %+v", got, want)
	}
	if Stages("loyalty") != nil || len(Kinds()) != len(stages) {
		t.Errorf("kinds %v", Kinds())
	}
}

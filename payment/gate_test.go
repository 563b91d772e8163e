package payment

import (
	"errors"
	"slices"
	"testing"
)

// R2.1: the conservation gate for our own operations.
func TestGate(t *testing.T) {
	r := byItem()
	r.Rule = RuleUpTo
	facts := []Fact{
		authItem("p", 60), capItem("c", "p", StageSucceeded, 50), refund("r", "c", StageSucceeded, 10), Link("p", "ch"),
		authItem("q", 40), capItem("d", "q", StageSucceeded, 40), reservation("op", "q", StageReserved, 15), closing("q", StageCompleted),
	}
	v, lines := Fold(r, facts), Lines(r, facts)
	if len(lines) != 2 || !slices.Equal(lines[0].Names, []string{"c", "ch", "p"}) || !slices.Equal(lines[1].Names, []string{"d", "q"}) {
		t.Fatalf("%+v", lines)
	}
	if p := lines[0]; !p.Recognized || p.Closed || p.Authorized != 60 || p.Captured != 50 || p.Capturable != 10 || p.Refundable != 40 {
		t.Errorf("%+v", p)
	}
	if q := lines[1]; !q.Closed || q.Capturable != 0 || q.Refundable != 25 {
		t.Errorf("%+v", q)
	}
	if Capturable(v) != 10 || Refundable(v) != 65 {
		t.Errorf("capturable %d, refundable %d", Capturable(v), Refundable(v))
	}
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"capture the rest", CheckCapture(v, eur(10)), nil},
		{"capture more", CheckCapture(v, eur(11)), ErrExceedsCapturable},
		{"capture nothing", CheckCapture(v, eur(0)), ErrRange},
		{"capture in another currency", CheckCapture(v, Money{Value: 5, Currency: "USD"}), ErrMismatch},
		{"refund the rest", CheckRefund(v, lines, "", eur(65)), nil},
		{"refund more", CheckRefund(v, lines, "", eur(66)), ErrExceedsRefundable},
		{"refund of a line", CheckRefund(v, lines, "ch", eur(40)), nil},
		{"more than the line", CheckRefund(v, lines, "c", eur(41)), ErrExceedsRefundable},
		{"minus what is under way", CheckRefund(v, lines, "q", eur(26)), ErrExceedsRefundable},
		{"of a line that is not there", CheckRefund(v, lines, "z", eur(1)), ErrExceedsRefundable},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
}

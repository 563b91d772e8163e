package payment

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of the gate for our own operations.
var (
	// ErrExceedsRefundable: more than what is left after refunds, disputes, and
	// refunds that are under way or whose result is not known.
	ErrExceedsRefundable = errors.New("payment: exceeds what can be refunded")
	// ErrExceedsCapturable: more than what is authorized and not captured.
	ErrExceedsCapturable = errors.New("payment: exceeds what can be captured")
)

// Line is an authorization line as the gate sees it; minor units.
type Line struct {
	// Names are all names of the line, sorted, and of its captures.
	Names      []string
	Recognized bool
	Closed     bool
	Authorized int64
	Captured   int64
	// Capturable is what a capture may still take, Refundable what a refund may.
	Capturable int64
	Refundable int64
}

// Lines are the lines that money or an authorization is known of, by their
// smallest name.
func Lines(r Record, facts []Fact) []Line {
	b := read(r, facts)
	var out []Line
	for i := range b.lines {
		l := &b.lines[i]
		if !l.exists || b.roots[i] != int32(i) {
			continue
		}
		spoken := sat(l.refunded, l.lost, l.disputedOpen, l.pendingRefunds, l.reserved)
		line := Line{
			Recognized: l.recognized, Closed: l.closed(), Authorized: l.authorized, Captured: l.captured,
			Refundable: min(max(0, l.captured-spoken), b.view.Totals.Refundable),
		}
		if !line.Closed {
			line.Capturable = l.authorized - l.captured
		}
		for _, name := range b.names {
			if b.classOf(name) == int32(i) {
				line.Names = append(line.Names, name)
			}
		}
		for _, c := range b.captures {
			if c.line == int32(i) {
				line.Names = append(line.Names, c.object)
			}
		}
		slices.Sort(line.Names)
		line.Names = slices.Compact(line.Names)
		out = append(out, line)
	}
	return out
}

// Capturable is what captures may still take: what is authorized on lines that
// are open, less what is captured. Minor units of the view's currency.
func Capturable(v View) int64 { return max(0, v.Totals.Authorized-v.Totals.Captured-v.Totals.Released) }

// Refundable is what refunds may still take. Minor units of the view's currency.
func Refundable(v View) int64 { return v.Totals.Refundable }

// CheckCapture refuses a capture of our own that breaks conservation:
// ErrMismatch, ErrRange or ErrExceedsCapturable.
func CheckCapture(v View, amount Money) error {
	return check(v, amount, Capturable(v), ErrExceedsCapturable)
}

// CheckRefund refuses a refund of our own that breaks conservation of the
// payment, or of the line that name stands for where it is given: ErrMismatch,
// ErrRange or ErrExceedsRefundable.
func CheckRefund(v View, lines []Line, name string, amount Money) error {
	left := Refundable(v)
	if name != "" {
		i := slices.IndexFunc(lines, func(l Line) bool { return slices.Contains(l.Names, name) })
		if i < 0 {
			return fmt.Errorf("%w: no line is named %.64q", ErrExceedsRefundable, name)
		}
		left = min(left, lines[i].Refundable)
	}
	return check(v, amount, left, ErrExceedsRefundable)
}

func check(v View, amount Money, left int64, exceeds error) error {
	if err := amount.Positive(); err != nil {
		return err
	}
	if amount.Currency != v.Currency {
		return fmt.Errorf("%w: %.16q and %.16q", ErrMismatch, amount.Currency, v.Currency)
	}
	if amount.Value > left {
		return fmt.Errorf("%w: %d of %d %s", exceeds, amount.Value, left, amount.Currency)
	}
	return nil
}

package payment

import (
	"errors"
	"fmt"
)

// ErrFact says that a fact has no place in the model: an adapter's mistake.
// The fold ignores facts of unknown kinds and stages instead.
var ErrFact = errors.New("payment: not a fact of the model")

// Validate checks the form of one fact by itself; it compares it with nothing.
func (f Fact) Validate() error {
	kind := kindIndex(f.Kind)
	switch {
	case kind == isUnknown:
		return fmt.Errorf("%w: kind %.32q", ErrFact, f.Kind)
	case f.Object == "":
		return fmt.Errorf("%w: %s without object", ErrFact, f.Kind)
	case kind == isLink && f.Object >= f.Parent:
		return fmt.Errorf("%w: link of %.64q and %.64q, names must be two and sorted", ErrFact, f.Object, f.Parent)
	case rankOf(kind, &f) == noRank:
		return fmt.Errorf("%w: %s at stage %.32q", ErrFact, f.Kind, f.Stage)
	case f.Form != allowedForm(kind, f.Form):
		return fmt.Errorf("%w: %s in form %.32q", ErrFact, f.Kind, f.Form)
	case f.Round < 0 || f.Round > roundMax || kind != isDispute && f.Round != 0:
		return fmt.Errorf("%w: %s in round %d", ErrFact, f.Kind, f.Round)
	case f.Read < 0 || f.Version < 0:
		return fmt.Errorf("%w: %s with read %d, version %d", ErrFact, f.Kind, f.Read, f.Version)
	case f.Amount.IsZero():
		if f.Form == FormTotal {
			return fmt.Errorf("%w: %s total without amount", ErrFact, f.Kind)
		}
		return nil
	}
	if err := f.Amount.Validate(); err != nil {
		return fmt.Errorf("%w: %s %.64q: %w", ErrFact, f.Kind, f.Object, err)
	}
	return nil
}

// allowedForm returns the form itself where the kind has it, else one it has.
func allowedForm(kind int8, form Form) Form {
	switch kind {
	case isAuthorization, isCapture, isRefund:
		if form == FormTotal {
			return form
		}
		return FormItem
	case isReversal:
		return FormTotal
	case isDispute:
		return FormItem
	default:
		return ""
	}
}

package payment

import "strconv"

// Kind says what a fact speaks about (docs/states.md lists kinds and stages).
type Kind string

// The kinds of facts.
const (
	KindLink          Kind = "link"
	KindAuthorization Kind = "authorization"
	KindAdjustment    Kind = "adjustment"
	KindAttempt       Kind = "attempt"
	KindCapture       Kind = "capture"
	KindRefund        Kind = "refund"
	KindDispute       Kind = "dispute"
	KindReversal      Kind = "reversal"
	KindReservation   Kind = "reservation"
)

// Form tells one object with its own id (item) from a cumulative figure of a parent (total).
type Form string

// The forms of a fact.
const (
	FormItem  Form = "item"
	FormTotal Form = "total"
)

// Stage is the point in an object's life that a fact proves. Which stages a
// kind has, and their rank, stands in Stages.
type Stage string

// The stages of all kinds; for disputes the stage is the verdict of a round.
const (
	StagePending    Stage = "pending"
	StageAuthorized Stage = "authorized"
	StageCompleted  Stage = "completed"
	StageExpired    Stage = "expired"
	StageVoided     Stage = "voided"
	StageSucceeded  Stage = "succeeded"
	StageRefused    Stage = "refused"
	StageFailed     Stage = "failed"
	StageCanceled   Stage = "canceled"
	StageOpen       Stage = "open"
	StageWon        Stage = "won"
	StageLost       Stage = "lost"
	StageReserved   Stage = "reserved"
	// StageClear is proved by a numbered read only: the provider shows no dispute
	// (any more). It is nothing where none was ever seen, else the dispute is won.
	StageClear Stage = "clear"
)

// Fact is one statement that evidence proves about one provider object. It is
// comparable only by Key and Variant: facts with one key are one fact, and the
// same key with another amount, currency or parent is a variant of it.
type Fact struct {
	Kind Kind `json:"kind"`
	Form Form `json:"form,omitzero"`
	// Object is the primary name. For a link it is the lexically smaller of the two names.
	Object string `json:"object"`
	// Parent is the name of the line or capture the object belongs to, empty
	// when the provider does not say. For a link it is the larger of the two names.
	Parent string `json:"parent,omitzero"`
	Stage  Stage  `json:"stage,omitzero"`
	// Round orders the lives of one dispute: 0 inquiry, 1 chargeback, 2 second
	// chargeback, 3 pre-arbitration, 4 arbitration.
	Round int `json:"round,omitzero"`
	// Amount is in minor units of ISO 4217; an empty currency means that the
	// evidence states no amount.
	Amount Money `json:"amount,omitzero"`
	// Version is the intent version of an adjustment that is our operation, else 0.
	Version int `json:"version,omitzero"`
	// Read is the number of the read that yielded the fact, 0 for events.
	Read int64 `json:"read,omitzero"`
	// Covers are the keys of all facts that were known for the object when the
	// numbered read left.
	Covers []string `json:"covers,omitzero"`
	// Operation is the id of our operation that the evidence names.
	Operation string `json:"operation,omitzero"`
	// Loud marks an authorization that was closed where the provider's void does
	// not merely release a rest: money after it is a condition and an effect.
	Loud bool `json:"loud,omitzero"`
	// Silent marks an authorization that a completed direct capture implies: it
	// counts like any other and is not told to anybody.
	Silent bool `json:"silent,omitzero"`
}

// Link is the fact that two names mean the same line, whichever way round they
// are given.
func Link(a, b string) Fact {
	return Fact{Kind: KindLink, Object: min(a, b), Parent: max(a, b)}
}

// Key is the unique business identity of the fact inside provider, account and
// mode. It holds nothing that may be contested: no amount except where the
// amount is cumulative, no time, no event.
func (f Fact) Key() string {
	k := string(f.Kind) + "|" + string(f.Form) + "|" + f.Object
	switch {
	case f.Kind == KindLink:
		// The length keeps two pairs apart whose names contain the separator.
		k += "|" + f.Parent + "|" + strconv.Itoa(len(f.Object))
	case f.Kind == KindAdjustment:
	case f.Kind == KindAuthorization && f.Form == FormTotal:
		k += "|" + string(f.Stage) + "|" + strconv.FormatInt(f.Amount.Value, 10)
	case f.Form == FormTotal:
		k += "|" + strconv.FormatInt(f.Amount.Value, 10)
	case f.Kind == KindDispute:
		k += "|" + strconv.Itoa(f.Round) + "|" + string(f.Stage)
	default:
		k += "|" + string(f.Stage)
	}
	if f.Read != 0 {
		k += "|read:" + strconv.FormatInt(f.Read, 10)
	}
	return k
}

// Variant is what may differ between two facts of one key: amount, currency
// and parent, and the marks that evidence may or may not carry (operation,
// version, loud, silent), so that a fact with a mark is not lost as a copy of
// one without. The store's unique constraint is on key and variant.
func (f Fact) Variant() string {
	if f.Kind == KindLink {
		return ""
	}
	v := strconv.FormatInt(f.Amount.Value, 10) + "|" + f.Amount.Currency + "|" + f.Parent
	if f.Operation == "" && f.Version == 0 && !f.Loud && !f.Silent {
		return v
	}
	// In front, because a parent may contain anything and nothing here can.
	mark := "v" + strconv.Itoa(f.Version)
	if f.Loud {
		mark += "l"
	}
	if f.Silent {
		mark += "s"
	}
	return mark + "|" + strconv.Itoa(len(f.Operation)) + "|" + f.Operation + "|" + v
}

// Evidence is what one piece of evidence yields: the facts it proves and every
// name it mentions. It depends on that evidence and on account settings alone.
type Evidence struct {
	Facts []Fact `json:"facts,omitzero"`
	// Names are all provider ids the evidence mentions (payment intent, charge,
	// session, refund…); each becomes an alias of the payment. They include the
	// merchant's own reference where the provider carries one.
	Names []string `json:"names,omitzero"`
	// Payment is our payment id found in metadata (unavez_payment).
	Payment string `json:"payment,omitzero"`
	// Operation is our operation id found in metadata (unavez_operation).
	Operation string `json:"operation,omitzero"`
	// Order is the merchant's order id found under the account's metadata key.
	Order string `json:"order,omitzero"`
	// Root says that the evidence carries the authentic root object of a
	// payment, from which an unregistered payment may be adopted.
	Root bool `json:"root,omitzero"`
}

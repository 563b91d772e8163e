package payment

// AmountRule says which authorized amounts are recognized as this payment's.
type AmountRule string

// The rules: exactly the expected amount, or anything up to it (paid in parts).
const (
	RuleExact AmountRule = "exact"
	RuleUpTo  AmountRule = "up_to"
)

// FulfillOn says which money earns the order.
type FulfillOn string

// The rules of earning: captured money (default) or an authorization.
const (
	OnCaptured   FulfillOn = "captured"
	OnAuthorized FulfillOn = "authorized"
)

// Record is our own record of a payment, as far as the fold needs it.
type Record struct {
	// Expected is the amount that the merchant expects; zero for an adopted payment.
	Expected  Money
	Rule      AmountRule
	FulfillOn FulfillOn
	// Adopted says that no merchant has registered the payment: it notifies and
	// never fulfills.
	Adopted bool
	// CaptureSpeaks is the form of captures that notifies (facts.md section 8);
	// fixed per provider and account.
	CaptureSpeaks Form
}

// State of a payment, derived from the set of its facts.
type State string

// The states (facts.md 5.7).
const (
	StateExpected          State = "expected"
	StatePending           State = "pending"
	StateAuthorized        State = "authorized"
	StatePartiallyCaptured State = "partially_captured"
	StateCaptured          State = "captured"
	StatePartiallyRefunded State = "partially_refunded"
	StateRefunded          State = "refunded"
	StateCanceled          State = "canceled"
	StateFailed            State = "failed"
)

// DisputeState is the dispute axis of a payment.
type DisputeState string

// The states of the dispute axis.
const (
	DisputeNone DisputeState = "none"
	DisputeOpen DisputeState = "open"
	DisputeWon  DisputeState = "won"
	DisputeLost DisputeState = "lost"
)

// Totals of a payment in minor units of one currency (facts.md 5.6).
type Totals struct {
	Authorized     int64 `json:"authorized"`
	Captured       int64 `json:"captured"`
	Refunded       int64 `json:"refunded"`
	Lost           int64 `json:"lost"`
	Open           int64 `json:"open"`
	Disputed       int64 `json:"disputed"`
	Released       int64 `json:"released"`
	PendingRefunds int64 `json:"pending_refunds"`
	Reserved       int64 `json:"reserved"`
	Unmatched      int64 `json:"unmatched"`
	Refundable     int64 `json:"refundable"`
}

// ConditionKind names something odd that holds in a set of facts.
type ConditionKind string

// The conditions (facts.md section 7).
const (
	ConditionAccount                     ConditionKind = "account"
	ConditionCurrency                    ConditionKind = "currency"
	ConditionAmount                      ConditionKind = "amount"
	ConditionContested                   ConditionKind = "contested"
	ConditionFlip                        ConditionKind = "flip"
	ConditionMoneyAfterCancel            ConditionKind = "money_after_cancel"
	ConditionReturnedExceedsCaptured     ConditionKind = "returned_exceeds_captured"
	ConditionOverCaptured                ConditionKind = "over_captured"
	ConditionCaptureWithoutAuthorization ConditionKind = "capture_without_authorization"
	ConditionTotalWithoutItems           ConditionKind = "total_without_items"
	ConditionFailureWithoutAcceptance    ConditionKind = "failure_without_acceptance"
	ConditionAdjustments                 ConditionKind = "adjustments"
	ConditionParents                     ConditionKind = "parents"
	ConditionWhichDispute                ConditionKind = "which_dispute"
	ConditionDisputeCurrency             ConditionKind = "dispute_currency"
)

// Condition holds for a payment, or for one object of it; there is at most one
// exception for it. Object is a name that stands in a fact, never a derived one.
type Condition struct {
	Kind   ConditionKind `json:"kind"`
	Object string        `json:"object,omitzero"`
	// Keys are the facts that show it, sorted.
	Keys []string `json:"keys,omitzero"`
}

// View is everything that is derived from a record and the set of its facts.
type View struct {
	State   State        `json:"state"`
	Dispute DisputeState `json:"dispute"`
	// Currency is the record's, or for an adopted payment the one of its
	// smallest line name.
	Currency string `json:"currency"`
	Totals   Totals `json:"totals"`
	// OtherTotals are the totals of facts in other currencies: they count
	// nowhere else, but our books can be made to meet the provider's.
	OtherTotals map[string]Totals `json:"other_totals,omitzero"`
	Conditions  []Condition       `json:"conditions,omitzero"`
	// Earned says that the money that the merchant waits for is there.
	Earned bool `json:"earned"`
	// EarnedAmount is what the recognized lines hold towards the order's total
	// when Earned, else 0. Minor units of Currency.
	EarnedAmount int64 `json:"earned_amount"`
	// Returned says that nothing of the good money is left uncontested.
	Returned bool `json:"returned"`
	// GoodCaptured and GoodLeft are the captured money of the lines that are not
	// contradicted, and what of it is left uncontested. Minor units of Currency.
	GoodCaptured int64 `json:"good_captured"`
	GoodLeft     int64 `json:"good_left"`
}

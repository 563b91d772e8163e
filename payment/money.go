package payment

import "errors"

// Errors of money. They are about one value alone and never temporary.
var (
	// ErrCurrency says that a code is not a currency of ISO 4217 in capitals.
	ErrCurrency = errors.New("payment: not a currency of ISO 4217")
	// ErrNumber says that a text or number is not an exact, whole amount in the
	// form that was asked for.
	ErrNumber = errors.New("payment: not an exact amount")
	// ErrOverflow says that an amount does not fit 64 bits.
	ErrOverflow = errors.New("payment: amount out of range")
	// ErrMismatch says that two amounts are of different currencies.
	ErrMismatch = errors.New("payment: amounts of different currencies")
	// ErrStep says that a provider cannot carry the amount: its last digits
	// would be lost.
	ErrStep = errors.New("payment: amount is finer than the provider takes")
)

// Money is an exact amount in minor units of ISO 4217: 4800 EUR is 48.00 euro,
// 4800 JPY is 4800 yen. The zero value means that no amount is stated.
type Money struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

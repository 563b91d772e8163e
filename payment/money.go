package payment

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/bojanz/currency"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Errors of money. Each is about the value alone: trying again cannot help.
var (
	// ErrCurrency says that a code is no currency of ISO 4217 in capitals.
	ErrCurrency = errors.New("payment: not a currency of ISO 4217")
	// ErrNumber says that a text or a JSON value is not an exact amount in the
	// form that was asked for.
	ErrNumber = errors.New("payment: not an exact amount")
	// ErrRange says that an amount is negative or does not fit 63 bits.
	ErrRange = errors.New("payment: amount out of range")
	// ErrMismatch says that two amounts are of different currencies.
	ErrMismatch = errors.New("payment: amounts of different currencies")
	// ErrInexact says that an amount cannot be carried over between ISO 4217
	// and a provider's unit without losing digits.
	ErrInexact = errors.New("payment: amount is finer than the unit can carry")
)

// Money is an exact amount in minor units of ISO 4217: 4800 EUR is 48.00 euro,
// 4800 JPY is 4800 yen. It is never negative: which way the money goes stands
// in the kind of the fact. The zero value means that no amount is stated.
type Money struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

// Exponent returns the number of decimal places that ISO 4217 gives a
// currency, and whether there is such a currency.
func Exponent(code string) (int, bool) {
	digits, ok := currency.GetDigits(code)
	if !ok || digits == currency.DefaultDigits {
		return 0, false
	}
	return int(digits), true
}

// exponent is Exponent with an error that names the code.
func exponent(code string) (int, error) {
	e, ok := Exponent(code)
	if !ok {
		return 0, fmt.Errorf("%w: %.16q", ErrCurrency, code)
	}
	return e, nil
}

// Validate refuses unknown currencies and negative values. Zero is a valid
// amount; a caller that needs one above zero asks Positive.
func (m Money) Validate() error {
	if _, err := exponent(m.Currency); err != nil {
		return err
	}
	if m.Value < 0 {
		return fmt.Errorf("%w: %d %s is negative", ErrRange, m.Value, m.Currency)
	}
	return nil
}

// Positive is Validate for amounts that have to move something.
func (m Money) Positive() error {
	if err := m.Validate(); err != nil {
		return err
	}
	if m.Value == 0 {
		return fmt.Errorf("%w: 0 %s, must be above zero", ErrRange, m.Currency)
	}
	return nil
}

// IsZero says that no amount is stated; an amount of 0 EUR is stated.
func (m Money) IsZero() bool { return m == Money{} }

// Add returns the sum of two amounts of one currency, or ErrMismatch or ErrRange.
func (m Money) Add(o Money) (Money, error) {
	if m.Currency != o.Currency {
		return Money{}, fmt.Errorf("%w: %.16q and %.16q", ErrMismatch, m.Currency, o.Currency)
	}
	if m.Value < 0 || o.Value < 0 || m.Value > math.MaxInt64-o.Value {
		return Money{}, fmt.Errorf("%w: %d + %d %s", ErrRange, m.Value, o.Value, m.Currency)
	}
	return Money{Value: m.Value + o.Value, Currency: m.Currency}, nil
}

// Sub returns m less o, or ErrMismatch, or ErrRange where nothing would be left
// below zero.
func (m Money) Sub(o Money) (Money, error) {
	if m.Currency != o.Currency {
		return Money{}, fmt.Errorf("%w: %.16q and %.16q", ErrMismatch, m.Currency, o.Currency)
	}
	if m.Value < 0 || o.Value < 0 || m.Value < o.Value {
		return Money{}, fmt.Errorf("%w: %d - %d %s", ErrRange, m.Value, o.Value, m.Currency)
	}
	return Money{Value: m.Value - o.Value, Currency: m.Currency}, nil
}

// UnmarshalJSON reads {"value":4800,"currency":"EUR"} and nothing else: the
// value is a whole number in plain digits (no fraction, exponent, sign or
// quotes), exact up to 2^63-1; unknown, missing and repeated members are
// refused. The zero Money reads back as itself.
func (m *Money) UnmarshalJSON(data []byte) error {
	var raw struct {
		Value    jsontext.Value `json:"value"`
		Currency *string        `json:"currency"`
	}
	if err := json.Unmarshal(data, &raw, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: money needs the members value and currency alone: %w", ErrNumber, err)
	}
	if raw.Value == nil || raw.Currency == nil {
		return fmt.Errorf("%w: money needs the members value and currency", ErrNumber)
	}
	value, err := ParseMinor(string(raw.Value))
	if err != nil {
		return err
	}
	parsed := Money{Value: value, Currency: *raw.Currency}
	if !parsed.IsZero() {
		if err := parsed.Validate(); err != nil {
			return err
		}
	}
	*m = parsed
	return nil
}

// ParseMinor reads a whole amount of minor units as JSON writes an integer:
// plain digits without sign, fraction, exponent, quotes or leading zeros. It
// returns ErrNumber for another form and ErrRange for a value that is negative
// or above 2^63-1.
func ParseMinor(text string) (int64, error) {
	digits, negative := text, false
	if len(text) > 1 && text[0] == '-' {
		digits, negative = text[1:], true
	}
	if !allDigits(digits) || len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("%w: %s is not a whole number of minor units", ErrNumber, shorten(text))
	}
	if negative {
		return 0, fmt.Errorf("%w: %s is negative", ErrRange, shorten(text))
	}
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is above %d", ErrRange, shorten(text), int64(math.MaxInt64))
	}
	return value, nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// quotedMax bounds what of a foreign text an error repeats.
const quotedMax = 40

func shorten(s string) string {
	if len(s) > quotedMax {
		s = s[:quotedMax]
	}
	return strconv.QuoteToASCII(s)
}

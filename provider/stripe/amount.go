package stripe

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/payment"
)

// amounts is how Stripe counts currencies where it deviates from ISO 4217:
// ISK and UGX have two decimals that must be zero, MGA has none, and the last
// of three decimals is zero in what we send.
var amounts = payment.Deviation{
	"ISK": {Exponent: 2, Step: 100},
	"UGX": {Exponent: 2, Step: 100},
	"MGA": {Exponent: 0},
	"BHD": {Exponent: 3, Step: 10},
	"JOD": {Exponent: 3, Step: 10},
	"KWD": {Exponent: 3, Step: 10},
	"OMR": {Exponent: 3, Step: 10},
	"TND": {Exponent: 3, Step: 10},
}

// Amounts returns Stripe's deviations from ISO 4217, for those who render
// requests. It must not be changed.
func Amounts() payment.Deviation { return amounts }

// wholeMax is the largest integer that every reader of JSON carries exactly. A
// larger one may have been rounded on its way, so it is refused.
const wholeMax = 1<<53 - 1

var errWhole = errors.New("not a whole number in plain digits")

// whole reads a JSON number that is a plain, non-negative integer: no quotes,
// sign, fraction or exponent.
func whole(v jsontext.Value) (int64, error) {
	if v.Kind() != '0' {
		return 0, errWhole
	}
	n, err := payment.ParseMinor(string(v))
	if err != nil {
		return 0, err
	}
	if n > wholeMax {
		return 0, fmt.Errorf("%w: %d is above %d", payment.ErrRange, n, int64(wholeMax))
	}
	return n, nil
}

// currencyCode turns Stripe's lower-case code into ISO 4217's capitals.
func currencyCode(s string) (string, error) {
	if len(s) != 3 {
		return "", payment.ErrCurrency
	}
	code := []byte(s)
	for i, c := range code {
		switch {
		case c >= 'a' && c <= 'z':
			code[i] = c - 'a' + 'A'
		case c < 'A' || c > 'Z':
			return "", payment.ErrCurrency
		}
	}
	return string(code), nil
}

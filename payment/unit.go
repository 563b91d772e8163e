package payment

import (
	"fmt"
	"math"
	"strings"
)

// Unit is how a provider counts one currency where it deviates from ISO 4217.
type Unit struct {
	// Exponent is the number of decimal places of the provider's unit.
	Exponent int
	// Step is what every amount that we send must be a multiple of, in the
	// provider's unit; 0 means any. What the provider reports is not held to it.
	Step int64
}

// Deviation lists the currencies that a provider counts otherwise than ISO
// 4217 does; a currency that is not listed is counted as in ISO 4217. An
// adapter keeps its provider's as data.
type Deviation map[string]Unit

func (d Deviation) unit(code string) (iso int, u Unit, err error) {
	iso, err = exponent(code)
	if err != nil {
		return 0, Unit{}, err
	}
	u, ok := d[code]
	if !ok {
		u.Exponent = iso
	}
	return iso, u, nil
}

// FromProvider converts a provider's integer to Money. The code is in
// capitals. It returns ErrInexact where digits would be lost.
func FromProvider(value int64, code string, dev Deviation) (Money, error) {
	iso, u, err := dev.unit(code)
	if err != nil {
		return Money{}, err
	}
	minor, err := rescale(value, u.Exponent, iso)
	if err != nil {
		return Money{}, fmt.Errorf("reading %d %s with %d decimals: %w", value, code, u.Exponent, err)
	}
	return Money{Value: minor, Currency: code}, nil
}

// ToProvider converts Money to the provider's integer. It returns ErrInexact
// where digits would be lost or the provider's step is not met.
func ToProvider(m Money, dev Deviation) (int64, error) {
	iso, u, err := dev.unit(m.Currency)
	if err != nil {
		return 0, err
	}
	value, err := rescale(m.Value, iso, u.Exponent)
	if err == nil && u.Step > 1 && value%u.Step != 0 {
		err = fmt.Errorf("%w: not a multiple of %d", ErrInexact, u.Step)
	}
	if err != nil {
		return 0, fmt.Errorf("sending %d %s with %d decimals: %w", m.Value, m.Currency, u.Exponent, err)
	}
	return value, nil
}

// ToProviderDecimal writes Money as the decimal text of a provider, with as
// many places as its unit has: 10.00 EUR, 1000 HUF where HUF has none.
func ToProviderDecimal(m Money, dev Deviation) (string, error) {
	value, err := ToProvider(m, dev)
	if err != nil {
		return "", err
	}
	_, u, err := dev.unit(m.Currency)
	if err != nil {
		return "", err
	}
	return decimal(value, u.Exponent), nil
}

// rescale moves a non-negative integer from one number of decimals to another.
func rescale(value int64, from, to int) (int64, error) {
	if value < 0 {
		return 0, fmt.Errorf("%w: negative", ErrRange)
	}
	for ; from < to; from++ {
		if value > math.MaxInt64/10 {
			return 0, ErrRange
		}
		value *= 10
	}
	for ; from > to; from-- {
		if value%10 != 0 {
			return 0, ErrInexact
		}
		value /= 10
	}
	return value, nil
}

// decimalBytesMax bounds a decimal text: 19 digits, the point, and padding
// zeros that some providers send.
const decimalBytesMax = 48

// ParseDecimal reads a decimal text in major units ("48.00", "48", "48.0") as
// an exact amount. There is no sign, exponent, space, grouping or leading zero.
// Places beyond the currency's exponent must be zero: nothing is rounded. It
// returns ErrNumber, ErrInexact, ErrRange or ErrCurrency.
func ParseDecimal(text, code string) (Money, error) {
	places, err := exponent(code)
	if err != nil {
		return Money{}, err
	}
	whole, fraction, point := strings.Cut(text, ".")
	if len(text) > decimalBytesMax || !allDigits(whole) || point && !allDigits(fraction) ||
		len(whole) > 1 && whole[0] == '0' {
		return Money{}, fmt.Errorf("%w: %s is not a plain decimal number", ErrNumber, shorten(text))
	}
	if extra := len(fraction) - places; extra > 0 {
		if strings.Trim(fraction[places:], "0") != "" {
			return Money{}, fmt.Errorf("%w: %s %s has more than %d decimals", ErrInexact, shorten(text), code, places)
		}
		fraction = fraction[:places]
	}
	digits := strings.TrimLeft(whole+fraction+strings.Repeat("0", places-len(fraction)), "0")
	if digits == "" {
		digits = "0"
	}
	value, err := ParseMinor(digits)
	if err != nil {
		return Money{}, fmt.Errorf("reading %s %s: %w", shorten(text), code, err)
	}
	return Money{Value: value, Currency: code}, nil
}

// Decimal writes the amount in major units with all the places of its
// currency: "48.00", "4800", "4.800". ParseDecimal reads it back.
func (m Money) Decimal() (string, error) {
	if err := m.Validate(); err != nil {
		return "", err
	}
	places, err := exponent(m.Currency)
	if err != nil {
		return "", err
	}
	return decimal(m.Value, places), nil
}

// decimal writes a non-negative integer with a point before its last places.
func decimal(value int64, places int) string {
	digits := fmt.Sprintf("%0*d", places+1, value)
	if places == 0 {
		return digits
	}
	return digits[:len(digits)-places] + "." + digits[len(digits)-places:]
}

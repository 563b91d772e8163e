package payment

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// stripeUnits and paypalUnits have the shape of providers' deviations.
var (
	stripeUnits = Deviation{
		"ISK": {Exponent: 2, Step: 100}, "UGX": {Exponent: 2, Step: 100}, "MGA": {Exponent: 0},
		"BHD": {Exponent: 3, Step: 10}, "JOD": {Exponent: 3, Step: 10}, "KWD": {Exponent: 3, Step: 10},
		"OMR": {Exponent: 3, Step: 10}, "TND": {Exponent: 3, Step: 10},
	}
	adyenUnits  = Deviation{"CLP": {Exponent: 2}, "ISK": {Exponent: 2}, "CVE": {Exponent: 0}, "IDR": {Exponent: 0}}
	paypalUnits = Deviation{"HUF": {Exponent: 0}, "TWD": {Exponent: 0}}
)

// R2.8: the exponents of ISO 4217.
func TestExponent(t *testing.T) {
	for code, want := range map[string]int{
		"EUR": 2, "USD": 2, "JPY": 0, "KRW": 0, "KWD": 3, "BHD": 3, "ISK": 0, "UGX": 0, "MGA": 2, "CLP": 0,
		"HUF": 2, "TWD": 2, "CLF": 4, "TND": 3, "IDR": 2, "CVE": 2,
	} {
		if got, ok := Exponent(code); !ok || got != want {
			t.Errorf("Exponent(%s) = %d, %t, want %d", code, got, ok, want)
		}
	}
	for _, code := range []string{"", "eur", "EU", "EURO", "ZZZ", " EUR"} {
		if _, ok := Exponent(code); ok {
			t.Errorf("Exponent(%q) is known", code)
		}
	}
}

// R2.8: whole numbers alone, exact, or a clear refusal.
func TestMoneyJSON(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		err  error
	}{
		{`{"value":510,"currency":"EUR"}`, 510, nil},
		{`{"currency":"EUR","value":0}`, 0, nil},
		{`{"value":9007199254740993,"currency":"EUR"}`, 9007199254740993, nil},
		{`{"value":9223372036854775807,"currency":"EUR"}`, math.MaxInt64, nil},
		{`{"value":9223372036854775808,"currency":"EUR"}`, 0, ErrRange},
		{`{"value":99999999999999999999999999999999999999999999,"currency":"EUR"}`, 0, ErrRange},
		{`{"value":-1,"currency":"EUR"}`, 0, ErrRange},
		{`{"value":-0,"currency":"EUR"}`, 0, ErrRange},
		{`{"value":5.1,"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":510.0,"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":1e3,"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":"510","currency":"EUR"}`, 0, ErrNumber},
		{`{"value":null,"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":true,"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":510}`, 0, ErrNumber},
		{`{"currency":"EUR"}`, 0, ErrNumber},
		{`{"value":510,"currency":null}`, 0, ErrNumber},
		{`{"value":510,"currency":"EUR","more":1}`, 0, ErrNumber},
		{`{"value":510,"value":511,"currency":"EUR"}`, 0, ErrNumber},
		{`{"Value":510,"currency":"EUR"}`, 0, ErrNumber},
		{`510`, 0, ErrNumber},
		{`{"value":510,"currency":"eur"}`, 0, ErrCurrency},
		{`{"value":510,"currency":"ZZZ"}`, 0, ErrCurrency},
		{`{"value":510,"currency":""}`, 0, ErrCurrency},
	} {
		var m Money
		// The method itself is strict, whoever calls it.
		for _, err := range []error{m.UnmarshalJSON([]byte(c.text)), json.Unmarshal([]byte(c.text), &m)} {
			if c.err == nil && (err != nil || m != eur(c.want)) {
				t.Errorf("%s: %+v, %v, want %d", c.text, m, err, c.want)
			}
			// A repeated member may be refused before money is asked.
			if c.err != nil && (err == nil || !errors.Is(err, c.err) && !strings.Contains(err.Error(), "duplicate")) {
				t.Errorf("%s: %v, want %v", c.text, err, c.err)
			}
		}
		if c.err != nil && !m.IsZero() {
			t.Errorf("%s: refused, and left %+v", c.text, m)
		}
	}
	for _, m := range []Money{{}, eur(0), eur(4800)} {
		text, err := json.Marshal(m)
		back := Money{Value: 7, Currency: "JPY"}
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back != m {
			t.Errorf("%+v reads back as %+v: %v", m, back, err)
		}
	}
}

func TestMoneyArithmetic(t *testing.T) {
	most := eur(math.MaxInt64)
	for _, c := range []struct {
		name string
		do   func() (Money, error)
		want int64
		err  error
	}{
		{"add", func() (Money, error) { return eur(30).Add(eur(40)) }, 70, nil},
		{"add to the brim", func() (Money, error) { return eur(1).Add(eur(math.MaxInt64 - 1)) }, math.MaxInt64, nil},
		{"add over", func() (Money, error) { return most.Add(eur(1)) }, 0, ErrRange},
		{"add negative", func() (Money, error) { return eur(5).Add(eur(-1)) }, 0, ErrRange},
		{"add other", func() (Money, error) { return eur(5).Add(Money{Value: 5, Currency: "USD"}) }, 0, ErrMismatch},
		{"sub", func() (Money, error) { return eur(70).Sub(eur(70)) }, 0, nil},
		{"sub below zero", func() (Money, error) { return eur(1).Sub(eur(2)) }, 0, ErrRange},
		{"sub negative", func() (Money, error) { return eur(1).Sub(eur(-2)) }, 0, ErrRange},
		{"sub other", func() (Money, error) { return eur(5).Sub(Money{Value: 5, Currency: "USD"}) }, 0, ErrMismatch},
	} {
		got, err := c.do()
		if !errors.Is(err, c.err) || c.err == nil && got != eur(c.want) {
			t.Errorf("%s: %+v, %v, want %d, %v", c.name, got, err, c.want, c.err)
		}
	}
	if err := eur(0).Positive(); !errors.Is(err, ErrRange) {
		t.Errorf("0 EUR moves something: %v", err)
	}
	if err := eur(1).Positive(); err != nil {
		t.Error(err)
	}
	if err := eur(-1).Positive(); !errors.Is(err, ErrRange) {
		t.Errorf("-1 EUR: %v", err)
	}
	if err := (Money{Value: 1}).Validate(); !errors.Is(err, ErrCurrency) {
		t.Errorf("no currency: %v", err)
	}
}

// R2.8: decimal texts are exact in both directions.
func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text, code string
		want       int64
		back       string
		err        error
	}{
		{"48.00", "EUR", 4800, "48.00", nil},
		{"48", "EUR", 4800, "48.00", nil},
		{"0.1", "EUR", 10, "0.10", nil},
		{"0", "EUR", 0, "0.00", nil},
		{"0.00", "EUR", 0, "0.00", nil},
		{"4800", "JPY", 4800, "4800", nil},
		{"4800.00", "JPY", 4800, "4800", nil},
		{"4.805", "KWD", 4805, "4.805", nil},
		{"0.0001", "CLF", 1, "0.0001", nil},
		{"92233720368547758.07", "EUR", math.MaxInt64, "92233720368547758.07", nil},
		{"92233720368547758.08", "EUR", 0, "", ErrRange},
		{"48.001", "EUR", 0, "", ErrInexact},
		{"48.5", "JPY", 0, "", ErrInexact},
		{"48.0000000", "EUR", 4800, "48.00", nil},
		{"1", "eur", 0, "", ErrCurrency},
		{"", "EUR", 0, "", ErrNumber}, {".5", "EUR", 0, "", ErrNumber}, {"5.", "EUR", 0, "", ErrNumber},
		{"+5", "EUR", 0, "", ErrNumber}, {"-5", "EUR", 0, "", ErrNumber}, {"05", "EUR", 0, "", ErrNumber},
		{"1e3", "EUR", 0, "", ErrNumber}, {"1,000.00", "EUR", 0, "", ErrNumber}, {" 5", "EUR", 0, "", ErrNumber},
		{"5.0.0", "EUR", 0, "", ErrNumber}, {"٥", "EUR", 0, "", ErrNumber},
		{"0." + strings.Repeat("0", decimalBytesMax), "EUR", 0, "", ErrNumber},
	} {
		m, err := ParseDecimal(c.text, c.code)
		if !errors.Is(err, c.err) || c.err == nil && m != (Money{Value: c.want, Currency: c.code}) {
			t.Errorf("%q %s: %+v, %v, want %d, %v", c.text, c.code, m, err, c.want, c.err)
		}
		if c.err != nil {
			continue
		}
		if back, err := m.Decimal(); err != nil || back != c.back {
			t.Errorf("%+v writes %q, %v, want %q", m, back, err, c.back)
		}
	}
	if _, err := eur(-1).Decimal(); !errors.Is(err, ErrRange) {
		t.Errorf("-1 EUR: %v", err)
	}
}

// R2.8: providers' units that deviate from ISO 4217, exact or refused.
func TestProviderUnits(t *testing.T) {
	for _, c := range []struct {
		name  string
		dev   Deviation
		code  string
		there int64
		here  int64
		err   error // of reading there
		back  error // of sending here
	}{
		{"as in ISO", nil, "EUR", 4800, 4800, nil, nil},
		{"zero decimals", nil, "JPY", 4800, 4800, nil, nil},
		{"Stripe ISK", stripeUnits, "ISK", 4800, 48, nil, nil},
		{"Stripe UGX", stripeUnits, "UGX", 500, 5, nil, nil},
		{"Stripe ISK in part", stripeUnits, "ISK", 4850, 0, ErrInexact, nil},
		{"Stripe MGA", stripeUnits, "MGA", 48, 4800, nil, nil},
		{"Stripe MGA in part", stripeUnits, "MGA", 0, 4850, nil, ErrInexact},
		{"Stripe KWD", stripeUnits, "KWD", 5120, 5120, nil, nil},
		{"Stripe KWD reads any digit, sends 0", stripeUnits, "KWD", 5123, 5123, nil, ErrInexact},
		{"Adyen CLP", adyenUnits, "CLP", 4800, 48, nil, nil},
		{"Adyen CVE", adyenUnits, "CVE", 48, 4800, nil, nil},
		{"Adyen IDR", adyenUnits, "IDR", 48, 4800, nil, nil},
		{"Adyen ISK", adyenUnits, "ISK", 4800, 48, nil, nil},
		{"PayPal HUF", paypalUnits, "HUF", 1000, 100000, nil, nil},
		{"PayPal TWD", paypalUnits, "TWD", 1000, 100000, nil, nil},
		{"too large", stripeUnits, "MGA", math.MaxInt64 / 10, 0, ErrRange, nil},
		{"negative", nil, "EUR", -1, 0, ErrRange, nil},
		{"unknown", stripeUnits, "isk", 100, 0, ErrCurrency, nil},
	} {
		got, err := FromProvider(c.there, c.code, c.dev)
		if !errors.Is(err, c.err) || c.err == nil && c.back == nil && got.Value != c.here {
			t.Errorf("%s: reading: %+v, %v", c.name, got, err)
		}
		if c.err != nil {
			continue
		}
		sent, err := ToProvider(Money{Value: c.here, Currency: c.code}, c.dev)
		if !errors.Is(err, c.back) || c.back == nil && sent != c.there {
			t.Errorf("%s: sending: %d, %v", c.name, sent, err)
		}
	}
	if _, err := ToProvider(Money{Value: 1, Currency: "isk"}, stripeUnits); !errors.Is(err, ErrCurrency) {
		t.Errorf("unknown currency sent: %v", err)
	}
	text, err := ToProviderDecimal(Money{Value: 100000, Currency: "HUF"}, paypalUnits)
	if err != nil || text != "1000" {
		t.Errorf("PayPal HUF: %q, %v", text, err)
	}
	if _, err := ToProviderDecimal(Money{Value: 100050, Currency: "HUF"}, paypalUnits); !errors.Is(err, ErrInexact) {
		t.Errorf("PayPal HUF in part: %v", err)
	}
}

// R2.8: whatever is read is exact, and nothing panics.
func FuzzMoney(f *testing.F) {
	for _, text := range []string{"48.00", "0", "510.0", "1e3", "-5", "92233720368547758.08", `{"value":1,"currency":"EUR"}`, "05"} {
		for _, code := range []string{"EUR", "JPY", "KWD", "ISK", "MGA", "eur"} {
			f.Add(text, code)
		}
	}
	f.Fuzz(func(t *testing.T, text, code string) {
		if m, err := ParseDecimal(text, code); err == nil {
			out, err := m.Decimal()
			again, err2 := ParseDecimal(out, code)
			if err != nil || err2 != nil || again != m {
				t.Fatalf("%q %s: %+v writes %q and reads back %+v: %v, %v", text, code, m, out, again, err, err2)
			}
			for _, dev := range []Deviation{nil, stripeUnits, adyenUnits, paypalUnits} {
				if value, err := ToProvider(m, dev); err == nil {
					if back, err := FromProvider(value, code, dev); err != nil || back != m {
						t.Fatalf("%+v goes out as %d and comes back as %+v: %v", m, value, back, err)
					}
				}
			}
		}
		if value, err := ParseMinor(text); err == nil && (value < 0 || decimal(value, 0) != text) {
			t.Fatalf("%q reads as %d", text, value)
		}
		var m Money
		if err := m.UnmarshalJSON([]byte(text)); err == nil && !m.IsZero() {
			if err := m.Validate(); err != nil {
				t.Fatalf("%q reads as %+v: %v", text, m, err)
			}
		}
	})
}

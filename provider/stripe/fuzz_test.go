package stripe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// R1.4: a header that verifies holds the signature, computed here a second time,
// of its own time and the body; whatever else it holds, nothing panics.
func FuzzHeader(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(strings.Join(v.Delivery.Header["Stripe-Signature"], "\n"), v.Delivery.Body, int64(0))
	}
	f.Add("", []byte("{}"), int64(301))
	f.Fuzz(func(t *testing.T, header string, body []byte, late int64) {
		acc := testAccount()
		now := time.Unix(vectorTime, 0)
		signed := stripe.Sign(body, now.Add(-time.Duration(late)), acc.Secrets...)
		for _, lines := range [][]string{strings.Split(header, "\n"), {header + "," + signed}, {signed + "," + header}, {signed, header}} {
			items, err := stripe.Adapter{}.Verify(acc, delivery(body, now, lines...))
			if (err == nil) != (len(items) == 1) {
				t.Fatalf("%d items with %v", len(items), err)
			}
			if err != nil {
				if !errors.Is(err, provider.ErrSignature) && !errors.Is(err, provider.ErrAge) && !errors.Is(err, provider.ErrForm) {
					t.Fatalf("an error of no kind: %v", err)
				}
				continue
			}
			if !signedBy(lines, body, "whsec_first") {
				t.Fatalf("%q verifies for %q", lines, body)
			}
		}
	})
}

// signedBy looks for the signature under any of the times in one line.
func signedBy(lines []string, body []byte, secret string) bool {
	for _, line := range lines {
		lower := strings.ToLower(line)
		for part := range strings.SplitSeq(line, ",") {
			var at int64
			if n, err := fmt.Sscanf(part, "t=%d", &at); n != 1 || err != nil {
				continue
			}
			h := hmac.New(sha256.New, []byte(secret))
			fmt.Fprintf(h, "%d.%s", at, body)
			if strings.Contains(lower, "v1="+hex.EncodeToString(h.Sum(nil))) {
				return true
			}
		}
	}
	return false
}

// R1.3: any payload is understood, always in the same way and with facts that have
// a place in the model, or refused as malformed, without facts.
func FuzzEnvelope(f *testing.F) {
	for _, raw := range raws(f) {
		f.Add(raw)
	}
	f.Add([]byte(event("charge.failed", charge+`"status":"failed"`)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		ev, err := stripe.Adapter{}.Parse(testAccount(), payload)
		again, err2 := stripe.Adapter{}.Parse(testAccount(), payload)
		if !reflect.DeepEqual(ev, again) || (err == nil) != (err2 == nil) {
			t.Fatalf("read twice: %+v, %v; %+v, %v", ev, err, again, err2)
		}
		if err != nil {
			if !errors.Is(err, provider.ErrMalformed) || len(ev.Facts) != 0 {
				t.Fatalf("%v with facts %v", err, ev.Facts)
			}
			return
		}
		if ev.Identity == "" || ev.Type == "" || ev.Lane == "" {
			t.Fatalf("understood without identity: %+v", ev)
		}
		for _, fact := range ev.Facts {
			if err := fact.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// R2.8: an amount is exactly the digits that were sent, or refused.
func FuzzAmount(f *testing.F) {
	for _, amount := range []string{"0", "100", "4800", "5.1", `"510"`, "510.0", "1e3", "9007199254740993", "-1", "-0", "0100", "null", " 7 "} {
		for _, currency := range []string{"eur", "jpy", "isk", "mga", "kwd", "usdc"} {
			f.Add(amount, currency)
		}
	}
	f.Fuzz(func(t *testing.T, amount, currency string) {
		if strings.ContainsAny(amount, ",:{}[]\"") || strings.ContainsAny(currency, `"\`) {
			return // such texts change the event around the amount
		}
		ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(priced(amount, currency)))
		if err != nil {
			return
		}
		var got payment.Money
		for _, fact := range ev.Facts {
			if fact.Kind == payment.KindCapture {
				got = fact.Amount
			}
		}
		if got.IsZero() && strings.Trim(amount, " \t\r\n") == "0" {
			return
		}
		sent, err := payment.ToProvider(got, exact(stripe.Amounts()))
		if err != nil || fmt.Sprint(sent) != strings.Trim(amount, " \t\r\n") || !strings.EqualFold(got.Currency, currency) {
			t.Fatalf("%s %s is read as %+v (%d, %v)", amount, currency, got, sent, err)
		}
	})
}

// exact is the deviation without the steps that bind only what is sent.
func exact(d payment.Deviation) payment.Deviation {
	out := payment.Deviation{}
	for code, unit := range d {
		out[code] = payment.Unit{Exponent: unit.Exponent}
	}
	return out
}

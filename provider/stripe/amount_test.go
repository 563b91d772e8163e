package stripe_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

func priced(amount, currency string) string {
	return event("payment_intent.succeeded", `"id":"pi","object":"payment_intent","status":"succeeded","amount":1,"amount_received":`+amount+`,"currency":"`+currency+`"`)
}

// captureOf returns the captured amount that an event proves.
func captureOf(t *testing.T, payload string) payment.Money {
	t.Helper()
	ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(payload))
	if err != nil {
		t.Error(err)
	}
	for _, f := range ev.Facts {
		if f.Kind == payment.KindCapture {
			return f.Amount
		}
	}
	return payment.Money{}
}

// R2.8: amounts are read in ISO 4217's minor units, by Stripe's deviations.
func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		currency string
		sent     int64
		want     int64
	}{
		{"eur", 4800, 4800}, {"EUR", 4800, 4800}, {"jpy", 4800, 4800}, {"krw", 1, 1}, {"clp", 500, 500}, {"vnd", 500, 500},
		{"kwd", 5120, 5120}, {"tnd", 10, 10}, {"bhd", 10, 10}, {"jod", 10, 10}, {"omr", 10, 10},
		{"isk", 4800, 48}, {"ugx", 100, 1}, {"mga", 48, 4800}, {"huf", 4801, 4801}, {"twd", 4801, 4801},
		{"bif", 7, 7}, {"djf", 7, 7}, {"gnf", 7, 7}, {"kmf", 7, 7}, {"pyg", 7, 7}, {"rwf", 7, 7}, {"vuv", 7, 7}, {"xaf", 7, 7}, {"xof", 7, 7}, {"xpf", 7, 7},
		{"eur", 1<<53 - 1, 1<<53 - 1},
	} {
		payload := priced(strconv.FormatInt(c.sent, 10), c.currency)
		payload = strings.Replace(payload, `"amount":1,`, `"amount":`+strconv.FormatInt(c.sent, 10)+`,`, 1)
		want := payment.Money{Value: c.want, Currency: strings.ToUpper(c.currency)}
		if got := captureOf(t, payload); got != want {
			t.Errorf("%d %s is read as %+v, want %+v", c.sent, c.currency, got, want)
		}
		if sent, err := payment.ToProvider(want, stripe.Amounts()); err != nil || sent != c.sent {
			t.Errorf("%+v is sent as %d, %v", want, sent, err)
		}
	}
}

// R2.8: what is not an exact integer is refused, by the field's name.
func TestAmountsRefused(t *testing.T) {
	for _, bad := range []string{"5.1", `"510"`, "510.0", "1e3", "5.1e2", "9007199254740993", "9007199254740992", "-1", "-0", "9223372036854775808", "1e999", "true", "{}", "[5]", `""`} {
		for _, field := range []struct{ name, payload string }{
			{"data.object.amount_received", priced(bad, "eur")},
			{"data.object.amount", event("payment_intent.created", `"id":"pi","object":"payment_intent","amount":`+bad+`,"currency":"eur"`)},
			{"data.object.amount_captured", event("charge.captured", charge+`"status":"succeeded","amount_captured":`+bad)},
			{"data.object.amount_refunded", event("charge.refunded", charge+`"status":"succeeded","amount_captured":100,"amount_refunded":`+bad)},
			{"data.object.amount", event("refund.created", strings.Replace(refund, ":30,", ":"+bad+",", 1)+`"status":"pending"`)},
			{"data.object.amount", event("charge.dispute.created", strings.Replace(claim, ":100,", ":"+bad+",", 1)+`"status":"lost"`)},
			{"data.object.amount_total", event("checkout.session.completed", strings.Replace(cart, ":100,", ":"+bad+",", 1)+`"payment_status":"paid"`)},
			{"data.object.refunds.data[0].amount", event("charge.refunded", charge+`"status":"succeeded","amount_captured":100,"refunds":{"data":[{"id":"re","object":"refund","currency":"eur","status":"pending","amount":`+bad+`}]}`)},
		} {
			ev, err := stripe.Adapter{}.Parse(testAccount(), []byte(field.payload))
			if !errors.Is(err, provider.ErrMalformed) || !strings.Contains(err.Error(), field.name+":") || len(ev.Facts) != 0 || ev.Identity != "evt_1" {
				t.Errorf("%s = %s: %v, %v", field.name, bad, err, ev.Facts)
			}
		}
	}
	for name, payload := range map[string]string{
		"a fraction of a krona":      priced("4850", "isk"),
		"a fraction of a shilling":   priced("1", "ugx"),
		"no currency":                priced("1", ""),
		"a currency beyond ISO 4217": priced("1", "usdc"),
		"received is missing":        event("payment_intent.succeeded", intent+`"status":"succeeded"`),
		"captured is missing":        event("charge.refunded", charge+`"status":"succeeded","captured":true,"amount_refunded":30`),
		"a refund without amount":    event("refund.created", `"id":"re","object":"refund","currency":"eur","status":"succeeded"`),
		"a paid session without":     event("checkout.session.completed", `"id":"cs","object":"checkout.session","currency":"eur","payment_intent":"pi","payment_status":"paid"`),
	} {
		if ev, err := (stripe.Adapter{}).Parse(testAccount(), []byte(payload)); !errors.Is(err, provider.ErrMalformed) || len(ev.Facts) != 0 {
			t.Errorf("%s: %v, %v", name, err, ev.Facts)
		}
	}
}

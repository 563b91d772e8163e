package stripe_test

import (
	"testing"
	"time"

	"github.com/unavez/unavez/provider/stripe"
)

func BenchmarkVerify(b *testing.B) {
	body, acc, now := raws(b)["charge_refunded_2020"], testAccount(), time.Unix(vectorTime, 0)
	d := delivery(body, now, stripe.Sign(body, now, acc.Secrets...))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := (stripe.Adapter{}).Verify(acc, d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body, acc := raws(b)["charge_refunded_2020"], testAccount()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (stripe.Adapter{}).Parse(acc, body); err != nil {
			b.Fatal(err)
		}
	}
}

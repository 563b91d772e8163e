package stripe_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// How many deliveries are accepted, and how many damaged ones are judged; a
// tenth unless UNAVEZ_PROVE is 1.
const (
	validFull   = 10_000
	mutatedFull = 100_000
	fraction    = 10
)

// tolerance is the contract's, on both sides.
const tolerance = 300 * time.Second

// count is the number of deliveries of the size that is asked for.
func count(full int) int {
	if os.Getenv("UNAVEZ_PROVE") == "1" {
		return full
	}
	return full / fraction
}

// source returns the generator; UNAVEZ_SEED repeats a run.
func source(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("UNAVEZ_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("UNAVEZ_SEED: %v", err)
		}
	}
	t.Logf("seed %d; UNAVEZ_SEED=%d repeats this run", seed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// sample is a delivery on its way to both judges.
type sample struct {
	body    []byte
	header  string
	secrets []string
	at      int64 // the time that was signed
}

// verdict of both, and what explains a difference.
type verdict struct {
	theirs, ours error
	why          string
}

// judge asks both. Their library takes one secret at a time, and any that
// accepts is enough. It reads the clock, which stands still in the bubble.
func judge(s sample, now time.Time) verdict {
	v := verdict{theirs: webhook.ErrNotSigned}
	acc := &provider.Account{}
	for _, secret := range s.secrets {
		acc.Secrets = append(acc.Secrets, provider.Secret(secret))
		if err := webhook.ValidatePayloadWithTolerance(s.body, s.header, secret, tolerance); v.theirs != nil {
			v.theirs = err
		}
	}
	_, v.ours = stripe.Adapter{}.Verify(acc, &provider.Delivery{
		Header: http.Header{"Stripe-Signature": {s.header}}, Body: s.body, ReceivedAt: now,
	})
	switch {
	case len(s.body) == 0 && v.theirs == nil && errors.Is(v.ours, provider.ErrForm):
		v.why = "empty body"
	case v.theirs == nil && errors.Is(v.ours, provider.ErrAge) && time.Unix(stamped(s.header), 0).Sub(now) > tolerance:
		v.why = "future"
	}
	return v
}

// stamped is the last time stamp of a header, in their library's own terms.
func stamped(header string) (at int64) {
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(part, "t="); ok {
			at, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return at
}

// check fails on a difference that nothing explains.
func check(t *testing.T, s sample, v verdict) {
	t.Helper()
	if (v.theirs == nil) != (v.ours == nil) && v.why == "" {
		t.Errorf("theirs: %v, ours: %v\nheader  %s\nsecrets %q\nbody    %q", v.theirs, v.ours, s.header, s.secrets, s.body)
	}
}

// R1.4: valid deliveries are judged as Stripe's library judges them, up to the
// second at which they grow too old.
func TestValidDeliveries(t *testing.T) {
	rng := source(t)
	synctest.Test(t, func(t *testing.T) {
		now, tally := time.Now(), map[string]int{}
		for tally["accepted"] < count(validFull) {
			s := valid(rng, now)
			v := judge(s, now)
			check(t, s, v)
			age := now.Unix() - s.at
			if accepted := age <= 300 && age >= -300; accepted != (v.ours == nil) {
				t.Errorf("signed %d s ago: ours %v", age, v.ours)
			}
			if future := age < -300; future != (v.why == "future") {
				t.Errorf("signed %d s ago: explained by %q (theirs %v)", age, v.why, v.theirs)
			}
			tally[outcome(v)]++
		}
		t.Log(tally)
		want(t, tally, "accepted", "refused", "future")
	})
}

// R1.4: damaged deliveries are judged as Stripe's library judges them.
func TestMutatedDeliveries(t *testing.T) {
	rng := source(t)
	synctest.Test(t, func(t *testing.T) {
		now, tally := time.Now(), map[string]int{}
		used := make([]int, len(mutations))
		for range count(mutatedFull) {
			s := valid(rng, now)
			for range 1 + rng.IntN(3) {
				which := rng.IntN(len(mutations))
				used[which]++
				mutations[which](rng, &s)
			}
			v := judge(s, now)
			check(t, s, v)
			tally[outcome(v)]++
		}
		t.Log(tally)
		want(t, tally, "accepted", "refused", "future", "empty body")
		for i, n := range used {
			if n == 0 {
				t.Errorf("mutation %d was never used", i)
			}
		}
	})
}

func outcome(v verdict) string {
	switch {
	case v.why != "":
		return v.why
	case v.ours == nil:
		return "accepted"
	default:
		return "refused"
	}
}

// want fails if a kind of outcome never came up, for then nothing was compared.
func want(t *testing.T, tally map[string]int, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if tally[kind] == 0 {
			t.Errorf("no delivery came out as %q", kind)
		}
	}
}

// ages in seconds at which deliveries arrive, the bounds among them.
var ages = []int64{0, 0, 0, 0, 1, 10, 299, 300, 301, 3600, 1 << 31, -1, -10, -299, -300, -301, -3600}

// valid returns a delivery that is signed rightly, under one or more secrets.
func valid(rng *rand.Rand, now time.Time) sample {
	s := sample{body: payload(rng), at: now.Unix() - ages[rng.IntN(len(ages))]}
	for range 1 + rng.IntN(3) {
		s.secrets = append(s.secrets, fmt.Sprintf("whsec_%016x", rng.Uint64()))
	}
	var signers []string
	for range rng.IntN(3) { // secrets that we do not have
		signers = append(signers, fmt.Sprintf("whsec_%x", rng.Uint64()))
	}
	signers = append(signers, s.secrets[rng.IntN(len(s.secrets))])
	rng.Shuffle(len(signers), func(i, j int) { signers[i], signers[j] = signers[j], signers[i] })
	s.header = "t=" + strconv.FormatInt(s.at, 10)
	for _, signer := range signers {
		s.header += ",v1=" + hex.EncodeToString(webhook.ComputeSignature(time.Unix(s.at, 0), s.body, signer))
	}
	if rng.IntN(2) == 0 {
		s.header += ",v0=" + strings.Repeat("6f", 32)
	}
	return s
}

// types that payloads are of, with the object in each.
var types = [][2]string{
	{"charge.failed", "charge"}, {"payment_intent.created", "payment_intent"}, {"customer.created", "customer"},
	{"invoice.paid", "invoice"}, {"balance.available", "balance"},
}

// payload returns an event, in several ways of writing.
func payload(rng *rand.Rand) []byte {
	account := ""
	if rng.IntN(3) == 0 {
		account = fmt.Sprintf(`"account":"acct_%x",`, rng.Uint32())
	}
	space := strings.Repeat(" ", rng.IntN(3))
	typ := types[rng.IntN(len(types))]
	tail := []string{"", "\n", "\r\n", " "}[rng.IntN(4)]
	return fmt.Appendf(nil, `{%s"id":"evt_%x","object":"event",%s"api_version":"2026-07-29.dahlia","created":%d,%s"data":{"object":{"id":"ob_%x","object":"%s","note":"ñ \/ \u00e9 %s"}},"livemode":%t,"type":"%s"}%s`,
		space, rng.Uint64(), account, rng.Uint32(), space, rng.Uint64(), typ[1],
		strings.Repeat("x", rng.IntN(600)), rng.IntN(2) == 0, typ[0], tail)
}

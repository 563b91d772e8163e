package stripe_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"
)

// headerBytesMax is how much the mutations may make of a header: less than the
// adapter reads, so that bounds stay out of the comparison.
const headerBytesMax = 4 << 10

// mutations damage a delivery, or merely write it another way.
var mutations = []func(*rand.Rand, *sample){
	onBody(func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b }),
	onBody(func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }),
	onBody(func(r *rand.Rand, b []byte) []byte { return append(b, byte(r.IntN(256))) }),
	onBody(func(r *rand.Rand, b []byte) []byte { at := r.IntN(len(b)); return append(b[:at], b[at+1:]...) }),
	onBody(func(_ *rand.Rand, b []byte) []byte { return bytes.TrimSpace(b) }),
	onBody(func(_ *rand.Rand, b []byte) []byte { return bytes.ReplaceAll(b, []byte(`\/`), []byte("/")) }),
	onBody(func(_ *rand.Rand, b []byte) []byte { return append([]byte("\ufeff"), b...) }),
	emptied,

	onHeader(func(r *rand.Rand, h string) string { return flip(r, h) }),
	onHeader(func(r *rand.Rand, h string) string { return h[:r.IntN(len(h))] }),
	onHeader(func(r *rand.Rand, h string) string { at := r.IntN(len(h)); return h[:at] + h[at+1:] }),
	onHeader(func(r *rand.Rand, h string) string { return insert(r, h, ",") }),
	onHeader(func(r *rand.Rand, h string) string { return insert(r, h, "=") }),
	onHeader(func(r *rand.Rand, h string) string { return insert(r, h, " ") }),
	onHeader(func(r *rand.Rand, h string) string { return insert(r, h, ",t="+strconv.Itoa(r.IntN(1<<31))) }),
	onHeader(func(r *rand.Rand, h string) string { return h + ",t=" + strconv.Itoa(r.IntN(1<<31)) }),
	onHeader(func(r *rand.Rand, h string) string { return "t=" + strconv.Itoa(r.IntN(1<<31)) + "," + h }),
	onHeader(func(*rand.Rand, string) string { return "" }),
	onHeader(func(_ *rand.Rand, h string) string { return h + ",v1=bad_signature" }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "v1=", "v1=bad_signature,v1=") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "v1=", "v0=") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "v1=", "V1=") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "t=+") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "t=00") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "t=-") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "t=1_") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "t=9999999999") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "t=", "u=") }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, "v1=", "v1=00") }),
	onHeader(func(_ *rand.Rand, h string) string { return upper(h) }),
	onHeader(func(_ *rand.Rand, h string) string { return strings.ReplaceAll(h, ",", ", ") }),
	onHeader(func(_ *rand.Rand, h string) string { return h + "," + h }),
	onHeader(shuffled),
	onHeader(func(r *rand.Rand, h string) string { parts := strings.Split(h, ","); return parts[r.IntN(len(parts))] }),

	func(r *rand.Rand, s *sample) { s.secrets[r.IntN(len(s.secrets))] += "x" },
	func(r *rand.Rand, s *sample) {
		at := r.IntN(len(s.secrets))
		s.secrets[at] = strings.TrimPrefix(s.secrets[at], "whsec_")
	},
	restamped,
}

func onBody(change func(*rand.Rand, []byte) []byte) func(*rand.Rand, *sample) {
	return func(r *rand.Rand, s *sample) {
		if len(s.body) > 0 {
			s.body = change(r, bytes.Clone(s.body))
		}
	}
}

func onHeader(change func(*rand.Rand, string) string) func(*rand.Rand, *sample) {
	return func(r *rand.Rand, s *sample) {
		if s.header == "" {
			return
		}
		if changed := change(r, s.header); len(changed) <= headerBytesMax && strings.Count(changed, "v1=") < 32 {
			s.header = changed
		}
	}
}

// emptied signs an empty body rightly.
func emptied(_ *rand.Rand, s *sample) {
	s.body = nil
	s.header = "t=" + strconv.FormatInt(s.at, 10) + ",v1=" +
		hex.EncodeToString(webhook.ComputeSignature(time.Unix(s.at, 0), s.body, s.secrets[0]))
}

// restamped signs the body rightly at another time, far away ones included.
func restamped(r *rand.Rand, s *sample) {
	s.at = []int64{s.at + int64(r.IntN(1000)) - 500, 0, -1, 1<<62 + r.Int64N(1<<61), -1 << 62, 1<<63 - 1, -1 << 63}[r.IntN(7)]
	s.header = "t=" + strconv.FormatInt(s.at, 10) + ",v1=" +
		hex.EncodeToString(webhook.ComputeSignature(time.Unix(s.at, 0), s.body, s.secrets[0]))
}

func flip(r *rand.Rand, h string) string {
	b := []byte(h)
	b[r.IntN(len(b))] ^= 1 << r.IntN(7)
	return string(b)
}

func insert(r *rand.Rand, h, what string) string {
	at := r.IntN(len(h) + 1)
	return h[:at] + what + h[at:]
}

// upper writes hexadecimal digits in capitals and leaves the keys.
func upper(h string) string {
	parts := strings.Split(h, ",")
	for i, part := range parts {
		if key, value, ok := strings.Cut(part, "="); ok {
			parts[i] = key + "=" + strings.ToUpper(value)
		}
	}
	return strings.Join(parts, ",")
}

func shuffled(r *rand.Rand, h string) string {
	parts := strings.Split(h, ",")
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return strings.Join(parts, ",")
}

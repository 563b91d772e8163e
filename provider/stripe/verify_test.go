package stripe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/providertest"
	"github.com/unavez/unavez/provider/stripe"
)

// The vector that Stripe publishes with its .NET library.
const (
	vectorSecret = "webhook_secret"
	vectorTime   = 1533204620
	vectorMAC    = "2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7"
	vectorHeader = "t=1533204620,v1=" + vectorMAC + ",v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
)

func delivery(body []byte, at time.Time, lines ...string) *provider.Delivery {
	return &provider.Delivery{Header: http.Header{"Stripe-Signature": lines}, Body: body, ReceivedAt: at}
}

// vectors are the published vector and negatives, and their neighbors.
func vectors(t testing.TB) []providertest.Vector {
	body := raws(t)["vector"]
	if len(body) != 484 {
		t.Fatalf("the vector's payload has %d bytes, not 484", len(body))
	}
	soon := time.Unix(vectorTime+100, 0)
	many := func(n int) string { return strings.Repeat(",v1="+strings.Repeat("00", 32), n) }
	mine := []provider.Secret{vectorSecret}
	var out []providertest.Vector
	for _, c := range []struct {
		name  string
		err   error
		lines []string
	}{
		{"published", nil, []string{vectorHeader}},
		{"no header", provider.ErrSignature, nil},
		{"empty header", provider.ErrSignature, []string{""}},
		{"part without a value", provider.ErrSignature, []string{"v1,t=1"}},
		{"empty time", provider.ErrSignature, []string{"t="}},
		{"another v1 that is not hexadecimal", nil, []string{vectorHeader + ",v1=bad_signature"}},
		{"such a v1 in front", nil, []string{"t=1533204620,v1=bad_signature,v1=" + vectorMAC}},
		{"v1 that is not hexadecimal alone", provider.ErrSignature, []string{"t=1533204620,v1=bad_signature"}},
		{"scheme v0 alone", provider.ErrSignature, []string{"t=1533204620,v0=" + vectorMAC}},
		{"no time", provider.ErrSignature, []string{"v1=" + vectorMAC}},
		{"another time", provider.ErrSignature, []string{"t=1533204621,v1=" + vectorMAC}},
		{"the time with a sign and zeros", nil, []string{"t=+01533204620,v1=" + vectorMAC}},
		{"the time in another base", provider.ErrSignature, []string{"t=0x5b62d98c,v1=" + vectorMAC}},
		{"a time out of range", provider.ErrSignature, []string{"t=" + strings.Repeat("9", 20) + ",v1=" + vectorMAC}},
		{"a fraction of a second", provider.ErrSignature, []string{"t=1533204620.0,v1=" + vectorMAC}},
		{"upper case", nil, []string{"t=1533204620,v1=" + strings.ToUpper(vectorMAC)}},
		{"two times, the right one last", nil, []string{"t=1,t=1533204620,v1=" + vectorMAC}},
		{"two times, the right one first", provider.ErrSignature, []string{"t=1533204620,t=1,v1=" + vectorMAC}},
		{"a space after the comma", provider.ErrSignature, []string{"t=1533204620, v1=" + vectorMAC}},
		{"two equals signs", provider.ErrSignature, []string{"t=1533204620,v1==" + vectorMAC}},
		{"trailing comma", provider.ErrSignature, []string{vectorHeader + ","}},
		{"shortened", provider.ErrSignature, []string{"t=1533204620,v1=" + vectorMAC[:62]}},
		{"lengthened", provider.ErrSignature, []string{"t=1533204620,v1=" + vectorMAC + "00"}},
		{"empty v1", provider.ErrSignature, []string{"t=1533204620,v1="}},
		{"as many signatures as allowed", nil, []string{"t=1533204620,v1=" + vectorMAC + many(31)}},
		{"one more", provider.ErrSignature, []string{"t=1533204620,v1=" + vectorMAC + many(32)}},
		{"a header as long as allowed", nil, []string{vectorHeader + ",x=" + strings.Repeat("y", 8<<10-len(vectorHeader)-3)}},
		{"one byte longer", provider.ErrSignature, []string{vectorHeader + ",x=" + strings.Repeat("y", 8<<10-len(vectorHeader)-2)}},
		{"a good line after a bad one", nil, []string{"t=1,v1=00", vectorHeader}},
		{"a good line before a bad one", nil, []string{vectorHeader, "nonsense"}},
		{"a signature and its time in two lines", provider.ErrSignature, []string{"t=1533204620", "v1=" + vectorMAC}},
		{"as many lines as allowed", nil, []string{"", "", "", vectorHeader}},
		{"one more line", provider.ErrSignature, []string{"", "", "", "", vectorHeader}},
	} {
		out = append(out, providertest.Vector{Name: c.name, Secrets: mine, Delivery: delivery(body, soon, c.lines...), Err: c.err})
	}
	for _, c := range []struct {
		name    string
		secrets []provider.Secret
		body    string
		err     error
	}{
		{"a secret that is not ours", []provider.Secret{"webhook_secreT"}, string(body), provider.ErrSignature},
		{"too many secrets", append(make([]provider.Secret, 32), vectorSecret), string(body), provider.ErrSignature},
		{"body without its last newline", mine, strings.TrimSuffix(string(body), "\n"), provider.ErrSignature},
		{"body in which a slash is escaped", mine, strings.Replace(string(body), "@", `\u0040`, 1), provider.ErrSignature},
		{"empty body", mine, "", provider.ErrForm},
	} {
		out = append(out, providertest.Vector{Name: c.name, Secrets: c.secrets, Delivery: delivery([]byte(c.body), soon, vectorHeader), Err: c.err})
	}
	return out
}

// R1.4: the bytes that are signed are those that came, non-ASCII and NUL included;
// the key is the secret's text, which is computed here a second time.
func TestRawBytes(t *testing.T) {
	acc := testAccount()
	for _, body := range []string{`{"a":"ñ"}`, "{\"a\":\"\xff\"}", "\x00", `{"a":"\/"}`, " {} ", "{}\r\n"} {
		h := hmac.New(sha256.New, []byte("whsec_first"))
		fmt.Fprintf(h, "%d.%s", vectorTime, body)
		header := "t=" + strconv.Itoa(vectorTime) + ",v1=" + hex.EncodeToString(h.Sum(nil))
		items, err := stripe.Adapter{}.Verify(acc, delivery([]byte(body), time.Unix(vectorTime, 0), header))
		if err != nil || len(items) != 1 || string(items[0].Payload) != body || items[0].Hint {
			t.Errorf("%q: %v, %v", body, items, err)
		}
		if signed := stripe.Sign([]byte(body), time.Unix(vectorTime, 5), "whsec_first"); signed != header {
			t.Errorf("signed as %s, want %s", signed, header)
		}
	}
}

// R1.4: each v1 under each secret is tried, so that either secret of a rotation
// is enough on either side.
func TestRotation(t *testing.T) {
	body, at := []byte(`{"id":"evt_1"}`), time.Unix(vectorTime, 0)
	for _, c := range []struct {
		sent, known string
		ok          bool
	}{
		{"a", "a", true}, {"a b", "a", true}, {"a b", "b", true}, {"a", "a b", true}, {"b", "a b", true},
		{"a b", "a b", true}, {"a b", "c", false}, {"a", "b c", false}, {"a b c", "d c", true},
	} {
		acc := testAccount()
		acc.Secrets = secrets(c.known)
		_, err := stripe.Adapter{}.Verify(acc, delivery(body, at, stripe.Sign(body, at, secrets(c.sent)...)))
		if (err == nil) != c.ok {
			t.Errorf("signed with %s, known %s: %v", c.sent, c.known, err)
		}
	}
}

func secrets(names string) (out []provider.Secret) {
	for _, name := range strings.Fields(names) {
		out = append(out, provider.Secret("whsec_"+name))
	}
	return out
}

// R1.4: a signature that is right but old says so, whatever stands beside it, and
// times at the ends of the range are outside.
func TestAge(t *testing.T) {
	body, acc := []byte(`{}`), testAccount()
	now := time.Unix(vectorTime, 0)
	sign := func(at time.Time) string { return stripe.Sign(body, at, acc.Secrets...) }
	for _, c := range []struct {
		name  string
		lines []string
		want  error
	}{
		{"past bound", []string{sign(now.Add(-300 * time.Second))}, nil},
		{"past it", []string{sign(now.Add(-301 * time.Second))}, provider.ErrAge},
		{"future bound", []string{sign(now.Add(300 * time.Second))}, nil},
		{"beyond it", []string{sign(now.Add(301 * time.Second))}, provider.ErrAge},
		{"old, then wrong", []string{sign(now.Add(-time.Hour)), "t=1,v1=00"}, provider.ErrAge},
		{"wrong, then old", []string{"t=1,v1=00", sign(now.Add(-time.Hour))}, provider.ErrAge},
		{"old, then good", []string{sign(now.Add(-time.Hour)), sign(now)}, nil},
		{"the first second", []string{sign(time.Unix(-1<<63, 0))}, provider.ErrAge},
		{"the last second", []string{sign(time.Unix(1<<63-1, 0))}, provider.ErrAge},
	} {
		_, err := stripe.Adapter{}.Verify(acc, delivery(body, now, c.lines...))
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	late := delivery(body, now.Add(300*time.Second+time.Nanosecond), sign(now))
	if _, err := (stripe.Adapter{}).Verify(acc, late); !errors.Is(err, provider.ErrAge) || errors.Is(err, provider.ErrSignature) {
		t.Errorf("a nanosecond past the bound: %v", err)
	}
}

// No refusal shows a secret or the body.
func TestRefusalsAreDiscreet(t *testing.T) {
	for _, v := range vectors(t) {
		acc := testAccount()
		acc.Secrets = v.Secrets
		_, err := stripe.Adapter{}.Verify(acc, v.Delivery)
		if err != nil && (strings.Contains(err.Error(), "secreT") || strings.Contains(err.Error(), vectorSecret) || strings.Contains(err.Error(), "test@stripe.com")) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

// What we pass on verifies under the handler's own secret, now.
func TestResign(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	body := []byte(`{"id":"evt_1"}`)
	h := stripe.Adapter{}.Resign(body, []provider.Secret{"whsec_handler"}, at)
	acc := &provider.Account{Name: "a", Secrets: []provider.Secret{"whsec_handler"}}
	if _, err := (stripe.Adapter{}).Verify(acc, &provider.Delivery{Header: h, Body: body, ReceivedAt: at}); err != nil {
		t.Fatal(err)
	}
}

package providertest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/unavez/unavez/provider"
)

// Bounds of the mutations of one body.
const (
	flipsEach = 8   // positions of each range whose bits are flipped
	cutsEach  = 32  // lengths that a body is cut to
	seed      = 307 // of the positions
)

// Vectors holds published deliveries to their verdicts (R1.4).
func Vectors(t *testing.T, s Suite) {
	for _, v := range s.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			acc := s.Account()
			acc.Secrets = v.Secrets
			before := bytes.Clone(v.Delivery.Body)
			items, err := s.Adapter.Verify(acc, v.Delivery)
			if !errors.Is(err, v.Err) || v.Err == nil && err != nil {
				t.Fatalf("verified with %v, want %v", err, v.Err)
			}
			if (err == nil) != (len(items) > 0) {
				t.Errorf("%d items with error %v", len(items), err)
			}
			if !bytes.Equal(before, v.Delivery.Body) {
				t.Error("verifying has changed the body")
			}
		})
	}
}

// Secrets: any active secret accepts, another one does not, and none or an
// empty one verifies nothing (R1.4).
func Secrets(t *testing.T, s Suite) {
	payload := s.Payloads[0].Bytes
	acc := s.Account()
	mine, other := acc.Secrets[0], otherSecret(acc.Secrets[0])
	for _, c := range []struct {
		name    string
		secrets []provider.Secret
		signer  provider.Secret
		want    error
	}{
		{"the only one", []provider.Secret{mine}, mine, nil},
		{"the older one while rotating", []provider.Secret{other, mine}, mine, nil},
		{"the newer one while rotating", []provider.Secret{mine, other}, mine, nil},
		{"another one", []provider.Secret{other}, mine, provider.ErrSignature},
		{"none", nil, mine, provider.ErrSignature},
		{"an empty one", []provider.Secret{""}, mine, provider.ErrSignature},
		{"an empty one beside another", []provider.Secret{"", other}, mine, provider.ErrSignature},
	} {
		acc.Secrets = c.secrets
		d := s.Deliver(acc, c.signer, payload, received)
		d.ReceivedAt = received
		items, err := s.Adapter.Verify(acc, d)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if (err == nil) != (len(items) > 0) {
			t.Errorf("%s: %d items with error %v", c.name, len(items), err)
		}
	}
}

// otherSecret is a secret of the same form with one character changed.
func otherSecret(s provider.Secret) provider.Secret {
	b := []byte(s)
	at := len(b) / 2
	b[at] = map[bool]byte{true: '1', false: '0'}[b[at] == '0']
	return provider.Secret(b)
}

// Age: a time stamp counts up to the contract's tolerance on either side and
// not beyond; the clock that counts is that of the receipt (R1.4).
func Age(t *testing.T, s Suite) {
	contract, acc := s.Adapter.Contract(), s.Account()
	whole := received.Truncate(time.Second)
	for _, c := range []struct {
		name string
		late time.Duration // from the signature to the receipt
		old  bool
	}{
		{"at once", 0, false},
		{"at the bound of the past", contract.TolerancePast, false},
		{"past it", contract.TolerancePast + time.Second, true},
		{"long past it", contract.TolerancePast + 400*24*time.Hour, true},
		{"at the bound of the future", -contract.ToleranceFuture, false},
		{"beyond it", -contract.ToleranceFuture - time.Second, true},
	} {
		stamped := contract.TolerancePast > 0 && c.late >= 0 || contract.ToleranceFuture > 0 && c.late <= 0
		d := s.Deliver(acc, acc.Secrets[0], s.Payloads[0].Bytes, whole)
		d.ReceivedAt = whole.Add(c.late)
		_, err := s.Adapter.Verify(acc, d)
		if want := c.old && stamped; want != errors.Is(err, provider.ErrAge) || !want && err != nil {
			t.Errorf("%s: %v, too old or too new is %t", c.name, err, want)
		}
	}
}

// Tampering: no changed byte of what is signed verifies (R1.4).
func Tampering(t *testing.T, s Suite) {
	rng := rand.New(rand.NewPCG(seed, seed))
	for _, p := range s.Payloads {
		acc := s.Account()
		d := s.deliver(acc, p.Bytes)
		if _, err := s.Adapter.Verify(acc, d); err != nil {
			t.Errorf("%s: the delivery itself: %v", p.Name, err)
			continue
		}
		for _, body := range s.mutated(rng, d.Body) {
			if items, err := s.Adapter.Verify(acc, with(d, body)); err == nil || len(items) > 0 {
				t.Errorf("%s: a changed body verifies: %q", p.Name, body)
			}
		}
	}
}

// mutated returns bodies that differ from the given one in what is signed.
func (s Suite) mutated(rng *rand.Rand, body []byte) (out [][]byte) {
	for _, r := range s.signed(body) {
		for range flipsEach {
			at := r[0] + rng.IntN(r[1]-r[0])
			for bit := range 8 {
				b := bytes.Clone(body)
				b[at] ^= 1 << bit
				out = append(out, b)
			}
		}
	}
	if s.Signed == nil {
		for range cutsEach {
			out = append(out, bytes.Clone(body[:rng.IntN(len(body))]))
		}
		for _, tail := range []string{" ", "\n", "\x00", "{}"} {
			out = append(out, append(bytes.Clone(body), tail...))
		}
		out = append(out, append([]byte("\ufeff"), body...))
	}
	return out
}

package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unavez/unavez/provider"
)

// Bounds of the work that a request can cause before it is known to be authentic.
const (
	headerLinesMax = 4       // lines of the signature's header
	headerBytesMax = 8 << 10 // bytes of one line
	signaturesMax  = 32      // signatures of the current scheme in one line
	secretsMax     = 32      // secrets of an account
)

const (
	signatureHeader = "Stripe-Signature"
	timeKey         = "t"
	schemeKey       = "v1"
)

// stamp is what one line of the header says.
type stamp struct {
	at   int64 // seconds since 1970
	macs [][]byte
}

// Verify accepts the delivery as one item whose payload is the body itself, not
// a copy. It returns provider.ErrForm for an empty body, provider.ErrSignature
// where no secret matches, and provider.ErrAge where one does, but for a time
// stamp too far from d.ReceivedAt on either side.
//
// Each line of the header is judged for itself, so that the order of lines
// cannot matter; one that verifies is enough.
func (Adapter) Verify(acc *provider.Account, d *provider.Delivery) ([]provider.Item, error) {
	if len(d.Body) == 0 {
		return nil, fmt.Errorf("%w: empty body", provider.ErrForm)
	}
	lines := d.Header.Values(signatureHeader)
	switch {
	case len(lines) == 0:
		return nil, fmt.Errorf("%w: no %s header", provider.ErrSignature, signatureHeader)
	case len(lines) > headerLinesMax:
		return nil, fmt.Errorf("%w: %d %s headers", provider.ErrSignature, len(lines), signatureHeader)
	case len(acc.Secrets) > secretsMax:
		return nil, fmt.Errorf("%w: the account has %d secrets, more than %d", provider.ErrSignature, len(acc.Secrets), secretsMax)
	}
	var refusal error
	for _, line := range lines {
		err := verifyLine(acc, d, line)
		if err == nil {
			return []provider.Item{{Payload: d.Body}}, nil
		}
		refusal = graver(refusal, err)
	}
	return nil, refusal
}

// graver keeps the refusal that says more: that a signature was right but old.
func graver(a, b error) error {
	if a == nil || !isAge(a) && isAge(b) {
		return b
	}
	return a
}

func verifyLine(acc *provider.Account, d *provider.Delivery, line string) error {
	s, err := readStamp(line)
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrSignature, err)
	}
	if !s.signs(acc.Secrets, d.Body) {
		return fmt.Errorf("%w: no secret of the account matches", provider.ErrSignature)
	}
	age := d.ReceivedAt.Sub(time.Unix(s.at, 0))
	if age > tolerancePast || age < -toleranceFuture {
		return &ageError{age}
	}
	return nil
}

// ageError is provider.ErrAge with the age that was found.
type ageError struct{ age time.Duration }

func (e *ageError) Error() string {
	return fmt.Sprintf("%s: signed %s before receipt", provider.ErrAge, e.age)
}

func (e *ageError) Unwrap() error { return provider.ErrAge }

func isAge(err error) bool { return errors.Is(err, provider.ErrAge) }

// readStamp reads t=<seconds>,v1=<hex>[,v1=<hex>…]. Other schemes are ignored,
// and so are signatures that cannot be read; of several times the last counts.
func readStamp(line string) (s stamp, err error) {
	if len(line) > headerBytesMax {
		return stamp{}, fmt.Errorf("header of %d bytes", len(line))
	}
	timed := false
	for part := range strings.SplitSeq(line, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || strings.Contains(value, "=") {
			return stamp{}, errHeader
		}
		switch key {
		case timeKey:
			if s.at, err = strconv.ParseInt(value, 10, 64); err != nil {
				return stamp{}, errHeader
			}
			timed = true
		case schemeKey:
			mac, err := hex.DecodeString(value)
			if err != nil {
				continue
			}
			if s.macs = append(s.macs, mac); len(s.macs) > signaturesMax {
				return stamp{}, fmt.Errorf("more than %d signatures", signaturesMax)
			}
		}
	}
	if !timed || len(s.macs) == 0 {
		return stamp{}, errUnsigned
	}
	return s, nil
}

var (
	errHeader   = errors.New("the header is not a list of t=…,v1=…")
	errUnsigned = errors.New("the header lacks a time stamp or a readable v1 signature")
)

// signs says whether one of the signatures is that of the body under one of the
// secrets. An empty secret signs nothing.
func (s stamp) signs(secrets []provider.Secret, body []byte) bool {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		want := sign(secret, s.at, body)
		found := false
		for _, mac := range s.macs {
			found = hmac.Equal(want, mac) || found
		}
		if found {
			return true
		}
	}
	return false
}

// sign computes the signature of a body: the key is the secret's whole text, its
// prefix included.
func sign(secret provider.Secret, at int64, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(append(strconv.AppendInt(nil, at, 10), '.'))
	h.Write(body)
	return h.Sum(nil)
}

// Sign returns the value of the signature header for a body under the secrets,
// one signature each: what Stripe sends while a secret is being rotated, and
// what a handler behind a forwarder of ours expects.
func Sign(body []byte, at time.Time, secrets ...provider.Secret) string {
	line := timeKey + "=" + strconv.FormatInt(at.Unix(), 10)
	for _, secret := range secrets {
		line += "," + schemeKey + "=" + hex.EncodeToString(sign(secret, at.Unix(), body))
	}
	return line
}

// Resign implements provider.Resigner.
func (Adapter) Resign(body []byte, secrets []provider.Secret, at time.Time) http.Header {
	return http.Header{signatureHeader: {Sign(body, at, secrets...)}}
}

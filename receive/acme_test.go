package receive_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
)

// acme is a provider with everything that the port allows: batches whose items
// are signed one by one, hints, malformed payloads, time stamps. A body is one
// item a line, "SIGNATURE IDENTITY AMOUNT"; the header Acme-Time is the time
// stamp. Some identities make it misbehave.
type acme struct{}

const tolerance = 5 * time.Minute

func (acme) Contract() *provider.Contract {
	return &provider.Contract{Provider: "acme", SignatureHeaders: []string{"acme-time"}, AcknowledgeWithin: 20 * time.Second}
}

func (acme) Verify(acc *provider.Account, d *provider.Delivery) ([]provider.Item, error) {
	if bytes.HasPrefix(d.Body, []byte("panic")) {
		panic(fmt.Sprintf("cannot read %s", d.Body))
	}
	if bytes.HasPrefix(d.Body, []byte("certificate")) {
		return nil, errors.New("no certificate for " + string(d.Body))
	}
	if bytes.HasPrefix(d.Body, []byte("form")) {
		return nil, fmt.Errorf("reading %q: %w", d.Body, provider.ErrForm)
	}
	if bytes.HasPrefix(d.Body, []byte("nothing")) {
		return nil, nil
	}
	var items []provider.Item
	var err error
	for line := range bytes.Lines(d.Body) {
		sum, payload, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if !matches(acc.Secrets, sum, payload) {
			err = fmt.Errorf("item %q under %s: %w", payload, sum, provider.ErrSignature)
			continue
		}
		items = append(items, provider.Item{Payload: []byte(payload), Hint: strings.HasPrefix(payload, "hint")})
	}
	seconds, _ := strconv.ParseInt(d.Header.Get("Acme-Time"), 10, 64)
	if age := d.ReceivedAt.Sub(time.Unix(seconds, 0)); len(items) > 0 && age.Abs() > tolerance {
		return nil, fmt.Errorf("%s old: %w", age, provider.ErrAge)
	}
	return items, err
}

func (acme) Parse(_ *provider.Account, payload []byte) (provider.Event, error) {
	identity, rest, _ := strings.Cut(string(payload), " ")
	ev := provider.Event{Identity: identity, ProviderEventID: identity, Type: "captured", Mode: provider.Live, Lane: identity}
	switch {
	case strings.HasPrefix(identity, "crash"):
		panic("what is " + rest)
	case strings.HasPrefix(identity, "bad"):
		return ev, fmt.Errorf("amount: %w", provider.ErrMalformed)
	case strings.HasPrefix(identity, "thin"):
		ev.Thin = true
		return ev, nil
	}
	ev.Names = []string{identity}
	ev.Facts = []payment.Fact{{Kind: payment.KindCapture, Form: payment.FormItem, Object: identity, Stage: payment.StageSucceeded, Parent: rest[:min(len(rest), 8)]}}
	return ev, nil
}

func (acme) Acknowledgement() provider.Acknowledgement {
	return provider.Acknowledgement{Status: 200, ContentType: "text/x-acme", Body: []byte("[accepted]")}
}

func (acme) CaptureSpeaks(*provider.Account) payment.Form { return payment.FormItem }

func matches(secrets []provider.Secret, sum, payload string) bool {
	for _, secret := range secrets {
		if hmac.Equal([]byte(sum), []byte(signature(string(secret), payload))) {
			return true
		}
	}
	return false
}

func signature(secret, payload string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(payload))
	return hex.EncodeToString(mac.Sum(nil))
}

// signed is a body of items signed under the secret.
func signed(secret string, payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		b.WriteString(signature(secret, p) + " " + p + "\n")
	}
	return b.String()
}

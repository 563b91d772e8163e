package outbox

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unavez/unavez/internal/safedial"
	"github.com/unavez/unavez/internal/subscribe"
	"github.com/unavez/unavez/provider"
)

// Defaults and bounds of a destination.
const (
	DefaultTimeout     = 15 * time.Second
	TimeoutMax         = 30 * time.Second
	DefaultConcurrency = 8
	ConcurrencyMax     = 256

	nameBytesMax       = 64
	urlBytesMax        = 2048
	secretsMax         = 8
	secretPrefix       = "whsec_"
	secretKeyBytesMin  = 1 // of a whsec_ secret; Standard Webhooks 1.0 advises 24 at least
	secretKeyBytesMax  = 64
	secretTextBytesMin = 1 // of a secret that is used as it is; doctor advises more
	secretTextBytesMax = 256
	headersMax         = 16
	headerBytesMax     = 4096
)

// Destination is one system that is told.
type Destination struct {
	// Name stands in the ledger, in metrics and in the API: lower case letters,
	// digits, "-" and "_". It must stay the same as long as messages are kept.
	Name string
	// URL is https; http only with AllowPrivate.
	URL string
	// Types are the subscribed message types: "*" (all but event.*), "event.*",
	// a name, or a prefix with ".*".
	Types []string
	// Secrets sign every request, several at once while rotating: whsec_ and
	// base64 of up to 64 bytes, or up to 256 bytes of text used as they are. 24
	// bytes at least are advised; the merchant chooses them.
	Secrets []provider.Secret
	// Idempotent says whether the destination recognizes a message id that it has
	// seen; nil is yes. If not, an attempt with an unclear end is not repeated.
	Idempotent *bool
	// AllowPrivate permits loopback and private addresses, and http.
	AllowPrivate bool
	// Timeout bounds one attempt, from the name's resolution to the answer.
	Timeout time.Duration
	// Concurrency is the number of requests at once from one process.
	Concurrency int
	// Headers are sent with every request.
	Headers map[string]string
}

// Validate returns everything that is wrong with the destinations, joined, or nil.
func Validate(destinations []Destination) error {
	var problems []error
	seen := map[string]bool{}
	for i := range destinations {
		d := &destinations[i]
		label := d.Name
		if label == "" {
			label = fmt.Sprintf("number %d", i+1)
		}
		found := d.problems()
		if seen[d.Name] && d.Name != "" {
			found = append(found, errors.New("the name is used twice"))
		}
		seen[d.Name] = true
		for _, problem := range found {
			problems = append(problems, fmt.Errorf("destination %s: %w", label, problem))
		}
	}
	return errors.Join(problems...)
}

func (d *Destination) problems() []error {
	var found []error
	add := func(err error) {
		if err != nil {
			found = append(found, err)
		}
	}
	add(checkName(d.Name))
	add(d.checkURL())
	if len(d.Types) == 0 {
		add(errors.New("subscribes to no types"))
	}
	for _, pattern := range d.Types {
		add(subscribe.CheckPattern(pattern))
	}
	if len(d.Secrets) == 0 || len(d.Secrets) > secretsMax {
		add(fmt.Errorf("has %d secrets, not 1 to %d", len(d.Secrets), secretsMax))
	}
	for i, secret := range d.Secrets {
		if _, err := d.key(secret); err != nil {
			add(fmt.Errorf("secret %d: %w", i+1, err))
		}
	}
	if d.Timeout < 0 || d.Timeout > TimeoutMax {
		add(fmt.Errorf("timeout %s is not between 0 and %s", d.Timeout, TimeoutMax))
	}
	if d.Concurrency < 0 || d.Concurrency > ConcurrencyMax {
		add(fmt.Errorf("concurrency %d is not between 1 and %d", d.Concurrency, ConcurrencyMax))
	}
	return append(found, d.headerProblems()...)
}

func checkName(name string) error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' }
	if name == "" || len(name) > nameBytesMax || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("name %.80q is not 1 to %d of a-z, 0-9, - and _", name, nameBytesMax)
	}
	return nil
}

// checkURL does not repeat the URL in its errors: it may carry a token.
func (d *Destination) checkURL() error {
	u, err := url.Parse(d.URL)
	if err != nil || len(d.URL) > urlBytesMax || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return errors.New("url is not an absolute URL")
	}
	switch {
	case u.User != nil:
		return errors.New("url carries credentials; use headers")
	case u.Fragment != "":
		return errors.New("url has a fragment")
	case u.Scheme == "https" || u.Scheme == "http" && d.AllowPrivate:
	case u.Scheme == "http":
		return errors.New("url is http, which only allow_private permits")
	default:
		return fmt.Errorf("url scheme %.10q is not https", u.Scheme)
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := (safedial.Guard{AllowPrivate: d.AllowPrivate}).Check(addr); err != nil {
			return fmt.Errorf("url: %w", err)
		}
	}
	return nil
}

func (d *Destination) headerProblems() []error {
	var found []error
	if len(d.Headers) > headersMax {
		found = append(found, fmt.Errorf("has %d headers, more than %d", len(d.Headers), headersMax))
	}
	for name, value := range d.Headers {
		switch {
		case !validHeader(name, value):
			found = append(found, fmt.Errorf("header %.40q is not a valid header", name))
		case reserved(name):
			found = append(found, fmt.Errorf("header %q is set by the delivery itself", name))
		}
	}
	return found
}

// validHeader follows RFC 9110, sections 5.1 and 5.5, in visible ASCII.
func validHeader(name, value string) bool {
	badName := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	}
	badValue := func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f }
	return name != "" && len(name)+len(value) <= headerBytesMax &&
		!strings.ContainsFunc(name, badName) && !strings.ContainsFunc(value, badValue)
}

// reserved says whether a header is ours or the connection's to set.
func reserved(name string) bool {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Idempotency-Key", "X-Idempotency-Key", "Content-Type", "Content-Length", "Content-Encoding", "User-Agent", "Host",
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect":
		return true
	}
	return strings.HasPrefix(name, "Webhook-")
}

// key returns the bytes that sign with the secret. Where nothing but a
// provider's events goes, the secret is one of the provider's: its text counts,
// and what follows its prefix need not be base64.
func (d *Destination) key(secret provider.Secret) ([]byte, error) {
	raw, err := key(secret)
	if err != nil && len(d.Types) > 0 && len(secret) > len(secretPrefix) && len(secret) <= secretTextBytesMax &&
		!slices.ContainsFunc(d.Types, func(pattern string) bool { return !strings.HasPrefix(pattern, "event.") }) {
		return []byte(secret), nil
	}
	return raw, err
}

func key(secret provider.Secret) ([]byte, error) {
	encoded, ok := strings.CutPrefix(string(secret), secretPrefix)
	if !ok {
		if len(secret) < secretTextBytesMin || len(secret) > secretTextBytesMax {
			return nil, fmt.Errorf("text of %d bytes, not %d to %d", len(secret), secretTextBytesMin, secretTextBytesMax)
		}
		return []byte(secret), nil
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, fmt.Errorf("%s is not followed by base64", secretPrefix)
	}
	if len(raw) < secretKeyBytesMin || len(raw) > secretKeyBytesMax {
		return nil, fmt.Errorf("%s of %d bytes, not %d to %d", secretPrefix, len(raw), secretKeyBytesMin, secretKeyBytesMax)
	}
	return raw, nil
}

// idempotent says whether the same message may be sent again after an unclear end.
func (d *Destination) idempotent() bool { return d.Idempotent == nil || *d.Idempotent }

// filled returns a copy with the defaults.
func (d Destination) filled() Destination {
	if d.Timeout == 0 {
		d.Timeout = DefaultTimeout
	}
	if d.Concurrency == 0 {
		d.Concurrency = DefaultConcurrency
	}
	return d
}

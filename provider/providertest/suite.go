package providertest

import (
	"bytes"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unavez/unavez/provider"
)

// Suite is the material of one provider.
type Suite struct {
	Adapter provider.Adapter
	// Account returns a new account that the payloads belong to, with a secret.
	Account func() *provider.Account
	// Deliver returns an authentic delivery of the payload to the account,
	// signed under the secret at the instant.
	Deliver func(acc *provider.Account, secret provider.Secret, payload []byte, at time.Time) *provider.Delivery
	// Signed names the parts of a body that the signature covers, as half-open
	// ranges of bytes; nil means all of it.
	Signed func(body []byte) [][2]int
	// Rewrite writes a payload in other ways that mean the same; nil means JSON's.
	Rewrite func(payload []byte) ([][]byte, error)
	// Vectors are published or independently computed deliveries.
	Vectors []Vector
	// Payloads are authentic payloads that yield facts or names.
	Payloads []Payload
	// Malformed are authentic payloads that cannot be understood.
	Malformed []Malformed
}

// Vector is a delivery with its verdict.
type Vector struct {
	Name     string
	Secrets  []provider.Secret
	Delivery *provider.Delivery
	// Err is the refusal, nil if the delivery verifies.
	Err error
}

// Payload is a payload with the identity that the contract gives it.
type Payload struct {
	Name     string
	Bytes    []byte
	Identity string
}

// Malformed is a payload that cannot be understood, with the identity that can
// still be read of it; empty if none.
type Malformed struct {
	Name     string
	Bytes    []byte
	Identity string
}

// Run holds the adapter to everything.
func Run(t *testing.T, s Suite) {
	if len(s.Vectors) == 0 || len(s.Payloads) < 2 || len(s.Malformed) == 0 {
		t.Fatal("the suite needs vectors, at least two payloads, and malformed ones")
	}
	t.Run("contract", func(t *testing.T) { Contract(t, s) })
	t.Run("acknowledgement", func(t *testing.T) { Acknowledgement(t, s) })
	t.Run("vectors", func(t *testing.T) { Vectors(t, s) })
	t.Run("secrets", func(t *testing.T) { Secrets(t, s) })
	t.Run("age", func(t *testing.T) { Age(t, s) })
	t.Run("tampering", func(t *testing.T) { Tampering(t, s) })
	t.Run("identity", func(t *testing.T) { Identity(t, s) })
	t.Run("facts", func(t *testing.T) { Facts(t, s) })
	t.Run("blindness", func(t *testing.T) { Blindness(t, s) })
	t.Run("malformed", func(t *testing.T) { MalformedPayloads(t, s) })
}

// received is when deliveries of the suite arrive.
var received = time.Date(2026, 3, 14, 15, 9, 26, 535897932, time.UTC)

// deliver returns an authentic delivery that has just been signed.
func (s Suite) deliver(acc *provider.Account, payload []byte) *provider.Delivery {
	d := s.Deliver(acc, acc.Secrets[0], payload, received)
	d.ReceivedAt = received
	return d
}

// signed returns the ranges of the body that its signature covers.
func (s Suite) signed(body []byte) [][2]int {
	if s.Signed == nil {
		return [][2]int{{0, len(body)}}
	}
	return s.Signed(body)
}

// with returns a copy of a delivery with another body.
func with(d *provider.Delivery, body []byte) *provider.Delivery {
	return &provider.Delivery{
		Header: d.Header.Clone(), Query: cloneQuery(d.Query), Body: body, ReceivedAt: d.ReceivedAt,
	}
}

func cloneQuery(q url.Values) url.Values { return url.Values(http.Header(q).Clone()) }

// rewrite returns the payload in other ways that mean the same.
func (s Suite) rewrite(t *testing.T, payload []byte) [][]byte {
	t.Helper()
	again := s.Rewrite
	if again == nil {
		again = rewriteJSON
	}
	others, err := again(payload)
	if err != nil {
		t.Fatalf("rewriting a payload: %v", err)
	}
	return others
}

// rewriteJSON writes a JSON text without spaces, with many, with its members
// turned round, and with more escapes than it needs.
func rewriteJSON(payload []byte) ([][]byte, error) {
	compact, wide := jsontext.Value(bytes.Clone(payload)), jsontext.Value(bytes.Clone(payload))
	if err := compact.Compact(); err != nil {
		return nil, err
	}
	if err := wide.Indent(jsontext.WithIndent("\t\t")); err != nil {
		return nil, err
	}
	turned, err := turn(compact)
	if err != nil {
		return nil, err
	}
	return [][]byte{compact, wide, append(wide.Clone(), " \r\n"...), turned, escape(compact)}, nil
}

// turn reverses the members of every object.
func turn(v jsontext.Value) (jsontext.Value, error) {
	if k := v.Kind(); k != '{' && k != '[' {
		return v, nil
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var parts [][]byte
	for dec.PeekKind() != '}' && dec.PeekKind() != ']' {
		var part []byte
		if v.Kind() == '{' {
			name, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			part = append(bytes.Clone(name), ':')
		}
		inner, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if inner, err = turn(inner.Clone()); err != nil {
			return nil, err
		}
		parts = append(parts, append(part, inner...))
	}
	out := []byte{v[0]}
	for i := range parts {
		part := parts[i]
		if v.Kind() == '{' {
			part = parts[len(parts)-1-i]
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, part...)
	}
	return append(out, v[len(v)-1]), nil
}

// escape writes the letter e inside strings as an escape, names included.
func escape(v jsontext.Value) []byte {
	var out []byte
	inside := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			inside = !inside
			out = append(out, c)
		case c == '\\' && inside:
			n := 2
			if v[i+1] == 'u' {
				n = 6
			}
			out = append(out, v[i:i+n]...)
			i += n - 1
		case c == 'e' && inside:
			out = append(out, `\u0065`...)
		default:
			out = append(out, c)
		}
	}
	return out
}

package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Header is the name of the request header that carries the key.
const Header = "Idempotency-Key"

const keyBytesMax = 255

// keyOf reads the key of a request: "" if there is none, ErrMalformed if it is
// none. A quoted key (the form of a structured field) and a bare one are the same.
func keyOf(h http.Header) (string, error) {
	values := h.Values(Header)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", ErrMalformed
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		inner, ok := unquote(key)
		if !ok {
			return "", ErrMalformed
		}
		key = inner
	}
	invisible := func(r rune) bool { return r <= ' ' || r > '~' }
	if key == "" || len(key) > keyBytesMax || strings.ContainsFunc(key, invisible) {
		return "", ErrMalformed
	}
	return key, nil
}

// unquote reads a string of RFC 9651: only the quote and the backslash are escaped.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	var b strings.Builder
	for body := s[1 : len(s)-1]; body != ""; body = body[1:] {
		switch {
		case body[0] == '"':
			return "", false
		case body[0] == '\\' && (len(body) < 2 || body[1] != '"' && body[1] != '\\'):
			return "", false
		case body[0] == '\\':
			body = body[1:]
		}
		b.WriteByte(body[0])
	}
	return b.String(), true
}

// fingerprint tells requests apart: method, path with query, and body. JSON is
// compared in canonical form with the digits of its numbers kept, so that
// neither spaces nor the order of members matter and two amounts are never
// taken for one. Other bytes are compared as they are.
func fingerprint(r *http.Request, body []byte) []byte {
	canonical := jsontext.Value(append([]byte(nil), body...))
	err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		canonical = body
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.Query().Encode()), canonical} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return h.Sum(nil)
}

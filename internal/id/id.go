// Package id mints the prefixed, sortable ids of the outside interface.
//
// An id is a prefix, an underscore and 26 characters of Crockford's base 32
// that hold a UUIDv7: 48 bits of milliseconds, then random bits. Ids sort by
// the millisecond of their making and are never used as an order of events.
package id

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// The prefixes of the outside interface.
const (
	Payment   = "pay"
	Event     = "evt"
	Operation = "op"
	Attempt   = "att"
	Message   = "msg"
	Exception = "exc"
	Token     = "tok"
	Job       = "job"
)

// New mints an id with the prefix for the instant.
func New(prefix string, now time.Time) string {
	var raw [16]byte
	if _, err := rand.Read(raw[6:]); err != nil {
		panic("id: impossible: no randomness: " + err.Error())
	}
	ms := uint64(now.UnixMilli())
	binary.BigEndian.PutUint16(raw[0:2], uint16(ms>>32))
	binary.BigEndian.PutUint32(raw[2:6], uint32(ms))
	raw[6] = raw[6]&0x0f | 0x70
	raw[8] = raw[8]&0x3f | 0x80
	return prefix + "_" + encode(raw)
}

// encode writes 128 bits as 26 characters, the first of which holds 3 bits.
func encode(raw [16]byte) string {
	hi, lo := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	var out [26]byte
	for i := 25; i >= 0; i-- {
		out[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

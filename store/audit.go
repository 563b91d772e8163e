package store

import (
	"crypto/sha256"
	"encoding/binary"
)

// Chain appends the row to its subject's chain: it sets Version, Prev and Hash
// and returns the new head. Versions are contiguous from 1. The hash covers
// every field that the row records, each with its length.
func Chain(head AuditHead, row *AuditRow) AuditHead {
	row.Version = head.Version + 1
	row.Prev = head.Hash
	row.Hash = row.digest()
	return AuditHead{Version: row.Version, Hash: row.Hash}
}

// Intact says whether the row's hash fits its content and follows the head.
func (row *AuditRow) Intact(head AuditHead) bool {
	return row.Version == head.Version+1 && string(row.Prev) == string(head.Hash) && string(row.Hash) == string(row.digest())
}

func (row *AuditRow) digest() []byte {
	h := sha256.New()
	var length [8]byte
	field := func(b []byte) {
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	field(row.Prev)
	field([]byte(row.Subject))
	binary.BigEndian.PutUint64(length[:], uint64(row.Version))
	h.Write(length[:])
	binary.BigEndian.PutUint64(length[:], uint64(row.At.UnixMicro()))
	h.Write(length[:])
	field([]byte(row.Action))
	field([]byte(row.Actor))
	field([]byte(row.Entry))
	field(row.Detail)
	return h.Sum(nil)
}

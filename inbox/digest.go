package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/unavez/unavez/payment"
)

// FactDigest is SHA-256 over what evidence says: its facts and its names, as
// sets. Two copies of one event with the same digest say the same, whatever
// their bytes. Adapters are blind to the ledger, so it is fixed at receipt.
func FactDigest(e payment.Evidence) []byte {
	facts := make([][]byte, 0, len(e.Facts))
	for _, f := range e.Facts {
		facts = append(facts, factBytes(f))
	}
	slices.SortFunc(facts, bytes.Compare)
	facts = slices.CompactFunc(facts, bytes.Equal)
	names := slices.Clone(e.Names)
	slices.Sort(names)
	names = slices.Compact(names)

	b := make([]byte, 0, 512)
	b = appendInt(b, int64(len(facts)))
	for _, f := range facts {
		b = appendBytes(b, f)
	}
	b = appendInt(b, int64(len(names)))
	for _, n := range names {
		b = appendString(b, n)
	}
	b = appendString(b, e.Payment)
	b = appendString(b, e.Operation)
	b = appendString(b, e.Order)
	b = appendBool(b, e.Root)
	sum := sha256.Sum256(b)
	return sum[:]
}

// malformedDigest stands for the facts of bytes that cannot be understood:
// other such bytes may hold other facts.
func malformedDigest(bodyDigest []byte) []byte {
	sum := sha256.Sum256(append([]byte("malformed\x00"), bodyDigest...))
	return sum[:]
}

// factBytes writes every field of the fact, each with its length.
func factBytes(f payment.Fact) []byte {
	b := make([]byte, 0, 256)
	for _, s := range []string{string(f.Kind), string(f.Form), f.Object, f.Parent, string(f.Stage), f.Amount.Currency, f.Operation} {
		b = appendString(b, s)
	}
	b = appendInt(b, int64(f.Round))
	b = appendInt(b, f.Amount.Value)
	b = appendInt(b, int64(f.Version))
	b = appendInt(b, f.Read)
	b = appendBool(b, f.Loud)
	b = appendBool(b, f.Silent)
	covers := slices.Clone(f.Covers)
	slices.Sort(covers)
	for _, c := range slices.Compact(covers) {
		b = appendString(b, c)
	}
	return b
}

func appendInt(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

func appendBytes(b, v []byte) []byte {
	return append(appendInt(b, int64(len(v))), v...)
}

func appendString(b []byte, s string) []byte {
	return append(appendInt(b, int64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

package simulator

import "math/rand/v2"

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const (
	idChars        = 24
	requestIDChars = 14
)

// Streams of chance, apart so that one use does not shift another.
const (
	streamIDs = iota + 1
	streamRequests
	streamQueue
	streamFaults
)

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// mint makes an id in the provider's shape; deterministic by the generator.
func mint(r *rand.Rand, prefix string, n int) string {
	b := make([]byte, 0, len(prefix)+n)
	b = append(b, prefix...)
	for range n {
		b = append(b, idAlphabet[r.IntN(len(idAlphabet))])
	}
	return string(b)
}

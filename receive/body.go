package receive

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/unavez/unavez/inbox"
)

// bodyBytesFirst is what a body may hold before more room is asked for. A
// caller that announces much and sends little holds little.
const bodyBytesFirst = 4 << 10

// gate bounds the bytes of all bodies in flight.
type gate struct {
	held atomic.Int64
	max  int64
}

func (g *gate) take(n int64) bool {
	if g.held.Add(n) > g.max {
		g.held.Add(-n)
		return false
	}
	return true
}

func (g *gate) give(n int64) { g.held.Add(-n) }

// body is a request's body and the room that it holds.
type body struct {
	gate  *gate
	bytes []byte
	held  int64
}

func (b *body) release() {
	b.gate.give(b.held)
	b.held, b.bytes = 0, nil
}

// grow moves the bytes to a larger room.
func (b *body) grow(size int64) bool {
	if !b.gate.take(size) {
		return false
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.gate.give(b.held)
	b.bytes, b.held = larger, size
	return true
}

// read takes the whole body as received, or says why not.
func (b *body) read(r *http.Request, bytesMax int64) *refusal {
	if r.ContentLength > bytesMax {
		return tooLarge()
	}
	roomMax := bytesMax + 1 // one more shows the end, or that it is too large
	if r.ContentLength >= 0 {
		roomMax = r.ContentLength + 1
	}
	if !b.grow(min(roomMax, bodyBytesFirst)) {
		return overloaded("memory for bodies")
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if int64(len(b.bytes)) > bytesMax {
				return tooLarge()
			}
			if !b.grow(min(roomMax, 2*int64(cap(b.bytes)))) {
				return overloaded("memory for bodies")
			}
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > bytesMax:
			return tooLarge()
		case err == io.EOF:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &refusal{status: http.StatusRequestTimeout, outcome: inbox.OutcomeAborted, reason: "body too slow", close: true}
		case err != nil:
			return &refusal{status: http.StatusBadRequest, outcome: inbox.OutcomeAborted, reason: "body ended early", close: true}
		}
	}
}

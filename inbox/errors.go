package inbox

import (
	"context"
	"errors"

	"github.com/unavez/unavez/store"
)

// Sentinels of the package. After any of them the provider must deliver again.
var (
	// ErrNotStored: the evidence was not stored, or nobody can prove that it was.
	ErrNotStored = errors.New("inbox: not stored")
	// ErrOverloaded: the queue is full; nothing was queued.
	ErrOverloaded = errors.New("inbox: queue is full")
	// ErrStopped: the inbox does not run (not yet, or no longer).
	ErrStopped = errors.New("inbox: not running")
)

// unavailable says that the error is about the ledger and not about a row of
// the batch, so that trying the rows apart would only take longer.
func unavailable(err error) bool {
	for _, sentinel := range []error{
		store.ErrUnavailable, store.ErrBusy, store.ErrFull, store.ErrSchema, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

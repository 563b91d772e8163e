package outbox

import "errors"

// Refusals of what a person asks for.
var (
	// ErrDestination: no destination of that name is configured.
	ErrDestination = errors.New("outbox: no such destination")
	// ErrNotStopped: the message is neither dead nor ambiguous; it is delivered
	// already or still being tried.
	ErrNotStopped = errors.New("outbox: message is not dead or ambiguous")
	// ErrWho: who asks is missing.
	ErrWho = errors.New("outbox: an actor is needed")
)

// errNotTried tells the breaker that a permitted attempt did not take place.
var errNotTried = errors.New("outbox: not tried")

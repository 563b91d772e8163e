package idempotency

import (
	"errors"
	"time"
)

// Refusals. Route.Refuse gets them, wrapped or as they are.
var (
	// ErrMalformed: the header is not one key of 1 to 255 visible ASCII
	// characters, quoted or bare.
	ErrMalformed = errors.New("idempotency: key is not 1 to 255 visible ASCII characters")
	// ErrReused: the key belongs to another request of the same caller.
	ErrReused = errors.New("idempotency: key was used for another request")
	// ErrInProgress: the first request with the key has not been answered; see
	// InProgressError.
	ErrInProgress = errors.New("idempotency: the request with this key is in progress")
	// ErrExpired: the answer is no longer kept, and the request is not run again.
	ErrExpired = errors.New("idempotency: key has expired")
	// ErrNotKept: the key or the answer could not be stored. What the request
	// asked for may have been done; sending it again with the same key is safe.
	ErrNotKept = errors.New("idempotency: key or answer not stored")
)

// InProgressError is ErrInProgress with the pause after which to ask again.
type InProgressError struct{ RetryAfter time.Duration }

func (e *InProgressError) Error() string { return ErrInProgress.Error() }

// Unwrap makes it an ErrInProgress.
func (e *InProgressError) Unwrap() error { return ErrInProgress }

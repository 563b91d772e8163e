// Package backoff says how long to wait before the next attempt.
//
// It stands beside the flow: the stages that try again ask it. Invariant: a
// delay is random over its whole range (full jitter), so that what failed
// together does not come back together, and never above its cap. It keeps no
// state; a crash here costs nothing.
package backoff

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Policy bounds the attempts at one thing. The zero value gives up after the
// first attempt and never waits.
type Policy struct {
	// Base bounds the wait after the first failure.
	Base time.Duration
	// Cap bounds every wait; zero is no cap.
	Cap time.Duration
	// Attempts is the number of attempts, the first included.
	Attempts int
	// Factor is the growth of the bound with each failure; below 2 it is 2.
	Factor int
}

// Exhausted says whether no attempt is left after that many.
func (p Policy) Exhausted(attempts int) bool { return attempts >= p.Attempts }

// Bound is the longest wait after the attempt-th attempt failed (from 1).
func (p Policy) Bound(attempt int) time.Duration {
	limit := p.Cap
	if limit <= 0 {
		limit = math.MaxInt64
	}
	bound, factor := p.Base, time.Duration(max(p.Factor, 2))
	if bound <= 0 {
		return 0
	}
	for range attempt - 1 {
		if bound >= limit/factor {
			return limit
		}
		bound *= factor
	}
	return min(bound, limit)
}

// Delay is the wait after the attempt-th attempt failed (from 1): uniform from
// zero to Bound. random returns numbers in [0, 1); nil is the process's own.
func (p Policy) Delay(attempt int, random func() float64) time.Duration {
	return spread(p.Bound(attempt), random)
}

// DelayAfter is Delay where the other side asked for a pause: never earlier
// than the pause, as far as it is not longer than longest, and spread behind it.
func (p Policy) DelayAfter(attempt int, pause, longest time.Duration, random func() float64) time.Duration {
	pause = min(max(pause, 0), longest)
	return pause + spread(min(p.Bound(attempt), max(longest-pause, pause/spreadShare)), random)
}

// spreadShare keeps some jitter behind a pause that is as long as may be: a
// tenth of it.
const spreadShare = 10

func spread(bound time.Duration, random func() float64) time.Duration {
	if bound <= 0 {
		return 0
	}
	if random == nil {
		random = rand.Float64
	}
	return min(time.Duration(random()*float64(bound)), bound)
}

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3: seconds or
// an HTTP date). False says that there is none that can be read; an instant
// that has passed is no pause.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(math.MaxInt64/int64(time.Second)))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}

package outbox

import (
	"errors"
	"log/slog"

	"github.com/sony/gobreaker/v2"
)

// breaker cuts a destination off after consecutive failures, and lets single
// attempts through after a while. It lives in the process: another one finds
// out by itself. What is durable is each message's next attempt.
type breaker struct {
	two *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// permit reports how a permitted attempt ended: nil for success, errNotTried if
// it did not take place.
type permit func(error)

func newBreaker(name string, opt *Options) *breaker {
	return &breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        name,
		MaxRequests: 1,
		Timeout:     opt.CutOffFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= opt.CutOffAfter },
		IsExcluded:  func(err error) bool { return errors.Is(err, errNotTried) },
		OnStateChange: func(name string, from, to gobreaker.State) {
			opt.Logger.Warn("breaker changed", slog.String("destination", name),
				slog.String("from", from.String()), slog.String("to", to.String()))
		},
	})}
}

// allow returns false while the destination is cut off or on probation with
// another attempt.
func (b *breaker) allow() (permit, bool) {
	done, err := b.two.Allow()
	return done, err == nil
}

func (b *breaker) state() gobreaker.State { return b.two.State() }

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

// permit allows one attempt.
type permit struct {
	// end reports how the attempt ended: nil for success, errNotTried if it did
	// not take place.
	end func(error)
	// probe says that the attempt decides on a destination that was cut off.
	probe bool
}

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
	probe := b.state() != gobreaker.StateClosed
	end, err := b.two.Allow()
	return permit{end, probe}, err == nil
}

// holds says whether a permit that had to wait is still good: it is not if the
// destination was cut off meanwhile.
func (b *breaker) holds(p permit) bool { return p.probe || b.state() == gobreaker.StateClosed }

func (b *breaker) state() gobreaker.State { return b.two.State() }

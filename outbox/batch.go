package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// batch is one claim: some lanes under one token until the lease ends.
type batch struct {
	group *group
	token string
	until time.Time
	// soft ends when no further message may begin, hard when requests are cut off.
	soft, hard context.Context
}

// start is a lane whose first message is permitted and about to be counted.
type start struct {
	lane    []*job
	allowed permit
}

// work does what the claim holds, and then gives the lanes back. Each lane has
// a slot, which is free again when the lane is done.
func (b *batch) work(items []store.ClaimedItem) {
	g := b.group
	lanes, err := g.load(b.hard, items)
	if err != nil {
		b.log("reading claimed messages", err)
		g.give(countLanes(items))
		b.release(nil)
		return
	}
	begin := change{token: b.token}
	var starts []start
	for _, lane := range lanes {
		if s, ok := b.start(lane, &begin); ok {
			starts = append(starts, s)
		}
	}
	g.give(len(lanes) - len(starts))
	if err := b.begin(begin, starts); err != nil {
		b.log("counting attempts", err)
		g.give(len(starts))
		b.release(starts)
		return
	}
	var running sync.WaitGroup
	for _, s := range starts {
		running.Go(func() {
			b.lane(s.lane, s.allowed)
			g.give(1)
			g.wake()
		})
	}
	running.Wait()
	b.release(nil)
}

// start prepares a lane, adds to begin what must be committed before its first
// message is sent, and says whether it may be sent now.
func (b *batch) start(lane []*job, begin *change) (start, bool) {
	lane = b.settle(lane, begin)
	if len(lane) == 0 || b.soft.Err() != nil || !b.timeLeft() {
		return start{}, false
	}
	allowed, ok := b.group.breaker.allow()
	if !ok {
		return start{}, false
	}
	b.count(lane[0], begin)
	return start{lane, allowed}, true
}

// settle clears the lane of what is not to be sent, and returns the rest.
func (b *batch) settle(lane []*job, begin *change) []*job {
	var rest []*job
	for _, j := range lane {
		c, send := b.group.settle(j)
		begin.merge(c)
		if send {
			rest = append(rest, j)
		}
	}
	return rest
}

func (b *batch) count(j *job, c *change) {
	j.counted++
	c.count = append(c.count, j.msg.ID)
}

// begin commits the counts. After it has failed nothing may be sent.
func (b *batch) begin(c change, starts []start) error {
	if len(c.count)+len(c.complete)+len(c.states) == 0 {
		return nil
	}
	err := b.group.ledger.write(c)
	if err != nil {
		for _, s := range starts {
			s.allowed.end(errNotTried)
		}
	}
	return err
}

// lane sends the lane's messages one after the other, as long as each is done
// with: delivered, or given up.
func (b *batch) lane(lane []*job, allowed permit) {
	for i, j := range lane {
		o, sent := b.send(j, allowed)
		if !sent {
			allowed.end(errNotTried)
			b.handBack(j)
			return
		}
		allowed.end(failure(o))
		b.group.hold(o)
		c, done := b.group.judge(j, o)
		c.token = b.token
		goOn := false
		if done && i+1 < len(lane) && b.soft.Err() == nil && b.timeLeft() {
			if allowed, goOn = b.group.breaker.allow(); goOn {
				b.count(lane[i+1], &c)
			}
		}
		if err := b.group.mark(b.hard, c, b.until); err != nil {
			b.log("recording the attempt at "+j.msg.ID, err)
			if goOn {
				allowed.end(errNotTried)
			}
			return
		}
		crashpoint.Hit("outbox.marked")
		b.group.note(j, o, c)
		if !goOn {
			return
		}
	}
}

// send waits for its turn among the destination's requests and makes the
// attempt, unless it can no longer be made now.
func (b *batch) send(j *job, allowed permit) (outcome, bool) {
	select {
	case <-b.soft.Done():
		return outcome{}, false
	case b.group.requests <- struct{}{}:
	}
	defer func() { <-b.group.requests }()
	if b.soft.Err() != nil || !b.timeLeft() || !b.group.breaker.holds(allowed) {
		return outcome{}, false
	}
	return b.group.sender.send(b.hard, &j.msg), true
}

// timeLeft says whether an attempt that begins now ends, and can be recorded,
// within the lease.
func (b *batch) timeLeft() bool {
	limit := b.group.dest.Timeout
	return b.until.Sub(b.group.opt.Now()) >= limit+limit/timeLeftShare
}

// timeLeftShare is the part of a time limit that is kept for recording the result.
const timeLeftShare = 4

// handBack takes back the count of an attempt that was not made.
func (b *batch) handBack(j *job) {
	before := j.counted - 1
	c := change{token: b.token, postpone: []store.Postponed{{ID: j.msg.ID, Attempts: &before}}}
	if err := b.group.mark(b.hard, c, b.until); err != nil {
		b.log("handing back "+j.msg.ID, err)
	}
}

// release ends the claim. Messages whose count may have been committed without
// an attempt get their count back.
func (b *batch) release(starts []start) {
	c := change{token: b.token, release: true}
	for _, s := range starts {
		before := s.lane[0].counted - 1
		c.postpone = append(c.postpone, store.Postponed{ID: s.lane[0].msg.ID, Attempts: &before})
	}
	err := b.group.mark(b.hard, c, b.until)
	if errors.Is(err, store.ErrLeaseLost) {
		return // somebody else has the lanes already
	}
	if err != nil {
		b.log("giving lanes back", err)
	}
}

func (b *batch) log(doing string, err error) {
	b.group.opt.Logger.Warn(doing, slog.String("destination", b.group.dest.Name), slog.Any("error", err))
}

// failure is what the breaker hears of an attempt: anything but a delivery
// speaks against the destination, except what we cut off ourselves.
func failure(o outcome) error {
	switch {
	case o.verdict == VerdictDelivered:
		return nil
	case o.stopped:
		return errNotTried
	}
	return errors.New(o.err)
}

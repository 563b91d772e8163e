package outbox

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/unavez/unavez/internal/id"
	"github.com/unavez/unavez/store"
)

// Kinds, reasons and urgencies of the exceptions that a relay opens.
const (
	kindDeadLetter = "dead_letter"
	kindAmbiguous  = "ambiguous_message"

	reasonExhausted = "attempts_exhausted"
	reasonGone      = "destination_gone"
	reasonUnclear   = "attempt_unclear"

	urgencyDead      = "normal"
	urgencyAmbiguous = "high"
)

// errorLost is recorded for an attempt that was begun and left no result.
const errorLost = "the relay ended before it recorded a result"

// exceptionDetail tells a person what was tried.
type exceptionDetail struct {
	Destination string `json:"destination"`
	Type        string `json:"type"`
	Attempts    int    `json:"attempts"`
	Verdict     string `json:"verdict"`
	Status      int    `json:"status,omitzero"`
	Error       string `json:"error,omitzero"`
}

// judge turns the outcome of an attempt into what is written. The message
// stays in its lane's way only if it is to be tried again.
func (g *group) judge(j *job, o outcome) (c change, done bool) {
	message := j.msg.ID
	attempt := store.Attempt{
		ID: g.opt.NewID(id.Attempt), Message: message, Number: j.number, At: stored(o.at), Duration: o.duration,
		Status: o.status, Verdict: o.verdict, Error: o.err,
	}
	c = change{attempts: []store.Attempt{attempt}, states: map[string]store.MessageState{message: store.MessagePending}}
	switch {
	case o.verdict == VerdictDelivered:
		c.states[message] = store.MessageDelivered
	case o.verdict == VerdictUnknown && !g.dest.idempotent():
		c.states[message] = store.MessageAmbiguous
		c.exceptions = []store.Exception{g.exception(j, o, kindAmbiguous, reasonUnclear, urgencyAmbiguous)}
	case o.status == http.StatusGone:
		c.states[message] = store.MessageDead
		c.exceptions = []store.Exception{g.exception(j, o, kindDeadLetter, reasonGone, urgencyDead)}
		c.settings = map[string]string{goneKey(g.dest.Name): stored(o.at).Format(time.RFC3339Nano)}
	case g.opt.Backoff.Exhausted(j.counted):
		c.states[message] = store.MessageDead
		c.exceptions = []store.Exception{g.exception(j, o, kindDeadLetter, reasonExhausted, urgencyDead)}
	default:
		c.postpone = []store.Postponed{{ID: message, Delay: g.delay(j, o), Error: o.err}}
		return c, false
	}
	c.complete = []string{message}
	return c, true
}

// delay spaces the attempts; a pause that the destination asked for is kept.
func (g *group) delay(j *job, o outcome) time.Duration {
	if o.paused {
		return g.opt.Backoff.DelayAfter(j.counted, o.pause, g.opt.RetryAfterMax, g.opt.Random)
	}
	return g.opt.Backoff.Delay(j.counted, g.opt.Random)
}

// settle clears what a claim found before anything is sent: work without a
// message, and attempts that were begun and left no result. It returns what is
// written, and whether the message is still to be sent.
func (g *group) settle(j *job) (c change, send bool) {
	if j.stray {
		return change{complete: []string{j.item.ID}}, false
	}
	for range j.lost {
		o := outcome{verdict: VerdictUnknown, err: errorLost, at: g.opt.Now()}
		judged, done := g.judge(j, o)
		judged.postpone = nil // it goes on now; the lapsed lease was its pause
		c.merge(judged)
		g.note(j, o, judged)
		if done {
			return c, false
		}
		j.number++
	}
	if g.opt.Backoff.Exhausted(j.counted) { // a lower limit than at its last attempt
		o := outcome{verdict: VerdictNotSent, err: "no attempts left", at: g.opt.Now()}
		c.states = map[string]store.MessageState{j.msg.ID: store.MessageDead}
		c.exceptions = append(c.exceptions, g.exception(j, o, kindDeadLetter, reasonExhausted, urgencyDead))
		c.complete = []string{j.msg.ID}
		return c, false
	}
	return c, true
}

func (g *group) exception(j *job, o outcome, kind, reason, urgency string) store.Exception {
	detail := encode(exceptionDetail{
		Destination: g.dest.Name, Type: j.msg.Type, Attempts: j.counted, Verdict: o.verdict, Status: o.status, Error: o.err,
	})
	now := stored(g.opt.Now())
	return store.Exception{
		ID: g.opt.NewID(id.Exception), Kind: kind, Condition: conditionOf(j.msg.ID, reason), Subject: j.msg.ID, Reason: reason,
		State: store.ExceptionOpen, Account: j.msg.Account, Payment: j.msg.Payment, Order: j.msg.Order, Message: j.msg.ID,
		Urgency: urgency, Detail: detail, OpenedAt: now, UpdatedAt: now,
	}
}

// conditionOf names why a message has stopped.
func conditionOf(message, reason string) string { return message + "|" + reason + "|" }

// stored is an instant as the ledger keeps it.
func stored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

// note logs and counts what became of an attempt.
func (g *group) note(j *job, o outcome, c change) {
	g.relay.metrics.attempted(g.dest.Name, o)
	state := c.states[j.msg.ID]
	log := []any{
		slog.String("destination", g.dest.Name), slog.String("message", j.msg.ID), slog.String("type", j.msg.Type),
		slog.Int("attempt", j.number), slog.String("verdict", o.verdict), slog.Int("status", o.status),
		slog.String("error", o.err),
	}
	switch state {
	case store.MessageDelivered:
		g.relay.metrics.delivered(g.dest.Name, g.opt.Now().Sub(j.msg.CreatedAt))
		g.opt.Logger.Debug("message delivered", log...)
	case store.MessagePending:
		g.opt.Logger.Info("message not delivered, to be tried again", log...)
	default:
		g.relay.metrics.stopped(g.dest.Name, state)
		g.opt.Logger.Warn("message "+string(state), log...)
	}
}

package payment

import "strconv"

// The types of messages about a payment.
const (
	MessageAuthorized       = "payment.authorized"
	MessageAttemptFailed    = "payment.failed"
	MessageCanceled         = "payment.canceled"
	MessageCaptured         = "payment.captured"
	MessageMoneyAfterCancel = "payment.money_after_cancel"
	MessageAdjusted         = "authorization.adjusted"
	MessageCapturePending   = "capture.pending"
	MessageCaptureFailed    = "capture.failed"
	MessageRefundPending    = "refund.pending"
	MessageRefundSucceeded  = "refund.succeeded"
	MessageRefundCanceled   = "refund.canceled"
	MessageRefundFailed     = "refund.failed"
	MessageDisputeOpened    = "dispute.opened"
	MessageDisputeWon       = "dispute.won"
	MessageDisputeLost      = "dispute.lost"
)

// messages of items by kind and rank; an empty one is not told.
var messages = [...][]string{
	isAuthorization: {MessageAuthorized, "", MessageCanceled, MessageCanceled},
	isAdjustment:    {MessageAdjusted},
	isAttempt:       {"", MessageAttemptFailed},
	isCapture:       {MessageCapturePending, MessageCaptured, MessageCaptureFailed, MessageCaptureFailed},
	isRefund: {MessageRefundPending, MessageRefundSucceeded, MessageRefundFailed, MessageRefundCanceled,
		MessageRefundFailed},
	isDispute: {MessageDisputeOpened, MessageDisputeWon, MessageDisputeLost},
}

// Notification is what one business fact has to say, once per payment.
type Notification struct {
	Type   string `json:"type"`
	Kind   Kind   `json:"kind"`
	Form   Form   `json:"form,omitzero"`
	Object string `json:"object"`
	// Stage and Round are those of items.
	Stage Stage `json:"stage,omitzero"`
	Round int   `json:"round,omitzero"`
	// Amount is the figure of a total, in minor units; 0 for items.
	Amount int64 `json:"amount,omitzero"`
	// Fact is one that proves it. Where amounts are contested it is the one
	// that counts among those that were known.
	Fact Fact `json:"fact"`
}

// Key is the identity of the notification inside its payment. It holds nothing
// that may be contested: of an item no amount, and no number of a read.
func (n Notification) Key() string {
	switch {
	case n.Type == MessageMoneyAfterCancel:
		return n.Type
	case n.Form == FormTotal:
		return string(n.Kind) + "|" + n.Object + "|total|" + strconv.FormatInt(n.Amount, 10)
	case n.Kind == KindDispute:
		return string(n.Kind) + "|" + n.Object + "|" + strconv.Itoa(n.Round) + "|" + string(n.Stage)
	case n.Stage == "":
		return string(n.Kind) + "|" + n.Object
	default:
		return string(n.Kind) + "|" + n.Object + "|" + string(n.Stage)
	}
}

// Notifications is N(S), all that the set of facts has to say, by kind, object
// and ascending rank. Facts in another currency say nothing.
func Notifications(r Record, facts []Fact) []Notification {
	b := read(r, facts)
	var out []Notification
	b.speak(func(n Notification, _ Decision) { out = append(out, n) })
	return out
}

// speaks returns the type of message that a fact notifies by, or "".
func (b *book) speaks(r *ref) string {
	if r.kind >= isReversal || r.kind == isLink || r.aside || r.Silent {
		return ""
	}
	byTotal := b.record.CaptureSpeaks == FormTotal
	switch {
	case r.kind == isRefund && r.total():
		return ""
	case r.kind == isCapture && r.total():
		if byTotal {
			return MessageCaptured
		}
		return ""
	case r.kind == isCapture && byTotal && r.rank != captureFailed:
		// The total tells of this money; a failure has no other voice.
		return ""
	}
	return messages[r.kind][r.rank]
}

// height is what a run has reached, as far as it counts.
type height struct {
	place  int
	amount int64
}

func placeOfRef(r *ref) int { return placeOf(r.Round, r.rank) }

func heightOf(run []ref) height {
	h := height{place: -1, amount: -1}
	for i := range run {
		r := &run[i]
		if !r.counts() {
			continue
		}
		if r.total() {
			h.amount = max(h.amount, r.Amount.Value)
		}
		if !r.total() || r.kind == isAuthorization {
			h.place = max(h.place, placeOfRef(r))
		}
	}
	return h
}

// speak calls yield with each notification and the decision that the set alone
// asks for.
func (b *book) speak(yield func(Notification, Decision)) {
	for i := 0; i < len(b.refs); {
		j := runEnd(b.refs, i)
		run := b.refs[i:j]
		h := heightOf(run)
		for len(run) > 0 {
			n := sameVoice(run)
			b.speakOne(run[:n], b.refs[i:j], h, yield)
			run = run[n:]
		}
		i = j
	}
}

// sameVoice is the length of the group at the start of a run that is one
// notification: one stage of an item, one figure of a total.
func sameVoice(run []ref) int {
	n := 1
	for n < len(run) && placeOfRef(&run[n]) == placeOfRef(&run[0]) && run[n].total() == run[0].total() &&
		(!run[0].total() || run[n].Amount.Value == run[0].Amount.Value) {
		n++
	}
	return n
}

func (b *book) speakOne(group, run []ref, h height, yield func(Notification, Decision)) {
	message := ""
	var voice *ref
	for i := range group {
		r := &group[i]
		m := b.speaks(r)
		if m == "" {
			continue
		}
		message = m
		if better(r, voice) {
			voice = r
		}
	}
	if voice == nil {
		return
	}
	n := Notification{
		Type: message, Kind: voice.Kind, Object: voice.Object, Stage: voice.Stage, Round: voice.Round,
		Fact: *voice.Fact,
	}
	switch {
	case voice.total():
		n.Form, n.Amount, n.Stage = FormTotal, voice.Amount.Value, ""
	case voice.Stage == StageClear:
		n.Stage = StageWon
	}
	yield(n, b.decide(voice, run, h))
}

// better prefers facts that count, then stated amounts, then the amount that
// counts: the smallest of money in, the largest of money out.
func better(r, than *ref) bool {
	switch {
	case than == nil:
		return true
	case r.counts() != than.counts():
		return r.counts()
	case r.stated() != than.stated():
		return r.stated()
	default:
		return r.kind >= isRefund && r.Amount.Value > than.Amount.Value
	}
}

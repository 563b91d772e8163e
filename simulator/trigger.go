package simulator

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// The types of trigger: what customers, banks, time and the provider's own
// people do, without any call of the merchant's.
const (
	DisputeOpen     = "dispute.open"     // Charge or PaymentIntent, Amount, Reason, Inquiry
	DisputeEscalate = "dispute.escalate" // an inquiry becomes a chargeback: the money goes
	DisputeReview   = "dispute.review"   // evidence is in
	DisputeWin      = "dispute.win"
	DisputeLose     = "dispute.lose"
	DisputeClose    = "dispute.close" // an inquiry ends without a chargeback

	RefundSucceed = "refund.succeed"
	RefundFail    = "refund.fail" // also one that had succeeded; Reason
	RefundCancel  = "refund.cancel"

	IntentSucceed = "payment_intent.succeed" // the customer or the bank says yes
	IntentFail    = "payment_intent.fail"    // or no
	IntentExpire  = "payment_intent.expire"  // an authorization lapses

	SessionComplete = "checkout.session.complete" // PaymentIntent, Reference, Metadata
	SessionSucceed  = "checkout.session.async_payment_succeed"
	SessionFail     = "checkout.session.async_payment_fail"
	SessionExpire   = "checkout.session.expire" // an abandoned one: Amount, Currency, Reference, Metadata

	InvoicePay = "invoice.pay" // PaymentIntent, Metadata

	EventResend = "event.resend" // Event: the same id and bytes once more
	EventSecond = "event.second" // Event: the same fact under another id
	EventCustom = "event.custom" // EventType, Object: any event at all
)

// Trigger is one such happening. Account, for a custom event or an abandoned
// session, names a connected account.
type Trigger struct {
	Type          string            `json:"type"`
	Account       string            `json:"account,omitempty"`
	PaymentIntent string            `json:"payment_intent,omitempty"`
	Charge        string            `json:"charge,omitempty"`
	Refund        string            `json:"refund,omitempty"`
	Dispute       string            `json:"dispute,omitempty"`
	Session       string            `json:"session,omitempty"`
	Event         string            `json:"event,omitempty"`
	Amount        int64             `json:"amount,omitempty"`
	Currency      string            `json:"currency,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Reference     string            `json:"reference,omitempty"`
	Inquiry       bool              `json:"inquiry,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	EventType     string            `json:"event_type,omitempty"`
	Object        jsontext.Value    `json:"object,omitempty"`
}

// Triggered names the object that was made or moved, and the events of it.
type Triggered struct {
	Object string   `json:"object,omitempty"`
	Events []string `json:"events"`
}

// Trigger makes something happen, whole or not at all. ErrNotFound: no such
// object. ErrInvalid: it cannot happen to the object in its state. ErrFull: the
// bounds of the Config. It is not idempotent: two openings are two disputes.
func (s *Server) Trigger(t Trigger) (Triggered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{srv: s, account: t.Account, now: s.cfg.Now(), events: []string{}}
	if !s.room() {
		return Triggered{}, fmt.Errorf("trigger %s: %w", t.Type, ErrFull)
	}
	id, err := s.trigger(c, t)
	if err != nil {
		return Triggered{}, fmt.Errorf("trigger %s: %w", t.Type, err)
	}
	return Triggered{Object: id, Events: c.events}, nil
}

func (s *Server) trigger(c *call, t Trigger) (string, error) {
	switch t.Type {
	case DisputeOpen:
		return s.triggerOpen(c, t)
	case DisputeEscalate, DisputeReview, DisputeWin, DisputeLose, DisputeClose:
		return s.triggerDispute(c, t)
	case RefundSucceed, RefundFail, RefundCancel:
		return s.triggerRefund(c, t)
	case IntentSucceed, IntentFail, IntentExpire:
		return s.triggerIntent(c, t)
	case SessionComplete, SessionSucceed, SessionFail, SessionExpire:
		return s.triggerSession(c, t)
	case InvoicePay:
		return s.triggerInvoice(c, t)
	case EventResend, EventSecond, EventCustom:
		return s.triggerEvent(c, t)
	}
	return "", fmt.Errorf("unknown type: %w", ErrInvalid)
}

func lookup[T any](t *table[T], id string) (T, error) {
	row, ok := t.get(id)
	if !ok {
		return row, fmt.Errorf("object %q: %w", id, ErrNotFound)
	}
	return row, nil
}

func wrongState(id, status string) error {
	return fmt.Errorf("object %s is %s: %w", id, status, ErrInvalid)
}

// intentOf also says in whose account things happen.
func (s *Server) intentOf(c *call, id string) (*intent, error) {
	in, err := lookup(&s.intents, id)
	if err == nil {
		c.account = in.account
	}
	return in, err
}

func (s *Server) triggerOpen(c *call, t Trigger) (string, error) {
	var ch *charge
	if t.Charge != "" {
		found, err := lookup(&s.charges, t.Charge)
		if err != nil {
			return "", err
		}
		ch = found
	} else {
		in, err := s.intentOf(c, t.PaymentIntent)
		if err != nil {
			return "", err
		}
		if ch = in.latest; ch == nil {
			return "", wrongState(in.id, in.status)
		}
	}
	amount := or(t.Amount, ch.captured)
	if ch.captured == 0 || amount < 0 || amount > ch.captured {
		return "", fmt.Errorf("dispute of %d on %s with %d captured: %w", amount, ch.id, ch.captured, ErrInvalid)
	}
	c.account = ch.account
	return s.openDispute(c, ch, amount, t.Reason, t.Inquiry).id, nil
}

func (s *Server) triggerDispute(c *call, t Trigger) (string, error) {
	d, err := lookup(&s.disputes, t.Dispute)
	if err != nil {
		return "", err
	}
	c.account = d.account
	to := map[string]string{
		DisputeEscalate: disputeNeeds, DisputeReview: disputeReview, DisputeWin: disputeWon,
		DisputeLose: disputeLost, DisputeClose: disputeWarningClosed,
	}[t.Type]
	if !s.moveDispute(c, d, to) {
		return "", wrongState(d.id, d.status)
	}
	return d.id, nil
}

func (s *Server) triggerRefund(c *call, t Trigger) (string, error) {
	re, err := lookup(&s.refunds, t.Refund)
	if err != nil {
		return "", err
	}
	c.account = re.account
	to := map[string]string{RefundSucceed: statusSucceeded, RefundFail: statusFailed, RefundCancel: statusCanceled}[t.Type]
	if !s.settleRefund(c, re, to, t.Reason) {
		return "", wrongState(re.id, re.status)
	}
	return re.id, nil
}

func (s *Server) triggerIntent(c *call, t Trigger) (string, error) {
	in, err := s.intentOf(c, t.PaymentIntent)
	if err != nil {
		return "", err
	}
	if t.Type == IntentExpire {
		if in.status != intentRequiresCapture {
			return "", wrongState(in.id, in.status)
		}
		s.expire(c, in)
		return in.id, nil
	}
	var ch *charge
	switch in.status {
	case intentProcessing:
		ch = in.latest
	case intentRequiresAction:
		ch = s.newCharge(c, in, statusPending)
	default:
		return "", wrongState(in.id, in.status)
	}
	if t.Type == IntentFail {
		_ = s.decline(c, in, ch) // nobody has called, so nobody gets the error
	} else {
		s.approve(c, in, ch)
	}
	return in.id, nil
}

func (s *Server) triggerInvoice(c *call, t Trigger) (string, error) {
	in, err := s.intentOf(c, t.PaymentIntent)
	if err != nil {
		return "", err
	}
	if in.received == 0 {
		return "", wrongState(in.id, in.status)
	}
	inv := &invoice{base: s.newBase(c, "in_"), intent: in, amount: in.received, metadata: t.Metadata}
	s.invoices.add(inv.id, inv)
	s.emit(c, in.id, "invoice.paid", s.showInvoice(inv), nil)
	if s.cfg.APIVersion >= versionInvoicePay {
		inv.payment = mint(s.ids, "inpay_", idChars)
		s.emit(c, in.id, "invoice_payment.paid", s.showInvoicePayment(inv), nil)
	}
	return inv.id, nil
}

func (s *Server) triggerEvent(c *call, t Trigger) (string, error) {
	if t.Type == EventCustom {
		if t.EventType == "" || t.Object.Kind() != '{' || !t.Object.IsValid() {
			return "", fmt.Errorf("a custom event needs event_type and object: %w", ErrInvalid)
		}
		s.emit(c, "", t.EventType, t.Object, nil)
		return c.events[0], nil
	}
	ev, ok := s.events.byID[t.Event]
	if !ok {
		return "", fmt.Errorf("event %q: %w", t.Event, ErrNotFound)
	}
	c.account = ev.account
	if t.Type == EventSecond {
		s.secondEvent(c, ev)
		return c.events[0], nil
	}
	ev.open += s.queue.add(ev, plan{})
	return ev.id, nil
}

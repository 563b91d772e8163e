package simulator

import "net/http"

// The payment methods that do something else than succeed.
const (
	methodDeclined      = "pm_card_chargeDeclined"
	methodAction        = "pm_card_authenticationRequired"
	methodAsync         = "pm_sepaDebit"
	methodPendingRefund = "pm_card_pendingRefund"
)

func (s *Server) newBase(c *call, prefix string) base {
	return base{id: mint(s.ids, prefix, idChars), account: c.account, created: c.now}
}

func createIntent(c *call) (object, *apiError) {
	s, p := c.srv, c.params
	currency, bad := checkCurrency(p.get("currency"))
	if bad != nil {
		return nil, bad
	}
	amount, bad := p.amount("amount", currency)
	if bad != nil {
		return nil, bad
	}
	confirm, bad := p.boolean("confirm", false)
	if bad != nil {
		return nil, bad
	}
	metadata, bad := p.metadata()
	if bad != nil {
		return nil, bad
	}
	switch p.get("capture_method") {
	case "", "automatic", "automatic_async", "manual":
	default:
		return nil, badParam("capture_method", "", "Invalid capture_method: must be one of automatic, automatic_async, or manual")
	}
	method := p.get("payment_method")
	if confirm && method == "" {
		return nil, badParam("payment_method", "", "You cannot confirm this PaymentIntent because it's missing a payment method.")
	}
	in := &intent{
		base: s.newBase(c, "pi_"), amount: amount, currency: currency, status: intentRequiresMethod,
		manual: p.get("capture_method") == "manual", async: p.get("capture_method") == "automatic_async", method: method, customer: p.get("customer"),
		description: p.get("description"), metadata: metadata,
	}
	if method != "" {
		in.status = intentRequiresConfirm
	}
	s.intents.add(in.id, in)
	s.emit(c, in.id, "payment_intent.created", s.showIntent(in), nil)
	if confirm {
		return s.confirm(c, in)
	}
	return s.showIntent(in), nil
}

func confirmIntent(c *call) (object, *apiError) {
	in, bad := c.intent(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	switch in.status {
	case intentRequiresMethod, intentRequiresConfirm, intentRequiresAction:
	default:
		return nil, c.srv.unexpected(in, "confirmed")
	}
	if m := c.params.get("payment_method"); m != "" {
		in.method = m
	}
	if in.method == "" {
		return nil, c.srv.unexpected(in, "confirmed without a payment method")
	}
	return c.srv.confirm(c, in)
}

func (s *Server) unexpected(in *intent, what string) *apiError {
	e := refused(codeUnexpectedState, "This PaymentIntent's status is "+in.status+"; it cannot be "+what+".")
	e.intent = s.showIntent(in)
	return e
}

// confirm lets the payment method decide.
func (s *Server) confirm(c *call, in *intent) (object, *apiError) {
	switch in.method {
	case methodDeclined:
		return nil, s.decline(c, in, s.newCharge(c, in, statusFailed))
	case methodAction:
		in.status = intentRequiresAction
		s.emit(c, in.id, "payment_intent.requires_action", s.showIntent(in), nil)
	case methodAsync:
		ch := s.newCharge(c, in, statusPending)
		in.status = intentProcessing
		s.emit(c, in.id, "charge.pending", s.showCharge(ch), nil)
		s.emit(c, in.id, "payment_intent.processing", s.showIntent(in), nil)
	default:
		s.approve(c, in, s.newCharge(c, in, statusPending))
	}
	return s.showIntent(in), nil
}

func (s *Server) newCharge(c *call, in *intent, status string) *charge {
	ch := &charge{base: s.newBase(c, "ch_"), intent: in, amount: in.amount, status: status}
	s.charges.add(ch.id, ch)
	in.latest = ch
	return ch
}

// decline ends an attempt without money; the intent can be tried again.
func (s *Server) decline(c *call, in *intent, ch *charge) *apiError {
	ch.status, ch.failure = statusFailed, "card_declined"
	in.status, in.method = intentRequiresMethod, ""
	in.lastError = object{
		"type": typeCard, "code": "card_declined", "decline_code": "generic_decline",
		"message": "Your card was declined.", "charge": ch.id,
	}
	s.emit(c, in.id, "charge.failed", s.showCharge(ch), nil)
	s.emit(c, in.id, "payment_intent.payment_failed", s.showIntent(in), nil)
	return &apiError{
		status: http.StatusPaymentRequired, typ: typeCard, code: "card_declined", declineCode: "generic_decline",
		message: "Your card was declined.", charge: ch.id, intent: s.showIntent(in),
	}
}

// approve is the bank's yes: money is held and, with automatic capture, ours.
func (s *Server) approve(c *call, in *intent, ch *charge) {
	ch.status, in.lastError = statusSucceeded, nil
	s.book(c, Authorized, ch.id, ch, ch.amount)
	if in.manual {
		in.status, in.capturable = intentRequiresCapture, ch.amount
		s.emit(c, in.id, "charge.succeeded", s.showCharge(ch), nil)
		s.emit(c, in.id, "payment_intent.amount_capturable_updated", s.showIntent(in), nil)
		return
	}
	ch.captured, ch.settled = ch.amount, true
	in.status, in.received = intentSucceeded, ch.amount
	s.book(c, Captured, ch.id, ch, ch.amount)
	shown := s.showCharge(ch)
	if in.async { // the balance transaction is told later
		shown["balance_transaction"] = nil
	}
	s.emit(c, in.id, "charge.succeeded", shown, nil)
	s.emit(c, in.id, "payment_intent.succeeded", s.showIntent(in), nil)
	if in.async {
		s.emit(c, in.id, "charge.updated", s.showCharge(ch), object{"balance_transaction": nil})
	}
}

func captureIntent(c *call) (object, *apiError) {
	s := c.srv
	final, bad := c.params.boolean("final_capture", true)
	if bad != nil {
		return nil, bad
	}
	in, bad := c.intent(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	amount := in.capturable
	if c.params.has("amount_to_capture") {
		if amount, bad = c.params.amount("amount_to_capture", in.currency); bad != nil {
			return nil, bad
		}
	}
	switch {
	case in.status == intentSucceeded:
		e := refused(codeAlreadyCaptured, "This PaymentIntent could not be captured because it has already been captured.")
		e.intent, e.charge = s.showIntent(in), in.latest.id
		return nil, e
	case in.status != intentRequiresCapture:
		return nil, s.unexpected(in, "captured")
	case amount > in.capturable:
		e := refused("amount_too_large", "The provided capture amount is greater than the amount that can be captured.")
		e.param = "amount_to_capture"
		return nil, e
	}
	s.capture(c, in, amount, final)
	return s.showIntent(in), nil
}

func (s *Server) capture(c *call, in *intent, amount int64, final bool) {
	ch := in.latest
	ch.captured += amount
	in.received += amount
	in.capturable -= amount
	s.book(c, Captured, ch.id, ch, amount)
	if final || in.capturable == 0 {
		ch.settled, in.status = true, intentSucceeded
		released := s.release(c, in)
		s.emit(c, in.id, "charge.captured", s.showCharge(ch), nil)
		s.emitRelease(c, in, released)
		s.emit(c, in.id, "payment_intent.succeeded", s.showIntent(in), nil)
		return
	}
	s.emit(c, in.id, "charge.captured", s.showCharge(ch), nil)
	s.emit(c, in.id, "payment_intent.amount_capturable_updated", s.showIntent(in), nil)
}

// release gives up what is still held.
func (s *Server) release(c *call, in *intent) int64 {
	rest := in.capturable
	if rest > 0 {
		in.capturable = 0
		in.latest.released += rest
		s.book(c, Released, in.latest.id, in.latest, rest)
	}
	return rest
}

// emitRelease is how an account that shows releases as refunds hears of one.
func (s *Server) emitRelease(c *call, in *intent, released int64) {
	if released > 0 && s.cfg.ReleaseAsRefund {
		before := s.shownRefunded(in.latest) - released
		s.emit(c, in.id, "charge.refunded", s.showCharge(in.latest), object{"amount_refunded": before})
	}
}

// incrementIntent raises the held amount to a new total.
func incrementIntent(c *call) (object, *apiError) {
	s := c.srv
	in, bad := c.intent(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	amount, bad := c.params.amount("amount", in.currency)
	if bad != nil {
		return nil, bad
	}
	switch {
	case in.status != intentRequiresCapture || in.latest.captured > 0:
		return nil, s.unexpected(in, "incremented")
	case amount <= in.amount:
		return nil, badParam("amount", "", "The new amount must be greater than the authorized amount.")
	}
	ch, more := in.latest, amount-in.amount
	in.amount, in.capturable, ch.amount = amount, amount, amount
	s.book(c, Authorized, ch.id, ch, more)
	s.emit(c, in.id, "payment_intent.amount_capturable_updated", s.showIntent(in), nil)
	return s.showIntent(in), nil
}

func cancelIntent(c *call) (object, *apiError) {
	s := c.srv
	reason := c.params.get("cancellation_reason")
	switch reason {
	case "", "duplicate", "fraudulent", "requested_by_customer", "abandoned":
	default:
		return nil, badParam("cancellation_reason", "", "Invalid cancellation_reason")
	}
	in, bad := c.intent(c.path["id"])
	if bad != nil {
		return nil, bad
	}
	switch in.status {
	case intentSucceeded, intentCanceled, intentProcessing:
		return nil, s.unexpected(in, "canceled")
	}
	if in.received > 0 {
		return nil, s.unexpected(in, "canceled after a capture")
	}
	in.status, in.cancelReason, in.canceledAt = intentCanceled, reason, c.now
	released := s.release(c, in)
	s.emitRelease(c, in, released)
	s.emit(c, in.id, "payment_intent.canceled", s.showIntent(in), nil)
	return s.showIntent(in), nil
}

// expire lets time take what was not captured.
func (s *Server) expire(c *call, in *intent) {
	ch := in.latest
	if ch.captured > 0 {
		ch.settled, in.status = true, intentSucceeded
		s.emitRelease(c, in, s.release(c, in))
		s.emit(c, in.id, "payment_intent.succeeded", s.showIntent(in), nil)
		return
	}
	ch.expired = true
	in.status, in.cancelReason, in.canceledAt = intentCanceled, "expired", c.now
	released := s.release(c, in)
	s.emit(c, in.id, "charge.expired", s.showCharge(ch), nil)
	s.emitRelease(c, in, released)
	s.emit(c, in.id, "payment_intent.canceled", s.showIntent(in), nil)
}

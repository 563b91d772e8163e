package simulator

func createRefund(c *call) (object, *apiError) {
	s, p := c.srv, c.params
	if p.get("payment_intent") == "" && p.get("charge") == "" {
		return nil, badParam("payment_intent", "parameter_missing", "One of the following params should be provided for this request: payment_intent or charge.")
	}
	switch p.get("reason") {
	case "", "duplicate", "fraudulent", "requested_by_customer":
	default:
		return nil, badParam("reason", "", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer")
	}
	metadata, bad := p.metadata()
	if bad != nil {
		return nil, bad
	}
	ch, bad := c.refundedCharge()
	if bad != nil {
		return nil, bad
	}
	amount := ch.captured - ch.refunded
	if p.has("amount") {
		if amount, bad = p.amount("amount", ch.intent.currency); bad != nil {
			return nil, bad
		}
	}
	if bad := s.refundable(ch, amount); bad != nil {
		return nil, bad
	}
	re := &refund{
		base: s.newBase(c, "re_"), charge: ch, amount: amount, status: statusPending,
		reason: p.get("reason"), metadata: metadata,
	}
	s.refunds.add(re.id, re)
	before := s.shownRefunded(ch)
	ch.refunded += amount
	if !s.cfg.RefundsPending && ch.intent.method != methodPendingRefund {
		re.status = statusSucceeded
		s.book(c, Refunded, re.id, ch, amount)
	}
	s.emit(c, ch.intent.id, "refund.created", s.showRefund(re), nil)
	s.emit(c, ch.intent.id, "charge.refunded", s.showCharge(ch), object{"amount_refunded": before})
	return s.showRefund(re), nil
}

// refundedCharge is the charge that a refund names, directly or by its intent.
func (c *call) refundedCharge() (*charge, *apiError) {
	if id := c.params.get("charge"); id != "" {
		return c.charge(id)
	}
	in, bad := c.intent(c.params.get("payment_intent"))
	if bad != nil {
		return nil, bad
	}
	if in.latest == nil {
		return nil, refused("", "This PaymentIntent ("+in.id+") does not have a successful charge to refund.")
	}
	return in.latest, nil
}

func (s *Server) refundable(ch *charge, amount int64) *apiError {
	open := ch.captured - ch.refunded
	switch {
	case ch.captured == 0:
		return refused("", "Charge "+ch.id+" has not been captured and cannot be refunded.")
	case ch.atBank > 0:
		e := refused("charge_disputed", "Charge "+ch.id+" has been charged back; cannot issue a refund.")
		e.charge = ch.id
		return e
	case open == 0:
		e := refused(codeAlreadyRefunded, "Charge "+ch.id+" has already been refunded.")
		e.charge = ch.id
		return e
	case amount > open:
		e := refused("", "Refund amount is greater than unrefunded amount on charge.")
		e.param = "amount"
		return e
	}
	return nil
}

// settleRefund gives a refund its end, or its end after the end: a refund that
// had succeeded may still fail.
func (s *Server) settleRefund(c *call, re *refund, status, reason string) bool {
	before, ch := re.status, re.charge
	switch {
	case status == statusSucceeded && before == statusPending:
		re.status = status
		s.book(c, Refunded, re.id, ch, re.amount)
	case status == statusCanceled && before == statusPending:
		re.status = status
		ch.refunded -= re.amount
	case status == statusFailed && (before == statusPending || before == statusSucceeded):
		re.status, re.failure = status, or(reason, "unknown")
		ch.refunded -= re.amount
		if before == statusSucceeded {
			s.book(c, RefundFailed, re.id, ch, re.amount)
		}
	default:
		return false
	}
	s.emit(c, ch.intent.id, "refund.updated", s.showRefund(re), object{"status": before})
	if status == statusFailed {
		s.emit(c, ch.intent.id, "refund.failed", s.showRefund(re), nil)
	}
	return true
}

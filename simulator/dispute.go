package simulator

// openDispute takes the money at once, unless it is only an inquiry.
func (s *Server) openDispute(c *call, ch *charge, amount int64, reason string, inquiry bool) *dispute {
	d := &dispute{base: s.newBase(c, "dp_"), charge: ch, amount: amount, status: disputeNeeds, reason: or(reason, "fraudulent")}
	if inquiry {
		d.status = disputeWarning
	}
	s.disputes.add(d.id, d)
	ch.disputed = true
	if !inquiry {
		s.withdraw(c, d)
	}
	s.emit(c, ch.intent.id, "charge.dispute.created", s.showDispute(d), nil)
	if !inquiry {
		s.emit(c, ch.intent.id, "charge.dispute.funds_withdrawn", s.showDispute(d), nil)
	}
	return d
}

func (s *Server) withdraw(c *call, d *dispute) {
	d.withdrawn = true
	d.charge.atBank++
	s.book(c, DisputeWithdrawn, d.id, d.charge, d.amount)
}

// moveDispute gives the dispute another status; false where it cannot have it.
func (s *Server) moveDispute(c *call, d *dispute, status string) bool {
	before, payment := d.status, d.charge.intent.id
	switch {
	case d.closed():
		return false
	case status == disputeNeeds && before != disputeWarning,
		status == disputeReview && before != disputeNeeds,
		status == disputeWarningClosed && before != disputeWarning,
		(status == disputeWon || status == disputeLost) && !d.withdrawn:
		return false
	}
	d.status = status
	previous := object{"status": before}
	switch status {
	case disputeNeeds: // an inquiry became a chargeback
		s.withdraw(c, d)
		s.emit(c, payment, "charge.dispute.updated", s.showDispute(d), previous)
		s.emit(c, payment, "charge.dispute.funds_withdrawn", s.showDispute(d), nil)
	case disputeReview:
		s.emit(c, payment, "charge.dispute.updated", s.showDispute(d), previous)
	case disputeWon:
		d.withdrawn = false
		d.charge.atBank--
		s.book(c, DisputeReinstated, d.id, d.charge, d.amount)
		s.emit(c, payment, "charge.dispute.closed", s.showDispute(d), previous)
		s.emit(c, payment, "charge.dispute.funds_reinstated", s.showDispute(d), nil)
	default:
		s.emit(c, payment, "charge.dispute.closed", s.showDispute(d), previous)
	}
	return true
}

// post writes the balance transaction of a movement that changes the balance.
func (s *Server) post(c *call, kind, id string, ch *charge, amount int64) {
	t := &txn{base: s.newBase(c, "txn_"), amount: amount, currency: ch.intent.currency, source: id}
	t.account = ch.account
	switch kind {
	case Captured:
		t.typ, t.category = "charge", "charge"
		t.fee = amount / basisPointsOne * s.cfg.FeeBasisPoints
		t.fee += amount % basisPointsOne * s.cfg.FeeBasisPoints / basisPointsOne
		ch.txn = t.id
	case Refunded:
		t.typ, t.category, t.amount = "refund", "refund", -amount
		re, _ := s.refunds.get(id)
		re.txn = t.id
	case RefundFailed:
		t.typ, t.category = "refund_failure", "refund_failure"
		re, _ := s.refunds.get(id)
		re.failureTxn = t.id
	case DisputeWithdrawn, DisputeReinstated:
		t.typ, t.category, t.amount = "adjustment", "dispute", -amount
		if kind == DisputeReinstated {
			t.category, t.amount = "dispute_reversal", amount
		}
		t.describe = "Chargeback " + id
		d, _ := s.disputes.get(id)
		d.txns = append(d.txns, t.id)
	default: // authorized and released money was never ours
		return
	}
	s.txns.add(t.id, t)
}

package payment

// settle sums captures and returns up: each known line is clamped by itself,
// what belongs to no known line last, against what is left of the payment.
func (b *book) settle() {
	for i := range b.captures {
		b.settleCapture(&b.captures[i])
	}
	t := &b.view.Totals
	for i := range b.lines {
		l := &b.lines[i]
		l.captured = l.capture.sum()
		adjusted, _ := l.adjust.result(l.amount)
		l.authorized = max(adjusted, l.captured)
		t.Captured = sat(t.Captured, l.captured)
		t.Authorized = sat(t.Authorized, l.authorized)
		if l.closed() {
			t.Released = sat(t.Released, l.authorized-l.captured)
		}
		t.PendingRefunds = sat(t.PendingRefunds, l.pendingRefunds)
		t.Reserved = sat(t.Reserved, l.reserved)
		if l.known {
			l.settle()
			t.Refunded = sat(t.Refunded, l.refunded)
			t.Lost = sat(t.Lost, l.lost)
			t.Open = sat(t.Open, l.disputedOpen)
			t.Unmatched = sat(t.Unmatched, l.unmatched)
		} else {
			b.loosen(l)
		}
	}
	t.PendingRefunds = sat(t.PendingRefunds, b.loose.pendingRefunds)
	t.Reserved = sat(t.Reserved, b.loose.reserved)
	b.settleLoose()
	t.Disputed = sat(t.Open, t.Lost)
	spoken := sat(t.Refunded, t.Lost, t.Open, t.PendingRefunds, t.Reserved)
	t.Refundable = max(0, t.Captured-spoken)
}

// settleCapture gives the line what the capture's own totals leave unexplained.
func (b *book) settleCapture(c *captureItem) {
	l := &b.lines[c.line]
	l.refund.rest = sat(l.refund.rest, c.refund.over())
	if !c.explainedAll {
		l.returns.reversal.rest = sat(l.returns.reversal.rest, c.reversal.over())
	}
}

// settle clamps the returns of a known line by what was captured on it.
func (l *line) settle() {
	refunds, lost := l.refund.sum(), sat(l.returns.lost, l.returns.reversed())
	l.refunded = min(refunds, l.captured)
	left := l.captured - l.refunded
	l.lost = min(lost, left)
	l.unmatched = sat(refunds-l.refunded, lost-l.lost)
	if l.returns.lostAll {
		l.lost = left
	}
	left -= l.lost
	l.disputedOpen = min(l.returns.open, left)
	if l.returns.openAll {
		l.disputedOpen = left
	}
}

// loosen adds the returns of a line that is not known to those of no line. A
// dispute without amount takes what is left of its line, here as elsewhere.
func (b *book) loosen(l *line) {
	into := &b.loose.returns
	refunds, lost := l.refund.sum(), sat(l.returns.lost, l.returns.reversed())
	left := max(0, l.captured-refunds)
	if l.returns.lostAll {
		lost = max(lost, left)
	}
	open := l.returns.open
	if l.returns.openAll {
		open = max(open, left-min(lost, left))
	}
	b.loose.refund = sat(b.loose.refund, refunds)
	into.lost = sat(into.lost, lost)
	into.open = sat(into.open, open)
}

func (b *book) settleLoose() {
	t, r := &b.view.Totals, &b.loose.returns
	// Sums that stopped at the largest amount must not break the bounds.
	t.Lost = min(t.Lost, t.Captured-t.Refunded)
	left := t.Captured - t.Refunded - t.Lost
	refunded := min(b.loose.refund, left)
	left -= refunded
	lost := min(r.lost, left)
	t.Unmatched = sat(t.Unmatched, b.loose.refund-refunded, r.lost-lost)
	if r.lostAll {
		lost = left
	}
	left -= lost
	t.Refunded, t.Lost = t.Refunded+refunded, t.Lost+lost
	t.Open = min(sat(t.Open, r.open), left)
	if r.openAll {
		t.Open = left
	}
}

// looseReturns is all that went back, or may, without a known line.
func (b *book) looseReturns() int64 {
	r := &b.loose.returns
	if r.lostAll || r.openAll {
		return maxAmount
	}
	return sat(b.loose.refund, r.lost, r.open)
}

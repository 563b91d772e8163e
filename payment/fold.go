package payment

// Fold derives the view from the record and the set of facts. It does not
// depend on the order of the facts, and a fact that is given twice counts once.
// It never fails: what contradicts is a condition of the view.
func Fold(r Record, facts []Fact) View {
	b := read(r, facts)
	return b.conclude(facts)
}

// read makes the working set of a fold.
func read(r Record, facts []Fact) *book {
	return readIn(r, facts, scope{currency: currencyOf(r, facts)})
}

func readIn(r Record, facts []Fact, sc scope) *book {
	b := &book{record: r, currency: sc.currency, refs: arrange(facts, sc)}
	b.view.Dispute = DisputeNone
	b.nameLines()
	b.authorize()
	b.adjustAll()
	b.attempts()
	b.captureAll()
	b.refundAll()
	b.reserve()
	b.disputeAll()
	b.settle()
	return b
}

// conclude completes the view once the totals stand.
func (b *book) conclude(facts []Fact) View {
	b.view.Currency = b.currency
	b.view.State = b.state()
	b.earn()
	b.judgeConditions()
	b.view.Conditions = b.conditions()
	b.view.OtherTotals = b.others(facts)
	return b.view
}

// others folds the money in other currencies, each for itself.
func (b *book) others(facts []Fact) map[string]Totals {
	var others map[string]Totals
	for i := range b.refs {
		r := &b.refs[i]
		c := r.Amount.Currency
		if !r.aside || c == "" {
			continue
		}
		if _, done := others[c]; done {
			continue
		}
		if others == nil {
			others = map[string]Totals{}
		}
		// A payment without a record expects nothing: only totals are of interest.
		others[c] = readIn(Record{Adopted: true}, facts, scope{currency: c, other: true}).view.Totals
	}
	return others
}

// earn says whether the money that the merchant waits for is there, and what is
// left of the good money.
func (b *book) earn() {
	v := &b.view
	var held int64
	for i := range b.lines {
		l := &b.lines[i]
		if !l.exists {
			continue
		}
		if l.recognized {
			if b.record.FulfillOn == OnAuthorized && !l.closed() {
				held = sat(held, l.authorized)
			} else {
				held = sat(held, l.captured)
			}
		}
		if !l.contradicted() {
			v.GoodCaptured = sat(v.GoodCaptured, l.captured)
			v.GoodLeft = sat(v.GoodLeft, l.captured-l.refunded-l.lost-l.disputedOpen)
		}
	}
	v.GoodLeft = max(0, v.GoodLeft-b.looseReturns())
	v.Earned = held > 0 && (b.record.Adopted || held >= b.record.Expected.Value)
	if v.Earned {
		v.EarnedAmount = held
	}
	v.Returned = v.GoodCaptured > 0 && v.GoodLeft == 0
}

// state is the first row that fits.
func (b *book) state() State {
	t := &b.view.Totals
	enough := b.record.Expected.Value
	if b.record.Adopted {
		enough = t.Authorized
	}
	switch {
	case t.Captured > 0 && t.Refunded >= t.Captured:
		return StateRefunded
	case t.Captured > 0 && t.Refunded > 0:
		return StatePartiallyRefunded
	case t.Captured > 0 && t.Captured >= enough:
		return StateCaptured
	case t.Captured > 0:
		return StatePartiallyCaptured
	}
	return b.stateWithoutMoney()
}

func (b *book) stateWithoutMoney() State {
	lines, released := 0, 0
	open, pending, failed := false, b.capturePending, b.captureDead
	for i := range b.lines {
		l := &b.lines[i]
		if !l.exists {
			continue
		}
		lines++
		open = open || l.open
		pending = pending || !l.closed() && (l.pendingOwn || l.pendingSelf && !l.failed)
		failed = failed || l.failed || l.closed() && l.closing == lineCompleted
		if l.closed() && l.closing > lineCompleted {
			released++
		}
	}
	switch {
	case open:
		return StateAuthorized
	case pending:
		return StatePending
	case lines > 0 && released == lines:
		return StateCanceled
	case failed:
		return StateFailed
	case released > 0:
		return StateCanceled
	default:
		return StateExpected
	}
}

package payment

// dispute is one object of the dispute axis.
type dispute struct {
	object  string
	line    int32
	capture int32
	// place orders round before verdict; it is the highest that was seen.
	place int
	// amount is that of the highest place that states one, at amountPlace; -1 if none.
	amount      int64
	amountPlace int
	// merged says that another dispute speaks for this one.
	merged bool
	first  int
	end    int
}

// placeOf orders rounds before verdicts.
func placeOf(round int, verdict rank) int { return round<<2 | int(verdict) }

func (d *dispute) round() int    { return d.place >> 2 }
func (d *dispute) verdict() rank { return rank(d.place & 3) }

// join folds another dispute into this one.
func (d *dispute) join(o *dispute) {
	d.place = max(d.place, o.place)
	d.state(o.amount, o.amountPlace)
	o.merged = true
}

func (d *dispute) state(amount int64, place int) {
	if amount < 0 {
		return
	}
	switch {
	case d.amount < 0 || place > d.amountPlace:
		d.amount, d.amountPlace = amount, place
	case place == d.amountPlace:
		d.amount = max(d.amount, amount)
	}
}

// disputeAll reads disputes and reversals.
func (b *book) disputeAll() {
	span := kindSpan(b.refs, isDispute)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.disputeItem(span, i, j)
		i = j
	}
	b.mergeDisputes(span)
	for i := range b.disputes {
		d := &b.disputes[i]
		if !d.merged {
			b.countDispute(d)
		}
	}
	reversals := kindSpan(b.refs, isReversal)
	for i := range reversals {
		if r := &reversals[i]; r.counts() {
			b.reverse(r)
		}
	}
}

func (b *book) disputeItem(span []ref, first, end int) {
	run := span[first:end]
	d := dispute{object: run[0].Object, place: -1, amount: -1, first: first, end: end}
	for i := range run {
		r := &run[i]
		if !r.counts() {
			continue
		}
		place := placeOf(r.Round, r.rank)
		d.place = max(d.place, place)
		if r.stated() {
			d.state(r.value(), place)
		}
		if r.unstated {
			b.note(ConditionDisputeCurrency, r.Object, r)
		}
	}
	if d.place < 0 {
		return
	}
	h := b.resolve(run)
	d.line, d.capture = h.line, h.capture
	b.flipDispute(run)
	b.contest(run)
	b.tear(h, run)
	b.disputes = append(b.disputes, d)
	if d.line == none {
		return
	}
	l := &b.lines[d.line]
	if b.classOf(d.object) == d.line {
		if l.namedDispute == 0 {
			l.namedDispute = len(b.disputes)
			return
		}
		// Two names of one line, no dispute named: one dispute.
		named := &b.disputes[l.namedDispute-1]
		named.join(&b.disputes[len(b.disputes)-1])
		return
	}
	l.others++
	l.lastOther = len(b.disputes)
}

// mergeDisputes lets a dispute without an id of its own be the line's only
// other one, or notes that it could be any of several.
func (b *book) mergeDisputes(span []ref) {
	for i := range b.lines {
		l := &b.lines[i]
		if l.namedDispute == 0 || l.others == 0 {
			continue
		}
		named := &b.disputes[l.namedDispute-1]
		if l.others > 1 {
			b.noteRun(ConditionWhichDispute, span[named.first:named.end])
			continue
		}
		other := &b.disputes[l.lastOther-1]
		other.join(named)
	}
}

// flipDispute notes that a round was both won and lost. It compares the facts of
// one name alone: a merge may be undone by a later dispute, a flip may not.
func (b *book) flipDispute(run []ref) {
	for i := range run {
		for j := i + 1; j < len(run) && run[j].Round == run[i].Round; j++ {
			x, y := &run[i], &run[j]
			if x.counts() && y.counts() && x.rank == disputeWon && y.rank == disputeLost {
				b.note(ConditionFlip, x.Object, x, y)
			}
		}
	}
}

func (b *book) countDispute(d *dispute) {
	b.view.Dispute = worse(b.view.Dispute, d.verdict())
	into := &b.loose.returns
	if d.line != none {
		into = &b.lines[d.line].returns
	}
	switch {
	case d.verdict() == disputeLost && d.amount < 0:
		into.lostAll = true
	case d.verdict() == disputeLost:
		into.lost = sat(into.lost, d.amount)
	case d.verdict() == disputeOpen && d.round() > 0 && d.amount < 0:
		into.openAll = true
	case d.verdict() == disputeOpen && d.round() > 0:
		into.open = sat(into.open, d.amount)
	}
	if d.round() == 0 {
		return
	}
	into.explainedAll = into.explainedAll || d.amount < 0
	into.reversal.explained = sat(into.reversal.explained, max(0, d.amount))
	if d.capture != none {
		c := &b.captures[d.capture]
		c.explainedAll = c.explainedAll || d.amount < 0
		c.reversal.explained = sat(c.reversal.explained, max(0, d.amount))
	}
}

// worse returns the axis after one more dispute: open before lost before won.
func worse(axis DisputeState, verdict rank) DisputeState {
	switch {
	case axis == DisputeOpen || verdict == disputeOpen:
		return DisputeOpen
	case axis == DisputeLost || verdict == disputeLost:
		return DisputeLost
	default:
		return DisputeWon
	}
}

func (b *book) reverse(r *ref) {
	at := b.place(r.Object, isReversal)
	pile := &b.lines[at.line].returns.reversal
	if at.capture != none {
		pile = &b.captures[at.capture].reversal
	}
	pile.total = max(pile.total, r.value())
}

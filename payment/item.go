package payment

import (
	"slices"
	"strings"
)

// book is the working set of one fold.
type book struct {
	record   Record
	currency string
	refs     []ref

	// names are sorted; roots makes classes of them; lines is used at the roots.
	names []string
	roots []int32
	lines []line

	captures   []captureItem
	disputes   []dispute
	operations []string

	capturePending, captureDead bool
	// loose is what belongs to no line.
	loose struct {
		refund                   int64
		returns                  returns
		pendingRefunds, reserved int64
	}
	notes []note
	view  View
}

// captureItem is a capture with its own id; returns may name it as their parent.
type captureItem struct {
	object string
	line   int32
	// refund and reversal are the cumulative figures of the capture.
	refund, reversal pile
	explainedAll     bool
}

func compareCapture(c captureItem, object string) int { return strings.Compare(c.object, object) }

// life is what the facts of one item say together.
type life struct {
	top rank
	// seen has a bit for each stage.
	seen uint8
	// byRead says that some of it comes from a numbered read.
	byRead bool
	// least and most are the bounds of the stated amounts, -1 where none is.
	least, most int64
	// leastDone and mostDone are those at succeeded.
	leastDone, mostDone int64
	// mostOpen is the largest at pending and succeeded, mostPast that above pending.
	mostOpen, mostPast int64
}

func (f life) has(r rank) bool { return f.seen&(1<<r) != 0 }

// lifeOf folds the items of a run; totals are left to the caller.
func lifeOf(run []ref) life {
	f := life{top: noRank, least: -1, most: -1, leastDone: -1, mostDone: -1, mostOpen: -1, mostPast: -1}
	for i := range run {
		r := &run[i]
		if !r.counts() || r.total() {
			continue
		}
		f.top = max(f.top, r.rank)
		f.seen |= 1 << r.rank
		f.byRead = f.byRead || r.Read != 0
		if !r.stated() {
			continue
		}
		v := r.value()
		f.least, f.most = least(f.least, v), max(f.most, v)
		if r.rank == itemSucceeded {
			f.leastDone, f.mostDone = least(f.leastDone, v), max(f.mostDone, v)
		}
		if r.rank <= itemSucceeded {
			f.mostOpen = max(f.mostOpen, v)
		}
		if r.rank > itemPending {
			f.mostPast = max(f.mostPast, v)
		}
	}
	return f
}

// least is min where -1 means not stated.
func least(a, b int64) int64 {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// firstStated returns the first amount that is stated, or 0.
func firstStated(amounts ...int64) int64 {
	for _, a := range amounts {
		if a >= 0 {
			return a
		}
	}
	return 0
}

// captureAll reads captures: the least that can have come in.
func (b *book) captureAll() {
	span := kindSpan(b.refs, isCapture)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.captureTotal(span[i:j])
		b.captureItem(span[i:j])
		i = j
	}
}

func (b *book) captureTotal(run []ref) {
	for i := range run {
		if r := &run[i]; r.counts() && r.total() {
			l := &b.lines[b.classOf(r.Object)]
			l.exists = true
			l.capture.total = max(l.capture.total, r.value())
		}
	}
}

func (b *book) captureItem(run []ref) {
	f := lifeOf(run)
	if f.top == noRank {
		return
	}
	home := b.resolve(run)
	l := &b.lines[home.line]
	l.exists = true
	b.captures = append(b.captures, captureItem{object: run[0].Object, line: home.line})
	if f.top == itemSucceeded {
		l.capture.counted = sat(l.capture.counted, firstStated(f.leastDone, f.least))
	}
	if f.top > itemPending {
		l.capture.explained = sat(l.capture.explained, firstStated(f.mostPast, f.most))
	}
	b.capturePending = b.capturePending || f.top == itemPending
	b.captureDead = b.captureDead || f.top > itemSucceeded
	if f.has(itemSucceeded) && f.has(itemRefused) {
		b.noteRun(ConditionFlip, run)
	}
	if f.seen == 1<<captureFailed && !f.byRead && (l.capture.total == 0 || l.capture.total < f.most) {
		b.noteRun(ConditionFailureWithoutAcceptance, run)
	}
	b.contest(run)
	b.tear(home, run)
}

// refundAll reads refunds: the most that can have gone out.
func (b *book) refundAll() {
	span := kindSpan(b.refs, isRefund)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.refundTotal(span[i:j])
		i = j
	}
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.refundItem(span[i:j])
		i = j
	}
	for i := range span {
		if r := &span[i]; !r.aside && r.Operation != "" {
			b.operations = append(b.operations, r.Operation)
		}
	}
	slices.Sort(b.operations)
}

func (b *book) refundTotal(run []ref) {
	at := b.place(run[0].Object, isRefund)
	for i := range run {
		r := &run[i]
		switch {
		case !r.counts() || !r.total():
		case at.capture != none:
			b.captures[at.capture].refund.total = max(b.captures[at.capture].refund.total, r.value())
		default:
			b.lines[at.line].refund.total = max(b.lines[at.line].refund.total, r.value())
		}
	}
}

func (b *book) refundItem(run []ref) {
	f := lifeOf(run)
	if f.top == noRank {
		return
	}
	home := b.resolve(run)
	var counted, explained int64
	if f.top == itemSucceeded {
		counted = firstStated(f.mostDone, f.most)
		explained = counted
	} else if f.has(itemPending) || f.has(itemSucceeded) {
		explained = firstStated(f.mostOpen, f.most)
	}
	pending, reserved := int64(0), int64(0)
	if f.top == itemPending {
		pending = max(0, f.most)
	}
	if f.has(itemSucceeded) && f.has(itemRefused) {
		reserved = max(0, f.most)
		b.noteRun(ConditionFlip, run)
	}
	covered := int64(0)
	if home.line == none {
		b.loose.refund = sat(b.loose.refund, counted)
		b.loose.pendingRefunds = sat(b.loose.pendingRefunds, pending)
		b.loose.reserved = sat(b.loose.reserved, reserved)
	} else {
		l := &b.lines[home.line]
		l.refund.counted = sat(l.refund.counted, counted)
		l.refund.explained = sat(l.refund.explained, explained)
		l.pendingRefunds = sat(l.pendingRefunds, pending)
		l.reserved = sat(l.reserved, reserved)
		covered = l.refund.total
	}
	if home.capture != none {
		c := &b.captures[home.capture]
		c.refund.explained = sat(c.refund.explained, explained)
		covered = max(covered, c.refund.total)
	}
	if f.seen == 1<<refundFailed && !f.byRead && (covered == 0 || covered < f.most) {
		b.noteRun(ConditionFailureWithoutAcceptance, run)
	}
	b.contest(run)
	b.tear(home, run)
}

// reserve reads the reservations of our operations that no refund names yet.
func (b *book) reserve() {
	span := kindSpan(b.refs, isReservation)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.reserveOne(span[i:j])
		i = j
	}
}

func (b *book) reserveOne(run []ref) {
	f := lifeOf(run)
	if _, named := slices.BinarySearch(b.operations, run[0].Object); named || f.top != reservationHeld {
		return
	}
	amount := max(0, f.most)
	if home := b.resolve(run); home.line != none {
		b.lines[home.line].reserved = sat(b.lines[home.line].reserved, amount)
		return
	}
	b.loose.reserved = sat(b.loose.reserved, amount)
}

// contest notes that one key is stated with two amounts.
func (b *book) contest(run []ref) {
	var last *ref
	for i := range run {
		r := &run[i]
		if !r.counts() || r.total() || !r.stated() {
			continue
		}
		if last != nil && last.rank == r.rank && last.Round == r.Round && last.Amount.Value != r.Amount.Value {
			b.note(ConditionContested, r.Object, last, r)
		}
		last = r
	}
}

// tear notes that an object is said to belong to two known lines.
func (b *book) tear(h home, run []ref) {
	if h.torn {
		b.noteRun(ConditionParents, run)
	}
}

package payment

import (
	"cmp"
	"slices"
	"strings"
)

// note is a fact that shows a condition.
type note struct {
	kind   ConditionKind
	object string
	fact   *Fact
}

func (b *book) note(k ConditionKind, object string, refs ...*ref) {
	for _, r := range refs {
		b.notes = append(b.notes, note{kind: k, object: object, fact: r.Fact})
	}
}

// noteRun notes a condition of one object under all of its facts that count.
func (b *book) noteRun(k ConditionKind, run []ref) {
	for i := range run {
		if run[i].counts() {
			b.note(k, run[i].Object, &run[i])
		}
	}
}

// judgeConditions notes what only the settled totals show.
func (b *book) judgeConditions() {
	t := &b.view.Totals
	unmatched := t.Unmatched > 0
	over := !b.record.Adopted && t.Captured > b.record.Expected.Value
	for i := range b.refs {
		r := &b.refs[i]
		switch {
		case r.aside && r.Amount.Currency != "":
			b.note(ConditionCurrency, r.Object, r)
		case !r.counts():
		case r.kind == isAuthorization:
			b.judgeAuthorization(r)
		case r.kind == isAdjustment:
			b.judgeAdjustment(r)
		case r.kind == isCapture:
			b.judgeCapture(r, over)
		case r.kind == isRefund && r.total():
			b.judgeRefundTotal(r)
		}
		if unmatched && r.counts() && r.kind >= isRefund && r.kind <= isReversal {
			b.note(ConditionReturnedExceedsCaptured, "", r)
		}
	}
}

func (b *book) judgeAuthorization(r *ref) {
	l := &b.lines[b.classOf(r.Object)]
	if l.contradicted() && r.rank == lineAuthorized && r.stated() {
		b.note(ConditionAmount, r.Object, r)
	}
	if l.captured > 0 && r.Loud && r.rank > lineCompleted {
		b.note(ConditionMoneyAfterCancel, r.Object, r)
	}
}

func (b *book) judgeAdjustment(r *ref) {
	class := b.classOf(r.line())
	if class == none {
		return
	}
	if _, disputed := b.lines[class].adjust.result(0); disputed {
		b.note(ConditionAdjustments, r.line(), r)
	}
}

func (b *book) judgeCapture(r *ref, over bool) {
	name := r.Object
	if !r.total() {
		name = r.line()
	}
	if class := b.classOf(name); class != none && !b.lines[class].known && b.lines[class].captured > 0 {
		b.note(ConditionCaptureWithoutAuthorization, name, r)
	}
	if over {
		b.note(ConditionOverCaptured, "", r)
	}
}

func (b *book) judgeRefundTotal(r *ref) {
	at := b.place(r.Object, isRefund)
	pile := &b.lines[at.line].refund
	if at.capture != none {
		pile = &b.captures[at.capture].refund
	}
	if r.value() > sat(pile.explained, pile.rest) {
		b.note(ConditionTotalWithoutItems, r.Object, r)
	}
}

// conditions groups the notes: one condition for a kind and an object.
func (b *book) conditions() []Condition {
	if len(b.notes) == 0 {
		return nil
	}
	slices.SortFunc(b.notes, func(x, y note) int {
		return cmp.Or(strings.Compare(string(x.kind), string(y.kind)), strings.Compare(x.object, y.object))
	})
	var out []Condition
	for _, n := range b.notes {
		last := len(out) - 1
		if last < 0 || out[last].Kind != n.kind || out[last].Object != n.object {
			out = append(out, Condition{Kind: n.kind, Object: n.object})
			last++
		}
		out[last].Keys = append(out[last].Keys, n.fact.Key())
	}
	for i := range out {
		slices.Sort(out[i].Keys)
		out[i].Keys = slices.Compact(out[i].Keys)
	}
	return out
}

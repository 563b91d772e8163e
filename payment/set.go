package payment

import (
	"cmp"
	"slices"
	"strings"
)

// ref is a fact in the working set of one fold.
type ref struct {
	*Fact
	kind int8
	rank rank
	// dropped says that a numbered read or a correction covers the fact.
	dropped bool
	// aside says that the fact is in another currency and counts nowhere.
	aside bool
	// unstated says that the amount is in another currency and counts as not stated.
	unstated bool
}

func (r *ref) counts() bool { return !r.dropped && !r.aside }
func (r *ref) stated() bool { return r.Amount.Currency != "" && !r.unstated }

// total says that the amount is a cumulative figure; a close has none.
func (r *ref) total() bool {
	return r.Form == FormTotal && (r.kind != isAuthorization || r.rank == lineAuthorized)
}

// value is the amount, never below zero, so that no input can break the bounds
// of the totals.
func (r *ref) value() int64 { return max(0, r.Amount.Value) }

// line is the name of the line that an adjustment, an attempt or a capture item
// is about.
func (r *ref) line() string {
	if r.Parent != "" {
		return r.Parent
	}
	return r.Object
}

// scope says which currency a fold counts, and whether it is the fold of the
// record or of the money beside it.
type scope struct {
	currency string
	other    bool
}

// arrange sorts the facts by kind, object, life and content, and marks those
// that do not count. Facts that a newer program stored under kinds or stages
// that this one does not know are left out.
func arrange(facts []Fact, sc scope) []ref {
	refs := make([]ref, 0, len(facts))
	covers, reads := false, false
	for i := range facts {
		f := &facts[i]
		r := ref{Fact: f, kind: kindIndex(f.Kind)}
		if r.kind == isUnknown {
			continue
		}
		if r.rank = rankOf(r.kind, f); r.rank == noRank {
			continue
		}
		if !sc.admits(&r) {
			continue
		}
		covers = covers || len(f.Covers) > 0
		reads = reads || f.Read != 0
		refs = append(refs, r)
	}
	slices.SortFunc(refs, compareRefs)
	if covers {
		dropCovered(refs)
	}
	if reads {
		settleReads(refs)
	}
	return refs
}

// admits marks a fact by its currency; the fold of other money leaves out what
// belongs to the record.
func (sc scope) admits(r *ref) bool {
	c := r.Amount.Currency
	if r.kind == isLink || r.kind == isAttempt || c == sc.currency {
		return true
	}
	if sc.other {
		return c == "" && r.kind != isDispute
	}
	if c != "" {
		r.aside = r.kind != isDispute
		r.unstated = r.kind == isDispute
	}
	return true
}

func compareRefs(a, b ref) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	if c := strings.Compare(a.Object, b.Object); c != 0 {
		return c
	}
	if c := cmp.Or(a.Round-b.Round, int(a.rank-b.rank), strings.Compare(string(a.Form), string(b.Form)),
		cmp.Compare(a.Amount.Value, b.Amount.Value)); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.Amount.Currency, b.Amount.Currency), strings.Compare(a.Parent, b.Parent),
		cmp.Compare(a.Read, b.Read), strings.Compare(a.Operation, b.Operation), a.Version-b.Version,
		compareBool(a.Loud, b.Loud), compareBool(a.Silent, b.Silent))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// runEnd returns the end of the run of facts of one object that starts at i.
func runEnd(refs []ref, i int) int {
	j := i + 1
	for j < len(refs) && refs[j].kind == refs[i].kind && refs[j].Object == refs[i].Object {
		j++
	}
	return j
}

// kindSpan returns the facts of one kind.
func kindSpan(refs []ref, kind int8) []ref {
	lo, hi := 0, len(refs)
	for lo < hi && refs[lo].kind < kind {
		lo++
	}
	for hi > lo && refs[hi-1].kind > kind {
		hi--
	}
	return refs[lo:hi]
}

// dropCovered drops what a read with a higher number knew when it left. Links
// carry nothing that a read could settle and stay.
func dropCovered(refs []ref) {
	newest := map[string]int64{}
	for i := range refs {
		for _, key := range refs[i].Covers {
			newest[key] = max(newest[key], refs[i].Read)
		}
	}
	for i := range refs {
		r := &refs[i]
		if r.kind != isLink && newest[r.Key()] > r.Read {
			r.dropped = true
		}
	}
}

// settleReads keeps of the reads of one object the highest number alone, and
// leaves out a clear dispute that nobody has seen open before.
func settleReads(refs []ref) {
	for i := 0; i < len(refs); {
		j := runEnd(refs, i)
		if refs[i].kind != isLink {
			settleRun(refs[i:j])
		}
		i = j
	}
}

func settleRun(run []ref) {
	var newest int64
	for i := range run {
		newest = max(newest, run[i].Read)
	}
	for i := range run {
		r := &run[i]
		if r.Read != 0 && r.Read < newest {
			r.dropped = true
		}
		if r.Stage == StageClear && !slices.ContainsFunc(run, func(o ref) bool {
			return o.Stage != StageClear && o.Read < r.Read
		}) {
			r.aside = true
		}
	}
}

// currencyOf is the currency that a record counts: its own, or for a payment
// without one that of the smallest line name (and of the smallest parent while
// no line is known).
func currencyOf(r Record, facts []Fact) string {
	if r.Expected.Currency != "" {
		return r.Expected.Currency
	}
	var best struct {
		beside   bool
		name     string
		currency string
	}
	for i := range facts {
		f := &facts[i]
		kind := kindIndex(f.Kind)
		if f.Amount.Currency == "" || kind == isUnknown || kind == isLink || kind == isAttempt {
			continue
		}
		beside := kind != isAuthorization && kind != isCapture
		name := f.Object
		if f.Parent != "" && f.Form != FormTotal {
			name = f.Parent
		}
		if best.currency == "" || cmp.Or(compareBool(beside, best.beside), strings.Compare(name, best.name),
			strings.Compare(f.Amount.Currency, best.currency)) < 0 {
			best.beside, best.name, best.currency = beside, name, f.Amount.Currency
		}
	}
	return best.currency
}

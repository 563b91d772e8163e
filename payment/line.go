package payment

import (
	"slices"
	"strings"
)

// line is one authorization line: a class of names that links make one.
type line struct {
	// exists says that an authorization, an adjustment, an attempt or a capture
	// is about it; a class of bare names is no line.
	exists bool
	// known says that an authorized amount is in the set, recognized that one of
	// them is the record's.
	known, recognized bool
	// amount is the authorized amount before adjustments, the largest over names.
	amount int64
	adjust adjustment

	// open says that some authorized name is not closed, closing is the highest
	// closing stage, loud that a close does not merely release a rest.
	open    bool
	closing rank
	loud    bool

	// pendingOwn: an attempt with its own id is pending; pendingSelf: the line
	// itself is; failed: some attempt of the line failed.
	pendingOwn, pendingSelf, failed bool

	capture pile
	refund  pile
	returns returns

	authorized, captured         int64
	refunded, lost, disputedOpen int64
	unmatched                    int64
	pendingRefunds, reserved     int64

	// namedDispute is one more than the index of the dispute under the line's
	// own name, others counts the other disputes, lastOther is one more than the
	// index of one of them.
	namedDispute, others, lastOther int
}

// pile explains a total by items.
type pile struct {
	// counted is what the items move, explained what they account for of the total.
	counted, explained int64
	total              int64
	// rest is what deeper totals of the same parent have left over.
	rest int64
}

// sum is what items and total together move.
func (p pile) sum() int64 { return sat(p.counted, p.rest, p.over()) }

// over is what the total leaves unexplained.
func (p pile) over() int64 { return max(0, p.total-sat(p.explained, p.rest)) }

// returns is the money that disputes and reversals take back.
type returns struct {
	lost, open int64
	// lostAll and openAll mark a dispute that states no amount: all that is left.
	lostAll, openAll bool
	reversal         pile
	// explainedAll marks a dispute without amount, which explains any reversal.
	explainedAll bool
}

func (r returns) reversed() int64 {
	if r.explainedAll {
		return r.reversal.rest
	}
	return sat(r.reversal.rest, r.reversal.over())
}

// sat adds amounts that are not negative and stops at the largest one.
func sat(amounts ...int64) int64 {
	var s int64
	for _, a := range amounts {
		if s > maxAmount-a {
			return maxAmount
		}
		s += a
	}
	return s
}

const maxAmount = 1<<63 - 1

// closed says that every authorized name of the line is closed.
func (l *line) closed() bool { return !l.open && l.closing > lineAuthorized }

func (l *line) contradicted() bool { return l.known && !l.recognized }

// adjustment is what the adjustments of a line say together.
type adjustment struct {
	// version is the highest of our own, amount the largest under it.
	version int
	amount  int64
	// foreign adjustments have no order; least and most are their bounds.
	foreign     bool
	least, most int64
}

func (a *adjustment) add(amount int64, version int) {
	switch {
	case version == 0 && !a.foreign:
		a.foreign, a.least, a.most = true, amount, amount
	case version == 0:
		a.least, a.most = min(a.least, amount), max(a.most, amount)
	case version > a.version:
		a.version, a.amount = version, amount
	case version == a.version:
		a.amount = max(a.amount, amount)
	}
}

// result returns the adjusted amount, and whether it is disputed.
func (a *adjustment) result(authorized int64) (amount int64, disputed bool) {
	switch {
	case !a.foreign && a.version == 0:
		return authorized, false
	case !a.foreign:
		return a.amount, false
	case a.version == 0:
		return a.least, a.least != a.most
	}
	least, most := min(a.least, a.amount), max(a.most, a.amount)
	return least, least != most
}

// nameLines collects the names of all lines and joins linked ones.
func (b *book) nameLines() {
	b.names = make([]string, 0, len(b.refs)+4)
	for i := range b.refs {
		r := &b.refs[i]
		if r.aside || r.dropped && r.kind != isLink {
			continue
		}
		switch {
		case r.kind == isLink:
			b.names = append(b.names, r.Object, r.Parent)
		case r.kind == isAuthorization || r.total():
			b.names = append(b.names, r.Object)
		case r.kind <= isCapture:
			b.names = append(b.names, r.line())
		case r.Parent != "":
			b.names = append(b.names, r.Parent)
		}
	}
	slices.Sort(b.names)
	b.names = slices.Compact(b.names)
	b.roots = make([]int32, len(b.names))
	for i := range b.roots {
		b.roots[i] = int32(i)
	}
	b.lines = make([]line, len(b.names))
	for i := range kindSpan(b.refs, isLink) {
		r := &b.refs[i]
		x, y := b.classOf(r.Object), b.classOf(r.Parent)
		b.roots[max(x, y)] = min(x, y)
	}
}

// none is the class of a name that is not known.
const none int32 = -1

// classOf returns the class that a name is in, or none.
func (b *book) classOf(name string) int32 {
	i, ok := slices.BinarySearch(b.names, name)
	if !ok {
		return none
	}
	root := int32(i)
	for b.roots[root] != root {
		b.roots[root] = b.roots[b.roots[root]]
		root = b.roots[root]
	}
	return root
}

// authorize reads the authorizations of all names.
func (b *book) authorize() {
	span := kindSpan(b.refs, isAuthorization)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.authorizeName(span[i:j])
		i = j
	}
}

func (b *book) authorizeName(run []ref) {
	class := b.classOf(run[0].Object)
	if class == none {
		return
	}
	l := &b.lines[class]
	least, most := int64(-1), int64(-1)
	authorized, closing := false, lineAuthorized
	for i := range run {
		r := &run[i]
		if !r.counts() {
			continue
		}
		l.exists = true
		if r.rank != lineAuthorized {
			closing = max(closing, r.rank)
			l.loud = l.loud || r.Loud && r.rank > lineCompleted
			continue
		}
		authorized = true
		if !r.stated() {
			continue
		}
		l.known = true
		l.recognized = l.recognized || b.record.recognizes(r.value())
		switch {
		case r.total():
			most = max(most, r.value())
		case least < 0:
			// Sorted by amount: the first is the smallest variant.
			least = r.value()
		}
	}
	l.amount = max(l.amount, least, most)
	l.open = l.open || authorized && closing == lineAuthorized
	l.closing = max(l.closing, closing)
	b.contest(run)
}

// recognizes says that an authorized amount is the one that the record expects.
func (r *Record) recognizes(amount int64) bool {
	switch {
	case r.Adopted:
		return true
	case r.Rule == RuleUpTo:
		return amount <= r.Expected.Value
	default:
		return amount == r.Expected.Value
	}
}

// adjustAll reads the adjustments of all lines.
func (b *book) adjustAll() {
	span := kindSpan(b.refs, isAdjustment)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.adjustOne(span[i:j])
		i = j
	}
}

func (b *book) adjustOne(run []ref) {
	home := b.resolve(run)
	least, version := int64(-1), 0
	for i := range run {
		if r := &run[i]; r.counts() && r.stated() {
			version = max(version, r.Version)
			if least < 0 {
				least = r.value()
			}
		}
	}
	if home.line == none || least < 0 {
		return
	}
	l := &b.lines[home.line]
	l.exists = true
	l.adjust.add(least, version)
	b.contest(run)
}

// attempts reads the attempts of all lines.
func (b *book) attempts() {
	span := kindSpan(b.refs, isAttempt)
	for i := 0; i < len(span); {
		j := runEnd(span, i)
		b.attempt(span[i:j])
		i = j
	}
}

func (b *book) attempt(run []ref) {
	home, top, own := b.resolve(run), noRank, false
	for i := range run {
		if r := &run[i]; r.counts() {
			top = max(top, r.rank)
			own = own || r.Parent != "" && r.Parent != r.Object
		}
	}
	if home.line == none || top == noRank {
		return
	}
	l := &b.lines[home.line]
	l.exists = true
	switch {
	case top == attemptFailed:
		l.failed = true
	case own:
		l.pendingOwn = true
	default:
		l.pendingSelf = true
	}
}

// home is where an object belongs.
type home struct {
	line    int32
	capture int32
	// torn says that the object names two known lines.
	torn bool
}

// resolve finds the line of an object, and for returns the capture. Of several
// parents the first, sorted, of a recognized line counts, else the first of one
// that is not contradicted, else the first.
func (b *book) resolve(run []ref) home {
	best, bestGrade, bestName := home{line: none, capture: none}, 4, ""
	seen, torn := none, false
	for i := range run {
		r := &run[i]
		if !r.counts() || r.total() {
			continue
		}
		name := r.Parent
		if name == "" && (r.kind <= isCapture || r.kind == isDispute) {
			name = r.Object
		}
		if name == "" || name == bestName {
			continue
		}
		at := b.place(name, r.kind)
		if at.line == none && r.Parent == "" {
			continue
		}
		if at.line != none && b.lines[at.line].known {
			torn = torn || seen != none && seen != at.line
			seen = at.line
		}
		grade := b.grade(at.line)
		if r.Parent == "" && grade > 0 {
			// Its own name is a guess that any parent outdoes.
			grade = 3
		}
		if grade < bestGrade || grade == bestGrade && strings.Compare(name, bestName) < 0 {
			best, bestGrade, bestName = at, grade, name
		}
	}
	best.torn = torn
	return best
}

// place finds a name among the captures, for returns, and among the lines.
func (b *book) place(name string, kind int8) home {
	if kind > isCapture {
		if i, ok := slices.BinarySearchFunc(b.captures, name, compareCapture); ok {
			return home{line: b.captures[i].line, capture: int32(i)}
		}
	}
	return home{line: b.classOf(name), capture: none}
}

func (b *book) grade(class int32) int {
	switch {
	case class != none && b.lines[class].recognized:
		return 0
	case class == none || !b.lines[class].contradicted():
		return 1
	default:
		return 2
	}
}

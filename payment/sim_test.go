package payment

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// sim is a ledger of one payment in memory: it takes facts step by step, asks
// for the effects, and remembers what was told, so that the guarantees can be
// checked for any order and repetition.
type sim struct {
	t       failer
	record  Record
	facts   []Fact
	decided map[string]Decision
	told    []Notification
	order   OrderState
	orders  []string
	now     map[string]bool
	view    View
}

func newSim(t failer, r Record) *sim {
	total := r.Expected
	return &sim{
		t: t, record: r, decided: map[string]Decision{}, now: map[string]bool{},
		order: OrderState{Total: total, Fulfillment: FulfillmentNone},
	}
}

func (s *sim) clone() *sim {
	c := *s
	c.facts, c.told, c.orders = slices.Clip(s.facts), slices.Clip(s.told), slices.Clip(s.orders)
	c.decided, c.now = maps.Clone(s.decided), maps.Clone(s.now)
	return &c
}

// step takes facts in one transaction.
func (s *sim) step(facts ...Fact) {
	s.facts = append(s.facts, facts...)
	view, effects := Effects(s.record, s.facts, s.decided)
	s.view = view
	conserved(s.t, view)
	for _, e := range effects {
		before, recorded := s.decided[e.Key()]
		if recorded && (before != Hold || e.Decision == Hold) {
			s.t.Fatalf("G3: %s decided again: %s after %s", e.Key(), e.Decision, before)
		}
		s.decided[e.Key()] = e.Decision
		if e.Decision == Send {
			s.told = append(s.told, e.Notification)
		}
	}
	v := JudgeOrder(s.order, []PartView{Part(s.record, view)})
	s.order.Fulfillment = v.Fulfillment
	if v.Message != "" {
		s.orders = append(s.orders, v.Message)
	}
	for _, c := range view.Conditions {
		if opensAtOnce(c.Kind) {
			s.now[string(c.Kind)+" "+c.Object] = true
		}
	}
}

func opensAtOnce(k ConditionKind) bool {
	switch k {
	case ConditionCurrency, ConditionAmount, ConditionContested, ConditionFlip, ConditionMoneyAfterCancel:
		return true
	}
	return false
}

// conserved is G2.
func conserved(t failer, v View) {
	t.Helper()
	bounded(t, v.Totals)
	for _, other := range v.OtherTotals {
		bounded(t, other)
	}
}

func bounded(t failer, x Totals) {
	if x.Refunded < 0 || x.Lost < 0 || x.Open < 0 || x.Captured-x.Refunded < x.Lost+x.Open || x.Captured > x.Authorized {
		t.Helper()
		t.Fatalf("G2: refunded + lost + open ≤ captured ≤ authorized does not hold: %+v", x)
	}
	if x.Refundable < 0 || x.Refundable > x.Captured || x.Unmatched < 0 || x.Released < 0 ||
		x.PendingRefunds < 0 || x.Reserved < 0 {
		t.Helper()
		t.Fatalf("G2: totals out of bounds: %+v", x)
	}
}

// truth is what the guarantees demand of every run over one set.
type truth struct {
	view View
	// says are the keys of N(S), and of them those that must have been told.
	says map[string]bool
	must map[string]bool
	// recognized are the objects of money whose line is recognized.
	recognized map[string]bool
	reads      bool
	withdrawn  bool
}

func truthOf(t failer, r Record, facts []Fact) *truth {
	t.Helper()
	w := &truth{
		view: Fold(r, facts), says: map[string]bool{}, must: map[string]bool{}, recognized: map[string]bool{},
		reads:     slices.ContainsFunc(facts, func(f Fact) bool { return f.Read != 0 }),
		withdrawn: withdrawn(r, facts),
	}
	lines := Lines(r, facts)
	for _, f := range facts {
		if ofMoney(f.Kind) && onRecognized(lines, f) {
			w.recognized[string(f.Kind)+"|"+f.Object] = true
		}
	}
	for _, n := range Notifications(r, facts) {
		if w.says[n.Key()] {
			t.Fatalf("G3: %s is said twice", n.Key())
		}
		w.says[n.Key()] = true
		if n.Kind != KindAttempt && (!ofMoney(n.Kind) || w.recognized[string(n.Kind)+"|"+n.Object]) &&
			heightOfFact(n.Fact) == heightInSet(facts, n) {
			w.must[n.Key()] = true
		}
	}
	return w
}

// finishAs checks the guarantees over the set that all steps have brought.
func (s *sim) finishAs(want *truth) {
	s.t.Helper()
	if !reflect.DeepEqual(s.view, want.view) {
		s.t.Fatalf("G1: %+v, want %+v", s.view, want.view)
	}
	s.recordedAll(want)
	s.toldRightly(want)
	s.fulfilledRightly(want)
	s.closedByThemselves(want)
}

// recordedAll is G3.
func (s *sim) recordedAll(want *truth) {
	s.t.Helper()
	for k := range s.decided {
		// It is told when it first holds, and may cease to hold.
		if !want.says[k] && k != MessageMoneyAfterCancel {
			s.t.Fatalf("G3: %s is recorded and not in N(S)", k)
		}
	}
	for k := range want.says {
		if _, recorded := s.decided[k]; !recorded {
			s.t.Fatalf("G3: %s is in N(S) and not recorded", k)
		}
	}
	for _, c := range s.view.Conditions {
		if c.Kind == ConditionMoneyAfterCancel && s.decided[MessageMoneyAfterCancel] != Send {
			s.t.Fatalf("G3: %s holds and was not told", c.Kind)
		}
	}
}

// toldRightly is G4.
func (s *sim) toldRightly(want *truth) {
	s.t.Helper()
	once := map[string]bool{}
	highest := map[string]int64{}
	for _, n := range s.told {
		key := n.Key()
		if once[key] {
			s.t.Fatalf("G4: %s told twice", key)
		}
		once[key] = true
		if n.Type == MessageMoneyAfterCancel || want.reads {
			continue
		}
		object, height := string(n.Kind)+"|"+n.Object, heightOfFact(n.Fact)
		if last, seen := highest[object]; seen && height <= last {
			s.t.Fatalf("G4: %s told after something higher", key)
		}
		highest[object] = height
		if ofMoney(n.Kind) && !want.recognized[object] {
			s.t.Fatalf("G4: %s told for a line that is not recognized", key)
		}
	}
	for key := range want.must {
		if !once[key] && !want.reads {
			s.t.Fatalf("G4: %s is the highest of its object and was not told", key)
		}
	}
}

func ofMoney(k Kind) bool { return k == KindCapture || k == KindRefund || k == KindDispute }

// heightOfFact orders the facts of one object by the published ranks.
func heightOfFact(f Fact) int64 {
	rank := int64(max(0, slices.Index(Stages(f.Kind), f.Stage)))
	if f.Form == FormTotal {
		if f.Kind != KindAuthorization {
			rank = 0
		}
		return rank<<40 + f.Amount.Value
	}
	return int64(f.Round)<<50 + rank<<40
}

func heightInSet(facts []Fact, n Notification) int64 {
	highest := int64(-1)
	for _, f := range facts {
		if f.Kind == n.Kind && f.Object == n.Object && (f.Amount.Currency != "USD" || f.Kind == KindDispute) &&
			(f.Kind == KindAuthorization || (f.Form == FormTotal) == (n.Form == FormTotal)) {
			highest = max(highest, heightOfFact(f))
		}
	}
	return highest
}

func onRecognized(lines []Line, f Fact) bool {
	if f.Amount.Currency == "USD" && f.Kind != KindDispute {
		return false
	}
	name := f.Parent
	if name == "" && (f.Kind != KindRefund || f.Form == FormTotal) {
		name = f.Object
	}
	return slices.ContainsFunc(lines, func(l Line) bool { return l.Recognized && slices.Contains(l.Names, name) })
}

// fulfilledRightly is G5.
func (s *sim) fulfilledRightly(want *truth) {
	s.t.Helper()
	if s.record.Adopted {
		if len(s.orders) > 0 {
			s.t.Fatalf("G5: a payment that nobody registered fulfills: %q", s.orders)
		}
		return
	}
	last := ""
	for i, m := range s.orders {
		if (m == MessageFulfill) != (i == 0) || m == last {
			s.t.Fatalf("G5: messages of the order: %q", s.orders)
		}
		last = m
	}
	f := s.order.Fulfillment
	switch {
	case s.view.Earned && !s.view.Returned && f != FulfillmentSent,
		s.view.Earned && s.view.Returned && f != FulfillmentSent && f != FulfillmentHeld,
		!s.view.Earned && f != FulfillmentNone && f != FulfillmentRevoked,
		f == FulfillmentRevoked && last != MessageRevoke:
		s.t.Fatalf("G5: fulfillment %s, told %q, earned %t, returned %t", f, s.orders, s.view.Earned, s.view.Returned)
	}
	if slices.Contains(s.orders, MessageRevoke) && !want.withdrawn {
		s.t.Fatalf("G5: revoked without a withdrawal: %q", s.orders)
	}
}

// withdrawn says that something in the set may take earned money back.
func withdrawn(r Record, facts []Fact) bool {
	variants := map[string]string{}
	for _, f := range facts {
		switch {
		case f.Read != 0,
			f.Kind == KindCapture && f.Form != FormTotal && (f.Stage == StageRefused || f.Stage == StageFailed),
			r.FulfillOn == OnAuthorized && f.Kind == KindAdjustment,
			r.FulfillOn == OnAuthorized && f.Kind == KindAuthorization && f.Stage != StageAuthorized:
			return true
		}
		if f.Kind != KindCapture && f.Kind != KindAuthorization {
			continue
		}
		object := strings.Join([]string{string(f.Kind), string(f.Form), f.Object, string(f.Stage)}, "|")
		if before, seen := variants[object]; seen && before != f.Variant() && f.Form != FormTotal {
			return true
		}
		variants[object] = f.Variant()
	}
	return false
}

// closedByThemselves is G6, as far as it is pure.
func (s *sim) closedByThemselves(want *truth) {
	s.t.Helper()
	if want.reads {
		return
	}
	for _, c := range s.view.Conditions {
		delete(s.now, string(c.Kind)+" "+c.Object)
	}
	for k := range s.now {
		if !strings.HasPrefix(k, string(ConditionAmount)+" ") && !strings.HasPrefix(k, string(ConditionMoneyAfterCancel)) {
			s.t.Fatalf("G6: %s opened on the way and does not hold finally", k)
		}
	}
}

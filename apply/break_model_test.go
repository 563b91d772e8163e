package apply_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// moody is an adapter that cannot read some payloads until it is mended.
type moody struct {
	plain
	mended *atomic.Bool
}

func (m moody) Parse(acc *provider.Account, raw []byte) (provider.Event, error) {
	e, err := m.plain.Parse(acc, raw)
	if err == nil && e.Type == "moody" && !m.mended.Load() {
		return e, provider.ErrMalformed
	}
	return e, err
}

// tale is one order, its payments and everything that providers say of them, at
// random: sense and nonsense.
type tale struct {
	order string
	total payment.Money
	parts []*part
	// ships says that the merchant ships at some time, shipped that it did.
	ships, shipped bool
}

// part is one payment of a tale, with the model of it: the set of all facts.
type part struct {
	registration apply.Registration
	scope        store.Scope
	events       []provider.Event
	facts        []payment.Fact
	id           string
	entries      []string
}

const (
	talesOfRun  = 12
	eventsOfMax = 7
)

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newTale(r *rand.Rand, n int) *tale {
	s := "_t" + itoa(n)
	k := &tale{order: "O" + s, total: eur(pick(r, int64(100), 100, 200)), ships: r.IntN(4) == 0}
	rule, on := pick(r, payment.RuleExact, payment.RuleExact, payment.RuleUpTo), pick(r, payment.OnCaptured, payment.OnCaptured, payment.OnAuthorized)
	for i := range 1 + r.IntN(2) {
		acc := pick(r, account, account, "adopting")
		p := &part{registration: apply.Registration{
			Order: k.order, OrderTotal: &k.total, Account: acc, Amount: eur(100), Rule: rule, FulfillOn: on,
			ConnectedAccount: pick(r, "", "", "acct_9"),
		}}
		suffix := s + "_p" + itoa(i)
		if byOrder := i == 0 && r.IntN(3) == 0 && acc == account; !byOrder {
			p.registration.References = []string{"pi_1" + suffix, "pi_2" + suffix}[:p.lines()]
		}
		p.scope = store.Scope{Account: acc, Mode: string(provider.Live), Connected: p.registration.ConnectedAccount}
		p.fill(r, suffix)
		k.parts = append(k.parts, p)
	}
	return k
}

// lines is how many lines a payment has: evidence of two lines that nothing
// links is adopted as two payments.
func (p *part) lines() int {
	if p.registration.Account == "adopting" {
		return 1
	}
	return 2
}

// fill draws the events of a payment. Each names its line, or a name that one of
// the events links to it.
func (p *part) fill(r *rand.Rand, suffix string) {
	link := func(alias, line string) provider.Event {
		return event("evt_"+alias, []string{alias, line}, payment.Link(alias, line))
	}
	p.add(link("alias"+suffix, "pi_1"+suffix), suffix)
	if p.lines() > 1 {
		p.add(link("charge"+suffix, "pi_2"+suffix), suffix)
	}
	for i := range 1 + r.IntN(eventsOfMax) {
		var facts []payment.Fact
		var names []string
		for range 1 + r.IntN(2) {
			f, line := drawFact(r, suffix, p.lines())
			facts, names = append(facts, f), append(names, line, f.Object)
		}
		e := event("evt_"+itoa(i)+suffix, slices.Compact(names), facts...)
		e.Type = pick(r, "t", "t", "t", "moody")
		e.Root = facts[0].Kind == payment.KindAuthorization
		p.add(e, suffix)
	}
}

func (p *part) add(e provider.Event, suffix string) {
	e.Connected = p.registration.ConnectedAccount
	if len(p.registration.References) == 0 {
		e.Order = p.registration.Order
	}
	e.Lane = pick(rand.New(rand.NewPCG(uint64(len(p.events)), 0)), e.Identity, suffix)
	p.events, p.facts = append(p.events, e), append(p.facts, e.Facts...)
}

// drawFact draws a fact and a name by which its payment is found.
func drawFact(r *rand.Rand, suffix string, lines int) (payment.Fact, string) {
	line := pick(r, []string{"pi_1", "pi_1", "pi_2"}[:lines+1]...) + suffix
	parent := pick(r, []string{line, line, "alias" + suffix, "charge" + suffix}[:lines+2]...)
	amount := eur(pick(r, int64(100), 100, 60, 40, 150))
	if r.IntN(12) == 0 {
		amount.Currency = "USD"
	}
	stage := func(k payment.Kind) payment.Stage { return pick(r, payment.Stages(k)...) }
	number := itoa(1 + r.IntN(2))
	switch r.IntN(10) {
	case 0, 1, 2:
		f := authorization(line, payment.StageAuthorized, amount)
		if strings.HasPrefix(line, "pi_1") {
			f.Form = payment.FormTotal
		}
		return f, line
	case 3:
		f := authorization(line, pick(r, payment.StageCompleted, payment.StageVoided, payment.StageExpired), payment.Money{})
		f.Loud = r.IntN(2) == 0
		return f, line
	case 4, 5:
		return captureTotal(line, amount), line
	case 6:
		return captureItem("cap_"+number+suffix, line, stage(payment.KindCapture), amount), line
	case 7:
		return payment.Fact{Kind: payment.KindAttempt, Form: payment.FormItem, Object: "at_" + number + suffix, Parent: line, Stage: stage(payment.KindAttempt)}, line
	case 8:
		return payment.Fact{Kind: payment.KindRefund, Form: payment.FormItem, Object: "re_" + number + suffix, Parent: parent, Stage: stage(payment.KindRefund), Amount: amount}, parent
	}
	return dispute("dp_"+number+suffix, parent, r.IntN(3), pick(r, payment.StageOpen, payment.StageWon, payment.StageLost), amount), parent
}

// telling is one order in which the pieces of tales happen.
type telling struct {
	h      *house
	r      *rand.Rand
	mended *atomic.Bool
}

// pieces are everything that happens in a tale, each once and events again.
func (x *telling) pieces(k *tale) (pieces []func()) {
	if k.ships {
		pieces = append(pieces, func() {
			_, err := x.h.applier.Ship(context.Background(), store.OrderKey{Shop: "default", ID: k.order}, "tester")
			k.shipped = err == nil
		})
	}
	for _, p := range k.parts {
		pieces = append(pieces, func() { p.id = x.h.register(p.registration).ID })
		for i, e := range p.events {
			again := e
			again.Identity += "_again"
			p.entries = append(p.entries, "", "")
			pieces = append(pieces,
				func() { p.entries[2*i] = x.h.put(p.scope.Account, e)[0] },
				func() { p.entries[2*i+1] = x.h.put(p.scope.Account, again, e)[0] })
		}
	}
	return pieces
}

// newTelling makes a house in which every look at the clock is later than the one before.
func newTelling(t *testing.T, s store.Store, seed uint64) *telling {
	x := &telling{r: rand.New(rand.NewPCG(seed, 2)), mended: &atomic.Bool{}}
	x.h = newHouse(t, s, x.change)
	return x
}

func (x *telling) change(o *apply.Options) {
	for _, a := range o.Accounts {
		a.Adapter = moody{plain{payment.FormTotal}, x.mended}
	}
	now := o.Now
	if x.h != nil {
		now = x.h.clock
	}
	o.Now = func() time.Time {
		if x.h != nil {
			x.h.advance(time.Microsecond)
		}
		return now()
	}
}

// redriveAll mends the adapter and redrives what was dead.
func (x *telling) redriveAll(tales []*tale) {
	x.h.t.Helper()
	x.mended.Store(true)
	for _, k := range tales {
		for _, p := range k.parts {
			for _, id := range p.entries {
				if x.h.event(id).State != store.EntryDead {
					continue
				}
				if err := x.h.applier.Redrive(context.Background(), id, "tester", "mended"); err != nil {
					x.h.t.Fatal(err)
				}
			}
		}
	}
}

// R2.3, R2.5, R2.9, R2.10, R2.11: tales told in any order and batches, against
// the model: the fold of all facts of a payment from scratch.
func TestTalesAgainstTheModel(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	eachBackend(t, func(t *testing.T, s store.Store) {
		x := newTelling(t, s, seed)
		var tales []*tale
		var pieces []func()
		for n := range talesOfRun {
			k := newTale(x.r, n)
			tales, pieces = append(tales, k), append(pieces, x.pieces(k)...)
		}
		x.r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for _, piece := range pieces {
			piece()
			if x.r.IntN(4) == 0 {
				x.h.applier.WorkOnce(context.Background())
			}
		}
		x.h.work()
		x.finish(tales)
	})
}

// R2.2, R2.7, R8.5: the same with several appliers at once.
func TestTalesBySeveralAppliers(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	eachBackend(t, func(t *testing.T, s store.Store) {
		x := newTelling(t, s, seed)
		others := []*house{newHouse(t, s, x.change), newHouse(t, s, x.change)}
		for _, o := range others {
			o.applier.Start(t.Context())
		}
		var tales []*tale
		var pieces []func()
		for n := range talesOfRun {
			k := newTale(x.r, n)
			tales, pieces = append(tales, k), append(pieces, x.pieces(k)...)
		}
		x.r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for _, piece := range pieces {
			piece()
		}
		for _, o := range others {
			if err := o.applier.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		x.h.work()
		x.finish(tales)
	})
}

// finish brings everything to its end and compares it with the model.
func (x *telling) finish(tales []*tale) {
	x.h.t.Helper()
	x.redriveAll(tales)
	x.h.work()
	x.h.advance(25 * time.Hour)
	for _, k := range tales {
		for _, p := range k.parts {
			x.h.judged(p.id)
		}
	}
	for _, k := range tales {
		for _, p := range k.parts {
			x.h.check(p)
		}
		x.h.checkOrder(k)
		if x.h.t.Failed() {
			for _, p := range k.parts {
				x.h.t.Logf("%+v", p.registration)
				for _, e := range p.events {
					x.h.t.Logf("  %s %v %+v", e.Identity, e.Names, e.Facts)
				}
			}
			return
		}
	}
}

func (h *house) model(p *part) payment.Record {
	return payment.Record{
		Expected: p.registration.Amount, Rule: p.registration.Rule, FulfillOn: p.registration.FulfillOn, CaptureSpeaks: payment.FormTotal,
	}
}

// check compares one payment with the model of it.
func (h *house) check(p *part) {
	h.t.Helper()
	h.processed(p.entries...)
	row := h.payment(p.id)
	want := payment.Fold(h.model(p), p.facts)
	h.expect("G1 of "+p.id, row.View, want)
	h.intact(p.id)
	decided, sent, err := map[string]payment.Decision{}, map[string]bool{}, error(nil)
	h.view(func(r store.Reader) error {
		var effects []store.Effect
		effects, err = r.Effects(context.Background(), []string{p.id})
		for _, e := range effects {
			if e.Type != "condition.held" {
				decided[e.Key] = payment.Decision(e.Decision)
				sent[p.id+"|"+e.Key] = e.Decision == string(payment.Send)
			}
		}
		return err
	})
	for _, n := range payment.Notifications(h.model(p), p.facts) {
		if decided[n.Key()] == "" {
			h.t.Errorf("G3 of %s: %s is not recorded", p.id, n.Key())
		}
	}
	if _, more := payment.Effects(h.model(p), p.facts, decided); len(more) > 0 {
		h.t.Errorf("G3, G4 of %s: left undecided: %+v", p.id, more)
	}
	h.checkMessages(p.id, row, sent)
	h.checkExceptions(p.id, want.Conditions)
}

// checkMessages compares what was told of a payment with its effects, and the
// snapshots with each other.
func (h *house) checkMessages(id string, row store.Payment, sent map[string]bool) {
	h.t.Helper()
	var messages []store.Message
	h.view(func(r store.Reader) (err error) {
		messages, err = r.Messages(context.Background(), store.List{Where: map[string]string{"payment": id}, Limit: 101})
		return err
	})
	told := 0
	messages = slices.DeleteFunc(messages, func(m store.Message) bool { return m.Type == apply.MessageExceptionOpened })
	slices.SortFunc(messages, func(a, b store.Message) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for i, m := range messages {
		if m.Sequence != int64(i+1) {
			h.t.Errorf("message %d of %s has sequence %d", i+1, id, m.Sequence)
		}
		if sent[m.Cause] {
			told++
		} else if !strings.HasPrefix(m.Type, "order.") {
			h.t.Errorf("G4 of %s: %s is told and not recorded as sent", id, m.Cause)
		}
	}
	for _, s := range sent {
		if s {
			told--
		}
	}
	h.expect("G4 of "+id+": told beyond recorded", told, 0)
	h.expect("sequence of "+id, row.Sequence, len(messages))
}

// checkExceptions is G6: open are the conditions that hold, and no others.
func (h *house) checkExceptions(id string, conditions []payment.Condition) {
	h.t.Helper()
	var want, open []string
	for _, c := range conditions {
		want = append(want, id+"|"+string(c.Kind)+"|"+c.Object)
	}
	h.view(func(r store.Reader) error {
		list, err := r.ConditionsOf(context.Background(), []string{id})
		for _, e := range list {
			if e.State == store.ExceptionOpen {
				open = append(open, e.Condition)
			}
		}
		return err
	})
	slices.Sort(want)
	slices.Sort(open)
	h.expect("G6", open, want)
}

// checkOrder is G5 over all payments of the order, and the surplus.
func (h *house) checkOrder(k *tale) {
	h.t.Helper()
	var earned, good, left, kept int64
	for _, p := range k.parts {
		v := payment.Fold(h.model(p), p.facts)
		kept += max(0, v.Totals.Captured-v.Totals.Refunded-v.Totals.Lost)
		if v.Earned {
			earned, good, left = earned+v.EarnedAmount, good+v.GoodCaptured, left+v.GoodLeft
		}
	}
	o := h.order(k.order)
	h.intact(o.ID)
	isEarned, isReturned := earned >= k.total.Value, good > 0 && left == 0
	told := h.ofOrder(k.order, "order.fulfill", "order.revoked", "order.restored")
	count := func(kind string) (n int) {
		for _, m := range told {
			if m == kind {
				n++
			}
		}
		return n
	}
	fulfilled, out := count("order.fulfill"), count("order.revoked")-count("order.restored")
	switch {
	case isEarned && !isReturned && o.Fulfillment != store.FulfillSent,
		isEarned && isReturned && o.Fulfillment != store.FulfillSent && o.Fulfillment != store.FulfillHeld,
		!isEarned && !k.shipped && o.Fulfillment != store.FulfillNone && o.Fulfillment != store.FulfillRevoked,
		fulfilled > 1, (o.Fulfillment == store.FulfillSent || o.Fulfillment == store.FulfillRevoked) != (fulfilled == 1),
		(o.Fulfillment == store.FulfillRevoked) != (out == 1), out < 0, out > 1:
		h.t.Errorf("G5 of %s: %s, told %v, earned %t, returned %t", k.order, o.Fulfillment, told, isEarned, isReturned)
	}
	surplus, failed := int64(0), false
	h.view(func(r store.Reader) error {
		list, err := r.ConditionsOf(context.Background(), []string{o.ID})
		for _, e := range list {
			switch {
			case e.State != store.ExceptionOpen:
			case e.Reason == "surplus":
				surplus = e.Amount.Value
			case e.Reason == "revoked_after_shipping":
				failed = true
			}
		}
		return err
	})
	h.expect("surplus of "+k.order, surplus, max(0, kept-k.total.Value))
	h.expect("shipped without money "+k.order, failed, k.shipped && fulfilled == 1 && !isEarned)
}

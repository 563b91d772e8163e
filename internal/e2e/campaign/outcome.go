package campaign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/store"
)

// outcome is what a life has come to, without anything that names it.
type outcome struct {
	state       string
	view        string
	fulfillment string
	// recorded are the keys of effects, told or not.
	recorded []string
	// told are the types of messages about one object, in their order.
	told map[string][]string
	// fulfilled counts order.fulfill, revoked order.revoked.
	fulfilled, revoked int
	open               []string
	entries            []string
}

// outcome reads a life from the ledger.
func (b *bed) outcome(number int) (o outcome, err error) {
	key := store.OrderKey{Shop: "default", ID: renamed(lifeOrder, number)}
	err = b.store.View(b.ctx, func(r store.Reader) error {
		o = outcome{told: map[string][]string{}}
		order, err := r.Order(b.ctx, key)
		if err != nil {
			return fmt.Errorf("reading order %s: %w", key.ID, err)
		}
		payments, err := r.PaymentsOfOrders(b.ctx, []store.OrderKey{key})
		if err != nil || len(payments) != 1 {
			return fmt.Errorf("order %s has %d payments: %w", key.ID, len(payments), err)
		}
		p := payments[0]
		o.state, o.fulfillment = string(p.View.State), order.Fulfillment
		o.view = unnamed(fmt.Sprintf("%+v", p.View))
		if err := b.effects(r, p, &o); err != nil {
			return err
		}
		return b.evidence(r, p, &o)
	})
	return o, err
}

// effects reads what was recorded and what was to be told.
func (b *bed) effects(r store.Reader, p store.Payment, o *outcome) error {
	effects, err := r.Effects(b.ctx, []string{p.ID})
	if err != nil {
		return err
	}
	for _, e := range effects {
		if e.Type != "condition.held" {
			o.recorded = append(o.recorded, unnamed(e.Key))
		}
	}
	slices.Sort(o.recorded)
	messages, err := r.Messages(b.ctx, store.List{Where: map[string]string{"payment": p.ID}, Limit: 101})
	if err != nil {
		return err
	}
	slices.SortFunc(messages, func(a, b store.Message) int { return int(a.Sequence - b.Sequence) })
	for _, m := range messages {
		switch {
		case m.Type == "order.fulfill":
			o.fulfilled++
		case m.Type == "order.revoked":
			o.revoked++
		case strings.HasPrefix(m.Type, "order."), strings.HasPrefix(m.Type, "exception."):
		default:
			object := strings.Split(unnamed(strings.TrimPrefix(m.Cause, p.ID+"|")), "|")
			name := strings.Join(object[:min(2, len(object))], "|")
			o.told[name] = append(o.told[name], strings.Join(object, "|"))
		}
	}
	return nil
}

// evidence reads what became of the events, and what is open.
func (b *bed) evidence(r store.Reader, p store.Payment, o *outcome) error {
	open, err := r.Exceptions(b.ctx, store.List{Where: map[string]string{"payment": p.ID, "state": store.ExceptionOpen}, Limit: 101})
	if err != nil {
		return err
	}
	for _, x := range open {
		o.open = append(o.open, x.Kind+"/"+x.Reason)
	}
	slices.Sort(o.open)
	entries, err := r.Entries(b.ctx, store.List{Where: map[string]string{"payment": p.ID}, Limit: 101})
	if err != nil {
		return err
	}
	for _, e := range entries {
		o.entries = append(o.entries, unnamed(e.ProviderEventID)+" "+e.State)
	}
	slices.Sort(o.entries)
	return nil
}

// compare holds a telling against the one in which it happened, as guarantees
// G1 to G6 say: state and recorded effects are one, what was sent may leave out
// lower stages and nothing else.
func (o outcome) compare(v *verdict, q sequence, t telling, got outcome) {
	wrong := func(what string, got, want any) {
		v.add("%s, telling %d, registered at step %d: %s is %v, want %v; told %s", q.name, t.number, t.registered, what, got, want, strings.Join(t.kinds(), ", "))
	}
	if got.view != o.view {
		wrong("G1: the view", got.view, o.view)
	}
	if !slices.Equal(got.entries, o.entries) {
		wrong("G1: the evidence", got.entries, o.entries)
	}
	if !slices.Equal(got.recorded, o.recorded) {
		wrong("G3: the recorded effects", got.recorded, o.recorded)
	}
	if !o.toldRightly(got) {
		wrong("G4: what was told", got.told, o.told)
	}
	if !slices.Contains(strings.Fields(q.fulfillment), got.fulfillment) {
		wrong("G5: the fulfillment", got.fulfillment, q.fulfillment)
	}
	sent := 0
	if got.fulfillment == store.FulfillSent {
		sent = 1
	}
	if got.fulfilled != sent || got.revoked != 0 {
		wrong("G5: order.fulfill and order.revoked", []int{got.fulfilled, got.revoked}, []int{sent, 0})
	}
	if !slices.Equal(got.open, o.open) {
		wrong("G6: the open exceptions", got.open, o.open)
	}
}

// toldRightly is G4: what was sent was recorded, each once, in ascending rank,
// and the highest stage of each object was sent.
func (o outcome) toldRightly(got outcome) bool {
	want := maps.Clone(o.told)
	for object, told := range got.told {
		for i, key := range told {
			if !slices.Contains(o.recorded, key) || slices.Contains(told[:i], key) {
				return false
			}
		}
		if want[object] == nil {
			if !silent(object, told) {
				return false
			}
			delete(got.told, object)
		}
	}
	for object, told := range want {
		if silent(object, told) {
			delete(want, object)
			delete(got.told, object)
		}
	}
	return maps.EqualFunc(got.told, want, subsequence)
}

// silent says that the highest stage of the object is one that nobody is told
// of: an authorization that is completed by the capture of its money. What was
// told before is a lower stage, which may be left out.
func silent(object string, told []string) bool {
	last := told[len(told)-1]
	return strings.HasPrefix(object, string(payment.KindAuthorization)+"|") &&
		!strings.HasSuffix(last, string(payment.StageVoided)) && !strings.HasSuffix(last, string(payment.StageExpired))
}

// subsequence says that got leaves out of want nothing but things before the last.
func subsequence(got, want []string) bool {
	if got[len(got)-1] != want[len(want)-1] {
		return false
	}
	at := 0
	for _, w := range want {
		if at < len(got) && got[at] == w {
			at++
		}
	}
	return at == len(got)
}

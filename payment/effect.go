package payment

// Decision is what becomes of a notification. Send and Supersede are final; a
// held one is decided again when the set grows.
type Decision string

// The decisions.
const (
	// Send: tell it, once.
	Send Decision = "send"
	// Supersede: never tell it; something higher is known already.
	Supersede Decision = "supersede"
	// Hold: it speaks of money of a line that is not recognized yet.
	Hold Decision = "hold"
)

// Effect is a notification whose recording or decision changes now.
type Effect struct {
	Notification
	Decision Decision `json:"decision"`
}

// Effects folds the set of facts and decides what follows from it. already
// holds what was decided before, by Notification.Key; keys of other origin are
// harmless. The effects are those that are not recorded yet, or were held and
// are decided now: by kind and object, of each object in ascending rank, and
// last payment.money_after_cancel. Recording them with their decisions makes
// the same call return none.
func Effects(r Record, facts []Fact, already map[string]Decision) (View, []Effect) {
	b := read(r, facts)
	view := b.conclude(facts)
	var out []Effect
	b.speak(func(n Notification, d Decision) {
		before, recorded := already[n.Key()]
		if !recorded || before == Hold && d != Hold {
			out = append(out, Effect{Notification: n, Decision: d})
		}
	})
	if f := b.moneyAfterCancel(); f != nil {
		n := Notification{Type: MessageMoneyAfterCancel, Kind: f.Kind, Object: f.Object, Stage: f.Stage, Fact: *f}
		if _, recorded := already[n.Key()]; !recorded {
			out = append(out, Effect{Notification: n, Decision: Send})
		}
	}
	return view, out
}

// decide says what the set alone asks for.
func (b *book) decide(r *ref, run []ref, h height) Decision {
	switch {
	case r.dropped:
		return Supersede
	case r.total() && r.Amount.Value < h.amount:
		return Supersede
	case (!r.total() || r.kind == isAuthorization) && placeOfRef(r) < h.place:
		return Supersede
	case r.kind == isAttempt && (b.view.Totals.Captured > 0 || b.view.State == StateAuthorized):
		return Supersede
	case r.kind < isCapture:
		return Send
	}
	class := none
	if r.total() {
		class = b.classOf(r.Object)
	} else {
		class = b.resolve(run).line
	}
	if class == none || !b.lines[class].recognized {
		return Hold
	}
	return Send
}

// moneyAfterCancel returns the close that money came after, the first by name.
func (b *book) moneyAfterCancel() *Fact {
	for _, n := range b.notes {
		if n.kind == ConditionMoneyAfterCancel {
			return n.fact
		}
	}
	return nil
}

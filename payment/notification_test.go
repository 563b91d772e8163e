package payment

import (
	"reflect"
	"slices"
	"testing"
)

// R2.3: what each fact has to say, under which identity.
func TestNotifications(t *testing.T) {
	silent := authItem("o", 100)
	silent.Silent = true
	for _, c := range []struct {
		name string
		r    Record
		fact Fact
		want string // type and key, "" for silence
	}{
		{"link", registered(), Link("a", "b"), ""},
		{"authorized item", registered(), authItem("p", 100), "payment.authorized authorization|p|authorized"},
		{"authorized total", registered(), authTotal("p", 100), "payment.authorized authorization|p|total|100"},
		{"silent", registered(), silent, ""},
		{"completed", registered(), closing("p", StageCompleted), ""},
		{"expired", registered(), closing("p", StageExpired), "payment.canceled authorization|p|expired"},
		{"voided", registered(), loud("p", StageVoided), "payment.canceled authorization|p|voided"},
		{"adjusted", registered(), adjusted("x", "p", 80, 0), "authorization.adjusted adjustment|x"},
		{"attempt pending", registered(), attempt("ch", "p", StagePending), ""},
		{"attempt failed", registered(), attempt("ch", "p", StageFailed), "payment.failed attempt|ch|failed"},
		{"captured total", registered(), capTotal("p", 60), "payment.captured capture|p|total|60"},
		{"captured item beside totals", registered(), capItem("c", "p", StageSucceeded, 60), ""},
		{"refused item beside totals", registered(), capItem("c", "p", StageRefused, 60), ""},
		{"failed item beside totals", registered(), capItem("c", "p", StageFailed, 60), "capture.failed capture|c|failed"},
		{"captured total beside items", byItem(), capTotal("p", 60), ""},
		{"capture pending", byItem(), capItem("c", "p", StagePending, 60), "capture.pending capture|c|pending"},
		{"captured item", byItem(), capItem("c", "p", StageSucceeded, 60), "payment.captured capture|c|succeeded"},
		{"capture refused", byItem(), capItem("c", "p", StageRefused, 60), "capture.failed capture|c|refused"},
		{"refund pending", byItem(), refund("r", "p", StagePending, 5), "refund.pending refund|r|pending"},
		{"refund succeeded", byItem(), refund("r", "p", StageSucceeded, 5), "refund.succeeded refund|r|succeeded"},
		{"refund refused", byItem(), refund("r", "p", StageRefused, 5), "refund.failed refund|r|refused"},
		{"refund canceled", byItem(), refund("r", "p", StageCanceled, 5), "refund.canceled refund|r|canceled"},
		{"refund failed", byItem(), refund("r", "p", StageFailed, 5), "refund.failed refund|r|failed"},
		{"refunded total", byItem(), refTotal("p", 5), ""},
		{"inquiry", byItem(), disputed("d", "p", 0, StageOpen, 5), "dispute.opened dispute|d|0|open"},
		{"won", byItem(), disputed("d", "p", 1, StageWon, 5), "dispute.won dispute|d|1|won"},
		{"lost again", byItem(), disputed("d", "p", 2, StageLost, 5), "dispute.lost dispute|d|2|lost"},
		{"dispute in another currency", byItem(), inUSD(disputed("d", "p", 1, StageOpen, 5)), "dispute.opened dispute|d|1|open"},
		{"reversal", byItem(), reversal("p", 5), ""},
		{"reservation", byItem(), reservation("op", "p", StageReserved, 5), ""},
		{"another currency", byItem(), inUSD(refund("r", "p", StageSucceeded, 5)), ""},
		{"a read speaks as the event does", byItem(), readAs(4, refund("r", "p", StageSucceeded, 5)), "refund.succeeded refund|r|succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for _, n := range Notifications(c.r, []Fact{c.fact, c.fact}) {
				got += n.Type + " " + n.Key()
				if !reflect.DeepEqual(n.Fact, c.fact) {
					t.Errorf("proved by %+v", n.Fact)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// R2.5: held until the line is recognized, superseded for good, told once.
func TestEffects(t *testing.T) {
	r := byItem()
	decided := map[string]Decision{"other": Send}
	var facts []Fact
	step := func(want map[string]Decision, added ...Fact) {
		t.Helper()
		facts = append(facts, added...)
		_, effects := Effects(r, facts, decided)
		got := map[string]Decision{}
		for _, e := range effects {
			got[e.Key()] = e.Decision
			decided[e.Key()] = e.Decision
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	step(map[string]Decision{"refund|r|pending": Hold}, refund("r", "p", StagePending, 5))
	step(map[string]Decision{}, refund("r", "p", StagePending, 5))
	step(map[string]Decision{"refund|r|pending": Supersede, "refund|r|succeeded": Hold}, refund("r", "p", StageSucceeded, 5))
	step(map[string]Decision{"attempt|ch|failed": Send}, attempt("ch", "p", StageFailed))
	step(map[string]Decision{"refund|r|succeeded": Send, "authorization|p|authorized": Send}, authItem("p", 100))
	step(map[string]Decision{"attempt|ch2|failed": Supersede}, attempt("ch2", "p", StageFailed))
	step(map[string]Decision{"capture|c|succeeded": Send, "capture|c|pending": Supersede},
		capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StagePending, 100))
	step(map[string]Decision{"authorization|p|voided": Send, MessageMoneyAfterCancel: Send}, loud("p", StageVoided))
	step(map[string]Decision{"authorization|p|expired": Supersede}, loud("p", StageExpired))
	step(map[string]Decision{})
}

// Effects come by object, of each in ascending rank, whatever the order of facts.
func TestEffectsAscend(t *testing.T) {
	facts := []Fact{authTotal("p", 100), capTotal("p", 100), capTotal("p", 60), disputed("d", "p", 2, StageOpen, 5),
		disputed("d", "p", 1, StageLost, 5), disputed("d", "p", 1, StageOpen, 5), refund("r", "p", StageFailed, 5), refund("r", "p", StageSucceeded, 5)}
	want := []string{"authorization|p|total|100", "capture|p|total|60", "capture|p|total|100", "refund|r|succeeded", "refund|r|failed",
		"dispute|d|1|open", "dispute|d|1|lost", "dispute|d|2|open"}
	for range 2 {
		slices.Reverse(facts)
		_, effects := Effects(registered(), facts, nil)
		var got []string
		for _, e := range effects {
			got = append(got, e.Key())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// The fact that a message carries is the one that counts.
func TestVoiceOfContestedFacts(t *testing.T) {
	for _, c := range []struct {
		facts []Fact
		want  Fact
	}{
		{[]Fact{capItem("c", "p", StageSucceeded, 100), capItem("c", "p", StageSucceeded, 90)}, capItem("c", "p", StageSucceeded, 90)},
		{[]Fact{refund("r", "p", StageSucceeded, 30), refund("r", "p", StageSucceeded, 40)}, refund("r", "p", StageSucceeded, 40)},
		{[]Fact{unstated(refund("r", "p", StageSucceeded, 0)), refund("r", "p", StageSucceeded, 40)}, refund("r", "p", StageSucceeded, 40)},
		{[]Fact{refund("r", "p", StageSucceeded, 70), readAs(1, refund("r", "p", StageSucceeded, 40), refund("r", "p", StageSucceeded, 70))},
			readAs(1, refund("r", "p", StageSucceeded, 40), refund("r", "p", StageSucceeded, 70))},
	} {
		for range 2 {
			slices.Reverse(c.facts)
			ns := Notifications(byItem(), c.facts)
			if len(ns) != 1 || !reflect.DeepEqual(ns[0].Fact, c.want) {
				t.Errorf("%+v, want %+v", ns, c.want)
			}
		}
	}
}

// R2.5: a payment that is registered after it was adopted fulfills once, and
// what was told stays told.
func TestAdoptedThenRegistered(t *testing.T) {
	adopted := Record{Adopted: true, CaptureSpeaks: FormTotal}
	facts := []Fact{authTotal("p", 100), capTotal("p", 100)}
	view, first := Effects(adopted, facts, nil)
	decided := map[string]Decision{}
	for _, e := range first {
		decided[e.Key()] = e.Decision
	}
	v := JudgeOrder(OrderState{Fulfillment: FulfillmentNone}, []PartView{Part(adopted, view)})
	if v.Message != "" || decided["capture|p|total|100"] != Send {
		t.Fatalf("%+v %v", v, decided)
	}
	view, second := Effects(registered(), facts, decided)
	v = JudgeOrder(OrderState{Total: eur(100), Fulfillment: v.Fulfillment}, []PartView{Part(registered(), view)})
	if v.Message != MessageFulfill || len(second) != 0 {
		t.Fatalf("%+v %v", v, second)
	}
}

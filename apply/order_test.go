package apply_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// lifecycle is the evidence of one payment: authorized, captured in two steps,
// refunded twice, one refund failing, disputed and lost; with one event that
// says again what another said.
func lifecycle() []provider.Event {
	fact := func(event string, names []string, facts ...payment.Fact) provider.Event {
		return provider.Event{Identity: event, Type: "t", Lane: names[0], Evidence: payment.Evidence{Names: names, Facts: facts}}
	}
	authorized := payment.Fact{Kind: payment.KindAuthorization, Form: payment.FormTotal, Object: "pi_1", Parent: "pi_1", Stage: payment.StageAuthorized, Amount: eur(100)}
	capture := func(v int64) payment.Fact {
		return payment.Fact{Kind: payment.KindCapture, Form: payment.FormTotal, Object: "pi_1", Parent: "pi_1", Stage: payment.StageSucceeded, Amount: eur(v)}
	}
	refund := func(id string, stage payment.Stage, v int64) payment.Fact {
		return payment.Fact{Kind: payment.KindRefund, Form: payment.FormItem, Object: id, Parent: "ch_1", Stage: stage, Amount: eur(v)}
	}
	link := payment.Fact{Kind: payment.KindLink, Object: "ch_1", Parent: "pi_1"}
	return []provider.Event{
		fact("evt_auth", []string{"pi_1"}, authorized),
		fact("evt_cap", []string{"ch_1", "pi_1"}, link, authorized, capture(60), capture(100)),
		fact("evt_cap2", []string{"pi_1"}, authorized, capture(100)),
		fact("evt_re1", []string{"re_1", "ch_1"}, refund("re_1", payment.StageSucceeded, 30)),
		fact("evt_re2", []string{"re_2", "ch_1"}, refund("re_2", payment.StageFailed, 20)),
		fact("evt_dp", []string{"dp_1", "ch_1"}, payment.Fact{
			Kind: payment.KindDispute, Form: payment.FormItem, Object: "dp_1", Parent: "ch_1", Round: 1, Stage: payment.StageLost, Amount: eur(70),
		}),
	}
}

// outcome is everything that must not depend on order.
func (h *house) outcome(id string) string {
	h.t.Helper()
	p := h.payment(id)
	var effects []string
	h.view(func(r store.Reader) error {
		list, err := r.Effects(context.Background(), []string{id})
		for _, e := range list {
			if e.Type != "condition.held" {
				effects = append(effects, e.Key)
			}
		}
		return err
	})
	slices.Sort(effects)
	return fmt.Sprintf("%s %s %+v\n%s\n%v\n%v", p.View.State, p.View.Dispute, p.View.Totals,
		strings.Join(effects, "\n"), p.View.Conditions, h.open())
}

// R2.5, R2.10: any order and any repetition of the same evidence, with the
// registration at any place, ends in one state with the same recorded effects.
func TestAnyOrder(t *testing.T) {
	seed := seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	eachStore(t, func(t *testing.T, h *house) {
		events := lifecycle()
		want := ""
		for run := range runs {
			order := append(random.Perm(len(events)+1), random.Perm(len(events)+1)...)
			id := ""
			for _, i := range order {
				if i == len(events) {
					id = h.register(suffixed(run)).ID
				} else {
					h.put(account, renamed(events[i], run))
				}
				if random.IntN(2) == 0 {
					h.work()
				}
			}
			h.work()
			got := strings.ReplaceAll(h.outcome(id), "_r"+strconv.Itoa(run), "")
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("seed %d, run %d, order %v ends in\n%s\nnot\n%s", seed, run, order, got, want)
			}
			o := h.order("O_r" + strconv.Itoa(run))
			if o.Fulfillment != store.FulfillSent && o.Fulfillment != store.FulfillHeld {
				t.Fatalf("seed %d, run %d, order %v: fulfillment is %s", seed, run, order, o.Fulfillment)
			}
		}
	})
}

const runs = 60

func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("UNAVEZ_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("UNAVEZ_SEED=%d", s)
	return s
}

func suffixed(run int) apply.Registration {
	s := "_r" + strconv.Itoa(run)
	return apply.Registration{Order: "O" + s, Account: account, Amount: eur(100), References: []string{"pi_1" + s}}
}

// renamed gives an event's objects names of their own in a run.
func renamed(e provider.Event, run int) provider.Event {
	s := "_r" + strconv.Itoa(run)
	e.Identity += s
	e.Lane += s
	names := make([]string, 0, len(e.Names))
	for _, n := range e.Names {
		names = append(names, n+s)
	}
	e.Names = names
	facts := make([]payment.Fact, 0, len(e.Facts))
	for _, f := range e.Facts {
		f.Object += s
		f.Parent += s
		facts = append(facts, f)
	}
	e.Facts = facts
	return e
}

// R2.2, R2.7, R8.5: several appliers on one ledger, each event delivered to
// the inbox several times: every fact once, every order fulfilled once.
func TestSeveralAppliers(t *testing.T) {
	seed := seed(t)
	eachStore(t, func(t *testing.T, h *house) {
		random := rand.New(rand.NewPCG(seed, 1))
		const payments = 40
		ctx := t.Context()
		others := []*house{h, newHouse(t, h.store, nil), newHouse(t, h.store, nil)}
		for _, o := range others {
			o.applier.Start(ctx)
		}
		var events []provider.Event
		for run := range payments {
			for _, e := range lifecycle() {
				events = append(events, renamed(e, run), renamed(e, run))
			}
		}
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		registered := 0
		for i, e := range events {
			h.put(account, e)
			if i%(len(events)/payments) == 0 && registered < payments {
				h.register(suffixed(registered))
				registered++
			}
		}
		for ; registered < payments; registered++ {
			h.register(suffixed(registered))
		}
		h.until(func() bool {
			st, err := h.store.Stats(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range st.Queues {
				if q.Queue == store.QueueInbox && q.Pending+q.Waiting > 0 {
					return false
				}
			}
			return true
		})
		for _, o := range others {
			if err := o.applier.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		}
		h.expect("open", h.open(), []string(nil))
		for run := range payments {
			o := h.order("O_r" + strconv.Itoa(run))
			if o.Fulfillment != store.FulfillSent && o.Fulfillment != store.FulfillHeld {
				t.Errorf("seed %d: order %d is %s", seed, run, o.Fulfillment)
			}
		}
	})
}

// until polls a condition that comes true by itself.
func (h *house) until(done func() bool) {
	h.t.Helper()
	for range 6000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond) // nothing tells when the queue is empty
	}
	h.t.Fatal("the queue does not become empty")
}

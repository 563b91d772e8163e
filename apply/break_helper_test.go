package apply_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/apply"
	"github.com/unavez/unavez/payment"
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// event is evidence of any facts under any names.
func event(identity string, names []string, facts ...payment.Fact) provider.Event {
	return provider.Event{Identity: identity, Type: "t", Lane: identity, Evidence: payment.Evidence{Names: names, Facts: facts}}
}

func authorization(line string, stage payment.Stage, amount payment.Money) payment.Fact {
	return payment.Fact{Kind: payment.KindAuthorization, Form: payment.FormItem, Object: line, Parent: line, Stage: stage, Amount: amount}
}

func captureTotal(line string, amount payment.Money) payment.Fact {
	return payment.Fact{Kind: payment.KindCapture, Form: payment.FormTotal, Object: line, Parent: line, Stage: payment.StageSucceeded, Amount: amount}
}

func captureItem(object, line string, stage payment.Stage, amount payment.Money) payment.Fact {
	return payment.Fact{Kind: payment.KindCapture, Form: payment.FormItem, Object: object, Parent: line, Stage: stage, Amount: amount}
}

func dispute(object, line string, round int, stage payment.Stage, amount payment.Money) payment.Fact {
	return payment.Fact{Kind: payment.KindDispute, Form: payment.FormItem, Object: object, Parent: line, Round: round, Stage: stage, Amount: amount}
}

// put1 stores and works one event off and returns its entry.
func (h *house) put1(e provider.Event) string {
	h.t.Helper()
	h.advance(time.Second)
	id := h.put(account, e)[0]
	h.work()
	return id
}

// applied fails unless the events were processed.
func (h *house) processed(ids ...string) {
	h.t.Helper()
	for _, i := range ids {
		if e := h.event(i); e.State != store.EntryProcessed {
			h.t.Fatalf("event %s is %s: %s", e.Identity, e.State, e.Error)
		}
	}
}

// closeAs resolves, as a person does, the open exception with the reason.
func (h *house) closeAs(reason string) {
	h.t.Helper()
	h.change(reason, func(e *store.Exception) {
		e.State, e.UpdatedAt, e.ClosedAt, e.Closing = store.ExceptionResolved, h.clock(), h.clock(), "by a person"
	})
}

// change stores a change of the one exception with the reason.
func (h *house) change(reason string, change func(*store.Exception)) {
	h.t.Helper()
	e := h.exception(reason)
	change(&e)
	err := h.store.InTx(context.Background(), store.TxOptions{}, func(tx store.Tx) error {
		return tx.PutExceptions(context.Background(), []store.Exception{e})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// exception returns the one exception with the reason.
func (h *house) exception(reason string) store.Exception {
	h.t.Helper()
	var found []store.Exception
	for _, e := range h.exceptions() {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		h.t.Fatalf("%d exceptions because of %s, want one", len(found), reason)
	}
	return found[0]
}

// states returns reason=state of every exception, sorted.
func (h *house) states() (states []string) {
	h.t.Helper()
	for _, e := range h.exceptions() {
		states = append(states, e.Reason+"="+e.State)
	}
	slices.Sort(states)
	return states
}

// told is one message as a destination reads it.
type told struct {
	Type     string `json:"type"`
	Sequence int64  `json:"sequence"`
	Data     struct {
		Payment apply.PaymentDocument `json:"payment"`
		Surplus payment.Money         `json:"surplus"`
	} `json:"data"`
}

// bodies returns what was told of the kinds, in order.
func (h *house) bodies(kinds ...string) (list []told) {
	h.t.Helper()
	h.view(func(r store.Reader) error {
		rows, err := r.Messages(context.Background(), store.List{Limit: 100})
		if err != nil {
			return err
		}
		var ids []string
		for _, m := range rows {
			if slices.Contains(kinds, m.Type) {
				ids = append(ids, m.ID)
			}
		}
		rows, err = r.MessagesByID(context.Background(), ids)
		for _, m := range rows {
			var b told
			if err := json.Unmarshal(m.Body, &b); err != nil {
				return err
			}
			list = append(list, b)
		}
		return err
	})
	slices.SortStableFunc(list, func(a, b told) int {
		return cmp.Compare(a.Data.Payment.UpdatedAt.UnixMicro(), b.Data.Payment.UpdatedAt.UnixMicro())
	})
	return list
}

// lapsing is a store whose leases are over at once, as if their holder had
// stood still for longer.
type lapsing struct{ store.Store }

type lapsingTx struct{ store.Tx }

func (s lapsing) Claim(ctx context.Context, req store.ClaimRequest) (store.Claim, error) {
	req.Lease = 0
	return s.Store.Claim(ctx, req)
}

func (s lapsing) InTx(ctx context.Context, opt store.TxOptions, fn func(store.Tx) error) error {
	return s.Store.InTx(ctx, opt, func(tx store.Tx) error { return fn(lapsingTx{tx}) })
}

func (x lapsingTx) Extend(ctx context.Context, queue, token string, _ time.Duration) error {
	return x.Tx.Extend(ctx, queue, token, 0)
}

// eachBackend runs the test with a fresh ledger of each kind.
func eachBackend(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, openSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, openPostgres(t)) })
}

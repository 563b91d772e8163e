package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

// workQuiet opens the exceptions of quiet conditions that still hold after the
// account's quiet period.
func (a *Applier) workQuiet(ctx context.Context, claim store.Claim) {
	ctx = context.WithoutCancel(ctx)
	for _, it := range claim.Items {
		if err := a.judgeQuiet(ctx, claim.Token, it.ID); err != nil {
			a.opt.Logger.Warn("a quiet period could not be judged", "payment", it.ID, "error", err)
		}
	}
	err := a.store.InTx(ctx, store.TxOptions{}, func(tx store.Tx) error {
		return tx.Release(ctx, store.QueueQuiet, claim.Token)
	})
	if err != nil {
		a.opt.Logger.Warn("lanes are not released and will lapse", "error", err)
	}
}

func (a *Applier) judgeQuiet(ctx context.Context, token, id string) (err error) {
	defer recoverTo(&err)
	return a.within(ctx, store.TxOptions{}, func(tx store.Tx) error {
		s := &step{
			a: a, tx: tx, now: a.opt.Now().UTC().Truncate(time.Microsecond),
			payments: map[string]*paymentStep{id: {id: id}}, orders: map[store.OrderKey]*orderStep{},
		}
		if err := s.lock(ctx); err != nil {
			return err
		}
		ps := s.payments[id]
		if ps.account == nil {
			return fmt.Errorf("account %q is not configured", ps.row.Scope.Account)
		}
		first, quiet, err := s.firstHeld(ctx, ps)
		if err != nil {
			return err
		}
		if wait := quietDue(ps.row.NewestFactAt, first, ps.account.Quiet).Sub(s.now); quiet && wait > 0 {
			return tx.Postpone(ctx, store.QueueQuiet, token, []store.Postponed{{ID: id, Delay: wait}})
		}
		if err := s.load(ctx); err != nil {
			return err
		}
		for _, c := range ps.row.View.Conditions {
			s.wanted = append(s.wanted, s.conditionOf(ps, c))
		}
		if err := s.except(ctx); err != nil {
			return err
		}
		if err := s.save(ctx); err != nil {
			return err
		}
		return tx.Complete(ctx, store.QueueQuiet, token, []string{id})
	})
}

// firstHeld is the earliest instant since which a quiet condition that still
// holds has held.
func (s *step) firstHeld(ctx context.Context, ps *paymentStep) (first time.Time, quiet bool, err error) {
	effects, err := s.tx.Effects(ctx, []string{ps.id})
	if err != nil {
		return first, false, fmt.Errorf("reading effects of payment %s: %w", ps.id, err)
	}
	held := map[string]time.Time{}
	for _, e := range effects {
		held[e.Key] = e.At
	}
	for _, c := range ps.row.View.Conditions {
		if opensNow(c.Kind) {
			continue
		}
		quiet = true
		if at := held[heldKey(c)]; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, quiet, nil
}

package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

// workQuiet opens the exceptions of quiet conditions that still hold after the
// account's quiet period. A payment that cannot be judged is put back for a
// while that grows; there are no dead letters for it.
func (a *Applier) workQuiet(ctx context.Context, claim store.Claim) {
	ctx = context.WithoutCancel(ctx)
	for _, it := range claim.Items {
		err := a.judgeQuiet(ctx, claim.Token, it.ID)
		if err == nil || errors.Is(err, store.ErrLeaseLost) {
			continue
		}
		a.opt.Logger.Warn("a quiet period could not be judged", "payment", it.ID, "error", err)
		a.postpone(ctx, store.QueueQuiet, claim.Token, it, it.Attempts+1, err)
	}
	a.release(ctx, store.QueueQuiet, claim.Token)
}

func (a *Applier) judgeQuiet(ctx context.Context, token, id string) (err error) {
	defer recoverTo(&err)
	return a.within(ctx, store.TxOptions{}, func(tx store.Tx) error {
		s := a.newStep(tx, nil)
		s.payments[id] = &paymentStep{id: id}
		if err := s.lock(ctx); err != nil {
			return err
		}
		ps := s.payments[id]
		if ps.account == nil {
			return fmt.Errorf("account %q is not configured", ps.row.Scope.Account)
		}
		if err := s.load(ctx); err != nil {
			return err
		}
		next, err := s.wantQuiet(ctx, ps)
		if err != nil {
			return err
		}
		if err := s.except(ctx); err != nil {
			return err
		}
		if err := s.save(ctx); err != nil {
			return err
		}
		if !next.IsZero() {
			none := 0
			return tx.Postpone(ctx, store.QueueQuiet, token, []store.Postponed{{ID: id, Delay: next.Sub(s.now), Attempts: &none}})
		}
		return tx.Complete(ctx, store.QueueQuiet, token, []string{id})
	})
}

// wantQuiet wants the exceptions of the quiet conditions that are due, each for
// itself, and says when the next one is; zero for none.
func (s *step) wantQuiet(ctx context.Context, ps *paymentStep) (next time.Time, err error) {
	effects, err := s.tx.Effects(ctx, []string{ps.id})
	if err != nil {
		return next, fmt.Errorf("reading effects of payment %s: %w", ps.id, err)
	}
	held := map[string]time.Time{}
	for _, e := range effects {
		held[e.Key] = e.At
	}
	for _, c := range ps.row.View.Conditions {
		if opensNow(c.Kind) {
			continue
		}
		due := quietDue(ps.row.NewestFactAt, held[heldKey(c)], ps.account.Quiet)
		switch {
		case !due.After(s.now):
			s.wanted = append(s.wanted, s.conditionOf(ps, c))
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return next, nil
}

// quietDue says when a quiet condition opens: after the quiet period since the
// payment's newest fact, and never later than quietMax after it first held.
func quietDue(newestFact, firstHeld time.Time, quiet time.Duration) time.Time {
	due := newestFact.Add(quiet)
	if latest := firstHeld.Add(quietMax); !firstHeld.IsZero() && latest.Before(due) {
		return latest
	}
	return due
}

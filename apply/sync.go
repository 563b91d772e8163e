package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/store"
)

// ErrNotNow says that an entry cannot be applied in the receiving transaction
// (its payment is unknown, say); nothing was stored.
var ErrNotNow = errors.New("apply: not applicable in the receiving transaction")

// ApplyNow stores the entry and applies it in one transaction: verified,
// changed and ready to be acknowledged. On any error nothing is stored, except
// after store.ErrCommitUnknown; the caller then puts the entry into the inbox.
// A duplicate is counted and reported as not new.
func (a *Applier) ApplyNow(ctx context.Context, row store.EntryWithBody, event provider.Event) (inserted store.Inserted, err error) {
	defer recoverTo(&err)
	acc := a.opt.Accounts[row.Scope.Account]
	if acc == nil {
		return inserted, fmt.Errorf("account %q is not configured", row.Scope.Account)
	}
	in, err := newInput(row, acc, event)
	if err != nil {
		return inserted, err
	}
	err = a.within(ctx, store.TxOptions{LockTimeout: syncLockTimeout, NoRetry: true}, func(tx store.Tx) error {
		got, err := tx.InsertEntries(ctx, []store.EntryWithBody{row})
		if err != nil {
			return fmt.Errorf("storing event %s: %w", row.ID, err)
		}
		inserted = got[0]
		if !inserted.New {
			return tx.CountDeliveries(ctx, map[string]int{inserted.ID: 1}, row.ReceivedAt)
		}
		if err := a.forward(ctx, tx, row, event.Lane); err != nil {
			return err
		}
		if err := a.runStep(ctx, tx, []*input{in}); err != nil {
			return err
		}
		if in.wait > 0 {
			return ErrNotNow
		}
		return nil
	})
	if err == nil {
		a.metrics.finished([]*input{in})
	}
	return inserted, err
}

func (a *Applier) forward(ctx context.Context, tx store.Tx, row store.EntryWithBody, lane string) error {
	messages := a.Forward(row, lane)
	work := make([]store.Work, 0, len(messages))
	for _, m := range messages {
		work = append(work, store.Work{Queue: store.QueueOutbox(m.Destination), ID: m.ID, Lane: m.Lane})
	}
	if err := tx.InsertMessages(ctx, messages); err != nil {
		return fmt.Errorf("forwarding event %s: %w", row.ID, err)
	}
	return tx.Enqueue(ctx, work)
}

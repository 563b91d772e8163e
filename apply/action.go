package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

// Refusals of a person's action.
var (
	// ErrNotDead: only a dead entry can be redriven.
	ErrNotDead = errors.New("apply: the event is not in the dead letters")
	// ErrRunning: the entry is being worked on already.
	ErrRunning = errors.New("apply: the event is being worked on")
)

// Redrive gives a dead entry its attempts back and queues it under the identity
// that it has. Who and why are recorded. Doing it again while it runs is
// ErrRunning.
func (a *Applier) Redrive(ctx context.Context, entry, actor, reason string) error {
	return a.within(ctx, store.TxOptions{}, func(tx store.Tx) error {
		status, err := tx.Entry(ctx, entry)
		if err != nil {
			return err
		}
		switch status.State {
		case store.EntryDead:
		case store.EntryProcessed:
			return ErrNotDead
		default:
			return ErrRunning
		}
		switch err := tx.Reopen(ctx, entry); {
		case errors.Is(err, store.ErrNotFound):
			// Somebody else reopened it since it was read.
			return ErrRunning
		case err != nil:
			return fmt.Errorf("reopening event %s: %w", entry, err)
		}
		if err := tx.Enqueue(ctx, []store.Work{{Queue: store.QueueInbox, ID: entry, Lane: entry}}); err != nil {
			return fmt.Errorf("queueing event %s: %w", entry, err)
		}
		return tx.AppendAudit(ctx, []store.AuditRow{{
			ID: a.opt.NewID("aud"), Subject: entry, Action: "event.redriven", Actor: actor, Entry: entry,
			Detail: encode(redriveDetail{Reason: reason}), At: a.opt.Now().UTC().Truncate(time.Microsecond),
		}})
	})
}

// Ship records that the merchant has shipped the order: from then on money that
// fails behind it is an exception instead of order.revoked, and so is money that
// has failed before. Saying it again changes nothing.
func (a *Applier) Ship(ctx context.Context, key store.OrderKey, actor string) (store.Order, error) {
	var order store.Order
	err := a.within(ctx, store.TxOptions{}, func(tx store.Tx) error {
		rows, err := tx.LockOrders(ctx, []store.OrderKey{key})
		if err != nil {
			return fmt.Errorf("locking order %s: %w", key.ID, err)
		}
		if len(rows) == 0 {
			return fmt.Errorf("order %s: %w", key.ID, store.ErrNotFound)
		}
		order = rows[0]
		if !order.ShippedAt.IsZero() {
			return nil
		}
		s := a.newStep(tx, nil)
		if err := s.lockOrders(ctx, []store.OrderKey{key}); err != nil {
			return err
		}
		os := s.orders[key]
		os.row.ShippedAt, os.changed = s.now, true
		s.auditBy(&os.row.Audit, os.row.ID, "order.shipped", actor, "", struct{}{})
		s.weigh(os)
		if err := s.except(ctx); err != nil {
			return err
		}
		if err := s.save(ctx); err != nil {
			return err
		}
		order = os.row
		return nil
	})
	return order, err
}

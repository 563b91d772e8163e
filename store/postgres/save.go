package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/unavez/unavez/internal/crashpoint"
	"github.com/unavez/unavez/store"
)

// Save implements store.PaymentWriter in one round trip: one statement for each
// kind of rows, lanes and work last. ErrConflict if a message tells a
// destination of a cause again or an audit chain would fork, ErrNotFound if a
// payment or an order does not exist.
func (t *tx) Save(ctx context.Context, c store.Changes) error {
	const what = "saving changes"
	b := &pgx.Batch{}
	if err := queueState(b, c); err != nil {
		return t.fail(what, err)
	}
	if len(c.Effects) > 0 {
		effects := distinct(c.Effects, func(e *store.Effect) string { return e.Subject + "\x00" + e.Key })
		b.Queue(upsertEffects, effectColumns.args(effects)...)
	}
	if crashpoint.Enabled { // the place lies inside a round trip otherwise
		if err := t.send(ctx, what, b); err != nil {
			return err
		}
		crashpoint.Hit("apply.saved")
		b = &pgx.Batch{}
	}
	queueMessages(b, c.Messages)
	queueExceptions(b, c.Exceptions)
	if len(c.Audit) > 0 {
		b.Queue(insertAudit, auditColumns.args(c.Audit)...)
	}
	queueResults(b, c.Results)
	work := make([]store.Work, 0, len(c.Messages)+len(c.Work))
	for i := range c.Messages {
		m := &c.Messages[i]
		work = append(work, store.Work{Queue: store.QueueOutbox(m.Destination), ID: m.ID, Lane: m.Lane})
	}
	t.queueWork(b, append(work, c.Work...))
	return t.send(ctx, what, b)
}

// queueState adds facts, payments and orders.
func queueState(b *pgx.Batch, c store.Changes) error {
	if len(c.Facts) > 0 {
		list, err := factRows(c.Facts)
		if err != nil {
			return err
		}
		b.Queue(insertFacts, factColumns.args(list)...)
	}
	if len(c.Payments) > 0 {
		payments := distinct(c.Payments, func(p *store.Payment) string { return p.ID })
		list, err := paymentRows(payments)
		if err != nil {
			return err
		}
		b.Queue(updatePayments, paymentColumns.args(list)...).Exec(all("payments", len(list)))
	}
	if len(c.Orders) > 0 {
		orders := distinct(c.Orders, func(o *store.Order) string { return o.ID })
		b.Queue(updateOrders, orderColumns.args(orders)...).Exec(all("orders", len(orders)))
	}
	return nil
}

// all checks that a statement met every row.
func all(kind string, rows int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if n := tag.RowsAffected(); n != int64(rows) {
			return fmt.Errorf("%d of %d %s exist: %w", n, rows, kind, store.ErrNotFound)
		}
		return nil
	}
}

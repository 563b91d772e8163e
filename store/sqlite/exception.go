package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/unavez/unavez/store"
)

const exceptionSelect = `SELECT x.id, x.kind, x.condition, x.subject, x.reason, x.state, x.account, x.event, x.provider_event_id, x.payment,
	x.order_id, x.operation, x.message, x.urgency, x.amount_value, x.amount_currency, x.detail, x.opened_at, x.updated_at,
	x.closed_at, x.closing FROM exception x`

func scanException(row scanner) (store.Exception, error) {
	var e store.Exception
	var opened, updated, closed sql.NullInt64
	err := row.Scan(&e.ID, &e.Kind, &e.Condition, &e.Subject, &e.Reason, &e.State, &e.Account, &e.Event, &e.ProviderEventID, &e.Payment,
		&e.Order, &e.Operation, &e.Message, &e.Urgency, &e.Amount.Value, &e.Amount.Currency, &e.Detail, &opened, &updated, &closed, &e.Closing)
	e.OpenedAt, e.UpdatedAt, e.ClosedAt = instant(opened), instant(updated), instant(closed)
	return e, err
}

// Exception implements store.ExceptionReader.
func (t *tx) Exception(ctx context.Context, id string) (store.Exception, error) {
	return one(ctx, t, scanException, exceptionSelect+` WHERE x.id = ?`, id)
}

var exceptionFilters = map[string]string{
	"kind": "x.kind", "state": "x.state", "account": "x.account", "event": "x.event", "provider_event_id": "x.provider_event_id",
	"payment": "x.payment", "order": "x.order_id", "operation": "x.operation", "message": "x.message", "reason": "x.reason",
}

// Exceptions implements store.ExceptionReader.
func (t *tx) Exceptions(ctx context.Context, l store.List) ([]store.Exception, error) {
	q := query{text: exceptionSelect, id: "x.id"}
	if err := q.filter(l, exceptionFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanException, q.text, q.args...)
}

// ConditionsOf implements store.ExceptionReader.
func (t *tx) ConditionsOf(ctx context.Context, subjects []string) ([]store.Exception, error) {
	var out []store.Exception
	for _, s := range unique(subjects) {
		rows, err := all(ctx, t, scanException, exceptionSelect+` WHERE x.subject = ? ORDER BY x.id`, s)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// PutExceptions implements store.ExceptionWriter.
func (t *tx) PutExceptions(ctx context.Context, exceptions []store.Exception) error {
	for _, e := range exceptions {
		if _, err := t.exec(ctx, `INSERT INTO exception (id, kind, condition, subject, reason, state, account, event, provider_event_id,
			payment, order_id, operation, message, urgency, amount_value, amount_currency, detail, opened_at, updated_at, closed_at, closing)
			VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (condition) DO UPDATE SET state = excluded.state,
			urgency = excluded.urgency, amount_value = excluded.amount_value, amount_currency = excluded.amount_currency,
			detail = excluded.detail, opened_at = excluded.opened_at, updated_at = excluded.updated_at,
			closed_at = excluded.closed_at, closing = excluded.closing`,
			e.ID, e.Kind, e.Condition, e.Subject, e.Reason, e.State, e.Account, e.Event, e.ProviderEventID, e.Payment, e.Order,
			e.Operation, e.Message, e.Urgency, e.Amount.Value, e.Amount.Currency, e.Detail, micro(e.OpenedAt), micro(e.UpdatedAt),
			micro(e.ClosedAt), e.Closing); err != nil {
			return fmt.Errorf("putting exception %s: %w", e.ID, err)
		}
	}
	return nil
}

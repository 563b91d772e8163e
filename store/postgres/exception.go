package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var exceptionColumns = columns[store.Exception]{
	text("id", func(e *store.Exception) string { return e.ID }),
	text("kind", func(e *store.Exception) string { return e.Kind }),
	text("condition", func(e *store.Exception) string { return e.Condition }),
	text("subject", func(e *store.Exception) string { return e.Subject }),
	text("reason", func(e *store.Exception) string { return e.Reason }),
	text("state", func(e *store.Exception) string { return e.State }),
	text("account", func(e *store.Exception) string { return e.Account }),
	text("event", func(e *store.Exception) string { return e.Event }),
	text("provider_event_id", func(e *store.Exception) string { return e.ProviderEventID }),
	text("payment", func(e *store.Exception) string { return e.Payment }),
	text("order_id", func(e *store.Exception) string { return e.Order }),
	text("operation", func(e *store.Exception) string { return e.Operation }),
	text("message", func(e *store.Exception) string { return e.Message }),
	text("urgency", func(e *store.Exception) string { return e.Urgency }),
	whole("amount_value", func(e *store.Exception) int64 { return e.Amount.Value }),
	text("amount_currency", func(e *store.Exception) string { return e.Amount.Currency }),
	octets("detail", func(e *store.Exception) []byte { return e.Detail }),
	instant("opened_at", func(e *store.Exception) time.Time { return e.OpenedAt }),
	instant("updated_at", func(e *store.Exception) time.Time { return e.UpdatedAt }),
	instant("closed_at", func(e *store.Exception) time.Time { return e.ClosedAt }),
	text("closing", func(e *store.Exception) string { return e.Closing }),
}

// upsertExceptions keeps what an exception is about and who it is.
var upsertExceptions = exceptionColumns.insert("exception", "ON CONFLICT (condition) DO UPDATE SET "+
	exceptionColumns.assign("excluded", "id", "kind", "condition", "subject", "reason", "account", "event", "provider_event_id",
		"payment", "order_id", "operation", "message"))

func queueExceptions(b *pgx.Batch, exceptions []store.Exception) {
	if len(exceptions) == 0 {
		return
	}
	// Of two with one condition in a call the first is inserted, the second
	// updates it.
	first := make(map[string]string, len(exceptions))
	for i := range exceptions {
		if _, ok := first[exceptions[i].Condition]; !ok {
			first[exceptions[i].Condition] = exceptions[i].ID
		}
	}
	exceptions = distinct(exceptions, func(e *store.Exception) string { return e.Condition })
	for i := range exceptions {
		exceptions[i].ID = first[exceptions[i].Condition]
	}
	b.Queue(upsertExceptions, exceptionColumns.args(exceptions)...)
}

// PutExceptions implements store.ExceptionWriter.
func (t *tx) PutExceptions(ctx context.Context, exceptions []store.Exception) error {
	b := &pgx.Batch{}
	queueExceptions(b, exceptions)
	return t.send(ctx, "putting exceptions", b)
}

var exceptionSelect = `SELECT ` + exceptionColumns.names() + ` FROM exception`

func scanException(r pgx.CollectableRow) (e store.Exception, err error) {
	var opened, updated, closed int64
	err = r.Scan(&e.ID, &e.Kind, &e.Condition, &e.Subject, &e.Reason, &e.State, &e.Account, &e.Event, &e.ProviderEventID, &e.Payment,
		&e.Order, &e.Operation, &e.Message, &e.Urgency, &e.Amount.Value, &e.Amount.Currency, &e.Detail, &opened, &updated, &closed, &e.Closing)
	e.OpenedAt, e.UpdatedAt, e.ClosedAt, e.Detail = moment(opened), moment(updated), moment(closed), some(e.Detail)
	return e, err
}

// Exception implements store.ExceptionReader.
func (t *tx) Exception(ctx context.Context, id string) (store.Exception, error) {
	return row(ctx, t, "reading exception "+id, scanException, exceptionSelect+` WHERE id = $1`, id)
}

var exceptionFilters = filters{
	"kind": "kind", "state": "state", "reason": "reason", "account": "account", "event": "event", "provider_event_id": "provider_event_id",
	"payment": "payment", "order": "order_id", "operation": "operation", "message": "message",
}

// Exceptions implements store.ExceptionReader.
func (t *tx) Exceptions(ctx context.Context, l store.List) ([]store.Exception, error) {
	page, args, err := exceptionFilters.page("id", l)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing exceptions", scanException, exceptionSelect+page, args...)
}

// ConditionsOf implements store.ExceptionReader.
func (t *tx) ConditionsOf(ctx context.Context, subjects []string) ([]store.Exception, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading exceptions of subjects", scanException, exceptionSelect+` WHERE subject = ANY($1::text[]) ORDER BY id`, subjects)
}

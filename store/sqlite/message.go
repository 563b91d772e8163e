package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

const messageSelect = `SELECT m.id, m.destination, m.type, m.account, m.payment, m.order_id, m.cause, m.lane, m.sequence, m.body, m.header,
	m.state, m.attempts, m.last_error, coalesce(w.not_before, m.next_at), m.created_at, m.delivered_at
	FROM message m LEFT JOIN work w ON w.queue = 'outbox:' || m.destination AND w.id = m.id`

func scanMessage(row scanner) (store.Message, error) {
	var m store.Message
	var next, created, delivered sql.NullInt64
	err := row.Scan(&m.ID, &m.Destination, &m.Type, &m.Account, &m.Payment, &m.Order, &m.Cause, &m.Lane, &m.Sequence, &m.Body,
		&m.Header, &m.State, &m.Attempts, &m.LastError, &next, &created, &delivered)
	m.NextAt, m.CreatedAt, m.DeliveredAt = instant(next), instant(created), instant(delivered)
	return m, err
}

// Message implements store.MessageReader.
func (t *tx) Message(ctx context.Context, id string) (store.Message, error) {
	return one(ctx, t, scanMessage, messageSelect+` WHERE m.id = ?`, id)
}

var messageFilters = map[string]string{
	"destination": "m.destination", "type": "m.type", "state": "m.state", "payment": "m.payment", "order": "m.order_id",
	"account": "m.account",
}

// Messages implements store.MessageReader.
func (t *tx) Messages(ctx context.Context, l store.List) ([]store.Message, error) {
	q := query{text: messageSelect, id: "m.id"}
	if state := store.MessageState(l.Where["state"]); state == store.MessageDead || state == store.MessageAmbiguous {
		q.and(`m.state IN ('dead', 'ambiguous')`) // those have an index
	}
	if err := q.filter(l, messageFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanMessage, q.text, q.args...)
}

// MessagesByID implements store.MessageReader.
func (t *tx) MessagesByID(ctx context.Context, ids []string) ([]store.Message, error) {
	var out []store.Message
	for _, id := range unique(ids) {
		rows, err := all(ctx, t, scanMessage, messageSelect+` WHERE m.id = ?`, id)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// Attempts implements store.MessageReader.
func (t *tx) Attempts(ctx context.Context, message string) ([]store.Attempt, error) {
	return all(ctx, t, func(row scanner) (store.Attempt, error) {
		var a store.Attempt
		var at sql.NullInt64
		var duration int64
		err := row.Scan(&a.ID, &a.Message, &a.Number, &at, &duration, &a.Status, &a.Verdict, &a.Error)
		a.At, a.Duration = instant(at), time.Duration(duration)
		return a, err
	}, `SELECT id, message, number, at, duration, status, verdict, error FROM attempt WHERE message = ? ORDER BY number, id`, message)
}

// RecordAttempts implements store.MessageWriter.
func (t *tx) RecordAttempts(ctx context.Context, attempts []store.Attempt, states map[string]store.MessageState) error {
	for _, a := range attempts {
		if _, err := t.exec(ctx, `INSERT INTO attempt (id, message, number, at, duration, status, verdict, error) VALUES (?,?,?,?,?,?,?,?)`,
			a.ID, a.Message, a.Number, micro(a.At), int64(a.Duration), a.Status, a.Verdict, a.Error); err != nil {
			return fmt.Errorf("recording an attempt at %s: %w", a.Message, err)
		}
		if _, err := t.exec(ctx, `UPDATE message SET attempts = max(attempts, ?), last_error = ? WHERE id = ?`,
			a.Number, a.Error, a.Message); err != nil {
			return fmt.Errorf("recording an attempt at %s: %w", a.Message, err)
		}
	}
	delivered := map[string]time.Time{}
	for _, a := range attempts {
		delivered[a.Message] = a.At
	}
	for id, state := range states {
		var at time.Time
		if state == store.MessageDelivered {
			if at = delivered[id]; at.IsZero() {
				at = t.now
			}
		}
		n, err := t.exec(ctx, `UPDATE message SET state = ?, delivered_at = coalesce(?, delivered_at) WHERE id = ?`, string(state), micro(at), id)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("setting the state of %s: %w", id, err)
		}
	}
	return nil
}

// InsertMessages implements store.MessageWriter.
func (t *tx) InsertMessages(ctx context.Context, messages []store.Message) error {
	for _, m := range messages {
		if _, err := t.exec(ctx, `INSERT INTO message (id, destination, type, account, payment, order_id, cause, lane, sequence, body,
			header, state, attempts, last_error, next_at, created_at, delivered_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			m.ID, m.Destination, m.Type, m.Account, m.Payment, m.Order, m.Cause, m.Lane, m.Sequence, notNil(m.Body), notNil(m.Header),
			string(m.State), m.Attempts, m.LastError, micro(m.NextAt), micro(m.CreatedAt), micro(m.DeliveredAt)); err != nil {
			return fmt.Errorf("inserting message %s: %w", m.ID, err)
		}
	}
	return nil
}

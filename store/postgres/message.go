package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var messageColumns = columns[store.Message]{
	text("id", func(m *store.Message) string { return m.ID }),
	text("destination", func(m *store.Message) string { return m.Destination }),
	text("type", func(m *store.Message) string { return m.Type }),
	text("account", func(m *store.Message) string { return m.Account }),
	text("payment", func(m *store.Message) string { return m.Payment }),
	text("order_id", func(m *store.Message) string { return m.Order }),
	text("cause", func(m *store.Message) string { return m.Cause }),
	text("lane", func(m *store.Message) string { return m.Lane }),
	whole("sequence", func(m *store.Message) int64 { return m.Sequence }),
	octets("body", func(m *store.Message) []byte { return m.Body }),
	octets("header", func(m *store.Message) []byte { return m.Header }),
	text("state", func(m *store.Message) string { return string(m.State) }),
	whole("attempts", func(m *store.Message) int64 { return int64(m.Attempts) }),
	text("last_error", func(m *store.Message) string { return m.LastError }),
	instant("created_at", func(m *store.Message) time.Time { return m.CreatedAt }),
	instant("delivered_at", func(m *store.Message) time.Time { return m.DeliveredAt }),
}

var insertMessages = messageColumns.insert("message", "")

func queueMessages(b *pgx.Batch, messages []store.Message) {
	if len(messages) > 0 {
		b.Queue(insertMessages, messageColumns.args(messages)...)
	}
}

// InsertMessages implements store.MessageWriter. ErrConflict if a destination
// is told of the cause already.
func (t *tx) InsertMessages(ctx context.Context, messages []store.Message) error {
	b := &pgx.Batch{}
	queueMessages(b, messages)
	return t.send(ctx, "inserting messages", b)
}

// messageSelect takes the next attempt from the queue, which decides on it.
const messageSelect = `SELECT m.id, m.destination, m.type, m.account, m.payment, m.order_id, m.cause, m.lane, m.sequence, m.body, m.header,
    m.state, m.attempts, m.last_error, COALESCE(w.not_before, 0), m.created_at, m.delivered_at
FROM message m LEFT JOIN work w ON w.queue = 'outbox:' || m.destination AND w.id = m.id`

func scanMessage(r pgx.CollectableRow) (m store.Message, err error) {
	var next, created, delivered int64
	err = r.Scan(&m.ID, &m.Destination, &m.Type, &m.Account, &m.Payment, &m.Order, &m.Cause, &m.Lane, &m.Sequence, &m.Body, &m.Header,
		&m.State, &m.Attempts, &m.LastError, &next, &created, &delivered)
	m.NextAt, m.CreatedAt, m.DeliveredAt = moment(next), moment(created), moment(delivered)
	m.Body, m.Header = some(m.Body), some(m.Header)
	return m, err
}

// Message implements store.MessageReader.
func (t *tx) Message(ctx context.Context, id string) (store.Message, error) {
	return row(ctx, t, "reading message "+id, scanMessage, messageSelect+` WHERE m.id = $1`, id)
}

var messageFilters = filters{
	"destination": "m.destination", "type": "m.type", "state": "m.state", "payment": "m.payment", "order": "m.order_id", "account": "m.account",
}

// Messages implements store.MessageReader.
func (t *tx) Messages(ctx context.Context, l store.List) ([]store.Message, error) {
	var conditions []string
	if l.Where["state"] == string(store.MessageDead) {
		conditions = append(conditions, "m.state = 'dead'")
	}
	page, args, err := messageFilters.page("m.id", l, conditions...)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing messages", scanMessage, messageSelect+page, args...)
}

// MessagesByID implements store.MessageReader.
func (t *tx) MessagesByID(ctx context.Context, ids []string) ([]store.Message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading messages", scanMessage, messageSelect+` WHERE m.id = ANY($1::text[])`, ids)
}

// Attempts implements store.MessageReader.
func (t *tx) Attempts(ctx context.Context, message string) ([]store.Attempt, error) {
	return rows(ctx, t, "reading the attempts of message "+message, func(r pgx.CollectableRow) (a store.Attempt, err error) {
		var at, duration int64
		err = r.Scan(&a.ID, &a.Message, &a.Number, &at, &duration, &a.Status, &a.Verdict, &a.Error)
		a.At, a.Duration = moment(at), time.Duration(duration)
		return a, err
	}, `SELECT id, message, number, at, duration, status, verdict, error FROM attempt WHERE message = $1 ORDER BY number, id`, message)
}

var attemptColumns = columns[store.Attempt]{
	text("id", func(a *store.Attempt) string { return a.ID }),
	text("message", func(a *store.Attempt) string { return a.Message }),
	whole("number", func(a *store.Attempt) int64 { return int64(a.Number) }),
	instant("at", func(a *store.Attempt) time.Time { return a.At }),
	whole("duration", func(a *store.Attempt) int64 { return int64(a.Duration) }),
	whole("status", func(a *store.Attempt) int64 { return int64(a.Status) }),
	text("verdict", func(a *store.Attempt) string { return a.Verdict }),
	text("error", func(a *store.Attempt) string { return a.Error }),
}

var insertAttempts = attemptColumns.insert("attempt", "")

// outcome is what a message becomes.
type outcome struct {
	id, state, lastError string
	number               int64
	tried                bool
	at                   time.Time
}

var outcomeColumns = columns[outcome]{
	text("id", func(o *outcome) string { return o.id }),
	text("state", func(o *outcome) string { return o.state }),
	text("last_error", func(o *outcome) string { return o.lastError }),
	whole("number", func(o *outcome) int64 { return o.number }),
	flag("tried", func(o *outcome) bool { return o.tried }),
	instant("at", func(o *outcome) time.Time { return o.at }),
}

const lockMessages = `SELECT FROM message WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE`

// updateMessages leaves the state alone where none was given. A message that
// is delivered without an attempt (by hand, say) is delivered now.
var updateMessages = `UPDATE message m SET state = COALESCE(NULLIF(u.state, ''), m.state), attempts = GREATEST(m.attempts, u.number),
    last_error = CASE WHEN u.tried THEN u.last_error ELSE m.last_error END,
    delivered_at = CASE WHEN u.state <> 'delivered' THEN m.delivered_at WHEN u.at <> 0 THEN u.at ELSE ` + nowSQL + ` END
FROM ` + outcomeColumns.rows(1) + ` WHERE m.id = u.id`

// RecordAttempts implements store.MessageWriter. ErrNotFound if a message does
// not exist, ErrConflict if an attempt is recorded already.
func (t *tx) RecordAttempts(ctx context.Context, attempts []store.Attempt, states map[string]store.MessageState) error {
	outcomes := map[string]outcome{}
	for id, state := range states {
		outcomes[id] = outcome{id: id, state: string(state)}
	}
	for _, a := range attempts {
		o := outcomes[a.Message]
		o.id, o.tried, o.lastError, o.at, o.number = a.Message, true, a.Error, a.At, max(o.number, int64(a.Number))
		outcomes[a.Message] = o
	}
	if len(outcomes) == 0 {
		return nil
	}
	ids := sortedKeys(outcomes)
	list := make([]outcome, len(ids))
	for i, id := range ids {
		list[i] = outcomes[id]
	}
	b := &pgx.Batch{}
	b.Queue(lockMessages, ids)
	if len(attempts) > 0 {
		b.Queue(insertAttempts, attemptColumns.args(attempts)...)
	}
	b.Queue(updateMessages, outcomeColumns.args(list)...).Exec(all("messages", len(list)))
	return t.send(ctx, "recording attempts", b)
}

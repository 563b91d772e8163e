package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pierrec/lz4/v4"

	"github.com/unavez/unavez/store"
)

// limitMax is the largest page, with the row that shows that there are more.
const limitMax = 101

const (
	codecPlain = 0
	codecLZ4   = 1
	// compressFrom is the size from which bodies are compressed, in bytes.
	compressFrom = 512
	// bodyBytesMax bounds what a compressed body may inflate to.
	bodyBytesMax = 1 << 30
)

const entryColumns = `i.id, i.account, i.mode, i.connected, i.identity, i.provider_event_id, i.type, i.source, i.received_at,
	i.occurred_at, i.body_digest, i.fact_digest, i.variant_of, i.trace, i.malformed`

func scanEntry(e *store.Entry, more ...any) (dest []any, finish func()) {
	received, occurred := new(sql.NullInt64), new(sql.NullInt64)
	dest = append([]any{
		&e.ID, &e.Scope.Account, &e.Scope.Mode, &e.Scope.Connected, &e.Identity, &e.ProviderEventID, &e.Type, &e.Source,
		received, occurred, &e.BodyDigest, &e.FactDigest, &e.VariantOf, &e.Trace, &e.Malformed,
	}, more...)
	return dest, func() { e.ReceivedAt, e.OccurredAt = instant(*received), instant(*occurred) }
}

// entryState derives the state of an entry; ? is now.
const entryState = `CASE WHEN r.id IS NOT NULL THEN r.state WHEN w.waiting = 1 THEN 'waiting'
	WHEN w.token <> '' AND ` + entryHeld + `
	THEN 'processing' ELSE 'received' END`

const entryFrom = ` FROM inbox i LEFT JOIN inbox_result r ON r.id = i.id LEFT JOIN inbox_delivery d ON d.id = i.id
	LEFT JOIN work w ON w.queue = 'inbox' AND w.id = i.id`

const entrySelect = `SELECT ` + entryColumns + `, ` + entryState + `, coalesce(r.outcome, ''), coalesce(r.payment, ''),
	coalesce(r.order_id, ''), coalesce(r.reason, ''), coalesce(r.error, ''), coalesce(r.stack, ''), coalesce(r.attempts, 0), r.at,
	r.id IS NOT NULL, coalesce(d.deliveries, 0), d.last_at, coalesce(w.attempts, 0), w.not_before, coalesce(w.last_error, '')` + entryFrom

func scanStatus(row scanner) (store.EntryStatus, error) {
	var s store.EntryStatus
	var at, last, next sql.NullInt64
	var finished bool
	r := &s.Result
	dest, finish := scanEntry(&s.Entry, &s.State, &r.Outcome, &r.Payment, &r.Order, &r.Reason, &r.Error, &r.Stack, &r.Attempts,
		&at, &finished, &s.Deliveries, &last, &s.WorkAttempts, &next, &s.LastError)
	if err := row.Scan(dest...); err != nil {
		return s, err
	}
	finish()
	if finished {
		r.EntryID, r.State, r.At = s.Entry.ID, s.State, instant(at)
	}
	s.LastDeliveredAt, s.NextAt = instant(last), instant(next)
	return s, nil
}

// Entry implements store.EntryReader.
func (t *tx) Entry(ctx context.Context, id string) (store.EntryStatus, error) {
	return one(ctx, t, scanStatus, entrySelect+` WHERE i.id = ?`, t.now.UnixMicro(), id)
}

// EntryByIdentity implements store.EntryReader.
func (t *tx) EntryByIdentity(ctx context.Context, s store.Scope, identity string) (store.EntryStatus, error) {
	return one(ctx, t, scanStatus, entrySelect+` WHERE i.account = ? AND i.mode = ? AND i.identity = ?`,
		t.now.UnixMicro(), s.Account, s.Mode, identity)
}

func scanBody(row scanner) (store.Body, error) {
	var b store.Body
	var codec, size int
	if err := row.Scan(&codec, &size, &b.Bytes, &b.Header); err != nil {
		return b, err
	}
	return b, unpack(&b, codec, size)
}

func unpack(b *store.Body, codec, size int) error {
	if codec == codecPlain {
		return nil
	}
	if size < 0 || size > bodyBytesMax {
		return fmt.Errorf("sqlite: a body claims %d bytes", size)
	}
	plain := make([]byte, size)
	n, err := lz4.UncompressBlock(b.Bytes, plain)
	if err != nil || n != size {
		return fmt.Errorf("sqlite: a body does not inflate to its %d bytes: %w", size, err)
	}
	b.Bytes = plain
	return nil
}

func pack(raw []byte) (codec int, packed []byte) {
	if len(raw) < compressFrom {
		return codecPlain, notNil(raw)
	}
	out := make([]byte, lz4.CompressBlockBound(len(raw)))
	n, err := lz4.CompressBlock(raw, out, nil)
	if err != nil || n == 0 || n >= len(raw) {
		return codecPlain, raw
	}
	return codecLZ4, out[:n]
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Body implements store.EntryReader.
func (t *tx) Body(ctx context.Context, id string) (store.Body, error) {
	return one(ctx, t, scanBody, `SELECT codec, size, bytes, header FROM inbox_body WHERE id = ?`, id)
}

func scanWithBody(row scanner) (store.EntryWithBody, error) {
	var e store.EntryWithBody
	var codec, size int
	dest, finish := scanEntry(&e.Entry, &codec, &size, &e.Body.Bytes, &e.Body.Header)
	if err := row.Scan(dest...); err != nil {
		return e, err
	}
	finish()
	return e, unpack(&e.Body, codec, size)
}

// Bodies implements store.EntryReader.
func (t *tx) Bodies(ctx context.Context, ids []string) ([]store.EntryWithBody, error) {
	out := make([]store.EntryWithBody, 0, len(ids))
	for _, id := range unique(ids) {
		e, err := one(ctx, t, scanWithBody, `SELECT `+entryColumns+`, b.codec, b.size, b.bytes, b.header
			FROM inbox i JOIN inbox_body b ON b.id = i.id WHERE i.id = ?`, id)
		switch {
		case err == nil:
			out = append(out, e)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	return out, nil
}

func unique(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

var entryFilters = map[string]string{
	"account": "i.account", "mode": "i.mode", "type": "i.type", "outcome": "r.outcome", "payment": "r.payment",
	"order": "r.order_id", "provider_event_id": "i.provider_event_id", "source": "i.source", "variant_of": "i.variant_of",
	"connected_account": "i.connected",
	"state":             "",
}

// resultID is the same id as the entry's. A list that begins with the results
// is in the order of their index.
const resultID = "r.id"

// Entries implements store.EntryReader.
func (t *tx) Entries(ctx context.Context, l store.List) ([]store.EntryStatus, error) {
	now := t.now.UnixMicro()
	q := query{text: entrySelect, args: []any{now}, id: "i.id"}
	if state, ok := l.Where["state"]; ok {
		q.inState(state, now)
	}
	for _, column := range []string{"payment", "order", "outcome"} {
		if l.Where[column] != "" {
			q.id = resultID
		}
	}
	if err := q.filter(l, entryFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanStatus, q.text, q.args...)
}

const entryHeld = `EXISTS (SELECT 1 FROM lane l WHERE l.queue = w.queue AND l.lane = w.lane AND l.token = w.token AND l.until > ?)`

// inState says what entryState does for one state, in a way that lets SQLite
// begin with the few rows of that state where an index knows them.
func (q *query) inState(state string, now int64) {
	switch state {
	case store.EntryDead:
		q.id = resultID
		q.and(`r.state = 'dead'`)
	case store.EntryProcessed:
		q.and(`r.state = 'processed'`)
	case store.EntryWaiting:
		q.and(`w.waiting = 1 AND r.id IS NULL`)
	case store.EntryProcessing:
		q.and(`w.token <> '' AND w.waiting = 0 AND r.id IS NULL AND `+entryHeld, now)
	case store.EntryReceived:
		q.and(`r.id IS NULL AND coalesce(w.waiting, 0) = 0 AND NOT `+entryHeld, now)
	default:
		q.and(`0`)
	}
}

// query builds a list's statement.
type query struct {
	text  string
	args  []any
	id    string
	where bool
}

func (q *query) and(condition string, args ...any) {
	word := " AND "
	if !q.where {
		word, q.where = " WHERE ", true
	}
	q.text += word + condition
	q.args = append(q.args, args...)
}

// filter adds the conditions of a list; a column that is not in allowed is
// store.ErrFilter. An empty column is one that the caller has dealt with.
func (q *query) filter(l store.List, allowed map[string]string) error {
	var keys []string
	for k := range l.Where {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		column, ok := allowed[k]
		if !ok {
			return fmt.Errorf("sqlite: column %q: %w", k, store.ErrFilter)
		}
		if column == "" {
			continue
		}
		v, ok := value(column, l.Where[k])
		if !ok {
			return fmt.Errorf("sqlite: column %q cannot be %q: %w", k, l.Where[k], store.ErrFilter)
		}
		q.and(column+" = ?", v)
		if text, isText := v.(string); isText && text != "" {
			// SQLite takes a partial index only where this is said.
			q.and(column + " <> ''")
		}
	}
	if l.After != "" {
		q.and(q.id+" < ?", l.After)
	}
	q.text += " ORDER BY " + q.id + " DESC LIMIT ?"
	q.args = append(q.args, min(max(l.Limit, 1), limitMax))
	return nil
}

// value reads a filter for its column; false says that the column cannot hold it.
func value(column, v string) (any, bool) {
	if !strings.HasSuffix(column, ".adopted") {
		return v, true
	}
	return v == "true", v == "true" || v == "false"
}

const insertEntry = `INSERT INTO inbox (id, account, mode, connected, identity, provider_event_id, type, source, received_at,
	occurred_at, body_digest, fact_digest, variant_of, trace, malformed) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
	ON CONFLICT (account, mode, identity) DO NOTHING`

// InsertEntries implements store.EntryWriter.
func (t *tx) InsertEntries(ctx context.Context, entries []store.EntryWithBody) ([]store.Inserted, error) {
	out := make([]store.Inserted, 0, len(entries))
	for _, e := range entries {
		n, err := t.exec(ctx, insertEntry, e.ID, e.Scope.Account, e.Scope.Mode, e.Scope.Connected, e.Identity,
			e.ProviderEventID, e.Type, string(e.Source), e.ReceivedAt.UnixMicro(), micro(e.OccurredAt), notNil(e.BodyDigest),
			notNil(e.FactDigest), e.VariantOf, e.Trace, e.Malformed)
		if err != nil {
			return nil, fmt.Errorf("inserting entry %s: %w", e.ID, err)
		}
		if n == 0 {
			first, err := t.first(ctx, e)
			if err != nil {
				return nil, err
			}
			out = append(out, first)
			continue
		}
		codec, packed := pack(e.Bytes)
		if _, err := t.exec(ctx, `INSERT INTO inbox_body (id, codec, size, bytes, header) VALUES (?,?,?,?,?)`,
			e.ID, codec, len(e.Bytes), packed, notNil(e.Header)); err != nil {
			return nil, fmt.Errorf("inserting the body of %s: %w", e.ID, err)
		}
		out = append(out, store.Inserted{New: true, ID: e.ID, BodyDigest: e.BodyDigest, FactDigest: e.FactDigest})
	}
	return out, nil
}

func (t *tx) first(ctx context.Context, e store.EntryWithBody) (store.Inserted, error) {
	return one(ctx, t, func(row scanner) (store.Inserted, error) {
		var in store.Inserted
		return in, row.Scan(&in.ID, &in.BodyDigest, &in.FactDigest)
	}, `SELECT id, body_digest, fact_digest FROM inbox WHERE account = ? AND mode = ? AND identity = ?`,
		e.Scope.Account, e.Scope.Mode, e.Identity)
}

// CountDeliveries implements store.EntryWriter.
func (t *tx) CountDeliveries(ctx context.Context, counts map[string]int, at time.Time) error {
	for id, n := range counts {
		if _, err := t.exec(ctx, `INSERT INTO inbox_delivery (id, deliveries, last_at) VALUES (?,?,?)
			ON CONFLICT (id) DO UPDATE SET deliveries = deliveries + excluded.deliveries, last_at = max(last_at, excluded.last_at)`,
			id, n, at.UnixMicro()); err != nil {
			return fmt.Errorf("counting deliveries of %s: %w", id, err)
		}
	}
	return nil
}

// Finish implements store.EntryWriter.
func (t *tx) Finish(ctx context.Context, results []store.Result) error {
	for _, r := range results {
		if _, err := t.exec(ctx, `INSERT INTO inbox_result (id, state, outcome, payment, order_id, reason, error, stack, attempts, at)
			VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET state = excluded.state, outcome = excluded.outcome,
			payment = excluded.payment, order_id = excluded.order_id, reason = excluded.reason, error = excluded.error,
			stack = excluded.stack, attempts = excluded.attempts, at = excluded.at`,
			r.EntryID, r.State, r.Outcome, r.Payment, r.Order, r.Reason, r.Error, r.Stack, r.Attempts, micro(r.At)); err != nil {
			return fmt.Errorf("finishing entry %s: %w", r.EntryID, err)
		}
	}
	return nil
}

// Reopen implements store.EntryWriter.
func (t *tx) Reopen(ctx context.Context, id string) error {
	n, err := t.exec(ctx, `DELETE FROM inbox_result WHERE id = ? AND state = 'dead'`, id)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

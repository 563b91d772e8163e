package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var entryColumns = columns[store.EntryWithBody]{
	text("id", func(e *store.EntryWithBody) string { return e.ID }),
	text("account", func(e *store.EntryWithBody) string { return e.Scope.Account }),
	text("mode", func(e *store.EntryWithBody) string { return e.Scope.Mode }),
	text("connected", func(e *store.EntryWithBody) string { return e.Scope.Connected }),
	text("identity", func(e *store.EntryWithBody) string { return e.Identity }),
	text("provider_event_id", func(e *store.EntryWithBody) string { return e.ProviderEventID }),
	text("type", func(e *store.EntryWithBody) string { return e.Type }),
	text("source", func(e *store.EntryWithBody) string { return string(e.Source) }),
	instant("received_at", func(e *store.EntryWithBody) time.Time { return e.ReceivedAt }),
	instant("occurred_at", func(e *store.EntryWithBody) time.Time { return e.OccurredAt }),
	octets("body_digest", func(e *store.EntryWithBody) []byte { return e.BodyDigest }),
	octets("fact_digest", func(e *store.EntryWithBody) []byte { return e.FactDigest }),
	text("variant_of", func(e *store.EntryWithBody) string { return e.VariantOf }),
	text("trace", func(e *store.EntryWithBody) string { return e.Trace }),
	flag("malformed", func(e *store.EntryWithBody) bool { return e.Malformed }),
}

// bodyColumns follow entryColumns in the arguments of insertEntries.
var bodyColumns = columns[store.EntryWithBody]{
	text("entry", func(e *store.EntryWithBody) string { return e.ID }),
	octets("body", func(e *store.EntryWithBody) []byte { return e.Bytes }),
	octets("header", func(e *store.EntryWithBody) []byte { return e.Header }),
}

var insertEntries = `WITH fresh AS (` + entryColumns.insert("inbox", "ON CONFLICT DO NOTHING RETURNING id") + `)
INSERT INTO inbox_body (` + bodyColumns.names() + `)
SELECT u.* FROM ` + bodyColumns.rows(len(entryColumns)+1) + ` WHERE u.entry IN (SELECT id FROM fresh)
RETURNING entry`

const firstEntries = `SELECT u.account, u.mode, u.identity, f.id, f.body_digest, f.fact_digest
FROM unnest($1::text[], $2::text[], $3::text[]) AS u (account, mode, identity)
CROSS JOIN LATERAL (SELECT i.id, i.body_digest, i.fact_digest FROM inbox i
    WHERE i.account = u.account AND i.mode = u.mode AND i.identity = u.identity LIMIT 1) f`

// identity is what makes an entry unique.
type identity struct{ account, mode, identity string }

func identityOf(e *store.EntryWithBody) identity {
	return identity{e.Scope.Account, e.Scope.Mode, e.Identity}
}

// InsertEntries implements store.EntryWriter. The constraint decides who was
// first; a statement cannot see the row that it lost against, so that a new one
// reads it.
func (t *tx) InsertEntries(ctx context.Context, entries []store.EntryWithBody) ([]store.Inserted, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	const what = "inserting entries"
	distinct := slices.Clone(entries)
	slices.SortStableFunc(distinct, func(a, b store.EntryWithBody) int {
		return cmp.Or(strings.Compare(a.Scope.Account, b.Scope.Account), strings.Compare(a.Scope.Mode, b.Scope.Mode),
			strings.Compare(a.Identity, b.Identity))
	})
	distinct = slices.CompactFunc(distinct, func(a, b store.EntryWithBody) bool { return identityOf(&a) == identityOf(&b) })
	args := append(entryColumns.args(distinct), bodyColumns.args(distinct)...)
	ids, err := rows(ctx, t, what, pgx.RowTo[string], insertEntries, args...)
	if err != nil {
		return nil, err
	}
	fresh := make(map[string]bool, len(ids))
	for _, id := range ids {
		fresh[id] = true
	}
	first := map[identity]store.Inserted{}
	for i := range distinct {
		if e := &distinct[i]; fresh[e.ID] {
			first[identityOf(e)] = store.Inserted{ID: e.ID, BodyDigest: e.BodyDigest, FactDigest: e.FactDigest}
		}
	}
	if len(first) < len(distinct) {
		if err := t.findFirst(ctx, distinct, first); err != nil {
			return nil, err
		}
	}
	return t.inserted(entries, fresh, first)
}

// findFirst reads who was there before.
func (t *tx) findFirst(ctx context.Context, entries []store.EntryWithBody, first map[identity]store.Inserted) error {
	var accounts, modes, identities []string
	for i := range entries {
		k := identityOf(&entries[i])
		if _, ok := first[k]; !ok {
			accounts, modes, identities = append(accounts, k.account), append(modes, k.mode), append(identities, k.identity)
		}
	}
	type earlier struct {
		key identity
		store.Inserted
	}
	found, err := rows(ctx, t, "reading earlier entries", func(r pgx.CollectableRow) (e earlier, err error) {
		err = r.Scan(&e.key.account, &e.key.mode, &e.key.identity, &e.ID, &e.BodyDigest, &e.FactDigest)
		return e, err
	}, firstEntries, accounts, modes, identities)
	for _, e := range found {
		first[e.key] = e.Inserted
	}
	return err
}

func (t *tx) inserted(entries []store.EntryWithBody, fresh map[string]bool, first map[identity]store.Inserted) ([]store.Inserted, error) {
	list := make([]store.Inserted, len(entries))
	told := make(map[identity]bool, len(entries))
	for i := range entries {
		k := identityOf(&entries[i])
		got, ok := first[k]
		if !ok {
			// Only an id that another identity has can keep an entry out.
			return nil, t.fail("inserting entry "+entries[i].ID, store.ErrConflict)
		}
		got.New = fresh[got.ID] && !told[k]
		told[k] = true
		list[i] = got
	}
	return list, nil
}

// CountDeliveries implements store.EntryWriter. The counted rows stay locked.
func (t *tx) CountDeliveries(ctx context.Context, counts map[string]int, at time.Time) error {
	if len(counts) == 0 {
		return nil
	}
	ids := sortedKeys(counts)
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = int64(counts[id])
	}
	_, err := t.exec(ctx, "counting deliveries", `INSERT INTO inbox_delivery (entry, deliveries, at)
SELECT u.entry, u.deliveries, $3::bigint FROM unnest($1::text[], $2::bigint[]) AS u (entry, deliveries)
ON CONFLICT (entry) DO UPDATE SET deliveries = inbox_delivery.deliveries + excluded.deliveries,
    at = GREATEST(inbox_delivery.at, excluded.at)`, ids, numbers, micros(at))
	return err
}

var resultColumns = columns[store.Result]{
	text("entry", func(r *store.Result) string { return r.EntryID }),
	text("state", func(r *store.Result) string { return r.State }),
	text("outcome", func(r *store.Result) string { return r.Outcome }),
	text("payment", func(r *store.Result) string { return r.Payment }),
	text("order_id", func(r *store.Result) string { return r.Order }),
	text("reason", func(r *store.Result) string { return r.Reason }),
	text("error", func(r *store.Result) string { return r.Error }),
	text("stack", func(r *store.Result) string { return r.Stack }),
	whole("attempts", func(r *store.Result) int64 { return int64(r.Attempts) }),
	instant("at", func(r *store.Result) time.Time { return r.At }),
}

var upsertResults = resultColumns.insert("inbox_result", "ON CONFLICT (entry) DO UPDATE SET "+resultColumns.assign("excluded", "entry"))

// Finish implements store.EntryWriter.
func (t *tx) Finish(ctx context.Context, results []store.Result) error {
	b := &pgx.Batch{}
	queueResults(b, results)
	return t.send(ctx, "finishing entries", b)
}

func queueResults(b *pgx.Batch, results []store.Result) {
	if len(results) > 0 {
		results = distinct(results, func(r *store.Result) string { return r.EntryID })
		b.Queue(upsertResults, resultColumns.args(results)...)
	}
}

// Reopen implements store.EntryWriter. ErrNotFound if the entry is not dead.
func (t *tx) Reopen(ctx context.Context, id string) error {
	n, err := t.exec(ctx, "reopening entry "+id, `DELETE FROM inbox_result WHERE entry = $1 AND state = 'dead'`, id)
	if err == nil && n == 0 {
		return missing("dead entry", id)
	}
	return err
}

const statusColumns = `SELECT i.id, i.account, i.mode, i.connected, i.identity, i.provider_event_id, i.type, i.source,
    i.received_at, i.occurred_at, i.body_digest, i.fact_digest, i.variant_of, i.trace, i.malformed,
    ` + statusState + `,
    COALESCE(r.entry, ''), COALESCE(r.state, ''), COALESCE(r.outcome, ''), COALESCE(r.payment, ''), COALESCE(r.order_id, ''),
    COALESCE(r.reason, ''), COALESCE(r.error, ''), COALESCE(r.stack, ''), COALESCE(r.attempts, 0), COALESCE(r.at, 0),
    COALESCE(d.deliveries, 0), COALESCE(d.at, 0),
    COALESCE(w.attempts, 0), COALESCE(w.not_before, 0), COALESCE(w.last_error, '')
FROM inbox i
LEFT JOIN inbox_result r ON r.entry = i.id
LEFT JOIN inbox_delivery d ON d.entry = i.id
LEFT JOIN work w ON w.queue = 'inbox' AND w.id = i.id
LEFT JOIN lane l ON l.queue = 'inbox' AND l.lane = w.lane`

const statusState = `CASE WHEN r.entry IS NOT NULL THEN r.state WHEN w.waiting THEN 'waiting'
    WHEN w.token = l.token AND l.until > ` + nowSQL + ` THEN 'processing' ELSE 'received' END`

func scanStatus(row pgx.CollectableRow) (e store.EntryStatus, err error) {
	var received, occurred, at, delivered, next int64
	err = row.Scan(&e.ID, &e.Scope.Account, &e.Scope.Mode, &e.Scope.Connected, &e.Identity, &e.ProviderEventID, &e.Type, &e.Source,
		&received, &occurred, &e.BodyDigest, &e.FactDigest, &e.VariantOf, &e.Trace, &e.Malformed, &e.State,
		&e.EntryID, &e.Result.State, &e.Outcome, &e.Payment, &e.Order, &e.Reason, &e.Error, &e.Stack, &e.Attempts, &at,
		&e.Deliveries, &delivered, &e.WorkAttempts, &next, &e.LastError)
	e.ReceivedAt, e.OccurredAt, e.At = moment(received), moment(occurred), moment(at)
	e.LastDeliveredAt, e.NextAt = moment(delivered), moment(next)
	e.BodyDigest, e.FactDigest = some(e.BodyDigest), some(e.FactDigest)
	return e, err
}

// Entry implements store.EntryReader.
func (t *tx) Entry(ctx context.Context, id string) (store.EntryStatus, error) {
	return row(ctx, t, "reading entry "+id, scanStatus, statusColumns+` WHERE i.id = $1`, id)
}

// EntryByIdentity implements store.EntryReader.
func (t *tx) EntryByIdentity(ctx context.Context, s store.Scope, identity string) (store.EntryStatus, error) {
	return row(ctx, t, "reading an entry by its identity", scanStatus,
		statusColumns+` WHERE i.account = $1 AND i.mode = $2 AND i.identity = $3`, s.Account, s.Mode, identity)
}

// Body implements store.EntryReader.
func (t *tx) Body(ctx context.Context, id string) (store.Body, error) {
	return row(ctx, t, "reading the body of entry "+id, func(r pgx.CollectableRow) (b store.Body, err error) {
		err = r.Scan(&b.Bytes, &b.Header)
		b.Bytes, b.Header = some(b.Bytes), some(b.Header)
		return b, err
	}, `SELECT body, header FROM inbox_body WHERE entry = $1`, id)
}

const bodiesSQL = `SELECT i.id, i.account, i.mode, i.connected, i.identity, i.provider_event_id, i.type, i.source,
    i.received_at, i.occurred_at, i.body_digest, i.fact_digest, i.variant_of, i.trace, i.malformed, b.body, b.header
FROM unnest($1::text[]) AS u (id)
CROSS JOIN LATERAL (SELECT * FROM inbox e WHERE e.id = u.id LIMIT 1) i
CROSS JOIN LATERAL (SELECT n.body, n.header FROM inbox_body n WHERE n.entry = u.id LIMIT 1) b`

// Bodies implements store.EntryReader.
func (t *tx) Bodies(ctx context.Context, ids []string) ([]store.EntryWithBody, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return rows(ctx, t, "reading bodies", func(r pgx.CollectableRow) (e store.EntryWithBody, err error) {
		var received, occurred int64
		err = r.Scan(&e.ID, &e.Scope.Account, &e.Scope.Mode, &e.Scope.Connected, &e.Identity, &e.ProviderEventID, &e.Type, &e.Source,
			&received, &occurred, &e.BodyDigest, &e.FactDigest, &e.VariantOf, &e.Trace, &e.Malformed, &e.Bytes, &e.Header)
		e.ReceivedAt, e.OccurredAt = moment(received), moment(occurred)
		e.BodyDigest, e.FactDigest, e.Bytes, e.Header = some(e.BodyDigest), some(e.FactDigest), some(e.Bytes), some(e.Header)
		return e, err
	}, bodiesSQL, slices.Compact(slices.Sorted(slices.Values(ids))))
}

var entryFilters = filters{
	"account": "i.account", "mode": "i.mode", "type": "i.type", "source": "i.source", "variant_of": "i.variant_of",
	"provider_event_id": "i.provider_event_id", "state": statusState,
	"outcome": "r.outcome", "payment": "r.payment", "order": "r.order_id",
}

// Entries implements store.EntryReader.
func (t *tx) Entries(ctx context.Context, l store.List) ([]store.EntryStatus, error) {
	var conditions []string
	if l.Where["state"] == store.EntryDead {
		conditions = append(conditions, "r.state = 'dead'")
	}
	page, args, err := entryFilters.page("i.id", l, conditions...)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing entries", scanStatus, statusColumns+page, args...)
}

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var waitingColumns = columns[store.Waiting]{
	text("account", func(w *store.Waiting) string { return w.Name.Account }),
	text("mode", func(w *store.Waiting) string { return w.Name.Mode }),
	text("connected", func(w *store.Waiting) string { return w.Name.Connected }),
	text("value", func(w *store.Waiting) string { return w.Name.Value }),
	text("entry", func(w *store.Waiting) string { return w.EntryID }),
}

var insertWaiting = waitingColumns.insert("waiting", "ON CONFLICT DO NOTHING")

// Wait implements store.WorkWriter.
func (t *tx) Wait(ctx context.Context, waits []store.Waiting) error {
	if len(waits) == 0 {
		return nil
	}
	_, err := t.exec(ctx, "filing what waits", insertWaiting, waitingColumns.args(waits)...)
	return err
}

// The statements of a wake-up. The names are locked by an earlier statement, so
// that whoever filed something under them has committed and is seen.
const (
	// lockWaiting locks the lanes of what waits, before its work is touched.
	lockWaiting = `SELECT FROM lane WHERE queue = 'inbox'
AND lane = ANY(ARRAY(SELECT w.lane FROM work w WHERE w.queue = 'inbox' AND w.id = ANY(ARRAY(` + entriesUnder + `))))
ORDER BY lane FOR UPDATE`

	entriesUnder = `SELECT f.entry FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u (account, mode, connected, value)
CROSS JOIN LATERAL (SELECT n.entry FROM waiting n
    WHERE n.account = u.account AND n.value = u.value AND n.mode = u.mode AND n.connected = u.connected OFFSET 0) f`

	wakeWork = `UPDATE work w SET not_before = LEAST(w.not_before, ` + nowSQL + `), waiting = false
WHERE w.queue = 'inbox' AND w.id = ANY(ARRAY(` + entriesUnder + `)) RETURNING w.id`

	// wakeLanes leaves leased lanes alone: their release looks at what is due.
	wakeLanes = `UPDATE lane SET next_at = LEAST(next_at, ` + nowSQL + `)
WHERE queue = 'inbox' AND (until IS NULL OR until <= ` + nowSQL + `)
AND lane = ANY(ARRAY(SELECT w.lane FROM work w WHERE w.queue = 'inbox' AND w.id = ANY(ARRAY(` + entriesUnder + `))))`
)

// WakeWaiting implements store.WorkWriter.
func (t *tx) WakeWaiting(ctx context.Context, names []store.ScopedName) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := nameColumns.args(names)
	b := &pgx.Batch{}
	b.Queue(lockWaiting, args...)
	var woken []string
	b.Queue(wakeWork, args...).Query(func(found pgx.Rows) (err error) {
		woken, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	b.Queue(wakeLanes, args...)
	if err := t.send(ctx, "waking what waits", b); err != nil {
		return nil, err
	}
	if len(woken) == 0 {
		return nil, nil
	}
	hints := &pgx.Batch{}
	t.wake(hints, store.QueueInbox)
	return woken, t.send(ctx, "hinting at what was woken", hints)
}

// Unwait implements store.WorkWriter.
func (t *tx) Unwait(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := t.exec(ctx, "unfiling what waited", `DELETE FROM waiting WHERE entry = ANY($1::text[])`, ids)
	return err
}

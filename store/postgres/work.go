package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/unavez/unavez/store"
)

// laneKey names a lane, or an item, of a queue.
type laneKey struct{ queue, name string }

// upsertLanes locks the lanes, which serializes the writers of one lane, and
// makes each due no later than asked. A leased lane is left alone: its release
// looks at what has come.
const upsertLanes = `INSERT INTO lane (queue, lane, next_at)
SELECT u.queue, u.lane, ` + nowSQL + ` + u.delay FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (queue, lane, delay)
ON CONFLICT (queue, lane) DO UPDATE SET next_at = CASE WHEN lane.until > ` + nowSQL + ` THEN lane.next_at
    ELSE LEAST(lane.next_at, excluded.next_at) END`

// upsertWork queues items in the order of the arrays.
const upsertWork = `INSERT INTO work (queue, id, lane, not_before, enqueued_at)
SELECT u.queue, u.id, u.lane, ` + nowSQL + ` + u.delay, ` + nowSQL + `
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u (queue, id, lane, delay)
ON CONFLICT (queue, id) DO UPDATE SET not_before = LEAST(work.not_before, excluded.not_before), waiting = false
RETURNING queue, lane, id`

var laneColumns = columns[store.Work]{
	text("queue", func(w *store.Work) string { return w.Queue }),
	text("lane", func(w *store.Work) string { return w.Lane }),
	whole("delay", func(w *store.Work) int64 { return w.Delay.Microseconds() }),
}

var workColumns = columns[store.Work]{
	text("queue", func(w *store.Work) string { return w.Queue }),
	text("id", func(w *store.Work) string { return w.ID }),
	text("lane", func(w *store.Work) string { return w.Lane }),
	whole("delay", func(w *store.Work) int64 { return w.Delay.Microseconds() }),
}

// queueWork adds the statements that enqueue items, lanes first.
func (t *tx) queueWork(b *pgx.Batch, items []store.Work) {
	if len(items) == 0 {
		return
	}
	items = earliest(items, func(w store.Work) laneKey { return laneKey{w.Queue, w.ID} })
	lanes := earliest(items, func(w store.Work) laneKey { return laneKey{w.Queue, w.Lane} })
	slices.SortFunc(lanes, func(a, b store.Work) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Lane, b.Lane))
	})
	b.Queue(upsertLanes, laneColumns.args(lanes)...)
	b.Queue(upsertWork, workColumns.args(items)...).Query(func(found pgx.Rows) error { return checkLanes(found, items) })
	for _, lane := range lanes {
		t.wake(b, lane.Queue)
	}
}

// earliest keeps one item of each key, due at the earliest asked time, in order.
func earliest(items []store.Work, key func(store.Work) laneKey) []store.Work {
	place := make(map[laneKey]int, len(items))
	kept := make([]store.Work, 0, len(items))
	for _, it := range items {
		k := key(it)
		if at, ok := place[k]; ok {
			kept[at].Delay = min(kept[at].Delay, it.Delay)
			continue
		}
		place[k] = len(kept)
		kept = append(kept, it)
	}
	return kept
}

// checkLanes refuses an item that is queued in another lane already: two lanes
// could then be worked at once.
func checkLanes(found pgx.Rows, items []store.Work) error {
	asked := make(map[laneKey]string, len(items))
	for _, it := range items {
		asked[laneKey{it.Queue, it.ID}] = it.Lane
	}
	var queue, lane, id string
	_, err := pgx.ForEachRow(found, []any{&queue, &lane, &id}, func() error {
		if want := asked[laneKey{queue, id}]; want != lane {
			return fmt.Errorf("%s of queue %s is in another lane already: %w", id, queue, store.ErrConflict)
		}
		return nil
	})
	return err
}

// wake remembers to hint at work after the commit. In a caller's transaction
// there is no telling when that is, so the server sends the hint.
func (t *tx) wake(b *pgx.Batch, queue string) {
	if t.store != nil {
		t.woken[queue] = true
		return
	}
	if t.woken == nil {
		t.woken = map[string]bool{}
	}
	if !t.woken[queue] {
		t.woken[queue] = true
		b.Queue(`SELECT pg_notify($1, $2)`, channel, queue)
	}
}

// Enqueue implements store.WorkWriter. ErrConflict if an item is queued in
// another lane already.
func (t *tx) Enqueue(ctx context.Context, items []store.Work) error {
	b := &pgx.Batch{}
	t.queueWork(b, items)
	return t.send(ctx, "enqueueing", b)
}

// planned begins a batch of statements that look through the queues: they are
// planned anew, as those of a claim are. A caller's transaction is left as it is.
func (t *tx) planned() *pgx.Batch {
	b := &pgx.Batch{}
	if t.store != nil && !t.fresh {
		t.fresh = true
		b.Queue(`SELECT set_config('plan_cache_mode', '` + freshPlans + `', true)`)
	}
	return b
}

// lockHeld locks, in the order of all lockers, the lanes that hold the items
// under the token, so that they can neither be claimed nor added to.
const lockHeld = `SELECT FROM lane WHERE queue = $1 AND token = $2
AND lane = ANY(ARRAY(SELECT w.lane FROM work w WHERE w.queue = $1 AND w.id = ANY($3::text[])))
ORDER BY lane FOR UPDATE`

// held says that the item w is held under the token.
const held = ` w.token = $2 AND EXISTS (SELECT FROM lane l WHERE l.queue = w.queue AND l.lane = w.lane AND l.token = $2)`

// change runs a statement on items that must all be held under the token.
func (t *tx) change(ctx context.Context, what, queue, token string, ids []string, sql string, more ...any) error {
	if len(ids) == 0 {
		return nil
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	b := t.planned()
	b.Queue(lockHeld, queue, token, ids)
	var n int64
	b.Queue(sql, append([]any{queue, token, ids}, more...)...).Exec(func(tag pgconn.CommandTag) error {
		n = tag.RowsAffected()
		return nil
	})
	if err := t.send(ctx, what, b); err != nil {
		return err
	}
	if n != int64(len(ids)) {
		return t.lost(what)
	}
	return nil
}

// CountAttempt implements store.WorkWriter. ErrLeaseLost if one is no longer
// held under the token.
func (t *tx) CountAttempt(ctx context.Context, queue, token string, ids []string) error {
	return t.change(ctx, "counting attempts", queue, token, ids,
		`UPDATE work w SET attempts = w.attempts + 1 WHERE w.queue = $1 AND w.id = ANY($3::text[]) AND`+held)
}

// Complete implements store.WorkWriter.
func (t *tx) Complete(ctx context.Context, queue, token string, ids []string) error {
	return t.change(ctx, "completing work", queue, token, ids,
		`DELETE FROM work w WHERE w.queue = $1 AND w.id = ANY($3::text[]) AND`+held)
}

const keepAttempts = -1

var postponedColumns = columns[store.Postponed]{
	text("id", func(p *store.Postponed) string { return p.ID }),
	whole("delay", func(p *store.Postponed) int64 { return p.Delay.Microseconds() }),
	text("error", func(p *store.Postponed) string { return p.Error }),
	flag("waiting", func(p *store.Postponed) bool { return p.Waiting }),
	whole("attempts", func(p *store.Postponed) int64 {
		if p.Attempts == nil {
			return keepAttempts
		}
		return int64(*p.Attempts)
	}),
}

// An empty error keeps the last one, which is still the last failure.
var postponeWork = `UPDATE work w SET token = NULL, suspect = false, not_before = ` + nowSQL + ` + u.delay, waiting = u.waiting,
    last_error = CASE WHEN u.error = '' THEN w.last_error ELSE u.error END,
    attempts = CASE WHEN u.attempts < 0 THEN w.attempts ELSE u.attempts END
FROM ` + postponedColumns.rows(4) + `
WHERE w.queue = $1 AND w.id = u.id AND w.id = ANY($3::text[]) AND` + held

// Postpone implements store.WorkWriter.
func (t *tx) Postpone(ctx context.Context, queue, token string, items []store.Postponed) error {
	items = distinct(items, func(p *store.Postponed) string { return p.ID })
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	return t.change(ctx, "postponing work", queue, token, ids, postponeWork, postponedColumns.args(items)...)
}

// lockLease locks the lanes that the token still leases.
const lockLease = `SELECT FROM lane WHERE queue = $1 AND token = $2 ORDER BY lane FOR UPDATE`

// dropEmpty and freeLanes end leases; they run after the lock, as statements of
// their own, because a snapshot from before it would miss the rows of a writer
// that held the lane meanwhile. A lane with something due need not look at
// everything that it has.
const (
	dropEmpty = `DELETE FROM lane l WHERE l.queue = $1 AND l.token = $2
AND NOT EXISTS (SELECT FROM work w WHERE w.queue = l.queue AND w.lane = l.lane)`
	freeLanes = `UPDATE lane l SET token = NULL, until = NULL, lapsed = NULL, lanes = 0, next_at = COALESCE(
    (SELECT w.not_before FROM work w WHERE w.queue = l.queue AND w.lane = l.lane AND w.not_before <= ` + nowSQL + ` ORDER BY w.number LIMIT 1),
    (SELECT min(w.not_before) FROM work w WHERE w.queue = l.queue AND w.lane = l.lane), l.next_at)
WHERE l.queue = $1 AND l.token = $2`
)

// Release implements store.WorkWriter. The items keep the token; it says
// nothing once their lane has no lease under it.
func (t *tx) Release(ctx context.Context, queue, token string) error {
	b := t.planned()
	b.Queue(lockLease, queue, token)
	b.Queue(dropEmpty, queue, token)
	b.Queue(freeLanes, queue, token)
	return t.send(ctx, "releasing lanes", b)
}

// Extend implements store.WorkWriter. The clock is the server's at this
// instant, not at the beginning of the transaction.
func (t *tx) Extend(ctx context.Context, queue, token string, lease time.Duration) error {
	const what = "extending a lease"
	b := t.planned()
	b.Queue(lockLease, queue, token)
	var left, leased int
	b.Queue(`WITH extended AS (UPDATE lane SET until = e.until, next_at = e.until
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3::bigint AS until) e
    WHERE queue = $1 AND token = $2 RETURNING lanes)
SELECT count(*)::int, COALESCE(max(lanes), 0)::int FROM extended`, queue, token, lease.Microseconds()).
		QueryRow(func(r pgx.Row) error { return r.Scan(&left, &leased) })
	if err := t.send(ctx, what, b); err != nil {
		return err
	}
	if left == 0 || left < leased {
		return t.lost(what)
	}
	return nil
}

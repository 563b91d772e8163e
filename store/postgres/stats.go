package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

// statsCountMax bounds every count: more than that is reported as that many.
const statsCountMax = 100_000

const (
	// statQueues steps from queue to queue through the index, and looks at a
	// bounded part of each, the oldest ids first.
	statQueues = `WITH RECURSIVE queues AS (
    (SELECT queue FROM work ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT w.queue FROM work w WHERE w.queue > q.queue ORDER BY w.queue LIMIT 1) FROM queues q WHERE q.queue IS NOT NULL)
SELECT q.queue, c.pending, c.waiting, COALESCE(c.oldest, 0) FROM queues q CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE NOT waiting)::int AS pending, count(*) FILTER (WHERE waiting)::int AS waiting,
        min(enqueued_at) FILTER (WHERE NOT waiting) AS oldest
    FROM (SELECT waiting, enqueued_at FROM work w WHERE w.queue = q.queue ORDER BY w.id LIMIT $1) part) c
WHERE q.queue IS NOT NULL ORDER BY q.queue`

	statExceptions = `SELECT kind, count(*)::int FROM (
    SELECT kind FROM exception WHERE state IN ('open', 'acknowledged') LIMIT $1) part GROUP BY kind`

	statDead = `SELECT (SELECT count(*) FROM (SELECT FROM inbox_result WHERE state = 'dead' LIMIT $1) part)::int,
    (SELECT count(*) FROM (SELECT FROM message WHERE state = 'dead' LIMIT $1) part)::int`
)

// Stats implements store.Store. Counts stop at 100,000.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	var stats store.Stats
	err := s.View(ctx, func(r store.Reader) error {
		stats = store.Stats{OpenExceptions: map[string]int{}}
		b := &pgx.Batch{}
		b.Queue(statQueues, statsCountMax).Query(func(found pgx.Rows) (err error) {
			stats.Queues, err = pgx.CollectRows(found, func(r pgx.CollectableRow) (q store.QueueStats, err error) {
				var oldest int64
				err = r.Scan(&q.Queue, &q.Pending, &q.Waiting, &oldest)
				q.Oldest = moment(oldest)
				return q, err
			})
			return err
		})
		b.Queue(statExceptions, statsCountMax).Query(func(found pgx.Rows) error {
			var kind string
			var n int
			_, err := pgx.ForEachRow(found, []any{&kind, &n}, func() error {
				stats.OpenExceptions[kind] = n
				return nil
			})
			return err
		})
		b.Queue(statDead, statsCountMax).QueryRow(func(r pgx.Row) error { return r.Scan(&stats.DeadEntries, &stats.DeadMessages) })
		return r.(*tx).send(ctx, "counting what is left to do", b)
	})
	return stats, err
}

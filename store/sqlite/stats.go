package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/unavez/unavez/store"
)

// statsRowsMax bounds how many items of work are counted, from the oldest on.
const statsRowsMax = 1_000_000

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	st := store.Stats{OpenExceptions: map[string]int{}}
	err := s.View(ctx, func(r store.Reader) error { return r.(*tx).stats(ctx, &st) })
	if err != nil {
		return store.Stats{}, fmt.Errorf("sqlite: counting what is left to do: %w", err)
	}
	return st, nil
}

func (t *tx) stats(ctx context.Context, st *store.Stats) (err error) {
	st.Queues, err = all(ctx, t, func(row scanner) (q store.QueueStats, err error) {
		var oldest sql.NullInt64
		err = row.Scan(&q.Queue, &q.Pending, &q.Waiting, &oldest)
		q.Oldest = instant(oldest)
		return q, err
	}, `SELECT queue, sum(pending), sum(waiting), min(CASE WHEN pending THEN enqueued_at END) FROM (
		SELECT queue, waiting, waiting = 0 AS pending, enqueued_at FROM work ORDER BY seq LIMIT ?)
		GROUP BY queue ORDER BY queue`, statsRowsMax)
	if err != nil {
		return err
	}
	err = t.query(ctx, func(rows *sql.Rows) error {
		var kind string
		var n int
		err := rows.Scan(&kind, &n)
		st.OpenExceptions[kind] = n
		return err
	}, `SELECT kind, count(*) FROM exception WHERE state IN ('open', 'acknowledged') GROUP BY kind`)
	if err != nil {
		return err
	}
	count := func(n *int, text string) error {
		return t.query(ctx, func(rows *sql.Rows) error { return rows.Scan(n) }, text)
	}
	if err := count(&st.DeadEntries, `SELECT count(*) FROM inbox_result WHERE state = 'dead'`); err != nil {
		return err
	}
	return count(&st.DeadMessages, `SELECT count(*) FROM message WHERE state = 'dead'`)
}

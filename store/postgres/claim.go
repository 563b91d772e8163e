package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/unavez/unavez/store"
)

// claimRoundsMax bounds how many sets of lanes one claim looks through when
// none has anything due.
const claimRoundsMax = 8

// The statements of a claim. They travel in one round trip and commit together;
// each has a snapshot of its own, so that those after the first see everything
// that was queued before the lanes were locked.
const (
	// takeLanes leases due lanes that are not leased. A lane that still carries
	// a token has lapsed. $1 queue, $2 token, $3 lease, $4 lanes.
	takeLanes = `WITH due AS MATERIALIZED (SELECT ARRAY(
    SELECT d.lane FROM lane d WHERE d.queue = $1 AND d.next_at <= ` + nowSQL + ` AND (d.until IS NULL OR d.until <= ` + nowSQL + `)
    ORDER BY d.next_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS lanes)
UPDATE lane SET lapsed = lane.token, token = $2, lanes = (SELECT cardinality(due.lanes) FROM due),
    until = ` + nowSQL + ` + $3::bigint, next_at = ` + nowSQL + ` + $3::bigint
WHERE queue = $1 AND lane = ANY((SELECT due.lanes FROM due)::text[])`

	// markSuspects marks what the lapsed lease left behind.
	markSuspects = `UPDATE work w SET suspect = true, token = NULL
WHERE w.queue = $1 AND w.id = ANY(ARRAY(
    SELECT o.id FROM lane l JOIN work o ON o.queue = l.queue AND o.lane = l.lane AND o.token = l.lapsed
    WHERE l.queue = $1 AND l.token = $2 AND l.lapsed IS NOT NULL))`

	// takeAny takes the due items of each lane, oldest first. $3 per lane.
	takeAny = takeItems + `SELECT o.id FROM work o WHERE o.queue = l.queue AND o.lane = l.lane AND o.not_before <= ` + nowSQL + `
        ORDER BY o.number LIMIT $3` + takenItems

	// takeInOrder takes them only up to the first that is not due.
	takeInOrder = takeItems + `SELECT f.id FROM (
            SELECT o.id, bool_and(o.not_before <= ` + nowSQL + `) OVER (ORDER BY o.number) AS due FROM work o
            WHERE o.queue = l.queue AND o.lane = l.lane ORDER BY o.number LIMIT $3) f WHERE f.due` + takenItems

	takeItems = `UPDATE work w SET token = $2 WHERE w.queue = $1 AND w.id = ANY(ARRAY(
    SELECT i.id FROM lane l CROSS JOIN LATERAL (`
	takenItems = `) i WHERE l.queue = $1 AND l.token = $2))
RETURNING w.number, w.id, w.lane, w.attempts, w.suspect, w.waiting, w.last_error, w.enqueued_at`

	// leaveAny and leaveInOrder give lanes back that have nothing due, with the
	// time of their next look.
	leaveAny     = leaveLanes + `(SELECT min(o.not_before) FROM work o WHERE o.queue = l.queue AND o.lane = l.lane)` + leftLanes
	leaveInOrder = leaveLanes + `(SELECT o.not_before FROM work o WHERE o.queue = l.queue AND o.lane = l.lane ORDER BY o.number LIMIT 1)` + leftLanes
	leaveLanes   = `UPDATE lane l SET token = NULL, until = NULL, lapsed = NULL, next_at = `
	leftLanes    = `
WHERE l.queue = $1 AND l.token = $2
AND EXISTS (SELECT FROM work o WHERE o.queue = l.queue AND o.lane = l.lane)
AND NOT EXISTS (SELECT FROM work o WHERE o.queue = l.queue AND o.lane = l.lane AND o.token = $2)`

	// countLanes corrects how many lanes the lease begins with, where some were
	// given back at once.
	countLanes = `UPDATE lane SET lanes = ` + heldLanes + `
WHERE queue = $1 AND token = $2 AND lanes <> ` + heldLanes
	heldLanes = `(SELECT count(*)::int FROM lane h WHERE h.queue = $1 AND h.token = $2)`
)

// Claim implements store.Store. A try that lost its connection is repeated
// under the same token, so that lanes which it took after all are found again.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claim, error) {
	token := s.opt.NewToken()
	for range claimRoundsMax {
		items, lanes, err := s.claimAgain(ctx, req, token)
		if err != nil {
			return store.Claim{}, doing("claiming work of queue "+req.Queue, err)
		}
		if len(items) > 0 {
			return store.Claim{Token: token, Items: items}, nil
		}
		if lanes == 0 {
			break
		}
	}
	return store.Claim{}, nil
}

// claimAgain repeats a claim as InTx repeats a transaction.
func (s *Store) claimAgain(ctx context.Context, req store.ClaimRequest, token string) ([]store.ClaimedItem, int64, error) {
	for failures := 1; ; failures++ {
		items, lanes, err := s.claim(ctx, req, token)
		what := remedyOf(err)
		if what == noRemedy || what == reconnect && failures > reconnectsMax || conflictPolicy.Exhausted(failures) {
			return items, lanes, err
		}
		if pause(ctx, conflictPolicy.Delay(failures, nil)) != nil {
			return nil, 0, err
		}
	}
}

type claimed struct {
	number int64
	store.ClaimedItem
}

func (s *Store) claim(ctx context.Context, req store.ClaimRequest, token string) ([]store.ClaimedItem, int64, error) {
	conn, err := s.connection(ctx, s.claims)
	if err != nil {
		return nil, 0, err
	}
	var taken []claimed
	var lanes int64
	if err := s.sendClaim(ctx, conn, claimBatch(req, token, &taken, &lanes)); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(taken, func(a, b claimed) int {
		return cmp.Or(strings.Compare(a.Lane, b.Lane), cmp.Compare(a.number, b.number))
	})
	items := make([]store.ClaimedItem, len(taken))
	for i := range taken {
		items[i] = taken[i].ClaimedItem
	}
	return items, lanes, nil
}

// sendClaim runs the statements as one implicit transaction.
func (s *Store) sendClaim(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) error {
	bound, cancel := context.WithTimeout(ctx, s.opt.Timeout+deadlineGrace)
	defer cancel()
	err := judge(conn.Conn().SendBatch(bound, b).Close(), conn.Conn().IsClosed())
	if err != nil && (remedyOf(err) == reconnect || bound.Err() != nil || conn.Conn().IsClosed()) {
		s.end(conn, ctx.Err() == nil)
		return gone(ctx, err)
	}
	conn.Release()
	return err
}

func claimBatch(req store.ClaimRequest, token string, taken *[]claimed, lanes *int64) *pgx.Batch {
	take, leave := takeAny, leaveAny
	if req.Ordered {
		take, leave = takeInOrder, leaveInOrder
	}
	b := &pgx.Batch{}
	b.Queue(takeLanes, req.Queue, token, req.Lease.Microseconds(), int64(req.Lanes)).Exec(func(tag pgconn.CommandTag) error {
		*lanes = tag.RowsAffected()
		return nil
	})
	b.Queue(markSuspects, req.Queue, token)
	b.Queue(take, req.Queue, token, int64(req.PerLane)).Query(func(found pgx.Rows) (err error) {
		*taken, err = pgx.CollectRows(found, scanClaimed)
		return err
	})
	b.Queue(leave, req.Queue, token)
	b.Queue(dropEmpty, req.Queue, token)
	b.Queue(countLanes, req.Queue, token)
	return b
}

func scanClaimed(r pgx.CollectableRow) (c claimed, err error) {
	var enqueued int64
	err = r.Scan(&c.number, &c.ID, &c.Lane, &c.Attempts, &c.Suspect, &c.Waiting, &c.LastError, &enqueued)
	c.EnqueuedAt = moment(enqueued)
	return c, err
}

package sqlite

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unavez/unavez/store"
)

// staleRounds bounds how often a claim looks again after it met only lanes
// without due work.
const staleRounds = 8

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claim, error) {
	var c store.Claim
	err := s.InTx(ctx, store.TxOptions{}, func(st store.Tx) error {
		c = store.Claim{}
		for range staleRounds {
			stale, err := st.(*tx).claim(ctx, req, &c)
			if err != nil || len(c.Items) > 0 || stale == 0 {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Claim{}, fmt.Errorf("sqlite: claiming from %s: %w", req.Queue, err)
	}
	return c, nil
}

type workRow struct {
	seq, notBefore int64
	token          string
	item           store.ClaimedItem
}

// claim takes the lanes that are due and have due work; it mends the next look
// of those that have none, and counts them.
func (t *tx) claim(ctx context.Context, req store.ClaimRequest, c *store.Claim) (stale int, err error) {
	now := t.now.UnixMicro()
	lanes, err := all(ctx, t, text, `SELECT lane FROM lane WHERE queue = ? AND next_at <= ? AND until <= ?
		ORDER BY next_at LIMIT ?`, req.Queue, now, now, req.Lanes)
	if err != nil || len(lanes) == 0 {
		return 0, err
	}
	taken := map[string][]workRow{}
	for _, lane := range lanes {
		due, next, err := t.due(ctx, req, lane, now)
		if err != nil {
			return 0, err
		}
		if len(due) > 0 {
			taken[lane] = due
			continue
		}
		stale++
		if err := t.settleLane(ctx, req.Queue, lane, next); err != nil {
			return 0, err
		}
	}
	if len(taken) == 0 {
		return stale, nil
	}
	c.Token = newToken(len(taken))
	var held []string
	var seqs []int64
	for _, lane := range lanes {
		for _, row := range taken[lane] {
			row.item.Suspect = row.item.Suspect || row.token != ""
			c.Items, seqs = append(c.Items, row.item), append(seqs, row.seq)
		}
		if taken[lane] != nil {
			held = append(held, lane)
		}
	}
	return stale, t.mark(ctx, req.Queue, c.Token, now+req.Lease.Microseconds(), held, seqs)
}

// mark writes the token to lanes and items. An item that still carries another
// token was held by somebody who got no result.
func (t *tx) mark(ctx context.Context, queue, token string, until int64, lanes []string, seqs []int64) error {
	laneList, err := encode(lanes)
	if err != nil {
		return err
	}
	seqList, err := encode(seqs)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, `UPDATE lane SET token = ?, until = ? WHERE queue = ? AND lane IN (SELECT value FROM json_each(?))`,
		token, until, queue, laneList); err != nil {
		return err
	}
	_, err = t.exec(ctx, `UPDATE work SET suspect = suspect OR token <> '', token = ? WHERE seq IN (SELECT value FROM json_each(?))`, token, seqList)
	return err
}

// due returns the due items of a lane, oldest first, and when the next one is
// due; math.MaxInt64 if the lane has none at all.
func (t *tx) due(ctx context.Context, req store.ClaimRequest, lane string, now int64) (due []workRow, next int64, err error) {
	next = math.MaxInt64
	text := `SELECT seq, id, lane, token, suspect, attempts, not_before, waiting, last_error, enqueued_at
		FROM work WHERE queue = ? AND lane = ?`
	args := []any{req.Queue, lane}
	if !req.Ordered {
		text += ` AND not_before <= ?`
		args = append(args, now)
	}
	rows, err := all(ctx, t, scanWork, text+` ORDER BY seq LIMIT ?`, append(args, req.PerLane)...)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range rows {
		if row.notBefore > now {
			return due, row.notBefore, nil
		}
		due = append(due, row)
	}
	if len(due) == 0 {
		next, err = one(ctx, t, scanNext, `SELECT min(not_before) FROM work WHERE queue = ? AND lane = ?`, req.Queue, lane)
	}
	return due, next, err
}

func scanNext(row scanner) (int64, error) {
	var v sql.NullInt64
	if err := row.Scan(&v); err != nil || v.Valid {
		return v.Int64, err
	}
	return math.MaxInt64, nil
}

func scanWork(row scanner) (w workRow, err error) {
	var enqueued int64
	err = row.Scan(&w.seq, &w.item.ID, &w.item.Lane, &w.token, &w.item.Suspect, &w.item.Attempts, &w.notBefore,
		&w.item.Waiting, &w.item.LastError, &enqueued)
	w.item.EnqueuedAt = time.UnixMicro(enqueued).UTC()
	return w, err
}

func text(row scanner) (string, error) {
	var v string
	return v, row.Scan(&v)
}

// settleLane frees a lane: its next look is when its next item is due, and a
// lane without items is gone.
func (t *tx) settleLane(ctx context.Context, queue, lane string, next int64) error {
	if next == math.MaxInt64 {
		_, err := t.exec(ctx, `DELETE FROM lane WHERE queue = ? AND lane = ?`, queue, lane)
		return err
	}
	_, err := t.exec(ctx, `UPDATE lane SET next_at = ?, token = '', until = 0 WHERE queue = ? AND lane = ?`, next, queue, lane)
	return err
}

// newToken names a claim and holds the number of its lanes, so that Extend
// knows when one of them was taken by somebody else.
func newToken(lanes int) string {
	var raw [12]byte
	if _, err := rand.Read(raw[:]); err != nil {
		panic("sqlite: impossible: no randomness: " + err.Error())
	}
	return hex.EncodeToString(raw[:]) + "." + strconv.Itoa(lanes)
}

func tokenLanes(token string) int64 {
	_, count, _ := strings.Cut(token, ".")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// Enqueue implements store.WorkWriter. ErrConflict if an item is queued in
// another lane already: two lanes could then be worked at once.
func (t *tx) Enqueue(ctx context.Context, items []store.Work) error {
	for _, it := range items {
		due := t.now.Add(it.Delay).UnixMicro()
		lane, err := one(ctx, t, text, `INSERT INTO work (queue, id, lane, not_before, enqueued_at) VALUES (?,?,?,?,?)
			ON CONFLICT (queue, id) DO UPDATE SET not_before = min(not_before, excluded.not_before), waiting = 0 RETURNING lane`,
			it.Queue, it.ID, it.Lane, due, t.now.UnixMicro())
		if err != nil {
			return fmt.Errorf("enqueueing %s: %w", it.ID, err)
		}
		if lane != it.Lane {
			return fmt.Errorf("%s of queue %s is in another lane already: %w", it.ID, it.Queue, store.ErrConflict)
		}
		if err := t.dueLane(ctx, it.Queue, lane, due); err != nil {
			return fmt.Errorf("enqueueing %s: %w", it.ID, err)
		}
		if it.Delay <= 0 {
			t.woken[it.Queue] = true
		}
	}
	return nil
}

func (t *tx) dueLane(ctx context.Context, queue, lane string, due int64) error {
	_, err := t.exec(ctx, `INSERT INTO lane (queue, lane, next_at) VALUES (?,?,?)
		ON CONFLICT (queue, lane) DO UPDATE SET next_at = min(next_at, excluded.next_at)`, queue, lane, due)
	return err
}

// underToken selects items that the token holds together with their lane; the
// ids are a list in JSON.
const underToken = ` WHERE queue = ? AND token = ? AND id IN (SELECT value FROM json_each(?)) AND EXISTS (SELECT 1 FROM lane l
	WHERE l.queue = work.queue AND l.lane = work.lane AND l.token = work.token)`

// held runs a statement for items under the token; ErrLeaseLost unless it meets
// all of them.
func (t *tx) held(ctx context.Context, statement, queue, token string, ids []string, args ...any) error {
	if len(ids) == 0 {
		return nil
	}
	ids = unique(ids)
	list, err := encode(ids)
	if err != nil {
		return err
	}
	n, err := t.exec(ctx, statement+underToken, append(args, queue, token, list)...)
	if err == nil && n < int64(len(ids)) {
		err = store.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("work %s and %d others of %s: %w", ids[0], len(ids)-1, queue, err)
	}
	return nil
}

// CountAttempt implements store.WorkWriter.
func (t *tx) CountAttempt(ctx context.Context, queue, token string, ids []string) error {
	return t.held(ctx, `UPDATE work SET attempts = attempts + 1`, queue, token, ids)
}

// Complete implements store.WorkWriter.
func (t *tx) Complete(ctx context.Context, queue, token string, ids []string) error {
	return t.held(ctx, `DELETE FROM work`, queue, token, ids)
}

// Postpone implements store.WorkWriter.
func (t *tx) Postpone(ctx context.Context, queue, token string, items []store.Postponed) error {
	for _, it := range items {
		set, args := "", []any{t.now.Add(it.Delay).UnixMicro(), it.Waiting, it.Error}
		if it.Attempts != nil {
			set, args = ", attempts = ?", append(args, *it.Attempts)
		}
		if err := t.held(ctx, `UPDATE work SET token = '', suspect = 0, not_before = ?, waiting = ?, last_error = ?`+set,
			queue, token, []string{it.ID}, args...); err != nil {
			return err
		}
	}
	return nil
}

// Release implements store.WorkWriter. That tokens are not empty is said in SQL
// too, so that the partial indexes serve.
func (t *tx) Release(ctx context.Context, queue, token string) error {
	const held = ` WHERE queue = ? AND token = ? AND token <> '' `
	const its = ` FROM work w WHERE w.queue = lane.queue AND w.lane = lane.lane`
	if _, err := t.exec(ctx, `UPDATE work SET token = ''`+held+`AND EXISTS (SELECT 1 FROM lane l
		WHERE l.queue = work.queue AND l.lane = work.lane AND l.token = work.token)`, queue, token); err != nil {
		return fmt.Errorf("releasing the work of %s: %w", queue, err)
	}
	if _, err := t.exec(ctx, `DELETE FROM lane`+held+`AND NOT EXISTS (SELECT 1`+its+`)`, queue, token); err != nil {
		return fmt.Errorf("removing the idle lanes of %s: %w", queue, err)
	}
	next, err := all(ctx, t, scanNext, `UPDATE lane SET token = '', until = 0, next_at = (SELECT min(w.not_before)`+its+`)`+held+`RETURNING next_at`,
		queue, token)
	if err != nil {
		return fmt.Errorf("releasing the lanes of %s: %w", queue, err)
	}
	for _, at := range next {
		if at <= t.now.UnixMicro() {
			t.woken[queue] = true
		}
	}
	return nil
}

// Extend implements store.WorkWriter.
func (t *tx) Extend(ctx context.Context, queue, token string, lease time.Duration) error {
	n, err := t.exec(ctx, `UPDATE lane SET until = ? WHERE queue = ? AND token = ?`, t.now.Add(lease).UnixMicro(), queue, token)
	if err == nil && n < tokenLanes(token) {
		err = store.ErrLeaseLost
	}
	return err
}

// Wait implements store.WorkWriter.
func (t *tx) Wait(ctx context.Context, waits []store.Waiting) error {
	for _, w := range waits {
		if _, err := t.exec(ctx, `INSERT INTO waiting (account, mode, connected, value, entry) VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING`,
			w.Name.Account, w.Name.Mode, w.Name.Connected, w.Name.Value, w.EntryID); err != nil {
			return fmt.Errorf("filing %s: %w", w.EntryID, err)
		}
	}
	return nil
}

// WaitingUnder implements store.EntryReader.
func (t *tx) WaitingUnder(ctx context.Context, account, value string, limit int) ([]string, error) {
	return all(ctx, t, text, `SELECT DISTINCT entry FROM waiting WHERE account = ? AND value = ? ORDER BY entry DESC LIMIT ?`, account, value, limit)
}

// WakeWaiting implements store.WorkWriter.
func (t *tx) WakeWaiting(ctx context.Context, names []store.ScopedName) ([]string, error) {
	var filed, woken []string
	for _, n := range sortedNames(names) {
		ids, err := all(ctx, t, text, `SELECT entry FROM waiting WHERE account = ? AND mode = ? AND connected = ? AND value = ?`,
			n.Account, n.Mode, n.Connected, n.Value)
		if err != nil {
			return nil, err
		}
		filed = append(filed, ids...)
	}
	for _, id := range unique(filed) {
		lanes, err := all(ctx, t, text, `UPDATE work SET not_before = min(not_before, ?), waiting = 0 WHERE queue = ? AND id = ? RETURNING lane`,
			t.now.UnixMicro(), store.QueueInbox, id)
		if err != nil {
			return nil, err
		}
		for _, lane := range lanes {
			woken = append(woken, id)
			if err := t.dueLane(ctx, store.QueueInbox, lane, t.now.UnixMicro()); err != nil {
				return nil, err
			}
			t.woken[store.QueueInbox] = true
		}
	}
	return woken, nil
}

func sortedNames(names []store.ScopedName) []store.ScopedName {
	names = slices.Clone(names)
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

func compareNames(a, b store.ScopedName) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Mode, b.Mode),
		cmp.Compare(a.Connected, b.Connected), cmp.Compare(a.Value, b.Value))
}

// Unwait implements store.WorkWriter.
func (t *tx) Unwait(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if _, err := t.exec(ctx, `DELETE FROM waiting WHERE entry = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var keyColumns = columns[store.IdempotencyKey]{
	text("principal", func(k *store.IdempotencyKey) string { return k.Principal }),
	text("key", func(k *store.IdempotencyKey) string { return k.Key }),
	text("route", func(k *store.IdempotencyKey) string { return k.Route }),
	octets("fingerprint", func(k *store.IdempotencyKey) []byte { return k.Fingerprint }),
	text("state", func(k *store.IdempotencyKey) string { return k.State }),
	whole("status", func(k *store.IdempotencyKey) int64 { return int64(k.Status) }),
	octets("header", func(k *store.IdempotencyKey) []byte { return k.Header }),
	octets("body", func(k *store.IdempotencyKey) []byte { return k.Body }),
	text("token", func(k *store.IdempotencyKey) string { return k.Token }),
	instant("lease_at", func(k *store.IdempotencyKey) time.Time { return k.LeaseAt }),
	instant("created_at", func(k *store.IdempotencyKey) time.Time { return k.CreatedAt }),
	instant("expires_at", func(k *store.IdempotencyKey) time.Time { return k.ExpiresAt }),
}

var (
	insertKey = keyColumns.insert("idempotency_key", "ON CONFLICT DO NOTHING")
	updateKey = `UPDATE idempotency_key k SET ` + keyColumns.assign("u", "principal", "key") + ` FROM ` + keyColumns.rows(1) +
		` WHERE k.principal = u.principal AND k.key = u.key`
	keySelect = `SELECT ` + keyColumns.names() + ` FROM idempotency_key WHERE principal = $1 AND key = $2`
)

func scanKey(r pgx.CollectableRow) (k store.IdempotencyKey, err error) {
	var lease, created, expires int64
	err = r.Scan(&k.Principal, &k.Key, &k.Route, &k.Fingerprint, &k.State, &k.Status, &k.Header, &k.Body, &k.Token, &lease, &created, &expires)
	k.LeaseAt, k.CreatedAt, k.ExpiresAt = moment(lease), moment(created), moment(expires)
	k.Fingerprint, k.Header, k.Body = some(k.Fingerprint), some(k.Header), some(k.Body)
	return k, err
}

// IdempotencyKey implements store.IdempotencyReader.
func (t *tx) IdempotencyKey(ctx context.Context, principal, key string) (store.IdempotencyKey, error) {
	return row(ctx, t, "reading an idempotency key", scanKey, keySelect, principal, key)
}

// beginTriesMax bounds how often a key may be deleted by somebody else between
// the statement that finds it taken and the one that locks it.
const beginTriesMax = 5

var errKeyFlickers = errors.New("the key is begun and deleted by others all the time")

// BeginKey implements store.IdempotencyWriter.
func (t *tx) BeginKey(ctx context.Context, k store.IdempotencyKey) (store.IdempotencyKey, bool, error) {
	const what = "beginning an idempotency key"
	for range beginTriesMax {
		n, err := t.exec(ctx, what, insertKey, keyColumns.args([]store.IdempotencyKey{k})...)
		if err != nil {
			return store.IdempotencyKey{}, false, err
		}
		if n == 1 {
			return k, true, nil
		}
		found, err := rows(ctx, t, what, scanKey, keySelect+` FOR UPDATE`, k.Principal, k.Key)
		if err != nil {
			return store.IdempotencyKey{}, false, err
		}
		if len(found) > 0 {
			return found[0], false, nil
		}
	}
	return store.IdempotencyKey{}, false, t.fail(what, &failure{sentinel: store.ErrBusy, cause: errKeyFlickers, remedy: runAgain})
}

// PutKey implements store.IdempotencyWriter. ErrNotFound if there is no row.
func (t *tx) PutKey(ctx context.Context, k store.IdempotencyKey) error {
	n, err := t.exec(ctx, "storing an idempotency key", updateKey, keyColumns.args([]store.IdempotencyKey{k})...)
	if err == nil && n == 0 {
		return missing("idempotency key of", k.Principal)
	}
	return err
}

// DeleteKey implements store.IdempotencyWriter.
func (t *tx) DeleteKey(ctx context.Context, principal, key string) error {
	_, err := t.exec(ctx, "deleting an idempotency key", `DELETE FROM idempotency_key WHERE principal = $1 AND key = $2`, principal, key)
	return err
}

// SweepKeys implements store.IdempotencyWriter. Keys that somebody holds are
// left for the next time.
func (t *tx) SweepKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := t.exec(ctx, "sweeping idempotency keys", `DELETE FROM idempotency_key WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM idempotency_key k WHERE k.expires_at < $1 ORDER BY k.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		micros(before), int64(limit))
	return int(n), err
}

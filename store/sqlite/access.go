package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/unavez/unavez/store"
)

const keySelect = `SELECT principal, key, route, fingerprint, state, status, header, body, token, lease_at, created_at, expires_at
	FROM idempotency_key WHERE principal = ? AND key = ?`

func scanKey(row scanner) (store.IdempotencyKey, error) {
	var k store.IdempotencyKey
	var lease, created, expires sql.NullInt64
	err := row.Scan(&k.Principal, &k.Key, &k.Route, &k.Fingerprint, &k.State, &k.Status, &k.Header, &k.Body, &k.Token, &lease, &created, &expires)
	k.LeaseAt, k.CreatedAt, k.ExpiresAt = instant(lease), instant(created), instant(expires)
	return k, err
}

// IdempotencyKey implements store.IdempotencyReader.
func (t *tx) IdempotencyKey(ctx context.Context, principal, key string) (store.IdempotencyKey, error) {
	return one(ctx, t, scanKey, keySelect, principal, key)
}

func keyArgs(k store.IdempotencyKey) []any {
	return []any{
		k.Route, k.Fingerprint, k.State, k.Status, k.Header, k.Body, k.Token, micro(k.LeaseAt), micro(k.CreatedAt),
		micro(k.ExpiresAt), k.Principal, k.Key,
	}
}

// BeginKey implements store.IdempotencyWriter.
func (t *tx) BeginKey(ctx context.Context, k store.IdempotencyKey) (store.IdempotencyKey, bool, error) {
	n, err := t.exec(ctx, `INSERT INTO idempotency_key (route, fingerprint, state, status, header, body, token, lease_at, created_at,
		expires_at, principal, key) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (principal, key) DO NOTHING`, keyArgs(k)...)
	if err != nil {
		return k, false, fmt.Errorf("beginning an idempotency key: %w", err)
	}
	if n == 1 {
		return k, true, nil
	}
	found, err := t.IdempotencyKey(ctx, k.Principal, k.Key)
	return found, false, err
}

// PutKey implements store.IdempotencyWriter.
func (t *tx) PutKey(ctx context.Context, k store.IdempotencyKey) error {
	n, err := t.exec(ctx, `UPDATE idempotency_key SET route = ?, fingerprint = ?, state = ?, status = ?, header = ?, body = ?, token = ?,
		lease_at = ?, created_at = ?, expires_at = ? WHERE principal = ? AND key = ?`, keyArgs(k)...)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// DeleteKey implements store.IdempotencyWriter.
func (t *tx) DeleteKey(ctx context.Context, principal, key string) error {
	_, err := t.exec(ctx, `DELETE FROM idempotency_key WHERE principal = ? AND key = ?`, principal, key)
	return err
}

// SweepKeys implements store.IdempotencyWriter.
func (t *tx) SweepKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := t.exec(ctx, `DELETE FROM idempotency_key WHERE (principal, key) IN
		(SELECT principal, key FROM idempotency_key WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`, before.UnixMicro(), limit)
	return int(n), err
}

const tokenSelect = `SELECT k.id, k.name, k.role, k.hash, k.created_at, k.last_used, k.revoked_at FROM token k`

func scanToken(row scanner) (store.Token, error) {
	var k store.Token
	var created, used, revoked sql.NullInt64
	err := row.Scan(&k.ID, &k.Name, &k.Role, &k.Hash, &created, &used, &revoked)
	k.CreatedAt, k.LastUsed, k.RevokedAt = instant(created), instant(used), instant(revoked)
	return k, err
}

// TokenByHash implements store.TokenReader.
func (t *tx) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return one(ctx, t, scanToken, tokenSelect+` WHERE k.hash = ?`, hash)
}

var tokenFilters = map[string]string{"name": "k.name", "role": "k.role"}

// Tokens implements store.TokenReader.
func (t *tx) Tokens(ctx context.Context, l store.List) ([]store.Token, error) {
	q := query{text: tokenSelect, id: "k.id"}
	if err := q.filter(l, tokenFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanToken, q.text, q.args...)
}

// InsertToken implements store.TokenWriter.
func (t *tx) InsertToken(ctx context.Context, k store.Token) error {
	_, err := t.exec(ctx, `INSERT INTO token (id, name, role, hash, created_at, last_used, revoked_at) VALUES (?,?,?,?,?,?,?)`,
		k.ID, k.Name, k.Role, notNil(k.Hash), micro(k.CreatedAt), micro(k.LastUsed), micro(k.RevokedAt))
	if err != nil {
		return fmt.Errorf("inserting token %s: %w", k.ID, err)
	}
	return nil
}

func (t *tx) touch(ctx context.Context, query string, at time.Time, id string) error {
	n, err := t.exec(ctx, query, micro(at), id)
	if err == nil && n == 0 {
		err = store.ErrNotFound
	}
	return err
}

// RevokeToken implements store.TokenWriter.
func (t *tx) RevokeToken(ctx context.Context, id string, at time.Time) error {
	return t.touch(ctx, `UPDATE token SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?`, at, id)
}

// TouchToken implements store.TokenWriter.
func (t *tx) TouchToken(ctx context.Context, id string, at time.Time) error {
	return t.touch(ctx, `UPDATE token SET last_used = max(coalesce(last_used, 0), ?) WHERE id = ?`, at, id)
}

// Setting implements store.Reader.
func (t *tx) Setting(ctx context.Context, key string) (string, error) {
	return one(ctx, t, text, `SELECT value FROM setting WHERE key = ?`, key)
}

// SetSetting implements store.Tx.
func (t *tx) SetSetting(ctx context.Context, key, value string) error {
	_, err := t.exec(ctx, `INSERT INTO setting (key, value) VALUES (?,?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

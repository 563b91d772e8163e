package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

const tokenSelect = `SELECT id, name, role, hash, created_at, last_used, revoked_at FROM token`

func scanToken(r pgx.CollectableRow) (k store.Token, err error) {
	var created, used, revoked int64
	err = r.Scan(&k.ID, &k.Name, &k.Role, &k.Hash, &created, &used, &revoked)
	k.CreatedAt, k.LastUsed, k.RevokedAt = moment(created), moment(used), moment(revoked)
	return k, err
}

// TokenByHash implements store.TokenReader.
func (t *tx) TokenByHash(ctx context.Context, hash []byte) (store.Token, error) {
	return row(ctx, t, "reading a token", scanToken, tokenSelect+` WHERE hash = $1`, octet(hash))
}

var tokenFilters = filters{"name": "name", "role": "role"}

// Tokens implements store.TokenReader; it lists by name and role.
func (t *tx) Tokens(ctx context.Context, l store.List) ([]store.Token, error) {
	page, args, err := tokenFilters.page("id", l)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing tokens", scanToken, tokenSelect+page, args...)
}

// InsertToken implements store.TokenWriter. ErrConflict if the id or the hash is taken.
func (t *tx) InsertToken(ctx context.Context, k store.Token) error {
	_, err := t.exec(ctx, "inserting token "+k.ID, `INSERT INTO token (id, name, role, hash, created_at, last_used, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)`, k.ID, k.Name, k.Role, octet(k.Hash), micros(k.CreatedAt), micros(k.LastUsed), micros(k.RevokedAt))
	return err
}

// RevokeToken implements store.TokenWriter. The first revocation stays.
func (t *tx) RevokeToken(ctx context.Context, id string, at time.Time) error {
	return t.markToken(ctx, id, `UPDATE token SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END WHERE id = $1`, at)
}

// TouchToken implements store.TokenWriter.
func (t *tx) TouchToken(ctx context.Context, id string, at time.Time) error {
	return t.markToken(ctx, id, `UPDATE token SET last_used = GREATEST(last_used, $2) WHERE id = $1`, at)
}

func (t *tx) markToken(ctx context.Context, id, sql string, at time.Time) error {
	n, err := t.exec(ctx, "marking token "+id, sql, id, micros(at))
	if err == nil && n == 0 {
		return missing("token", id)
	}
	return err
}

// Setting implements store.Reader.
func (t *tx) Setting(ctx context.Context, key string) (string, error) {
	return row(ctx, t, "reading setting "+key, pgx.RowTo[string], `SELECT value FROM setting WHERE key = $1`, key)
}

// SetSetting implements store.Tx.
func (t *tx) SetSetting(ctx context.Context, key, value string) error {
	_, err := t.exec(ctx, "storing setting "+key, `INSERT INTO setting (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

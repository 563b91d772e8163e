package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/unavez/unavez/store"
)

const auditSelect = `SELECT a.id, a.subject, a.version, a.action, a.actor, a.entry, a.detail, a.at, a.prev, a.hash FROM audit a`

func scanAudit(row scanner) (store.AuditRow, error) {
	var a store.AuditRow
	var at sql.NullInt64
	err := row.Scan(&a.ID, &a.Subject, &a.Version, &a.Action, &a.Actor, &a.Entry, &a.Detail, &at, &a.Prev, &a.Hash)
	a.At = instant(at)
	return a, err
}

var auditFilters = map[string]string{"subject": "a.subject", "action": "a.action", "actor": "a.actor"}

// Audit implements store.AuditReader.
func (t *tx) Audit(ctx context.Context, l store.List) ([]store.AuditRow, error) {
	q := query{text: auditSelect, id: "a.id"}
	if err := q.filter(l, auditFilters); err != nil {
		return nil, err
	}
	return all(ctx, t, scanAudit, q.text, q.args...)
}

// AuditChain implements store.AuditReader.
func (t *tx) AuditChain(ctx context.Context, subject string) ([]store.AuditRow, error) {
	return all(ctx, t, scanAudit, auditSelect+` WHERE a.subject = ? ORDER BY a.version`, subject)
}

func (t *tx) insertAudit(ctx context.Context, rows []store.AuditRow) error {
	for _, a := range rows {
		if _, err := t.exec(ctx, `INSERT INTO audit (id, subject, version, action, actor, entry, detail, at, prev, hash) VALUES (?,?,?,?,?,?,?,?,?,?)`,
			a.ID, a.Subject, a.Version, a.Action, a.Actor, a.Entry, a.Detail, micro(a.At), a.Prev, notNil(a.Hash)); err != nil {
			return fmt.Errorf("appending to the audit of %s: %w", a.Subject, err)
		}
	}
	return nil
}

// AppendAudit implements store.AuditWriter.
func (t *tx) AppendAudit(ctx context.Context, rows []store.AuditRow) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b store.AuditRow) int { return strings.Compare(a.Subject, b.Subject) })
	for i := range rows {
		a := &rows[i]
		head, err := one(ctx, t, func(row scanner) (store.AuditHead, error) {
			var h store.AuditHead
			return h, row.Scan(&h.Version, &h.Hash)
		}, `SELECT version, hash FROM audit_head WHERE subject = ?`, a.Subject)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("reading the audit head of %s: %w", a.Subject, err)
		}
		head = store.Chain(head, a)
		if _, err := t.exec(ctx, `INSERT INTO audit_head (subject, version, hash) VALUES (?,?,?)
			ON CONFLICT (subject) DO UPDATE SET version = excluded.version, hash = excluded.hash`, a.Subject, head.Version, head.Hash); err != nil {
			return fmt.Errorf("moving the audit head of %s: %w", a.Subject, err)
		}
	}
	return t.insertAudit(ctx, rows)
}

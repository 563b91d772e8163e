package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/unavez/unavez/store"
)

var auditColumns = columns[store.AuditRow]{
	text("id", func(a *store.AuditRow) string { return a.ID }),
	text("subject", func(a *store.AuditRow) string { return a.Subject }),
	whole("version", func(a *store.AuditRow) int64 { return a.Version }),
	text("action", func(a *store.AuditRow) string { return a.Action }),
	text("actor", func(a *store.AuditRow) string { return a.Actor }),
	text("entry", func(a *store.AuditRow) string { return a.Entry }),
	octets("detail", func(a *store.AuditRow) []byte { return a.Detail }),
	instant("at", func(a *store.AuditRow) time.Time { return a.At }),
	octets("prev", func(a *store.AuditRow) []byte { return a.Prev }),
	octets("hash", func(a *store.AuditRow) []byte { return a.Hash }),
}

var (
	insertAudit = auditColumns.insert("audit", "")
	auditSelect = `SELECT ` + auditColumns.names() + ` FROM audit`
)

type auditHead struct {
	subject string
	store.AuditHead
}

var headColumns = columns[auditHead]{
	text("subject", func(h *auditHead) string { return h.subject }),
	whole("version", func(h *auditHead) int64 { return h.Version }),
	octets("hash", func(h *auditHead) []byte { return h.Hash }),
}

var updateHeads = `UPDATE audit_head h SET version = u.version, hash = u.hash FROM ` + headColumns.rows(1) + ` WHERE h.subject = u.subject`

// AppendAudit implements store.AuditWriter. The rows get their place in the
// chain only where they are stored; the argument stays as it is.
func (t *tx) AppendAudit(ctx context.Context, entries []store.AuditRow) error {
	if len(entries) == 0 {
		return nil
	}
	const what = "appending to the audit"
	heads := map[string]store.AuditHead{}
	for i := range entries {
		heads[entries[i].Subject] = store.AuditHead{}
	}
	if err := t.lockHeads(ctx, what, heads); err != nil {
		return err
	}
	chained := make([]store.AuditRow, len(entries))
	for i := range entries {
		chained[i] = entries[i]
		// The hash covers the instant as it is stored.
		chained[i].At = moment(micros(entries[i].At))
		heads[chained[i].Subject] = store.Chain(heads[chained[i].Subject], &chained[i])
	}
	var ends []auditHead
	for _, subject := range sortedKeys(heads) {
		ends = append(ends, auditHead{subject, heads[subject]})
	}
	b := &pgx.Batch{}
	b.Queue(insertAudit, auditColumns.args(chained)...)
	b.Queue(updateHeads, headColumns.args(ends)...).Exec(all("audit heads", len(ends)))
	return t.send(ctx, what, b)
}

// lockHeads fills in the ends of the chains, and locks them.
func (t *tx) lockHeads(ctx context.Context, what string, heads map[string]store.AuditHead) error {
	subjects := sortedKeys(heads)
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO audit_head (subject, version, hash) SELECT u.subject, 0, '' FROM unnest($1::text[]) AS u (subject)
ON CONFLICT DO NOTHING`, subjects)
	b.Queue(`SELECT subject, version, hash FROM audit_head WHERE subject = ANY($1::text[]) ORDER BY subject FOR UPDATE`, subjects).
		Query(func(found pgx.Rows) error {
			list, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (h auditHead, err error) {
				err = r.Scan(&h.subject, &h.Version, &h.Hash)
				h.Hash = some(h.Hash)
				return h, err
			})
			for _, h := range list {
				heads[h.subject] = h.AuditHead
			}
			return err
		})
	return t.send(ctx, what, b)
}

func scanAudit(r pgx.CollectableRow) (a store.AuditRow, err error) {
	var at int64
	err = r.Scan(&a.ID, &a.Subject, &a.Version, &a.Action, &a.Actor, &a.Entry, &a.Detail, &at, &a.Prev, &a.Hash)
	a.At, a.Detail, a.Prev, a.Hash = moment(at), some(a.Detail), some(a.Prev), some(a.Hash)
	return a, err
}

var auditFilters = filters{"subject": "subject", "action": "action", "actor": "actor"}

// Audit implements store.AuditReader.
func (t *tx) Audit(ctx context.Context, l store.List) ([]store.AuditRow, error) {
	page, args, err := auditFilters.page("id", l)
	if err != nil {
		return nil, err
	}
	return rows(ctx, t, "listing the audit", scanAudit, auditSelect+page, args...)
}

// AuditChain implements store.AuditReader.
func (t *tx) AuditChain(ctx context.Context, subject string) ([]store.AuditRow, error) {
	return rows(ctx, t, "reading the audit of "+subject, scanAudit, auditSelect+` WHERE subject = $1 ORDER BY version`, subject)
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/unavez/unavez/store"
)

// AuditDocument is one row of a subject's chain.
type AuditDocument struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Version int64     `json:"version" doc:"Contiguous from 1 for each subject"`
	Action  string    `json:"action"`
	Actor   string    `json:"actor" doc:"Name of the credential, or system"`
	Event   string    `json:"event,omitzero" doc:"The evidence that caused it"`
	Detail  rawJSON   `json:"detail,omitzero"`
	At      time.Time `json:"at"`
	Prev    string    `json:"prev,omitzero" doc:"Hash of the row before, hexadecimal"`
	Hash    string    `json:"hash" doc:"SHA-256 over the row and the hash before, hexadecimal"`
}

// VerifiedDocument says whether a subject's chain is whole, or all of them are.
type VerifiedDocument struct {
	Subject string `json:"subject,omitzero" doc:"Of all subjects the first whose chain is broken, if any is"`
	Intact  bool   `json:"intact"`
	Rows    int    `json:"rows"`
	// Subjects and Partial are of a call that names no subject.
	Subjects int  `json:"subjects,omitzero" doc:"How many were looked at, of a call without a subject"`
	Partial  bool `json:"partial,omitzero" doc:"There are more subjects than one call looks at"`
	// BrokenAt is the version at which the chain stops to fit.
	BrokenAt int64  `json:"broken_at,omitzero" doc:"The first version that does not fit"`
	Problem  string `json:"problem,omitzero"`
	Head     string `json:"head,omitzero" doc:"Hash of the last row, hexadecimal"`
}

type auditFilter struct {
	Paging
	Subject string `query:"subject"`
	Action  string `query:"action"`
	Actor   string `query:"actor"`
}

type auditSubject struct {
	Subject string `query:"subject" doc:"All subjects if it is missing"`
}

func (a *API) registerAudit() {
	handle(a, call{
		id: "list-audit", method: http.MethodGet, path: "/v1/audit", tag: "audit", role: RoleRead, summary: "List the audit",
	}, a.listAudit)
	handle(a, call{
		id: "verify-audit", method: http.MethodGet, path: "/v1/audit/verify", tag: "audit", role: RoleRead,
		summary: "Recompute a subject's chain, or all of them",
		text:    "Every hash is computed anew from the row's content. For a payment or order the end of the chain is also held against the head in its own row, so that missing last rows are seen. Without a subject the newest 10,000 subjects are looked at, up to the first that is broken.",
	}, a.verifyAudit)
}

func (a *API) listAudit(ctx context.Context, in *auditFilter) (*list[AuditDocument], error) {
	rows, err := view(ctx, a.deps.Store, func(tx store.Reader) ([]store.AuditRow, error) {
		return tx.Audit(ctx, in.filter("subject", in.Subject, "action", in.Action, "actor", in.Actor))
	})
	if err != nil {
		return nil, fmt.Errorf("listing the audit: %w", err)
	}
	return page(rows, in.Limit, auditDocument), nil
}

func (a *API) verifyAudit(ctx context.Context, in *auditSubject) (*one[VerifiedDocument], error) {
	if in.Subject == "" {
		d, err := a.verifyAll(ctx)
		return &one[VerifiedDocument]{Status: http.StatusOK, Body: d}, err
	}
	d, err := view(ctx, a.deps.Store, func(tx store.Reader) (VerifiedDocument, error) { return verifySubject(ctx, tx, in.Subject) })
	return &one[VerifiedDocument]{Status: http.StatusOK, Body: d}, err
}

func verifySubject(ctx context.Context, tx store.Reader, subject string) (VerifiedDocument, error) {
	rows, err := tx.AuditChain(ctx, subject)
	if err != nil {
		return VerifiedDocument{}, fmt.Errorf("reading the chain of %s: %w", subject, err)
	}
	head, err := headOf(ctx, tx, subject)
	if err != nil {
		return VerifiedDocument{}, err
	}
	if len(rows) == 0 && head == nil {
		return VerifiedDocument{}, fmt.Errorf("audit of %s: %w", subject, store.ErrNotFound)
	}
	return verified(subject, rows, head), nil
}

// headOf returns the head that the subject's own row holds, nil if it has none.
func headOf(ctx context.Context, tx store.Reader, subject string) (*store.AuditHead, error) {
	p, err := tx.Payment(ctx, subject)
	switch {
	case err == nil:
		return &p.Audit, nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("reading payment %s: %w", subject, err)
	}
	o, err := tx.OrderByID(ctx, subject)
	switch {
	case err == nil:
		return &o.Audit, nil
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("reading order %s: %w", subject, err)
	}
	return nil, nil
}

// verified walks the chain from its beginning.
func verified(subject string, rows []store.AuditRow, head *store.AuditHead) VerifiedDocument {
	d := VerifiedDocument{Subject: subject, Rows: len(rows)}
	var at store.AuditHead
	for i := range rows {
		row := &rows[i]
		if row.Subject != subject || !row.Intact(at) {
			d.BrokenAt, d.Problem = at.Version+1, "the row does not fit the row before, or not its own hash"
			return d
		}
		at = store.AuditHead{Version: row.Version, Hash: row.Hash}
	}
	d.Head = hex.EncodeToString(at.Hash)
	if head != nil && (head.Version != at.Version || !bytes.Equal(head.Hash, at.Hash)) {
		d.BrokenAt, d.Problem = at.Version+1, "the subject's own row names another end of the chain"
		return d
	}
	d.Intact = true
	return d
}

func auditDocument(r store.AuditRow) AuditDocument {
	return AuditDocument{
		ID: r.ID, Subject: r.Subject, Version: r.Version, Action: r.Action, Actor: r.Actor, Event: r.Entry,
		Detail: rawJSON(r.Detail), At: r.At, Prev: hex.EncodeToString(r.Prev), Hash: hex.EncodeToString(r.Hash),
	}
}

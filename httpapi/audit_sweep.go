package httpapi

import (
	"context"
	"fmt"

	"github.com/unavez/unavez/store"
)

// A call without a subject walks every subject, up to sweepSubjectsMax of them,
// and reads sweepPage subjects in one snapshot, so that no snapshot is held long.
const (
	sweepSubjectsMax = 10_000
	sweepPage        = 100
)

// sweep verifies the chains of many subjects.
type sweep struct {
	store store.Store
	seen  map[string]bool
	doc   VerifiedDocument
}

// subjectsOf returns a page of subjects behind a cursor, and the cursor of the
// last one, empty behind the last page.
type subjectsOf func(ctx context.Context, tx store.Reader, after string) (subjects []string, last string, err error)

// verifyAll looks at every payment and order, so that a chain that is gone as a
// whole is noticed, and then at every other subject that has a row. It ends at
// the first that is broken.
func (a *API) verifyAll(ctx context.Context) (VerifiedDocument, error) {
	s := &sweep{store: a.deps.Store, seen: map[string]bool{}, doc: VerifiedDocument{Intact: true}}
	for _, subjects := range []subjectsOf{paymentSubjects, orderSubjects, auditSubjects} {
		if err := s.walk(ctx, subjects); err != nil {
			return VerifiedDocument{}, fmt.Errorf("verifying the audit: %w", err)
		}
	}
	return s.doc, nil
}

func (s *sweep) walk(ctx context.Context, subjects subjectsOf) error {
	for after, more := "", true; more && s.doc.Intact && !s.doc.Partial; {
		_, err := view(ctx, s.store, func(tx store.Reader) (struct{}, error) {
			page, last, err := subjects(ctx, tx, after)
			if err != nil {
				return struct{}{}, err
			}
			after, more = last, len(page) == sweepPage
			return struct{}{}, s.verify(ctx, tx, page)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) verify(ctx context.Context, tx store.Reader, subjects []string) error {
	for _, subject := range subjects {
		switch {
		case s.seen[subject]:
			continue
		case len(s.seen) == sweepSubjectsMax:
			s.doc.Partial = true
			return nil
		}
		s.seen[subject] = true
		d, err := verifySubject(ctx, tx, subject)
		if err != nil {
			return err
		}
		s.doc.Subjects, s.doc.Rows = s.doc.Subjects+1, s.doc.Rows+d.Rows
		if !d.Intact {
			s.doc.Intact, s.doc.Subject, s.doc.BrokenAt, s.doc.Problem = false, d.Subject, d.BrokenAt, d.Problem
			return nil
		}
	}
	return nil
}

func paymentSubjects(ctx context.Context, tx store.Reader, after string) ([]string, string, error) {
	rows, err := tx.Payments(ctx, store.List{After: after, Limit: sweepPage})
	return subjectIDs(rows, func(p store.Payment) string { return p.ID }, err)
}

func orderSubjects(ctx context.Context, tx store.Reader, after string) ([]string, string, error) {
	rows, err := tx.Orders(ctx, store.List{After: after, Limit: sweepPage})
	return subjectIDs(rows, func(o store.Order) string { return o.ID }, err)
}

// auditSubjects names a subject once for each of its rows.
func auditSubjects(ctx context.Context, tx store.Reader, after string) ([]string, string, error) {
	rows, err := tx.Audit(ctx, store.List{After: after, Limit: sweepPage})
	if err != nil || len(rows) == 0 {
		return nil, after, err
	}
	subjects, _, err := subjectIDs(rows, func(r store.AuditRow) string { return r.Subject }, nil)
	return subjects, rows[len(rows)-1].ID, err
}

func subjectIDs[R any](rows []R, id func(R) string, err error) ([]string, string, error) {
	if err != nil || len(rows) == 0 {
		return nil, "", err
	}
	ids := make([]string, 0, len(rows))
	for _, r := range rows {
		ids = append(ids, id(r))
	}
	return ids, ids[len(ids)-1], nil
}

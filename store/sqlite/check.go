package sqlite

import (
	"context"
	"fmt"

	"github.com/unavez/unavez/store"
)

// settings are what durability rests on, with the values that they must have.
var settings = []struct{ pragma, want, wantName string }{
	{"journal_mode", "wal", "wal"},
	{"synchronous", "2", "full"},
}

// Check implements store.Store.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var findings []store.Finding
	err := s.writer.lend(ctx, func(c *conn) error {
		for _, setting := range settings {
			got, err := c.pragma(ctx, setting.pragma)
			if err != nil {
				return fmt.Errorf("sqlite: reading %s: %w", setting.pragma, judge(err))
			}
			f := store.Finding{Name: setting.pragma, OK: got == setting.want, Message: "is " + setting.wantName}
			if !f.OK {
				f.Message = fmt.Sprintf("is %s, and a commit is only durable with %s", got, setting.wantName)
			}
			findings = append(findings, f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, newest, err := s.versions(ctx)
	if err != nil {
		return findings, err
	}
	for _, m := range all {
		if !m.Applied {
			return findings, fmt.Errorf("sqlite: %w: migration %d of %s is missing", store.ErrSchema, m.Version, s.path)
		}
	}
	if known := all[len(all)-1].Version; newest > known {
		return findings, fmt.Errorf("sqlite: %w: %s is at version %d and this program knows %d", store.ErrSchema, s.path, newest, known)
	}
	return append(findings, store.Finding{Name: "schema", OK: true, Message: fmt.Sprintf("is at version %d", newest)}), nil
}

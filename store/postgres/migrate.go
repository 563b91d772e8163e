package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/unavez/unavez/store"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

const (
	migrationDir = "migration"
	// migrationTable keeps which migrations were applied.
	migrationTable = "unavez_migration"
	// migrationLock is the advisory lock of whoever migrates.
	migrationLock = 0x756e6176657a // "unavez"
)

// embedded are the migrations of this program, oldest first.
func embedded() ([]store.Migration, error) {
	files, err := fs.Glob(migrationFiles, migrationDir+"/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	list := make([]store.Migration, len(files))
	for i, file := range files {
		text, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(strings.TrimPrefix(file, migrationDir+"/"), ".sql")
		number, name, _ := strings.Cut(base, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", file, err)
		}
		list[i] = store.Migration{Version: version, Name: name, SQL: string(text)}
	}
	return list, nil
}

// MigrateUp implements store.Migrator. Each migration is one transaction;
// processes that migrate at once wait for each other. It returns what this call
// applied.
func (s *Store) MigrateUp(ctx context.Context) ([]store.Migration, error) {
	config := s.pool.Config().ConnConfig.Copy()
	for _, limit := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		config.RuntimeParams[limit] = "0" // a large ledger takes its time
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	files, err := fs.Sub(migrationFiles, migrationDir)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(migrationTable),
		goose.WithSessionLocker(advisory{}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, doing("reading migrations", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, doing("migrating", judge(err, false))
	}
	applied := map[int64]bool{}
	for _, r := range results {
		applied[r.Source.Version] = true
	}
	all, err := s.Migrations(ctx)
	return slices.DeleteFunc(all, func(m store.Migration) bool { return !applied[m.Version] }), err
}

// advisory lets one process migrate at a time. A session that dies gives the
// lock back.
type advisory struct{}

var _ lock.SessionLocker = advisory{}

func (advisory) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock))
	return err
}

func (advisory) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
	return err
}

// Migrations implements store.Migrator. It changes nothing. Versions that this
// program does not know have no text.
func (s *Store) Migrations(ctx context.Context) ([]store.Migration, error) {
	list, err := embedded()
	if err != nil {
		return nil, doing("reading migrations", err)
	}
	var applied map[int64]time.Time
	err = s.View(ctx, func(r store.Reader) (err error) {
		applied, err = r.(*tx).applied(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range list {
		if at, ok := applied[list[i].Version]; ok {
			list[i].Applied, list[i].AppliedAt = true, at
			delete(applied, list[i].Version)
		}
	}
	for version, at := range applied {
		list = append(list, store.Migration{Version: version, Applied: true, AppliedAt: at})
	}
	slices.SortFunc(list, func(a, b store.Migration) int { return int(a.Version - b.Version) })
	return list, nil
}

// applied reads when migrations were applied; there may be no table yet.
func (t *tx) applied(ctx context.Context) (map[int64]time.Time, error) {
	const what = "reading applied migrations"
	there, err := row(ctx, t, what, pgx.RowTo[bool], `SELECT to_regclass($1) IS NOT NULL`, migrationTable)
	applied := map[int64]time.Time{}
	if err != nil || !there {
		return applied, err
	}
	type step struct {
		version int64
		at      int64
	}
	steps, err := rows(ctx, t, what, func(r pgx.CollectableRow) (s step, err error) {
		err = r.Scan(&s.version, &s.at)
		return s, err
	}, `SELECT version_id, (extract(epoch FROM tstamp) * 1000000)::bigint FROM `+migrationTable+` WHERE is_applied AND version_id > 0 ORDER BY id`)
	for _, s := range steps {
		applied[s.version] = moment(s.at)
	}
	return applied, err
}

var (
	errSchemaOlder = errors.New("migrations are missing: run the program's migrate command")
	errSchemaNewer = errors.New("a newer program has migrated this database")
)

// schema says whether the database has exactly this program's migrations.
func (s *Store) schema(ctx context.Context) error {
	list, err := s.Migrations(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		switch {
		case !m.Applied:
			return &failure{sentinel: store.ErrSchema, cause: errSchemaOlder}
		case m.SQL == "":
			return &failure{sentinel: store.ErrSchema, cause: errSchemaNewer}
		}
	}
	return nil
}

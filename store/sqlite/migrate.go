package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/unavez/unavez/store"
)

//go:embed migration/*.sql
var migrations embed.FS

const (
	migrationDir = "migration"
	versionTable = "goose_db_version"
	// migrateTriesMax bounds the tries of one process against others that
	// migrate the same file.
	migrateTriesMax = 5
)

// MigrateUp implements store.Migrator. Where several processes migrate at once,
// one does each step and the others find it done.
func (s *Store) MigrateUp(ctx context.Context) (done []store.Migration, err error) {
	err = s.writer.lend(ctx, func(*conn) error {
		for try := 1; ; try++ {
			fresh, err := s.up(ctx)
			done = append(done, fresh...)
			if err == nil || try >= migrateTriesMax || !pause(ctx, try) {
				return err
			}
		}
	})
	if err != nil {
		return done, fmt.Errorf("sqlite: migrating %s: %w", s.path, err)
	}
	return done, nil
}

// up runs what is missing, each migration in a transaction of its own that
// waits for the right to write before it begins.
func (s *Store) up(ctx context.Context) (done []store.Migration, err error) {
	db, err := s.database("&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	files, err := fs.Sub(migrations, migrationDir)
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	for _, r := range results {
		if r.Error == nil {
			done = append(done, store.Migration{
				Version: r.Source.Version, Name: migrationName(r.Source.Path), Applied: true, AppliedAt: s.now(), SQL: migrationText(r.Source.Path),
			})
		}
	}
	return done, judge(err)
}

// Migrations implements store.Migrator. It only reads.
func (s *Store) Migrations(ctx context.Context) ([]store.Migration, error) {
	all, _, err := s.versions(ctx)
	return all, err
}

// versions lists the migrations of this program, and the newest version that
// the file has.
func (s *Store) versions(ctx context.Context) (all []store.Migration, newest int64, err error) {
	applied := map[int64]time.Time{}
	err = s.readers.lend(ctx, func(c *conn) error {
		var there int
		if err := c.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ?", versionTable).Scan(&there); err != nil || there == 0 {
			return err
		}
		rows, err := c.QueryContext(ctx, "SELECT version_id, CAST(tstamp AS TEXT) FROM "+versionTable+" WHERE is_applied = 1 AND version_id > 0")
		if err != nil {
			return err
		}
		newest, err = scanVersions(rows, applied)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("sqlite: reading the versions of %s: %w", s.path, judge(err))
	}
	files, err := fs.ReadDir(migrations, migrationDir)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("sqlite: migration %s has no number: %w", f.Name(), err)
		}
		at, ok := applied[version]
		all = append(all, store.Migration{
			Version: version, Name: migrationName(f.Name()), Applied: ok, AppliedAt: at, SQL: migrationText(f.Name()),
		})
	}
	return all, newest, nil
}

func scanVersions(rows *sql.Rows, applied map[int64]time.Time) (newest int64, err error) {
	defer rows.Close()
	for rows.Next() {
		var version int64
		var at string
		if err := rows.Scan(&version, &at); err != nil {
			return 0, err
		}
		if applied[version], err = time.Parse(time.DateTime, at); err != nil {
			return 0, err
		}
		newest = max(newest, version)
	}
	return newest, rows.Err()
}

func migrationName(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
	return name
}

func migrationText(file string) string {
	text, err := migrations.ReadFile(path.Join(migrationDir, path.Base(file)))
	if err != nil {
		panic("sqlite: impossible: an embedded file is gone: " + err.Error())
	}
	return string(text)
}

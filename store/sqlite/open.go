package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver

	"github.com/unavez/unavez/store"
)

//go:embed migration/*.sql
var migrations embed.FS

// Defaults and bounds.
const (
	DefaultReaders     = 8
	DefaultBusyTimeout = 5 * time.Second
	defaultTxTimeout   = 30 * time.Second
	commitTimeout      = 30 * time.Second
	retriesMax         = 8
	cacheKiB           = 16 << 10
)

// Options tune a Store; zero values are the defaults.
type Options struct {
	// Now is the ledger's clock.
	Now func() time.Time
	// Readers bounds the connections that read at once.
	Readers int
	// BusyTimeout bounds the wait for another process's write.
	BusyTimeout time.Duration
	Logger      *slog.Logger
}

// Store is a ledger in one file.
type Store struct {
	path    string
	opt     Options
	writers *sql.DB
	readers *sql.DB

	// turn holds the writer's connection; whoever receives it writes.
	turn   chan *writer
	epoch  atomic.Uint64
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	wakes map[string][]chan struct{}
}

// writer is the one writing connection with its prepared statements.
type writer struct {
	conn *sql.Conn
	stmt map[string]*sql.Stmt
}

// Open opens or creates the file. It does not migrate.
func Open(ctx context.Context, path string, opt Options) (*Store, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Readers == 0 {
		opt.Readers = DefaultReaders
	}
	if opt.BusyTimeout == 0 {
		opt.BusyTimeout = DefaultBusyTimeout
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkDirectory(path); err != nil {
		return nil, err
	}
	s := &Store{
		path: path, opt: opt, turn: make(chan *writer, 1), closed: make(chan struct{}), wakes: map[string][]chan struct{}{},
	}
	var err error
	if s.writers, err = sql.Open("sqlite", s.dsn("")); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	s.writers.SetMaxOpenConns(1)
	if s.readers, err = sql.Open("sqlite", s.dsn("&_pragma=query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), s.writers.Close())
	}
	s.readers.SetMaxOpenConns(opt.Readers)
	s.readers.SetMaxIdleConns(opt.Readers)
	w, err := s.connect(ctx)
	if err != nil {
		return nil, errors.Join(err, s.writers.Close(), s.readers.Close())
	}
	s.turn <- w
	return s, nil
}

func checkDirectory(path string) error {
	if path == "" || strings.ContainsAny(path, "\x00?#") {
		return fmt.Errorf("sqlite: path %q cannot be a database: %w", path, store.ErrUnavailable)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("sqlite: the folder of %s: %w: %w", path, store.ErrUnavailable, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("sqlite: %s is no folder: %w", filepath.Dir(path), store.ErrUnavailable)
	}
	return nil
}

func (s *Store) dsn(extra string) string {
	return "file:" + (&url.URL{Path: s.path}).EscapedPath() + fmt.Sprintf(
		"?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(0)"+
			"&_pragma=cache_size(-%d)&_pragma=temp_store(MEMORY)%s", s.opt.BusyTimeout.Milliseconds(), cacheKiB, extra)
}

// connect opens the writing connection and checks that the file may be ours.
func (s *Store) connect(ctx context.Context) (*writer, error) {
	conn, err := s.writers.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", s.path, translate(err))
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", s.path, translate(err)), conn.Close())
	}
	if mode != "wal" {
		return nil, errors.Join(fmt.Errorf(
			"sqlite: %s is in journal mode %s and another process keeps it there, not wal: %w", s.path, mode, store.ErrUnavailable), conn.Close())
	}
	return &writer{conn: conn, stmt: map[string]*sql.Stmt{}}, nil
}

// Close waits for the open write and closes the file. Closing again does nothing.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		if w := <-s.turn; w != nil {
			err = w.conn.Close()
		}
		err = errors.Join(err, s.writers.Close(), s.readers.Close())
	})
	return err
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Epoch implements store.Store.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// Now implements store.Store.
func (s *Store) Now(context.Context) (time.Time, error) { return s.now(), nil }

func (s *Store) now() time.Time { return s.opt.Now().UTC().Truncate(time.Microsecond) }

// Wake implements store.Store. The hint reaches this process only; others poll.
func (s *Store) Wake(queue string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	list := s.wakes[queue]
	if len(list) >= wakesMax {
		list = list[1:]
	}
	s.wakes[queue] = append(list, c)
	return c
}

// wakesMax bounds the waiting channels of one queue; the oldest is forgotten.
const wakesMax = 64

func (s *Store) signal(queues map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range queues {
		for _, c := range s.wakes[q] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

// Check implements store.Store.
func (s *Store) Check(ctx context.Context) ([]store.Finding, error) {
	var findings []store.Finding
	err := s.View(ctx, func(r store.Reader) error {
		q := r.(*tx).q
		for _, want := range []struct{ pragma, value, name string }{
			{"journal_mode", "wal", "journal"}, {"synchronous", "2", "synchronous"},
		} {
			var got string
			if err := q.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil {
				return translate(err)
			}
			findings = append(findings, store.Finding{
				Name: want.name, OK: got == want.value, Message: fmt.Sprintf("%s is %s (wanted %s)", want.pragma, got, want.value),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all, err := s.Migrations(ctx)
	if err != nil {
		return findings, err
	}
	for _, m := range all {
		if !m.Applied {
			return findings, fmt.Errorf("sqlite: migration %d is missing: %w", m.Version, store.ErrSchema)
		}
	}
	return append(findings, store.Finding{Name: "schema", OK: true, Message: fmt.Sprintf("version %d of %d", len(all), len(all))}), nil
}

// withWriter lends the writing connection.
func (s *Store) withWriter(ctx context.Context, fn func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return fmt.Errorf("sqlite: closed: %w", store.ErrUnavailable)
	case <-ctx.Done():
		return ctx.Err()
	case w := <-s.turn:
		defer func() { s.turn <- w }()
		if s.isClosed() {
			return fmt.Errorf("sqlite: closed: %w", store.ErrUnavailable)
		}
		if w == nil {
			var err error
			if w, err = s.connect(ctx); err != nil {
				return err
			}
			s.epoch.Add(1)
		}
		err := fn(w)
		if errors.Is(err, store.ErrCommitUnknown) || errors.Is(err, errBroken) {
			_ = w.conn.Close()
			s.writers.SetMaxIdleConns(0)
			w = nil
		}
		return err
	}
}

// migrator runs fn with a goose provider over the writing connection's database.
func (s *Store) migrator(ctx context.Context, fn func(*goose.Provider) error) error {
	db, err := sql.Open("sqlite", s.dsn("&_txlock=immediate"))
	if err != nil {
		return fmt.Errorf("opening %s: %w", s.path, err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	root, err := fs.Sub(migrations, "migration")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, root)
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	return fn(p)
}

// MigrateUp implements store.Migrator.
func (s *Store) MigrateUp(ctx context.Context) ([]store.Migration, error) {
	var done []store.Migration
	err := s.withWriter(ctx, func(*writer) error {
		return s.migrator(ctx, func(p *goose.Provider) error {
			results, err := p.Up(ctx)
			if err != nil {
				return fmt.Errorf("migrating %s: %w", s.path, translate(err))
			}
			for _, r := range results {
				done = append(done, store.Migration{
					Version: r.Source.Version, Name: migrationName(r.Source.Path), Applied: true, AppliedAt: s.now(),
				})
			}
			return nil
		})
	})
	return done, err
}

// Migrations implements store.Migrator.
func (s *Store) Migrations(ctx context.Context) ([]store.Migration, error) {
	var all []store.Migration
	err := s.withWriter(ctx, func(*writer) error {
		return s.migrator(ctx, func(p *goose.Provider) error {
			status, err := p.Status(ctx)
			if err != nil {
				return fmt.Errorf("reading the state of migrations: %w", translate(err))
			}
			for _, st := range status {
				text, err := migrations.ReadFile("migration/" + filepath.Base(st.Source.Path))
				if err != nil {
					return err
				}
				all = append(all, store.Migration{
					Version: st.Source.Version, Name: migrationName(st.Source.Path), Applied: st.State == goose.StateApplied,
					AppliedAt: st.AppliedAt.UTC(), SQL: string(text),
				})
			}
			return nil
		})
	})
	return all, err
}

func migrationName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".sql")
	_, name, _ = strings.Cut(name, "_")
	return name
}

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/unavez/unavez/store"
)

// Defaults and bounds.
const (
	// DefaultReaders is the number of connections that read at once.
	DefaultReaders = 4
	// DefaultLockTimeout bounds the wait for the right to write.
	DefaultLockTimeout = 10 * time.Second
	// DefaultTimeout bounds one transaction.
	DefaultTimeout = 30 * time.Second
	// cacheKiB is the page cache of a connection.
	cacheKiB = 8 << 10
	// walBytesMax is what the log is cut down to when it was written back.
	walBytesMax = 64 << 20
	// openTimeout bounds the wait for a file that another program holds.
	openTimeout = 5 * time.Second
	// fileMode keeps the file to its owner: it holds what customers paid.
	fileMode = 0o600
	// applicationID marks our files in their header: "unav" in ASCII.
	applicationID = 0x756e6176
)

// Options tune a Store; zero values are the defaults.
type Options struct {
	// Now is the ledger's clock; leases and delays are by it. Processes that
	// share a file must agree on it.
	Now func() time.Time
	// Readers bounds the connections that read at once.
	Readers int
	// LockTimeout bounds the wait for the right to write where a transaction
	// does not say otherwise.
	LockTimeout time.Duration
	Logger      *slog.Logger

	// Wrap, if given, puts a layer between the ledger and the driver, to see its
	// statements or to let one fail. It must pass on what it does not answer.
	Wrap func(driver.Connector) driver.Connector

	// openTimeout shortens the wait at opening, for tests.
	openTimeout time.Duration
}

// Store is a ledger in one file.
type Store struct {
	path    string
	opt     Options
	writer  *pool
	readers *pool
	epoch   atomic.Uint64
	closed  chan struct{}
	once    sync.Once
	closing error
	wakes   wakes
}

var _ store.Store = (*Store)(nil)

// Open opens the file and creates it where there is none. It does not migrate.
// store.ErrUnavailable if it cannot be opened, store.ErrSchema if it is another
// program's. The directory must exist and take locks: no network file system.
func Open(ctx context.Context, path string, opt Options) (*Store, error) {
	opt.fill()
	if err := create(path); err != nil {
		return nil, fmt.Errorf("sqlite: %w: %w", store.ErrUnavailable, err)
	}
	// On Linux this is what SQLite does by itself when it is built from source.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("sqlite: %w: %w", store.ErrUnavailable, err)
	}
	s := &Store{path: path, opt: opt, closed: make(chan struct{})}
	writes, err := s.database("")
	if err != nil {
		return nil, err
	}
	reads, err := s.database("&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	s.writer, s.readers = newPool(writes, 1, s.closed), newPool(reads, opt.Readers, s.closed)
	s.writer.lost, s.readers.lost = s.lost, s.lost
	s.writer.admit = s.admit
	err = s.writer.lend(ctx, func(*conn) error { return nil })
	if errors.Is(err, store.ErrBusy) {
		err = fmt.Errorf("another program holds the file and keeps it from the journal mode wal: %w", err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: opening %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (opt *Options) fill() {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Readers <= 0 {
		opt.Readers = DefaultReaders
	}
	if opt.LockTimeout <= 0 {
		opt.LockTimeout = DefaultLockTimeout
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.openTimeout <= 0 {
		opt.openTimeout = openTimeout
	}
	if opt.Wrap == nil {
		opt.Wrap = func(c driver.Connector) driver.Connector { return c }
	}
}

// creating keeps a file that one Store of the process creates from being opened
// by another before it is closed again: the close would take its locks away.
var creating sync.Mutex

// create makes the file for its owner alone. A file that is there is not touched.
func create(path string) error {
	if path == "" || strings.HasPrefix(path, ":") || strings.ContainsRune(path, 0) {
		return fmt.Errorf("a ledger needs a file, %q is none", path)
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// database prepares connections; none is opened yet.
func (s *Store) database(extra string) (*sql.DB, error) {
	path, err := filepath.Abs(s.path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: finding %s: %w", s.path, err)
	}
	dsn := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() +
		"?_pragma=busy_timeout(" + strconv.FormatInt(s.opt.openTimeout.Milliseconds(), 10) + ")" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=temp_store(MEMORY)&_pragma=trusted_schema(0)" +
		"&_pragma=cache_size(-" + strconv.Itoa(cacheKiB) + ")&_pragma=journal_size_limit(" + strconv.Itoa(walBytesMax) + ")" + extra
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("sqlite: opening %s: %w", s.path, err)
	}
	return sql.OpenDB(s.opt.Wrap(c)), nil
}

// admit refuses files that are not in WAL mode or not ours.
func (s *Store) admit(ctx context.Context, c *conn) error {
	mode, err := c.pragma(ctx, "journal_mode")
	if err != nil {
		return judge(err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the journal mode stays %q and wal is needed; another program holds the file, or its file system takes no WAL",
			store.ErrUnavailable, mode)
	}
	owner, err := c.pragma(ctx, "application_id")
	if err != nil {
		return judge(err)
	}
	var tables int
	if err := c.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return judge(err)
	}
	if owner != strconv.Itoa(applicationID) && (owner != "0" || tables > 0 && !onlyVersions(ctx, c)) {
		return fmt.Errorf("%w: the file belongs to another program (application id %s, %d objects)", store.ErrSchema, owner, tables)
	}
	// From here on the contexts of the callers bound the wait for others.
	if _, err := c.ExecContext(ctx, "PRAGMA busy_timeout = "+strconv.FormatInt(busyTimeout.Milliseconds(), 10)); err != nil {
		return judge(err)
	}
	return nil
}

// onlyVersions says that a migration was begun and nothing was migrated yet.
func onlyVersions(ctx context.Context, c *conn) bool {
	var others int
	err := c.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE tbl_name NOT IN (?, 'sqlite_sequence')", versionTable).Scan(&others)
	return err == nil && others == 0
}

// lost notes that a connection was given up. Whatever is cached of committed
// state may be wrong from here on.
func (s *Store) lost(err error) {
	s.epoch.Add(1)
	s.opt.Logger.Warn("a connection to the ledger was given up", "path", s.path, "error", err)
}

// Close waits for what is under way and closes the file. Closing again does nothing.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closed)
		if err := errors.Join(s.writer.drain(), s.readers.drain()); err != nil {
			s.closing = fmt.Errorf("sqlite: closing %s: %w", s.path, err)
		}
	})
	return s.closing
}

// Epoch implements store.Store.
func (s *Store) Epoch() uint64 { return s.epoch.Load() }

// Now implements store.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.now(), ctx.Err() }

func (s *Store) now() time.Time { return s.opt.Now().UTC().Truncate(time.Microsecond) }

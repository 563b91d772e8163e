package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/unavez/unavez/store"
)

// primaryCode masks the extended part of a result code.
const primaryCode = 0xff

// judgments is what the primary result codes mean to callers.
var judgments = map[int]error{
	sqlite3.SQLITE_BUSY:       store.ErrBusy, // BUSY_SNAPSHOT and BUSY_RECOVERY with it
	sqlite3.SQLITE_LOCKED:     store.ErrBusy,
	sqlite3.SQLITE_FULL:       store.ErrFull,
	sqlite3.SQLITE_READONLY:   store.ErrFull,
	sqlite3.SQLITE_PERM:       store.ErrFull,
	sqlite3.SQLITE_IOERR:      store.ErrUnavailable,
	sqlite3.SQLITE_CANTOPEN:   store.ErrUnavailable,
	sqlite3.SQLITE_CORRUPT:    store.ErrUnavailable,
	sqlite3.SQLITE_NOTADB:     store.ErrUnavailable,
	sqlite3.SQLITE_NOMEM:      store.ErrUnavailable,
	sqlite3.SQLITE_PROTOCOL:   store.ErrUnavailable,
	sqlite3.SQLITE_CONSTRAINT: store.ErrConflict,
}

// coded is an error of the driver with SQLite's result code.
type coded interface{ Code() int }

func codeOf(err error) int {
	if c := coded(nil); errors.As(err, &c) {
		return c.Code() & primaryCode
	}
	return sqlite3.SQLITE_OK
}

// judge gives an error of the driver the sentinel that callers look for.
func judge(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	code := codeOf(err)
	if sentinel := judgments[code]; sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	// SQLite has no code of its own for what is not in the schema.
	if text := err.Error(); code == sqlite3.SQLITE_ERROR && (strings.Contains(text, "no such table") || strings.Contains(text, "no such column")) {
		return fmt.Errorf("%w: %w", store.ErrSchema, err)
	}
	return err
}

// doubtful says that an error leaves the connection in a state that nobody knows.
func doubtful(err error) bool {
	switch codeOf(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL,
		sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_INTERNAL:
		return true
	}
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn)
}

func busy(err error) bool {
	code := codeOf(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

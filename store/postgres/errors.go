package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/unavez/unavez/store"
)

// remedy says what may be done about a failure.
type remedy int

const (
	// noRemedy: the same again would fail again, or nobody knows.
	noRemedy remedy = iota
	// runAgain: the server undid the transaction for the sake of another one.
	runAgain
	// waitAgain: a lock was not to be had in time.
	waitAgain
	// reconnect: the connection is lost, and with it the open transaction.
	reconnect
)

// failure is what the server or the connection answered, with the sentinel
// that callers look for.
type failure struct {
	sentinel error // nil where none fits
	cause    error
	remedy   remedy
}

func (f *failure) Error() string {
	if f.sentinel == nil {
		return f.cause.Error()
	}
	return f.sentinel.Error() + ": " + f.cause.Error()
}

func (f *failure) Unwrap() []error {
	if f.sentinel == nil {
		return []error{f.cause}
	}
	return []error{f.sentinel, f.cause}
}

// judgment is how answers of the server with a SQLSTATE are met. The longest
// prefix decides.
var judgments = map[string]failure{
	"40001": {sentinel: store.ErrBusy, remedy: runAgain},  // serialization_failure
	"40P01": {sentinel: store.ErrBusy, remedy: runAgain},  // deadlock_detected
	"55P03": {sentinel: store.ErrBusy, remedy: waitAgain}, // lock_not_available
	"57014": {sentinel: store.ErrBusy},                    // query_canceled, by its time limit
	"08":    {sentinel: store.ErrUnavailable, remedy: reconnect},
	"25P03": {sentinel: store.ErrUnavailable, remedy: reconnect}, // idle_in_transaction_session_timeout
	"25P04": {sentinel: store.ErrUnavailable, remedy: reconnect}, // transaction_timeout
	"25006": {sentinel: store.ErrUnavailable, remedy: reconnect}, // read_only: the server has become a standby
	"53300": {sentinel: store.ErrUnavailable, remedy: reconnect}, // too_many_connections
	"57P":   {sentinel: store.ErrUnavailable, remedy: reconnect}, // shutdown, crash, starting up
	"28":    {sentinel: store.ErrUnavailable},                    // authentication
	"3D000": {sentinel: store.ErrUnavailable},                    // no such database
	"53100": {sentinel: store.ErrFull},                           // disk_full
	"53200": {sentinel: store.ErrUnavailable},                    // out_of_memory
	"58030": {sentinel: store.ErrFull},                           // io_error
	"23505": {sentinel: store.ErrConflict},                       // unique_violation
	"42P01": {sentinel: store.ErrSchema},                         // undefined_table
	"42703": {sentinel: store.ErrSchema},                         // undefined_column
	"3F000": {sentinel: store.ErrSchema},                         // no such schema
}

const sqlstateBytes = 5

// judge finds out what a failure of the driver means. closed says that the
// connection is gone.
func judge(err error, closed bool) error {
	if f := (*failure)(nil); err == nil || errors.As(err, &f) {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return &failure{sentinel: store.ErrNotFound, cause: err}
	}
	if answer := (*pgconn.PgError)(nil); errors.As(err, &answer) {
		for n := sqlstateBytes; n >= 2; n-- {
			if len(answer.Code) < n {
				continue
			}
			if known, ok := judgments[answer.Code[:n]]; ok {
				known.cause = err
				return &known
			}
		}
		if fatal(answer) {
			return &failure{sentinel: store.ErrUnavailable, cause: err, remedy: reconnect}
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if connect := (*pgconn.ConnectError)(nil); closed || errors.As(err, &connect) {
		return &failure{sentinel: store.ErrUnavailable, cause: err, remedy: reconnect}
	}
	return err
}

// fatal says that the server ends the session with this answer.
func fatal(answer *pgconn.PgError) bool {
	severity := answer.SeverityUnlocalized
	if severity == "" {
		severity = answer.Severity
	}
	return severity != "ERROR"
}

func remedyOf(err error) remedy {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f.remedy
	}
	return noRemedy
}

// doing wraps an error with what was attempted, and on what.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// missing is ErrNotFound about something that was named by its id.
func missing(kind string, id ...string) error {
	return fmt.Errorf("postgres: %s %s: %w", kind, strings.Join(id, " "), store.ErrNotFound)
}

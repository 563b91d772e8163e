package store

import "errors"

// Sentinels of the port.
var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("store: not found")
	// ErrCommitUnknown: the connection was lost at COMMIT, or the server warned
	// that the commit may not be as durable as promised. Re-read by identity.
	ErrCommitUnknown = errors.New("store: result of commit unknown")
	// ErrLeaseLost: the work was claimed by somebody else meanwhile; the
	// transaction must be rolled back.
	ErrLeaseLost = errors.New("store: lease lost")
	// ErrBusy: a lock was not to be had within the transaction's lock timeout.
	ErrBusy = errors.New("store: busy")
	// ErrUnavailable: the database cannot be reached or does not accept work.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrConflict: a unique name or key belongs to something else.
	ErrConflict = errors.New("store: conflict")
	// ErrSchema: the schema is missing, older or newer than this program.
	ErrSchema = errors.New("store: schema does not fit")
	// ErrFilter: a list was asked to select by a column that it does not have, or
	// by a value that the column cannot hold.
	ErrFilter = errors.New("store: no such filter")
	// ErrFull: the disk or the database file is full or not writable.
	ErrFull = errors.New("store: no room or not writable")
)

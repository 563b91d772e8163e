// Package sqlite keeps the ledger in one SQLite file on one machine.
//
// Place in the flow: under every stage, behind the port store. One connection
// writes, a few read; callers queue for them in Go, in the order of their
// coming, so that waiting is fair and ends with its context. Other processes may
// open the same file; SQLite's own lock is between them and us.
//
// Invariant: WAL with synchronous=FULL, so that a commit that returned is on the
// disk. A transaction in which a statement failed is never committed, and a
// COMMIT that failed in any way but "busy" is store.ErrCommitUnknown. A
// connection that met either is closed and not used again.
//
// The file must not be opened and closed by other code of the same process (to
// copy it, say): POSIX takes all locks of a process away at any close.
//
// A crash here costs the open transaction.
package sqlite

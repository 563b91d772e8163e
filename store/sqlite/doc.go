// Package sqlite keeps the ledger in one SQLite file on one machine.
//
// Place in the flow: under every stage, behind the port store. One connection
// writes, a pool reads; callers queue for the writer in Go, so that waiting is
// fair and ends with its context. Several processes may open the same file.
//
// Invariant: WAL with synchronous=FULL, so that a commit that returned is on
// the disk. A crash here costs the open transaction.
package sqlite

// Package postgres keeps the ledger in PostgreSQL, 14 or newer.
//
// Place in the flow: under every stage, behind the port store. A transaction
// runs READ COMMITTED; every method is one round trip or two, whatever the
// number of rows, and rows are locked in sorted order. Sessions pin the shape
// of their plans (see session), so that a statement that was prepared while a
// table was empty stays right when it is full.
//
// Invariant: a transaction that InTx reports as committed was committed by the
// server without a warning; one whose fate is not known is
// store.ErrCommitUnknown, and its connection is closed, never used again. A
// lane is leased to one token at a time, and work leaves the queue only in a
// transaction that still held it.
//
// A crash here costs the open transaction. Lanes that were claimed lapse with
// their lease, and their items come back marked as suspect.
package postgres

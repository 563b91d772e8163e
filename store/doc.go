// Package store is the port to the ledger: one Store, one Tx.
//
// Place in the flow: under every stage. It keeps the three unique constraints
// that carry the promise (event identity, fact, effect) and the queues of what
// is left to do. Two backends implement it, postgres and sqlite, with SQL of
// their own; the suites in storetest keep them equal.
//
// Invariant: what a method says is stored is durable when the transaction's
// commit has returned without error. A commit whose result is not known is
// ErrCommitUnknown: it is never taken for success or for failure.
//
// A crash here costs the open transaction and nothing else.
package store

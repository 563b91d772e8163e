// Package apply turns evidence into facts, facts into state, and state into
// effects, in one transaction.
//
// Place in the flow: between the inbox and the outbox. A step takes a batch of
// entries, resolves each to a payment by its names, locks the orders and then
// their payments, folds the new facts into each payment's set, and writes
// facts, payments, orders, effects, messages, exceptions, audit rows and the
// entries' results together, or nothing of it.
//
// Invariant: an entry has a final result only if everything it causes has
// committed with that result; a payment's derived columns are always the fold
// of its stored facts; an order is told to fulfill at most once.
//
// A crash here costs the open transaction. The claim was committed before the
// work, so that the entries of a crashed batch come back as suspects and are
// tried alone; only such solo runs count towards the limit of attempts.
package apply

// Package inbox makes evidence durable, each piece once.
//
// Place in the flow: between receive (and every other source of evidence) and
// apply. A caller hands in a draft and waits; flushers take whatever queued up
// while the previous commit ran and store it in one transaction: entry, bytes
// and the work for apply. There is no timer: one caller alone waits for one
// commit, many callers share one.
//
// Invariant: Put returns without an error only for evidence that is durable,
// by a commit that this process saw succeed: of the entry itself, or of a
// write made after the entry was seen. A commit in doubt is run again, and
// proves the first one or replaces it; doubt that stays is ErrNotStored. The
// store's unique constraint tells new from known; the cache in front of it
// holds only identities whose commit was seen, and forgets them whenever a
// connection to the ledger was lost.
//
// A crash here costs the open transaction and the count of some repeated
// deliveries. Nobody was told that anything of it was stored.
package inbox

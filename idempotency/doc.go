// Package idempotency keeps answers under the caller's Idempotency-Key, so that
// a request that is sent again is answered again and not done again.
//
// Place in the flow: at the edge, in front of what a caller asks for. It is a
// net/http middleware over the ledger.
//
//	begin (commit) ─▶ handler, with transactions of its own ─▶ finish (commit) ─▶ answer
//
// Invariants: of two requests with one key at once, one is run; an answer
// leaves only after it is stored; within a key's lifetime its answer is
// replayed as it was, and for as long again the key is refused and never taken
// for a new one. A key belongs to the caller, not to the token that the caller
// shows.
//
// A crash between begin and finish leaves a key that is running under a lease.
// When the lease has lapsed, the request is run once more and that answer is
// kept: what stands behind this package has to be idempotent by nature, and the
// key then spares the work and keeps the answer equal.
package idempotency

// Package outbox delivers messages to the merchant's systems after the change
// that caused them has committed.
//
// Place in the flow: stage 4, behind apply, which stores each message with its
// change. A Relay has one group of workers for each destination, so that a slow
// or failing destination holds up no other; several relays, in one process or
// many, share the work through leased lanes.
//
//	claim lanes ─▶ load ─▶ breaker ─▶ count ─▶ send ─▶ judge ─▶ mark
//	 ledger                           commit   network          commit
//
// Invariants: a message keeps its id, and with it its idempotency key, over all
// attempts and restarts. An attempt is counted and committed before the first
// byte is sent, so that none is ever forgotten. Within a lane nothing overtakes
// a message that is still being tried. No network call runs inside a database
// transaction.
//
// A crash here costs at most a repetition: a message that was taken and not yet
// marked is sent again with the same id. For a destination that cannot
// recognize it, such a message stops and waits for a person.
package outbox

// Package httpapi is the JSON API on the private listener, with its OpenAPI
// document, health, and metrics.
//
// Place in the flow: the edge for the merchant's own programs and people. It
// adds no rule of its own to payments: it reads the ledger and calls apply and
// outbox, which keep the invariants.
//
//	request id, log, recovery ─▶ host and origin ─▶ token ─▶ role ─▶ Idempotency-Key ─▶ call
//
// Invariants: without a token there is no access, on loopback neither; the
// actor of a change is the name of the credential and never a field of the
// request; a problem names fields and never repeats their values; no log line
// holds a token, a query or a body.
//
// A crash here costs the open request. What it asked for is committed whole or
// not at all, and every POST may be sent again.
package httpapi

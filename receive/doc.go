// Package receive is the internet's edge of the inbound path: one POST from a
// provider in, one answer out.
//
// Place in the flow: first. It bounds the request in size, time and memory,
// verifies the bytes exactly as received against the account's secrets, parses
// each item, and hands it to the inbox. It answers with the provider's own
// acknowledgement only when the inbox says that every item is durable.
//
// Invariant: no byte is interpreted before it is verified; a request that
// cannot be verified leaves nothing behind but a log line and a count; what
// cannot be stored is refused with Retry-After, never kept in memory.
//
// A crash here costs the requests in flight. None of them was acknowledged
// unless its items were durable, so the providers deliver them again.
package receive

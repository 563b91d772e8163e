// Package unavez makes payments idempotent end to end: every provider
// notification and every instruction to a provider takes effect once, never
// twice, never lost, and visibly unknown for as long as it is not known.
//
// It is a thin facade. New wires the stages in the order of the flow: receive,
// inbox, apply, outbox over one ledger. Nothing below imports it. The server,
// its API and its command line stand on top of it.
//
// A crash of the process costs nothing that was acknowledged: everything that
// an answer promises is durable in the ledger before the answer leaves.
package unavez

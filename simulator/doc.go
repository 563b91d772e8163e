// Package simulator is a Stripe that keeps books and can be told to fail.
//
// Place in the flow: it stands outside, where the provider stands. It answers
// the API calls of a merchant, delivers signed webhooks, and writes every
// movement of money into append-only books in the same critical section as the
// change of state. The books are the oracle: whatever a ledger claims must
// equal them. So that it can serve as one, it is written from the provider's
// public contract alone and imports no other package of this module.
//
// Invariant: nothing moves without a line in the books, and no line in the
// books is ever changed. No fault alters what was booked; faults alter what the
// caller or the receiver gets to see of it.
//
// A crash here costs the simulated world: everything lives in memory, within
// the bounds of [Config]. Chance comes from [Config.Seed] alone; concurrent
// requests draw in the order in which they arrive.
//
// The API stands under /v1 (payment intents, charges, refunds, disputes,
// checkout sessions, invoices, balance transactions, events, account). Amounts
// are the provider's minor units: ISK and UGX have two decimals here. A request
// may bring its own fault in the header Simulator-Fault (a kind, see [Fault]).
//
// # Control
//
//	call                              does
//	GET    /_simulator/books          movements and sums (?movements=false: sums alone)
//	GET    /_simulator/deliveries     counts of webhook attempts, see Deliveries
//	GET    /_simulator/faults         the instructions and how often each struck
//	POST   /_simulator/faults         a Fault; answers {"id":"flt_1"}
//	DELETE /_simulator/faults         forgets all instructions
//	DELETE /_simulator/faults/{id}    forgets one
//	POST   /_simulator/trigger        a Trigger: what customers, banks and time do
//	POST   /_simulator/flush          everything pending is due now; answers {"flushed":n}
//	POST   /_simulator/release        requests that are held go on; answers {"released":n}
//	POST   /_simulator/forget         {"key":"…"} forgets an idempotency key, {} all
//	GET    /_simulator/endpoints      where webhooks go, without their secrets
//	PUT    /_simulator/endpoints      [{"url":"…","secrets":["whsec_…"],"types":["charge.*"]}]
//
// Every control call is also a method of [Server]. With [Config.ControlToken]
// the calls need it as a bearer token.
//
// # Payment methods
//
//	pm_card_visa, any other                  succeeds
//	pm_card_chargeDeclined                   402 card_declined
//	pm_card_authenticationRequired           requires_action until a trigger
//	pm_sepaDebit                             processing until a trigger
//	pm_card_pendingRefund                    its refunds stay pending until a trigger
//
// Serve it with a net/http server: some faults end the connection, for which
// the handler panics with http.ErrAbortHandler. Mind that Go's own transport
// repeats a request with an Idempotency-Key by itself when a reused connection
// ends before the answer: a caller that wants to see the lost answer sets
// DisableKeepAlives.
package simulator

// Package stripe is the adapter to Stripe: its contract as data, the check of
// its signatures, and the reading of its events.
//
// Place in the flow: receive calls Verify on the bytes of a request and Parse
// before the inbox; apply calls Parse again on the stored bytes. Both work
// without network, clock or memory of earlier events.
//
// Invariants: only bytes that Stripe signed with a configured secret become an
// item. What Parse yields depends on the payload and on account settings alone.
// Each object in a payload is read as a snapshot: it yields every fact that it
// proves, whatever the event's type, and amounts exactly or not at all. Money
// stands under the name of the payment intent (of the charge where there is no
// intent); other names are tied to it by links.
//
// A crash here costs nothing: the adapter holds no state.
package stripe

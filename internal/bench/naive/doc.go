// Package naive is the webhook handler that one writes first: it does all the
// work of an event in one transaction, before it answers.
//
// It stands outside the flow, as the baseline of the benchmarks. Invariant: it
// is correct as far as it goes (an event counts once, a payment changes under
// its lock, the message commits with the change), so that what is compared is
// the way of working and not how safe it is. It keeps no facts, no audit and no
// record of effects, and it delivers nothing. A crash here costs the open
// transactions; nobody was told that they had succeeded.
package naive

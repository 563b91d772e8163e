// Package campaign holds the proofs that need the whole: the built program in
// processes of its own, a sender that stands where the provider stands, a shop
// that counts what it is told, and an oracle that compares the three.
//
// It stands outside the flow. Each campaign has a CI size, which `go test`
// runs, and the full size of `make prove`; both are the same code. A campaign is
// made of units that are independent of each other, so that a long one can go
// on after an interruption.
//
// Invariant: what a campaign claims, it has counted on both sides: deliveries
// and acknowledgements where they were sent, effects where they arrived, and
// the ledger through its API. Chance comes from one seed.
//
// A crash here costs the unit.
package campaign

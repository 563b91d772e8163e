// Package provider is the port to payment providers: a contract as data, and
// the two things that every adapter can do, verify bytes and parse them.
//
// Place in the flow: receive calls Verify at the internet's edge and Parse
// before the inbox; apply calls Parse again on the stored bytes. What an
// adapter yields depends on the delivery and on account settings alone, never
// on what the ledger already knows, so that order cannot matter.
//
// A crash here costs nothing: adapters hold no state.
package provider

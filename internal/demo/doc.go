// Package demo shows the whole of it in a minute: a shop that sells, a provider
// that fails, a server that is killed, and three books that must agree.
//
// Place: beside the command line. The provider is the simulator, in this
// process; the server is the real program, in a process of its own, so that it
// can really be killed; the shop is a small HTTP server that counts for itself.
//
// Invariant: the verdict is computed from what the simulator booked, what the
// ledger's API says and what the shop counted, and from nothing else. A crash
// here costs the demonstration.
package demo

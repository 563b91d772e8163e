// Package pgproxy stands between a client and PostgreSQL and lets one step
// fail on purpose: with an answer of the server's, with a cut connection, or
// with a warning at COMMIT.
//
// It stands outside the flow: only tests import it. It understands just enough
// of the protocol, version 3, to count the client's steps and to answer in the
// server's place. Invariant: what it does to a session could have happened
// without it. After an error that it injects the server's transaction has
// failed as well, and after a cut the server sees the connection end.
//
// A crash here costs the test.
package pgproxy

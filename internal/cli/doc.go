// Package cli is the command line: unavez NOUN VERB.
//
// Place in the flow: above everything. Most commands are clients of the private
// API and know no more than its documents; serve, migrate, doctor and demo open
// the ledger themselves.
//
// Invariant: standard output is data and standard error is talk; the exit code
// says what happened (see exit.go). A crash here costs nothing: every command
// can be given again.
package cli

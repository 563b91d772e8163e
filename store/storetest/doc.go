// Package storetest holds the suites that every backend of the ledger passes.
//
// Place in the flow: none; only tests import it. Run proves each method of the
// port on a fresh store, RunConcurrency what several sessions do to each other,
// RunCrash what is left after the process was killed while writing. Fault wraps
// a store so that the Nth call of a method fails, for the tests of the stages.
//
// Invariant: no test here depends on speed or on the clock moving. An item is
// made due by a delay of zero, kept back by a delay of an hour, and a lease
// lapses because its length was zero.
//
// A crash here costs a test run.
package storetest

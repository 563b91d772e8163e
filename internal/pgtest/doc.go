// Package pgtest gives each test a PostgreSQL database of its own on the
// server that UNAVEZ_TEST_POSTGRES names.
//
// It stands outside the flow: only tests import it. Invariant: a test meets
// neither another test's rows nor its locks, and a missing server fails the
// test (a skipped store test would prove nothing). Databases are named
// unavez_test_… and dropped at the test's end; a test that is killed leaves its
// database behind until the private server's directory is deleted.
package pgtest

// Command bench measures unavez against the handler that one writes first
// (internal/bench/naive), and prints one line of JSON for each goal.
//
// It stands outside the flow and drives the real stages from outside: the
// server under test is a child process of the same binary, the load comes from
// this process over loopback, and both meet a PostgreSQL with fsync and
// synchronous_commit on. Invariant: what is compared ran in the same run, in
// turns, with the same load, on databases that were made the same way; a
// figure is a median over rounds, and a request that was not answered 2xx, or a
// payment that did not reach its state, fails the run instead of counting. A
// crash here costs the measurement; databases are named unavez_bench_… and the
// next run drops them.
package main

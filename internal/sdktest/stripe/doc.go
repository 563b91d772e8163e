// Package stripe holds the adapter's judgment of deliveries against that of
// Stripe's own library.
//
// Place in the flow: none; it is tests in a module of their own, so that the
// product never depends on the library. Invariant: the two agree on every
// delivery but for differences that are named, counted and asserted. A crash
// here costs a test.
package stripe

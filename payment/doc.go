// Package payment is the exact model of a payment: money, facts, the fold from
// the set of facts to a view, the effects that the set asks for, and the order
// that its payments earn. docs/states.md shows its tables.
//
// Place in the flow: adapters yield Facts from evidence; apply stores them and
// calls Effects and JudgeOrder in the transaction that stores them; operations
// ask the gate (CheckRefund, CheckCapture) before they reserve money.
//
// Invariants: everything derived is a function of the record and of the set of
// facts. No fold reads the order of arrival, a time stamp, or an earlier state,
// so that any order and any repetition of one evidence ends in one view. For
// every subset of facts refunded + lost ≤ captured ≤ authorized and
// 0 ≤ refundable ≤ captured.
//
// The package is pure: no context, clock, network, SQL or logging. A crash here
// costs nothing; the caller's transaction has not committed.
package payment

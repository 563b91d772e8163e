// Package simulator holds no code of its own: its tests drive the simulated
// provider with the provider's official client, so that the simulator is judged
// by somebody else's reading of the contract. They stand in a module of their
// own, since the product itself takes no provider's SDK.
//
// A crash here costs a test run.
package simulator

// Package providertest is the conformance suite of adapters: what must hold of
// every provider, whatever its contract says.
//
// Place in the flow: none; each adapter's tests call Run with the material of
// its provider. Invariant: nothing is skipped. What a provider does not sign is
// named by the caller, so that everything else is held to the signature. It
// holds no state, so a crash here costs a test.
package providertest

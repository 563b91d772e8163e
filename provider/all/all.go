// Package all is the explicit list of adapters.
//
// Place in the flow: what wires the stages takes the adapter of an account's
// provider from here. Invariant: the key is the name that the adapter's own
// contract bears. It holds no state, so a crash here costs nothing.
package all

import (
	"github.com/unavez/unavez/provider"
	"github.com/unavez/unavez/provider/stripe"
)

// Adapters returns a new map from the name of each provider to its adapter.
func Adapters() map[string]provider.Adapter {
	return map[string]provider.Adapter{
		"stripe": stripe.Adapter{},
	}
}

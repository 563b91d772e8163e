package all_test

import (
	"testing"

	"github.com/unavez/unavez/provider/all"
)

// R1.1: every provider is on the list under the name of its contract.
func TestNames(t *testing.T) {
	adapters := all.Adapters()
	if _, ok := adapters["stripe"]; !ok {
		t.Error("stripe is not on the list")
	}
	for name, adapter := range adapters {
		if got := adapter.Contract().Provider; got != name {
			t.Errorf("the adapter of %q calls itself %q", name, got)
		}
	}
	delete(adapters, "stripe")
	if _, ok := all.Adapters()["stripe"]; !ok {
		t.Error("a caller can change the list")
	}
}

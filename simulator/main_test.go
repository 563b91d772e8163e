package simulator

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine that the simulator starts has ended after Stop.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package cli

import (
	"context"

	"github.com/unavez/unavez/internal/demo"
)

// Demonstrate runs the demonstration with options that no flag has, and
// returns the exit code.
func Demonstrate(ctx context.Context, s Streams, opt demo.Options) int {
	a := &app{Streams: s, stop: func() {}, output: outJSON}
	return exitCode(a.demonstrate(ctx, opt, true))
}

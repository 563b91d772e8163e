//go:build crashpoint

package crashpoint

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled says whether this program was built to crash.
const Enabled = true

var (
	armed  = parse(os.Getenv(Variable), os.Getenv(ActionVariable))
	passed atomic.Int64
)

type point struct {
	name   string
	nth    int64
	signal syscall.Signal
}

// parse panics on a setting that would silently test nothing.
func parse(setting, action string) point {
	name, nth, counted := strings.Cut(setting, ":")
	p := point{name: name, nth: 1, signal: syscall.SIGKILL}
	if counted {
		n, err := strconv.ParseInt(nth, 10, 64)
		if err != nil || n < 1 || name == "" {
			panic(fmt.Sprintf("crashpoint: %s is %q, not name or name:n", Variable, setting))
		}
		p.nth = n
	}
	switch action {
	case "", "kill":
	case "stop":
		p.signal = syscall.SIGSTOP
	default:
		panic(fmt.Sprintf("crashpoint: %s is %q, not kill or stop", ActionVariable, action))
	}
	return p
}

// Hit ends or stops the process at the armed passage of the place.
func Hit(name string) {
	if name != armed.name || passed.Add(1) != armed.nth {
		return
	}
	if err := syscall.Kill(os.Getpid(), armed.signal); err != nil {
		panic("crashpoint: impossible: " + err.Error())
	}
	if armed.signal == syscall.SIGKILL {
		select {} // the signal is on its way; nothing may happen after this point
	}
}

type commitKey struct{}

// AtCommit names the place that a backend marks when it has sent the COMMIT of
// a transaction begun with the context, and nobody has seen the answer.
func AtCommit(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, commitKey{}, name)
}

// CommitOf is the name given to AtCommit, empty if none.
func CommitOf(ctx context.Context) string {
	name, _ := ctx.Value(commitKey{}).(string)
	return name
}

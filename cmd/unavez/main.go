// Command unavez makes payments idempotent end to end. See unavez help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/unavez/unavez/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, stop, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv)
	stop()
	os.Exit(code)
}

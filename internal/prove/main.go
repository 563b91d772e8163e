// Command prove runs the campaigns of internal/e2e/campaign in full size.
//
// It stands outside the flow. It prints its seed first; what is done is kept in
// .cache/prove, so that a run that was interrupted goes on where it was, with
// the same seed. With -record the results are written into docs/proof.md.
//
// Invariant: a unit counts as done only when it has run to its end under this
// seed and this program.
//
// A crash here costs the unit that was running.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/unavez/unavez/internal/e2e/campaign"
)

// dir is where progress and results are kept.
const dir = ".cache/prove"

// serverVariable names the environment variable with the PostgreSQL server's URL.
const serverVariable = "UNAVEZ_TEST_POSTGRES"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	fresh := flags.Bool("fresh", false, "forget what was done before")
	list := flags.Bool("list", false, "list the campaigns")
	atOnce := flags.Int("at-once", 1, "units that run at once")
	keep := flags.Bool("record", false, "write the results of earlier runs into "+recordPath+", and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *keep {
		return record()
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	if *list {
		for _, c := range chosen {
			fmt.Printf("%-10s %s (%d units)\n", c.Name, c.About, len(c.Units(true)))
		}
		return nil
	}
	server := os.Getenv(serverVariable)
	if server == "" {
		return fmt.Errorf("%s is not set: run through make prove", serverVariable)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binary, err := campaign.Build(ctx, root, filepath.Join(root, dir), false)
	if err != nil {
		return err
	}
	var failed []string
	for _, c := range chosen {
		r := &runner{campaign: c, atOnce: *atOnce, env: campaign.Env{Full: true, Postgres: server, Binary: binary, Root: root}}
		if err := r.run(ctx, *fresh); err != nil {
			if ctx.Err() != nil {
				return errors.Join(err, context.Cause(ctx))
			}
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
			failed = append(failed, c.Name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not proven: %s", strings.Join(failed, ", "))
	}
	return nil
}

// choose returns the campaigns with the names, all without any.
func choose(names []string) ([]campaign.Campaign, error) {
	all := campaign.All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []campaign.Campaign
	for _, name := range names {
		found := false
		for _, c := range all {
			if c.Name == name {
				chosen, found = append(chosen, c), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no campaign %q; -list lists them", name)
		}
	}
	return chosen, nil
}

// took is a duration as people read it.
func took(since time.Time) string { return time.Since(since).Round(100 * time.Millisecond).String() }

package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"github.com/unavez/unavez/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var opt demo.Options
	var once, asJSON bool
	var provider string
	c := &cobra.Command{
		Use: "demo", Short: "Show it all in a minute: a shop, a failing provider, a killed server, and three books that must agree",
		Long: "Plays a shop against a simulated provider with faults on, kills the server several times on the way, and compares\n" +
			"the provider's books, our ledger and what the shop counted. Fails (exit 1) unless they agree. Nothing needs to be installed.",
		Example: "  unavez demo --once\n  unavez demo --payments 1000 --seed 7 --json --once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case provider != "stripe" && provider != "all":
				return &exitError{exitNotFound, fmt.Errorf("provider %q is not simulated; stripe is", provider)}
			case opt.Payments < 1 || opt.Payments > demo.PaymentsMax:
				return usage("--payments is not between 1 and %d", demo.PaymentsMax)
			}
			if asJSON {
				a.output = outJSON
			}
			if opt.Seed == 0 {
				opt.Seed = rand.Uint64()>>32 + 1
			}
			return a.demonstrate(cmd.Context(), opt, once)
		},
	}
	f := c.Flags()
	f.BoolVar(&once, "once", false, "end after the comparison; otherwise the server stays up")
	f.IntVar(&opt.Payments, "payments", demo.DefaultPayments, "orders to play")
	f.Uint64Var(&opt.Seed, "seed", 0, "seed of everything that is drawn; 0 draws one and prints it")
	f.StringVar(&opt.Database, "database", "", "a postgres:// `URL` or a path; a temporary SQLite file if empty")
	f.StringVar(&provider, "provider", "stripe", "the provider to simulate: stripe, all")
	f.BoolVar(&asJSON, "json", false, "print the report as one JSON object; the same as -o json")
	return c
}

func (a *app) demonstrate(ctx context.Context, opt demo.Options, once bool) error {
	if opt.Executable == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		opt.Executable = self
	}
	opt.Talk = a.Err
	if !once {
		opt.Stay = a.stay
	}
	r, err := demo.Run(ctx, opt)
	if err != nil {
		return err
	}
	if once {
		if err := a.printReport(r); err != nil {
			return err
		}
	}
	if r.Verdict != demo.Agree {
		return errors.New("the books do not agree")
	}
	return nil
}

func (a *app) printReport(r demo.Report) error {
	if a.output == outTable {
		return r.Print(a.Out)
	}
	return a.writeJSON(r)
}

// stay prints the report and leaves the server up until it is interrupted.
func (a *app) stay(ctx context.Context, r demo.Report, where demo.Where) error {
	if err := a.printReport(r); err != nil {
		return err
	}
	fmt.Fprintf(a.Err, `
The server stays up until you press Ctrl-C.
  private API  http://%s   token in %s
  ingress      http://%s/webhooks/{account}
Next: unavez payments list --server http://%s --token-file %s
`, where.Private, where.TokenFile, where.Ingress, where.Private, where.TokenFile)
	<-ctx.Done()
	a.stop()
	return nil
}

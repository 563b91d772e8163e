package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/unavez/unavez/internal/pgtest"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == childCommand {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench: server under test:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

const (
	roundsQuick = 3
	roundsFull  = 5
	// minutesFull is how long the memory is watched under load.
	minutesFull = 10
)

// bench is one run of the program.
type bench struct {
	server   *server
	out      io.Writer // the goals
	talk     io.Writer // everything else
	quick    bool
	rounds   int
	minutes  int
	profiles string
	runs     int
}

var errMissed = errors.New("a goal is missed")

func run(args []string) (err error) {
	b := &bench{out: os.Stdout, talk: os.Stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "run this `case` alone")
	flags.BoolVar(&b.quick, "quick", false, "five goals, three rounds each, in under three minutes")
	flags.IntVar(&b.rounds, "rounds", 0, "rounds of each case: 5, or 3 with -quick")
	flags.IntVar(&b.minutes, "minutes", minutesFull, "how long the memory is watched under load")
	flags.StringVar(&b.profiles, "profile", "", "write CPU profiles of the servers under test to this `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.rounds == 0 {
		b.rounds = roundsFull
		if b.quick {
			b.rounds = roundsQuick
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if b.server, err = connect(ctx, os.Getenv(pgtest.Variable)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.close(context.WithoutCancel(ctx))) }()
	return b.all(ctx, *only)
}

// all runs the cases and prints the goals, last.
func (b *bench) all(ctx context.Context, only string) error {
	var reached []reached
	found := false
	for _, c := range cases {
		if only != "" && c.name != only || only == "" && b.quick && !c.quick {
			continue
		}
		found = true
		begun := time.Now()
		fmt.Fprintf(b.talk, "\n%s: %s\n", c.name, c.about)
		got, err := c.run(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		reached = append(reached, got...)
		fmt.Fprintf(b.talk, "%s took %.0f s\n", c.name, time.Since(begun).Seconds())
	}
	if !found {
		return fmt.Errorf("there is no case %q", only)
	}
	return b.print(reached)
}

// profile names the file for the profile of a job's server.
func (b *bench) profile(j job) string {
	if b.profiles == "" {
		return ""
	}
	return filepath.Join(b.profiles, fmt.Sprintf("%03d-%s-%d.pprof", b.runs, j.spec.Kind, j.connections))
}

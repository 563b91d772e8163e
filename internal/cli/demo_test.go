package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unavez/unavez/internal/cli"
	"github.com/unavez/unavez/internal/demo"
)

// execute runs the built program.
func execute(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &talk, append(os.Environ(), env...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{t, "unavez " + strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(), talk.String()}
}

func report(t *testing.T, text string) (r demo.Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("the report does not parse: %v\n%s", err, text)
	}
	return r
}

// The demonstration, small, by the real program: the server is killed, the
// books agree, and a database that the environment names is left alone.
func TestDemo(t *testing.T) {
	untouched := filepath.Join(t.TempDir(), "mine.db")
	r := execute(t, []string{"UNAVEZ_DATABASE=" + untouched}, "demo", "--once", "--payments", "20", "--seed", "7", "--json").exits(0).parses("json")
	got := report(t, r.out)
	e := got.Effects
	if got.Verdict != demo.Agree || got.Seed != 7 || got.Payments != 20 || got.Kills != 6 || got.Unresolved != 0 || len(got.Differences) != 0 ||
		e.Expected != 20 || e.Once+e.Held != 20 || e.MoreThanOnce != 0 || e.Missing != 0 {
		t.Errorf("the report is %+v", got)
	}
	if got.Books.Captured["EUR"] != 20*4800 || got.Ledger.Captured["EUR"] != 20*4800 {
		t.Errorf("the books are %v, the ledger %v", got.Books, got.Ledger)
	}
	if got.Duplicates == 0 || got.Deliveries <= 20 {
		t.Errorf("nothing went wrong on purpose: %+v", got)
	}
	if _, err := os.Stat(untouched); !os.IsNotExist(err) {
		t.Errorf("the demonstration touched %s", untouched)
	}
}

// A verdict that cannot fail proves nothing: a shop that loses an order, and
// one that serves an order twice, are found, and the exit code is 1.
func TestDemoFindsABentShop(t *testing.T) {
	for _, c := range []struct {
		name  string
		times int
		want  func(demo.Effects) bool
	}{
		{"loses one", 0, func(e demo.Effects) bool { return e.Missing == 1 && e.MoreThanOnce == 0 }},
		{"serves one twice", 2, func(e demo.Effects) bool { return e.MoreThanOnce == 1 && e.Missing == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, talk bytes.Buffer
			var bent string // the shop calls under its lock
			code := cli.Demonstrate(t.Context(), cli.Streams{Out: &out, Err: &talk}, demo.Options{
				Payments: 6, Seed: 3, Executable: program(t), Bend: func(order string) int {
					if bent == "" || bent == order {
						bent = order
						return c.times
					}
					return 1
				},
			})
			got := report(t, out.String())
			if code != 1 || got.Verdict != demo.Differ || len(got.Differences) != 1 || !c.want(got.Effects) {
				t.Errorf("exit code %d, report %+v\n%s", code, got, talk.String())
			}
		})
	}
}

// Without --once the server stays up, the command that is suggested works, and
// an interrupt ends it all. A ledger that is in use is refused.
func TestDemoStays(t *testing.T) {
	database := filepath.Join(t.TempDir(), "kept.db")
	cmd := exec.CommandContext(t.Context(), program(t), "demo", "--payments", "3", "--database", database)
	out, said := newTalk(), newTalk()
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { _ = cmd.Wait(); ended <- cmd.ProcessState.ExitCode() }()
	next := said.await(t, `Next: unavez (payments list .+)\n`, ended)
	p := newPlace(t, "")
	delete(p.env, "UNAVEZ_TOKEN")
	p.run(strings.Fields(next)...).exits(0).prints("D-0001", "D-0003")
	if !strings.Contains(out.String(), "Verdict: AGREE") {
		t.Errorf("standard output is:\n%s", out)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit code %d:\n%s", code, said)
		}
	case <-time.After(within):
		_ = cmd.Process.Kill()
		t.Fatalf("does not end:\n%s", said)
	}
	execute(t, nil, "demo", "--once", "--payments", "3", "--database", database).exits(1).says("holds payments already")
}

package campaign

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/unavez/unavez/internal/pgtest"
)

// binary is the program that the tests of this package share.
var binary string

// waitingUnits is how many units run at once: they wait for leases most of the time.
const waitingUnits = "6"

func TestMain(m *testing.M) { os.Exit(prepared(m)) }

func prepared(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", waitingUnits); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "unavez-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = Build(context.Background(), "../../..", dir, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// run runs the units of a campaign in CI size.
func run(t *testing.T, c Campaign) {
	t.Helper()
	seed, err := ParseSeed(os.Getenv("UNAVEZ_SEED"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d; UNAVEZ_SEED=%d repeats this run", seed, seed)
	e := &Env{Seed: seed, Postgres: pgtest.Server(t), Binary: binary, Root: "../../..", Logf: t.Logf}
	for _, u := range c.Units(false) {
		t.Run(u.Name, func(t *testing.T) {
			t.Parallel()
			said, err := u.Run(t.Context(), e.For(c.Name+"/"+u.Name, t.TempDir()))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			t.Log(said)
		})
	}
}

// R1.7 R1.8 R2.2 R2.3 R8.5: a flood of duplicates over several processes.
func TestStorm(t *testing.T) { run(t, Storm) }

// R1.7 R2.1 R3.2 R6.6: the process is killed at every border of durability.
func TestKills(t *testing.T) { run(t, Kills) }

// R6.6 R6.7: a worker stands still past its lease and goes on.
func TestFreezes(t *testing.T) { run(t, Freezes) }

// R1.4 R1.5 R1.6 R1.7 R1.8 R2.1 R2.3 R2.4 R2.7 R2.9 R3.2: the ways in which an
// acknowledgement goes wrong.
func TestScenarios(t *testing.T) { run(t, Scenarios) }

// R2.7 R2.9 R2.10 R2.11: an order over its payments.
func TestOrders(t *testing.T) { run(t, Orders) }

// R2.4 R2.5: real sequences in any order and with any repetition.
func TestOrderings(t *testing.T) { run(t, Orderings) }

// R1.7 R2.1 R6.6: statements fail under the real stages.
func TestFaults(t *testing.T) { run(t, Faults) }

// R2.6 R2.10: no interleaving of a registration and its event loses the wake-up,
// and none of the checkout's answer and the webhook fulfills twice.
func TestRace(t *testing.T) { run(t, Race) }

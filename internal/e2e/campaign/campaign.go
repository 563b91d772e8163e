package campaign

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Campaign is a named set of proofs.
type Campaign struct {
	Name  string
	About string
	// Units are its parts in the given size.
	Units func(full bool) []Unit
}

// Unit is one part that can be run by itself.
type Unit struct {
	Name string
	// Run returns what was counted, in one line, or everything that is wrong.
	Run func(ctx context.Context, e *Env) (string, error)
}

// Env is what units run in.
type Env struct {
	// Seed is where all chance comes from.
	Seed uint64
	// Full is the size of `make prove`.
	Full bool
	// Dir is a scratch directory of the unit's own.
	Dir string
	// Postgres is the URL of a server whose user may create databases.
	Postgres string
	// Binary is the program, built with the tag crashpoint.
	Binary string
	// Root is the directory of the module.
	Root string
	// Logf tells of progress.
	Logf func(format string, args ...any)

	unit string
}

// For returns the environment of a unit, with a directory of its own.
func (e *Env) For(unit, dir string) *Env {
	own := *e
	own.unit, own.Dir = unit, dir
	return &own
}

// Rand is the unit's own source of chance.
func (e *Env) Rand() *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(e.unit))
	return rand.New(rand.NewPCG(e.Seed, h.Sum64()))
}

// All lists the campaigns in the order in which they are run.
func All() []Campaign {
	return []Campaign{Scenarios, Orders, Orderings, Race, Vectors, Faults, Storm, Kills, Freezes}
}

// ParseSeed reads a seed, or draws one if the text is empty.
func ParseSeed(text string) (uint64, error) {
	if text == "" {
		return rand.Uint64N(1 << 32), nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the seed %q is no number", text)
	}
	return seed, nil
}

func sortUnits(units []Unit) {
	slices.SortFunc(units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
}

// stores are the two ledgers on which everything is tried.
var stores = []string{sqliteStore, postgresStore}

const (
	sqliteStore   = "sqlite"
	postgresStore = "postgres"
)

// onStores makes a unit for each ledger.
func onStores(name string, run func(ctx context.Context, e *Env, kind string) (string, error)) []Unit {
	var units []Unit
	for _, kind := range stores {
		units = append(units, Unit{Name: kind + "/" + name, Run: func(ctx context.Context, e *Env) (string, error) {
			return run(ctx, e, kind)
		}})
	}
	return units
}

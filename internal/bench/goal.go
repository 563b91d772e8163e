package main

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// goal is a promise about speed, as a ratio. Most is true where less is better.
type goal struct {
	name      string
	must, aim float64
	most      bool
	quick     bool
}

// goals stand in the order in which they are printed. docs/performance.md says
// of each what is divided by what.
var goals = []goal{
	{name: "ack_rate_128", must: 5, aim: 7, quick: true},
	{name: "ack_p99_128", must: 0.4, aim: 0.25, most: true, quick: true},
	{name: "ack_of_limit", must: 0.65, aim: 0.85},
	{name: "end_to_end_128", must: 3, aim: 5, quick: true},
	{name: "end_to_end_delivered", must: 2, aim: 3.5},
	{name: "batch_of_single", must: 6, aim: 12},
	{name: "cpu_per_event", must: 0.4, aim: 0.15, most: true},
	{name: "wal_per_event", must: 2, aim: 1.2, most: true},
	{name: "hot_payments", must: 4, aim: 6},
	{name: "duplicates_cached", must: 1.4, aim: 2},
	{name: "one_client_p50", must: 2, aim: 1.3, most: true, quick: true},
	{name: "drain_after_empty", must: 0.5, aim: 0.9, quick: true},
	{name: "ledger_million", must: 0.8, aim: 1},
	{name: "memory_mib", must: 200, aim: 160, most: true},
	{name: "memory_flat", must: 1.1, aim: 1.02, most: true},
}

// reached is the median ratio of a goal.
type reached struct {
	goal  string
	ratio float64
}

// line is what is printed of a goal, one JSON object on a line.
type line struct {
	Goal  string  `json:"goal"`
	Ratio float64 `json:"ratio"`
	Must  float64 `json:"must"`
	Aim   float64 `json:"aim"`
	Holds bool    `json:"holds"`
}

func (g goal) holds(ratio float64) bool {
	if g.most {
		return ratio <= g.must
	}
	return ratio >= g.must
}

// print writes the goals that were measured, and errMissed if one does not hold.
func (b *bench) print(all []reached) error {
	missed := 0
	for _, g := range goals {
		i := slices.IndexFunc(all, func(r reached) bool { return r.goal == g.name })
		if i < 0 || b.quick && !g.quick {
			continue
		}
		l := line{g.name, rounded(all[i].ratio), g.must, g.aim, g.holds(all[i].ratio)}
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(b.out, string(raw)); err != nil {
			return err
		}
		if !l.Holds {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d of them", errMissed, missed)
	}
	return nil
}

// rounded keeps three digits, which is more than such figures are good for.
func rounded(ratio float64) float64 {
	scale := 1.0
	for v := ratio; v > 0 && v < 100 && scale < 1e6; v *= 10 {
		scale *= 10
	}
	return float64(int64(ratio*scale+0.5)) / scale
}

// median is the middle of the values, of an even number the mean of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

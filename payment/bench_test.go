package payment

import (
	"fmt"
	"testing"
)

// A payment of the usual size, as the applier folds it.
func BenchmarkEffects(b *testing.B) {
	usual := []Fact{Link("ch_1", "pi_1"), authTotal("pi_1", 100), capTotal("pi_1", 100), closing("pi_1", StageCompleted)}
	long := lifecycle(false)
	hot := []Fact{authTotal("pi_1", 100), capTotal("pi_1", 100)}
	for i := range 2000 {
		hot = append(hot, refund(fmt.Sprintf("re_%d", i), "pi_1", StageSucceeded, 0))
	}
	for _, c := range []struct {
		name  string
		facts []Fact
	}{{"1", usual[1:2]}, {"4", usual}, {"8", long}, {"2002", hot}} {
		b.Run(c.name, func(b *testing.B) {
			decided := map[string]Decision{}
			_, effects := Effects(registered(), c.facts, nil)
			for _, e := range effects {
				decided[e.Key()] = e.Decision
			}
			b.ReportAllocs()
			for b.Loop() {
				Effects(registered(), c.facts, decided)
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	facts := []Fact{Link("ch_1", "pi_1"), authTotal("pi_1", 100), capTotal("pi_1", 100), closing("pi_1", StageCompleted)}
	b.ReportAllocs()
	for b.Loop() {
		Fold(registered(), facts)
	}
}

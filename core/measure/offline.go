package measure

import (
	"iter"
	"maps"
	"slices"
	"time"

	"headway/core"
)

// Report is what `headway measure --json` prints.
type Report struct {
	Window   Window `json:"window"`
	Measures []Row  `json:"measures"`
}

// Offline computes the measures that a router has at a time from receipts alone,
// in any order, by the strict rules of SPEC §5: nothing of the day that is not
// over. It lists the pairs that a receipt names and those that are given, in the
// order of provider and model.
func Offline(receipts iter.Seq[*core.Receipt], at time.Time, pairs []Pair) Report {
	to := sealed(at)
	counted := map[Pair]*sketches{}
	named := map[Pair]bool{}
	for r := range receipts {
		p := Pair{r.Provider, r.Model}
		if p.Provider == "" || p.Model == "" {
			continue // nobody was asked
		}
		named[p] = true
		if d := dayOf(r.SettledAt); d > to-windowDays && d <= to {
			made(counted, p).add(valuesOf(r))
		}
	}
	strict := newSpan([]map[Pair]*sketches{counted})
	return Report{
		Window: windowTo(to),
		Measures: rows(slices.AppendSeq(slices.Clone(pairs), maps.Keys(named)), func(p Pair) core.Measures {
			return core.Measures{
				BaseLatency: strict.measure(p, baseLatency),
				Prefill:     strict.measure(p, prefill),
				Output:      strict.measure(p, output),
			}
		}),
	}
}

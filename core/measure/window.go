package measure

import (
	"cmp"
	"slices"
	"time"

	"headway/core"
)

// The window of SPEC §5.
const (
	windowDays = 7
	// joinsAfter is how long after its end the newest day joins the window, so
	// that calls that were open at midnight are in it.
	joinsAfter = time.Hour
)

// day is a UTC day, counted from 1970-01-01.
type day int64

func dayOf(at time.Time) day {
	s := at.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return day(d)
}

func (d day) start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d day) String() string { return d.start().Format(time.DateOnly) }

// sealed is the last day of the window at a time: complete, and an hour old.
func sealed(at time.Time) day { return dayOf(at.Add(-joinsAfter)) - 1 }

// Window are the days that measures are of, both included, as YYYY-MM-DD in UTC.
type Window struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func windowTo(to day) Window {
	return Window{From: (to - windowDays + 1).String(), To: to.String()}
}

// Pair is a provider and a model, which is what a measure is of.
type Pair struct {
	Provider core.ProviderID
	Model    core.Model
}

// Row is one measure of one pair, as JSON gives it. Value is absent where Basis
// is none.
type Row struct {
	Provider    core.ProviderID   `json:"provider"`
	Model       core.Model        `json:"model"`
	Measure     string            `json:"measure"` // BaseLatency, Prefill or Output
	Jobs        int64             `json:"jobs"`
	Own         core.Opt[float64] `json:"own,omitzero"`
	ModelMedian core.Opt[float64] `json:"model_median,omitzero"`
	Value       core.Opt[float64] `json:"value,omitzero"`
	Basis       core.Basis        `json:"basis"`
}

// sketches are the counts of one pair, or of what pairs are merged into.
type sketches [measureCount]Sketch

func (s *sketches) add(v values) {
	for m, v := range v {
		if v > 0 {
			s[m].Add(v)
		}
	}
}

func (s *sketches) merge(o *sketches) {
	for m := range s {
		s[m].Merge(&o[m])
	}
}

// median is what is kept of merged sketches.
type median struct{ jobs, value int64 }

type medians [measureCount]median

func (s *sketches) medians() (out medians) {
	for m := range s {
		out[m] = median{s[m].Jobs(), s[m].Median()}
	}
	return out
}

// span is the medians of some days: of each pair, of all jobs of each model, and
// of all jobs.
type span struct {
	pairs  map[Pair]medians
	models map[core.Model]medians
	all    medians
}

// newSpan merges the days that are given; each is the sketches of its pairs.
func newSpan(days []map[Pair]*sketches) *span {
	pairs := map[Pair]*sketches{}
	models := map[core.Model]*sketches{}
	all := &sketches{}
	for _, d := range days {
		for p, s := range d {
			made(pairs, p).merge(s)
		}
	}
	for p, s := range pairs {
		made(models, p.Model).merge(s)
	}
	for _, s := range models {
		all.merge(s)
	}
	out := &span{pairs: map[Pair]medians{}, models: map[core.Model]medians{}, all: all.medians()}
	for p, s := range pairs {
		out.pairs[p] = s.medians()
	}
	for m, s := range models {
		out.models[m] = s.medians()
	}
	return out
}

// spanOf merges the days from and to and between.
func spanOf(all map[day]*daySketches, from, to day) *span {
	var days []map[Pair]*sketches
	for d, s := range all {
		if d >= from && d <= to {
			days = append(days, s.pairs)
		}
	}
	return newSpan(days)
}

// lacking tells whether there is a measure without any job.
func (s *span) lacking() bool {
	return slices.ContainsFunc(s.all[:], func(m median) bool { return m.jobs == 0 })
}

// measure applies the steps of SPEC §5 to one pair: its own median drawn towards
// the model's where jobs are few, else the model's, else that of all.
func (s *span) measure(p Pair, m measure) core.Measure {
	own, model, all := s.pairs[p][m], s.models[p.Model][m], s.all[m]
	out := core.Measure{Jobs: own.jobs, Basis: core.BasisNone}
	if model.jobs > 0 {
		out.ModelMedian = core.Some(decimal(model.value))
	}
	switch {
	case own.jobs > 0:
		out.Own = core.Some(decimal(own.value))
		out.Value = core.Some(decimal(shrunk(own.jobs, own.value, model.value)))
		out.Basis = core.BasisOwn
	case model.jobs > 0:
		out.Value = out.ModelMedian
		out.Basis = core.BasisModel
	case all.jobs > 0:
		out.Value = core.Some(decimal(all.value))
		out.Basis = core.BasisAll
	}
	return out
}

// rows lists pairs in the order of provider, model and SPEC §5's measures.
func rows(pairs []Pair, of func(Pair) core.Measures) []Row {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	pairs = slices.Compact(pairs)
	out := make([]Row, 0, len(pairs)*int(measureCount))
	for _, p := range pairs {
		ms := of(p)
		for i, m := range [measureCount]core.Measure{ms.BaseLatency, ms.Prefill, ms.Output} {
			out = append(out, Row{
				Provider: p.Provider, Model: p.Model, Measure: measureNames[i],
				Jobs: m.Jobs, Own: m.Own, ModelMedian: m.ModelMedian, Value: m.Value, Basis: m.Basis,
			})
		}
	}
	return out
}

// made gives the value of a key, made where there is none.
func made[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

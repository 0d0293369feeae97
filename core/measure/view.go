package measure

import "headway/core"

// view is one snapshot of the measures; it never changes. A measure's values are
// of the window, or, where the window has no job of it at all, of what settled
// since (basis today).
type view struct {
	to     day    // the window's last day
	pairs  []Pair // that have jobs
	models map[core.Model]*modelView
	all    core.Measures // of a model that nothing is known of
}

// modelView is reached by the model alone first, so that a pair without jobs
// costs one more look-up and no more.
type modelView struct {
	providers map[core.ProviderID]*core.Measures
	rest      core.Measures
}

func newView(to day, strict, today *span) *view {
	of := func(p Pair) core.Measures {
		one := func(m measure) core.Measure {
			if strict.all[m].jobs > 0 {
				return strict.measure(p, m)
			}
			out := today.measure(p, m)
			if out.Basis != core.BasisNone {
				out.Basis = core.BasisToday
			}
			return out
		}
		return core.Measures{BaseLatency: one(baseLatency), Prefill: one(prefill), Output: one(output)}
	}
	v := &view{to: to, models: map[core.Model]*modelView{}, all: of(Pair{})}
	for _, s := range [...]*span{strict, today} {
		for p := range s.pairs {
			m := v.models[p.Model]
			if m == nil {
				m = &modelView{providers: map[core.ProviderID]*core.Measures{}, rest: of(Pair{Model: p.Model})}
				v.models[p.Model] = m
			}
			if m.providers[p.Provider] == nil {
				own := of(p)
				m.providers[p.Provider] = &own
				v.pairs = append(v.pairs, p)
			}
		}
	}
	return v
}

func (v *view) measures(p core.ProviderID, model core.Model) *core.Measures {
	m := v.models[model]
	if m == nil {
		return &v.all
	}
	if own := m.providers[p]; own != nil {
		return own
	}
	return &m.rest
}

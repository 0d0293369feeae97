package market

import (
	"slices"

	"headway/core"
)

// autoStrategy is what decisions call the Auto Router's ranking, which is that
// of fastest whatever the key or the routing says (SPEC §7).
const autoStrategy = "auto"

// IsAuto tells whether a client that asks for a name asks for the Auto Router,
// which is there where it has a pool.
func IsAuto(name core.Model, r *core.Routing) bool {
	return r != nil && len(r.Auto) > 0 && name.IsAuto()
}

// Meant gives the offers that a client's name means: those of Lookup, or for the
// Auto Router every offer of every model of its pool, each once, in the order of
// the pool. The result must not be changed.
func (c *Catalogue) Meant(name core.Model, r *core.Routing) []*Entry {
	if !IsAuto(name, r) {
		return c.byName[name]
	}
	if len(r.Auto) == 1 {
		return c.byName[r.Auto[0]]
	}
	var pool []*Entry
	for _, m := range r.Auto {
		for _, e := range c.byName[m] {
			if !slices.Contains(pool, e) { // two names of the pool may be of one offer
				pool = append(pool, e)
			}
		}
	}
	return pool
}

// autoBlocked tells whether a block list names the Auto Router. It is no model,
// so that an allow list neither opens nor closes it: what counts is each model of
// its pool. A block list that names it can mean nothing else.
func autoBlocked(key *core.Key, r *core.Routing) bool {
	return slices.Contains(r.BlockModels, core.AutoModel) || key != nil && slices.Contains(key.BlockModels, core.AutoModel)
}

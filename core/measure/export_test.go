package measure

import "headway/core"

// Boundaries are the first values of the buckets, for the test that holds them
// against the rule.
func Boundaries() []uint64 { return buckets.from[:] }

// Values is what one receipt adds to each measure, by name, in the unit that is
// shown.
func Values(r *core.Receipt) map[string]float64 {
	out := map[string]float64{}
	for m, v := range valuesOf(r) {
		if v > 0 {
			out[measureNames[m]] = decimal(v)
		}
	}
	return out
}

// Shrunk is the value of few jobs.
func Shrunk(n, own, model int64) int64 { return shrunk(n, own, model) }

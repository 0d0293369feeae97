package measure

import (
	"math"

	"headway/core"
)

// errorPrecision: prediction errors are kept in millionths.
const errorPrecision = 1_000_000

// errorOf is |predicted − actual| ÷ actual of one receipt in millionths, and
// false where it has none: SPEC §12.
func errorOf(r *core.Receipt) (int64, bool) {
	p, a := r.PredictedWait, r.ActualWait
	if !counts(r) || r.Offer == "" || !p.OK || !a.OK || !(a.V > 0) {
		return 0, false
	}
	e := math.Abs(p.V-a.V) / a.V * errorPrecision
	if math.IsNaN(e) {
		return 0, false
	}
	return int64(math.Floor(min(e, largest) + 0.5)), true
}

// PredictionError is how far the predicted waits of an offer were off: |predicted
// − actual| ÷ actual, so 0.25 is a quarter.
type PredictionError struct {
	Jobs   int64   `json:"jobs"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Errors are the prediction errors of every offer that has any, over the window
// and what settled since.
func (b *Board) Errors() map[core.OfferID]PredictionError {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	from, to := sealed(now)-windowDays+1, dayOf(now)
	merged := map[core.OfferID]*Sketch{}
	for d, s := range b.days {
		if d < from || d > to {
			continue
		}
		for o, e := range s.errors {
			made(merged, o).Merge(e)
		}
	}
	out := map[core.OfferID]PredictionError{}
	for o, s := range merged {
		out[o] = PredictionError{
			Jobs:   s.Jobs(),
			Median: float64(s.Median()) / errorPrecision,
			P90:    float64(s.Quantile(900)) / errorPrecision,
		}
	}
	return out
}

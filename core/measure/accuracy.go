package measure

import (
	"math"

	"headway/core"
)

// errorPrecision: errors are kept in millionths.
const errorPrecision = 1_000_000

// The errors of one offer that a day keeps a sketch of, by their names in the
// vault: of the predicted wait (SPEC §12), and of what it was predicted from
// (SPEC §6), the prompt, the answer and the part of the prompt that the cache has.
const (
	predictionError = iota
	promptError
	outputError
	cachedError
	errorCount
)

var errorNames = [errorCount]string{"prediction_error", "prompt_error", "output_error", "cached_error"}

// wrong are the errors of one receipt in millionths; absent where it has none.
type wrong [errorCount]core.Opt[int64]

// errorsOf compares what one receipt's decision expected with what came.
func errorsOf(r *core.Receipt) (w wrong) {
	if !counts(r) || r.Offer == "" {
		return w
	}
	if p, a := r.PredictedWait, r.ActualWait; p.OK && a.OK {
		w[predictionError] = errorOf(p.V, a.V, a.V)
	}
	d := r.ExpectedThere()
	if r.UsageFrom != core.FromProvider || d == nil {
		return w
	}
	// Server-run tools read more than the prompt that was estimated.
	if in := float64(r.Usage.Input()); d.Fresh.OK && !r.Timing.FreshInputTokens.OK {
		w[promptError] = errorOf(float64(d.Fresh.V+d.Cached.V), in, in)
		w[cachedError] = errorOf(float64(d.Cached.V), float64(r.Usage.CacheRead.V), in)
	}
	if out := r.Usage.Output; d.Output.OK && out.OK {
		w[outputError] = errorOf(float64(d.Output.V), float64(out.V), float64(out.V))
	}
	return w
}

// errorOf is |expected − actual| ÷ of in millionths; absent where there is nothing
// to hold it against.
func errorOf(expected, actual, of float64) core.Opt[int64] {
	if !(of > 0) {
		return core.Opt[int64]{}
	}
	e := math.Abs(expected-actual) / of * errorPrecision
	if math.IsNaN(e) || math.IsInf(e, 0) { // a receipt cannot keep what makes it
		return core.Opt[int64]{}
	}
	return core.Some(int64(math.Floor(min(e, largest) + 0.5)))
}

// PredictionError is how far predictions were off: |predicted − actual| ÷ actual, so
// 0.25 is a quarter.
type PredictionError struct {
	Jobs   int64   `json:"jobs"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Accuracy is how far off the estimates of an offer were.
type Accuracy struct {
	// Wait is of the predicted waits.
	Wait core.Opt[PredictionError]
	// Prompt and Output are of the estimated tokens, as parts of the real ones.
	Prompt, Output core.Opt[PredictionError]
	// Cached is of the tokens expected to be read from the cache, as a part of all
	// input.
	Cached core.Opt[PredictionError]
}

// Errors are the errors of every offer that has any, over the window and what
// settled since.
func (b *Board) Errors() map[core.OfferID]Accuracy {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	from, to := sealed(now)-windowDays+1, dayOf(now)
	merged := map[core.OfferID]*offErrors{}
	for d, s := range b.days {
		if d < from || d > to {
			continue
		}
		for o, of := range s.errors {
			into := made(merged, o)
			for kind := range of {
				into[kind].Merge(&of[kind])
			}
		}
	}
	out := map[core.OfferID]Accuracy{}
	for o, of := range merged {
		out[o] = Accuracy{Wait: of[predictionError].error(), Prompt: of[promptError].error(), Output: of[outputError].error(), Cached: of[cachedError].error()}
	}
	return out
}

// offErrors are the sketches of one offer's errors.
type offErrors [errorCount]Sketch

// error is what a sketch of errors says; absent for an empty one.
func (s *Sketch) error() core.Opt[PredictionError] {
	if s.Jobs() == 0 {
		return core.Opt[PredictionError]{}
	}
	return core.Some(PredictionError{
		Jobs:   s.Jobs(),
		Median: float64(s.Median()) / errorPrecision,
		P90:    float64(s.Quantile(900)) / errorPrecision,
	})
}

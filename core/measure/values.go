package measure

import (
	"math"
	"math/bits"

	"headway/core"
)

// The measures of SPEC §5, as their names in JSON.
const (
	BaseLatency = "base_latency_ms"
	Prefill     = "prefill_tps"
	Output      = "output_tps"
)

// measure numbers the measures; arrays over them are indexed by it.
type measure uint8

const (
	baseLatency measure = iota
	prefill
	output
	measureCount
)

var measureNames = [measureCount]string{BaseLatency, Prefill, Output}

// The borders of SPEC §5.
const (
	baseBelow       = 1_000  // fresh input tokens of a job that shows the base latency
	prefillFrom     = 16_000 // fresh input tokens of a job that shows the prefill speed
	streamArrivals  = 4      // arrivals of an answer that came as a stream
	streamMicros    = 250_000
	mostTokens      = math.MaxInt64 / 1_000_000_000
	mostMillis      = largest / 1_000
	mostCount       = 1<<53 - 1 // what a leaf of the signed log holds
	mostName        = 320       // bytes, of an offer, and of a provider and model together
	unitsPerDecimal = 1_000     // µs in a ms, thousandths of a token per second
)

// values are what one receipt adds to the measures, in the integers of a
// Sketch: µs, and thousandths of a token per second. 0 is nothing.
type values [measureCount]int64

// valuesOf applies SPEC §5 to one receipt. That a call was streamed shows in its
// marks: only a streamed one has them.
func valuesOf(r *core.Receipt) (v values) {
	if !counts(r) {
		return v
	}
	estimated := r.UsageFrom == core.FromEstimate || r.UsageFrom == core.FromMixed
	first := micros(r.Timing.DispatchToFirstToken)
	if fresh := r.Timing.FreshInputTokens; first > 0 && unwaited(r) {
		if !fresh.OK {
			fresh = r.Usage.Fresh()
		}
		switch {
		case !fresh.OK || fresh.V < 0:
		case fresh.V < baseBelow:
			// An estimate is good enough to tell a short prompt.
			v[baseLatency] = first
		case fresh.V >= prefillFrom && !estimated:
			v[prefill] = speed(fresh.V, first)
		}
	}
	if window := micros(r.Timing.FirstTokenToEnd); window > 0 && !estimated && cameAsStream(r, window) {
		tokens := r.Timing.StreamedOutputTokens
		if !tokens.OK {
			tokens = r.Usage.Output
		}
		v[output] = speed(tokens.V, window)
	}
	return v
}

// unwaited tells whether a job did not wait for a slot of its node. One that the node
// has said nothing of may have.
func unwaited(r *core.Receipt) bool {
	t := r.NodeTiming
	return r.Node == "" || t != nil && t.SlotWait.OK && !t.Waited()
}

// counts tells whether a receipt is of a job that measures may use: settled, of
// real work or a probe, and one that writes output.
func counts(r *core.Receipt) bool {
	return r.Outcome == core.Settled &&
		(r.Kind == core.KindJob || r.Kind == core.KindProbe) &&
		(r.Operation == "" || r.Operation.Generates()) && fits(r)
}

// fits tells whether a receipt can be in the signed log, and what it adds under its
// names in the vault: what others cannot recompute is not counted.
func fits(r *core.Receipt) bool {
	u := &r.Usage
	for _, n := range [...]int64{u.UncachedInput.V, u.CacheRead.V, u.CacheWrite.V, u.CacheWrite1h.V, u.Output.V, u.Reasoning.V} {
		if n < 0 || n > mostCount {
			return false
		}
	}
	return len(r.Provider)+len(r.Model) <= mostName && len(r.Offer) <= mostName
}

func cameAsStream(r *core.Receipt, window int64) bool {
	if a := r.Timing.Arrivals; a.OK {
		return a.V >= streamArrivals
	}
	return window >= streamMicros
}

// micros is a time in ms as whole µs, halves up; 0 where it is absent, not
// positive or beyond any call.
func micros(ms core.Opt[float64]) int64 {
	if !ms.OK || !(ms.V > 0 && ms.V <= mostMillis) {
		return 0
	}
	// The conversion keeps a machine from fusing the two steps into one that
	// rounds differently.
	return int64(math.Floor(float64(ms.V*1000) + 0.5))
}

// speed is ⌊tokens·10⁹ ÷ µs⌋ thousandths of a token per second, at least one of
// them; 0 where nothing was made or the count is no count.
func speed(tokens, micros int64) int64 {
	if tokens <= 0 || tokens > mostTokens {
		return 0
	}
	return max(tokens*1_000_000_000/micros, 1)
}

// shrunk is w·own + (1−w)·model with w = n ÷ (n+10), in integers, halves up.
func shrunk(n, own, model int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(own))
	lo, carry := bits.Add64(lo, 10*uint64(model)+uint64(n+10)/2, 0)
	v, _ := bits.Div64(hi+carry, lo, uint64(n+10))
	return int64(v)
}

// decimal is an integer of a sketch in the unit that is shown: ms, tokens per
// second.
func decimal(v int64) float64 { return float64(v) / unitsPerDecimal }

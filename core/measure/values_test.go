package measure_test

import (
	"maps"
	"math"
	"math/big"
	"strings"
	"testing"

	"headway/core"
	"headway/core/measure"
)

func TestValues(t *testing.T) {
	i, f := core.Some[int64], core.Some[float64]
	// job is a settled answer that came as a stream: 500 fresh tokens in, first
	// token after 200 ms, 100 tokens out in 2 s.
	job := func(change func(r *core.Receipt)) *core.Receipt {
		r := &core.Receipt{Kind: core.KindJob, Outcome: core.Settled, Usage: core.Usage{
			UncachedInput: i(500), CacheRead: i(90_000), CacheWrite: i(0), Output: i(100),
		}}
		r.Timing.DispatchToFirstToken = f(200)
		r.Timing.FirstTokenToEnd = f(2000)
		r.Timing.Arrivals = i(50)
		if change != nil {
			change(r)
		}
		return r
	}
	type want = map[string]float64
	const base, prefill, output = measure.BaseLatency, measure.Prefill, measure.Output
	tests := []struct {
		name string
		r    *core.Receipt
		want want
	}{
		{"a short prompt", job(nil), want{base: 200, output: 50}},
		{"999 fresh tokens", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(999) }), want{base: 200, output: 50}},
		{"1,000 fresh tokens", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(1000) }), want{output: 50}},
		{"15,999 fresh tokens", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(15_999) }), want{output: 50}},
		{"16,000 fresh tokens", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(16_000) }), want{prefill: 80_000, output: 50}},
		{"written to the cache is fresh", job(func(r *core.Receipt) { r.Usage.CacheWrite = i(15_500) }), want{prefill: 80_000, output: 50}},
		{"all of it cached", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(0) }), want{base: 200, output: 50}},
		{"input unknown", job(func(r *core.Receipt) {
			r.Usage.UncachedInput, r.Usage.CacheWrite = core.Opt[int64]{}, core.Opt[int64]{}
		}), want{output: 50}},
		{"fresh input below 0", job(func(r *core.Receipt) { r.Timing.FreshInputTokens = i(-5) }), want{output: 50}},
		{"input below 0", job(func(r *core.Receipt) { r.Usage.UncachedInput = i(-5) }), want{}},
		{"input grown by server-run tools", job(func(r *core.Receipt) { r.Usage.UncachedInput, r.Timing.FreshInputTokens = i(400_000), i(700) }), want{base: 200, output: 50}},
		{"hidden reasoning", job(func(r *core.Receipt) { r.Timing.StreamedOutputTokens = i(40) }), want{base: 200, output: 20}},
		{"nothing streamed of it", job(func(r *core.Receipt) { r.Timing.StreamedOutputTokens = i(0) }), want{base: 200}},

		{"on a node with a free slot", job(func(r *core.Receipt) { r.Node, r.NodeTiming = "n", &core.NodeTiming{SlotWait: f(0)} }), want{base: 200, output: 50}},
		{"a long prompt there", job(func(r *core.Receipt) {
			r.Node, r.NodeTiming, r.Usage.UncachedInput = "n", &core.NodeTiming{SlotWait: f(0)}, i(16_000)
		}), want{prefill: 80_000, output: 50}},
		{"on a node, after a wait for a slot", job(func(r *core.Receipt) { r.Node, r.NodeTiming = "n", &core.NodeTiming{SlotWait: f(0.001)} }), want{output: 50}},
		{"a long prompt after a wait", job(func(r *core.Receipt) {
			r.Node, r.NodeTiming, r.Usage.UncachedInput = "n", &core.NodeTiming{SlotWait: f(3000)}, i(16_000)
		}), want{output: 50}},
		{"on a node that says nothing", job(func(r *core.Receipt) { r.Node = "n" }), want{output: 50}},
		{"on a node that does not say how long it waited", job(func(r *core.Receipt) { r.Node, r.NodeTiming = "n", &core.NodeTiming{FirstToken: f(20)} }), want{output: 50}},
		{"a node's own figures change nothing", job(func(r *core.Receipt) {
			r.Node, r.NodeTiming = "n", &core.NodeTiming{SlotWait: f(0), FirstToken: f(1), DecodeTPS: f(9000)}
		}), want{base: 200, output: 50}},

		{"a probe", job(func(r *core.Receipt) { r.Kind = core.KindProbe }), want{base: 200, output: 50}},
		{"a bench", job(func(r *core.Receipt) { r.Kind = core.KindBench }), want{}},
		{"a test", job(func(r *core.Receipt) { r.Kind = core.KindTest }), want{}},
		{"failed", job(func(r *core.Receipt) { r.Outcome = core.Failed }), want{}},
		{"truncated", job(func(r *core.Receipt) { r.Outcome = core.Truncated }), want{}},
		{"client gone", job(func(r *core.Receipt) { r.Outcome = core.ClientGone }), want{}},
		{"old completions", job(func(r *core.Receipt) { r.Operation = core.OpCompletions }), want{base: 200, output: 50}},
		{"embeddings", job(func(r *core.Receipt) { r.Operation = core.OpEmbeddings }), want{}},

		{"estimated usage, short", job(func(r *core.Receipt) { r.UsageFrom = core.FromEstimate }), want{base: 200}},
		{"estimated usage, long", job(func(r *core.Receipt) { r.UsageFrom, r.Usage.UncachedInput = core.FromEstimate, i(20_000) }), want{}},
		{"mixed usage", job(func(r *core.Receipt) { r.UsageFrom = core.FromMixed }), want{base: 200}},
		{"the provider's usage", job(func(r *core.Receipt) { r.UsageFrom = core.FromProvider }), want{base: 200, output: 50}},

		{"unstreamed", job(func(r *core.Receipt) { r.Timing = core.Timing{UpstreamHeaders: f(900)} }), want{}},
		{"4 arrivals within 100 ms", job(func(r *core.Receipt) { r.Timing.Arrivals, r.Timing.FirstTokenToEnd = i(4), f(100) }), want{base: 200, output: 1000}},
		{"3 arrivals within 2 s", job(func(r *core.Receipt) { r.Timing.Arrivals = i(3) }), want{base: 200}},
		{"arrivals unknown, 250 ms", job(func(r *core.Receipt) { r.Timing.Arrivals, r.Timing.FirstTokenToEnd = core.Opt[int64]{}, f(250) }), want{base: 200, output: 400}},
		{"arrivals unknown, less", job(func(r *core.Receipt) { r.Timing.Arrivals, r.Timing.FirstTokenToEnd = core.Opt[int64]{}, f(249.999) }), want{base: 200}},
		{"no output window", job(func(r *core.Receipt) { r.Timing.FirstTokenToEnd = f(0) }), want{base: 200}},
		{"no output tokens", job(func(r *core.Receipt) { r.Usage.Output = i(0) }), want{base: 200}},
		{"output unknown", job(func(r *core.Receipt) { r.Usage.Output = core.Opt[int64]{} }), want{base: 200}},
		{"no wait", job(func(r *core.Receipt) { r.Timing.DispatchToFirstToken = f(0) }), want{output: 50}},
		{"a wait below 0", job(func(r *core.Receipt) { r.Timing.DispatchToFirstToken = f(-1) }), want{output: 50}},
		{"a wait that is no number", job(func(r *core.Receipt) { r.Timing.DispatchToFirstToken = f(math.NaN()) }), want{output: 50}},
		{"an endless wait", job(func(r *core.Receipt) { r.Timing.DispatchToFirstToken = f(math.Inf(1)) }), want{output: 50}},
		{"a count of another world", job(func(r *core.Receipt) { r.Usage.Output = i(1<<53 - 1) }), want{base: 200}},
		{"a count that cannot be sealed", job(func(r *core.Receipt) { r.Usage.Output = i(1 << 53) }), want{}},
		{"names of 320 bytes", job(func(r *core.Receipt) {
			r.Provider, r.Model, r.Offer = "p", core.Model(strings.Repeat("m", 319)), core.OfferID(strings.Repeat("o", 320))
		}), want{base: 200, output: 50}},
		{"names that are too long", job(func(r *core.Receipt) { r.Provider, r.Model = "p", core.Model(strings.Repeat("m", 320)) }), want{}},
		{"an offer whose name is too long", job(func(r *core.Receipt) { r.Offer = core.OfferID(strings.Repeat("o", 321)) }), want{}},
		{"rounded down to a thousandth", job(func(r *core.Receipt) { r.Usage.Output, r.Timing.FirstTokenToEnd = i(2), f(3000) }), want{base: 200, output: 0.666}},
	}
	for _, tt := range tests {
		if got := measure.Values(tt.r); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The shrinkage is exact for any count, where floats or int64 would not be.
func TestShrunkIsExact(t *testing.T) {
	for _, c := range [][3]int64{
		{1, 100, 200}, {10, 100, 200}, {9, 1_649_923, 1_626_208}, {3, 7, 8},
		{1 << 40, 10_000_000_000_000, 1}, {1 << 47, 9_999_999_999_999, 9_999_999_999_998}, {1, 1, 10_000_000_000_000},
	} {
		n, own, model := c[0], c[1], c[2]
		// ⌊(n·own + 10·model)/(n+10) + ½⌋
		num := new(big.Int).Mul(big.NewInt(n), big.NewInt(own))
		num.Add(num, new(big.Int).Mul(big.NewInt(10), big.NewInt(model)))
		num.Add(num.Lsh(num, 1), big.NewInt(n+10))
		want := num.Div(num, big.NewInt(2*(n+10))).Int64()
		if got := measure.Shrunk(n, own, model); got != want {
			t.Errorf("%d jobs of %d, model %d: %d, want %d", n, own, model, got, want)
		}
	}
}

package market_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"headway/core"
	"headway/core/ledger"
	"headway/core/market"
)

func TestHighest(t *testing.T) {
	const usd = core.USD
	rates := core.Rates{Input: 3_000_000, Output: 15_000_000}
	cached := rates
	cached.CacheWrite, cached.CacheWrite1h, cached.CacheRead = core.Some[core.Rate](3_750_000), core.Some[core.Rate](6_000_000), core.Some[core.Rate](300_000)
	tiered := core.Price{Rates: rates, Above: core.Some(core.PriceAbove{InputTokens: 1000, Rates: core.Rates{Input: 6_000_000, Output: 22_500_000}})}
	odd := core.Price{Rates: rates, Above: core.Some(core.PriceAbove{InputTokens: 1000, Rates: core.Rates{Input: 1_000_000, Output: 15_000_000}})}
	asked := core.Some[int64](1000)
	for _, c := range []struct {
		name  string
		job   core.Job
		price core.Price
		lim   core.OfferLimits
		want  core.Money
	}{
		{"a byte is a token at most", core.Job{PromptBytes: 968, MaxOutput: asked}, core.Price{Rates: rates}, core.OfferLimits{}, usd * 18 / 1000},
		{"tools have a template", core.Job{PromptBytes: 456, MaxOutput: asked, Features: core.FeatureTools | core.FeatureSchema}, core.Price{Rates: rates}, core.OfferLimits{}, usd * 18 / 1000},
		{"the dearest input is what is cached for an hour", core.Job{PromptBytes: 968, MaxOutput: asked}, core.Price{Rates: cached}, core.OfferLimits{}, usd * 21 / 1000},
		{"several answers", core.Job{PromptBytes: 968, MaxOutput: asked, Choices: 3}, core.Price{Rates: rates}, core.OfferLimits{}, usd * 48 / 1000},
		{"the offer's own maximum", core.Job{PromptBytes: 968}, core.Price{Rates: rates}, core.OfferLimits{MaxOutput: core.Some[int64](2000), Context: core.Some[int64](9000)}, usd * 33 / 1000},
		{"its context", core.Job{PromptBytes: 968}, core.Price{Rates: rates}, core.OfferLimits{Context: core.Some[int64](4000)}, usd * 63 / 1000},
		{"nobody says", core.Job{PromptBytes: 968, Choices: 2}, core.Price{Rates: rates}, core.OfferLimits{}, 3_000_000*1000 + 15_000_000*32_768},
		{"a prompt longer than the context", core.Job{PromptBytes: 1 << 20, MaxOutput: asked}, core.Price{Rates: rates}, core.OfferLimits{Context: core.Some[int64](2000)}, usd * 21 / 1000},
		{"the second tier is not reached", core.Job{PromptBytes: 968, MaxOutput: asked}, tiered, core.OfferLimits{}, usd * 18 / 1000},
		{"the second tier may be reached", core.Job{PromptBytes: 969, MaxOutput: asked}, tiered, core.OfferLimits{}, 6_000_000*1001 + 22_500_000*1000},
		{"a second tier that is cheaper", core.Job{PromptBytes: 1168, MaxOutput: asked}, odd, core.OfferLimits{}, usd * 18 / 1000},
		{"embeddings", core.Job{PromptBytes: 968, Operation: core.OpEmbeddings}, core.Price{Rates: rates}, core.OfferLimits{}, usd * 3 / 1000},
		{"counting tokens", core.Job{PromptBytes: 968, MaxOutput: asked, Operation: core.OpCountTokens}, core.Price{Rates: rates}, core.OfferLimits{}, 0},
	} {
		if c.job.Operation == "" {
			c.job.Operation = core.OpGenerate
		}
		got, err := market.Highest(&c.job, &core.Offer{Price: c.price, Limits: c.lim}, 0)
		if err != nil || got != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.name, got, c.want, err)
		}
	}
	for _, job := range []core.Job{
		{Operation: core.OpGenerate, MaxOutput: core.Some[int64](math.MaxInt64)},
		{Operation: core.OpGenerate, MaxOutput: core.Some[int64](1 << 40), Choices: 1 << 40},
		{Operation: core.OpCompletions, PromptBytes: 1 << 60},
	} {
		if got, err := market.Highest(&job, &core.Offer{Price: tiered}, 0); err == nil {
			t.Errorf("%+v: %s, and no error", job, got)
		}
	}
}

// TestHighestIsHighest: nothing that an upstream reports within the bounds costs
// more.
func TestHighestIsHighest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	rates := func() (x core.Rates) {
		x.Input, x.Output = core.Rate(r.Int64N(1e7)), core.Rate(r.Int64N(1e8))
		for _, to := range []*core.Opt[core.Rate]{&x.CacheRead, &x.CacheWrite, &x.CacheWrite1h} {
			if r.IntN(2) == 0 {
				*to = core.Some(core.Rate(r.Int64N(1e7)))
			}
		}
		return x
	}
	for range 20_000 {
		o := &core.Offer{Price: core.Price{Rates: rates()}}
		if r.IntN(2) == 0 {
			o.Price.Above = core.Some(core.PriceAbove{InputTokens: r.Int64N(1200), Rates: rates()})
		}
		job := &core.Job{Operation: core.OpGenerate, PromptBytes: r.IntN(1000), MaxOutput: core.Some(r.Int64N(1000)), Choices: r.Int64N(4)}
		most, err := market.Highest(job, o, 0)
		if err != nil {
			t.Fatal(err)
		}
		var u core.Usage
		input := r.Int64N(int64(job.PromptBytes) + 33)
		if r.IntN(3) == 0 {
			input = int64(job.PromptBytes) + 32
		}
		u.CacheRead = core.Some(r.Int64N(input + 1))
		u.CacheWrite = core.Some(r.Int64N(input - u.CacheRead.V + 1))
		u.CacheWrite1h = core.Some(r.Int64N(u.CacheWrite.V + 1))
		u.UncachedInput = core.Some(input - u.CacheRead.V - u.CacheWrite.V)
		u.Output = core.Some(job.MaxOutput.V * max(job.Choices, 1))
		if charge, _, err := ledger.Charge(u, o.Price); err != nil || charge > most {
			t.Fatalf("%+v at %+v is charged %s, the most was to be %s (%v)", u, o.Price, charge, most, err)
		}
	}
}

// TestHighestBeyond: where the model reads more than the request holds, all of the
// offer's context is set aside; and never less than the estimate.
func TestHighestBeyond(t *testing.T) {
	price := core.Price{Rates: core.Rates{Input: 1000, Output: 0}}
	for _, c := range []struct {
		name      string
		beyond    bool
		estimated int64
		context   core.Opt[int64]
		tokens    int64
	}{
		{"bytes and template", false, 0, core.Opt[int64]{}, 132},
		{"the estimate is more", false, 500, core.Opt[int64]{}, 500},
		{"the estimate is more than it holds", false, 500, core.Some[int64](300), 300},
		{"all of the context", true, 500, core.Some[int64](4000), 4000},
		{"a context that nobody says", true, 0, core.Opt[int64]{}, 1 << 20},
	} {
		job := core.Job{Operation: core.OpEmbeddings, PromptBytes: 100, Beyond: c.beyond}
		got, err := market.Highest(&job, &core.Offer{Price: price, Limits: core.OfferLimits{Context: c.context}}, c.estimated)
		if err != nil || got != core.Money(1000*c.tokens) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, core.Money(1000*c.tokens))
		}
	}
}

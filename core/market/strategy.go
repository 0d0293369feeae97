package market

import "headway/core"

// What a decision can say that its order follows (SPEC §16, ranked_on).
const (
	rankedOnPrice        = "price"
	rankedOnPriceAndWait = "price-and-wait"
	RankedOnOutputSpeed  = "output-speed"
	rankedOnTTFT         = "ttft"
	rankedOnBalanced     = "balanced"
	rankedOnScript       = "script" // its own score
)

const (
	// ownJobs are the jobs of its own that fastest ranks a provider by speed from.
	ownJobs = 5
	// nearFirst times the lowest first-token time is still fast, for balanced.
	nearFirst = 1.5
)

// Strategies are the built-in ones of SPEC §7, the default first.
func Strategies() []core.Strategy {
	return []core.Strategy{priceAndWait{}, cheapest{}, fastest{}, fastestFirstToken{}, balanced{}}
}

// ByName gives a built-in strategy; false where none has that name.
func ByName(name string) (core.Strategy, bool) {
	for _, s := range Strategies() {
		if s.Name() == name {
			return s, true
		}
	}
	return nil, false
}

// behind is added to the tier of a full node by the strategies that ignore the
// wait: it comes after every free offer (SPEC §8).
func behind(c *core.Candidate) int {
	if c.Full {
		return 2 // more tiers than any of them uses
	}
	return 0
}

// firstToken is an offer's first-token time, where it has none the median of
// those that have one; where none has one all are equally fast.
func firstToken(a *core.Auction, c *core.Candidate) float64 { return c.TTFT.Or(a.MedianTTFT.V) }

// priceAndWait: charge + predicted wait × what an hour of waiting is worth; ties
// by charge. One incomplete prediction puts the whole auction on the charge
// alone, so that a missing figure is neither a gain nor a loss.
type priceAndWait struct{}

func (priceAndWait) Name() string { return "price-and-wait" }

func (priceAndWait) RankedOn(a *core.Auction) string {
	if !a.Complete {
		return rankedOnPrice
	}
	return rankedOnPriceAndWait
}

func (priceAndWait) Score(_ *core.Job, a *core.Auction, c *core.Candidate) (core.Rank, bool) {
	if !a.Complete {
		return core.Rank{Tier: behind(c), Price: c.Charge}, true
	}
	if a.TimeValue == 0 {
		return core.Rank{Price: c.Charge}, true // exactly, not as a float
	}
	return core.Rank{Cost: score(a, c), Price: c.Charge}, true
}

// score is in USD: what the call costs, waiting included.
func score(a *core.Auction, c *core.Candidate) float64 {
	const msPerHour = 3_600_000
	return c.Charge.Float() + c.Prediction.Wait().V/msPerHour*a.TimeValue.Float()
}

// cheapest: estimated input cost + requested output budget.
type cheapest struct{}

func (cheapest) Name() string                  { return "cheapest" }
func (cheapest) RankedOn(*core.Auction) string { return rankedOnPrice }

func (cheapest) Score(_ *core.Job, _ *core.Auction, c *core.Candidate) (core.Rank, bool) {
	return core.Rank{Tier: behind(c), Price: c.Price}, true
}

// fastest: highest own output speed, of the providers that have enough jobs of
// their own; the rest follow by price.
type fastest struct{}

func (fastest) Name() string                  { return "fastest" }
func (fastest) RankedOn(*core.Auction) string { return RankedOnOutputSpeed }

func (fastest) Score(_ *core.Job, _ *core.Auction, c *core.Candidate) (core.Rank, bool) {
	if m := &c.Measures.Output; m.Own.OK && m.Jobs >= ownJobs {
		return core.Rank{Tier: behind(c), Cost: -m.Own.V, Price: c.Price}, true
	}
	return core.Rank{Tier: behind(c) + 1, Price: c.Price}, true
}

// fastestFirstToken: lowest first-token time; ties by price.
type fastestFirstToken struct{}

func (fastestFirstToken) Name() string                  { return "fastest-first-token" }
func (fastestFirstToken) RankedOn(*core.Auction) string { return rankedOnTTFT }

func (fastestFirstToken) Score(_ *core.Job, a *core.Auction, c *core.Candidate) (core.Rank, bool) {
	return core.Rank{Tier: behind(c), Cost: firstToken(a, c), Price: c.Price}, true
}

// balanced: the cheapest offer within 1.5 × the lowest first-token time, ties by
// that time; then the others by it.
type balanced struct{}

func (balanced) Name() string                  { return "balanced" }
func (balanced) RankedOn(*core.Auction) string { return rankedOnBalanced }

func (balanced) Score(_ *core.Job, a *core.Auction, c *core.Candidate) (core.Rank, bool) {
	t := firstToken(a, c)
	if t <= nearFirst*a.LowestTTFT.V || !a.LowestTTFT.OK {
		return core.Rank{Tier: behind(c), Price: c.Price, Tie: t}, true
	}
	return core.Rank{Tier: behind(c) + 1, Cost: t, Price: c.Price}, true
}

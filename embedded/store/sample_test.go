package store_test

import (
	"time"

	"headway/core"
)

// sample is a receipt of the usual size: one attempt, three offers ranked.
func sample(id core.CallID, at time.Time) *core.Receipt {
	ms := func(v float64) core.Opt[float64] { return core.Some(v) }
	rates := core.Rates{Input: 150_000, Output: 600_000, CacheRead: core.Some[core.Rate](75_000)}
	timing := core.Timing{
		Auth: ms(0.021), Distribution: ms(0.133), BodyRead: ms(0.4), UpstreamHeaders: ms(181.25),
		FirstEvent: ms(190.1), FirstResponse: ms(240.75), FirstText: ms(240.75), UpstreamDone: ms(2140.5),
		TotalHandler: ms(2141.062), VisibleTPS: ms(98.422), Queued: ms(0.9), FirstToken: ms(239.8),
		Prompt: ms(239.8), PromptTPS: ms(5011.2), Decode: ms(1890.1), DecodeTPS: ms(98.9), FiguresFrom: "stream",
		DispatchToFirstToken: ms(239.8), FirstTokenToEnd: ms(1890.1), Arrivals: core.Some[int64](92),
		Connection: core.Connection{Reused: core.Some(true)},
	}
	ranked := func(o core.OfferID, c core.Money, w float64) core.Ranked {
		return core.Ranked{
			Offer: o, Charge: core.Some(c), PredictedWait: ms(w), Score: ms(0.001372), TTFT: ms(231),
			Terms: core.Terms{Base: ms(212.5), Prefill: ms(43.1), Output: ms(1800.25)},
			Fresh: core.Some[int64](812), Cached: core.Some[int64](400), Output: core.Some[int64](180),
			Basis: &core.RankedBasis{Input: rates.Input, Output: rates.Output, CacheRead: rates.CacheRead, MaxOutput: core.Some[int64](16384),
				Prefill: ms(18839.907), OutputTPS: ms(core.Micro(180_000 / w)), OwnJobs: int64(c) / 1_000_000, OwnTPS: ms(99.117)},
		}
	}
	return &core.Receipt{
		ID: id, Job: core.JobID(id), Kind: core.KindJob, Outcome: core.Settled,
		At: at.UTC(), SettledAt: at.Add(2141 * time.Millisecond).UTC(),
		Key: "k_2x7a9q", Owner: "team-a", Model: "small", Offer: "fast/small", Provider: "fast",
		Usage: core.Usage{
			UncachedInput: core.Some[int64](812), CacheRead: core.Some[int64](400), Output: core.Some[int64](187),
		},
		UsageFrom: core.FromProvider, Prices: &rates, Charge: core.Some[core.Money](264_000_000),
		Annex: core.Annex{
			Status: 200, Operation: core.OpGenerate, Format: core.FormatOpenAI, UpstreamFormat: core.FormatOpenAI,
			Streamed: true, FinishReason: "stop", Timing: timing,
			Attempts: []core.Attempt{{Offer: "fast/small", Status: 200, Outcome: core.Settled, Timing: timing}},
			Decision: &core.Decision{
				Strategy: "price-and-wait", RankedOn: "price-and-wait", TimeUSD: core.Some(core.USD),
				Offers: []core.Ranked{
					ranked("fast/small", 264_000_000, 2055.85), ranked("cheap/small", 210_000_000, 4055.85),
					{Offer: "own/small", Refused: core.RefusedOwn},
				},
			},
			PredictedWait: ms(2055.85), ActualWait: ms(2129.9), StreamEvents: core.Some[int64](190),
			TextDeltas: core.Some[int64](187), InFlight: core.Some[int64](3), Region: "eu", PromptBytes: 4100,
		},
	}
}

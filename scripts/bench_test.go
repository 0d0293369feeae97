package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"headway/core"
	"headway/scripts"
)

// auction is one of n offers with all their figures.
func auction(n int) *core.Question {
	q := &core.Question{Job: &core.Job{Model: "m", Streamed: true, MaxOutput: core.Some[int64](1000), Headers: map[string]string{"x-tenant": "blue"}},
		Auction: &core.Auction{TimeValue: core.USD, Complete: true, LowestTTFT: core.Some(200.0), MedianTTFT: core.Some(300.0), LowestCharge: core.USD / 1000},
		At:      time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC), Seed: 7, Limit: limit}
	for i := range n {
		x := float64(i)
		own := core.Some(20 + x)
		q.Candidates = append(q.Candidates, core.Candidate{
			Offer: &core.Offer{ID: core.OfferID(fmt.Sprintf("p%02d/m", i)), Provider: &core.Provider{ID: core.ProviderID(fmt.Sprintf("p%02d", i)), Region: "eu"},
				Model: "m", Price: core.Price{Rates: core.Rates{Input: 1_000_000, Output: 2_000_000}}, Labels: map[string]string{"kind": "node", "team": "a"}},
			Estimate: core.Estimate{Fresh: 1000, Cached: 100, Output: 500, MaxOutput: 1000},
			Charge:   core.USD/1000 + core.Money(i), Price: core.USD/500 + core.Money(i%3), TTFT: core.Some(200 + x),
			Prediction: core.Prediction{Base: core.Some(100.0), Prefill: core.Some(100.0), Output: core.Some(500 + x), Complete: true},
			Measures: &core.Measures{BaseLatency: core.Measure{Value: core.Some(100.0)}, Prefill: core.Measure{Value: core.Some(5000.0)},
				Output: core.Measure{Value: own, Own: own, Jobs: 10}}})
	}
	return q
}

// limit is that of a call, and longer under the race detector.
const limit = 10 * time.Millisecond

func load(t testing.TB, source string) core.Script {
	t.Helper()
	s, err := scripts.Load("test", "test.js", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkRank(b *testing.B) {
	for name, source := range map[string]string{
		"wait": `function score(job, offer, auction) {
  if (!auction.complete) return [offer.full ? 1 : 0, offer.charge_usd];
  return offer.charge_usd + offer.predicted_wait_ms / 3600000 * job.time_value_usd_per_hour;
}`,
		"empty":   `function score() { return 0; }`,
		"dynamic": `const w = {p01: 2}; function score(job, offer) { return offer.charge_usd * (w[offer.provider] || 1); }`,
	} {
		for _, n := range [...]int{1, 20, 50} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				s, q := load(b, source), auction(n)
				q.Limit = time.Second
				ranks, in := make([]core.Rank, n), make([]bool, n)
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Rank(q, ranks, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

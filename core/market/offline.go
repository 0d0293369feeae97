package market

import (
	"strings"

	"headway/core"
	"headway/core/measure"
)

// RankResult is what `headway rank -f --json` prints (SPEC §16). Which figures
// are there follows RankedOn: score, wait and charge for price-and-wait, the
// first-token times used for ttft, the threshold for balanced.
type RankResult struct {
	Order     []core.OfferID              `json:"order"`
	RankedOn  string                      `json:"ranked_on"`
	Score     map[core.OfferID]float64    `json:"score_usd,omitempty"`
	Wait      map[core.OfferID]float64    `json:"predicted_wait_ms,omitempty"`
	Charge    map[core.OfferID]core.Money `json:"charge_usd,omitempty"`
	TTFT      map[core.OfferID]float64    `json:"ttft_ms,omitempty"`
	Threshold core.Opt[float64]           `json:"threshold_ms,omitzero"`
}

// Rank ranks an auction that is written down as JSON, by the same strategies as
// a live one:
//
//	{"strategy", "time_value_usd_per_hour",
//	 "job": {"fresh_input_tokens", "cached_input_tokens", "expected_output_tokens", "max_output_tokens"},
//	 "offers": [{"id", "provider", "input_usd_per_mtok", "output_usd_per_mtok", "cache_read_usd_per_mtok",
//	   "base_latency_ms", "prefill_tps", "output_tps", "own_output_jobs", "own_output_tps", "ttft_ms",
//	   "queue_wait_ms", "fresh_input_tokens", "cached_input_tokens"}]}
//
// Prices are decimal strings or numbers. An offer's own token counts take the
// place of the job's. Left out: the strategy and the time value are the defaults
// of SPEC §7 and §18, the job's tokens are 0, its maximum the expected output.
// Every offer counts as free. Errors are Invalid and name the field.
func Rank(data []byte) (*RankResult, error) {
	w, err := readAuction(data, false)
	if err != nil {
		return nil, err
	}
	cands, a := w.cands, newAuction(w.timeValue, w.cands)
	sorted := order(&w.job, &a, w.strategy, cands, nil)
	res := &RankResult{RankedOn: w.strategy.RankedOn(&a)}
	for _, p := range sorted {
		res.Order = append(res.Order, cands[p].Offer.ID)
	}
	switch res.RankedOn {
	case rankedOnPriceAndWait:
		res.Score, res.Wait = map[core.OfferID]float64{}, map[core.OfferID]float64{}
		res.Charge = map[core.OfferID]core.Money{}
		for _, c := range cands {
			res.Score[c.Offer.ID] = score(&a, &c)
			res.Wait[c.Offer.ID] = c.Prediction.Wait().V
			res.Charge[c.Offer.ID] = c.Charge
		}
	case rankedOnTTFT:
		if a.MedianTTFT.OK {
			res.TTFT = map[core.OfferID]float64{}
			for _, c := range cands {
				res.TTFT[c.Offer.ID] = firstToken(&a, &c)
			}
		}
	case rankedOnBalanced:
		if a.LowestTTFT.OK {
			res.Threshold = core.Some(nearFirst * a.LowestTTFT.V)
		}
	}
	return res, nil
}

// written is an auction that was written down.
type written struct {
	strategy  core.Strategy // nil: a script ranks
	timeValue core.Money
	job       core.Job
	cands     []core.Candidate
}

// readAuction reads one; scripted is with what only scripts see.
func readAuction(data []byte, scripted bool) (*written, error) {
	ofJob := []string{"fresh_input_tokens", "cached_input_tokens", "expected_output_tokens", "max_output_tokens"}
	ofOffer := []string{"id", "provider", "input_usd_per_mtok", "output_usd_per_mtok", "cache_read_usd_per_mtok",
		"base_latency_ms", "prefill_tps", "output_tps", "own_output_jobs", "own_output_tps", "ttft_ms", "queue_wait_ms",
		"fresh_input_tokens", "cached_input_tokens"}
	if scripted {
		ofJob, ofOffer = append(ofJob, "model", "streamed", "headers"), append(ofOffer, "model", "region", "node", "labels", "full")
	}
	top, err := readDocument(data, "strategy", "time_value_usd_per_hour", "job", "offers")
	if err != nil {
		return nil, err
	}
	routing := core.DefaultSettings().Routing
	name := top.text("strategy").Or(routing.Strategy)
	w := &written{timeValue: top.money("time_value_usd_per_hour").Or(routing.TimeValue)}
	job := top.object("job", ofJob...)
	est := core.Estimate{Fresh: job.count("fresh_input_tokens").V, Cached: job.count("cached_input_tokens").V,
		Output: job.count("expected_output_tokens").V}
	w.job = core.Job{Operation: core.OpGenerate, Model: core.Model(job.text("model").V), Streamed: job.flag("streamed"),
		MaxOutput: job.count("max_output_tokens"), Headers: job.words("headers")}
	est.MaxOutput = w.job.MaxOutput.Or(est.Output)
	offers := top.list("offers", ofOffer...)
	if *top.err != nil {
		return nil, *top.err
	}
	if !scripted {
		var ok bool
		if w.strategy, ok = ByName(name); name == autoStrategy {
			w.strategy, ok = fastest{}, true
		}
		if !ok {
			var names []string
			for _, known := range Strategies() {
				names = append(names, known.Name())
			}
			err := core.Field("strategy", "%q is not a strategy", name)
			err.Hint = "it is one of " + strings.Join(names, ", ")
			return nil, err
		}
	}
	if len(offers) == 0 {
		return nil, core.Field("offers", "there is none to rank")
	}
	seen := map[core.OfferID]string{}
	for _, f := range offers {
		c, err := readCandidate(f, est)
		if err != nil {
			return nil, err
		}
		if first := seen[c.Offer.ID]; first != "" {
			return nil, core.Field(f.path+".id", "%q is already the id of %s", c.Offer.ID, first)
		}
		seen[c.Offer.ID] = f.path
		w.cands = append(w.cands, c)
	}
	return w, nil
}

func readCandidate(f fields, est core.Estimate) (core.Candidate, error) {
	id := core.OfferID(f.need("id"))
	rates := core.Rates{CacheRead: f.rate("cache_read_usd_per_mtok")}
	rates.Input, rates.Output = f.needRate("input_usd_per_mtok"), f.needRate("output_usd_per_mtok")
	est.Fresh = f.count("fresh_input_tokens").Or(est.Fresh)
	est.Cached = f.count("cached_input_tokens").Or(est.Cached)
	provider := core.ProviderID(f.text("provider").V)
	c := core.Candidate{
		Offer: &core.Offer{ID: id, Provider: &core.Provider{ID: provider, Region: f.text("region").V, Node: core.NodeID(f.text("node").V)}, Price: core.Price{Rates: rates},
			Model: core.Model(f.text("model").V), Labels: f.words("labels")},
		Estimate: est, TTFT: f.time("ttft_ms"), Full: f.flag("full"),
	}
	c.Measures = &core.Measures{BaseLatency: core.Measure{Value: f.time("base_latency_ms")},
		Prefill: core.Measure{Value: f.speed("prefill_tps")},
		Output:  core.Measure{Value: f.speed("output_tps"), Jobs: f.count("own_output_jobs").V, Own: f.speed("own_output_tps")}}
	c.Prediction = measure.Predict(est, c.Measures, f.time("queue_wait_ms"))
	if *f.err != nil {
		return c, *f.err
	}
	if err := price(&c, core.OpGenerate); err != nil {
		return c, core.Field(f.path, "its price for so many tokens is out of range")
	}
	return c, nil
}

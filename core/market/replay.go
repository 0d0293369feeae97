package market

import (
	"time"

	"headway/core"
	"headway/core/measure"
)

// Past is the auction of a call that was decided earlier, made again from what
// its receipt keeps.
type Past struct {
	Auction core.Auction
	// Candidates are the offers that a strategy saw, in the order of the decision:
	// those that were ranked, then those that the strategy left out itself. What
	// was refused for another reason stays refused.
	Candidates []core.Candidate
	job        *core.Job
}

// Recall makes the auction of a decision again. Every figure that a strategy sees
// of an offer is the one of then; its provider, model, region and labels are those
// that known gives for its id now. An offer that known does not know, which is gone
// since, has its id alone. The job needs its model, its operation and whether it
// was streamed. False: the decision was kept without these figures, or there was
// nothing to rank.
func Recall(d *core.Decision, job core.Job, known func(core.OfferID) *core.Offer) (*Past, bool) {
	job.MaxOutput = d.MaxOutput
	p := &Past{job: &job, Candidates: make([]core.Candidate, 0, len(d.Offers))}
	offers, measures := make([]core.Offer, len(d.Offers)), make([]core.Measures, len(d.Offers))
	nobody := &core.Provider{}
	for i := range d.Offers {
		r := &d.Offers[i]
		if r.Refused != "" && r.Refused != core.RefusedStrategy {
			continue
		}
		if r.Basis == nil {
			return nil, false
		}
		if now := known(r.Offer); now != nil {
			offers[i] = *now
		} else {
			offers[i].Provider = nobody
		}
		p.Candidates = append(p.Candidates, core.Candidate{Offer: &offers[i], Measures: &measures[i]})
		if recall(&p.Candidates[len(p.Candidates)-1], r, &job) != nil {
			return nil, false
		}
	}
	p.Auction = newAuction(d.TimeUSD.V, p.Candidates)
	return p, len(p.Candidates) > 0
}

// recall fills in a candidate's figures of then.
func recall(c *core.Candidate, r *core.Ranked, job *core.Job) error {
	b := r.Basis
	c.Offer.ID = r.Offer
	c.Offer.Price = core.Price{Rates: core.Rates{Input: b.Input, Output: b.Output, CacheRead: b.CacheRead}}
	c.Estimate = core.Estimate{Fresh: r.Fresh.V, Cached: r.Cached.V, Output: r.Output.V,
		MaxOutput: b.MaxOutput.Or(usualMaximum(job.MaxOutput, r.Output.V))}
	c.Measures.BaseLatency.Value, c.Measures.Prefill.Value = r.Terms.Base, b.Prefill
	c.Measures.Output = core.Measure{Value: b.OutputTPS, Jobs: b.OwnJobs, Own: b.OwnTPS}
	c.Prediction = measure.Predict(c.Estimate, c.Measures, r.Terms.Queue)
	c.TTFT, c.Full = r.TTFT, b.Full
	err := price(c, job.Operation)
	c.Charge = r.Charge.V
	return err
}

// usualMaximum is the output maximum that an offer is priced with where it has
// none of its own to go by.
func usualMaximum(asked core.Opt[int64], expected int64) int64 { return max(asked.V, expected) }

// Rank ranks the auction again: by the script where one is given, and where it
// fails, or there is none, by the strategy. at and seed are a script's time and
// random numbers, those of the call; limit is how long it may take. The places are
// of Candidates, the best first; who is not among them was left out. The error, a
// *core.ScriptError, says why the strategy ranked and not the script.
func (p *Past) Rank(s core.Strategy, script core.Script, at time.Time, seed uint64, limit time.Duration) ([]int32, error) {
	settings := core.Settings{Limits: core.Limits{Script: limit}}
	c := Choice{Auction: p.Auction}
	places := c.rank(&Query{Job: p.job, Strategy: s, Script: script, At: at, Seed: seed, Settings: &settings}, p.Candidates, nil)
	return places, c.ScriptError
}

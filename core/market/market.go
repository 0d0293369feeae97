// Package market decides which offer takes a call: it finds the offers of the
// model, puts each through the filters of SPEC §8, predicts what the rest would
// cost and how long they would take, and lets a strategy rank them (SPEC §7).
// Every offer leaves either a place in the order or a reason.
//
// A decision is a function of its [Query] and of how the offers stand at that
// moment ([State], [Account]); the catalogue itself never changes.
package market

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"headway/core"
	"headway/core/estimate"
	"headway/core/measure"
)

// Board is what the market reads of the measures; core/measure has it.
type Board interface {
	// Measures are the three figures of a provider and model.
	Measures(core.ProviderID, core.Model) *core.Measures
	// TTFTAt is an offer's live first-token estimate in ms at a time.
	TTFTAt(o core.OfferID, now time.Time) core.Opt[float64]
}

// Query is one call that needs an offer. All but Key and TimeValue are required.
type Query struct {
	Job       *core.Job
	Key       *core.Key // nil: no restrictions of a key, as for Headway's own calls
	Settings  *core.Settings
	Catalogue *Catalogue
	Board     Board
	Strategy  core.Strategy
	// Reading is what is known of the job's needs; nil: the plain estimates.
	Reading *estimate.Reading
	// Script, where not nil, ranks in the place of Strategy, which takes over where
	// it fails.
	Script core.Script
	// NoScript is why the script that was asked for is not there.
	NoScript error
	// Asked is the name of what was asked to rank; "": the strategy's own.
	Asked string
	// Seed is of a script's random numbers, At what its clock says; zero: Now. A
	// receipt keeps both, in its id and its time.
	Seed uint64
	At   time.Time
	// TimeValue is what this call says an hour of waiting is worth, in USD;
	// absent: what its key says, else the routing.
	TimeValue core.Opt[core.Money]
	Now       time.Time
}

// Pick is one offer in the running.
type Pick struct {
	*core.Candidate
	Entry *Entry
}

// Choice is what was decided: who is in the running, the best first, and who is
// not and why.
type Choice struct {
	Picks    []Pick
	Refused  []Refused
	RankedOn string
	Auction  core.Auction
	// ScriptError is why the strategy ranked and not the script that was asked.
	ScriptError error

	strategy  string
	maxOutput core.Opt[int64]               // that was asked for
	scores    map[*core.Candidate]core.Rank // a script's, where one ranked
	cands     *[]core.Candidate             // what Release gives back
}

// candidates are the memory of decisions that are over: eight KB for fifty offers, a
// fifth of the time that ranking them takes.
var candidates = sync.Pool{New: func() any { return new([]core.Candidate) }}

// Release gives back the memory of a choice, once nobody looks at its picks any more. One
// that is not released is collected as anything is.
func (c *Choice) Release() {
	if c == nil || c.cands == nil {
		return
	}
	clear(*c.cands)
	candidates.Put(c.cands)
	c.cands, c.Picks, c.scores = nil, nil, nil
}

// Decide ranks the offers of a job's model; where that is the Auto Router's name,
// those of its whole pool, as fastest does. The errors: NotFound for an unknown
// model; Forbidden where the lists of the key or the routing keep it from the
// caller; Invalid, naming the field, where only the request itself stands in the
// way (too long, asks for too much or for what no offer has, or in a format that
// none speaks); NoOffer with RetryAfter and the count by reason for the rest.
// Where the model is known the Choice is there even with an error, for its
// refusals.
func Decide(q Query) (*Choice, error) {
	routing := &q.Settings.Routing
	entries := q.Catalogue.Meant(q.Job.Model, routing)
	auto := IsAuto(q.Job.Model, routing)
	if len(entries) == 0 {
		return nil, unknown(&q, auto)
	}
	if auto {
		if autoBlocked(q.Key, routing) {
			return nil, forbidden(&q)
		}
		q.Strategy, q.Script, q.NoScript, q.Asked = fastest{}, nil, nil, autoStrategy
	}
	choice := &Choice{strategy: cmp.Or(q.Asked, q.Strategy.Name()), maxOutput: q.Job.MaxOutput, ScriptError: q.NoScript}
	reading := q.Reading // not kept in q: a plain one stays on the stack
	if reading == nil {
		reading = estimate.Plain(q.Job)
	}
	choice.cands = candidates.Get().(*[]core.Candidate)
	*choice.cands = slices.Grow((*choice.cands)[:0], len(entries))
	cands := *choice.cands
	var room [stackOffers]*Entry
	of := room[:0] // the entry of each candidate
	for _, e := range entries {
		est := reading.At(e.Offer)
		if reason, back := refuse(&q, e, est); reason != "" {
			choice.Refused = append(choice.Refused, Refused{Entry: e, Reason: reason, Back: back})
			continue
		}
		// In place, as all of what follows: a candidate is a lot to copy.
		cands = cands[:len(cands)+1]
		c := &cands[len(cands)-1]
		c.Offer, c.Estimate = e.Offer, est
		of = append(of, e)
	}
	evenMaximum(q.Job, cands)
	kept := 0
	for i := range cands {
		if price(&cands[i], q.Job.Operation) != nil {
			// More than money can count is more than any cap allows.
			choice.Refused = append(choice.Refused, Refused{Entry: of[i], Reason: core.RefusedPrice})
			continue
		}
		if kept < i {
			cands[kept], of[kept] = cands[i], of[i]
		}
		measured(&cands[kept], of[kept], q.Board, q.Now)
		kept++
	}
	*choice.cands = cands // all that were touched
	cands = cands[:kept]

	choice.Auction = newAuction(timeValue(&q), cands)
	var places [stackOffers]int32
	sorted := choice.rank(&q, cands, places[:0])
	choice.Picks = make([]Pick, len(sorted))
	for i, p := range sorted {
		choice.Picks[i] = Pick{Candidate: &cands[p], Entry: of[p]}
	}
	if len(sorted) < len(cands) {
		choice.leaveOut(cands, of)
	}
	if len(choice.Picks) == 0 {
		if q.Reading == nil {
			q.Reading = estimate.Plain(q.Job)
		}
		return choice, noneLeft(&q, choice.Refused)
	}
	return choice, nil
}

// Force leaves only one offer in the running, also where it is paused or out: a
// call of Headway's own may find out whether it is well again. False: it cannot
// take the call, and nothing has changed.
func (c *Choice) Force(q Query, id core.OfferID) bool {
	for _, p := range c.Picks {
		if p.Offer.ID == id {
			c.Picks = []Pick{p}
			return true
		}
	}
	for i, r := range c.Refused {
		if r.Entry.Offer.ID != id || r.Reason != core.RefusedPaused && r.Reason != core.RefusedOut {
			continue
		}
		if q.Reading == nil {
			q.Reading = estimate.Plain(q.Job)
		}
		cands := []core.Candidate{{Offer: r.Entry.Offer, Estimate: q.Reading.At(r.Entry.Offer)}}
		if price(&cands[0], q.Job.Operation) != nil {
			return false
		}
		measured(&cands[0], r.Entry, q.Board, q.Now)
		c.Auction = newAuction(timeValue(&q), cands)
		c.RankedOn = q.Strategy.RankedOn(&c.Auction)
		c.Picks = []Pick{{Candidate: &cands[0], Entry: r.Entry}}
		c.Refused = slices.Delete(c.Refused, i, i+1)
		return true
	}
	return false
}

// measured fills in what is known of how fast a candidate is.
func measured(c *core.Candidate, e *Entry, b Board, now time.Time) {
	m := b.Measures(c.Offer.Provider.ID, c.Offer.Model)
	measure.PredictInto(&c.Prediction, c.Estimate, m, core.Opt[float64]{})
	if stand, ok := e.State.stand(); ok {
		c.Full = stand.Full
		c.Prediction.Queue = queueWait(stand, c.Prediction)
	}
	c.TTFT = b.TTFTAt(c.Offer.ID, now)
	c.Measures = m
}

// queueWait is queue ÷ service rate (SPEC §6). Before a node's server has served
// anything, what this call is predicted to take stands for its service time.
func queueWait(s core.Stand, p core.Prediction) core.Opt[float64] {
	if s.Ahead == 0 {
		return core.Some(0.0)
	}
	service := s.Service
	if !service.OK {
		service = p.Wait()
	}
	if !service.OK {
		return service
	}
	return core.Some(core.Micro(s.Ahead * service.V))
}

func timeValue(q *Query) core.Money {
	if q.TimeValue.OK {
		return q.TimeValue.V
	}
	if q.Key != nil {
		return q.Key.TimeValue.Or(q.Settings.Routing.TimeValue)
	}
	return q.Settings.Routing.TimeValue
}

// leaveOut keeps the reason of the candidates that the strategy did not rank.
func (c *Choice) leaveOut(cands []core.Candidate, of []*Entry) {
	picked := make(map[core.OfferID]bool, len(c.Picks))
	for _, p := range c.Picks {
		picked[p.Offer.ID] = true
	}
	for i := range cands {
		if !picked[cands[i].Offer.ID] {
			c.Refused = append(c.Refused, Refused{Entry: of[i], Reason: core.RefusedStrategy, seen: &cands[i]})
		}
	}
}

// pico is how exactly a score is kept, as money is.
const pico = float64(core.USD)

// micro keeps a time in ms to the microsecond: a receipt has many of them.
func micro(ms core.Opt[float64]) core.Opt[float64] {
	if ms.OK {
		ms.V = core.Micro(ms.V)
	}
	return ms
}

// Decision is the choice as a receipt keeps it: every offer, those in the
// running in order with the figures that ranked them, then the others with their
// reasons. score_usd is there where charge and wait were what ranked, tier and
// script_score where a script was. What a
// strategy saw is kept exactly, so that Recall ranks the same again; what follows
// from it is rounded.
func (c *Choice) Decision() *core.Decision {
	d := &core.Decision{Strategy: c.strategy, RankedOn: c.RankedOn, TimeUSD: core.Some(c.Auction.TimeValue), MaxOutput: c.maxOutput,
		Offers: make([]core.Ranked, len(c.Picks)+len(c.Refused))}
	if c.ScriptError != nil {
		d.ScriptError = c.ScriptError.Error()
	}
	bases := make([]core.RankedBasis, len(d.Offers))
	for i, p := range c.Picks {
		r := &d.Offers[i]
		c.figures(r, &bases[i], p.Candidate)
		if s, ok := c.scores[p.Candidate]; ok {
			r.Tier, r.ScriptScore = core.Some(int64(s.Tier)), core.Some(s.Cost)
		}
		if c.RankedOn == rankedOnPriceAndWait {
			r.Score = core.Some(math.Round(score(&c.Auction, p.Candidate)*pico) / pico)
		}
	}
	for i, refused := range c.Refused {
		i += len(c.Picks)
		r := &d.Offers[i]
		if refused.seen != nil {
			c.figures(r, &bases[i], refused.seen)
		}
		r.Offer, r.Refused = refused.Entry.Offer.ID, refused.Reason
	}
	return d
}

// figures are a candidate's as a receipt keeps them.
func (c *Choice) figures(r *core.Ranked, basis *core.RankedBasis, p *core.Candidate) {
	r.Offer, r.Charge, r.PredictedWait, r.TTFT = p.Offer.ID, core.Some(p.Charge), micro(p.Prediction.Wait()), p.TTFT
	r.Terms = core.Terms{Base: p.Prediction.Base, Prefill: micro(p.Prediction.Prefill), Output: micro(p.Prediction.Output), Queue: p.Prediction.Queue}
	r.Fresh, r.Cached, r.Output = core.Some(p.Estimate.Fresh), core.Some(p.Estimate.Cached), core.Some(p.Estimate.Output)
	rates := p.Offer.Price.For(p.Estimate.Input())
	basis.Input, basis.Output, basis.CacheRead, basis.Full = rates.Input, rates.Output, rates.CacheRead, p.Full
	if p.Estimate.MaxOutput != usualMaximum(c.maxOutput, p.Estimate.Output) {
		basis.MaxOutput = core.Some(p.Estimate.MaxOutput)
	}
	m := p.Measures
	basis.Prefill, basis.OutputTPS, basis.OwnJobs, basis.OwnTPS = m.Prefill.Value, m.Output.Value, m.Output.Jobs, m.Output.Own
	r.Basis = basis
}

package market

import (
	"time"

	"headway/core"
)

// Refused is an offer that is not in the running, with the first reason.
type Refused struct {
	Entry  *Entry
	Reason core.Refusal
	// Back is when it is expected to return by itself; absent where it is not.
	Back core.Opt[time.Time]
	seen *core.Candidate // as the strategy saw it that left it out
}

// refusals are all reasons in the order of SPEC §8, for counts.
func refusals() [12]core.Refusal {
	return [...]core.Refusal{core.RefusedModel, core.RefusedPrice, core.RefusedContext, core.RefusedOutput,
		core.RefusedFeature, core.RefusedFormat, core.RefusedPaused, core.RefusedOut, core.RefusedNode,
		core.RefusedCapacity, core.RefusedOwn, core.RefusedStrategy}
}

// Allowed tells whether an offer passes the key's own models and the allow and
// block lists of the routing and the key. A list names an offer by its model or
// by any other name that clients reach it by, so that an alias opens nothing
// that its model's name would not. A nil key or routing restricts nothing.
func (e *Entry) Allowed(key *core.Key, r *core.Routing) bool {
	if r != nil && (len(r.AllowModels) > 0 && !e.named(r.AllowModels) || e.named(r.BlockModels)) {
		return false
	}
	return key == nil || (len(key.Models) == 0 || e.named(key.Models)) &&
		(len(key.AllowModels) == 0 || e.named(key.AllowModels)) && !e.named(key.BlockModels)
}

// translates tells whether a call may go to a provider of another format.
func translates(job *core.Job) bool { return job.Operation == core.OpGenerate && job.Bound == "" }

// refuse puts an offer through every filter of SPEC §8, in its order. Without a reason the offer is eligible; back is
// when a refused one is expected to return by itself.
func refuse(q *Query, e *Entry, est core.Estimate) (reason core.Refusal, back core.Opt[time.Time]) {
	o := e.Offer
	routing := &q.Settings.Routing
	if !e.Allowed(q.Key, routing) {
		return core.RefusedModel, back
	}
	rates := o.Price.For(est.Input())
	if !routing.PriceCap.Allows(rates) || q.Key != nil && !q.Key.PriceCap.Allows(rates) {
		return core.RefusedPrice, back
	}
	if q.Job.Operation != core.OpCountTokens {
		// A prompt may be counted wherever it would not fit.
		if lim := o.Limits.Context; lim.OK && est.Input() > lim.V-q.Job.MaxOutput.V {
			return core.RefusedContext, back
		}
		if lim := o.Limits.MaxOutput; lim.OK && q.Job.MaxOutput.V > lim.V {
			return core.RefusedOutput, back
		}
	}
	if o.Features.OK && q.Job.Features&^o.Features.V != 0 {
		return core.RefusedFeature, back
	}
	if !o.Provider.Format.Native(q.Job.Format) && !translates(q.Job) {
		return core.RefusedFormat, back
	}
	if e.marked() {
		refused, quota := e.Account.standing()
		paused, out := e.State.standing()
		switch {
		case paused || refused:
			return core.RefusedPaused, back
		case q.Now.Before(quota):
			return core.RefusedPaused, core.Some(quota)
		case q.Now.Before(out):
			return core.RefusedOut, core.Some(out)
		}
	}
	if stand, ok := e.State.stand(); ok {
		if !stand.Up {
			return core.RefusedNode, back
		}
	} else if o.Capacity.OK && e.State.InFlight() >= o.Capacity.V {
		return core.RefusedCapacity, core.Some(q.Now) // whenever a call ends
	}
	if q.Key != nil && q.Key.Owner != "" && o.Provider.Owner == q.Key.Owner && !q.Key.ServeOwn && !routing.ServeOwn {
		return core.RefusedOwn, back
	}
	return "", back
}

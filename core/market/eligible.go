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
}

// refusals are all reasons in the order of SPEC §8, for counts.
func refusals() [11]core.Refusal {
	return [...]core.Refusal{core.RefusedModel, core.RefusedPrice, core.RefusedContext, core.RefusedOutput,
		core.RefusedFeature, core.RefusedFormat, core.RefusedPaused, core.RefusedOut, core.RefusedCapacity,
		core.RefusedOwn, core.RefusedStrategy}
}

// allowed tells whether an offer passes the key's own models and the allow and
// block lists of the routing and the key. A list names an offer by its model or
// by any other name that clients reach it by, so that an alias opens nothing
// that its model's name would not.
func allowed(e *Entry, key *core.Key, r *core.Routing) bool {
	if r != nil && (len(r.AllowModels) > 0 && !e.named(r.AllowModels) || e.named(r.BlockModels)) {
		return false
	}
	return key == nil || (len(key.Models) == 0 || e.named(key.Models)) &&
		(len(key.AllowModels) == 0 || e.named(key.AllowModels)) && !e.named(key.BlockModels)
}

// refuse puts an offer through every filter of SPEC §8, in its order. Of
// features and formats the format comes last: this version serves calls in the
// provider's own format alone.
func refuse(q *Query, e *Entry, est core.Estimate) (Refused, bool) {
	o := e.Offer
	routing := &q.Settings.Routing
	no := func(reason core.Refusal, back core.Opt[time.Time]) (Refused, bool) {
		return Refused{Entry: e, Reason: reason, Back: back}, true
	}
	never := core.Opt[time.Time]{}
	if !allowed(e, q.Key, routing) {
		return no(core.RefusedModel, never)
	}
	rates := o.Price.For(est.Fresh + est.Cached)
	if !routing.PriceCap.Allows(rates) || q.Key != nil && !q.Key.PriceCap.Allows(rates) {
		return no(core.RefusedPrice, never)
	}
	if q.Job.Operation != core.OpCountTokens {
		// A prompt may be counted wherever it would not fit.
		if lim := o.Limits.Context; lim.OK && est.Fresh+est.Cached > lim.V-q.Job.MaxOutput.V {
			return no(core.RefusedContext, never)
		}
		if lim := o.Limits.MaxOutput; lim.OK && q.Job.MaxOutput.V > lim.V {
			return no(core.RefusedOutput, never)
		}
	}
	if o.Features.OK && q.Job.Features&^o.Features.V != 0 {
		return no(core.RefusedFeature, never)
	}
	if o.Provider.Format.Wire() != q.Job.Format {
		return no(core.RefusedFormat, never)
	}
	refused, quota := e.Account.standing()
	paused, out := e.State.standing()
	switch {
	case paused || refused:
		return no(core.RefusedPaused, never)
	case q.Now.Before(quota):
		return no(core.RefusedPaused, core.Some(quota))
	case q.Now.Before(out):
		return no(core.RefusedOut, core.Some(out))
	}
	if o.Capacity.OK && e.State.InFlight() >= o.Capacity.V && e.State.queue.Load() == nil {
		return no(core.RefusedCapacity, core.Some(q.Now)) // whenever a call ends
	}
	if q.Key != nil && q.Key.Owner != "" && o.Provider.Owner == q.Key.Owner && !q.Key.ServeOwn && !routing.ServeOwn {
		return no(core.RefusedOwn, never)
	}
	return Refused{}, false
}

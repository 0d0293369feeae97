package gateway

import (
	"math"

	"headway/core"
	"headway/core/market"
)

// choose estimates, filters, predicts and ranks (SPEC §6 to §8).
func (c *call) choose() error {
	start := c.g.Clock()
	s := c.setup
	name := s.Settings.Routing.Strategy
	if c.key != nil && c.key.Strategy != "" {
		name = c.key.Strategy
	}
	c.seen(s.Settings.Routing.ScriptHeaders)
	c.reading = c.g.Estimator.Read(c.job, c.keyID())
	query := market.Query{Job: c.job, Key: c.key, Settings: &s.Settings, Catalogue: s.Catalogue, Board: c.g.Board,
		Reading: c.reading, Asked: name, TimeValue: c.facts.timeValue, Now: start, Seed: c.id.Seed(), At: c.t0}
	c.strategy(&query)
	choice, err := market.Decide(query)
	c.choice = choice
	if c.forced != nil && choice != nil {
		err = nil
		if !choice.Force(query, c.forced.Offer) {
			err = core.Errorf(core.NoOffer, "offer %s cannot take this call now", c.forced.Offer)
		}
	}
	if err != nil {
		return err
	}
	c.timing.Distribution = core.Some(core.Ms(c.g.Clock().Sub(start)))
	return nil
}

// strategy finds what was asked to rank: a built-in strategy, or a script with
// the default behind it.
func (c *call) strategy(q *market.Query) {
	var ok bool
	if q.Strategy, ok = market.ByName(q.Asked); ok {
		return
	}
	q.Strategy = market.Strategies()[0]
	if c.g.Scripts == nil {
		q.NoScript = &core.ScriptError{Script: q.Asked, Msg: "there are no scripts"}
		return
	}
	q.Script, q.NoScript = c.g.Scripts.Find(q.Asked)
}

// seen gives the job the headers that strategies may see.
func (c *call) seen(names []string) {
	for _, name := range names {
		if v := c.head.Header.Get(name); v != "" {
			if c.job.Headers == nil {
				c.job.Headers = make(map[string]string, len(names))
			}
			c.job.Headers[name] = v
		}
	}
}

// reserve sets aside what the call can cost at an offer, at most, and the tokens
// that it is likely to need there.
func (c *call) reserve(p *market.Pick) error {
	if c.hold == nil {
		return nil
	}
	var tokens int64
	if c.job.Operation != core.OpCountTokens {
		tokens = p.Estimate.Input() + p.Estimate.Output
	}
	err := c.hold.Reserve(c.id, c.highest(p), tokens, c.g.Clock())
	if err == nil {
		return nil
	}
	e := known(err)
	if e.Kind == core.OverBudget {
		c.advise(e, p)
	}
	return e
}

// advise adds to the error of a budget what would make the call fit it.
func (c *call) advise(e *core.Error, p *market.Pick) {
	short := *c.job
	short.MaxOutput = core.Some[int64](1)
	least, err := market.Highest(&short, p.Offer, p.Estimate.Input())
	switch {
	case err != nil:
	case c.job.Operation.Generates() && c.hold.Fits(least, c.g.Clock()):
		e.Hint += "; a call with a lower output maximum may fit before"
	case c.job.Beyond:
		e.Hint += "; the request has the model read what only the provider knows the size of, so the offer's whole context is set aside"
	}
}

// highest is the most that the call can cost at an offer. What money cannot count
// is more than any budget has.
func (c *call) highest(p *market.Pick) core.Money {
	most, err := market.Highest(c.job, p.Offer, p.Estimate.Input())
	if err != nil {
		return math.MaxInt64
	}
	return most
}

// another tells whether an offer is left that could answer after pick i, within
// the key's budgets.
func (c *call) another(i int) bool {
	if len(c.tries)+1 == mostOffers {
		return false
	}
	for i++; i < len(c.choice.Picks); i++ {
		if c.hold == nil || c.hold.Fits(c.highest(&c.choice.Picks[i]), c.g.Clock()) {
			return true
		}
	}
	return false
}

// larger tells whether an offer may hold a prompt that was too long for those
// tried before (SPEC §9).
func (c *call) larger(p *market.Pick) bool {
	for i := range c.tries {
		t := c.tries[i]
		was, is := t.pick.Offer.Limits.Context, p.Offer.Limits.Context
		if t.tooLong && was.OK && is.OK && is.V <= was.V {
			return false
		}
	}
	return true
}

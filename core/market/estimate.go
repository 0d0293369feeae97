package market

import "headway/core"

// evenMaximum gives offers without a maximum of their own the greatest of the
// others', where the job asks for none. Prices are compared by the maximum: an
// operator who left it out did not make that offer the cheapest.
func evenMaximum(job *core.Job, cands []core.Candidate) {
	if job.MaxOutput.OK || !job.Operation.Generates() {
		return
	}
	var greatest int64
	for i := range cands {
		greatest = max(greatest, cands[i].Offer.Limits.MaxOutput.V)
	}
	for i := range cands {
		if !cands[i].Offer.Limits.MaxOutput.OK {
			cands[i].Estimate.MaxOutput = max(cands[i].Estimate.MaxOutput, greatest)
		}
	}
}

// price fills in what a candidate costs (SPEC §7): the charge is fresh input,
// cached reads and expected output; the price is the uncached input and the
// output maximum. An amount out of range is core.ErrMoney. Counting tokens costs
// nothing.
func price(c *core.Candidate, op core.Operation) error {
	c.Charge, c.Price = 0, 0
	if op == core.OpCountTokens {
		return nil
	}
	est := c.Estimate
	r := c.Offer.Price.For(est.Input())
	input, err1 := core.Money(r.Input).Times(est.Fresh)
	cached, err2 := core.Money(r.CacheRead.Or(r.Input)).Times(est.Cached)
	output, err3 := core.Money(r.Output).Times(est.Output)
	most, err4 := core.Money(r.Output).Times(est.MaxOutput)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return core.ErrMoney
	}
	charge, err1 := input.Plus(cached)
	c.Charge, err2 = charge.Plus(output)
	c.Price, err3 = input.Plus(most)
	if err1 != nil || err2 != nil || err3 != nil {
		return core.ErrMoney
	}
	return nil
}

package market

import "headway/core"

const (
	bytesPerToken = 4   // of a prompt, before there is history (SPEC §24)
	usualOutput   = 500 // tokens of an answer, before there is history (SPEC §24)
)

// Tokens is the plain estimate of SPEC §24 for a text of that many bytes, rounded
// up.
func Tokens(bytes int) int64 { return (int64(max(bytes, 0)) + bytesPerToken - 1) / bytesPerToken }

// Estimate is what a job needs at an offer before there is history: prompt bytes
// ÷ 4 tokens, rounded up, none of them cached; the output that was asked for, at
// most 500 tokens and the offer's own maximum; none where the operation writes
// none. MaxOutput is the maximum that was asked for, else the offer's own, else
// the expected output.
func Estimate(job *core.Job, offer *core.Offer) core.Estimate {
	est := core.Estimate{Fresh: Tokens(job.PromptBytes)}
	if !job.Operation.Generates() {
		return est
	}
	own := offer.Limits.MaxOutput
	est.Output = max(min(job.MaxOutput.Or(usualOutput), own.Or(usualOutput), usualOutput), 0)
	est.MaxOutput = max(job.MaxOutput.Or(own.Or(est.Output)), est.Output)
	return est
}

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
	r := c.Offer.Price.For(est.Fresh + est.Cached)
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

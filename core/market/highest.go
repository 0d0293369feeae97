package market

import "headway/core"

const (
	templateTokens = 32      // what a provider's template adds to a prompt, at most
	toolsTokens    = 512     // and more where tools are offered
	unknownContext = 1 << 20 // tokens that an offer holds which does not say it
)

// Highest is the most that a job can cost at an offer, which is what a budget sets
// aside for it (SPEC §10): a token of input for each byte of the prompt and what a
// template may add, or what the prompt is estimated at where that is more, at most the
// offer's context; all of the context where the job has the model read more than the
// request holds (Job.Beyond); all at the dearest rate that input can have; and as much
// output for each answer as was asked for, else as the offer writes at most. Counting
// tokens costs nothing, embeddings have no output. An amount out of range is
// core.ErrMoney.
func Highest(job *core.Job, o *core.Offer, estimated int64) (core.Money, error) {
	if job.Operation == core.OpCountTokens {
		return 0, nil
	}
	input := int64(job.PromptBytes) + templateTokens
	if job.Features&core.FeatureTools != 0 {
		input += toolsTokens
	}
	input = max(input, estimated)
	if job.Beyond {
		input = max(input, o.Limits.Context.Or(unknownContext))
	}
	if c := o.Limits.Context; c.OK {
		input = min(input, c.V)
	}
	var output int64
	if job.Operation.Generates() {
		each := job.MaxOutput.Or(o.Limits.MostOutput())
		total, err := core.Money(each).Times(max(job.Choices, 1))
		if err != nil {
			return 0, err
		}
		output = int64(total)
	}
	above := o.Price.Above
	if !above.OK || input <= above.V.InputTokens {
		return highestAt(&o.Price.Rates, input, output)
	}
	below, err1 := highestAt(&o.Price.Rates, above.V.InputTokens, output)
	whole, err2 := highestAt(&above.V.Rates, input, output)
	if err1 != nil || err2 != nil {
		return 0, core.ErrMoney
	}
	return max(below, whole), nil
}

// highestAt is what the tokens cost at most at the rates of one tier.
func highestAt(r *core.Rates, input, output int64) (core.Money, error) {
	dearest := max(r.Input, r.CacheRead.V, r.CacheWrite.V, r.CacheWrite1h.V)
	in, err1 := core.Money(dearest).Times(input)
	out, err2 := core.Money(r.Output).Times(output)
	if err1 != nil || err2 != nil {
		return 0, core.ErrMoney
	}
	return in.Plus(out)
}

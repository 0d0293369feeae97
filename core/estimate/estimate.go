// Package estimate says what a job will need before it is sent: how many tokens
// its prompt has, how many its answer will have, and how much of the prompt each
// offer will read from its cache (SPEC §6). It learns all three from what
// providers report, and before there is history it takes the plain estimates of
// SPEC §24.
package estimate

import (
	"sync"

	"headway/core"
)

const (
	bytesPerToken = 4   // of a prompt, before there is history (SPEC §24)
	usualOutput   = 500 // tokens of an answer, before there is history (SPEC §24)
)

// Tokens is the plain estimate of SPEC §24 for a text of that many bytes, rounded
// up.
func Tokens(bytes int) int64 { return (int64(max(bytes, 0)) + bytesPerToken - 1) / bytesPerToken }

// Estimator knows what was learnt. It is told of every receipt (core.Recorder).
// Its methods may be called concurrently; Read and what it gives take no lock that
// Record holds for longer than an entry of a map takes.
type Estimator struct {
	clock   core.Clock
	prompts *prompts
	outputs *outputs

	mu sync.Mutex // held by Record and Changed
}

// New reads what an earlier Estimator left in the vault. It fails where the vault
// does (the vault's error) and where a record cannot be read (core.Unavailable).
func New(clock core.Clock, vault core.Vault) (*Estimator, error) {
	e := &Estimator{clock: clock, prompts: newPrompts(), outputs: newOutputs()}
	if err := e.load(vault); err != nil {
		return nil, err
	}
	return e, nil
}

// Record learns from one receipt.
func (e *Estimator) Record(r *core.Receipt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prompts.learn(r)
	e.outputs.learn(r)
}

// Changed gives the records that changed since it was last asked.
func (e *Estimator) Changed() []core.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed()
}

// Reading is what is known of one job, for all offers that may take it. It is
// used by one call.
type Reading struct {
	job   *core.Job
	from  *Estimator // nil: no history
	key   core.KeyID
	units units
	class class
	needs [1]need // room for the one model that most calls ask about
	asked []need  // by model; the Auto Router asks about several
}

// need is what a job is likely to need of a model.
type need struct {
	model          core.Model
	prompt, output int64
}

// Read looks at a job's prompt, once for all offers. It takes
// microseconds: about 12 for 8 KiB to 128 KiB, 50 for the longest.
func (e *Estimator) Read(job *core.Job, key core.KeyID) *Reading {
	r := &Reading{job: job, from: e, key: key}
	r.units, r.class = read(job)
	return r
}

// Plain is a reading without history.
func Plain(job *core.Job) *Reading { return &Reading{job: job} }

// Describe notes in a receipt what the prompt was made of, in numbers: what is to
// be learnt from it once the provider's own count is beside them.
func (r *Reading) Describe(a *core.Annex) {
	if r.from == nil {
		return
	}
	n := len(r.units)
	for n > 0 && r.units[n-1] < 0.5 {
		n--
	}
	a.PromptClass, a.PromptUnits = classNames[r.class], make([]int64, n)
	for i := range n {
		a.PromptUnits[i] = int64(r.units[i] + 0.5)
	}
}

// Prompt is how many tokens the prompt has for a model.
func (r *Reading) Prompt(m core.Model) int64 { return r.need(m).prompt }

// need is what the job is likely to need of a model.
func (r *Reading) need(m core.Model) *need {
	for i := range r.asked {
		if r.asked[i].model == m {
			return &r.asked[i]
		}
	}
	n := need{model: m, prompt: Tokens(r.job.PromptBytes), output: usualOutput}
	if r.from != nil {
		if s := r.from.prompts.of(m); s != nil {
			n.prompt = s.tokens(&r.units, r.class)
		}
		if r.job.Operation.Generates() {
			if v, ok := r.from.outputs.expected(r.key, m); ok {
				n.output = v
			}
		}
	}
	if r.asked == nil {
		r.asked = r.needs[:0]
	}
	r.asked = append(r.asked, n)
	return &r.asked[len(r.asked)-1]
}

// At is what the job needs at an offer: the prompt, of it what is likely to be
// read from the cache there; the output that is likely, at most what was asked for
// and what the offer writes; none where the operation writes none. MaxOutput is
// the maximum that was asked for, else the offer's own, else the expected output.
func (r *Reading) At(offer *core.Offer) core.Estimate {
	need := r.need(offer.Model)
	est := core.Estimate{Fresh: need.prompt}
	if !r.job.Operation.Generates() {
		return est
	}
	own := offer.Limits.MaxOutput
	est.Output = max(min(r.job.MaxOutput.Or(need.output), own.Or(need.output), need.output), 0)
	est.MaxOutput = max(r.job.MaxOutput.Or(own.Or(est.Output)), est.Output)
	return est
}

// Answered notes that an offer has read the prompt, so that it may be in that
// provider's cache from now on.
func (e *Estimator) Answered(r *Reading, offer *core.Offer, usage core.Usage) {}

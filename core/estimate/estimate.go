// Package estimate says what a job will need before it is sent: how many tokens
// its prompt has, how many its answer will have, and how much of the prompt each
// offer will read from its cache (SPEC §6). It learns all three from what
// providers report, and before there is history it takes the plain estimates of
// SPEC §24.
package estimate

import (
	"sync"
	"time"

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
	// Of prompts' prefixes there is nothing in the vault.
	prefixes *prefixes
	caches   *caches

	mu sync.Mutex // held by Record and Changed
}

// New reads what an earlier Estimator left in the vault. It fails where the vault
// does (the vault's error) and where a record cannot be read (core.Unavailable).
func New(clock core.Clock, vault core.Vault) (*Estimator, error) {
	e := &Estimator{clock: clock, prompts: newPrompts(), outputs: newOutputs(), prefixes: newPrefixes(), caches: newCaches()}
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
	known bool   // what follows is
	first need   // the one model that most calls ask about
	rest  []need // the Auto Router asks about several

	came  time.Time
	chain chain
	seen  []matches // by offer
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
	if job.Operation.Generates() {
		r.came = e.clock()
		r.chain.link(e.prefixes.seed, job)
		r.seen = e.prefixes.find(&r.chain, r.came)
		for i := range r.seen {
			r.seen[i].longest.measure(e.prefixes.seed, job, &r.chain)
			r.seen[i].later.measure(e.prefixes.seed, job, &r.chain)
		}
	}
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
	if r.known && r.first.model == m {
		return &r.first
	}
	return r.find(m)
}

func (r *Reading) find(m core.Model) *need {
	if !r.known {
		r.known, r.first = true, r.learnt(m)
		return &r.first
	}
	for i := range r.rest {
		if r.rest[i].model == m {
			return &r.rest[i]
		}
	}
	r.rest = append(r.rest, r.learnt(m))
	return &r.rest[len(r.rest)-1]
}

// learnt is what a model's history says of the job, else the plain estimates.
func (r *Reading) learnt(m core.Model) need {
	n := need{model: m, prompt: Tokens(r.job.PromptBytes), output: usualOutput}
	if r.from == nil {
		return n
	}
	if s := r.from.prompts.of(m); s != nil {
		n.prompt = s.tokens(&r.units, r.class)
	}
	if r.job.Operation.Generates() {
		if v, ok := r.from.outputs.expected(r.key, m); ok {
			n.output = v
		}
	}
	return n
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
	if len(r.seen) > 0 {
		est.Fresh, est.Cached = r.split(offer, need.prompt)
	}
	own := offer.Limits.MaxOutput
	est.Output = max(min(r.job.MaxOutput.Or(need.output), own.Or(need.output), need.output), 0)
	est.MaxOutput = max(r.job.MaxOutput.Or(own.Or(est.Output)), est.Output)
	return est
}

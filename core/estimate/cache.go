package estimate

import (
	"math"
	"strings"
	"time"

	"headway/core"
)

const (
	shortLife = 5 * time.Minute // how long a prefix stays, unless it is known otherwise
	hourLife  = time.Hour       // and where the provider said that it stays for an hour
	// nearly is how much of what an offer cached must be in a prompt to be all of it:
	// where the cached part of the text ends is known in tokens alone.
	nearly = 0.9
)

// rules are how an offer's cache works, before anything is learnt of it.
type rules struct {
	least   int64         // tokens of the shortest prefix that is cached
	fixed   bool          // and the operator said so
	step    int64         // tokens that reads are a multiple of
	life    time.Duration // since the last read or write
	share   float64       // of what can be read, how much is
	answers float64       // of the tokens of an answer, how much is cached with its prompt
}

// rulesOf are those of an offer: what the operator set, else what its provider's
// kind is known for. A server that nobody has heard of caches as OpenAI does or
// not at all: half of it is expected until its answers tell.
func rulesOf(o *core.Offer) rules {
	r := rules{least: 1024, step: 128, life: shortLife, share: 0.5}
	switch f := o.Provider.Format; f {
	case core.FormatAnthropic, core.FormatBedrock, core.FormatConverse, core.FormatVertexAnthropic:
		r.step, r.share = 1, 1
	case core.FormatGoogle, core.FormatVertexGoogle:
		r.step = 1
	case core.FormatLlamaCpp:
		r = local(1)
	case core.FormatOllama:
		r = local(0) // it caches and does not say so
	default:
		r.dialect(o.Provider)
	}
	if l := o.Cache.MinTokens; l.OK {
		r.least, r.fixed = l.V, true
	}
	r.life = o.Cache.Lifetime.Or(r.life)
	return r
}

// local are those of a server of one's own, which caches to the token, what it
// wrote too, and forgets when it needs the room.
func local(share float64) rules {
	return rules{least: 1, step: 1, life: hourLife, share: share, answers: 1}
}

// dialect takes what is known of a server that speaks OpenAI's formats.
func (r *rules) dialect(p *core.Provider) {
	switch p.Dialect {
	case "openai", "azure":
		r.share = 1
	case "deepseek":
		*r = rules{least: 64, step: 64, life: hourLife, share: 1, answers: 1}
	case "llamacpp", "llama-server", "llama-cpp":
		*r = local(1)
	case "ollama", "ollama-openai":
		*r = local(0)
	case "vllm":
		*r = local(0.5) // it says so where it was started to
		r.least, r.step = 16, 16
	case "sglang":
		*r = local(0.5)
	case "":
		if strings.Contains(p.BaseURL, "//api.openai.com") {
			r.share = 1
		}
	}
}

// explicit tells whether a format caches only what it is asked to, and says what
// it wrote.
func explicit(f core.Format) bool {
	switch f {
	case core.FormatAnthropic, core.FormatBedrock, core.FormatConverse, core.FormatVertexAnthropic:
		return true
	}
	return false
}

// belief is what a match says of a prompt at an offer.
type belief struct {
	input  int64 // tokens of the prompt, of which the match's are as the provider counted them
	known  int64 // those of the match
	reads  int64 // those that can be read from the cache; 0: none
	course course
	age    time.Duration
}

// believe says what can be read from the cache by a match: without how much of it
// usually is. prompt is the estimate of all the prompt.
func (m *match) believe(r *Reading, u *rules, k *caching, prompt int64) (b belief) {
	v := &m.visit
	b.age = r.came.Sub(v.at)
	all, share := float64(max(r.job.PromptBytes, 1)), float64(m.bytes)/float64(max(v.bytes, 1))
	rest := all * float64(r.chain.bytes-m.bytes) / float64(max(r.chain.bytes, 1))
	if m.whole {
		rest = max(all-float64(v.prompt), 0) // media count too
		b.known = v.tokens
	} else {
		b.known = int64(math.Round(float64(v.tokens) * share))
	}
	b.input = b.known + int64(math.Ceil(rest/all*float64(prompt)))
	life, reads := u.life, b.known
	switch {
	case v.exact:
		if float64(m.bytes) >= nearly*float64(v.bytes)*float64(v.cached)/float64(v.tokens) {
			reads = v.cached
		}
		if v.hour > 0 && b.age >= life {
			life, reads = hourLife, min(reads, v.hour)
		}
	case m.whole && rest > 0:
		reads += int64(float64(v.answer) * k.answers.share(u.answers))
	}
	// At least one token is read anew.
	if reads = min(reads, b.input-1); !v.exact {
		least, step := k.limits(u)
		if reads -= reads % step; reads < least {
			reads = 0
		}
	}
	b.reads = max(reads, 0)
	switch {
	case b.age >= life:
		b.course = gone
	case m.whole:
		b.course = continued
	default:
		b.course = forked
	}
	return b
}

// best is what the offer is expected to read, and by what.
func (ms *matches) best(r *Reading, u *rules, k *caching, prompt int64) (by belief, cached int64) {
	by = ms.longest.believe(r, u, k, prompt)
	cached = k.expect(&by, u)
	if ms.later.serial != 0 {
		b := ms.later.believe(r, u, k, prompt)
		if n := k.expect(&b, u); n > cached {
			b.input = by.input // the longest knows most of the prompt
			by, cached = b, n
		}
	}
	return by, cached
}

// matches are what is known of the prompt at an offer; nil: nothing.
func (r *Reading) matches(id core.OfferID) *matches {
	for i := range r.seen {
		if r.seen[i].offer == id {
			return &r.seen[i]
		}
	}
	return nil
}

// split divides a prompt's tokens into those that an offer has to process and
// those that it is likely to read from its cache. Where it has counted the start of
// the prompt before, its count takes the place of the estimate.
func (r *Reading) split(offer *core.Offer, prompt int64) (fresh, cached int64) {
	ms := r.matches(offer.ID)
	if ms == nil {
		return prompt, 0
	}
	u := rulesOf(offer)
	k := r.from.caches.get(offer.ID)
	by, cached := ms.best(r, &u, &k, prompt)
	return by.input - cached, cached
}

// Answered notes that an offer has read the prompt, so that it may be in that
// provider's cache from now on, and learns from what was read from there. usage is
// what the provider reported of a prompt that it read once.
func (e *Estimator) Answered(r *Reading, offer *core.Offer, usage core.Usage) {
	total := usage.Input()
	if r.from != e || !r.job.Operation.Generates() || total <= 0 {
		return
	}
	var ms matches
	if found := r.matches(offer.ID); found != nil {
		ms = *found
	}
	u := rulesOf(offer)
	reports := e.caches.learn(r, offer, &u, &ms, usage)
	if len(r.chain.hashes) == 0 {
		return
	}
	read, wrote := usage.CacheRead.V, usage.CacheWrite.V
	v := visit{blocks: int32(len(r.chain.hashes)), bytes: r.chain.bytes, prompt: r.job.PromptBytes, at: r.came, tokens: total,
		exact: reports || explicit(offer.Provider.Format) && !(usage.CacheRead.OK && !usage.CacheWrite.OK)}
	if v.exact {
		if v.cached = read + wrote; v.cached == 0 {
			return // nothing was to be cached
		}
		// What is cached for an hour comes before what is not; a read renews both.
		if usage.CacheWrite1h.V > 0 {
			v.hour = read + usage.CacheWrite1h.V
		} else {
			v.hour = min(read, ms.longest.hour)
		}
	}
	if usage.Reasoning.V == 0 { // which is not sent back, as a rule
		v.answer = usage.Output.V
	}
	end := endOf(len(r.chain.hashes))
	v.tail, _ = behind(e.prefixes.seed, r.job, end, v.bytes-end)
	e.prefixes.add(&r.chain, offer.ID, v)
}

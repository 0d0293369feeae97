package estimate

import (
	"sync/atomic"
	"time"

	"headway/core"
)

// mostModels is of how many models the tokenizers are kept, about 1.5 KB each; the
// one that nobody used for longest goes.
const mostModels = 1000

// learnEvery is the least time between two calls that a tokenizer learns from once it
// knows what it can remember: a call costs some 10 µs of the one who writes receipts,
// and of thousands a second no more is learnt than of a hundred.
const learnEvery = 10 * time.Millisecond

// everyOne are the weights that are the usual ones.
var everyOne = func() (w weights) {
	for i := range w {
		w[i] = 1
	}
	return w
}()

// prompts is what was learnt of the tokenizers of all models. Readers take no
// lock: they load pointers.
type prompts struct {
	models atomic.Pointer[map[core.Model]*tokenizer] // replaced whole where a model comes or goes
	others atomic.Pointer[solved]                    // of a model that nothing is known of; nil: of none is

	// What follows is the recorder's.
	all   fit    // of all models
	clock uint64 // counts calls
	dirty map[core.Model]bool
	gone  map[core.Model]bool
}

// tokenizer is what was learnt of one model's.
type tokenizer struct {
	ready atomic.Pointer[solved] // nil: nothing

	// What follows is the recorder's.
	fit  fit
	used uint64
	last time.Time // when the last call that it learnt from settled
}

// rests tells whether a call that settled at a time comes too soon to be learnt from.
func (t *tokenizer) rests(at time.Time) bool {
	since := at.Sub(t.last)
	return since >= 0 && since < learnEvery && t.fit.calls() >= remembered
}

func newPrompts() *prompts {
	p := &prompts{dirty: map[core.Model]bool{}, gone: map[core.Model]bool{}}
	p.models.Store(&map[core.Model]*tokenizer{})
	return p
}

// of is what estimates for a model are made with: its own fit, else that of all
// models, else nil.
func (p *prompts) of(m core.Model) *solved {
	if t := (*p.models.Load())[m]; t != nil {
		return t.ready.Load()
	}
	return p.others.Load()
}

// learn takes a receipt's count.
func (p *prompts) learn(r *core.Receipt) {
	u, c, ok := learnable(r)
	if !ok {
		return
	}
	tokens := float64(r.Usage.Input())
	t := (*p.models.Load())[r.Model]
	if t == nil {
		t = p.begin()
	}
	if t.rests(r.SettledAt) || !t.fit.learn(&u, c, tokens) {
		return
	}
	t.last = r.SettledAt
	p.all.learn(&u, c, tokens)
	p.shareAll()
	p.clock++
	t.used = p.clock
	t.publish(p.start())
	p.add(r.Model, t)
	p.dirty[r.Model] = true
}

// begin is a model that nothing is known of.
func (p *prompts) begin() *tokenizer {
	t := &tokenizer{}
	if p.others.Load() == nil {
		p.all.solve(&everyOne)
	}
	t.fit.solve(p.start())
	return t
}

// shareAll makes what was learnt of all models ready for those without a history.
func (p *prompts) shareAll() {
	p.all.solve(&everyOne)
	p.others.Store(&solved{*p.start(), p.all.ready.level})
}

// start are the weights that a model's fit starts from: those of all models, but
// for the template, which each has of its own.
func (p *prompts) start() *weights {
	w := p.all.ready.w
	for i := range unitTexts + 1 {
		w[i] = everyOne[i]
	}
	return &w
}

func (t *tokenizer) publish(start *weights) {
	t.fit.solve(start)
	ready := t.fit.ready
	t.ready.Store(&ready)
}

// add makes a model known; where there are too many another one goes.
func (p *prompts) add(m core.Model, t *tokenizer) {
	models := *p.models.Load()
	if models[m] == t {
		return
	}
	next := make(map[core.Model]*tokenizer, len(models)+1)
	var oldest core.Model
	for name, other := range models {
		next[name] = other
		if o := next[oldest]; o == nil || other.used < o.used {
			oldest = name
		}
	}
	if len(next) >= mostModels {
		delete(next, oldest)
		delete(p.dirty, oldest)
		p.gone[oldest] = true
	}
	next[m] = t
	delete(p.gone, m)
	p.models.Store(&next)
}

// learnable is what a receipt says of its model's tokenizer: the units of the
// prompt, beside a count of the provider's own of that prompt and no more.
func learnable(r *core.Receipt) (u units, c class, ok bool) {
	if r.Outcome != core.Settled || r.Kind == core.KindTest || r.UsageFrom != core.FromProvider || r.Model == "" || r.Usage.Input() <= 0 ||
		r.Timing.FreshInputTokens.OK { // server-run tools read more than the prompt
		return u, c, false
	}
	c, ok = parseClass(r.PromptClass)
	if !ok || len(r.PromptUnits) == 0 || len(r.PromptUnits) > len(u) {
		return u, c, false
	}
	for i, n := range r.PromptUnits {
		if n < 0 {
			return u, c, false
		}
		u[i] = float64(n)
	}
	return u, c, true
}

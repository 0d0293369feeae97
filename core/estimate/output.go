package estimate

import (
	"slices"
	"sync"
	"sync/atomic"

	"headway/core"
)

const (
	// mostAnswers is how many key and model pairs the lengths of answers are kept of;
	// those that nobody used for longest go.
	mostAnswers = 10_000
	// lastAnswers is of how many answers a median is, the last ones, 4 bytes each.
	lastAnswers = 64
	// alike is how many answers of a pair weigh as much as the model's (SPEC §5).
	alike = 10
)

// pair is a key and a model; without the key it stands for all keys of the model,
// without both for all there is.
type pair struct {
	key   core.KeyID
	model core.Model
}

// outputs is what was learnt of how long answers are.
type outputs struct {
	mu    sync.RWMutex // guards the map alone
	pairs map[pair]*answers

	// What follows is the recorder's.
	clock uint64
	dirty map[pair]bool
	gone  map[pair]bool
}

// answers are those of one pair.
type answers struct {
	median atomic.Int64
	n      atomic.Int64 // answers, forgotten ones too

	// What follows is the recorder's.
	last []uint32 // their tokens, the oldest at n modulo lastAnswers
	used uint64
}

func newOutputs() *outputs {
	return &outputs{pairs: map[pair]*answers{}, dirty: map[pair]bool{}, gone: map[pair]bool{}}
}

// expected is how long an answer for a key is likely to be: the median of the
// pair, drawn towards the model's while it has few, as SPEC §5 does; else the
// model's, else that of all; false: nothing is known.
func (o *outputs) expected(key core.KeyID, model core.Model) (int64, bool) {
	o.mu.RLock()
	own, models, all := o.pairs[pair{key, model}], o.pairs[pair{model: model}], o.pairs[pair{}]
	o.mu.RUnlock()
	switch {
	case models == nil && all == nil:
		return 0, false
	case models == nil:
		return all.median.Load(), true
	case own == nil || key == "":
		return models.median.Load(), true
	}
	n := own.n.Load()
	return (n*own.median.Load() + alike*models.median.Load() + (n+alike)/2) / (n + alike), true
}

// learn takes a receipt's answer. One that was cut counts as long as it is.
func (o *outputs) learn(r *core.Receipt) {
	out := r.Usage.Output
	if r.Outcome != core.Settled || r.Kind != core.KindJob || r.UsageFrom != core.FromProvider || !r.Operation.Generates() ||
		r.Model == "" || !out.OK || out.V < 0 {
		return
	}
	tokens := uint32(min(out.V, 1<<31))
	o.clock++
	pairs := [...]pair{{}, {model: r.Model}, {r.Key, r.Model}}
	known := pairs[:]
	if r.Key == "" { // a call of Headway's own
		known = known[:2]
	}
	for _, p := range known {
		a := o.of(p)
		a.used = o.clock
		a.add(tokens)
		o.dirty[p] = true
	}
}

// of is a pair's, made where there is none.
func (o *outputs) of(p pair) *answers {
	a := o.pairs[p] // only this goroutine writes
	if a != nil {
		return a
	}
	a = &answers{}
	o.room()
	delete(o.gone, p)
	o.mu.Lock()
	o.pairs[p] = a
	o.mu.Unlock()
	return a
}

// room makes some where there is none: a tenth goes at once, so that it is looked
// for rarely.
func (o *outputs) room() {
	if len(o.pairs) < mostAnswers {
		return
	}
	used := make([]uint64, 0, len(o.pairs))
	for _, a := range o.pairs {
		used = append(used, a.used)
	}
	slices.Sort(used)
	border := used[len(used)/10]
	o.mu.Lock()
	defer o.mu.Unlock()
	for p, a := range o.pairs {
		if a.used <= border && p != (pair{}) {
			delete(o.pairs, p)
			delete(o.dirty, p)
			o.gone[p] = true
		}
	}
}

func (a *answers) add(tokens uint32) {
	n := a.n.Load()
	if len(a.last) < lastAnswers {
		a.last = append(a.last, tokens)
	} else {
		a.last[n%lastAnswers] = tokens
	}
	a.settle(n + 1)
}

// settle makes the median, the lower of an even count's middle two (SPEC §5).
func (a *answers) settle(n int64) {
	var room [lastAnswers]uint32
	sorted := room[:copy(room[:], a.last)]
	slices.Sort(sorted)
	a.median.Store(int64(sorted[(len(sorted)-1)/2]))
	a.n.Store(n)
}

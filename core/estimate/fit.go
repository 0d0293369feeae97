package estimate

import "math"

// weights are the tokens that one of each unit makes; in a fit as parts of the
// usual ones.
type weights [unitCount]float64

// usual are the weights of tokenizers as they are now. A fit starts from them: the
// first calls set the scale of all, later ones what a model has of its own.
var usual = weights{unitCalls: 8, unitTools: 60, unitTexts: 4, unitWords: 0.6, unitLetters: 0.09, unitDigits: 0.3, unitNumbers: 0.4, unitMarks: 0.3, unitMarkRuns: 0.4,
	unitBlanks: 0.03, unitGaps: 0.05, unitBreaks: 0.5, unitCJK: 0.8, unitOther: 0.2, unitRest: 0.25}

// spread is how far each of them is by itself, as a part of the usual one: wide for
// those of a template, and for white space, which some tokenizers count and others
// do not.
var spread = weights{unitCalls: 2, unitTools: 3, unitTexts: 2, unitWords: 0.6, unitLetters: 0.8, unitDigits: 0.6, unitNumbers: 0.8, unitMarks: 0.6, unitMarkRuns: 0.6,
	unitBlanks: 5, unitGaps: 5, unitBreaks: 0.8, unitCJK: 0.6, unitOther: 0.8, unitRest: 1}

const (
	// scaleSpread is how far all weights together are from the usual ones before
	// anything is known of a tokenizer.
	scaleSpread = 0.3
	// noise is how far a count is from a fit that knows all there is to know, as a
	// part of the count.
	noise = 0.03
	// remembered is over how many calls a fit forgets: one that many calls ago
	// counts a third of one now.
	remembered = 400
	// fence is from how many standard deviations on a count is taken for an outlier
	// and its pull held at that of one on the fence.
	fence = 2.5
	// farthest is by what factor an estimate can leave the usual tokenizer's, and
	// a count and still be believed.
	farthest = 8
	// smallest is added to counts before they are compared as ratios: of a prompt of
	// few tokens the ratio says little.
	smallest = 30
	// levelStep is how much of the last miss goes into a class's level, and
	// levelReach the largest miss that does.
	levelStep  = 0.1
	levelReach = 0.25
)

// fit is what was learnt of one tokenizer: a weight for each unit, by recursive
// least squares over relative errors, regularised towards the weights that it
// starts from; and for each class a level, which corrects what a sum of units
// cannot say and follows a model that changes.
type fit struct {
	info  triangle            // Σ z·zᵀ, z the units of a call as parts of its tokens
	right weights             // Σ z, as all is held against a count of 1
	level [classCount]float64 // logarithms of factors
	seen  [classCount]float64 // calls of each class, the forgotten ones less
	ready solved              // of the above
}

// solved is a fit made ready for estimates.
type solved struct {
	w     weights
	level [classCount]float64
}

// triangle is the lower half of a symmetric matrix, row by row.
type triangle [unitCount * (unitCount + 1) / 2]float64

func (t *triangle) at(i, j int) *float64 { return &t[i*(i+1)/2+j] }

// own is the inverse of a weight's own spread, squared, and shared what of it
// the common scale takes away: the inverse of diag(1/own) + scaleSpread²·1·1ᵀ is
// diag(own) − shared·own·ownᵀ (Sherman and Morrison).
func own(i int) float64 { return 1 / (spread[i] * spread[i]) }

func shared() float64 {
	sum := 0.
	for i := range int(unitCount) {
		sum += own(i)
	}
	return scaleSpread * scaleSpread / (1 + scaleSpread*scaleSpread*sum)
}

// posterior is Cholesky's factor of what is known, the start included.
func (f *fit) posterior() *triangle {
	a := f.info
	shared := shared()
	for i := range int(unitCount) {
		for j := range i + 1 {
			v := *a.at(i, j) - shared*own(i)*own(j)
			if i == j {
				v += own(i)
			}
			for k := range j {
				v -= *a.at(i, k) * *a.at(j, k)
			}
			if i == j {
				*a.at(i, i) = math.Sqrt(max(v, 1e-9))
			} else {
				*a.at(i, j) = v / *a.at(j, j)
			}
		}
	}
	return &a
}

// forward solves L·x = v.
func (t *triangle) forward(v weights) weights {
	for i := range int(unitCount) {
		for j := range i {
			v[i] -= *t.at(i, j) * v[j]
		}
		v[i] /= *t.at(i, i)
	}
	return v
}

// backward solves Lᵀ·x = v.
func (t *triangle) backward(v weights) weights {
	for i := int(unitCount) - 1; i >= 0; i-- {
		for j := i + 1; j < int(unitCount); j++ {
			v[i] -= *t.at(j, i) * v[j]
		}
		v[i] /= *t.at(i, i)
	}
	return v
}

// solve makes the fit ready. start are the weights that it starts from.
func (f *fit) solve(start *weights) {
	right, sum, shared := f.right, 0., shared()
	for i := range int(unitCount) {
		sum += own(i) * start[i]
	}
	for i := range int(unitCount) {
		right[i] += own(i)*start[i] - shared*own(i)*sum
	}
	p := f.posterior()
	f.ready = solved{p.backward(p.forward(right)), f.level}
}

// learn takes one call's count into a fit that is ready. false: it cannot be one.
func (f *fit) learn(u *units, c class, tokens float64) bool {
	usually := u.usually()
	if tokens > usually*farthest+smallest || tokens+smallest < usually/farthest {
		return false
	}
	raw := f.ready.raw(u)
	scale := 1 / (max(tokens, raw) + smallest)
	var z weights
	miss := tokens * scale
	for i, x := range u {
		z[i] = x * usual[i] * scale
		miss -= z[i] * f.ready.w[i]
	}
	variance := noise * noise // of the miss: the noise, and what the weights leave open
	for _, v := range f.posterior().forward(z) {
		variance += v * v
	}
	weight := 1 / (noise * noise)
	if far := math.Abs(miss) / math.Sqrt(variance); far > fence {
		weight *= fence / far
	}
	const keep = 1 - 1./remembered
	for i := range int(unitCount) {
		for j := range i + 1 {
			v := f.info.at(i, j)
			*v = *v*keep + weight*z[i]*z[j]
		}
		f.right[i] = f.right[i]*keep + weight*z[i]*tokens*scale
	}
	off := math.Log((tokens + smallest) / (raw*math.Exp(f.level[c]) + smallest))
	f.level[c] += max(levelStep, 1/(f.seen[c]+5)) * min(max(off, -levelReach), levelReach)
	f.seen[c] = min(f.seen[c]+1, remembered)
	return true
}

// calls is how many it knows of, the forgotten ones less.
func (f *fit) calls() (n float64) {
	for _, seen := range f.seen {
		n += seen
	}
	return n
}

// usually is what the usual tokenizer makes of a prompt.
func (u *units) usually() (n float64) {
	for i, x := range u {
		n += x * usual[i]
	}
	return n
}

// raw is the estimate by the weights alone.
func (s *solved) raw(u *units) (n float64) {
	for i, x := range u {
		n += x * usual[i] * s.w[i]
	}
	usually := u.usually()
	return min(max(n, usually/farthest), usually*farthest)
}

// tokens is the estimate for a prompt.
func (s *solved) tokens(u *units, c class) int64 {
	return max(int64(math.Ceil(s.raw(u)*math.Exp(s.level[c])-0.5)), 1)
}

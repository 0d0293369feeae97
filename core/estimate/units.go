package estimate

import "headway/core"

// unit numbers what is counted in a prompt: what a tokenizer that nobody has seen
// is likely to cut it into. The tokens of any model are about a sum of these, each
// with a weight of that model's own, which is what a fit learns.
type unit uint8

const (
	unitCalls    unit = iota // 1: what a model's template adds to a call
	unitTools                // 1 where tools are offered: what they add to it
	unitTexts                // texts, about as many as messages; the last that is the template's
	unitWords                // runs of letters; Upper begins one after lower
	unitLetters              // of Latin
	unitDigits               //
	unitNumbers              // runs of them
	unitMarks                // ASCII punctuation
	unitMarkRuns             // runs of it
	unitBlanks               // white space
	unitGaps                 // runs of it
	unitBreaks               // ends of lines, and indents
	unitCJK                  // Chinese, Japanese and Korean characters
	unitOther                // bytes of other scripts and of symbols
	unitRest                 // bytes of Job.PromptBytes that are in no text: media, tokens given as numbers
	unitCount
)

// units are the counts of one prompt: how many there are of each, nothing of what
// they say.
type units [unitCount]float64

// class is what most of a prompt is.
type class uint8

const (
	classProse class = iota
	classCode
	classMarkup // JSON, XML, HTML
	classCJK
	classOther
	classCount
)

// classNames are the classes as receipts name them.
var classNames = [classCount]string{"prose", "code", "markup", "cjk", "other"}

func parseClass(name string) (class, bool) {
	for c, n := range classNames {
		if n == name {
			return class(c), true
		}
	}
	return 0, false
}

const (
	// wholeBytes is how much of a prompt is looked at: all of one up to this size; of
	// a longer one evenly spread windows that are as much together, or a part of it,
	// but not more than mostBytes.
	wholeBytes = 8 << 10
	mostBytes  = 32 << 10
	lookedAt   = 16 // the part: one in so many bytes
	// windowBytes is the size of one: small enough that what the prompt is made of
	// gets its share, large enough that its edges do not count.
	windowBytes = 128
	// leastRest is the part of a long prompt below which what its texts do not
	// account for is the error of the windows.
	leastRest = 1. / 64
)

// read counts a job's prompt and tells what most of it is.
func read(job *core.Job) (units, class) {
	total := length(job.Lead) + length(job.Turns)
	if total == 0 {
		return unread(job)
	}
	var c counts
	scale := 1.
	if total <= wholeBytes {
		for _, list := range [...][]core.Span{job.Lead, job.Turns} {
			for _, s := range list {
				c.add(job.Body[s.From:s.To], kindBreak)
			}
		}
	} else {
		look := min(max(total/lookedAt, wholeBytes), mostBytes)
		w := windows{every: float64(total) * windowBytes / float64(look)}
		w.over(&c, job.Body, job.Lead)
		w.over(&c, job.Body, job.Turns)
		scale = float64(total) / float64(c.raw)
	}
	u := units{unitCalls: 1, unitTexts: float64(len(job.Lead) + len(job.Turns))}
	if job.Features&core.FeatureTools != 0 {
		u[unitTools] = 1
	}
	for i, n := range [...]int{c.words, c.letters, c.digits, c.numbers, c.marks, c.markRuns, c.blanks, c.gaps, c.breaks, c.cjk, c.other} {
		u[int(unitWords)+i] = float64(n) * scale
	}
	size := float64(job.PromptBytes)
	if rest := size - float64(c.bytes)*scale; rest > 0 && (scale == 1 || rest > size*leastRest) {
		u[unitRest] = rest
	}
	return u, c.class(u[unitRest] > size/2)
}

func length(texts []core.Span) (n int) {
	for _, s := range texts {
		n += s.To - s.From
	}
	return n
}

// unread is a prompt that has no texts: media or numbers, or a job of which only
// the size is known, which is taken for prose.
func unread(job *core.Job) (units, class) {
	n := float64(max(job.PromptBytes, 0))
	if job.Body != nil {
		return units{unitCalls: 1, unitRest: n}, classOther
	}
	return units{unitCalls: 1, unitTexts: 1, unitWords: n * 0.18, unitLetters: n * 0.78, unitMarks: n * 0.04,
		unitMarkRuns: n * 0.035, unitBlanks: n * 0.18, unitGaps: n * 0.18}, classProse
}

// class tells what most of the text is: by its scripts, then by how much of it is
// punctuation and of which kind.
func (c *counts) class(otherwise bool) class {
	seen := c.letters + c.digits + c.marks + 3*c.cjk + c.other // in bytes
	switch {
	case otherwise:
		return classOther
	case 3*c.cjk*2 > seen:
		return classCJK
	case c.other*2 > seen:
		return classOther
	case c.marks*9 < seen:
		return classProse
	case c.quotes*3 > c.marks:
		return classMarkup
	}
	return classCode
}

package gateway

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"headway/core"
	"headway/core/market"
	"headway/core/measure"
)

const (
	probeOutput = 256 // tokens of an answer at most
	// longMargin times what the prefill speed needs is what a long prompt is
	// estimated to have, so that an estimate that is a little high still makes one.
	longMargin = 1.25
)

// longTokens is what a long prompt is estimated to have, at least.
func longTokens() int64 { return int64(measure.LongPrompt * longMargin) }

// holdsLong tells whether a long prompt fits an offer, with some room.
func holdsLong(o *core.Offer) bool {
	return !o.Limits.Context.OK || o.Limits.Context.V >= longTokens()*11/10+probeOutput
}

// request makes a probe's request, and the most that it can cost.
func (p *Prober) request(o *core.Offer, long bool) (ownCall, core.Money, error) {
	most := int64(probeOutput)
	if o.Limits.MaxOutput.OK {
		most = min(most, o.Limits.MaxOutput.V)
	}
	// What is in front of it is never there twice, so no cache has it.
	name := "Call " + string(core.NewCallID(p.gateway.Clock())) + ".\n"
	if !long {
		return p.priced(o, own(o, name+"Count from 1 to 50, with a comma between the numbers, and write nothing else.", most))
	}
	size, wanted, largest := longTokens()*bytesAWord, longTokens(), int64(mostLong)
	if o.Limits.Context.OK {
		largest = min(largest, (o.Limits.Context.V-most)*bytesAWord*9/10)
	}
	for tries := 0; ; tries++ {
		ask := own(o, name+words(size)+"\nThese words mean nothing. Answer with the one word ok.", most)
		job, err := p.parsed(ask)
		if err != nil {
			return ownCall{}, 0, err
		}
		has := max(p.gateway.Estimator.Read(job, "").Prompt(o.Model), 1)
		if has >= wanted && has <= wanted*21/20 || tries == 3 {
			return p.priced(o, ask)
		}
		// A little more than in proportion, as a part of the prompt does not grow.
		size = min(max(size*(wanted*51/50+1)/has, leastLong), largest)
	}
}

// A long prompt's words have between these bytes, whatever is estimated: what was
// learnt from short prompts says little of a long one, and the words are known
// better. The first long prompt that is answered mends the estimate. With what is
// around them they are at most twice what the prefill speed needs.
const (
	leastLong = measure.LongPrompt * bytesAWord
	mostLong  = 2*leastLong - aroundWords
	// aroundWords is more than the bytes of what else the prompt says.
	aroundWords = 512
)

// LongProbe is what must be left of a day's limit for a probe with a long prompt at
// an offer, before its estimate is known to be better: the most that one can cost
// there. false: none is made there, its context is too small for one.
func LongProbe(o *core.Offer) (core.Money, bool) {
	if !holdsLong(o) {
		return 0, false
	}
	output := int64(probeOutput)
	if o.Limits.MaxOutput.OK {
		output = min(output, o.Limits.MaxOutput.V)
	}
	most, err := market.Highest(&core.Job{Operation: core.OpGenerate, PromptBytes: int(longTokens() * bytesAWord), MaxOutput: core.Some(output), Choices: 1}, o, 0)
	return most, err == nil
}

func (p *Prober) priced(o *core.Offer, call ownCall) (ownCall, core.Money, error) {
	job, err := p.parsed(call)
	if err != nil {
		return call, 0, err
	}
	most, err := market.Highest(job, o, p.gateway.Estimator.Read(job, "").Prompt(o.Model))
	return call, most, err
}

// parsed is a call as the gateway will see it.
func (p *Prober) parsed(call ownCall) (*core.Job, error) {
	r, err := call.request(context.Background())
	if err != nil {
		return nil, err
	}
	format, ok := p.gateway.speaks(r)
	if !ok {
		return nil, fmt.Errorf("nothing speaks %s", r.URL.Path)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return p.gateway.adapters[format].Parse(core.RequestHead{Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header}, body)
}

// bytesAWord is the mean of the words below with the space behind each.
const bytesAWord = 4

// short words are one token each to nearly every tokenizer, so that how many
// there are is known well enough before any call.
const shortWords = "the and of to in is it on at as by for was are be or not but you all can had her him his how its may " +
	"new now old one our out own say see set she so ten two up use way we who why yet if do go me my no us an am he"

// words is a text of about that many bytes without any order, so that no two are alike.
func words(size int64) string {
	list := strings.Fields(shortWords)
	var b strings.Builder
	b.Grow(int(size) + 8)
	for int64(b.Len()) < size {
		b.WriteString(list[rand.IntN(len(list))])
		b.WriteByte(' ')
	}
	return b.String()
}

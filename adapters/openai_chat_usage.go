package adapters

import "headway/core"

// openAIReport is a usage object as chat completions, Responses and their
// compatible servers write it, with the server's own times that some put inside.
type openAIReport struct {
	input, output, total   core.Opt[int64]
	read, write, reasoning core.Opt[int64]
	prompt, decode         core.Opt[float64] // seconds (Groq)
	first, each            core.Opt[float64] // ms to the first token and for each (GPUStack)
	native                 ollamaTimes
}

// set takes a usage object; null, or one without a count of tokens, erases
// nothing, and a later one takes the place of an earlier: they are never added up.
func (u *openAIReport) set(c *cursor) bool {
	if !c.object() {
		c.skip()
		return false
	}
	var got openAIReport
	for key := range c.rest {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			got.input = c.tokens()
		case "completion_tokens", "output_tokens":
			got.output = c.tokens()
		case "total_tokens":
			got.total = c.tokens()
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			got.details(c)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			keepFirst(&got.read, c.tokens())
		case "cache_creation_input_tokens":
			keepFirst(&got.write, c.tokens())
		case "reasoning_tokens":
			keepFirst(&got.reasoning, c.tokens())
		case "prompt_time":
			got.prompt = c.figure()
		case "completion_time":
			got.decode = c.figure()
		case "time_to_first_token_ms":
			got.first = c.figure()
		case "time_per_output_token_ms":
			got.each = c.figure()
		default:
			got.native.field(c, string(key))
		}
	}
	if !got.input.OK && !got.output.OK {
		return false
	}
	*u = got
	return true
}

func (u *openAIReport) details(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "cached_tokens":
			keepLast(&u.read, c.tokens())
		case "cache_write_tokens":
			keepLast(&u.write, c.tokens())
		case "reasoning_tokens":
			keepLast(&u.reasoning, c.tokens())
		}
	}
}

// usage gives the report in Headway's terms. What differs between servers is
// found by what adds up to the total (wire notes §1): whether the cache figures
// are in the input, and whether the reasoning is in the output. contradiction:
// the report says that a part is more than its whole.
func (u *openAIReport) usage(cached core.Opt[int64]) (got core.Usage, contradiction bool) {
	got = core.Usage{CacheRead: u.read, CacheWrite: u.write, Reasoning: u.reasoning}
	if !got.CacheRead.OK {
		got.CacheRead = cached
	}
	cache, reasoning := got.CacheRead.V+got.CacheWrite.V, u.reasoning.V
	beyond := int64(0) // what the total holds beside input and output
	if u.total.OK && u.input.OK && u.output.OK {
		beyond = u.total.V - u.input.V - u.output.V
	}

	if u.input.OK {
		apart := cache > u.input.V || beyond > 0 && beyond != reasoning && (beyond == cache || beyond == cache+reasoning)
		if apart {
			got.UncachedInput = u.input
		} else {
			got.UncachedInput = core.Some(u.input.V - cache)
		}
	}

	got.Output = u.output
	if !u.output.OK || reasoning == 0 {
		return got, false
	}
	apart := beyond > 0 && (beyond == reasoning || beyond == reasoning+cache)
	if contradiction = !apart && reasoning > u.output.V; contradiction {
		// A little more is a matter of two tokenizers; far more is reasoning that
		// both output and total leave out.
		apart = 2*reasoning > 3*u.output.V
	}
	if apart {
		got.Output = core.Some(u.output.V + reasoning)
	}
	return got, contradiction
}

// llamaTimes is llama-server's timings object, and Cerebras' time_info, which
// is beside the usage too.
type llamaTimes struct {
	cached         core.Opt[int64]
	figures        core.ServerFigures
	native         ollamaTimes
	prompt, decode core.Opt[float64] // seconds (Cerebras)
}

func (t *llamaTimes) set(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "cache_n":
			t.cached = c.tokens()
		case "prompt_n":
			t.figures.PromptTokens = c.tokens()
		case "prompt_ms":
			t.figures.PromptMS = c.figure()
		case "predicted_n":
			t.figures.DecodeTokens = c.tokens()
		case "predicted_ms":
			t.figures.DecodeMS = c.figure()
		default:
			t.native.field(c, string(key))
		}
	}
}

// report gives what the counts say of usage, for a stream that ends with timings
// but was not asked for its usage.
func (t *llamaTimes) report() openAIReport {
	var u openAIReport
	if t.figures.PromptTokens.OK && t.figures.DecodeTokens.OK {
		u.input = core.Some(t.figures.PromptTokens.V + t.cached.V)
		u.output = t.figures.DecodeTokens
	}
	return u
}

// ollamaTimes are Ollama's native figures, in ns, which some releases are said
// to put into OpenAI's shapes.
type ollamaTimes struct{ figures core.ServerFigures }

// field consumes the value of a member that may be one of them.
func (t *ollamaTimes) field(c *cursor, key string) {
	switch key {
	case "prompt_eval_count":
		t.figures.PromptTokens = c.tokens()
	case "prompt_eval_duration":
		t.figures.PromptMS = scaled(c.figure(), 1e-6)
	case "eval_count":
		t.figures.DecodeTokens = c.tokens()
	case "eval_duration":
		t.figures.DecodeMS = scaled(c.figure(), 1e-6)
	default:
		c.skip()
	}
}

// setInfo takes Cerebras' time_info.
func (t *llamaTimes) setInfo(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "prompt_time":
			t.prompt = c.figure()
		case "completion_time":
			t.decode = c.figure()
		}
	}
}

// serverFigures are the model server's own times, from whichever place has them.
func serverFigures(u *openAIReport, times *llamaTimes, top *ollamaTimes, got core.Usage) core.ServerFigures {
	for _, f := range []*core.ServerFigures{&times.figures, &times.native.figures, &u.native.figures, &top.figures} {
		if f.PromptMS.OK || f.DecodeMS.OK {
			return *f
		}
	}
	f := core.ServerFigures{PromptMS: scaled(times.prompt, 1e3), DecodeMS: scaled(times.decode, 1e3)}
	if u.prompt.OK || u.decode.OK {
		f = core.ServerFigures{PromptMS: scaled(u.prompt, 1e3), DecodeMS: scaled(u.decode, 1e3)}
	}
	if u.first.OK {
		f.PromptMS = u.first
	}
	if u.each.OK && u.output.OK {
		f.DecodeMS = core.Some(u.each.V * float64(u.output.V))
	}
	if f.PromptMS.OK {
		f.PromptTokens = got.Fresh()
	}
	if f.DecodeMS.OK {
		f.DecodeTokens = u.output
	}
	return f
}

func scaled(v core.Opt[float64], by float64) core.Opt[float64] {
	v.V *= by
	return v
}

func keepFirst(to *core.Opt[int64], v core.Opt[int64]) {
	if !to.OK {
		*to = v
	}
}

func keepLast(to *core.Opt[int64], v core.Opt[int64]) {
	if v.OK {
		*to = v
	}
}

// maxTokens is far above any count of tokens that is true, and low enough that
// neither sums of a few nor their charge at any price in use overflow.
const maxTokens = 1 << 32

// tokens consumes a count of tokens; what is none, or below 0, is absent.
func (c *cursor) tokens() core.Opt[int64] {
	n, ok := c.integer()
	if !ok || n < 0 || n > maxTokens {
		return core.Opt[int64]{}
	}
	return core.Some(n)
}

// figure consumes a time; what is none, or below 0, is absent.
func (c *cursor) figure() core.Opt[float64] {
	v, ok := c.float()
	if !ok || v < 0 {
		return core.Opt[float64]{}
	}
	return core.Some(v)
}

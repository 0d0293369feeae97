package adapters

import "headway/core"

// messagesUsage is a usage object: input, cache reads and cache writes do not
// overlap; output includes reasoning. Figures of passes over other models
// (iterations) are not in it and are not read.
type messagesUsage struct {
	input, cached, write, write5m, write1h, output, reasoning core.Opt[int64]
	inner                                                     bool // tools were used on the server
}

func (u *messagesUsage) read(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "input_tokens":
			u.input = c.tokens()
		case "cache_read_input_tokens":
			u.cached = c.tokens()
		case "cache_creation_input_tokens":
			u.write = c.tokens()
		case "output_tokens":
			u.output = c.tokens()
		case "cache_creation", "output_tokens_details", "server_tool_use":
			u.readDetails(c, string(key) == "server_tool_use")
		}
	}
}

func (u *messagesUsage) readDetails(c *cursor, tools bool) {
	for key := range c.each {
		switch {
		case tools:
			u.inner = c.tokens().V > 0 || u.inner
		case string(key) == "ephemeral_5m_input_tokens":
			u.write5m = c.tokens()
		case string(key) == "ephemeral_1h_input_tokens":
			u.write1h = c.tokens()
		case string(key) == "thinking_tokens":
			u.reasoning = c.tokens()
		}
	}
}

// merge puts the figures that are there over the ones known so far, and tells
// whether there were any.
func (u *messagesUsage) merge(by *messagesUsage) (any bool) {
	put := func(to *core.Opt[int64], from core.Opt[int64]) {
		if from.OK {
			*to, any = from, true
		}
	}
	put(&u.input, by.input)
	put(&u.cached, by.cached)
	put(&u.write, by.write)
	put(&u.write5m, by.write5m)
	put(&u.write1h, by.write1h)
	put(&u.output, by.output)
	put(&u.reasoning, by.reasoning)
	u.inner = u.inner || by.inner
	return any
}

// tokens gives the figures in Headway's words.
func (u *messagesUsage) tokens() core.Usage {
	t := core.Usage{
		UncachedInput: u.input, CacheRead: u.cached, CacheWrite: u.write, CacheWrite1h: u.write1h,
		Output: u.output, Reasoning: u.reasoning,
	}
	if !t.CacheWrite.OK && (u.write5m.OK || u.write1h.OK) {
		t.CacheWrite = core.Some(u.write5m.V + u.write1h.V)
	}
	if t.CacheWrite1h.V > t.CacheWrite.V { // a part cannot be more than the whole
		t.CacheWrite1h = core.Opt[int64]{}
	}
	return t
}

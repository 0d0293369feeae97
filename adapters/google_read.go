package adapters

import (
	"bytes"
	"errors"

	"headway/core"
)

// googleReader reads one answer of Gemini's.
type googleReader struct {
	op     core.Operation
	array  bool // a stream comes as one JSON array
	usage  googleUsage
	start  core.Opt[int64] // the fresh input reported by the first output
	begun  bool            // there was output
	opened bool            // there was an element
	answer core.Answer

	// What a client of another format is told.
	said    bool // that the answer began
	voices  []*googleVoice
	events  []core.Event
	scratch []byte // arguments as they stand in a JSON string
}

// Split is one JSON array where the call did not ask for events.
func (r *googleReader) Split() core.Splitting {
	if r.array {
		return core.SplitArray
	}
	return core.SplitSSE
}

// Read looks at one response of a stream. There is no end marker: the finish
// reason is the last thing that a complete answer says.
func (r *googleReader) Read(f *core.Frame) core.Mark {
	if len(f.Data) == 0 {
		return 0
	}
	var e googleResponse
	c := walk(f.Data)
	if !e.read(&c) || c.end() != nil {
		return core.MarkBroken
	}
	if e.failure {
		r.keep(&e) // usage may come with an error
		if r.array {
			f.Raw = nil // the array may never be closed behind it
		}
		failed := readError(f.Data)
		r.answer.Err = &failed
		return core.MarkError
	}
	if r.array && !r.inPlace(f) {
		return core.MarkBroken
	}
	r.keep(&e)
	r.answer.StreamedReasoning = r.answer.StreamedReasoning || e.mark.Has(core.MarkReasoning)
	if e.mark.Output() && !r.begun {
		r.begun = true
		tokens, _ := r.usage.tokens()
		r.start = tokens.Fresh()
	}
	return e.mark
}

// inPlace tells whether what comes before an element of an array belongs there:
// the bracket or a comma, and white space.
func (r *googleReader) inPlace(f *core.Frame) bool {
	before := bytes.Trim(f.Raw[:len(f.Raw)-len(f.Data)], " \t\r\n")
	want := ","
	if !r.opened {
		r.opened, want = true, "["
	}
	return string(before) == want
}

// ReadWhole looks at an unstreamed answer: a response, a count of tokens, or
// vectors; the last two have no usage that costs.
func (r *googleReader) ReadWhole(body []byte) error {
	var e googleResponse
	c := walk(body)
	if !e.read(&c) || c.end() != nil {
		return errors.New("the answer is not a JSON object")
	}
	switch {
	case e.failure:
		failed := readError(body)
		r.answer.Err = &failed
		return errors.New("the answer is an error")
	case r.op == core.OpCountTokens && !e.counted:
		return errors.New("the answer holds no count of tokens")
	case r.op == core.OpEmbeddings && !e.vectors:
		return errors.New("the answer holds no embedding")
	case r.op == core.OpGenerate && !e.response:
		return errors.New("the answer is not a response")
	}
	if r.op != core.OpCountTokens {
		r.keep(&e)
	}
	return nil
}

// ReadError reads an error's body.
func (r *googleReader) ReadError(status int, body []byte) core.UpstreamError {
	failed := readError(body)
	failed.Status = status
	return failed
}

// Answer is what is known so far.
func (r *googleReader) Answer() core.Answer {
	a := r.answer
	a.Usage, a.Contradiction = r.usage.tokens()
	// Input that grew behind the first output is what tools on Google's side
	// brought in: the first token did not wait for it.
	if fresh := a.Usage.Fresh(); r.start.OK && fresh.V > r.start.V {
		a.InputAtStart = r.start
	}
	return a
}

func (r *googleReader) keep(e *googleResponse) {
	// The last report stands alone; one without figures says nothing.
	if e.usage.any() {
		r.usage = e.usage
		r.answer.Reported = true
	}
	r.answer.OutputBytes += e.bytes
	switch {
	case len(e.blocked) > 0:
		r.answer.Finish = "blocked:" + string(unescape(e.blocked))
	case len(e.finish) > 0 && string(e.finish) != r.answer.Finish:
		r.answer.Finish = string(unescape(e.finish))
	}
}

// googleResponse is what one response says.
type googleResponse struct {
	mark     core.Mark
	bytes    int    // of its output's text
	finish   []byte // the first candidate's, as it is written
	blocked  []byte // why the prompt was refused
	failure  bool
	response bool // it has a member that responses have
	counted  bool // it is a count of tokens
	vectors  bool
	usage    googleUsage
}

// read walks a response; false where it is not an object.
func (e *googleResponse) read(c *cursor) bool {
	if !c.object() {
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "candidates":
			e.response = true
			if !c.array() {
				continue
			}
			for c.element() {
				e.candidate(c)
			}
		case "usageMetadata":
			e.response = true
			e.usage.read(c)
		case "promptFeedback":
			e.response = true
			e.feedback(c)
		case "totalTokens":
			e.counted = c.tokens().OK
		case "embedding", "embeddings":
			e.vectors = true
			c.skip()
		case "error":
			if !c.null() {
				e.failure = true
				c.skip()
			}
		}
	}
	return true
}

func (e *googleResponse) candidate(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "finishReason":
			if reason := textOf(c); len(reason) > 0 {
				e.mark |= core.MarkFinish
				if e.finish == nil {
					e.finish = reason
				}
			}
		case "content":
			if !c.object() {
				continue
			}
			e.content(c)
		}
	}
}

// content walks a content, whose brace is behind it.
func (e *googleResponse) content(c *cursor) {
	for key := range c.rest {
		if string(key) != "parts" || !c.array() {
			continue
		}
		for c.element() {
			e.part(c)
		}
	}
}

// part walks one part. Code that ran, its results and files are no output by
// SPEC §3.
func (e *googleResponse) part(c *cursor) {
	var text []byte
	thought := false
	for key := range c.each {
		switch string(key) {
		case "text":
			text = textOf(c)
		case "thought":
			if v, ok := c.boolean(); ok {
				thought = v
			} else {
				c.skip()
			}
		case "functionCall":
			// An empty call closes one whose arguments were streamed.
			call := c.value()
			if inside := walk(call); inside.object() && inside.peek() != '}' {
				e.mark |= core.MarkTool
				e.bytes += len(call)
			}
		}
	}
	switch {
	case len(text) == 0:
		return
	case thought:
		e.mark |= core.MarkReasoning
	default:
		e.mark |= core.MarkText
	}
	e.bytes += textLen(text)
}

func (e *googleResponse) feedback(c *cursor) {
	for key := range c.each {
		if string(key) != "blockReason" {
			continue
		}
		if e.blocked = textOf(c); len(e.blocked) > 0 {
			e.mark |= core.MarkFinish
		}
	}
}

// googleUsage is a usage report: prompt includes cached, but not what tools on
// Google's side put into the prompt; candidates do not include thoughts, but on
// some servers.
type googleUsage struct {
	prompt, cached, tools, candidates, thoughts, total core.Opt[int64]
}

func (u *googleUsage) read(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "promptTokenCount":
			u.prompt = c.tokens()
		case "cachedContentTokenCount":
			u.cached = c.tokens()
		case "toolUsePromptTokenCount":
			u.tools = c.tokens()
		case "candidatesTokenCount":
			u.candidates = c.tokens()
		case "thoughtsTokenCount":
			u.thoughts = c.tokens()
		case "totalTokenCount":
			u.total = c.tokens()
		}
	}
}

func (u *googleUsage) any() bool {
	return u.prompt.OK || u.cached.OK || u.tools.OK || u.candidates.OK || u.thoughts.OK || u.total.OK
}

// tokens gives the figures in Headway's words, and whether they contradict
// themselves about output. The total tells whether the candidates' count holds
// the thoughts.
func (u *googleUsage) tokens() (t core.Usage, contradiction bool) {
	t.CacheRead, t.Reasoning = u.cached, u.thoughts
	if fresh := u.prompt.V - u.cached.V; u.prompt.OK && fresh >= 0 {
		t.UncachedInput = core.Some(fresh + u.tools.V)
	}
	if u.candidates.OK || u.thoughts.OK {
		t.Output = core.Some(u.candidates.V + u.thoughts.V)
	}
	if in := u.prompt.V + u.tools.V; u.candidates.OK && u.thoughts.V > 0 && u.total.OK && u.total.V == in+u.candidates.V {
		t.Output = u.candidates
		contradiction = u.thoughts.V > u.candidates.V
	}
	return t, contradiction
}

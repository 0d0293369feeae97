package adapters

import (
	"bytes"
	"errors"

	"headway/core"
)

// Reader reads an answer of chat completions, completions or embeddings.
func (Chat) Reader(job *core.Job, _ *core.Offer) core.Reader {
	return &chatReader{operation: job.Operation}
}

// chatReader is what is known of one answer.
type chatReader struct {
	operation core.Operation
	last      alike
	answer    core.Answer
	seen      choiceSet // of the choices of a call for several (n)
	finished  choiceSet // those that said their finish
	report    openAIReport
	reported  bool
	times     llamaTimes
	native    ollamaTimes
	events    chatEvents // for a client of another format
}

// Split is by server-sent events.
func (*chatReader) Split() core.Splitting { return core.SplitSSE }

// chatChunk is what one chunk, or one whole answer, holds.
type chatChunk struct {
	text    bool // choices have text of their own (completions)
	mark    core.Mark
	bytes   int
	choices int
	list    bool // the member that makes it an answer is there: choices, data
	finish  []byte
	seen    choiceSet
	done    choiceSet // those that say their finish
	failed  bool      // it is an error, or has one
	plain   bool      // … where SDKs look for it
	failure []byte    // the raw error of a choice
	usage   bool
	report  openAIReport
	timed   bool
	times   llamaTimes
	native  ollamaTimes

	pieces   int // of output text
	from, to int // where the last of them is
}

// Read marks a chunk (SPEC §3). Null and empty text is no output, the role and
// what only decorates an answer (logprobs, filters, annotations) neither.
func (r *chatReader) Read(f *core.Frame) core.Mark {
	if len(f.Data) == 0 {
		return 0
	}
	if f.Data[0] == '[' && string(bytes.TrimSpace(f.Data)) == "[DONE]" {
		return core.MarkEnd
	}
	if piece, ok := r.last.piece(f.Data); ok && f.Name == "" {
		r.answer.OutputBytes += textLen(piece)
		return r.last.mark
	}
	c := walk(f.Data)
	chunk := chatChunk{text: r.operation == core.OpCompletions}
	if !chunk.walk(&c, false) {
		if f.Name == "error" {
			r.answer.Err, f.Raw = &core.UpstreamError{}, nil
			return core.MarkError
		}
		return core.MarkBroken
	}
	r.keep(&chunk)
	mark := chunk.mark
	if r.finished != r.seen {
		mark &^= core.MarkFinish // others are still being written
	}
	switch {
	case chunk.failed || f.Name == "error":
		mark |= core.MarkError
		r.answer.Err = chunk.err(f.Data)
		if !chunk.plain {
			f.Raw = nil
		}
	case chunk.usage && chunk.choices == 0:
		mark |= core.MarkUsageOnly
	}
	if mark.Has(core.MarkReasoning) {
		r.answer.StreamedReasoning = true
	}
	if chunk.pieces == 1 && (mark == core.MarkText || mark == core.MarkReasoning) && !chunk.usage && !chunk.timed && f.Name == "" {
		r.last.learn(f.Data, chunk.from, chunk.to, mark)
	}
	return mark
}

// ReadWhole reads an unstreamed answer.
func (r *chatReader) ReadWhole(body []byte) error {
	c := walk(body)
	chunk := chatChunk{text: r.operation == core.OpCompletions}
	switch {
	case !chunk.walk(&c, true):
		if c.err != nil {
			return c.err
		}
		return errors.New("the answer is not a JSON object")
	case chunk.failed:
		r.answer.Err = chunk.err(body)
		return errors.New("the answer holds an error")
	case !chunk.list:
		return errors.New("the answer has no choices")
	}
	r.keep(&chunk)
	return nil
}

// err is the error that a chunk whose text is data holds.
func (k *chatChunk) err(data []byte) *core.UpstreamError {
	if k.failure != nil {
		data = k.failure
	}
	return new(readError(data))
}

func (r *chatReader) keep(chunk *chatChunk) {
	r.answer.OutputBytes += chunk.bytes
	r.seen.join(chunk.seen)
	r.finished.join(chunk.done)
	if len(chunk.finish) > 0 {
		r.answer.Finish = string(unescape(chunk.finish))
	}
	if chunk.usage {
		r.report, r.reported = chunk.report, true
	}
	if chunk.timed {
		r.times, r.native = chunk.times, chunk.native
	}
}

// ReadError reads the error of an answer with another status.
func (*chatReader) ReadError(status int, body []byte) core.UpstreamError {
	e := readError(body)
	e.Status = status
	return e
}

// Answer is what is known so far.
func (r *chatReader) Answer() core.Answer {
	return answerOf(r.answer, &r.report, r.reported, &r.times, &r.native)
}

// answerOf completes an answer by what its server reported.
func answerOf(a core.Answer, u *openAIReport, reported bool, times *llamaTimes, native *ollamaTimes) core.Answer {
	if !reported {
		report := times.report()
		u, reported = &report, report.input.OK
	}
	a.Reported = reported
	a.Usage, a.Contradiction = u.usage(times.cached)
	a.Figures = serverFigures(u, times, native, a.Usage)
	return a
}

// walk takes a chunk, or a whole answer, whose choices have a message in the
// place of a delta; false where it is not a JSON object and nothing else.
func (k *chatChunk) walk(c *cursor, whole bool) bool {
	if !c.object() {
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "choices":
			if !c.array() {
				continue
			}
			for k.list = true; c.element(); k.choices++ {
				k.choice(c, whole)
			}
		case "data": // embeddings
			k.list = k.list || c.peek() == '['
			c.skip()
		case "usage":
			k.usage = k.report.set(c) || k.usage
		case "x_groq":
			k.groq(c)
		case "timings":
			k.times.set(c)
			k.timed = true
		case "time_info":
			k.times.setInfo(c)
			k.timed = true
		case "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration":
			k.native.field(c, string(key))
			k.timed = true
		case "error":
			if !c.null() {
				k.failed, k.plain = true, true
				c.skip()
			}
		case "object":
			s, ok := c.text()
			if !ok {
				c.skip()
			}
			k.failed = k.failed || string(s) == "error" // older vLLM
		}
	}
	return c.end() == nil
}

// groq takes the usage that Groq puts into a field of its own. It may come
// beside the standard one, with the same figures.
func (k *chatChunk) groq(c *cursor) {
	for key := range c.each {
		switch {
		case string(key) == "usage" && !k.usage:
			k.usage = k.report.set(c)
		}
	}
}

// choiceSet are choices by their index; those beyond its room are not told apart.
type choiceSet [2]uint64

func (s *choiceSet) add(index int64) {
	if index < 64*int64(len(s)) {
		s[index/64] |= 1 << (index % 64)
	}
}

func (s *choiceSet) join(more choiceSet) {
	s[0] |= more[0]
	s[1] |= more[1]
}

func (k *chatChunk) choice(c *cursor, whole bool) {
	if !c.object() {
		c.skip()
		return
	}
	index, finish := int64(0), false
	for key := range c.rest {
		switch {
		case string(key) == "index":
			index = c.tokens().V
		case string(key) == "delta" && !whole, string(key) == "message" && whole:
			k.delta(c)
		case string(key) == "text" && k.text:
			k.said(c, core.MarkText)
		case string(key) == "finish_reason":
			if s, ok := c.text(); !ok {
				c.skip()
			} else if len(s) > 0 {
				k.finish, finish = s, true
				k.mark |= core.MarkFinish
			}
		case string(key) == "usage" && !k.usage: // Moonshot
			k.usage = k.report.set(c)
		case string(key) == "error": // OpenRouter
			if !c.null() {
				k.failed, k.failure = true, c.value()
			}
		}
	}
	k.seen.add(index)
	if finish {
		k.done.add(index)
	}
}

// said consumes a value that is output of a kind where it is text that is not empty.
func (k *chatChunk) said(c *cursor, kind core.Mark) int {
	s, ok := c.text()
	if !ok {
		c.skip()
		return 0
	}
	if len(s) == 0 {
		return 0
	}
	n := textLen(s)
	k.mark |= kind
	k.bytes += n
	k.pieces++
	k.from, k.to = c.i-1-len(s), c.i-1
	return n
}

func (k *chatChunk) delta(c *cursor) {
	thought := 0
	for key := range c.each {
		switch string(key) {
		case "content":
			if !c.array() {
				k.said(c, core.MarkText)
				continue
			}
			for c.element() { // Mistral
				k.part(c, core.MarkText)
			}
		case "reasoning_content", "reasoning":
			// Both names at once say the same thing twice.
			n := k.said(c, core.MarkReasoning)
			k.bytes -= min(n, thought)
			thought = max(n, thought)
		case "refusal":
			k.said(c, core.MarkRefusal)
		case "tool_calls":
			if !c.array() {
				continue
			}
			for c.element() {
				k.mark |= core.MarkTool
				k.call(c)
			}
		case "function_call":
			if c.peek() == '{' {
				k.mark |= core.MarkTool
			}
			k.function(c)
		}
	}
}

// part takes one part of a content list: text, or thinking with parts of its own.
func (k *chatChunk) part(c *cursor, kind core.Mark) {
	for key := range c.each {
		switch string(key) {
		case "text":
			k.said(c, kind)
		case "thinking":
			if !c.array() {
				k.said(c, core.MarkReasoning)
				continue
			}
			for c.element() {
				k.part(c, core.MarkReasoning)
			}
		}
	}
}

// call takes one entry of tool_calls, for the size of what it holds.
func (k *chatChunk) call(c *cursor) {
	for key := range c.each {
		if string(key) == "function" || string(key) == "custom" {
			k.function(c)
		}
	}
}

func (k *chatChunk) function(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "name", "arguments", "input":
			k.said(c, core.MarkTool)
		}
	}
}

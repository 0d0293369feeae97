package adapters

import "headway/core"

// chatDelta is what one choice of a chunk says, in the members' own order.
type chatDelta struct {
	index            int
	content, refusal []byte
	parts            []byte // content that is a list (Mistral)
	thought, same    []byte // reasoning_content; reasoning
	details          []byte
	calls, old       []byte // tool_calls; function_call
	images           []byte // that the model made (OpenRouter)
	finish           []byte
	stop             core.Quoted
	failed           bool // OpenRouter says so here
}

// part takes one choice and gives its events in the order of an answer.
func (e *chatEvents) part(c *cursor, whole bool) {
	var d chatDelta
	if !d.read(c, whole) || d.index >= maxAnswers {
		return
	}
	e.failed = e.failed || d.failed
	e.choice = d.index
	t := e.track(d.index)
	thought := d.thought
	if len(thought) == 0 {
		thought = d.same
	}
	if len(thought) > 0 {
		e.said(t, core.EventReasoning, thought)
	}
	if len(d.details) > 0 {
		e.details(t, d.details)
	}
	if len(d.parts) > 0 {
		list := walk(d.parts)
		e.parts(t, &list, core.EventText)
	}
	if len(d.content) > 0 {
		e.said(t, core.EventText, d.content)
	}
	if len(d.refusal) > 0 {
		e.said(t, core.EventRefusal, d.refusal)
	}
	if len(d.images) > 0 {
		e.images(t, d.images)
	}
	if len(d.calls) > 0 {
		list := walk(d.calls)
		for list.array(); list.element(); {
			e.call(t, &list)
		}
	}
	if len(d.old) > 0 {
		old := walk(d.old)
		piece := chatCallPiece{}
		piece.function(&old)
		e.called(t, &piece)
	}
	if len(d.finish) > 0 {
		e.finish(t, string(d.finish), d.stop)
	}
}

// read consumes one choice; false where it is no object.
func (d *chatDelta) read(c *cursor, whole bool) bool {
	if !c.object() {
		c.skip()
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "index":
			d.index = int(c.tokens().V)
		case "delta":
			d.say(c, !whole)
		case "message":
			d.say(c, whole)
		case "finish_reason":
			d.finish, _ = c.text()
		case "error":
			if !c.null() {
				d.failed = true
				c.skip()
			}
		case "stop_reason", "matched_stop": // vLLM, SGLang: the sequence, where it was one
			if raw, ok := c.text(); ok {
				d.stop = c.quotes(raw)
			} else {
				c.skip()
			}
		}
	}
	return true
}

// say consumes a delta or a message.
func (d *chatDelta) say(c *cursor, wanted bool) {
	if !wanted || !c.object() {
		c.skip()
		return
	}
	for key := range c.rest {
		to, list := (*[]byte)(nil), (*[]byte)(nil)
		switch string(key) {
		case "content":
			to, list = &d.content, &d.parts
		case "refusal":
			to = &d.refusal
		case "reasoning_content":
			to = &d.thought
		case "reasoning":
			to = &d.same
		case "reasoning_details":
			list = &d.details
		case "images":
			list = &d.images
		case "tool_calls":
			list = &d.calls
		case "function_call":
			list = &d.old
		}
		switch next := c.peek(); {
		case to != nil && next == '"':
			*to, _ = c.text()
		case list != nil && (next == '[' || next == '{' && list == &d.old):
			*list = c.value()
		}
	}
}

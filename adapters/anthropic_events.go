package adapters

import (
	"errors"
	"slices"
	"strconv"

	"headway/core"
)

// messagesPart is one content block of an answer, as it is written.
type messagesPart struct {
	kind, id, name, text, thinking, signature, data []byte
	input                                           []byte // a value
}

// server tells whether the block is the use of a tool that runs on the server.
func (p *messagesPart) server() bool {
	return string(p.kind) == "server_tool_use" || string(p.kind) == "mcp_tool_use"
}

func (p *messagesPart) read(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "type":
			p.kind = textOf(c)
		case "id":
			p.id = textOf(c)
		case "name":
			p.name = textOf(c)
		case "text":
			p.text = textOf(c)
		case "thinking":
			p.thinking = textOf(c)
		case "signature":
			p.signature = textOf(c)
		case "data":
			p.data = textOf(c)
		case "input":
			p.input = c.value()
		}
	}
}

// quotedOf consumes a value and gives a string with its quotes; nothing for any
// other.
func quotedOf(c *cursor) core.Quoted {
	c.peek()
	from := c.i
	if textOf(c) == nil {
		return nil
	}
	return c.b[from:c.i]
}

// messagesEvents makes events of an answer's parts.
type messagesEvents struct {
	list    []core.Event
	started bool
	tools   int // calls so far
	blocks  []openBlock
	halves  halves
}

// openBlock is a block under way.
type openBlock struct {
	index int64
	tool  int  // the tool call's number, -1 for what is none
	whole bool // what is below came in no delta
	input []byte
	seal  []byte
}

// Events is what the event that Read has just looked at holds.
func (r *messagesReader) Events(*core.Frame) []core.Event {
	e, g := &r.event, &r.given
	g.list = g.list[:0]
	switch e.kind {
	case kindDelta:
		switch e.delta {
		case "text_delta":
			g.piece(core.EventText, 0, e.text)
		case "thinking_delta":
			g.piece(core.EventReasoning, 0, e.thinking)
		case "input_json_delta":
			if b := g.block(e.index); b != nil && b.tool >= 0 && len(e.input) > 0 {
				b.whole = false
				g.piece(core.EventArguments, b.tool, e.input)
			}
		case "signature_delta":
			if b := g.block(e.index); b != nil {
				b.whole = false
			}
			g.seal(e.signature, false)
		}
	case kindStart:
		g.blocks = g.blocks[:0]
		g.start(e.id, e.model)
	case kindBlock:
		g.begin(e.index, &e.block)
	case kindBlockStop:
		if b := g.block(e.index); b != nil {
			g.end(b)
		}
	case kindMessageDelta, kindStop:
		g.endAll()
		if e.kind == kindMessageDelta && len(e.stop) > 0 {
			g.finish(e.stop, e.stopText, e.explained)
		}
	}
	return g.list
}

// WholeEvents is the same of an unstreamed message.
func (r *messagesReader) WholeEvents(body []byte) ([]core.Event, error) {
	var g messagesEvents
	var id, model, stop, explained []byte
	var stopText core.Quoted
	var parts []messagesPart
	c := walk(body)
	if !c.object() {
		return nil, errors.New("the answer is not a JSON object")
	}
	for key := range c.rest {
		switch string(key) {
		case "id":
			id = textOf(&c)
		case "model":
			model = textOf(&c)
		case "stop_reason":
			stop = textOf(&c)
		case "stop_sequence":
			stopText = quotedOf(&c)
		case "stop_details":
			var e messagesEvent
			e.readDetails(&c)
			explained = e.explained
		case "content":
			if !c.array() {
				continue
			}
			for c.element() {
				var p messagesPart
				p.read(&c)
				parts = append(parts, p)
			}
		}
	}
	if c.end() != nil {
		return nil, errors.New("the answer is not a JSON object")
	}
	g.list = make([]core.Event, 0, len(parts)*2+2)
	g.start(id, model)
	for i := range parts {
		g.begin(nil, &parts[i])
		g.endAll()
	}
	if len(stop) > 0 {
		g.finish(stop, stopText, explained)
	}
	return g.list, nil
}

// start begins the answer. A stream that begins anew goes on with the same one.
func (g *messagesEvents) start(id, model []byte) {
	if !g.started {
		g.started = true
		g.list = append(g.list, core.Event{Kind: core.EventStart, ID: string(unescape(id)), Model: string(unescape(model))})
	}
}

// block is the newest block under way of that number.
func (g *messagesEvents) block(index []byte) *openBlock {
	n, _ := strconv.ParseInt(string(index), 10, 64)
	for i := len(g.blocks) - 1; i >= 0; i-- {
		if g.blocks[i].index == n {
			return &g.blocks[i]
		}
	}
	return nil
}

// begin takes a block's opening: servers other than Anthropic's may have all of
// it there.
func (g *messagesEvents) begin(index []byte, p *messagesPart) {
	n, _ := strconv.ParseInt(string(index), 10, 64)
	b := openBlock{index: n, tool: -1, whole: true}
	switch string(p.kind) {
	case "text":
		g.piece(core.EventText, 0, p.text)
	case "thinking":
		g.piece(core.EventReasoning, 0, p.thinking)
		b.seal = slices.Clone(p.signature)
	case "redacted_thinking":
		g.seal(p.data, true)
	case "tool_use":
		b.tool = g.tools
		g.tools++
		g.list = append(g.list, core.Event{Kind: core.EventTool, Index: b.tool, ID: string(unescape(p.id)), Name: string(unescape(p.name))})
		if c := walk(p.input); c.object() && c.peek() != '}' {
			b.input = escapeJSON(p.input)
		}
	}
	if len(g.blocks) > maxCalls { // no server leaves so many open
		g.end(&g.blocks[0])
	}
	g.blocks = append(g.blocks, b)
}

// endAll ends the blocks that are open, as the message does.
func (g *messagesEvents) endAll() {
	for len(g.blocks) > 0 {
		g.end(&g.blocks[0])
	}
}

// end takes a block's end, of which nothing came in a delta.
func (g *messagesEvents) end(b *openBlock) {
	g.halves = halves{} // no other half came
	if b.whole && b.input != nil {
		g.piece(core.EventArguments, b.tool, b.input)
	}
	if b.whole {
		g.seal(b.seal, false)
	}
	for i := range g.blocks {
		if &g.blocks[i] == b {
			g.blocks = slices.Delete(g.blocks, i, i+1)
			return
		}
	}
}

// piece gives a piece of text in whole characters: Anthropic's own are, a server
// that writes escapes may cut a pair of them in two.
func (g *messagesEvents) piece(kind core.EventKind, index int, text []byte) {
	if text = g.halves.whole(half{index: index, kind: kind}, text); len(text) > 0 {
		g.list = append(g.list, core.Event{Kind: kind, Index: index, Text: text})
	}
}

// seal gives what Anthropic signed or encrypted the thinking with; a server that
// has no such thing may send it empty.
func (g *messagesEvents) seal(text []byte, encrypted bool) {
	if len(text) > 0 {
		g.list = append(g.list, core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatAnthropic, Text: requote(text), Encrypted: encrypted}})
	}
}

func (g *messagesEvents) finish(stop []byte, text core.Quoted, explained []byte) {
	e := core.Event{Kind: core.EventFinish, Finish: core.FinishStop}
	switch string(unescape(stop)) {
	case "max_tokens", "model_context_window_exceeded":
		e.Finish = core.FinishLength
	case "tool_use":
		e.Finish = core.FinishTools
	case "pause_turn":
		e.Finish = core.FinishPause
	case "refusal":
		e.Finish = core.FinishRefusal
		g.piece(core.EventRefusal, 0, explained)
	case "stop_sequence":
		e.StopText = text
	default:
		if g.tools > 0 {
			e.Finish = core.FinishTools
		}
	}
	g.list = append(g.list, e)
}

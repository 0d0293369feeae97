package adapters

import (
	"bytes"

	"headway/core"
)

// responsesEvents is what the translation of one stream must know of it.
type responsesEvents struct {
	list    []core.Event
	buf     []byte // text that was put together, until the next frame
	began   bool
	said    bool // anything but the start
	calls   []responsesCall
	thought map[string]bool // the items whose reasoning came
	item    string          // the last one
	part    int64           // of the last one
	sealed  bool            // nothing of it came behind its seal
	halves  halves
}

// responsesCall is a tool call under way.
type responsesCall struct {
	item   string
	output core.Opt[int64]
	custom bool
	begun  bool // some of its arguments came
	ended  bool
}

// Events is what the frame holds that Read has just looked at.
func (r *responsesReader) Events(f *core.Frame) []core.Event {
	e, t := &r.event, &r.events
	t.list, t.buf = t.list[:0], t.buf[:0]
	if len(f.Data) == 0 || len(e.kind) == 0 || e.failed {
		return nil
	}
	switch string(e.kind) {
	case "response.output_text.delta", "response.audio.transcript.delta":
		t.text(core.EventText, e.delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		t.reasoning(e)
	case "response.refusal.delta":
		t.text(core.EventRefusal, e.delta)
	case "response.created":
		t.start(e.response)
	case "response.output_item.added":
		if it := itemOf(e.item); it.calls() {
			t.call(&it, e.output)
		}
	case "response.function_call_arguments.delta":
		t.arguments(t.find(string(e.itemID), e.output), e.delta)
	case "response.custom_tool_call_input.delta":
		t.arguments(t.find(string(e.itemID), e.output), e.delta)
	case "response.function_call_arguments.done":
		if i := t.find(string(e.itemID), e.output); i >= 0 && !t.calls[i].begun {
			t.arguments(i, wholeArguments(f.Data))
		}
	case "response.output_item.done":
		t.done(e)
	case "response.completed", "response.incomplete":
		t.end(e.response)
	}
	return t.list
}

func (t *responsesEvents) add(e core.Event) {
	t.said = true
	t.list = append(t.list, e)
}

// start tells the answer's id and model, once.
func (t *responsesEvents) start(response []byte) {
	if t.began || response == nil {
		return
	}
	t.began = true
	e := core.Event{Kind: core.EventStart}
	c := walk(response)
	for key := range c.each {
		switch string(key) {
		case "id":
			e.ID = c.word()
		case "model":
			e.Model = c.word()
		}
	}
	t.list = append(t.list, e)
}

// text gives a piece of text in whole characters.
func (t *responsesEvents) text(kind core.EventKind, delta []byte) {
	if delta = t.halves.whole(half{kind: kind}, delta); len(delta) > 0 {
		t.add(core.Event{Kind: kind, Text: delta})
	}
}

// reasoning gives a piece of reasoning, with an empty line between its parts.
func (t *responsesEvents) reasoning(e *responsesEvent) {
	if len(e.delta) == 0 {
		return
	}
	part := e.summary.Or(0)
	if bytes.HasPrefix(e.kind, []byte("response.reasoning_text")) {
		part = e.content.Or(0)
	}
	switch n := len(t.thought); {
	case n == 0 || t.item != string(e.itemID):
		if n > 0 && !t.sealed {
			t.add(core.Event{Kind: core.EventReasoning, Text: []byte(`\n\n`)})
		}
		if n == 0 {
			t.thought = map[string]bool{}
		}
		t.item = string(e.itemID)
		t.thought[t.item] = true
	case part != t.part:
		t.add(core.Event{Kind: core.EventReasoning, Text: []byte(`\n\n`)})
	}
	t.part, t.sealed = part, false
	t.text(core.EventReasoning, e.delta)
}

// call begins a tool call and gives its index.
func (t *responsesEvents) call(it *inputItem, output core.Opt[int64]) int {
	i := len(t.calls)
	t.calls = append(t.calls, responsesCall{item: string(it.id()), output: output, custom: it.kind == "custom_tool_call"})
	t.add(core.Event{Kind: core.EventTool, Index: i, ID: string(unescape(inner(it.callID))), Name: string(unescape(inner(it.name)))})
	return i
}

// find gives the index of the call that an event belongs to, -1 for none: a tool
// that the provider runs is no call of the client's.
func (t *responsesEvents) find(item string, output core.Opt[int64]) int {
	for i := len(t.calls) - 1; i >= 0; i-- {
		if c := &t.calls[i]; c.item == item && item != "" || output.OK && c.output == output {
			return i
		}
	}
	return -1
}

// arguments gives a piece of a call's arguments. The text of a tool that takes
// plain text is the one argument of a function.
func (t *responsesEvents) arguments(i int, piece []byte) {
	if i < 0 {
		return
	}
	c := &t.calls[i]
	if piece = t.halves.whole(half{index: i, kind: core.EventArguments}, piece); len(piece) == 0 {
		return
	}
	if c.custom {
		from := len(t.buf)
		if !c.begun {
			t.buf = append(t.buf, `{\"input\":\"`...)
		}
		t.buf = append(t.buf, escapeJSON(piece)...)
		piece = t.buf[from:]
	}
	c.begun = true
	t.add(core.Event{Kind: core.EventArguments, Index: i, Text: piece})
}

// done takes what only the end of an item tells.
func (t *responsesEvents) done(e *responsesEvent) {
	it := itemOf(e.item)
	switch {
	case it.calls():
		i := t.find(string(it.id()), e.output)
		if i < 0 {
			i = t.call(&it, e.output)
		}
		if !t.calls[i].begun {
			t.arguments(i, it.said())
		}
		t.close(i)
	case it.kind == "reasoning":
		t.thinking(&it)
	}
}

// close ends a call.
func (t *responsesEvents) close(i int) {
	if c := &t.calls[i]; !c.ended {
		c.ended = true
		if c.custom && c.begun {
			t.add(core.Event{Kind: core.EventArguments, Index: i, Text: []byte(`\"}`)})
		}
	}
}

// thinking gives what is new of a whole reasoning item: all of it where it did
// not come in pieces, and what the next turn must bring back.
func (t *responsesEvents) thinking(it *inputItem) {
	if p := it.reasoning(); p.Text != nil && !t.thought[string(it.id())] {
		t.add(core.Event{Kind: core.EventReasoning, Text: inner(p.Text)})
	}
	if len(it.encrypted) > 2 {
		t.sealed = true
		t.add(core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatResponses, Text: it.encrypted, Encrypted: true, ID: it.listed}})
	}
}

// end tells why the answer ended. Of a stream that had nothing else, all is in
// its last event.
func (t *responsesEvents) end(response []byte) {
	t.start(response)
	a := readWholeAnswer(response)
	if !t.said {
		t.items(a.output)
	}
	for i := range t.calls {
		t.close(i)
	}
	finish := core.FinishStop
	switch {
	case a.reason == "content_filter":
		finish = core.FinishFilter
	case a.reason != "" || a.status == "incomplete":
		finish = core.FinishLength
	case len(t.calls) > 0:
		finish = core.FinishTools
	}
	t.list = append(t.list, core.Event{Kind: core.EventFinish, Finish: finish})
}

// items gives whole items.
func (t *responsesEvents) items(output []byte) {
	c := walk(output)
	if !c.array() {
		return
	}
	for i := int64(0); c.element(); i++ {
		if c.peek() != '{' {
			c.skip()
			continue
		}
		switch it := readInputItem(&c); {
		case it.calls():
			n := t.call(&it, core.Some(i))
			t.arguments(n, it.said())
		case it.kind == "reasoning":
			t.thinking(&it)
		case it.kind == "message":
			t.message(it.content)
		}
	}
}

// message gives the parts of a whole message.
func (t *responsesEvents) message(content []byte) {
	if s := walk(content); s.peek() == '"' {
		t.text(core.EventText, textOf(&s))
		return
	}
	c := walk(content)
	if !c.array() {
		return
	}
	for c.element() {
		if !c.object() {
			c.skip()
			continue
		}
		for key := range c.rest {
			switch string(key) {
			case "text":
				t.text(core.EventText, textOf(&c))
			case "refusal":
				t.text(core.EventRefusal, textOf(&c))
			}
		}
	}
}

// itemOf reads an event's item.
func itemOf(raw []byte) inputItem {
	c := walk(raw)
	return readInputItem(&c)
}

// calls tells whether the item is a call of a client's tool.
func (it *inputItem) calls() bool { return it.kind == "function_call" || it.kind == "custom_tool_call" }

// said is what the call says, still escaped.
func (it *inputItem) said() []byte {
	if it.kind == "custom_tool_call" {
		return inner(it.input)
	}
	return inner(it.arguments)
}

// id is what events call the item.
func (it *inputItem) id() []byte {
	if len(it.listed) > 2 {
		return inner(it.listed)
	}
	return inner(it.callID)
}

// wholeAnswer is what ends an answer.
type wholeAnswer struct {
	status, reason string
	output         []byte
}

func readWholeAnswer(response []byte) (a wholeAnswer) {
	c := walk(response)
	if !c.object() {
		return a
	}
	for key := range c.rest {
		switch string(key) {
		case "status":
			a.status = c.word()
		case "incomplete_details":
			a.reason = incompleteReason(&c)
		case "output":
			a.output = c.value()
		}
	}
	return a
}

// wholeArguments gives the arguments that an event holds whole, still escaped.
func wholeArguments(event []byte) []byte {
	c := walk(event)
	for key := range c.each {
		if string(key) == "arguments" {
			return textOf(&c)
		}
	}
	return nil
}

// WholeEvents is what an unstreamed answer holds.
func (r *responsesReader) WholeEvents(body []byte) ([]core.Event, error) {
	t := &r.events
	t.list, t.buf = t.list[:0], t.buf[:0]
	t.end(body)
	return t.list, nil
}

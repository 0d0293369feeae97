package adapters

import (
	"slices"

	"headway/core"
)

// call begins a tool call. What was open is over.
func (t *responsesTranslator) call(out *text, e *core.Event) {
	if t.find(e.Index) != nil {
		return
	}
	t.close(out)
	c := translatedCall{index: e.Index, at: t.place(), id: e.ID, name: e.Name}
	if tool, ok := t.tools[e.Name]; ok {
		c.name, c.namespace, c.custom = string(unescape(inner(tool.name))), tool.namespace, tool.custom()
	}
	t.calls = append(t.calls, c)
	t.added(out, c.at, func(out *text) { t.item(out, &c, "in_progress", nil) })
}

// find gives the call of an index.
func (t *responsesTranslator) find(index int) *translatedCall {
	for i := range t.calls {
		if t.calls[i].index == index {
			return &t.calls[i]
		}
	}
	return nil
}

// prefix is how the id of the call's item begins.
func (c *translatedCall) prefix() string {
	if c.custom {
		return "ctc"
	}
	return "fc"
}

// item writes a call.
func (t *responsesTranslator) item(out *text, c *translatedCall, status string, said []byte) {
	out.b = append(t.itemID(append(out.b, `{"id":"`...), c.prefix(), c.at), `","type":`...)
	member := "arguments"
	if c.custom {
		member = "input"
		out.str("custom_tool_call")
	} else {
		out.str("function_call")
	}
	out.key("status")
	out.str(status)
	out.key("call_id")
	out.str(c.id)
	out.key("name")
	out.str(c.name)
	out.member("namespace", c.namespace)
	out.key(member)
	out.inner(said)
	out.close('}')
}

// arguments takes a piece of a call's arguments. Where the tool takes plain text
// it is found in them when they are whole.
func (t *responsesTranslator) arguments(out *text, c *translatedCall, piece []byte) {
	c.arguments = append(c.arguments, piece...)
	if !c.custom && len(piece) > 0 {
		t.delta(out, c, "response.function_call_arguments.delta", piece)
	}
}

func (t *responsesTranslator) delta(out *text, c *translatedCall, kind string, piece []byte) {
	if !t.job.Streamed {
		return
	}
	out.b = slices.Grow(out.b, eventRoom+len(piece))
	t.event(out, kind)
	t.within(out, c.prefix(), c.at, "", 0)
	out.key("delta")
	out.inner(piece)
	t.sent(out)
}

// endCalls ends the calls that stand before a place of the output.
func (t *responsesTranslator) endCalls(out *text, before int) {
	for i := range t.calls {
		if c := &t.calls[i]; c.at < before && t.items[c.at] == nil {
			t.endCall(out, c)
		}
	}
}

// endCall ends a call. The status of one to a tool that takes plain text has one
// word.
func (t *responsesTranslator) endCall(out *text, c *translatedCall) {
	said, status := c.arguments, t.status(c.at)
	switch {
	case c.custom:
		status = "completed"
		if said = plainText(c.arguments); len(said) > 0 {
			t.delta(out, c, "response.custom_tool_call_input.delta", said)
		}
	case len(said) == 0:
		said = []byte("{}")
		t.delta(out, c, "response.function_call_arguments.delta", said)
	}
	if t.job.Streamed {
		if c.custom {
			t.event(out, "response.custom_tool_call_input.done")
			t.within(out, c.prefix(), c.at, "", 0)
			out.key("input")
		} else {
			t.event(out, "response.function_call_arguments.done")
			t.within(out, c.prefix(), c.at, "", 0)
			out.key("name")
			out.str(c.name)
			out.key("arguments")
		}
		out.inner(said)
		t.sent(out)
	}
	t.done(out, c.at, func(out *text) { t.item(out, c, status, said) })
}

// plainText finds the text in the arguments of a tool that takes plain text: its
// one member, or all of what the model said where that is something else.
func plainText(arguments []byte) []byte {
	c := walk(unescape(arguments))
	if !c.object() {
		return arguments
	}
	var input []byte
	found := false
	for key := range c.rest {
		if raw, ok := c.text(); ok && string(key) == "input" {
			input, found = raw, true
		} else if !ok {
			c.skip()
		}
	}
	if c.end() != nil || !found {
		return arguments
	}
	return input
}

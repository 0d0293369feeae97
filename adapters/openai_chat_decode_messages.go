package adapters

import (
	"bytes"
	"strconv"

	"headway/core"
)

// messages consumes the list of messages.
func (d *chatDecoder) messages() *core.Error {
	if !d.array() {
		return d.wrong("messages", "must be a list of messages")
	}
	for i := 0; d.element(); i++ {
		m := chatTurn{d: d, at: at("messages", i)}
		if !d.object() {
			return d.wrong(m.at, "must be an object")
		}
		if err := m.read(); err != nil {
			return err
		}
		message, err := m.message()
		if err != nil {
			return err
		}
		d.c.Messages = append(d.c.Messages, message)
	}
	return nil
}

// chatTurn is what is gathered of one message, whose members may come in any
// order.
type chatTurn struct {
	d  *chatDecoder
	at string

	role          string
	name, id      core.Quoted
	content       []core.Part
	refusal       core.Quoted
	thought, same core.Quoted // reasoning_content; reasoning
	seals         []chatSeal
	calls         []core.Part // with the seals that belong to them
	images        []core.Part // that the model made
	cache         string
}

// read consumes the message, whose brace is behind it.
func (m *chatTurn) read() (err *core.Error) {
	d := m.d
	for key := range d.rest {
		if d.null() {
			continue
		}
		switch name := string(key); name {
		case "role":
			m.role = d.word()
		case "content":
			err = m.contents()
		case "name":
			m.name, err = d.quoted(m.at + ".name")
		case "tool_call_id":
			m.id, err = d.quoted(m.at + ".tool_call_id")
		case "refusal":
			m.refusal, err = d.quoted(m.at + ".refusal")
		case "reasoning_content":
			m.thought, err = d.quoted(m.at + ".reasoning_content")
		case "reasoning":
			if raw, ok := d.text(); ok {
				m.same = d.quotes(raw)
			} else {
				d.skip()
			}
		case "reasoning_details":
			m.details()
		case "tool_calls":
			err = m.toolCalls()
		case "function_call":
			err = m.oldCall()
		case "images":
			m.images, err = m.parts("images")
		case "cache_control", "prompt_cache_breakpoint":
			m.cache = d.cacheHint(name)
		case "audio":
			return cannot(m.at+".audio", "does not keep the answers in sound of another")
		default:
			d.extraField("messages[].", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// extraField consumes the value of a nested field that is known to no other
// format, or to none.
func (d *chatDecoder) extraField(list, name string) {
	if v := d.value(); !idle(name, v) {
		d.other(list+name, false)
	}
}

// message puts together what was gathered.
func (m *chatTurn) message() (core.Message, *core.Error) {
	out := core.Message{At: m.at, Parts: m.content}
	switch m.role {
	case "system", "developer":
		out.Role = core.RoleSystem
	case "user":
		out.Role = core.RoleUser
	case "tool", "function":
		out.Role = core.RoleUser
		return m.result(out)
	case "assistant":
		out.Role = core.RoleAssistant
		parts := make([]core.Part, 0, len(m.content)+len(m.calls)+len(m.seals)+1)
		parts = m.reasoning(parts)
		for _, p := range m.content {
			// A text that is empty beside a tool call is what many clients write for none.
			if p.Kind != core.PartText || len(p.Text) > 2 || len(m.calls) == 0 && m.refusal == nil {
				parts = append(parts, p)
			}
		}
		if m.refusal != nil {
			parts = append(parts, core.Part{Kind: core.PartRefusal, Text: m.refusal})
		}
		parts = append(parts, m.images...)
		out.Parts = append(parts, m.calls...)
		m.images = nil
	default:
		return out, m.d.wrong(m.at+".role", "must be system, developer, user, assistant or tool")
	}
	if m.name != nil {
		m.d.other("messages[].name", false)
	}
	if m.images != nil {
		m.d.other("messages[].images", false)
	}
	if n := len(out.Parts); n > 0 && m.cache != "" {
		out.Parts[n-1].Cache = m.cache
	}
	return out, nil
}

// result makes a message that answers a tool call. The old ones name the
// function in place of the call: the last one of that name is meant.
func (m *chatTurn) result(out core.Message) (core.Message, *core.Error) {
	part := core.Part{Kind: core.PartToolResult, ID: m.id, Name: m.name, Parts: m.content, Cache: m.cache}
	if m.role == "function" && m.id == nil {
		part.ID = m.d.lastCall(m.name)
	}
	if part.ID == nil {
		return out, core.Field(m.at+".tool_call_id", "required")
	}
	for i := range part.Parts {
		if p := &part.Parts[i]; p.Cache != "" {
			part.Cache, p.Cache = p.Cache, ""
		}
	}
	out.Parts = []core.Part{part}
	return out, nil
}

// lastCall is the id of the last call of a function by its name.
func (d *chatDecoder) lastCall(name core.Quoted) (id core.Quoted) {
	for i := range d.c.Messages {
		for _, p := range d.c.Messages[i].Parts {
			if p.Kind == core.PartToolCall && oneOf([]core.Quoted{p.Name}, name) {
				id = p.ID
			}
		}
	}
	return id
}

// toolCalls consumes the tool calls of an assistant's message.
func (m *chatTurn) toolCalls() *core.Error {
	d := m.d
	if !d.array() {
		return d.wrong(m.at+".tool_calls", "must be a list")
	}
	for i := 0; d.element(); i++ {
		place := at(m.at+".tool_calls", i)
		if !d.object() {
			return d.wrong(place, "must be an object")
		}
		if err := m.call(place); err != nil {
			return err
		}
	}
	return nil
}

func (m *chatTurn) call(place string) (err *core.Error) {
	d, call := m.d, core.Part{Kind: core.PartToolCall}
	var seal core.Seal
	for key := range d.rest {
		switch string(key) {
		case "id":
			call.ID, err = d.quoted(place + ".id")
		case "type":
			if kind := d.word(); kind == "custom" {
				return cannot(place+".type", "speaks another format that has no such tools")
			}
		case "function":
			err = m.called(&call, place+".function")
		case "extra_content":
			seal = d.extra()
		default:
			d.skip()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case call.ID == nil:
		return d.wrong(place+".id", "required")
	case call.Name == nil:
		return d.wrong(place+".function.name", "required")
	}
	if seal.Text != nil {
		m.calls = append(m.calls, core.Part{Kind: core.PartReasoning, Seal: seal})
	}
	m.calls = append(m.calls, call)
	return nil
}

// oldCall consumes a function_call, which has no id: its place makes one.
func (m *chatTurn) oldCall() *core.Error {
	call := core.Part{Kind: core.PartToolCall, ID: core.Quoted(`"call_` + strconv.Itoa(len(m.d.c.Messages)) + `"`)}
	if err := m.called(&call, m.at+".function_call"); err != nil {
		return err
	}
	m.calls = append(m.calls, call)
	return nil
}

// called consumes the name of a called function and its arguments, which are
// JSON in a string.
func (m *chatTurn) called(call *core.Part, place string) (err *core.Error) {
	d := m.d
	if !d.object() {
		return d.wrong(place, "must be an object")
	}
	for key := range d.rest {
		switch string(key) {
		case "name":
			call.Name, err = d.quoted(place + ".name")
		case "arguments":
			if d.null() {
				continue
			}
			if d.peek() == '{' { // as it is at some servers
				call.Arguments = d.value()
				continue
			}
			var raw []byte
			if raw, err = d.str(place + ".arguments"); err == nil {
				call.Arguments = argumentsOf(raw)
			}
		default:
			d.skip()
		}
		if err != nil {
			return err
		}
	}
	if call.Name == nil {
		return d.wrong(place+".name", "required")
	}
	if call.Arguments == nil {
		call.Arguments = core.JSON("{}")
	}
	return nil
}

// argumentsOf is the JSON object that stands escaped in a string: an empty one
// where there is nothing. What is no object (cut off, or the model's mistake,
// which its tool's result tells it of) is put into one.
func argumentsOf(raw []byte) core.JSON {
	text := bytes.TrimSpace(unescape(raw))
	if len(text) == 0 || string(text) == "null" {
		return core.JSON("{}")
	}
	c := walk(text)
	isObject := c.peek() == '{'
	c.skip()
	if !isObject || c.end() != nil {
		return brokenArguments(raw)
	}
	return text
}

// brokenArguments is an object that holds arguments that are none, escaped as
// they stand in a string, under the name that Anthropic's reference has for them.
func brokenArguments(raw []byte) core.JSON {
	return concat(nil, `{"INVALID_JSON":"`, string(raw), `"}`)
}

package adapters

import (
	"bytes"
	"cmp"
	"slices"

	"headway/core"
)

// Unseal is of chat completions.
func (Chat) Unseal(body []byte) ([]byte, bool) { return unsealed(core.FormatOpenAI, body) }

// Unseal is of Responses.
func (Responses) Unseal(body []byte) ([]byte, bool) { return unsealed(core.FormatResponses, body) }

// Unseal is of Messages.
func (Anthropic) Unseal(body []byte) ([]byte, bool) { return unsealed(core.FormatAnthropic, body) }

// Unseal is of generateContent.
func (Google) Unseal(body []byte) ([]byte, bool) { return unsealed(core.FormatGoogle, body) }

func unsealed(format core.Format, body []byte) ([]byte, bool) {
	edits := unseal(format, body)
	return splice(body, edits), len(edits) > 0
}

// unseal gives the edits that take out of a client's body what Headway wrapped
// (see wrapSeal): a conversation that was at a provider of another format has
// that provider's reasoning in it, which one of the client's own format would
// refuse. Bodies that hold nothing of the kind cost one search.
func unseal(format core.Format, body []byte) []edit {
	mark := sealMark
	if format == core.FormatGoogle {
		mark = sealMark64
	}
	if !bytes.Contains(body, []byte(`"`+mark)) {
		return nil
	}
	u := unsealer{cursor: walk(body), mark: []byte(`"` + mark)}
	switch format {
	case core.FormatOpenAI:
		u.inside(0, "messages", u.chatMessage)
	case core.FormatResponses:
		u.inside(0, "input", func(e piece) bool { return u.kind(e.value) == "reasoning" })
	case core.FormatAnthropic:
		u.inside(0, "messages", func(message piece) bool {
			return u.inside(message.From, "content", func(block piece) bool {
				kind := u.kind(block.value)
				return kind == "thinking" || kind == "redacted_thinking"
			})
		})
	case core.FormatGoogle:
		u.inside(0, "contents", func(content piece) bool { return u.inside(content.From, "parts", u.googlePart) })
	}
	return outermost(u.edits)
}

// outermost sorts edits and leaves out those that lie inside another.
func outermost(edits []edit) []edit {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(a.From-b.From, b.To-a.To) })
	end := -1
	return slices.DeleteFunc(edits, func(e edit) bool {
		if e.To <= end {
			return true
		}
		end = e.To
		return false
	})
}

// unsealer walks a body that Parse has read, so that nothing in it is malformed.
type unsealer struct {
	cursor
	mark  []byte
	edits []edit
}

// piece is a member of an object or an element of a list, with its place.
type piece struct {
	core.Span
	name  string // of a member
	value []byte
	gone  bool // to be taken out
}

// sealed tells whether a value holds a string that is a wrapped seal. Text that
// speaks of one, in quotes of its own, does not.
func (u *unsealer) sealed(raw []byte) bool {
	for at := 0; ; at++ {
		n := bytes.Index(raw[at:], u.mark)
		if n < 0 {
			return false
		}
		if at += n; escapes(raw[:at])%2 != 0 {
			continue
		}
		if end := stringEnd(raw, at+1); end > 0 {
			if _, ok := unwrapSeal(raw[at+1 : end]); ok {
				return true
			}
		}
	}
}

// members are those of the object at a place of the body.
func (u *unsealer) members(from int) (out []piece) {
	c := walk(u.b)
	c.i = from
	for ok := c.object(); ok; {
		at := c.i
		key, more := c.key()
		if !more {
			break
		}
		at += bytes.IndexByte(c.b[at:], '"')
		value := c.value()
		out = append(out, piece{Span: core.Span{From: at, To: c.i}, name: string(unescape(key)), value: value})
	}
	return out
}

// elements are those of the list at a place of the body; none where it is no list.
func (u *unsealer) elements(from int) (out []piece) {
	c := walk(u.b)
	c.i = from
	for ok := c.array(); ok && c.element(); {
		value := c.value()
		out = append(out, piece{Span: core.Span{From: c.i - len(value), To: c.i}, value: value})
	}
	return out
}

// start is where a piece's value is.
func (p *piece) start() int { return p.To - len(p.value) }

// kind is the type of an object.
func (u *unsealer) kind(raw []byte) string {
	c := walk(raw)
	for key := range c.each {
		if string(key) == "type" {
			text, _ := c.text()
			return string(text)
		}
	}
	return ""
}

// inside looks into a list that is a member of the object at a place: the
// elements that hold a seal are taken out where gone says so. True: none is left.
func (u *unsealer) inside(from int, name string, gone func(element piece) bool) (empty bool) {
	for _, m := range u.members(from) {
		if m.name != name {
			continue
		}
		elements := u.elements(m.start())
		for i := range elements {
			elements[i].gone = u.sealed(elements[i].value) && gone(elements[i])
		}
		u.cut(elements)
		empty = len(elements) > 0 && !slices.ContainsFunc(elements, func(e piece) bool { return !e.gone })
	}
	return empty
}

// cut takes out the pieces that are gone, each with one of its commas.
func (u *unsealer) cut(pieces []piece) {
	kept := -1 // the last that stays
	for i, p := range pieces {
		if !p.gone {
			kept = i
			continue
		}
		switch {
		case kept >= 0:
			u.edits = append(u.edits, edit{core.Span{From: pieces[i-1].To, To: p.To}, ""})
		case i+1 < len(pieces):
			u.edits = append(u.edits, edit{core.Span{From: p.From, To: pieces[i+1].From}, ""})
		default:
			u.edits = append(u.edits, edit{p.Span, ""})
		}
	}
}

// chatMessage takes out what carries seals in chat completions, and the reasoning
// that they belong to. The message stays.
func (u *unsealer) chatMessage(message piece) bool {
	members := u.members(message.From)
	details := slices.ContainsFunc(members, func(m piece) bool { return m.name == "reasoning_details" && u.sealed(m.value) })
	for i := range members {
		switch m := &members[i]; m.name {
		case "reasoning_details", "reasoning_content", "reasoning":
			m.gone = details
		case "tool_calls":
			for _, call := range u.elements(m.start()) {
				inside := u.members(call.From)
				for j := range inside {
					inside[j].gone = inside[j].name == "extra_content" && u.sealed(inside[j].value)
				}
				u.cut(inside)
			}
		}
	}
	u.cut(members)
	return false
}

// googlePart tells whether a part is another provider's thought. One that says
// more stays, with the one signature that Google takes where it did not sign.
func (u *unsealer) googlePart(part piece) bool {
	members := u.members(part.From)
	thought := slices.ContainsFunc(members, func(m piece) bool { return m.name == "thought" && string(m.value) == "true" })
	says := slices.ContainsFunc(members, func(m piece) bool {
		return m.name == "functionCall" || m.name == "function_call" || m.name == "text" && string(m.value) != `""`
	})
	if thought || !says {
		return true
	}
	for _, m := range members {
		if m.name == "thoughtSignature" || m.name == "thought_signature" {
			u.edits = append(u.edits, edit{core.Span{From: m.start(), To: m.To}, noSignature})
		}
	}
	return false
}

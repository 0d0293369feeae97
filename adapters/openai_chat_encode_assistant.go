package adapters

import (
	"headway/core"
)

// assistant writes an earlier answer: its text, the reasoning that the server
// wants back, its tool calls. One that is left with nothing is left out where it
// is the last.
func (e *chatEncoder) assistant(m *core.Message, last bool) error {
	var texts, thoughts []core.Quoted
	var details []core.JSON
	var images []placed
	said := make([]placed, 0, len(m.Parts))
	calls := 0
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case core.PartText, core.PartRefusal:
			texts = append(texts, p.Text)
			said = append(said, placed{p, ""})
		case core.PartToolCall:
			calls++
		case core.PartReasoning:
			if p.Seal.Origin != "" && p.Seal.Origin != core.FormatOpenAI {
				continue
			}
			detail := sealedDetail(p)
			if detail != nil && e.d.details {
				details = append(details, detail)
			}
			if len(p.Text) > 2 && (detail == nil || p.Seal.Encrypted) { // else it is in the detail
				thoughts = append(thoughts, p.Text)
			}
		case core.PartToolResult:
		default:
			if p.Kind != core.PartImage || !e.d.images {
				return cannot(partAt(e.c, m, i), "takes nothing but text as an earlier answer")
			}
			images = append(images, placed{p, partAt(e.c, m, i)})
		}
	}
	if last && calls == 0 && len(images) == 0 && allEmpty(texts) {
		return nil
	}
	e.told = false
	e.item()
	e.open('{')
	e.key("role")
	e.str("assistant")
	e.key("content")
	switch _, plain := e.plain(said); {
	case e.d.parts && len(thoughts) > 0:
		e.raw([]byte(`[{"type":"thinking","thinking":[{"type":"text","text":`))
		e.joined(thoughts, "")
		e.raw([]byte("}]}"))
		for _, s := range texts {
			if len(s) > 2 {
				e.textPart(s, "")
			}
		}
		e.close(']')
	case calls > 0 && allEmpty(texts):
		e.raw([]byte("null"))
	case !plain:
		e.open('[')
		for _, p := range said {
			if len(p.Text) > 2 {
				e.textPart(p.Text, p.Cache)
			}
		}
		e.close(']')
	default:
		e.joined(texts, "")
	}
	if e.d.thoughts != "" && len(thoughts) > 0 {
		e.key(e.d.thoughts)
		e.joined(thoughts, "")
	}
	if len(details) > 0 {
		e.key("reasoning_details")
		e.open('[')
		for _, v := range details {
			e.item()
			e.raw(v)
		}
		e.close(']')
	}
	if len(images) > 0 {
		e.key("images")
		e.open('[')
		for _, p := range images {
			if err := e.part(p); err != nil {
				return err
			}
		}
		e.close(']')
	}
	e.calls(m, calls)
	if last && calls == 0 && e.d.prefill != "" {
		e.raw([]byte("," + e.d.prefill))
	}
	e.close('}')
	return nil
}

func allEmpty(texts []core.Quoted) bool {
	for _, s := range texts {
		if len(s) > 2 {
			return false
		}
	}
	return true
}

// calls writes the tool calls of a message, in their order.
func (e *chatEncoder) calls(m *core.Message, n int) {
	if n == 0 {
		return
	}
	e.key("tool_calls")
	e.open('[')
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != core.PartToolCall {
			continue
		}
		e.item()
		e.open('{')
		e.key("id")
		e.id(p.ID)
		e.key("type")
		e.str("function")
		e.key("function")
		e.open('{')
		e.member("name", p.Name)
		e.key("arguments")
		if len(p.Arguments) > 0 {
			e.inner(escapeJSON(p.Arguments))
		} else {
			e.raw([]byte(`"{}"`))
		}
		e.close('}')
		if i > 0 && e.d.details {
			e.member("extra_content", sealedExtra(&m.Parts[i-1]))
		}
		e.close('}')
	}
	e.close(']')
}

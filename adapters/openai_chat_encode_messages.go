package adapters

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"headway/core"
)

// placed is a part and its place in the client's request.
type placed struct {
	*core.Part
	at string
}

// messages writes all messages in their order.
func (e *chatEncoder) messages() error {
	all := e.c.Messages
	if e.d.template || e.strict {
		all = turns(all)
	}
	e.key("messages")
	e.open('[')
	for i := range all {
		m := &all[i]
		last := i == len(all)-1
		var err error
		switch m.Role {
		case core.RoleSystem:
			if err = e.flush(); err == nil {
				err = e.say("system", e.placed(m, core.PartToolResult))
			}
		case core.RoleAssistant:
			if err = e.flush(); err == nil {
				err = e.assistant(m, last)
			}
		default:
			err = e.user(m)
		}
		if err != nil {
			return err
		}
	}
	if err := e.flush(); err != nil {
		return err
	}
	e.close(']')
	if n := len(all); n > 0 && all[n-1].Role == core.RoleAssistant && e.d.goOn != "" {
		e.raw([]byte("," + e.d.goOn))
	}
	return nil
}

// turns are messages as the templates of models take them: system text at the
// start alone, later in the user's turn where it stood, and no two messages of
// the same role one behind the other.
func turns(all []core.Message) []core.Message {
	out := make([]core.Message, 0, len(all))
	for _, m := range all {
		if m.Role == core.RoleSystem && len(out) > 0 && out[len(out)-1].Role != core.RoleSystem {
			m.Role = core.RoleUser
			m.Parts = slices.Clone(m.Parts)
			for i := range m.Parts {
				if p := &m.Parts[i]; p.Kind == core.PartText {
					p.Text = slices.Concat(core.Quoted(`"<system>\n`), inner(p.Text), []byte(`\n</system>"`))
				}
			}
		}
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			// The place of the first is good enough for an error.
			out[n-1].Parts = append(slices.Clip(out[n-1].Parts), m.Parts...)
			continue
		}
		out = append(out, m)
	}
	return out
}

// placed are a message's parts with their places, without those of a kind.
func (e *chatEncoder) placed(m *core.Message, without core.PartKind) []placed {
	out := make([]placed, 0, len(m.Parts))
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind != without {
			at := ""
			if p.Kind != core.PartText {
				at = partAt(e.c, m, i)
			}
			out = append(out, placed{p, at})
		}
	}
	return out
}

// user writes the results of tools that a message holds, each as a message, and
// then the rest of it. What a result holds beside text has no place there: it
// goes into the next user message, behind all results.
func (e *chatEncoder) user(m *core.Message) error {
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == core.PartToolResult {
			e.result(m, i, p)
		}
	}
	said := e.placed(m, core.PartToolResult)
	if len(said) == 0 && len(m.Parts) > 0 {
		return nil
	}
	said = append(e.results, said...)
	e.results = nil
	return e.say("user", said)
}

// flush writes a user message with what tool results left for one.
func (e *chatEncoder) flush() error {
	if len(e.results) == 0 {
		return nil
	}
	said := e.results
	e.results = nil
	return e.say("user", said)
}

func (e *chatEncoder) result(m *core.Message, i int, p *core.Part) {
	var texts []core.Quoted
	left := false
	for j := range p.Parts {
		q := &p.Parts[j]
		switch q.Kind {
		case core.PartText, core.PartRefusal:
			texts = append(texts, q.Text)
		default:
			left = true
			e.results = append(e.results, placed{q, partAt(e.c, m, i)})
		}
	}
	if left && len(texts) == 0 {
		texts = append(texts, core.Quoted(`"It is in the next message."`))
	}
	if p.Failed && (len(texts) == 0 || !bytes.HasPrefix(bytes.ToLower(inner(texts[0])), []byte("error"))) {
		texts = slices.Insert(texts, 0, core.Quoted(`"Error"`))
	}
	e.told = true
	e.item()
	e.open('{')
	e.key("role")
	e.str("tool")
	e.key("tool_call_id")
	e.id(p.ID)
	e.key("content")
	if e.d.cache && p.Cache != "" {
		e.open('[')
		e.open('{')
		e.key("type")
		e.str("text")
		e.key("text")
		e.joined(texts, `\n`)
		e.cacheHint(p.Cache)
		e.close('}')
		e.close(']')
	} else {
		e.joined(texts, `\n`)
	}
	e.close('}')
}

// say writes a message of system or user: one text where it is text alone, which
// every server takes, else a list of parts.
func (e *chatEncoder) say(role string, parts []placed) error {
	if e.told && e.strict {
		e.item()
		e.raw([]byte(`{"role":"assistant","content":"OK."}`))
	}
	e.told = false
	e.item()
	e.open('{')
	e.key("role")
	e.str(role)
	e.key("content")
	if texts, ok := e.plain(parts); ok {
		e.joined(texts, `\n\n`)
		e.close('}')
		return nil
	}
	e.open('[')
	for _, p := range parts {
		if err := e.part(p); err != nil {
			return err
		}
	}
	e.close(']')
	e.close('}')
	return nil
}

// plain gives the texts of parts that are nothing else.
func (e *chatEncoder) plain(parts []placed) (texts []core.Quoted, ok bool) {
	for _, p := range parts {
		if p.Kind != core.PartText && p.Kind != core.PartRefusal || p.Cache != "" && e.d.cache {
			return nil, false
		}
		texts = append(texts, p.Text)
	}
	return texts, true
}

// joined writes texts as one, those that are not empty with something between.
func (e *chatEncoder) joined(texts []core.Quoted, between string) {
	e.b = append(e.b, '"')
	first := true
	for _, s := range texts {
		if len(s) <= 2 {
			continue
		}
		if !first {
			e.b = append(e.b, between...)
		}
		first = false
		e.b = append(e.b, inner(s)...)
	}
	e.b = append(e.b, '"')
}

// maxCallID is the longest id of a tool call that OpenAI takes.
const maxCallID = 40

// id writes the id of a tool call. One that the server would refuse is replaced
// by what is made of it, the same for the call and its result.
func (e *chatEncoder) id(id core.Quoted) {
	raw := unescape(inner(id))
	if e.d.shortIDs && !isShortID(raw) || len(raw) > maxCallID || len(raw) == 0 {
		sum := sha256.Sum256(raw)
		made := "call_" + hex.EncodeToString(sum[:12])
		if e.d.shortIDs {
			made = hex.EncodeToString(sum[:5])[:9]
		}
		e.str(made)
		return
	}
	e.raw(id)
}

// isShortID tells whether an id has the form that Mistral's have.
func isShortID(id []byte) bool {
	for _, ch := range id {
		if (ch < '0' || ch > '9') && (ch|0x20 < 'a' || ch|0x20 > 'z') {
			return false
		}
	}
	return len(id) == 9
}

package adapters

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"

	"headway/core"
)

// turn is one message as the API wants them: roles alternate, beginning with the
// user's.
type turn struct {
	role  core.Role
	parts []turnPart
}

// turnPart is a part with its place.
type turnPart struct {
	*core.Part
	message *core.Message
	at      int
}

// place names the part in the client's request.
func (p turnPart) place(c *core.Content) string { return partAt(c, p.message, p.at) }

// later tells whether the part is system text that stands among the turns.
func (e *messagesBody) later(p turnPart) bool { return p.message.Role == core.RoleSystem && !e.alone }

// arrange makes the turns of what follows the leading system messages, which it
// gives. Empty and blank texts are left out, as the API refuses them (case 034),
// and with them turns in which nothing is left.
func (e *messagesBody) arrange() (system []core.Message) {
	messages := e.content.Messages
	n := 0
	for n < len(messages) && messages[n].Role == core.RoleSystem {
		n++
	}
	if system = messages[:n]; !e.gather(messages[n:]) {
		// A prompt that is system text alone asks for an answer all the same.
		e.alone = e.gather(system)
		system = nil
	}
	if len(e.turns) > 0 && e.turns[0].role == core.RoleAssistant {
		e.turns = slices.Insert(e.turns, 0, turn{role: core.RoleUser})
	}
	if n := len(e.turns) - 1; n >= 0 && e.turns[n].role == core.RoleAssistant {
		e.turns[n].trimEnd()
	}
	for i := 1; i < len(e.turns); i++ {
		if e.turns[i-1].has(core.PartToolCall) { // their results go first
			slices.SortStableFunc(e.turns[i].parts, func(a, b turnPart) int { return resultsFirst(a) - resultsFirst(b) })
		}
	}
	return system
}

// trimEnd takes the white space off the end of an answer that is to be gone on
// with, as the API refuses it there.
func (t *turn) trimEnd() {
	last := &t.parts[len(t.parts)-1]
	if last.Kind != core.PartText && last.Kind != core.PartRefusal {
		return
	}
	said := string(unescape(inner(last.Text)))
	if kept := strings.TrimRightFunc(said, unicode.IsSpace); kept != said {
		p := *last.Part
		p.Text = encode(kept)
		last.Part = &p
	}
}

func resultsFirst(p turnPart) int {
	if p.Kind == core.PartToolResult {
		return 0
	}
	return 1
}

// gather appends messages to the turns and tells whether anything was there.
func (e *messagesBody) gather(messages []core.Message) bool {
	for i := range messages {
		m := &messages[i]
		role := m.Role
		if role == core.RoleSystem {
			role = core.RoleUser // its text is marked as what it is
		}
		for j := range m.Parts {
			p := &m.Parts[j]
			switch {
			case (p.Kind == core.PartText || p.Kind == core.PartRefusal) && isBlank(p.Text),
				p.Kind == core.PartReasoning && p.Seal.Origin != e.own:
				continue
			}
			if n := len(e.turns); n == 0 || e.turns[n-1].role != role {
				e.turns = append(e.turns, turn{role: role, parts: make([]turnPart, 0, len(m.Parts)-j)})
			}
			last := &e.turns[len(e.turns)-1]
			last.parts = append(last.parts, turnPart{p, m, j})
		}
	}
	return len(e.turns) > 0
}

func (t *turn) has(kind core.PartKind) bool {
	return slices.ContainsFunc(t.parts, func(p turnPart) bool { return p.Kind == kind })
}

// unthought tells whether the turn under way is one of the model's that did not
// begin with thinking, in which it cannot begin to think. Calls of tools and
// their results are all of one turn; so is a beginning that the client made up.
func (e *messagesBody) unthought() bool {
	first := -1
	for i := len(e.turns) - 1; i >= 0; i-- {
		if e.turns[i].role == core.RoleAssistant {
			first = i
		} else if !e.turns[i].has(core.PartToolResult) {
			break
		}
	}
	return first >= 0 && e.turns[first].parts[0].Kind != core.PartReasoning
}

// prune takes out thinking that the API would not look at, and turns that are
// thinking alone, which it refuses.
func (e *messagesBody) prune() {
	isThinking := func(p turnPart) bool { return p.Kind == core.PartReasoning }
	idle := e.model.known && !e.model.adaptive() && !e.thinks
	e.turns = slices.DeleteFunc(e.turns, func(t turn) bool {
		if !slices.ContainsFunc(t.parts, isThinking) {
			return false
		}
		return !slices.ContainsFunc(t.parts, func(p turnPart) bool { return !isThinking(p) })
	})
	for i := range e.turns {
		if idle {
			e.turns[i].parts = slices.DeleteFunc(e.turns[i].parts, isThinking)
		}
	}
}

// isBlank tells whether a text is empty or white space.
func isBlank(q core.Quoted) bool {
	b := inner(q)
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ' ':
		case '\\':
			if i++; strings.IndexByte("nrtf", b[i]) < 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// system writes the leading system messages.
func (e *messagesBody) system(messages []core.Message) error {
	var parts []turnPart
	for i := range messages {
		m := &messages[i]
		for j := range m.Parts {
			if p := (turnPart{&m.Parts[j], m, j}); p.Kind != core.PartText {
				return cannot(p.place(e.content), "takes only text from the system")
			} else if !isBlank(p.Text) {
				parts = append(parts, p)
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	e.key("system")
	if len(parts) == 1 && parts[0].Cache == "" {
		e.raw(parts[0].Text)
		return nil
	}
	e.open('[')
	for _, p := range parts {
		e.words(p.Text, p.Cache)
	}
	e.close(']')
	return nil
}

// speaker writes whose turn it is.
func (e *messagesBody) speaker(role core.Role) {
	e.key("role")
	if role == core.RoleAssistant {
		e.str("assistant")
	} else {
		e.str("user")
	}
}

// messages writes the turns.
func (e *messagesBody) messages() error {
	e.key("messages")
	e.open('[')
	for i := range e.turns {
		t := &e.turns[i]
		e.item()
		e.open('{')
		e.speaker(t.role)
		e.key("content")
		switch {
		case len(t.parts) == 0: // before a first turn that is the model's
			e.str(".")
		case len(t.parts) == 1 && t.parts[0].Kind == core.PartText && t.parts[0].Cache == "" && !e.later(t.parts[0]):
			e.raw(t.parts[0].Text)
		default:
			e.open('[')
			for _, p := range t.parts {
				if err := e.block(p, t.role); err != nil {
					return err
				}
			}
			e.close(']')
		}
		e.close('}')
	}
	e.close(']')
	return nil
}

// words writes a text block.
func (e *messagesBody) words(q core.Quoted, cache string) {
	e.item()
	e.b = append(e.b, `{"type":"text","text":`...)
	e.raw(q)
	e.cache(cache)
	e.close('}')
}

// block writes one part of a turn.
func (e *messagesBody) block(p turnPart, role core.Role) error {
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		if e.later(p) {
			e.words(slices.Concat(core.Quoted(`"<system>\n`), inner(p.Text), []byte(`\n</system>"`)), p.Cache)
		} else {
			e.words(p.Text, p.Cache)
		}
	case core.PartReasoning:
		e.reasoning(p.Part)
	case core.PartToolCall:
		e.item()
		e.b = append(e.b, `{"type":"tool_use","id":`...)
		e.id(p.ID)
		e.member("name", p.Name)
		if e.key("input"); len(p.Arguments) == 0 {
			e.b = append(e.b, '{', '}')
		} else {
			e.raw(p.Arguments)
		}
		e.cache(p.Cache)
		e.close('}')
	case core.PartToolResult:
		return e.result(p)
	default:
		if role == core.RoleAssistant {
			return cannot(p.place(e.content), "takes only text in the model's own turns")
		}
		return e.media(p.Part, p.place(e.content))
	}
	return nil
}

// reasoning writes what the model thought, as Anthropic gave it.
func (e *messagesBody) reasoning(p *core.Part) {
	e.item()
	if p.Seal.Encrypted {
		e.b = append(e.b, `{"type":"redacted_thinking","data":`...)
		e.raw(p.Seal.Text)
		e.close('}')
		return
	}
	e.b = append(e.b, `{"type":"thinking","thinking":`...)
	e.inner(inner(p.Text))
	e.member("signature", p.Seal.Text)
	e.close('}')
}

// result writes what a tool gave.
func (e *messagesBody) result(p turnPart) error {
	e.item()
	e.b = append(e.b, `{"type":"tool_result","tool_use_id":`...)
	e.id(p.ID)
	parts := slices.DeleteFunc(slices.Clone(p.Parts), func(p core.Part) bool { return p.Kind == core.PartText && isBlank(p.Text) })
	switch {
	case len(parts) == 0:
	case len(parts) == 1 && parts[0].Kind == core.PartText && parts[0].Cache == "":
		e.member("content", parts[0].Text)
	default:
		e.key("content")
		e.open('[')
		for i := range parts {
			if parts[i].Kind == core.PartText {
				e.words(parts[i].Text, parts[i].Cache)
			} else if err := e.media(&parts[i], p.place(e.content)); err != nil {
				return err
			}
		}
		e.close(']')
	}
	if p.Failed {
		e.key("is_error")
		e.bool(true)
	}
	e.cache(p.Cache)
	e.close('}')
	return nil
}

// madeID begins an id that stands for one the API would refuse.
const madeID = "hw-"

// id writes the id of a tool call. The API takes letters, digits, - and _: any
// other id is written in hexadecimal, the same for the call and its result.
func (e *messagesBody) id(q core.Quoted) {
	raw := unescape(inner(q))
	fits := len(raw) > 0 && !strings.HasPrefix(string(raw), madeID)
	for _, ch := range raw {
		fits = fits && (ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch == '-' || ch == '_')
	}
	if fits {
		e.inner(raw)
	} else {
		e.inner(hex.AppendEncode([]byte(madeID), raw))
	}
}

// media writes an image or a document.
func (e *messagesBody) media(p *core.Part, place string) error {
	m := &p.Media
	kind := m.Type
	switch p.Kind {
	case core.PartImage:
		if m.Detail == "low" || m.Detail == "high" {
			drop(&e.dropped, "detail")
		}
		if m.URL == nil {
			if kind = imageType(m); kind == "" {
				return cannot(place, "takes images as JPEG, PNG, GIF and WebP alone")
			}
		}
		e.item()
		e.b = append(e.b, `{"type":"image","source":{`...)
	case core.PartDocument:
		plain := m.URL == nil && strings.HasPrefix(kind, "text/")
		if kind != "application/pdf" && !plain && (m.URL == nil || kind != "") {
			return cannot(place, "takes documents as PDF and plain text alone")
		}
		e.item()
		e.b = append(e.b, `{"type":"document",`...)
		if len(p.Name) > 2 {
			e.b = append(append(append(e.b, `"title":`...), p.Name...), ',')
		}
		e.b = append(e.b, `"source":{`...)
		if plain {
			data, err := base64.StdEncoding.AppendDecode(nil, unescape(m.Base64))
			if err != nil {
				return core.Field(place, "must hold base64")
			}
			e.b = append(e.b, `"type":"text","media_type":"text/plain","data":`...)
			e.str(string(data))
			e.close('}')
			e.cache(p.Cache)
			e.close('}')
			return nil
		}
	default:
		return cannot(place, "takes text, images and documents alone")
	}
	if m.URL != nil {
		if address := strings.ToLower(string(unescape(inner(m.URL)[:min(len(inner(m.URL)), 8)]))); !strings.HasPrefix(address, "http") {
			return cannot(place, "fetches addresses of http and https alone")
		}
		e.b = append(e.b, `"type":"url","url":`...)
		e.raw(m.URL)
	} else {
		e.b = append(e.b, `"type":"base64","media_type":`...)
		e.str(kind)
		e.key("data")
		e.inner(m.Base64)
	}
	e.close('}')
	e.cache(p.Cache)
	e.close('}')
	return nil
}

// imageType is the exact type of an image, which the API checks (case 036): the
// one that was said, or what its first bytes say; "" for one that it does not
// take.
func imageType(m *core.Media) string {
	switch m.Type {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return m.Type
	case "image/jpg":
		return "image/jpeg"
	case "", "image/*", "application/octet-stream":
	default:
		return ""
	}
	for _, t := range [...]struct{ begins, kind string }{
		{"iVBORw0KGgo", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lGOD", "image/gif"}, {"UklGR", "image/webp"},
	} {
		if strings.HasPrefix(string(m.Base64[:min(len(m.Base64), 16)]), t.begins) {
			return t.kind
		}
	}
	return ""
}

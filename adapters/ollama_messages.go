package adapters

import "headway/core"

// ollamaMessage is a message of /api/chat while its parts are gathered: one
// text, and images, of which a model is shown those of a message together. A
// text between two images therefore ends the message, so that all stays in its
// order.
type ollamaMessage struct {
	role     string
	text     []core.Quoted
	images   [][]byte
	thinking []core.Quoted
	calls    []*core.Part
	turns    int // times that text and images took turns
	last     core.PartKind
}

// messages writes all messages in their order, system text where it stood.
func (e *ollamaBody) messages() error {
	e.key("messages")
	e.open('[')
	for i := range e.content.Messages {
		m := &e.content.Messages[i]
		role := "user"
		switch m.Role {
		case core.RoleSystem:
			role = "system"
		case core.RoleAssistant:
			role = "assistant"
		}
		for j := range m.Parts {
			if err := e.part(m, j, role); err != nil {
				return err
			}
		}
		e.flush()
	}
	e.pending()
	e.close(']')
	return nil
}

// part adds the part j of a message to what is under way.
func (e *ollamaBody) part(m *core.Message, j int, role string) error {
	p := &m.Parts[j]
	if p.Kind == core.PartToolResult {
		e.flush()
		return e.result(m, j)
	}
	if e.images != nil && role != "user" {
		e.pending()
	}
	s := &e.said
	if s.role == "" {
		s.role = role
		if e.images != nil {
			s.images, e.images = append(s.images, e.images...), nil
			s.turn(core.PartImage)
		}
	}
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		if len(inner(p.Text)) > 0 {
			e.turn(core.PartText, role)
			s.text = append(s.text, p.Text)
		}
	case core.PartImage:
		data, err := e.image(m, j, &p.Media)
		if err != nil {
			return err
		}
		e.turn(core.PartImage, role)
		s.images = append(s.images, data)
	case core.PartDocument:
		text, ok := documentText(&p.Media)
		if !ok {
			return cannot(partAt(e.content, m, j), "takes no documents but plain text")
		}
		e.turn(core.PartText, role)
		s.text = append(s.text, text)
	case core.PartAudio:
		return cannot(partAt(e.content, m, j), "takes no sound")
	case core.PartToolCall:
		if e.names == nil {
			e.names = map[string]core.Quoted{}
		}
		e.names[string(p.ID)] = p.Name
		s.calls = append(s.calls, p)
	case core.PartReasoning:
		// What an Ollama server thought goes back to one; what another provider's
		// model did is no part of the question.
		if p.Seal.Origin == core.FormatOllama && len(inner(p.Text)) > 0 {
			s.thinking = append(s.thinking, p.Text)
		}
	}
	return nil
}

// turn notes that text or an image follows, in a new message where this one has
// had both.
func (e *ollamaBody) turn(kind core.PartKind, role string) {
	if e.said.turns == 2 && e.said.last != kind {
		e.flush()
		e.said.role = role
	}
	e.said.turn(kind)
}

func (s *ollamaMessage) turn(kind core.PartKind) {
	if s.turns == 0 || s.last != kind {
		s.turns++
		s.last = kind
	}
}

// image is an image's data; only what is in the request itself is taken.
func (e *ollamaBody) image(m *core.Message, j int, media *core.Media) ([]byte, error) {
	if media.Base64 == nil {
		return nil, cannot(partAt(e.content, m, j), "takes images by their data, not by an address")
	}
	if media.Detail == "low" || media.Detail == "high" {
		drop(&e.dropped, "detail")
	}
	return media.Base64, nil
}

// result writes what a tool gave back as a message of its own. Its images are
// kept for the next user message (SPEC §13), behind the results of all tools.
func (e *ollamaBody) result(m *core.Message, j int) error {
	p := &m.Parts[j]
	var said []core.Quoted
	if p.Failed {
		said = append(said, core.Quoted(`"The tool failed."`))
	}
	for i := range p.Parts {
		switch q := &p.Parts[i]; q.Kind {
		case core.PartText, core.PartRefusal:
			said = append(said, q.Text)
		case core.PartImage:
			data, err := e.image(m, j, &q.Media)
			if err != nil {
				return err
			}
			e.images = append(e.images, data)
		case core.PartDocument:
			text, ok := documentText(&q.Media)
			if !ok {
				return cannot(partAt(e.content, m, j), "takes no documents but plain text")
			}
			said = append(said, text)
		default:
			return cannot(partAt(e.content, m, j), "takes text and images alone from tools")
		}
	}
	name := p.Name
	if len(name) == 0 {
		name = e.names[string(p.ID)]
	}
	e.item()
	e.open('{')
	e.key("role")
	e.word("tool")
	e.key("content")
	e.joined(said, paragraph)
	e.member("tool_name", name)
	e.member("tool_call_id", p.ID)
	e.close('}')
	return nil
}

// pending writes the images of tool results where no user message follows them.
func (e *ollamaBody) pending() {
	if e.images != nil {
		e.said.role, e.said.images, e.images = "user", e.images, nil
		e.flush()
	}
}

// paragraph is put between the texts of one message, which the API has as one.
const paragraph = `\n\n`

// flush writes the message under way. One that holds nothing that the API knows
// is left out.
func (e *ollamaBody) flush() {
	s := e.said
	e.said = ollamaMessage{text: s.text[:0], images: s.images[:0]} // their room is used again
	if len(s.text)+len(s.images)+len(s.calls)+len(s.thinking) == 0 {
		return
	}
	between := paragraph
	if s.role == "assistant" {
		between = "" // pieces of one answer
	}
	e.item()
	e.open('{')
	e.key("role")
	e.word(s.role)
	e.key("content")
	e.joined(s.text, between)
	if s.thinking != nil {
		e.key("thinking")
		e.joined(s.thinking, "")
	}
	if len(s.images) > 0 {
		e.key("images")
		e.open('[')
		for _, data := range s.images {
			e.item()
			e.inner(data)
		}
		e.close(']')
	}
	if s.calls != nil {
		e.key("tool_calls")
		e.open('[')
		for _, p := range s.calls {
			e.call(p)
		}
		e.close(']')
	}
	e.close('}')
}

func (e *ollamaBody) call(p *core.Part) {
	e.item()
	e.open('{')
	e.member("id", p.ID)
	e.key("function")
	e.open('{')
	e.member("name", p.Name)
	e.key("arguments")
	if len(p.Arguments) > 0 {
		e.raw(p.Arguments)
	} else {
		e.raw([]byte("{}"))
	}
	e.close('}')
	e.close('}')
}

// word writes a text that needs no escapes.
func (e *ollamaBody) word(s string) {
	e.b = append(append(append(e.b, '"'), s...), '"')
}

// joined writes texts as one string.
func (e *ollamaBody) joined(texts []core.Quoted, between string) {
	e.b = append(e.b, '"')
	for i, t := range texts {
		if i > 0 {
			e.b = append(e.b, between...)
		}
		e.b = append(e.b, inner(t)...)
	}
	e.b = append(e.b, '"')
}

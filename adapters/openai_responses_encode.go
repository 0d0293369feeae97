package adapters

import (
	"strings"

	"headway/core"
)

// responsesBody is a request of the Responses API while it is written.
type responsesBody struct {
	text
	content *core.Content
	dropped []string
	list    bool // a message is open, whose parts are being written
	sealed  bool // reasoning of a Responses provider goes back to it
}

// encode writes a request for a provider of the Responses API. Nothing of it is
// kept there: what the next turn needs, encrypted reasoning too, travels through
// the client.
func (Responses) encode(c *core.Content, offer *core.Offer) ([]byte, []string, error) {
	e := responsesBody{content: c}
	if err := others(c, &e.dropped, "verbosity", "service_tier", "metadata"); err != nil {
		return nil, nil, err
	}
	if err := e.refuse(); err != nil {
		return nil, nil, err
	}
	model := upstreamModel(offer)
	e.b = make([]byte, 0, sizeOf(c))
	e.open('{')
	e.key("model")
	e.str(model)
	if c.Streamed {
		e.key("stream")
		e.bool(true)
	}
	e.key("store")
	e.bool(false)
	if err := e.input(); err != nil {
		return nil, nil, err
	}
	e.tools()
	e.count("max_output_tokens", c.MaxOutput)
	e.member("temperature", c.Temperature)
	e.member("top_p", c.TopP)
	e.form()
	e.reasoning(model)
	e.member("service_tier", twin(c, "service_tier"))
	e.member("metadata", twin(c, "metadata"))
	if len(c.User) > 0 && len(c.User) <= 66 { // more is refused; it is a tag
		e.key("user")
		e.raw(c.User)
	} else if len(c.User) > 0 {
		if err := refuseOrDrop(c, core.AskUser, &e.dropped, "takes no tag of more than 64 characters"); err != nil {
			return nil, nil, err
		}
	}
	e.close('}')
	return e.b, e.dropped, nil
}

// refuse deals with what the API has no place for.
func (e *responsesBody) refuse() error {
	c := e.content
	return refuseOrDropEach(c, &e.dropped, []lack{
		{c.Choices > 1, core.AskChoices, "gives one answer a call"},
		{len(c.Stop) > 0, core.AskStop, "has no stop sequences"},
		{c.TopLogprobs.OK, core.AskLogprobs, "gives log probabilities in another form"},
		{c.TopK != nil, core.AskTopK, "has no top_k"},
		{c.Seed != nil, core.AskSeed, "has no seed"},
		{c.Frequency != nil, core.AskFrequency, "has no frequency penalty"},
		{c.Presence != nil, core.AskPresence, "has no presence penalty"},
		{c.Fields[core.AskCache] != "", core.AskCache, "caches prompts on its own"},
	})
}

// input writes instructions and input. System text that leads goes into
// instructions: every server of the API reads them, while the names of roles in
// the input differ between servers. System text that stands later keeps its place
// as a message.
func (e *responsesBody) input() error {
	messages := e.content.Messages
	lead := 0
	var said []core.Quoted
	for ; lead < len(messages) && messages[lead].Role == core.RoleSystem; lead++ {
		for i := range messages[lead].Parts {
			p := &messages[lead].Parts[i]
			if p.Kind != core.PartText {
				return cannot(partAt(e.content, &messages[lead], i), "takes text alone here")
			}
			if len(p.Text) > 2 {
				said = append(said, p.Text)
			}
		}
	}
	if len(said) > 0 {
		e.key("instructions")
		for i, s := range said {
			if i == 0 {
				e.b = append(e.b, '"')
			} else {
				e.b = append(e.b, `\n\n`...)
			}
			e.raw(inner(s))
		}
		e.b = append(e.b, '"')
	}
	e.key("input")
	e.open('[')
	for i := lead; i < len(messages); i++ {
		m := &messages[i]
		for j := range m.Parts {
			if err := e.part(m, j); err != nil {
				return err
			}
		}
		e.end()
	}
	e.close(']')
	return nil
}

// begin opens a message for the parts that follow, where none is open.
func (e *responsesBody) begin(role core.Role) {
	e.item()
	if e.list {
		return
	}
	e.list = true
	e.raw([]byte(`{"type":"message","role":"` + roleNames[role] + `","content":[`))
}

var roleNames = [...]string{core.RoleSystem: "system", core.RoleUser: "user", core.RoleAssistant: "assistant"}

// end closes it.
func (e *responsesBody) end() {
	if e.list {
		e.raw([]byte("]}"))
		e.list = false
	}
}

// part writes one part: into the message that is open, or as an item of its own.
func (e *responsesBody) part(m *core.Message, j int) error {
	p := &m.Parts[j]
	switch p.Kind {
	case core.PartToolCall:
		e.end()
		e.item()
		e.raw([]byte(`{"type":"function_call"`))
		e.member("call_id", p.ID)
		e.member("name", p.Name)
		e.key("arguments")
		e.inner(escapeJSON(p.Arguments))
		e.close('}')
	case core.PartToolResult:
		e.end()
		return e.result(m, j)
	case core.PartReasoning:
		if p.Seal.Origin != core.FormatResponses {
			return nil // of another provider, which no other can read
		}
		e.sealed = true
		e.end()
		e.item()
		e.raw([]byte(`{"type":"reasoning"`))
		e.member("id", p.Seal.ID)
		e.key("summary")
		e.open('[')
		if len(p.Text) > 2 {
			e.raw([]byte(`{"type":"summary_text","text":`))
			e.raw(p.Text)
			e.close('}')
		}
		e.close(']')
		e.member("encrypted_content", p.Seal.Text)
		e.close('}')
	case core.PartText:
		switch {
		case len(p.Text) <= 2 && len(m.Parts) > 1:
		case !e.list && alone(m, j):
			e.item()
			e.raw([]byte(`{"type":"message","role":"` + roleNames[m.Role] + `"`))
			e.member("content", p.Text)
			e.close('}')
		case m.Role == core.RoleAssistant:
			e.begin(m.Role)
			e.said("output_text", "text", p.Text)
		default:
			e.begin(m.Role)
			e.said("input_text", "text", p.Text)
		}
	case core.PartRefusal:
		e.begin(m.Role)
		if m.Role == core.RoleAssistant {
			e.said("refusal", "refusal", p.Text)
		} else {
			e.said("input_text", "text", p.Text)
		}
	default:
		if m.Role != core.RoleUser {
			return cannot(partAt(e.content, m, j), "takes text alone here")
		}
		e.begin(m.Role)
		return e.media(p, partAt(e.content, m, j))
	}
	return nil
}

// alone tells whether a text is all that stands in its message: it is then
// written without a list, which is the one form that every server reads.
func alone(m *core.Message, j int) bool {
	if j+1 == len(m.Parts) {
		return true
	}
	switch m.Parts[j+1].Kind {
	case core.PartToolCall, core.PartToolResult, core.PartReasoning:
		return true
	}
	return false
}

// said writes a part that is a text.
func (e *responsesBody) said(kind, member string, s core.Quoted) {
	e.open('{')
	e.key("type")
	e.raw([]byte(`"` + kind + `"`))
	e.key(member)
	if len(s) == 0 {
		s = core.Quoted(`""`)
	}
	e.raw(s)
	e.close('}')
}

// media writes an image or a document.
func (e *responsesBody) media(p *core.Part, at string) error {
	m := &p.Media
	switch p.Kind {
	case core.PartImage:
		e.raw([]byte(`{"type":"input_image"`))
		e.address("image_url", m, "image/png")
		if m.Detail != "" {
			e.key("detail")
			e.str(m.Detail)
		}
	case core.PartDocument:
		e.raw([]byte(`{"type":"input_file"`))
		if m.Base64 == nil {
			e.address("file_url", m, "")
			break
		}
		e.key("filename")
		switch {
		case len(p.Name) > 2:
			e.raw(p.Name)
		case strings.HasPrefix(m.Type, "text/"):
			e.str("document.txt")
		default:
			e.str("document.pdf")
		}
		e.address("file_data", m, "application/pdf")
	default:
		return cannot(at, "takes no sound")
	}
	e.close('}')
	return nil
}

// address writes where media are, or the data itself.
func (e *responsesBody) address(member string, m *core.Media, kind string) {
	e.key(member)
	typed := *m
	if m.Type == "" {
		typed.Type = kind
	}
	e.b = append(appendAddress(append(e.b, '"'), &typed), '"')
}

// toolFailed is told where a tool reported an error, which the API cannot say.
const toolFailed = `"The tool failed."`

// result writes what a tool gave back: as one text where it is that alone.
func (e *responsesBody) result(m *core.Message, j int) error {
	p := &m.Parts[j]
	e.item()
	e.raw([]byte(`{"type":"function_call_output"`))
	e.member("call_id", p.ID)
	e.key("output")
	switch {
	case len(p.Parts) == 0 && p.Failed:
		e.raw([]byte(toolFailed))
	case len(p.Parts) == 0:
		e.raw([]byte(`""`))
	case len(p.Parts) == 1 && p.Parts[0].Kind == core.PartText && !p.Failed:
		e.raw(p.Parts[0].Text)
	default:
		e.open('[')
		if p.Failed {
			e.said("input_text", "text", core.Quoted(toolFailed))
		}
		for i := range p.Parts {
			e.item()
			if q := &p.Parts[i]; q.Kind == core.PartText || q.Kind == core.PartRefusal {
				e.said("input_text", "text", q.Text)
			} else if err := e.media(q, partAt(e.content, m, j)); err != nil {
				return err
			}
		}
		e.close(']')
	}
	e.close('}')
	return nil
}

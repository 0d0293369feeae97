package adapters

import "headway/core"

// encode writes the body of generateContent, as the Gemini API and Vertex take
// it.
func (Google) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := googleEncoder{c: c, model: googleModelOf(upstreamModel(offer)), vertex: offer.Provider.Format == core.FormatVertexGoogle}
	e.b = make([]byte, 0, sizeOf(c))
	if err := others(c, &e.dropped); err != nil {
		return nil, nil, err
	}
	e.open('{')
	for _, step := range [...]func() error{e.messages, e.tools, e.config} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	e.close('}')
	return e.b, e.dropped, nil
}

// googleEncoder is a request while it is written.
type googleEncoder struct {
	text
	c       *core.Content
	model   googleModel
	vertex  bool
	dropped []string
	hinted  bool // a hint to cache is named among the dropped

	names map[string]core.Quoted // of the functions that were called, by the call's id
	role  string                 // of the open content; "" for none
	start int                    // where it begins
	parts int                    // in it
	calls int                    // of functions, in it
	// seal is a signature of Google's own that waits for the function call that it
	// came with; where none comes it is a part of its own.
	seal core.Quoted
	// behind are the files of tool results that wait until all results are written.
	behind []placedPart
}

// placedPart is a part and its place in the client's request.
type placedPart struct {
	part  *core.Part
	place string
}

// messages writes systemInstruction, of the system text that comes first, and
// contents. Where there is nothing but system text it is what the model is asked.
func (e *googleEncoder) messages() error {
	all := e.c.Messages
	lead := 0
	for lead < len(all) && all[lead].Role == core.RoleSystem {
		lead++
	}
	alone := lead == len(all)
	if alone {
		lead = 0
	}
	if lead > 0 {
		e.key("systemInstruction")
		e.open('{')
		e.key("parts")
		e.open('[')
		for i := range all[:lead] {
			for j := range all[i].Parts {
				if err := e.instruction(&all[i], j); err != nil {
					return err
				}
			}
		}
		e.close(']')
		e.close('}')
	}
	e.key("contents")
	e.open('[')
	for i := lead; i < len(all); i++ {
		role := "user"
		if all[i].Role == core.RoleAssistant {
			role = "model"
		}
		if err := e.turn(role); err != nil {
			return err
		}
		for j := range all[i].Parts {
			if err := e.part(&all[i], j, all[i].Role == core.RoleSystem && !alone); err != nil {
				return err
			}
		}
	}
	if err := e.turn(""); err != nil {
		return err
	}
	e.close(']')
	return nil
}

// instruction writes one part of the leading system text.
func (e *googleEncoder) instruction(m *core.Message, j int) error {
	p := &m.Parts[j]
	e.hint(p.Cache)
	if p.Kind != core.PartText {
		return cannot(partAt(e.c, m, j), "takes nothing but text there")
	}
	if len(p.Text) > 2 {
		e.item()
		e.words(p.Text)
	}
	return nil
}

// turn goes on with the open content where it is of the role, as successive
// messages of one role are one turn of Google's; else it ends that and begins
// another. A content in which nothing was written is none.
func (e *googleEncoder) turn(role string) error {
	if role == e.role {
		return nil
	}
	if err := e.filesBehind(); err != nil {
		return err
	}
	if e.role != "" {
		e.ownSeal()
		if e.parts == 0 {
			e.b = e.b[:e.start]
		} else {
			e.close(']')
			e.close('}')
		}
	}
	e.role, e.start, e.parts, e.calls = role, len(e.b), 0, 0
	if role != "" {
		e.item()
		e.open('{')
		e.key("role")
		e.str(role)
		e.key("parts")
		e.open('[')
	}
	return nil
}

// filesBehind writes the files of tool results that stand behind all of them:
// Google wants the results of a step's calls together.
func (e *googleEncoder) filesBehind() error {
	files := e.behind
	e.behind = nil
	for _, f := range files {
		e.next()
		if err := e.media(f.part, f.place); err != nil {
			return err
		}
	}
	return nil
}

// next begins a part.
func (e *googleEncoder) next() {
	e.item()
	e.parts++
}

// words writes a text as a part.
func (e *googleEncoder) words(q core.Quoted) {
	e.open('{')
	e.key("text")
	e.raw(q)
	e.close('}')
}

// ownSeal writes the signature that waits as a part of its own.
func (e *googleEncoder) ownSeal() {
	if e.seal != nil {
		e.next()
		e.raw([]byte(`{"text":"","thoughtSignature":`))
		e.raw(e.seal)
		e.close('}')
		e.seal = nil
	}
}

// part writes one part of a message; system says that it is system text that
// stands between other messages.
func (e *googleEncoder) part(m *core.Message, j int, system bool) error {
	p := &m.Parts[j]
	e.hint(p.Cache)
	if p.Kind != core.PartToolResult {
		if err := e.filesBehind(); err != nil {
			return err
		}
	}
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		switch {
		case len(p.Text) <= 2: // Google refuses an empty text
		case system:
			e.next()
			e.raw([]byte(`{"text":"<system>\n`))
			e.raw(inner(p.Text))
			e.raw([]byte(`\n</system>"}`))
		default:
			e.next()
			e.words(p.Text)
		}
	case core.PartReasoning:
		e.reasoning(p)
	case core.PartToolCall:
		e.call(p)
	case core.PartToolResult:
		return e.result(m, j)
	case core.PartImage, core.PartDocument, core.PartAudio:
		e.next()
		if err := e.media(p, partAt(e.c, m, j)); err != nil {
			return err
		}
		if m.Role == core.RoleAssistant && e.seal != nil { // Gemini signs its pictures
			e.b = e.b[:len(e.b)-1]
			e.member("thoughtSignature", e.seal)
			e.close('}')
			e.seal = nil
		}
	}
	return nil
}

// reasoning keeps what is Google's own.
func (e *googleEncoder) reasoning(p *core.Part) {
	if p.Seal.Origin != core.FormatGoogle {
		return
	}
	e.ownSeal()
	if len(p.Text) > 2 {
		e.next()
		e.open('{')
		e.key("text")
		e.raw(p.Text)
		e.raw([]byte(`,"thought":true}`))
	}
	e.seal = p.Seal.Text
}

// noSignature is what Google takes for the signature of a call that its models
// did not make.
const noSignature = `"skip_thought_signature_validator"`

func (e *googleEncoder) call(p *core.Part) {
	if e.names == nil {
		e.names = map[string]core.Quoted{}
	}
	e.names[string(p.ID)] = p.Name
	e.next()
	e.open('{')
	e.key("functionCall")
	e.open('{')
	e.id(p.ID)
	e.member("name", p.Name)
	e.key("args")
	if len(p.Arguments) > 0 {
		e.raw(p.Arguments)
	} else {
		e.raw([]byte("{}"))
	}
	e.close('}')
	// Of a step's parallel calls the first alone has one.
	if e.seal == nil && e.calls == 0 && e.model.signs() {
		e.seal = core.Quoted(noSignature)
	}
	e.member("thoughtSignature", e.seal)
	e.seal = nil
	e.close('}')
	e.calls++
}

// id writes the id of a call, which Vertex does not know.
func (e *googleEncoder) id(id core.Quoted) {
	if !e.vertex && len(id) > 2 {
		e.member("id", id)
	}
}

// result writes what a function gave back: its text as the output or error of
// Google's reference. Files are inside of it where the model takes them there,
// else they come behind all results.
func (e *googleEncoder) result(m *core.Message, j int) error {
	p := &m.Parts[j]
	name := p.Name
	if called := e.names[string(p.ID)]; called != nil {
		name = called
	}
	if len(name) <= 2 {
		return core.Field(partAt(e.c, m, j), "answers no tool call that comes before it")
	}
	e.next()
	e.raw([]byte(`{"functionResponse":`))
	e.open('{')
	e.id(p.ID)
	e.member("name", name)
	e.key("response")
	if p.Failed {
		e.raw([]byte(`{"error":"`))
	} else {
		e.raw([]byte(`{"output":"`))
	}
	inside, behind := e.output(p)
	e.raw([]byte(`"}`))
	if len(inside) > 0 {
		e.key("parts")
		e.open('[')
		for _, q := range inside {
			e.item()
			if err := e.media(q, partAt(e.c, m, j)); err != nil {
				return err
			}
		}
		e.close(']')
	}
	e.close('}')
	e.close('}')
	for _, q := range behind {
		e.behind = append(e.behind, placedPart{q, partAt(e.c, m, j)})
	}
	return nil
}

// output writes the texts of a result and gives its files.
func (e *googleEncoder) output(p *core.Part) (inside, behind []*core.Part) {
	said := false
	for i := range p.Parts {
		q := &p.Parts[i]
		e.hint(q.Cache)
		switch {
		case q.Kind == core.PartText || q.Kind == core.PartRefusal:
			if said {
				e.raw([]byte(`\n`))
			}
			e.raw(inner(q.Text))
			said = true
		case e.model.major >= 3 && q.Media.Base64 != nil:
			inside = append(inside, q)
		default:
			behind = append(behind, q)
		}
	}
	return inside, behind
}

// documentName is what each format calls the name of a document.
var documentName = map[core.Format]string{core.FormatOpenAI: "filename", core.FormatResponses: "filename", core.FormatAnthropic: "title", core.FormatGoogle: "displayName"}

// media writes a file, in place or at an address.
func (e *googleEncoder) media(p *core.Part, place string) error {
	m := &p.Media
	if len(p.Name) > 2 {
		drop(&e.dropped, documentName[e.c.Format])
	}
	if m.Detail == "low" || m.Detail == "high" {
		drop(&e.dropped, "detail")
	}
	kind := m.Type
	if kind == "" && m.URL != nil {
		kind = typeByName(string(unescape(inner(m.URL))))
	}
	if kind == "" {
		return cannot(place, "must be told what type of file it is")
	}
	e.open('{')
	e.file(kind, m)
	e.close('}')
	return nil
}

// file writes the member of a Google part that is a file of a type.
func (t *text) file(kind string, m *core.Media) {
	name, at, v := "inlineData", "data", m.Base64
	if v == nil {
		name, at, v = "fileData", "fileUri", inner(m.URL)
	}
	t.key(name)
	t.open('{')
	t.key("mimeType")
	t.str(kind)
	t.key(at)
	t.inner(v)
	t.close('}')
}

// hint notes a mark of where to cache the prompt to: Google caches by itself.
func (e *googleEncoder) hint(cache string) {
	if cache != "" && !e.hinted {
		e.hinted = true
		// A hint only decorates: this is never an error.
		_ = refuseOrDrop(e.c, core.AskCache, &e.dropped, "caches by itself")
	}
}

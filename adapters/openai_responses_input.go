package adapters

import (
	"bytes"
	"fmt"
	"strings"

	"headway/core"
)

// inputItem is one item of the input, its values as they stand.
type inputItem struct {
	kind, role                          string
	content, output, summary            []byte
	callID, name, namespace             core.Quoted
	arguments, input, encrypted, listed core.Quoted
	result                              core.Quoted
	format                              string
}

func readInputItem(c *cursor) (it inputItem) {
	for key := range c.each {
		switch string(key) {
		case "type":
			it.kind = c.word()
		case "role":
			it.role = c.word()
		case "id":
			it.listed = c.quoted()
		case "content":
			it.content = c.pass()
		case "output":
			it.output = c.pass()
		case "summary":
			it.summary = c.pass()
		case "call_id":
			it.callID = c.quoted()
		case "name":
			it.name = c.quoted()
		case "namespace":
			it.namespace = c.quoted()
		case "arguments":
			it.arguments = c.quoted()
		case "input":
			it.input = c.quoted()
		case "encrypted_content":
			it.encrypted = c.quoted()
		case "result":
			it.result = c.quoted()
		case "output_format":
			it.format = c.word()
		}
	}
	return it
}

// recorded are items that tell of a tool that the provider ran: what came of it
// is in the message that follows.
func recorded(kind string) bool {
	switch kind {
	case "web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response",
		"tool_search_call", "tool_search_output", "program", "program_output":
		return true
	}
	return false
}

// item takes one item. Those of the assistant that follow each other are one
// turn, and so are results of tools.
func (d *responsesDecoder) item(at string, c *cursor) error {
	it := readInputItem(c)
	switch it.kind {
	case "", "message":
		return d.message(at, &it)
	case "function_call", "custom_tool_call":
		return d.call(at, &it)
	case "function_call_output", "custom_tool_call_output":
		parts, err := d.parts(at+".output", it.output)
		if err != nil {
			return err
		}
		if len(it.callID) <= 2 {
			return core.Field(at+".call_id", "required")
		}
		d.add(core.RoleUser, at, true, core.Part{Kind: core.PartToolResult, ID: it.callID, Name: d.calls[string(it.callID)], Parts: parts})
	case "reasoning":
		d.add(core.RoleAssistant, at, true, it.reasoning())
	case "image_generation_call":
		if len(it.result) <= 2 {
			return held(at)
		}
		d.add(core.RoleAssistant, at, true, it.picture())
	case "item_reference":
		if !reasoningID(it.listed) {
			return held(at)
		}
		d.other("input.item_reference", false)
	default:
		if !recorded(it.kind) {
			return cannot(at, "has no item of this type")
		}
		d.other(kindAt("input", it.kind, at), false)
	}
	return nil
}

// reasoningID tells whether an item that is only named is one of reasoning,
// which is not part of the question.
func reasoningID(id core.Quoted) bool { return bytes.HasPrefix(id, []byte(`"rs_`)) }

// add appends parts, to the last message where that is the same turn.
func (d *responsesDecoder) add(role core.Role, at string, same bool, parts ...core.Part) {
	if n := len(d.Messages) - 1; same && n >= 0 && d.Messages[n].Role == role && (role == core.RoleAssistant || results(&d.Messages[n])) {
		d.Messages[n].Parts = append(d.Messages[n].Parts, parts...)
		return
	}
	d.Messages = append(d.Messages, core.Message{Role: role, Parts: parts, At: at})
}

// results tells whether a message holds results of tools alone.
func results(m *core.Message) bool {
	return len(m.Parts) > 0 && m.Parts[len(m.Parts)-1].Kind == core.PartToolResult
}

func (d *responsesDecoder) message(at string, it *inputItem) error {
	var role core.Role
	switch it.role {
	case "user":
		role = core.RoleUser
	case "assistant":
		role = core.RoleAssistant
	case "system", "developer":
		role = core.RoleSystem
	default:
		return core.Field(at+".role", "must be user, assistant, system or developer")
	}
	parts, err := d.parts(at+".content", it.content)
	if err != nil {
		return err
	}
	d.add(role, at, role == core.RoleAssistant, parts...)
	return nil
}

// call takes a call of a tool. The text of one that takes plain text is its one
// argument.
func (d *responsesDecoder) call(at string, it *inputItem) error {
	switch {
	case len(it.callID) <= 2:
		return core.Field(at+".call_id", "required")
	case len(it.name) <= 2:
		return core.Field(at+".name", "required")
	}
	p := core.Part{Kind: core.PartToolCall, ID: it.callID, Name: d.known(it.namespace, it.name)}
	if it.kind == "custom_tool_call" {
		if it.input == nil {
			it.input = core.Quoted(`""`)
		}
		p.Arguments = concat(nil, `{"input":`, string(it.input), `}`)
	} else {
		p.Arguments = argumentsOf(inner(it.arguments))
	}
	d.calls[string(p.ID)] = p.Name
	d.add(core.RoleAssistant, at, true, p)
	return nil
}

// reasoning gives the summary, or else the reasoning itself, with its seal.
func (it *inputItem) reasoning() core.Part {
	text := paragraphs(it.summary)
	if text == nil {
		text = paragraphs(it.content)
	}
	return core.Part{Kind: core.PartReasoning, Text: text, Seal: openSeal(it.encrypted, core.FormatResponses, true, it.listed)}
}

// picture gives the image that a model made.
func (it *inputItem) picture() core.Part {
	m := core.Media{Base64: inner(it.result)}
	if it.format != "" {
		m.Type = "image/" + it.format
	} else if m.Type = imageType(&m); m.Type == "" {
		m.Type = "image/png"
	}
	return core.Part{Kind: core.PartImage, Media: m}
}

// paragraphs joins the texts of a list of parts, with an empty line between them.
func paragraphs(v []byte) core.Quoted {
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	var joined []byte
	c := walk(v)
	for c.array(); c.element(); {
		if !c.object() {
			c.skip()
			continue
		}
		for key := range c.rest {
			if string(key) != "text" {
				continue
			}
			text := textOf(&c)
			if len(joined) > 0 && len(text) > 0 {
				joined = append(joined, `\n\n`...)
			}
			joined = append(joined, text...)
		}
	}
	if len(joined) == 0 {
		return nil
	}
	return requote(joined)
}

// parts reads a text or a list of parts.
func (d *responsesDecoder) parts(at string, v []byte) ([]core.Part, error) {
	if len(v) == 0 || v[0] == 'n' {
		return nil, nil
	}
	if v[0] == '"' {
		return []core.Part{{Text: v}}, nil
	}
	if v[0] != '[' {
		return nil, cannot(at, "has nothing of this form")
	}
	var parts []core.Part
	c := walk(v)
	c.array()
	for j := 0; c.element(); j++ {
		p, err := d.part(fmt.Sprintf("%s[%d]", at, j), &c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// part reads one part.
func (d *responsesDecoder) part(at string, c *cursor) (p core.Part, err error) {
	var kind, file string
	var audio, breakpoint []byte
	var said, refusal, image, data, address core.Quoted
	for key := range c.each {
		switch string(key) {
		case "type":
			kind = c.word()
		case "text":
			said = c.quoted()
		case "refusal":
			refusal = c.quoted()
		case "image_url":
			image = c.quoted()
		case "detail":
			p.Media.Detail = c.word()
		case "file_id":
			file = c.word()
		case "file_data":
			data = c.quoted()
		case "file_url":
			address = c.quoted()
		case "filename":
			p.Name = c.quoted()
		case "input_audio":
			audio = objectOf(c)
		case "prompt_cache_breakpoint":
			breakpoint = objectOf(c)
		}
	}
	if breakpoint != nil {
		d.Fields[core.AskCache] = "prompt_cache_breakpoint"
		if p.Cache = "5m"; bytes.Contains(breakpoint, []byte(`"12h"`)) {
			p.Cache = "1h"
		}
	}
	switch kind {
	case "input_text", "output_text", "text", "summary_text":
		p.Text = said
	case "refusal":
		p.Kind, p.Text = core.PartRefusal, refusal
	case "input_image":
		p.Kind = core.PartImage
		if file != "" {
			return p, held(at + ".file_id")
		}
		return p, setMedia(&p.Media, at+".image_url", image)
	case "input_file":
		if p.Kind = core.PartDocument; p.Media.Detail != "" {
			d.other(at+".detail", false)
			p.Media.Detail = ""
		}
		switch {
		case data == nil && address == nil && file != "":
			return p, held(at + ".file_id")
		case data == nil:
			return p, setMedia(&p.Media, at+".file_url", address)
		case !bytes.HasPrefix(data, []byte(`"data:`)): // bare
			p.Media.Type, p.Media.Base64 = typeOf(inner(p.Name)), inner(data)
			return p, nil
		}
		return p, setMedia(&p.Media, at+".file_data", data)
	case "input_audio":
		p.Kind = core.PartAudio
		p.Media = sound(audio)
		return p, nil
	default:
		return p, cannot(at, "has no part of this type")
	}
	if p.Text == nil {
		p.Text = core.Quoted(`""`)
	}
	return p, nil
}

// setMedia takes what an address says: the data itself, or where it is.
func setMedia(m *core.Media, at string, address core.Quoted) error {
	raw := inner(address)
	if len(raw) == 0 {
		return core.Field(at, "required")
	}
	rest, ok := bytes.CutPrefix(raw, []byte("data:"))
	if !ok {
		m.URL = address
		return nil
	}
	head, data, ok := bytes.Cut(rest, []byte(","))
	kind, found := strings.CutSuffix(string(unescape(head)), ";base64")
	if !ok || !found || len(data) == 0 {
		return core.Field(at, "must be a data URL in base64 or an address")
	}
	m.Type, _, _ = strings.Cut(kind, ";")
	m.Base64 = data
	return nil
}

// typeOf is the type of a document that is told by its name alone.
func typeOf(name []byte) string {
	switch s := strings.ToLower(string(name)); {
	case strings.HasSuffix(s, ".txt"), strings.HasSuffix(s, ".md"), strings.HasSuffix(s, ".csv"), strings.HasSuffix(s, ".log"):
		return "text/plain"
	}
	return "application/pdf"
}

// sound reads {"data", "format"}.
func sound(v []byte) (m core.Media) {
	c := walk(v)
	for key := range c.each {
		switch string(key) {
		case "data":
			m.Base64 = textOf(&c)
		case "format":
			m.Type = "audio/" + c.word()
		}
	}
	return m
}

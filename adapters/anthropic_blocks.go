package adapters

import (
	"strings"

	"headway/core"
)

// givenBlock is one content block of a request, as it stands there.
type givenBlock struct {
	kind                                   []byte
	text, id, name, title, context, origin core.Quoted
	thinking, signature, data              core.Quoted
	source, content, input                 core.JSON
	cache                                  string
	failed                                 bool
}

// block consumes one content block.
func (d *messagesDecoder) block() (b givenBlock) {
	for key := range d.given {
		switch string(key) {
		case "type":
			b.kind = textOf(&d.cursor)
		case "text":
			b.text = d.str()
		case "cache_control":
			b.cache = d.cache()
		case "id", "tool_use_id":
			b.id = d.str()
		case "name", "tool_name":
			b.name = d.str()
		case "input":
			b.input = d.value()
		case "content":
			b.content = d.value()
		case "is_error":
			b.failed = d.yes()
		case "source":
			if d.peek() == '{' {
				b.source = d.value()
			} else {
				b.origin = d.str()
			}
		case "title":
			b.title = d.str()
		case "context":
			b.context = d.str()
		case "thinking":
			b.thinking = d.str()
		case "signature":
			b.signature = d.str()
		case "data":
			b.data = d.str()
		case "transformations":
			d.extra("transformations")
		case "citations":
			// What is to be pointed at; a list is what an answer pointed at.
			if d.peek() != '{' {
				continue
			}
			for key := range d.given {
				if string(key) == "enabled" {
					d.extra("citations.enabled")
				}
			}
		}
	}
	return b
}

// parts appends what a block holds.
func (d *messagesDecoder) parts(parts []core.Part, b *givenBlock, at string) ([]core.Part, error) {
	words := func(t core.Quoted) ([]core.Part, error) {
		return append(parts, core.Part{Kind: core.PartText, Text: t}), nil
	}
	switch string(b.kind) {
	case "text":
		if b.text == nil {
			return nil, core.Field(at+".text", "must be a string")
		}
		return words(b.text)
	case "image":
		m, _, err := d.source(b, at)
		return append(parts, core.Part{Kind: core.PartImage, Media: m}), err
	case "document":
		return d.document(parts, b, at)
	case "search_result":
		inside, err := d.inside(b.content, at)
		if err != nil {
			return nil, err
		}
		texts := []core.Quoted{b.title, b.origin}
		for i := range inside {
			texts = append(texts, inside[i].Text)
		}
		return words(joinTexts(texts...))
	case "tool_use":
		if len(b.input) == 0 || b.input[0] != '{' {
			return nil, core.Field(at+".input", "must be an object")
		}
		if b.id == nil || len(b.name) <= 2 {
			return nil, core.Field(at, "a tool_use needs an id and a name")
		}
		return append(parts, core.Part{Kind: core.PartToolCall, ID: b.id, Name: b.name, Arguments: b.input}), nil
	case "tool_result":
		if b.id == nil {
			return nil, core.Field(at+".tool_use_id", "must be a string")
		}
		inside, err := d.inside(b.content, at)
		return append(parts, core.Part{Kind: core.PartToolResult, ID: b.id, Parts: inside, Failed: b.failed}), err
	case "tool_reference": // in the result of a client's own search for tools
		return words(b.name)
	case "container_upload":
		return nil, cannot(at, "has no access to files kept at Anthropic")
	case "thinking":
		return append(parts, core.Part{Kind: core.PartReasoning, Text: b.thinking, Seal: openSeal(b.signature, core.FormatAnthropic, false, nil)}), nil
	case "redacted_thinking":
		return append(parts, core.Part{Kind: core.PartReasoning, Seal: openSeal(b.data, core.FormatAnthropic, true, nil)}), nil
	}
	// What Anthropic's own tools were asked and gave back, and whatever may come:
	// its plain text is kept, as the model's next words may stand on it.
	kind := string(b.kind)
	if strings.HasSuffix(kind, "_tool_result") || kind == "compaction" {
		inside, err := d.inside(b.content, at)
		if err != nil {
			return nil, err
		}
		n := len(parts)
		for i := range inside {
			if inside[i].Kind == core.PartText {
				parts = append(parts, inside[i])
			}
		}
		if len(parts) > n {
			return parts, nil
		}
	}
	if !strings.HasSuffix(kind, "_search_result") { // named by what it is inside of
		d.other(kind, false)
	}
	return parts, nil
}

// inside reads the content of a block: a text or blocks. What else it may be,
// such as an object of a hosted tool's own, holds nothing.
func (d *messagesDecoder) inside(content core.JSON, at string) ([]core.Part, error) {
	sub := messagesDecoder{cursor: walk(content), out: d.out}
	return sub.content(at + ".content")
}

// document appends a document: as text where it is given as text.
func (d *messagesDecoder) document(parts []core.Part, b *givenBlock, at string) ([]core.Part, error) {
	m, inside, err := d.source(b, at)
	if err != nil {
		return nil, err
	}
	if m.Base64 == nil && m.URL == nil {
		if len(inside) == 1 && inside[0].Kind == core.PartText {
			return append(parts, core.Part{Kind: core.PartText, Text: joinTexts(b.title, b.context, inside[0].Text)}), nil
		}
		if head := joinTexts(b.title, b.context); len(head) > 2 {
			parts = append(parts, core.Part{Kind: core.PartText, Text: head})
		}
		return append(parts, inside...), nil
	}
	if len(b.context) > 2 {
		parts = append(parts, core.Part{Kind: core.PartText, Text: b.context})
	}
	return append(parts, core.Part{Kind: core.PartDocument, Media: m, Name: b.title}), nil
}

// source reads where an image or a document is, or what a document says.
func (d *messagesDecoder) source(b *givenBlock, at string) (m core.Media, inside []core.Part, err error) {
	var kind []byte
	var data, content core.JSON
	sub := messagesDecoder{cursor: walk(b.source), out: d.out}
	for key := range sub.given {
		switch string(key) {
		case "type":
			kind = textOf(&sub.cursor)
		case "media_type":
			m.Type = sub.word()
		case "data":
			data = sub.value()
		case "url":
			m.URL = sub.str()
		case "content":
			content = sub.value()
		}
	}
	switch string(kind) {
	case "base64":
		if len(data) < 2 || data[0] != '"' {
			return m, nil, core.Field(at+".source.data", "must be a string")
		}
		m.Base64, m.URL = inner(core.Quoted(data)), nil
		return m, nil, nil
	case "url":
		if m.URL == nil {
			return m, nil, core.Field(at+".source.url", "must be a string")
		}
		if string(b.kind) == "document" && m.Type == "" {
			m.Type = "application/pdf"
		}
		return m, nil, nil
	case "text":
		inside, err = d.inside(data, at+".source")
		return core.Media{}, inside, err
	case "content":
		inside, err = d.inside(content, at+".source")
		return core.Media{}, inside, err
	case "file":
		return m, nil, cannot(at+".source", "has no access to files kept at Anthropic")
	}
	return m, nil, core.Field(at+".source.type", "must be base64, url, text, content or file")
}

// joinTexts joins texts with an empty line between; those that are absent or
// empty are left out.
func joinTexts(texts ...core.Quoted) core.Quoted {
	out := core.Quoted{'"'}
	for _, t := range texts {
		if len(t) <= 2 {
			continue
		}
		if len(out) > 1 {
			out = append(out, `\n\n`...)
		}
		out = append(out, inner(t)...)
	}
	return append(out, '"')
}

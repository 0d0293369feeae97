package adapters

import (
	"bytes"
	"strings"

	"headway/core"
)

// contents consumes a message's text or list of parts.
func (m *chatTurn) contents() *core.Error {
	d := m.d
	if raw, ok := d.text(); ok {
		m.content = []core.Part{{Kind: core.PartText, Text: d.quotes(raw)}}
		return nil
	}
	if d.peek() != '[' {
		return d.wrong(m.at+".content", "must be a string or a list of parts")
	}
	var err *core.Error
	m.content, err = m.parts("content")
	return err
}

// parts consumes a list of parts that is a member of the message.
func (m *chatTurn) parts(member string) (list []core.Part, err *core.Error) {
	d := m.d
	if !d.array() {
		return nil, d.wrong(m.at+"."+member, "must be a list of parts")
	}
	for i := 0; d.element(); i++ {
		p := chatPart{d: d, list: m.at + "." + member, i: i}
		if err := p.read(); err != nil {
			return nil, err
		}
		if p.kind == "thinking" { // Mistral
			m.thought = joinQuoted(m.thought, p.Text)
			continue
		}
		list = append(list, p.Part)
	}
	return list, nil
}

// chatPart is one part of a message.
type chatPart struct {
	core.Part
	d    *chatDecoder
	list string
	i    int

	kind  string
	media bool
}

func (p *chatPart) at() string { return at(p.list, p.i) }

func (p *chatPart) read() (err *core.Error) {
	d := p.d
	if !d.object() {
		return d.wrong(p.at(), "must be an object")
	}
	for key := range d.rest {
		if d.null() {
			continue
		}
		switch name := string(key); name {
		case "type":
			p.kind = d.word()
		case "text", "refusal":
			p.Text, err = d.quoted(p.at() + "." + name)
		case "thinking":
			p.Text = d.thinking()
		case "image_url":
			err = p.image()
		case "file":
			err = p.file()
		case "input_audio":
			err = p.audio()
		case "cache_control", "prompt_cache_breakpoint":
			p.Cache = d.cacheHint(name)
		default:
			d.extraField("messages[].content[].", name)
		}
		if err != nil {
			return err
		}
	}
	switch p.kind {
	case "text", "input_text", "output_text":
		p.Kind = core.PartText
	case "refusal":
		p.Kind = core.PartRefusal
		if p.Text == nil {
			return d.wrong(p.at()+".refusal", "required")
		}
	case "thinking":
	case "image_url", "file", "input_audio":
		if !p.media {
			return d.wrong(p.at()+"."+p.kind, "required")
		}
	default:
		return cannot(p.at(), "speaks another format that has no such part")
	}
	return nil
}

// thinking consumes Mistral's thinking: a text or a list of parts.
func (d *chatDecoder) thinking() (all core.Quoted) {
	if raw, ok := d.text(); ok {
		return d.quotes(raw)
	}
	if !d.array() {
		d.skip()
		return nil
	}
	for d.element() {
		if !d.object() {
			d.skip()
			continue
		}
		for key := range d.rest {
			if raw, ok := d.text(); !ok {
				d.skip()
			} else if string(key) == "text" {
				all = joinQuoted(all, d.quotes(raw))
			}
		}
	}
	return all
}

// joinQuoted puts a text behind another.
func joinQuoted(a, b core.Quoted) core.Quoted {
	if len(a) < 2 {
		return b
	}
	return requote(append(bytes.Clone(inner(a)), inner(b)...))
}

// image consumes an image's address, in an object or not.
func (p *chatPart) image() *core.Error {
	d, place := p.d, p.at()+".image_url"
	p.Kind = core.PartImage
	if raw, ok := d.text(); ok {
		return p.source(place, raw)
	}
	if !d.object() {
		return d.wrong(place, "must be an object")
	}
	for key := range d.rest {
		switch string(key) {
		case "url":
			raw, err := d.str(place + ".url")
			if err != nil {
				return err
			}
			if err := p.source(place+".url", raw); err != nil {
				return err
			}
		case "detail":
			p.Media.Detail = d.word()
		}
	}
	if !p.media {
		return d.wrong(place+".url", "required")
	}
	return nil
}

// source takes a string that is an address, or a data URL.
func (p *chatPart) source(place string, raw []byte) *core.Error {
	detail := p.Media.Detail
	media, ok := dataURL(raw)
	switch {
	case ok:
	case isDataURL(raw):
		return core.Field(place, "must have the form data:TYPE;base64,DATA where it is a data URL")
	case len(raw) == 0:
		return core.Field(place, "must not be empty")
	default:
		media = core.Media{URL: p.d.quotes(raw)}
	}
	p.Media, p.media = media, true
	p.Media.Detail = detail
	return nil
}

func isDataURL(raw []byte) bool { return len(raw) >= 5 && strings.EqualFold(string(raw[:5]), "data:") }

// dataURL reads a data URL in base64, as it stands between the quotes of a JSON
// string.
func dataURL(raw []byte) (core.Media, bool) {
	if !isDataURL(raw) {
		return core.Media{}, false
	}
	head, data, ok := bytes.Cut(raw[5:], []byte(","))
	if !ok || len(data) == 0 {
		return core.Media{}, false
	}
	kind, parameters, _ := strings.Cut(strings.ToLower(string(unescape(head))), ";")
	if kind == "" || !strings.HasSuffix(";"+parameters, ";base64") {
		return core.Media{}, false
	}
	if kind == "image/jpg" { // a name that no provider knows, for one that all do
		kind = "image/jpeg"
	}
	return core.Media{Type: kind, Base64: data}, true
}

// file consumes a file: its bytes as a data URL or in base64, or its address.
func (p *chatPart) file() *core.Error {
	d, place := p.d, p.at()+".file"
	if !d.object() {
		return d.wrong(place, "must be an object")
	}
	p.Kind = core.PartDocument
	var bare bool
	for key := range d.rest {
		if d.null() {
			continue
		}
		switch string(key) {
		case "file_id":
			return cannot(place+".file_id", "does not keep the files of another")
		case "filename":
			name, err := d.quoted(place + ".filename")
			if err != nil {
				return err
			}
			p.Name = name
		case "file_data":
			raw, err := d.str(place + ".file_data")
			if err != nil {
				return err
			}
			if bare = !isDataURL(raw) && !bytes.HasPrefix(raw, []byte("http")); bare && len(raw) > 0 {
				p.Media, p.media = core.Media{Base64: raw}, true
			} else if err := p.source(place+".file_data", raw); err != nil {
				return err
			}
		}
	}
	if !p.media {
		return d.wrong(place+".file_data", "required")
	}
	if bare {
		p.Media.Type = "application/pdf"
		if strings.HasSuffix(strings.ToLower(string(unescape(inner(p.Name)))), ".txt") {
			p.Media.Type = "text/plain"
		}
	}
	return nil
}

// audio consumes a sound.
func (p *chatPart) audio() *core.Error {
	d, place := p.d, p.at()+".input_audio"
	if !d.object() {
		return d.wrong(place, "must be an object")
	}
	p.Kind = core.PartAudio
	for key := range d.rest {
		switch string(key) {
		case "data":
			raw, err := d.str(place + ".data")
			if err != nil {
				return err
			}
			p.Media.Base64, p.media = raw, len(raw) > 0
		case "format":
			switch format := d.word(); format {
			case "mp3":
				p.Media.Type = "audio/mpeg"
			case "":
				return d.wrong(place+".format", "must be a string")
			default:
				p.Media.Type = "audio/" + format
			}
		}
	}
	switch {
	case !p.media:
		return d.wrong(place+".data", "required")
	case p.Media.Type == "":
		return d.wrong(place+".format", "required")
	}
	return nil
}

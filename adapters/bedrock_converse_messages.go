package adapters

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"headway/core"
)

// system writes the leading system messages.
func (e *converseBody) system(all []core.Message) error {
	open := false
	for i := range all {
		m := &all[i]
		for j := range m.Parts {
			p := turnPart{&m.Parts[j], m, j}
			switch {
			case p.Kind != core.PartText:
				return cannot(p.place(e.content), "takes only text from the system")
			case isBlank(p.Text):
				continue
			case !open:
				open = true
				e.key("system")
				e.open('[')
			}
			e.item()
			e.open('{')
			e.member("text", p.Text)
			e.close('}')
			e.mark(p.Part)
		}
	}
	if open {
		e.close(']')
	}
	return nil
}

// messages writes the turns.
func (e *converseBody) messages() error {
	e.key("messages")
	e.open('[')
	for i := range e.turns {
		t := &e.turns[i]
		e.item()
		e.open('{')
		e.speaker(t.role)
		e.key("content")
		e.open('[')
		if len(t.parts) == 0 { // before a first turn that is the model's
			e.raw([]byte(`{"text":"."}`))
		}
		for _, p := range t.parts {
			e.item()
			e.open('{')
			if err := e.part(p); err != nil {
				return err
			}
			e.close('}')
			e.mark(p.Part)
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	return nil
}

// part writes the inside of a block.
func (e *converseBody) part(p turnPart) error {
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		e.key("text")
		if e.later(p) {
			e.b = append(append(append(e.b, `"<system>\n`...), inner(p.Text)...), `\n</system>"`...)
		} else {
			e.raw(p.Text)
		}
	case core.PartToolCall:
		if !oneOf(e.used, p.Name) {
			e.used = append(e.used, p.Name)
		}
		e.key("toolUse")
		e.open('{')
		e.key("toolUseId")
		e.raw(converseID(p.ID))
		e.member("name", p.Name)
		e.key("input")
		if len(p.Arguments) > 0 {
			e.raw(p.Arguments)
		} else {
			e.raw([]byte("{}"))
		}
		e.close('}')
	case core.PartToolResult:
		return e.result(p)
	case core.PartReasoning:
		e.key("reasoningContent")
		e.open('{')
		if p.Seal.Encrypted {
			e.member("redactedContent", p.Seal.Text)
		} else {
			e.key("reasoningText")
			e.open('{')
			e.key("text")
			e.inner(inner(p.Text))
			e.member("signature", p.Seal.Text)
			e.close('}')
		}
		e.close('}')
	default:
		if p.message.Role == core.RoleAssistant {
			return cannot(p.place(e.content), "takes only text in the model's own turns")
		}
		return e.media(p.Part, p.place(e.content))
	}
	return nil
}

// result writes what a tool gave back.
func (e *converseBody) result(p turnPart) error {
	e.key("toolResult")
	e.open('{')
	e.key("toolUseId")
	e.raw(converseID(p.ID))
	e.key("content")
	e.open('[')
	some := false
	for i := range p.Parts {
		q := &p.Parts[i]
		at := p.place(e.content)
		text := q.Kind == core.PartText || q.Kind == core.PartRefusal
		if text && isBlank(q.Text) {
			continue
		}
		some = true
		e.item()
		e.open('{')
		switch {
		case text:
			e.member("text", q.Text)
		case q.Kind == core.PartImage || q.Kind == core.PartDocument:
			if err := e.media(q, at); err != nil {
				return err
			}
		default:
			return cannot(at, "takes text, images and documents alone from tools")
		}
		e.close('}')
	}
	if !some {
		e.raw([]byte(`{"text":""}`))
	}
	e.close(']')
	if p.Failed {
		e.key("status")
		e.str("error")
	}
	e.close('}')
	return nil
}

// mark writes where the prompt is to be cached to, behind a part with such a mark.
// A mark inside of a tool's result has no place there: it goes behind the result.
func (e *converseBody) mark(p *core.Part) {
	life := p.Cache
	for i := range p.Parts {
		life = cmp.Or(life, p.Parts[i].Cache)
	}
	if life != "" && e.maker.caches() {
		e.cachePoint(life)
	}
}

func (e *converseBody) cachePoint(life string) {
	e.item()
	if life == "1h" && e.maker == makerAnthropic {
		e.raw([]byte(`{"cachePoint":{"type":"default","ttl":"1h"}}`))
	} else {
		e.raw([]byte(`{"cachePoint":{"type":"default"}}`))
	}
}

// converseFormats are the words for kinds of images, documents and sounds.
var converseFormats = map[string]map[string]string{
	"image": {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"},
	"document": {"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
		"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx"},
	"audio": {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/aac": "aac",
		"audio/flac": "flac", "audio/ogg": "ogg", "audio/opus": "opus", "audio/mp4": "mp4", "audio/m4a": "m4a", "audio/webm": "webm"},
}

// media writes the inside of a block that holds bytes.
func (e *converseBody) media(p *core.Part, at string) error {
	m := &p.Media
	kind, mime := "document", m.Type
	switch p.Kind {
	case core.PartImage:
		kind = "image"
		if mime == "" {
			mime = imageType(m)
		}
	case core.PartAudio:
		kind = "audio"
	}
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	format := converseFormats[kind][mime]
	s3 := strings.HasPrefix(string(inner(m.URL)), "s3:")
	switch {
	case m.Base64 == nil && !s3:
		return cannot(at, "takes it by its data or an address of S3, not by another address")
	case format == "":
		return cannot(at, "does not take this kind of "+kind)
	case m.Detail != "" && m.Detail != "auto":
		drop(&e.dropped, "detail")
	}
	e.key(kind)
	e.open('{')
	e.key("format")
	e.str(format)
	if kind == "document" {
		e.key("name")
		e.str(e.documentName(p.Name))
	}
	e.key("source")
	e.open('{')
	if m.Base64 != nil {
		e.key("bytes")
		e.inner(m.Base64)
	} else {
		e.key("s3Location")
		e.open('{')
		e.member("uri", m.URL)
		e.close('}')
	}
	e.close('}')
	e.close('}')
	return nil
}

// documentName is a name with what the format allows in one, which no other
// document of the request has.
func (e *converseBody) documentName(given core.Quoted) string {
	name := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-()[] ", r):
			return r
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		}
		return '-'
	}, string(unescape(inner(given))))), " ")
	if name = name[:min(len(name), 180)]; strings.Trim(name, "- ") == "" {
		name = "document"
	}
	if e.names == nil {
		e.names = map[string]int{}
	}
	e.names[name]++
	if n := e.names[name]; n > 1 {
		return e.documentName(core.Quoted(quote(fmt.Sprintf("%s (%d)", name, n))))
	}
	return name
}

// longestID is how long the id of a tool call may be.
const longestID = 64

// converseID is the id of a tool call as the format allows it. The same id always
// gives the same.
func converseID(id core.Quoted) []byte {
	raw := inner(id)
	fine := len(raw) > 0 && len(raw) <= longestID
	for _, ch := range raw {
		fine = fine && ('a' <= ch|0x20 && ch|0x20 <= 'z' || '0' <= ch && ch <= '9' || ch == '-' || ch == '_')
	}
	if fine {
		return id
	}
	sum := sha256.Sum256(unescape(raw))
	return []byte(`"id_` + hex.EncodeToString(sum[:28]) + `"`)
}

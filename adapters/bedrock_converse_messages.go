package adapters

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"headway/core"
)

// messages writes the leading system messages apart and the others as turns of
// user and assistant, which must take turns: successive messages of one are one.
func (e *converseBody) messages() error {
	all := e.content.Messages
	lead := 0
	for lead < len(all) && all[lead].Role == core.RoleSystem {
		lead++
	}
	if lead == len(all) && lead > 0 {
		lead-- // something must be asked
	}
	if err := e.system(all[:lead]); err != nil {
		return err
	}
	e.key("messages")
	e.open('[')
	for i := lead; i < len(all); i++ {
		if err := e.message(&all[i], len(all) == lead+1); err != nil {
			return err
		}
	}
	e.turn("")
	e.close(']')
	return nil
}

// system writes the system's text.
func (e *converseBody) system(all []core.Message) error {
	open := false
	for i := range all {
		m := &all[i]
		for j := range m.Parts {
			p := &m.Parts[j]
			if p.Kind != core.PartText {
				return cannot(partAt(e.content, m, j), "takes text alone from the system")
			}
			if blank(p.Text) {
				continue
			}
			if !open {
				open = true
				e.key("system")
				e.open('[')
			}
			e.item()
			e.open('{')
			e.member("text", p.Text)
			e.close('}')
			e.mark(p)
		}
	}
	if open {
		e.close(']')
	}
	return nil
}

// message writes one message. Empty texts are refused, so they are left out where
// the user has said anything else. only: there is no other message.
func (e *converseBody) message(m *core.Message, only bool) error {
	role, wrapped := "user", false
	switch m.Role {
	case core.RoleAssistant:
		role = "assistant"
	case core.RoleSystem: // its place is here, and there is no such role
		wrapped = !only
	}
	said := false
	for j := range m.Parts {
		p := &m.Parts[j]
		if (p.Kind == core.PartText || p.Kind == core.PartRefusal) && blank(p.Text) {
			continue
		}
		wrote, err := e.part(m, j, role, wrapped)
		if err != nil {
			return err
		}
		if wrote {
			said = true
			e.mark(p)
		}
	}
	if !said && role == "user" && len(m.Parts) > 0 {
		e.block(role)
		e.key("text")
		e.raw(orEmpty(m.Parts[0].Text))
		e.close('}')
	}
	return nil
}

// orEmpty is a text, or the empty one in the place of none.
func orEmpty(q core.Quoted) []byte {
	if len(q) == 0 {
		return []byte(`""`)
	}
	return q
}

// turn ends the turn that is open and begins one; "" begins none.
func (e *converseBody) turn(role string) {
	if e.role == role {
		return
	}
	if e.role != "" {
		e.close(']')
		e.close('}')
	}
	if e.role = role; role == "" {
		return
	}
	e.item()
	e.open('{')
	e.key("role")
	e.str(role)
	e.key("content")
	e.open('[')
}

// block begins a block of a turn.
func (e *converseBody) block(role string) {
	e.turn(role)
	e.item()
	e.open('{')
}

// part writes the part j of a message; false where it is left out.
func (e *converseBody) part(m *core.Message, j int, role string, wrapped bool) (bool, error) {
	p := &m.Parts[j]
	at := partAt(e.content, m, j)
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		e.block(role)
		e.key("text")
		if wrapped {
			e.b = append(append(append(e.b, `"<system>\n`...), inner(p.Text)...), `\n</system>"`...)
		} else {
			e.raw(p.Text)
		}
	case core.PartImage, core.PartDocument, core.PartAudio:
		kind, format, why := converseMedia(p)
		if why != "" {
			return false, cannot(at, why)
		}
		e.block(role)
		e.media(p, at, kind, format)
	case core.PartToolCall:
		if !oneOf(e.used, p.Name) {
			e.used = append(e.used, p.Name)
		}
		e.block(role)
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
		return true, e.result(p, at, role)
	case core.PartReasoning:
		if p.Seal.Origin != core.FormatConverse {
			return false, nil
		}
		e.block(role)
		e.key("reasoningContent")
		e.open('{')
		if p.Seal.Encrypted {
			e.member("redactedContent", p.Seal.Text)
		} else {
			e.key("reasoningText")
			e.open('{')
			e.key("text")
			e.raw(orEmpty(p.Text))
			e.member("signature", p.Seal.Text)
			e.close('}')
		}
		e.close('}')
	}
	e.close('}')
	return true, nil
}

// result writes what a tool gave back.
func (e *converseBody) result(p *core.Part, at, role string) error {
	e.block(role)
	e.key("toolResult")
	e.open('{')
	e.key("toolUseId")
	e.raw(converseID(p.ID))
	e.key("content")
	e.open('[')
	some := false
	for i := range p.Parts {
		q := &p.Parts[i]
		switch q.Kind {
		case core.PartText, core.PartRefusal:
			if blank(q.Text) {
				continue
			}
			e.item()
			e.open('{')
			e.member("text", q.Text)
		case core.PartImage, core.PartDocument:
			at := fmt.Sprintf("%s.content[%d]", at, i)
			kind, format, why := converseMedia(q)
			if why != "" {
				return cannot(at, why)
			}
			e.item()
			e.open('{')
			e.media(q, at, kind, format)
		default:
			return cannot(fmt.Sprintf("%s.content[%d]", at, i), "takes text, images and documents alone from tools")
		}
		e.close('}')
		some = true
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
	e.close('}')
	return nil
}

// mark writes where the prompt is to be cached to, behind a part with such a mark.
func (e *converseBody) mark(p *core.Part) {
	if p.Cache != "" && e.model.caches() {
		e.cachePoint(p.Cache)
	}
}

func (e *converseBody) cachePoint(life string) {
	e.item()
	if life == "1h" && e.model.maker == makerAnthropic {
		e.raw([]byte(`{"cachePoint":{"type":"default","ttl":"1h"}}`))
	} else {
		e.raw([]byte(`{"cachePoint":{"type":"default"}}`))
	}
}

// converseFormats are the words for kinds of images, documents and sounds.
var converseFormats = map[string]string{
	"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp",
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/aac": "aac",
	"audio/flac": "flac", "audio/ogg": "ogg", "audio/opus": "opus", "audio/mp4": "mp4", "audio/m4a": "m4a", "audio/webm": "webm",
}

// converseMedia says how the format calls a part's bytes; why where it has no
// place for them.
func converseMedia(p *core.Part) (kind, format, why string) {
	family := "image/"
	switch p.Kind {
	case core.PartImage:
		kind = "image"
	case core.PartAudio:
		kind, family = "audio", "audio/"
	default:
		kind, family = "document", ""
	}
	mime, _, _ := strings.Cut(strings.ToLower(p.Media.Type), ";")
	format = converseFormats[strings.TrimSpace(mime)]
	is := strings.HasPrefix(mime, "image/") || strings.HasPrefix(mime, "audio/")
	s3 := strings.HasPrefix(string(inner(p.Media.URL)), "s3:")
	switch {
	case p.Media.Base64 == nil && !s3:
		why = "takes it by its data or an address of S3, not by another address"
	case format == "", family != "" && !strings.HasPrefix(mime, family), family == "" && is:
		why = "does not take this kind of " + kind
	}
	return kind, format, why
}

// media writes the inside of a block that holds bytes.
func (e *converseBody) media(p *core.Part, at, kind, format string) {
	if d := p.Media.Detail; d != "" && d != "auto" {
		drop(&e.dropped, at+".detail")
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
	if p.Media.Base64 != nil {
		e.key("bytes")
		e.inner(p.Media.Base64)
	} else {
		e.key("s3Location")
		e.open('{')
		e.member("uri", p.Media.URL)
		e.close('}')
	}
	e.close('}')
	e.close('}')
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

// blank tells whether a text says nothing: it is absent, or all white space.
func blank(q core.Quoted) bool {
	for raw := inner(q); len(raw) > 0; {
		switch n := 1; raw[0] {
		case '\\':
			if n = 2; raw[1] != 'n' && raw[1] != 't' && raw[1] != 'r' {
				return false
			}
			fallthrough
		case ' ':
			raw = raw[n:]
		default:
			return false
		}
	}
	return true
}

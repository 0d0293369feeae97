package adapters

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"headway/core"
)

// Decode reads all of a request for an upstream of another format. Errors are
// Invalid and name the field.
func (Google) Decode(job *core.Job) (*core.Content, error) {
	d := googleDecoder{cursor: walk(job.Body), c: &core.Content{
		Format: core.FormatGoogle, Streamed: job.Streamed, MaxOutput: job.MaxOutput, Choices: job.Choices, Fields: map[core.Ask]string{},
	}}
	d.request()
	if err := d.end(); d.fault == nil && err != nil {
		d.fault = notJSON(err)
	}
	if d.fault == nil && len(d.c.Messages) == 0 {
		d.fault = core.Field("contents", "must hold at least one part with data")
	}
	if d.fault != nil {
		return nil, d.fault
	}
	if d.system != nil {
		d.c.Messages = append([]core.Message{{Role: core.RoleSystem, Parts: d.system, At: "systemInstruction"}}, d.c.Messages...)
	}
	for i := range d.c.Messages {
		if m := &d.c.Messages[i]; m.Role == core.RoleAssistant {
			m.Parts = joinPieces(m.Parts)
		}
	}
	matchGoogleCalls(d.c.Messages)
	d.onlyAllowed()
	if !d.c.Reasoning.Visible.V { // thoughts come to those who ask for them
		d.c.Shown = core.ShowSeals
	}
	return d.c, nil
}

// googleDecoder walks a body that Parse has read.
type googleDecoder struct {
	cursor
	c       *core.Content
	system  []core.Part
	allowed []core.Quoted // the functions that the model may call
	fault   *core.Error
}

// wrong ends the walk: no method of the cursor gives anything behind it.
func (d *googleDecoder) wrong(at, must string) {
	if d.fault == nil && d.err == nil {
		d.fault = core.Field(at, "%s", must)
	}
	d.fail("not what it must be")
}

// camel is a member's name in the one of its two spellings that Google's
// reference has: snake_case is taken too.
func camel(key []byte) string {
	if bytes.IndexByte(key, '_') < 0 {
		return string(key)
	}
	var b strings.Builder
	up := false
	for i, ch := range key {
		switch {
		case ch == '_':
			up = i > 0 // the SDKs write _responseJsonSchema
		case up && 'a' <= ch && ch <= 'z':
			b.WriteByte(ch - 'a' + 'A')
			up = false
		default:
			b.WriteByte(ch)
			up = false
		}
	}
	return b.String()
}

// fields walks the members of an object at a place; each that is not null goes to
// field, which consumes its value.
func (d *googleDecoder) fields(at string, field func(name string)) {
	if !d.object() {
		d.wrong(at, "must be an object")
	}
	for key := range d.rest {
		if !d.null() {
			field(camel(key))
		}
	}
}

// list walks a list at a place; each element goes to one, which consumes it.
func (d *googleDecoder) list(at string, one func(n int)) {
	if !d.array() {
		d.wrong(at, "must be a list")
	}
	for n := 0; d.element(); n++ {
		one(n)
	}
}

// flag consumes true or false.
func (d *googleDecoder) flag(at string) bool {
	v, ok := d.boolean()
	if !ok {
		d.wrong(at, "must be true or false")
	}
	return v
}

// str consumes a string, or gives nil for null.
func (d *googleDecoder) str(at string) core.Quoted {
	if d.null() {
		return nil
	}
	d.peek()
	from := d.i
	if _, ok := d.text(); !ok {
		d.wrong(at, "must be a string")
		return nil
	}
	return core.Quoted(d.b[from:d.i:d.i]) // what is appended goes elsewhere
}

// strs consumes a list of strings.
func (d *googleDecoder) strs(at string) (all []core.Quoted) {
	d.list(at, func(int) {
		if s := d.str(at); s != nil {
			all = append(all, s)
		} else {
			d.wrong(at, "must be a list of strings")
		}
	})
	return all
}

// other notes a field that no other format has, unless its value says nothing.
func (d *googleDecoder) other(name string, refused bool) {
	switch string(d.value()) {
	case "false", `""`, "{}", "[]":
		return
	}
	d.note(name, refused)
}

func (d *googleDecoder) note(name string, refused bool) {
	d.c.Others = append(d.c.Others, core.OtherField{Name: name, Refused: refused})
}

// request walks the body, or the request inside of a count's.
func (d *googleDecoder) request() {
	d.fields("body", func(name string) {
		switch name {
		case "contents":
			d.list(name, func(n int) { d.content(fmt.Sprintf("contents[%d]", n)) })
		case "systemInstruction":
			_, d.system = d.parts("systemInstruction")
		case "tools":
			d.list(name, func(n int) { d.tool(fmt.Sprintf("tools[%d]", n)) })
		case "toolConfig":
			d.toolConfig()
		case "generationConfig":
			d.config()
		case "generateContentRequest":
			d.request()
		case "model":
			d.skip() // the path has it
		default:
			// A cache holds the beginning of the prompt; all else decorates.
			d.other(name, name == "cachedContent")
		}
	})
}

// content decodes one turn.
func (d *googleDecoder) content(at string) {
	role, parts := d.parts(at)
	m := core.Message{Role: core.RoleUser, Parts: parts, At: at}
	switch role {
	case "model":
		m.Role = core.RoleAssistant
		// The SDKs' chats keep each piece of a stream as a turn of its own.
		if n := len(d.c.Messages); n > 0 && d.c.Messages[n-1].Role == core.RoleAssistant {
			last := &d.c.Messages[n-1]
			last.Parts = append(last.Parts, parts...)
			return
		}
	case "", "user", "function":
	default:
		d.wrong(at+".role", "must be user or model")
	}
	if len(m.Parts) > 0 {
		d.c.Messages = append(d.c.Messages, m)
	}
}

// parts walks a content.
func (d *googleDecoder) parts(at string) (role string, parts []core.Part) {
	d.fields(at, func(name string) {
		switch name {
		case "role":
			role = string(unescape(inner(d.str(at + ".role"))))
		case "parts":
			if d.peek() == '{' { // as Google's servers, one part for a list of one
				parts = d.part(parts, at, 0)
				return
			}
			d.list(at+".parts", func(n int) { parts = d.part(parts, at, n) })
		default:
			d.skip()
		}
	})
	return role, parts
}

// part decodes one part: what it holds, and the seal of it or of the thoughts
// before it.
func (d *googleDecoder) part(parts []core.Part, content string, n int) []core.Part {
	at := func() string { return fmt.Sprintf("%s.parts[%d]", content, n) }
	var p core.Part
	var seal core.Quoted
	holds, thought := false, false
	d.fields(content, func(name string) {
		switch name {
		case "text":
			p.Kind, p.Text, holds = core.PartText, d.str(at()+".text"), true
		case "thought":
			thought = d.flag(at() + ".thought")
		case "thoughtSignature":
			seal = d.str(at() + ".thoughtSignature")
		case "inlineData", "fileData":
			holds = d.file(&p, at()+"."+name)
		case "functionCall":
			d.call(&p, at()+".functionCall")
			holds = true
		case "functionResponse":
			d.response(&p, at()+".functionResponse")
			holds = true
		default: // what ran on Google's side, and how to look at a video
			d.other(name, false)
		}
	})
	sealed := core.Part{Kind: core.PartReasoning, Seal: openSeal(seal, core.FormatGoogle, false, nil)}
	isText := holds && p.Kind == core.PartText
	switch {
	case thought && (isText || seal != nil):
		if len(p.Text) > 2 {
			sealed.Text = p.Text
		}
		return append(parts, sealed)
	case seal != nil && (!holds || isText && len(p.Text) <= 2):
		return append(parts, sealed)
	case seal != nil:
		return append(parts, sealed, p)
	case holds:
		return append(parts, p)
	}
	return parts
}

// file decodes media in place or at an address; false where no other format has
// the like, which is noted.
func (d *googleDecoder) file(p *core.Part, at string) bool {
	var kind, data core.Quoted
	d.fields(at, func(name string) {
		switch name {
		case "mimeType":
			kind = d.str(at + ".mimeType")
		case "data":
			data = d.str(at + ".data")
		case "fileUri":
			p.Media.URL = d.str(at + ".fileUri")
		case "displayName":
			p.Name = d.str(at + ".displayName")
		default:
			d.skip()
		}
	})
	m := &p.Media
	m.Type = strings.ToLower(string(unescape(inner(kind))))
	if m.Base64 = standard64(inner(data)); m.Base64 == nil && m.URL == nil {
		d.wrong(at, "must have data or a fileUri")
	}
	if m.Type == "" && m.URL != nil {
		m.Type = typeByName(string(unescape(inner(m.URL))))
	}
	switch family, _, _ := strings.Cut(m.Type, "/"); {
	case family == "video" || m.URL != nil && !fetchable(m.URL):
		d.note(at, true)
		return false
	case family == "image":
		p.Kind = core.PartImage
	case family == "audio":
		p.Kind = core.PartAudio
	case m.Type == "" && m.Base64 != nil:
		d.wrong(at+".mimeType", "required")
	default:
		p.Kind = core.PartDocument
	}
	if p.Kind != core.PartDocument && len(p.Name) > 2 {
		d.note("displayName", false)
	}
	return true
}

// fetchable tells whether anybody but Google can read an address: neither its
// storage (gs://) nor files given to its API.
func fetchable(address core.Quoted) bool {
	u, err := url.Parse(string(unescape(inner(address))))
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "generativelanguage.googleapis.com"
}

// standard64 is base64 in the alphabet that every format takes; some of Google's
// SDKs write the one for addresses.
func standard64(data []byte) []byte {
	if bytes.IndexByte(data, '-') < 0 && bytes.IndexByte(data, '_') < 0 {
		return data
	}
	out := bytes.ReplaceAll(data, []byte{'-'}, []byte{'+'})
	for i, ch := range out {
		if ch == '_' {
			out[i] = '/'
		}
	}
	return out
}

// typeByName guesses a file's type by the end of its address; "" where it says
// nothing.
func typeByName(address string) string {
	if u, err := url.Parse(address); err == nil {
		address = u.Path
	}
	switch strings.ToLower(address[strings.LastIndexByte(address, '.')+1:]) {
	case "jpg", "jpeg":
		return "image/jpeg"
	case "png":
		return "image/png"
	case "webp":
		return "image/webp"
	case "gif":
		return "image/gif"
	case "heic":
		return "image/heic"
	case "pdf":
		return "application/pdf"
	case "txt":
		return "text/plain"
	case "md":
		return "text/markdown"
	case "html", "htm":
		return "text/html"
	case "csv":
		return "text/csv"
	case "mp3":
		return "audio/mp3"
	case "wav":
		return "audio/wav"
	case "mp4":
		return "video/mp4"
	}
	return ""
}

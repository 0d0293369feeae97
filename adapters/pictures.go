package adapters

import (
	"bytes"
	"strings"

	"headway/core"
)

// Pictures that a model makes (Gemini's image models) stand in each format where
// its clients look for one: chat has a message's images, as OpenRouter gives
// them, Responses has image_generation_call, Google has inlineData. Anthropic has
// none: there it is a text of its own, an image in Markdown. Each is read again
// where it comes back in a later turn.

// pictured tells whether a file is a picture.
func pictured(m *core.Media) bool { return strings.HasPrefix(m.Type, "image/") }

// inWords is an event of a file that a format has no place for: a text that says
// so, as an answer must not seem to lack nothing.
func inWords(e *core.Event) *core.Event {
	kind, where := e.Media.Type, "its data was left out, as the format of this call has no place for it"
	if kind == "" {
		kind = "unknown type"
	}
	if e.Media.Base64 == nil {
		where = string(unescape(inner(e.Media.URL)))
	}
	said := quote("[a file of type " + kind + ": " + where + "]")
	return &core.Event{Kind: core.EventText, Choice: e.Choice, Text: inner(core.Quoted(said))}
}

// appendAddress appends the address of a medium, as it stands in a JSON string: with
// the data itself where that is there.
func appendAddress(b []byte, m *core.Media) []byte {
	if m.Base64 == nil {
		return append(b, inner(m.URL)...)
	}
	b = append(append(b, "data:"...), inner(core.Quoted(quote(m.Type)))...)
	return append(append(b, ";base64,"...), m.Base64...)
}

// markdown is how a picture begins where it is a text.
const markdown = "![image]("

// fromMarkdown makes a text that is one of a model's pictures that part again.
func fromMarkdown(p *core.Part) {
	raw := inner(p.Text)
	if p.Kind != core.PartText || !bytes.HasPrefix(raw, []byte(markdown+"data:image")) {
		return
	}
	said := unescape(raw) // some clients escape slashes
	address, ok := bytes.CutSuffix(said[len(markdown):], []byte{')'})
	if !ok || bytes.ContainsAny(address, "() \"\\\n") {
		return
	}
	if m, ok := dataURL(address); ok && pictured(&m) {
		*p = core.Part{Kind: core.PartImage, Media: m, Cache: p.Cache}
	}
}

package adapters

import "headway/core"

// part writes one part of a list.
func (e *chatEncoder) part(p placed) error {
	kind := ""
	switch p.Kind {
	case core.PartText, core.PartRefusal:
		if len(p.Text) <= 2 {
			return nil
		}
		e.textPart(p.Text, p.Cache)
		return nil
	case core.PartImage:
		kind = "image_url"
	case core.PartDocument:
		if text, ok := documentText(&p.Media); ok {
			e.textPart(text, p.Cache)
			return nil
		}
		kind = e.d.files
	case core.PartAudio:
		kind = "input_audio"
	default:
		return nil // reasoning and calls are an assistant's
	}
	if kind == "" {
		return cannot(p.at, "takes no documents but plain text")
	}
	e.item()
	e.open('{')
	e.key("type")
	e.str(kind)
	e.key(kind)
	if err := e.media(p, kind); err != nil {
		return err
	}
	e.cacheHint(p.Cache)
	e.close('}')
	return nil
}

func (e *chatEncoder) textPart(text core.Quoted, cache string) {
	e.item()
	e.open('{')
	e.key("type")
	e.str("text")
	e.member("text", text)
	e.cacheHint(cache)
	e.close('}')
}

// media writes what a part of a kind holds.
func (e *chatEncoder) media(p placed, kind string) error {
	m := &p.Media
	if m.Base64 == nil && len(m.URL) <= 2 {
		return cannot(p.at, "needs its bytes or its address")
	}
	switch kind {
	case "document_url":
		e.address(m)
		return nil
	case "input_audio":
		format := audioFormat(m.Type)
		if m.Base64 == nil || format == "" {
			return cannot(p.at, "takes sounds as the bytes of a WAV or MP3 alone")
		}
		e.open('{')
		e.key("data")
		e.inner(m.Base64)
		e.key("format")
		e.str(format)
	case "file":
		if m.Base64 == nil && !e.d.fileURLs {
			return cannot(p.at, "takes documents by their bytes alone")
		}
		e.open('{')
		name := p.Name
		if len(name) <= 2 {
			name = core.Quoted(`"document.pdf"`)
		}
		e.member("filename", name)
		e.key("file_data")
		e.address(m)
	default:
		e.open('{')
		e.key("url")
		e.address(m)
		if m.Detail != "" {
			e.key("detail")
			e.str(m.Detail)
		}
	}
	e.close('}')
	return nil
}

// address writes where a medium is: its address, or a data URL with its bytes.
func (e *chatEncoder) address(m *core.Media) {
	e.b = append(appendAddress(append(e.b, '"'), m), '"')
}

// audioFormat is chat completions' word for a type of sound.
func audioFormat(kind string) string {
	switch kind {
	case "audio/wav", "audio/x-wav", "audio/wave":
		return "wav"
	case "audio/mpeg", "audio/mp3":
		return "mp3"
	}
	return ""
}

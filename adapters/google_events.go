package adapters

import (
	"slices"

	"headway/core"
)

// googleVoice is one candidate of an answer whose events are given.
type googleVoice struct {
	choice int
	tools  int         // calls that began
	open   *googleArgs // of the last one, where its arguments come in pieces
	halves halves
}

// mostVoices bounds the candidates of an answer; Google gives eight.
const mostVoices = 128

// Events is what a response of a stream holds.
func (r *googleReader) Events(f *core.Frame) []core.Event {
	if len(f.Data) == 0 {
		return nil
	}
	events, _ := r.happened(f.Data, false)
	return events
}

// WholeEvents is what an unstreamed answer holds.
func (r *googleReader) WholeEvents(body []byte) ([]core.Event, error) { return r.happened(body, true) }

// happened walks a response for its events.
func (r *googleReader) happened(data []byte, whole bool) ([]core.Event, error) {
	r.events, r.scratch = r.events[:0], r.scratch[:0]
	start := -1
	if !r.said {
		r.said, start = true, 0
		r.events = append(r.events, core.Event{Kind: core.EventStart})
	}
	var id, model []byte
	c := walk(data)
	c.object()
	for key := range c.rest {
		switch string(key) {
		case "candidates":
			if !c.array() {
				continue
			}
			for c.element() {
				r.candidate(&c, whole)
			}
		case "promptFeedback":
			var e googleResponse
			if e.feedback(&c); len(e.blocked) > 0 {
				r.happens(core.Event{Kind: core.EventFinish, Finish: core.FinishFilter})
			}
		case "responseId":
			id = textOf(&c)
		case "modelVersion":
			model = textOf(&c)
		case "error":
			if !c.null() {
				return nil, nil // Read has told of it
			}
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	if start == 0 {
		r.events[0].ID, r.events[0].Model = string(unescape(id)), string(unescape(model))
	}
	return r.events, nil
}

func (r *googleReader) happens(e core.Event) { r.events = append(r.events, e) }

// voice gives the state of a candidate, nil for one that cannot be.
func (r *googleReader) voice(index int64) *googleVoice {
	if index < 0 || index >= mostVoices {
		return nil
	}
	for len(r.voices) <= int(index) {
		r.voices = append(r.voices, &googleVoice{choice: len(r.voices)})
	}
	return r.voices[index]
}

// candidate walks one candidate. Its index may stand behind its content, whose
// parts are walked last.
func (r *googleReader) candidate(c *cursor, whole bool) {
	if !c.object() {
		c.skip()
		return
	}
	var content, finish, message []byte
	var index int64
	for key := range c.rest {
		switch string(key) {
		case "content":
			content = c.value()
		case "finishReason":
			finish = textOf(c)
		case "finishMessage":
			message = textOf(c)
		case "index":
			var ok bool
			if index, ok = c.integer(); !ok {
				return
			}
		}
	}
	v := r.voice(index)
	if v == nil || c.err != nil {
		return
	}
	before := len(r.events)
	r.contentEvents(v, content)
	if len(finish) == 0 {
		return
	}
	if v.open != nil {
		r.closeCall(v)
	}
	// Some servers say STOP with every piece. It tells nothing that the end of the
	// answer does not, and a call of a function may follow: it is told only where
	// nothing comes with it.
	why := googleFinish(string(unescape(finish)), v.tools > 0)
	if len(message) > 0 && why == core.FinishStop && string(finish) != "STOP" {
		// No word of another format says that a call went wrong: without its message
		// the answer would be a silent end, often of nothing.
		r.happens(core.Event{Kind: core.EventText, Choice: v.choice, Text: message})
	}
	if whole || len(r.events) == before || why != core.FinishStop && why != core.FinishTools {
		r.happens(core.Event{Kind: core.EventFinish, Choice: v.choice, Finish: why})
	}
}

// googleFinish is a finish reason in no format's words. STOP is said of calls too;
// for what has no word of its own (MALFORMED_FUNCTION_CALL, OTHER …) the answer is
// over, that is all.
func googleFinish(reason string, tools bool) core.Finish {
	switch reason {
	case "MAX_TOKENS":
		return core.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return core.FinishFilter
	}
	if tools {
		return core.FinishTools
	}
	return core.FinishStop
}

func (r *googleReader) contentEvents(v *googleVoice, content []byte) {
	c := walk(content)
	for key := range c.each {
		if string(key) != "parts" || !c.array() {
			continue
		}
		for c.element() {
			r.partEvents(v, &c)
		}
	}
}

// partEvents walks one part. Code that ran and its results have no place in other
// formats; a signature of theirs goes with them. Pictures among the thoughts are
// drafts of the one that follows.
func (r *googleReader) partEvents(v *googleVoice, c *cursor) {
	if !c.object() {
		c.skip()
		return
	}
	var text, call []byte
	var file *core.Media
	var seal core.Quoted
	thought, other := false, false
	for key := range c.rest {
		switch string(key) {
		case "text":
			text = textOf(c)
		case "thought":
			thought, _ = c.boolean()
		case "thoughtSignature":
			if v := c.value(); len(v) > 2 && v[0] == '"' {
				seal = core.Quoted(v)
			}
		case "functionCall":
			call = c.value()
		case "inlineData", "fileData":
			file = givenFile(c)
		default:
			c.skip()
			other = true
		}
	}
	if text == nil && call == nil && file == nil && other || c.err != nil {
		return
	}
	kind := core.EventText
	if thought {
		kind = core.EventReasoning
	}
	if text = v.halves.whole(half{kind: kind}, text); len(text) > 0 {
		r.happens(core.Event{Kind: kind, Choice: v.choice, Text: text})
	}
	if seal != nil { // before the call or the file that it came with, behind the text
		r.happens(core.Event{Kind: core.EventSeal, Choice: v.choice, Seal: core.Seal{Origin: core.FormatGoogle, Text: seal}})
	}
	if file != nil && !thought {
		r.happens(core.Event{Kind: core.EventMedia, Choice: v.choice, Media: file})
	}
	if call != nil {
		r.callEvents(v, call)
	}
}

// givenFile consumes a file of an answer; nil for one that holds nothing.
func givenFile(c *cursor) *core.Media {
	var m core.Media
	for key := range c.given {
		switch string(key) {
		case "mimeType":
			m.Type = c.word()
		case "data":
			m.Base64 = standard64(textOf(c))
		case "fileUri":
			m.URL = c.quoted()
		}
	}
	if len(m.Base64) == 0 && len(m.URL) <= 2 {
		return nil
	}
	return &m
}

// callEvents tells of a function call: a whole one, or a piece of one. An empty
// one ends the one under way.
func (r *googleReader) callEvents(v *googleVoice, call []byte) {
	var id, name, args, pieces []byte
	goesOn := false
	c := walk(call)
	c.object()
	for key := range c.rest {
		switch string(key) {
		case "id":
			id = textOf(&c)
		case "name":
			name = textOf(&c)
		case "args":
			args = c.value()
		case "partialArgs":
			pieces = c.value()
		case "willContinue":
			goesOn, _ = c.boolean()
		}
	}
	if c.err != nil {
		return
	}
	if len(name) > 0 {
		if v.open != nil {
			r.closeCall(v)
		}
		e := core.Event{Kind: core.EventTool, Choice: v.choice, Index: v.tools, ID: string(unescape(id)), Name: string(unescape(name))}
		if e.ID == "" {
			e.ID = callID()
		}
		v.tools++
		r.happens(e)
		if !goesOn && pieces == nil {
			r.arguments(v, args)
			return
		}
		v.open = &googleArgs{into: map[string]any{}}
	}
	if v.open == nil {
		return
	}
	var list any
	if pieces != nil && decode(pieces, &list) == nil {
		v.open.add(map[string]any{"partialArgs": list})
	}
	if !goesOn {
		r.closeCall(v)
	}
}

// closeCall gives the arguments of a call that came in pieces.
func (r *googleReader) closeCall(v *googleVoice) {
	if v.open.root != nil {
		r.arguments(v, encode(v.open.root))
	}
	v.open = nil
}

// arguments tells of the arguments of the last call.
func (r *googleReader) arguments(v *googleVoice, args []byte) {
	from := len(r.scratch)
	r.scratch = appendPlain(r.scratch, args)
	if text := r.scratch[from:]; len(text) > len("{}") && string(text) != "null" {
		r.happens(core.Event{Kind: core.EventArguments, Choice: v.choice, Index: v.tools - 1, Text: slices.Clip(text)})
	}
}

// appendPlain appends JSON as it stands in a JSON string, without the white space
// between its parts.
func appendPlain(dst, v []byte) []byte {
	for inside, i := false, 0; i < len(v); i++ {
		switch ch := v[i]; {
		case ch == '"':
			inside = !inside
			dst = append(dst, '\\', '"')
		case ch == '\\': // in a text, with what it escapes
			dst = append(dst, '\\', '\\')
			if i++; i < len(v) {
				if v[i] == '"' || v[i] == '\\' {
					dst = append(dst, '\\')
				}
				dst = append(dst, v[i])
			}
		case inside || ch > ' ':
			dst = append(dst, ch)
		}
	}
	return dst
}

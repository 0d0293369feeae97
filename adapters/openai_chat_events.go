package adapters

import (
	"cmp"

	"headway/core"
)

// chatEvents is what a reader knows of an answer that goes to a client of
// another format.
type chatEvents struct {
	started bool
	failed  bool // the chunk holds an error
	choices []chatTrack
	out     []core.Event
	halves  halves

	// Most chunks are like one before but for their one piece of output: then
	// they are for the same choice as that one.
	choice int // of the chunk that was walked last
	like   alike
	one    [1]core.Event
}

// chatTrack is what is known of one choice.
type chatTrack struct {
	index    int
	calls    []chatCall
	thinking bool // its last piece was reasoning, which is not sealed yet
	refused  bool
}

// chatCall is one tool call under way.
type chatCall struct {
	id    string
	held  []byte // arguments that came before its name
	index core.Opt[int64]
	named bool
}

// Events is what the chunk that was read last holds (SPEC §13).
func (r *chatReader) Events(f *core.Frame) []core.Event {
	e := &r.events
	piece, ok := r.last.piece(f.Data)
	if ok && r.last == e.like {
		return e.alike(piece)
	}
	e.like = alike{}
	if len(f.Data) == 0 || f.Name == "error" {
		return nil
	}
	e.chunk(f.Data, false)
	if ok {
		e.like = r.last
	}
	return e.out
}

// WholeEvents is what an unstreamed answer holds.
func (r *chatReader) WholeEvents(body []byte) ([]core.Event, error) {
	r.events.chunk(body, true)
	return r.events.out, nil
}

// alike gives the events of a chunk that holds one piece and is known by what is
// around it.
func (e *chatEvents) alike(piece []byte) []core.Event {
	kind := core.EventText
	if e.like.mark == core.MarkReasoning {
		kind = core.EventReasoning
	}
	t := e.track(e.choice)
	if t.thinking != (kind == core.EventReasoning) || e.halves.any() || cutShort(piece) > 0 || isLowHalf(piece) {
		e.out = e.out[:0]
		e.said(t, kind, piece)
		return e.out
	}
	e.one[0] = core.Event{Kind: kind, Choice: e.choice, Text: piece}
	return e.one[:]
}

// track is what is known of a choice.
func (e *chatEvents) track(index int) *chatTrack {
	for i := range e.choices {
		if e.choices[i].index == index {
			return &e.choices[i]
		}
	}
	e.choices = append(e.choices, chatTrack{index: index})
	return &e.choices[len(e.choices)-1]
}

// seal notes the end of reasoning: a seal of nothing that says whose it is, so
// that it goes back to this format alone.
func (e *chatEvents) seal(t *chatTrack) {
	if t.thinking {
		t.thinking = false
		e.out = append(e.out, core.Event{
			Kind: core.EventSeal, Choice: t.index, Seal: core.Seal{Origin: core.FormatOpenAI, Text: core.Quoted(`""`)},
		})
	}
}

// said adds a piece of output.
func (e *chatEvents) said(t *chatTrack, kind core.EventKind, piece []byte) {
	if piece = e.halves.whole(half{t.index, 0, kind}, piece); len(piece) == 0 {
		return
	}
	if kind == core.EventReasoning {
		t.thinking = true
	} else {
		e.seal(t)
	}
	t.refused = t.refused || kind == core.EventRefusal
	e.out = append(e.out, core.Event{Kind: kind, Choice: t.index, Text: piece})
}

// chunk takes a chunk, or a whole answer, whose choices have a message in the
// place of a delta.
func (e *chatEvents) chunk(data []byte, whole bool) {
	e.out, e.failed = e.out[:0], false
	if !e.started { // its place is the first, though it is known last
		e.out = append(e.out, core.Event{Kind: core.EventStart})
	}
	var id, model string
	c := walk(data)
	if !c.object() {
		e.out = e.out[:0]
		return
	}
	for key := range c.rest {
		switch string(key) {
		case "id":
			id = c.startText(e.started)
		case "model":
			model = c.startText(e.started)
		case "choices":
			if !c.array() {
				continue
			}
			for c.element() {
				e.part(&c, whole)
			}
		case "error":
			if !c.null() {
				e.failed = true
				c.skip()
			}
		}
	}
	switch {
	case e.failed || c.end() != nil:
		e.out = e.out[:0]
	case e.started:
	case id == "" && len(e.out) == 1: // filters come before the answer (Azure)
		e.out = e.out[:0]
	default:
		e.started = true
		e.out[0].ID, e.out[0].Model = id, model
	}
}

// startText consumes a text of the answer's start, for nothing where that is past.
func (c *cursor) startText(past bool) string {
	if past {
		c.skip()
		return ""
	}
	return c.word()
}

// parts takes a content list: text, or thinking with parts of its own (Mistral).
func (e *chatEvents) parts(t *chatTrack, c *cursor, kind core.EventKind) {
	for c.array(); c.element(); {
		if !c.object() {
			c.skip()
			continue
		}
		for key := range c.rest {
			switch string(key) {
			case "text":
				if raw, ok := c.text(); ok {
					e.said(t, kind, raw)
				} else {
					c.skip()
				}
			case "thinking":
				if raw, ok := c.text(); ok {
					e.said(t, core.EventReasoning, raw)
				} else if c.peek() == '[' {
					e.parts(t, c, core.EventReasoning)
				} else {
					c.skip()
				}
			}
		}
	}
}

// images takes the pictures that a model made.
func (e *chatEvents) images(t *chatTrack, list []byte) {
	c := walk(list)
	for c.array(); c.element(); {
		var address core.Quoted
		for key := range c.given {
			if string(key) != "image_url" {
				continue
			}
			if c.peek() == '"' {
				address = c.quoted()
				continue
			}
			for key := range c.given {
				if string(key) == "url" {
					address = c.quoted()
				}
			}
		}
		m, ok := dataURL(inner(address))
		if !ok {
			m = core.Media{Type: cmp.Or(typeByName(string(unescape(inner(address)))), "image/*"), URL: address}
		}
		if len(address) > 2 {
			e.seal(t)
			e.out = append(e.out, core.Event{Kind: core.EventMedia, Choice: t.index, Media: &m})
		}
	}
}

// details takes reasoning_details for what seals the reasoning; what it says of
// the text stands in reasoning too.
func (e *chatEvents) details(t *chatTrack, list []byte) {
	c := walk(list)
	for c.array(); c.element(); {
		if c.peek() != '{' {
			c.skip()
			continue
		}
		detail := c.value()
		if seal, ok := detailSeal(detail); ok {
			t.thinking = false
			e.out = append(e.out, core.Event{Kind: core.EventSeal, Choice: t.index, Seal: seal})
		}
	}
}

// detailSeal is the seal that an entry of reasoning_details is: the entry itself
// without its text.
func detailSeal(detail []byte) (core.Seal, bool) {
	var t text
	sealed, encrypted := false, false
	t.open('{')
	c := walk(detail)
	for key := range c.each {
		v := c.value()
		switch string(key) {
		case "text":
			continue
		case "signature":
			sealed = sealed || len(v) > 2 && v[0] == '"'
		case "data":
			encrypted = encrypted || len(v) > 2 && v[0] == '"'
		}
		if len(t.b) > 1 {
			t.b = append(t.b, ',')
		}
		t.str(string(key))
		t.b = append(t.b, ':')
		t.raw(v)
	}
	t.close('}')
	if !sealed && !encrypted {
		return core.Seal{}, false
	}
	return core.Seal{Origin: core.FormatOpenAI, Text: requote(escapeJSON(t.b)), Encrypted: encrypted}, true
}

// finish adds the end of a choice.
func (e *chatEvents) finish(t *chatTrack, reason string, stop core.Quoted) {
	e.seal(t)
	for i := range t.calls {
		t.calls[i].held = nil
	}
	f := core.Event{Kind: core.EventFinish, Choice: t.index, Finish: chatFinish(reason)}
	switch {
	case f.Finish == core.FinishStop && t.refused:
		f.Finish = core.FinishRefusal
	case f.Finish == core.FinishStop && len(t.calls) > 0:
		f.Finish = core.FinishTools
	case f.Finish == core.FinishTools && len(t.calls) == 0:
		f.Finish = core.FinishStop
	}
	if f.Finish == core.FinishStop && reason == "stop" && len(stop) > 2 {
		f.StopText = stop
	}
	e.out = append(e.out, f)
}

// chatFinish is what a server's finish reason says.
func chatFinish(reason string) core.Finish {
	switch reason {
	case "length", "max_tokens", "model_length", "max_output_tokens", "insufficient_system_resource", "network_error", "abort":
		return core.FinishLength
	case "tool_calls", "function_call", "tool_use", "tool_call":
		return core.FinishTools
	case "content_filter", "safety", "sensitive", "SAFETY":
		return core.FinishFilter
	case "refusal":
		return core.FinishRefusal
	}
	return core.FinishStop
}

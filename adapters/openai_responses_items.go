package adapters

import (
	"slices"
	"strconv"
	"strings"

	"headway/core"
)

// eventRoom is about how long an event is but for what it says.
const eventRoom = 320

// itemID appends the id of the item at a place of the output.
func (t *responsesTranslator) itemID(b []byte, prefix string, at int) []byte {
	return strconv.AppendInt(concat(b, prefix, "_", t.random), int64(at), 16)
}

// within writes the members that say which item an event belongs to, and which of
// its parts where index names one.
func (t *responsesTranslator) within(out *text, prefix string, at int, index string, part int) {
	out.key("item_id")
	out.b = append(t.itemID(append(out.b, '"'), prefix, at), '"')
	out.key("output_index")
	out.int(int64(at))
	if index != "" {
		out.key(index)
		out.int(int64(part))
	}
}

// place takes the next place of the output.
func (t *responsesTranslator) place() int {
	t.items = append(t.items, nil)
	return len(t.items) - 1
}

// added tells that an item begins.
func (t *responsesTranslator) added(out *text, at int, item func(*text)) {
	if !t.job.Streamed {
		return
	}
	t.event(out, "response.output_item.added")
	out.key("output_index")
	out.int(int64(at))
	out.key("item")
	item(out)
	t.sent(out)
}

// done keeps a whole item and tells that it ended.
func (t *responsesTranslator) done(out *text, at int, item func(*text)) {
	var whole text
	item(&whole)
	t.items[at] = whole.b
	if !t.job.Streamed {
		return
	}
	t.event(out, "response.output_item.done")
	out.key("output_index")
	out.int(int64(at))
	out.key("item")
	out.raw(whole.b)
	t.sent(out)
}

// status is how an item ended: the last one of an answer that stopped short did
// not get to its own end.
func (t *responsesTranslator) status(at int) string {
	if t.failed && at == len(t.items)-1 {
		return "incomplete"
	}
	return "completed"
}

// message writes a message.
func (t *responsesTranslator) message(out *text, at int, status string, parts []byte) {
	out.b = append(t.itemID(append(out.b, `{"id":"`...), "msg", at), `","type":"message","role":"assistant"`...)
	out.key("status")
	out.str(status)
	out.key("content")
	out.open('[')
	out.raw(parts)
	out.b = append(out.b, "]}"...)
}

// text takes a piece of text or of a refusal.
func (t *responsesTranslator) text(out *text, e *core.Event) {
	if len(e.Text) == 0 {
		return
	}
	if t.open.kind != core.EventText {
		t.close(out)
		t.open = openItem{kind: core.EventText, at: t.place()}
		t.added(out, t.open.at, func(out *text) { t.message(out, t.open.at, "in_progress", nil) })
	}
	t.declined = t.declined || e.Kind == core.EventRefusal
	if t.open.part != e.Kind {
		t.closePart(out)
		t.open.part = e.Kind
		if t.job.Streamed {
			t.event(out, "response.content_part.added")
			t.within(out, "msg", t.open.at, "content_index", t.nparts)
			out.key("part")
			messagePart(out, e.Kind, nil)
			t.sent(out)
		}
	}
	t.said = append(t.said, e.Text...)
	if !t.job.Streamed {
		return
	}
	out.b = slices.Grow(out.b, eventRoom+len(e.Text))
	if e.Kind == core.EventRefusal {
		t.event(out, "response.refusal.delta")
	} else {
		t.event(out, "response.output_text.delta")
	}
	t.within(out, "msg", t.open.at, "content_index", t.nparts)
	out.key("delta")
	out.inner(e.Text)
	if e.Kind == core.EventText {
		out.b = append(out.b, `,"logprobs":[]`...)
	}
	t.sent(out)
}

// messagePart writes a part of a message.
func messagePart(out *text, kind core.EventKind, said []byte) {
	if kind == core.EventRefusal {
		out.b = append(out.b, `{"type":"refusal","refusal":`...)
		out.inner(said)
		out.close('}')
		return
	}
	out.b = append(out.b, `{"type":"output_text","text":`...)
	out.inner(said)
	out.b = append(out.b, `,"annotations":[],"logprobs":[]}`...)
}

// closePart ends the open part of a message.
func (t *responsesTranslator) closePart(out *text) {
	kind := t.open.part
	if kind == core.EventStart {
		return
	}
	t.open.part = core.EventStart
	if t.job.Streamed {
		if kind == core.EventRefusal {
			t.event(out, "response.refusal.done")
		} else {
			t.event(out, "response.output_text.done")
		}
		t.within(out, "msg", t.open.at, "content_index", t.nparts)
		if kind == core.EventRefusal {
			out.key("refusal")
			out.inner(t.said)
		} else {
			out.key("text")
			out.inner(t.said)
			out.b = append(out.b, `,"logprobs":[]`...)
		}
		t.sent(out)
		t.event(out, "response.content_part.done")
		t.within(out, "msg", t.open.at, "content_index", t.nparts)
		out.key("part")
		messagePart(out, kind, t.said)
		t.sent(out)
	}
	parts := text{t.parts}
	if t.nparts++; len(t.parts) > 0 {
		parts.b = append(parts.b, ',')
	}
	messagePart(&parts, kind, t.said)
	t.parts, t.said = parts.b, t.said[:0]
}

// thought writes a reasoning item.
func (t *responsesTranslator) thought(out *text, at int, said []byte, seal *core.Seal) {
	out.b = append(t.itemID(append(out.b, `{"id":"`...), "rs", at), `","type":"reasoning","summary":[`...)
	if len(said) > 0 {
		summaryPart(out, said)
	}
	out.close(']')
	if seal != nil {
		out.key("encrypted_content")
		out.inner(wrapSeal(*seal))
	}
	out.close('}')
}

func summaryPart(out *text, said []byte) {
	out.b = append(out.b, `{"type":"summary_text","text":`...)
	out.inner(said)
	out.close('}')
}

// reasoning takes a piece of reasoning: the text of an item's one summary.
func (t *responsesTranslator) reasoning(out *text, e *core.Event) {
	if len(e.Text) == 0 {
		return
	}
	if t.open.kind != core.EventReasoning {
		t.close(out)
		t.open = openItem{kind: core.EventReasoning, at: t.place()}
		t.added(out, t.open.at, func(out *text) { t.thought(out, t.open.at, nil, nil) })
		if t.job.Streamed {
			t.event(out, "response.reasoning_summary_part.added")
			t.within(out, "rs", t.open.at, "summary_index", 0)
			out.key("part")
			summaryPart(out, nil)
			t.sent(out)
		}
	}
	t.said = append(t.said, e.Text...)
	if !t.job.Streamed {
		return
	}
	out.b = slices.Grow(out.b, eventRoom+len(e.Text))
	t.event(out, "response.reasoning_summary_text.delta")
	t.within(out, "rs", t.open.at, "summary_index", 0)
	out.key("delta")
	out.inner(e.Text)
	t.sent(out)
}

// seal ends the reasoning that it belongs to, or is an item of its own: before
// the tool call that it belongs to.
func (t *responsesTranslator) seal(out *text, s *core.Seal) {
	if t.open.kind == core.EventReasoning {
		t.closeReasoning(out, s)
		return
	}
	t.close(out)
	at := t.place()
	t.added(out, at, func(out *text) { t.thought(out, at, nil, nil) })
	t.done(out, at, func(out *text) { t.thought(out, at, nil, s) })
}

func (t *responsesTranslator) closeReasoning(out *text, s *core.Seal) {
	at, said := t.open.at, t.said
	if t.job.Streamed {
		t.event(out, "response.reasoning_summary_text.done")
		t.within(out, "rs", at, "summary_index", 0)
		out.key("text")
		out.inner(said)
		t.sent(out)
		t.event(out, "response.reasoning_summary_part.done")
		t.within(out, "rs", at, "summary_index", 0)
		out.key("part")
		summaryPart(out, said)
		t.sent(out)
	}
	t.done(out, at, func(out *text) { t.thought(out, at, said, s) })
	t.open, t.said = openItem{}, t.said[:0]
}

// image writes a picture, an item of its own. What was open is over.
func (t *responsesTranslator) image(out *text, m *core.Media) {
	t.close(out)
	at := t.place()
	item := func(out *text, status string, data []byte) {
		out.b = append(t.itemID(append(out.b, `{"id":"`...), "ig", at), `","type":"image_generation_call"`...)
		out.key("status")
		out.str(status)
		out.key("output_format")
		out.str(strings.TrimPrefix(m.Type, "image/"))
		out.key("result")
		if data == nil {
			out.raw([]byte("null"))
		} else {
			out.inner(data)
		}
		out.close('}')
	}
	t.added(out, at, func(out *text) { item(out, "in_progress", nil) })
	if t.job.Streamed {
		for _, kind := range []string{"response.image_generation_call.in_progress", "response.image_generation_call.completed"} {
			t.event(out, kind)
			t.within(out, "ig", at, "", 0)
			t.sent(out)
		}
	}
	t.done(out, at, func(out *text) { item(out, "completed", m.Base64) })
}

// close ends the open item.
func (t *responsesTranslator) close(out *text) {
	switch t.open.kind {
	case core.EventReasoning:
		t.closeReasoning(out, &core.Seal{}) // by which a provider of the API is told from whose it is
	case core.EventText:
		t.closePart(out)
		at := t.open.at
		t.done(out, at, func(out *text) { t.message(out, at, t.status(at), t.parts) })
		t.open, t.parts, t.nparts = openItem{}, t.parts[:0], 0
	}
}

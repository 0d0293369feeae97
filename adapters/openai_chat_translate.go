package adapters

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"headway/core"
)

// Translator writes chat completions.
func (Chat) Translator(job *core.Job, at time.Time) core.Translator {
	return &chatTranslator{job: job, at: at, old: calledOld(job.Body)}
}

// chatTranslator is an answer on its way to a chat client.
type chatTranslator struct {
	job     *core.Job
	at      time.Time
	old     bool // tools were given as functions: the answer has a function_call
	id      string
	head    []byte // of every chunk, up to its choice's index
	choices []chatAnswer
	ended   bool
}

// chatAnswer is one choice under way.
type chatAnswer struct {
	index  int
	begun  bool // the role was written
	finish core.Finish
	calls  []chatAnswerCall

	// seal waits for what follows it: a tool call that it belongs to, or not.
	seal    core.Seal
	sealed  bool
	thought int  // bytes of reasoning so far, as text
	blocks  int  // of reasoning that are sealed
	from    int  // where the block of reasoning under way began
	refused bool // there is text of a refusal

	// What an unstreamed answer is made of; text is escaped.
	content, reasoning, refusal []byte
	details                     [][]byte // entries of reasoning_details
	images                      [][]byte // likewise
	pictures                    int
}

// chatAnswerCall is one tool call.
type chatAnswerCall struct {
	index     int // the event's
	id, name  string
	extra     []byte
	argued    bool
	arguments []byte
}

// calledOld tells whether a request has functions in the place of tools.
func calledOld(body []byte) bool {
	if !bytes.Contains(body, []byte(`"functions"`)) {
		return false
	}
	c := walk(body)
	for key := range c.each {
		if string(key) == "functions" && c.peek() == '[' {
			return true
		}
	}
	return false
}

// Event takes one step of the answer.
func (w *chatTranslator) Event(dst []byte, e *core.Event) []byte {
	switch {
	case w.ended:
		return dst
	case e.Kind == core.EventStart:
		w.id = e.ID
		return dst
	}
	if e.Kind == core.EventMedia && !pictured(e.Media) {
		e = inWords(e)
	}
	a := w.choice(e.Choice)
	if a.sealed && e.Kind != core.EventTool {
		dst = w.unseal(dst, a)
	}
	switch e.Kind {
	case core.EventText:
		return w.say(dst, a, `"content":"`, e.Text, &a.content)
	case core.EventReasoning:
		a.thought += textLen(e.Text)
		return w.say(dst, a, `"reasoning_content":"`, e.Text, &a.reasoning)
	case core.EventRefusal:
		a.refused = true
		return w.say(dst, a, `"refusal":"`, e.Text, &a.refusal)
	case core.EventMedia:
		return w.image(dst, a, e.Media)
	case core.EventSeal:
		// Its text is the event's, which goes with the frame.
		a.sealed, a.seal = true, e.Seal
		a.seal.Text, a.seal.ID = bytes.Clone(e.Seal.Text), bytes.Clone(e.Seal.ID)
		if a.thought > a.from { // it is that of reasoning
			return w.unseal(dst, a)
		}
	case core.EventTool:
		return w.tool(dst, a, e)
	case core.EventArguments:
		return w.argue(dst, a, e)
	case core.EventFinish:
		if a.finish == "" {
			a.finish = e.Finish
		}
	}
	return dst
}

// choice is the answer under way with an index.
func (w *chatTranslator) choice(index int) *chatAnswer {
	for i := range w.choices {
		if w.choices[i].index == index {
			return &w.choices[i]
		}
	}
	w.choices = append(w.choices, chatAnswer{index: index})
	return &w.choices[len(w.choices)-1]
}

// say writes a piece of text as a delta with one member, or keeps it.
func (w *chatTranslator) say(dst []byte, a *chatAnswer, member string, piece []byte, keep *[]byte) []byte {
	if len(piece) == 0 {
		return dst
	}
	if !w.job.Streamed {
		*keep = append(*keep, piece...)
		return dst
	}
	dst = w.delta(dst, a, len(member)+len(piece))
	dst = append(append(append(dst, member...), piece...), '"')
	return w.close(dst, "null")
}

// image writes a picture as an entry of the message's images, or keeps it.
func (w *chatTranslator) image(dst []byte, a *chatAnswer, m *core.Media) []byte {
	t := text{make([]byte, 0, len(m.Base64)+len(m.URL)+128)}
	t.raw([]byte(`{"type":"image_url","image_url":{"url":"`))
	t.b = appendAddress(t.b, m)
	t.raw([]byte(`"}`))
	t.key("index")
	t.int(int64(a.pictures))
	t.close('}')
	a.pictures++
	if !w.job.Streamed {
		a.images = append(a.images, t.b)
		return dst
	}
	dst = w.delta(dst, a, len(t.b)+16)
	dst = append(append(append(dst, `"images":[`...), t.b...), ']')
	return w.close(dst, "null")
}

// delta begins a chunk with room for so many bytes of a delta. The first of a
// choice has the role.
func (w *chatTranslator) delta(dst []byte, a *chatAnswer, room int) []byte {
	if w.head == nil {
		w.head = w.makeHead()
	}
	dst = slices.Grow(dst, len(w.head)+room+128)
	dst = append(dst, w.head...)
	dst = strconv.AppendInt(dst, int64(a.index), 10)
	dst = append(dst, `,"delta":{`...)
	if !a.begun {
		a.begun = true
		dst = append(dst, `"role":"assistant",`...)
	}
	return dst
}

// close ends a chunk of one choice.
func (w *chatTranslator) close(dst []byte, finish string) []byte {
	if n := len(dst); dst[n-1] == ',' { // the role was all
		dst = dst[:n-1]
	}
	dst = append(dst, `},"logprobs":null,"finish_reason":`...)
	dst = append(dst, finish...)
	dst = append(dst, `}]`...)
	if w.job.AskedUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

func (w *chatTranslator) makeHead() []byte {
	var t text
	t.raw([]byte("data: "))
	w.top(&t, "chat.completion.chunk")
	t.key("choices")
	t.open('[')
	t.open('{')
	t.key("index")
	return t.b
}

// top writes what chunks and whole answers begin with.
func (w *chatTranslator) top(t *text, object string) {
	if w.id == "" {
		w.id = madeName("chatcmpl-")
	}
	t.open('{')
	t.key("id")
	t.str(w.id)
	t.key("object")
	t.str(object)
	t.key("created")
	t.int(w.at.Unix())
	t.key("model")
	t.str(string(w.job.Model))
}

// unseal writes the seal of a block of reasoning, which is complete with it.
func (w *chatTranslator) unseal(dst []byte, a *chatAnswer) []byte {
	var t text
	t.open('{')
	t.key("type")
	t.str("reasoning.encrypted")
	t.key("format")
	t.str("headway")
	t.key("index")
	t.int(int64(a.blocks))
	t.key("data")
	t.open('"')
	if a.blocks > 0 {
		t.open('@')
		t.int(int64(a.from))
		t.open(':')
	}
	t.raw(wrapSeal(a.seal))
	t.open('"')
	t.close('}')
	a.blocks, a.from, a.sealed = a.blocks+1, a.thought, false
	if !w.job.Streamed {
		a.details = append(a.details, t.b)
		return dst
	}
	dst = w.delta(dst, a, len(t.b)+24)
	dst = append(append(append(dst, `"reasoning_details":[`...), t.b...), ']')
	return w.close(dst, "null")
}

// tool begins a tool call.
func (w *chatTranslator) tool(dst []byte, a *chatAnswer, e *core.Event) []byte {
	call := chatAnswerCall{index: e.Index, id: e.ID, name: e.Name}
	if call.id == "" {
		call.id = callID()
	}
	if a.sealed {
		a.sealed = false
		call.extra = slices.Concat([]byte(`{"google":{"thought_signature":"`), wrapSeal(a.seal), []byte(`"}}`))
	}
	a.calls = append(a.calls, call)
	if !w.job.Streamed || w.old && len(a.calls) > 1 { // a function_call is one
		return dst
	}
	dst = w.delta(dst, a, 128)
	t := text{dst}
	if len(a.content) == 0 && bytes.HasSuffix(dst, []byte(`"role":"assistant",`)) {
		t.raw([]byte(`"content":null,`))
	}
	if w.old {
		t.raw([]byte(`"function_call":{"name":`))
		t.str(call.name)
		t.raw([]byte(`,"arguments":""}`))
		return w.close(t.b, "null")
	}
	t.raw([]byte(`"tool_calls":[{"index":`))
	t.int(int64(len(a.calls) - 1))
	t.raw([]byte(`,"id":`))
	t.str(call.id)
	t.raw([]byte(`,"type":"function","function":{"name":`))
	t.str(call.name)
	t.raw([]byte(`,"arguments":""}`))
	t.member("extra_content", call.extra)
	t.raw([]byte(`}]`))
	return w.close(t.b, "null")
}

// argue takes a piece of a tool call's arguments.
func (w *chatTranslator) argue(dst []byte, a *chatAnswer, e *core.Event) []byte {
	for i := len(a.calls) - 1; i >= 0; i-- {
		call := &a.calls[i]
		if call.index != e.Index || len(e.Text) == 0 {
			continue
		}
		call.argued = true
		if !w.job.Streamed {
			call.arguments = append(call.arguments, e.Text...)
			return dst
		}
		return w.arguments(dst, a, i, e.Text)
	}
	return dst
}

// arguments writes a piece of the arguments of a choice's call.
func (w *chatTranslator) arguments(dst []byte, a *chatAnswer, i int, piece []byte) []byte {
	if w.old && i > 0 {
		return dst
	}
	dst = w.delta(dst, a, len(piece)+64)
	if w.old {
		dst = append(dst, `"function_call":{"arguments":"`...)
		dst = append(append(dst, piece...), `"}`...)
		return w.close(dst, "null")
	}
	dst = append(dst, `"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, `,"function":{"arguments":"`...)
	dst = append(append(dst, piece...), `"}}]`...)
	return w.close(dst, "null")
}

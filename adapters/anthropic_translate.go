package adapters

import (
	"slices"
	"time"

	"headway/core"
)

// Translator writes an upstream's answer as a message, or as the stream of one.
func (Anthropic) Translator(job *core.Job, _ time.Time) core.Translator {
	return &messagesTranslator{model: job.Model, streamed: job.Streamed}
}

// messagesTranslator writes one answer. A message is a list of blocks of which
// one is open at a time (case 031): what comes for another one while the
// arguments of a tool call are not complete waits behind it.
type messagesTranslator struct {
	model    core.Model
	streamed bool
	started  bool
	ended    bool
	id       string

	open    bool // a block is
	index   int  // blocks begun so far; the open one is the last
	block   writtenBlock
	waiting []writtenBlock

	tools   int
	refused bool
	finish  core.Finish
	stop    core.Quoted // the stop sequence that ended the answer

	content text // of an unstreamed message
}

// writtenBlock is one block of the message.
type writtenBlock struct {
	kind     core.EventKind // EventText, EventReasoning, EventTool; EventSeal for what is encrypted, EventMedia for a picture as text
	id, name string         // of a tool call
	call     int            // its number
	args     jsonEnd
	text     []byte // pieces so far, where they wait or no stream was asked for
	seal     []byte // between quotes
}

// Event appends what the client gets for an event. Another answer than the first
// (n) has no place in a message.
func (t *messagesTranslator) Event(dst []byte, e *core.Event) []byte {
	if e.Choice != 0 || t.ended {
		return dst
	}
	if e.Kind == core.EventStart && t.id == "" {
		t.id = e.ID
	}
	if !t.started {
		t.started = true
		dst = t.start(dst)
	}
	switch e.Kind {
	case core.EventText, core.EventReasoning:
		return t.piece(dst, e.Kind, e.Text)
	case core.EventRefusal:
		t.refused = t.refused || len(e.Text) > 0
		return t.piece(dst, core.EventText, e.Text)
	case core.EventSeal:
		return t.sealed(dst, &e.Seal)
	case core.EventTool:
		t.tools++
		id := e.ID
		if id == "" {
			id = madeName("toolu_")
		}
		return t.begin(dst, writtenBlock{kind: core.EventTool, id: id, name: e.Name, call: e.Index})
	case core.EventArguments:
		return t.arguments(dst, e.Index, e.Text)
	case core.EventMedia:
		if !pictured(e.Media) {
			return t.piece(dst, core.EventText, inWords(e).Text)
		}
		said := make([]byte, 0, len(e.Media.Base64)+len(e.Media.URL)+64)
		said = append(appendAddress(append(said, markdown...), e.Media), ')')
		return t.begin(dst, writtenBlock{kind: core.EventMedia, text: said})
	case core.EventFinish:
		if t.finish == "" {
			t.finish = e.Finish
		}
		if e.StopText != nil {
			t.stop = slices.Clone(e.StopText)
		}
	}
	return dst
}

// End appends the end of the message, or all of it.
func (t *messagesTranslator) End(dst []byte, a *core.Answer) []byte {
	if t.ended {
		return dst
	}
	if !t.started {
		t.started = true
		dst = t.start(dst)
	}
	for t.open {
		dst = t.close(dst)
	}
	t.ended = true
	if !t.streamed {
		return t.whole(dst, a)
	}
	w := text{append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)}
	t.reason(&w)
	w.b = append(w.b, `},"usage":{`...)
	t.usage(&w, &a.Usage, false)
	return append(w.b, "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// start writes message_start. Nothing of the usage is known then: message_delta
// has all of it.
func (t *messagesTranslator) start(dst []byte) []byte {
	if t.id == "" {
		t.id = madeName("msg_")
	}
	if !t.streamed {
		t.content.open('[')
		return dst
	}
	w := text{append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)}
	t.head(&w)
	w.b = append(w.b, `"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}`...)
	return append(w.b, '\n', '\n')
}

// head writes the first members of the message.
func (t *messagesTranslator) head(w *text) {
	w.b = append(w.b, `{"id":`...)
	w.str(t.id)
	w.b = append(w.b, `,"type":"message","role":"assistant","model":`...)
	w.str(string(t.model))
	w.b = append(w.b, ',')
}

// whole writes an unstreamed message.
func (t *messagesTranslator) whole(dst []byte, a *core.Answer) []byte {
	t.content.close(']')
	w := text{dst}
	t.head(&w)
	w.b = append(append(append(w.b, `"content":`...), t.content.b...), ',')
	t.reason(&w)
	w.b = append(w.b, `,"usage":{`...)
	t.usage(&w, &a.Usage, true)
	w.b = append(w.b, '}', '}')
	return w.b
}

// reason writes why the answer ended.
func (t *messagesTranslator) reason(w *text) {
	word, stop := "end_turn", core.Quoted("null")
	switch t.finish {
	case core.FinishLength:
		word = "max_tokens" // with a tool call too, which may be half a one (case 035)
	case core.FinishFilter, core.FinishRefusal:
		word = "refusal"
	case core.FinishPause:
		word = "pause_turn"
	default:
		switch {
		case t.tools > 0:
			word = "tool_use"
		case t.refused:
			word = "refusal"
		case t.stop != nil:
			word, stop = "stop_sequence", t.stop
		}
	}
	w.b = append(append(append(w.b, `"stop_reason":"`...), word...), `","stop_sequence":`...)
	w.raw(stop)
}

// usage writes the members of usage. Input is what was neither read from the
// cache nor written to it (case 015).
func (t *messagesTranslator) usage(w *text, u *core.Usage, whole bool) {
	input := u.UncachedInput
	input.OK = input.OK || whole // the SDKs need it there
	w.count("input_tokens", input)
	w.count("cache_creation_input_tokens", u.CacheWrite)
	w.count("cache_read_input_tokens", u.CacheRead)
	if u.CacheWrite.OK && u.CacheWrite1h.OK {
		w.key("cache_creation")
		w.open('{')
		w.count("ephemeral_5m_input_tokens", core.Some(u.CacheWrite.V-u.CacheWrite1h.V))
		w.count("ephemeral_1h_input_tokens", u.CacheWrite1h)
		w.close('}')
	}
	w.count("output_tokens", core.Some(u.Output.V))
	if u.Reasoning.OK {
		w.key("output_tokens_details")
		w.open('{')
		w.count("thinking_tokens", u.Reasoning)
		w.close('}')
	}
}

// last is the block that what comes now belongs to: the newest one.
func (t *messagesTranslator) last() *writtenBlock {
	if n := len(t.waiting); n > 0 {
		return &t.waiting[n-1]
	}
	if t.open {
		return &t.block
	}
	return nil
}

// piece takes a piece of text or of thinking.
func (t *messagesTranslator) piece(dst []byte, kind core.EventKind, piece []byte) []byte {
	if len(piece) == 0 {
		return dst
	}
	b := t.last()
	if b == nil || b.kind != kind || b.seal != nil {
		dst = t.begin(dst, writtenBlock{kind: kind})
		b = t.last()
	}
	if b != &t.block || !t.streamed {
		b.text = append(b.text, piece...)
		return dst
	}
	return t.delta(dst, t.block.kind, piece)
}

// sealed takes a seal: the signature of the thinking before it; encrypted
// thinking of which nothing is readable is a block of its own, and so is the
// signature of a tool call.
func (t *messagesTranslator) sealed(dst []byte, s *core.Seal) []byte {
	seal := slices.Clone(inner(s.Text))
	if s.Origin != core.FormatAnthropic {
		seal = wrapSeal(*s)
	}
	b := t.last()
	if b == nil || b.kind != core.EventReasoning || b.seal != nil {
		kind := core.EventReasoning
		if s.Encrypted {
			kind = core.EventSeal
		}
		return t.begin(dst, writtenBlock{kind: kind, seal: seal})
	}
	b.seal = seal
	return dst
}

// arguments takes a piece of a tool call's arguments.
func (t *messagesTranslator) arguments(dst []byte, call int, piece []byte) []byte {
	if t.open && t.block.kind == core.EventTool && t.block.call == call {
		if t.block.args.done {
			return dst // a server that says it all again at the end
		}
		t.block.args.read(piece)
		if !t.streamed {
			t.block.text = append(t.block.text, piece...)
		} else if len(piece) > 0 {
			dst = t.delta(dst, t.block.kind, piece)
		}
		for len(t.waiting) > 0 && t.complete() {
			dst = t.close(dst)
		}
		return dst
	}
	for i := range t.waiting {
		if b := &t.waiting[i]; b.kind == core.EventTool && b.call == call && !b.args.done {
			b.args.read(piece)
			b.text = append(b.text, piece...)
		}
	}
	return dst
}

// complete tells whether nothing more can come for the open block now that
// another one has begun.
func (t *messagesTranslator) complete() bool {
	return t.block.kind != core.EventTool || t.block.args.done
}

// begin puts a block behind the ones so far and opens it if it can be.
func (t *messagesTranslator) begin(dst []byte, b writtenBlock) []byte {
	if t.waiting = append(t.waiting, b); !t.open {
		return t.next(dst)
	}
	for len(t.waiting) > 0 && (t.complete() || len(t.waiting) > maxCalls) {
		dst = t.close(dst)
	}
	return dst
}

// next opens the block that has waited longest, with all that came for it.
func (t *messagesTranslator) next(dst []byte) []byte {
	t.block = t.waiting[0]
	t.waiting = t.waiting[1:]
	t.open = true
	if !t.streamed {
		return dst
	}
	w := text{append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)}
	w.int(int64(t.index))
	t.index++
	w.b = append(w.b, `,"content_block":`...)
	switch t.block.kind {
	case core.EventText, core.EventMedia:
		w.b = append(w.b, `{"type":"text","text":""`...)
	case core.EventReasoning:
		w.b = append(w.b, `{"type":"thinking","thinking":"","signature":""`...)
	case core.EventSeal:
		w.b = append(w.b, `{"type":"redacted_thinking","data":`...)
		w.inner(t.block.seal)
	case core.EventTool:
		w.b = append(w.b, `{"type":"tool_use","id":`...)
		w.str(t.block.id)
		w.key("name")
		w.str(t.block.name)
		w.b = append(w.b, `,"input":{}`...)
	}
	dst = append(w.b, "}}\n\n"...)
	if len(t.block.text) > 0 {
		dst = t.delta(dst, t.block.kind, t.block.text)
		t.block.text = nil
	}
	return dst
}

// deltas are what a delta of each kind of block is, up to its text.
var deltas = [...]string{
	core.EventText:      `,"delta":{"type":"text_delta","text":"`,
	core.EventReasoning: `,"delta":{"type":"thinking_delta","thinking":"`,
	core.EventSeal:      `,"delta":{"type":"signature_delta","signature":"`,
	core.EventTool:      `,"delta":{"type":"input_json_delta","partial_json":"`,
	core.EventMedia:     `,"delta":{"type":"text_delta","text":"`,
}

// delta writes a piece of the open block.
func (t *messagesTranslator) delta(dst []byte, kind core.EventKind, piece []byte) []byte {
	w := text{append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)}
	w.int(int64(t.index - 1))
	return append(append(append(w.b, deltas[kind]...), piece...), "\"}}\n\n"...)
}

// close ends the open block and opens the one that waits behind it.
func (t *messagesTranslator) close(dst []byte) []byte {
	t.open = false
	if t.block.kind == core.EventReasoning && t.block.seal == nil {
		// Anthropic refuses thinking that it did not sign: Unseal must know it.
		t.block.seal = wrapSeal(core.Seal{})
	}
	if t.streamed {
		if t.block.kind == core.EventReasoning {
			dst = t.delta(dst, core.EventSeal, t.block.seal)
		}
		w := text{append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)}
		w.int(int64(t.index - 1))
		dst = append(w.b, "}\n\n"...)
	} else {
		t.keep()
	}
	if len(t.waiting) > 0 {
		return t.next(dst)
	}
	return dst
}

// keep writes the block into an unstreamed message.
func (t *messagesTranslator) keep() {
	w, b := &t.content, &t.block
	w.item()
	switch b.kind {
	case core.EventText, core.EventMedia:
		w.b = append(w.b, `{"type":"text","text":`...)
		w.inner(b.text)
	case core.EventReasoning:
		w.b = append(w.b, `{"type":"thinking","thinking":`...)
		w.inner(b.text)
		w.key("signature")
		w.inner(b.seal)
	case core.EventSeal:
		w.b = append(w.b, `{"type":"redacted_thinking","data":`...)
		w.inner(b.seal)
	case core.EventTool:
		w.b = append(w.b, `{"type":"tool_use","id":`...)
		w.str(b.id)
		w.key("name")
		w.str(b.name)
		w.key("input")
		w.raw(argumentsOf(b.text)) // in an object of their own where they were cut off: {} would be a call
	}
	w.close('}')
}

// jsonEnd finds the end of a JSON object that comes in pieces, escaped as in a
// JSON string.
type jsonEnd struct {
	depth  int
	quoted bool // inside of a string
	slash  bool // behind a backslash of one
	done   bool
}

func (j *jsonEnd) read(piece []byte) {
	for i := 0; i < len(piece); i++ {
		ch := piece[i]
		if n := escapeLen(piece[i:]); ch == '\\' && n > 0 {
			if ch = piece[i+1]; n == 6 {
				ch = byte(min(hex4(piece[i+2:]), 0x7f))
			} else if ch != '"' && ch != '\\' {
				ch = ' '
			}
			i += n - 1
		}
		switch {
		case j.slash:
			j.slash = false
		case j.quoted:
			j.slash, j.quoted = ch == '\\', ch != '"'
		case ch == '"':
			j.quoted = true
		case ch == '{' || ch == '[':
			j.depth++
		case ch == '}' || ch == ']':
			j.depth--
			j.done = j.done || j.depth <= 0
		}
	}
}

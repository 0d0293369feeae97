package adapters

import (
	"bytes"
	"errors"
	"strings"

	"headway/core"
)

// ollamaReader reads one answer of /api/chat.
type ollamaReader struct {
	line   ollamaLine
	answer core.Answer
	events []core.Event
	began  bool
	calls  int  // tool calls so far
	held   bool // thinking that nothing sealed yet
}

// Split is by lines.
func (*ollamaReader) Split() core.Splitting { return core.SplitLines }

// Read marks a line. Its text may be empty beside thinking or calls, which come
// whole (wire notes §2).
func (r *ollamaReader) Read(f *core.Frame) core.Mark {
	if len(f.Data) == 0 {
		return 0
	}
	c := walk(f.Data)
	if !r.line.read(&c) || c.end() != nil {
		r.line = ollamaLine{}
		return core.MarkBroken
	}
	if r.line.failed {
		failed := readError(f.Data)
		r.answer.Err = &failed
		return core.MarkError
	}
	return r.keep()
}

// ReadWhole reads an unstreamed answer: one line that is all of it.
func (r *ollamaReader) ReadWhole(body []byte) error {
	c := walk(body)
	switch {
	case !r.line.read(&c) || c.end() != nil:
		return errors.New("the answer is not a JSON object")
	case r.line.failed:
		failed := readError(body)
		r.answer.Err = &failed
		return errors.New("the answer is an error")
	case !r.line.message:
		return errors.New("the answer has no message")
	}
	r.keep()
	return nil
}

// keep takes what the line says.
func (r *ollamaReader) keep() (mark core.Mark) {
	l := &r.line
	if len(l.thinking) > 0 {
		mark |= core.MarkReasoning
		r.answer.StreamedReasoning = true
	}
	if len(l.text) > 0 {
		mark |= core.MarkText
	}
	for _, t := range l.tools {
		mark |= core.MarkTool
		r.answer.OutputBytes += len(t.name) + len(t.arguments)
	}
	r.answer.OutputBytes += textLen(l.thinking) + textLen(l.text)
	if !l.done {
		return mark
	}
	r.answer.Finish = string(unescape(l.reason))
	if r.answer.Finish == "" {
		r.answer.Finish = "stop" // of a server from before there was a reason
	}
	f := l.times.figures
	r.answer.Figures = f
	r.answer.Usage = core.Usage{UncachedInput: f.PromptTokens, Output: f.DecodeTokens}
	r.answer.Reported = f.PromptTokens.OK || f.DecodeTokens.OK
	return mark | core.MarkFinish | core.MarkEnd
}

// ReadError reads an error's body, which is a text and names no kind of error.
func (*ollamaReader) ReadError(status int, body []byte) core.UpstreamError {
	failed := readError(body)
	failed.Status = status
	if failed.Code == "" && strings.Contains(failed.Message, "exceeds the context length") {
		failed.Code = "context_length_exceeded"
	}
	return failed
}

// Answer is what is known so far.
func (r *ollamaReader) Answer() core.Answer { return r.answer }

// ollamaSeal stands in the place of a signature, which Ollama has none of: by it
// its thinking is known as its own in the client's next turn.
const ollamaSeal = `"thinking"`

// Events is what the last line that was read holds.
func (r *ollamaReader) Events(*core.Frame) []core.Event {
	l := &r.line
	r.events = r.events[:0]
	if l.failed || !l.message {
		return nil
	}
	if !r.began {
		r.began = true
		r.add(core.Event{Kind: core.EventStart, Model: string(unescape(l.model))})
	}
	if len(l.thinking) > 0 {
		r.held = true
		r.add(core.Event{Kind: core.EventReasoning, Text: l.thinking})
	}
	if r.held && (len(l.text) > 0 || len(l.tools) > 0 || l.done) {
		r.held = false
		r.add(core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatOllama, Text: core.Quoted(ollamaSeal)}})
	}
	if len(l.text) > 0 {
		r.add(core.Event{Kind: core.EventText, Text: l.text})
	}
	for _, t := range l.tools {
		id := string(unescape(t.id))
		if id == "" {
			id = callID()
		}
		r.add(core.Event{Kind: core.EventTool, Index: r.calls, ID: id, Name: string(unescape(t.name))})
		if args := bytes.TrimSpace(t.arguments); len(args) > 0 && string(args) != "{}" && string(args) != "null" {
			r.add(core.Event{Kind: core.EventArguments, Index: r.calls, Text: escapeJSON(args)})
		}
		r.calls++
	}
	if l.done {
		finish := core.FinishStop
		switch {
		case r.answer.Finish == "length":
			finish = core.FinishLength
		case r.calls > 0:
			finish = core.FinishTools
		}
		r.add(core.Event{Kind: core.EventFinish, Finish: finish})
	}
	return r.events
}

// WholeEvents is what an unstreamed answer holds.
func (r *ollamaReader) WholeEvents([]byte) ([]core.Event, error) { return r.Events(nil), nil }

func (r *ollamaReader) add(e core.Event) { r.events = append(r.events, e) }

// callID makes the id of a tool call whose upstream gave it none.
func callID() string {
	return madeName("call_")
}

// escapeJSON is a JSON value as it stands between the quotes of a JSON string.
// Inside of a value only quotes and backslashes need an escape, and the white
// space between its parts.
func escapeJSON(v []byte) []byte {
	out := make([]byte, 0, len(v)+len(v)/4+8)
	for _, ch := range v {
		switch {
		case ch == '"' || ch == '\\':
			out = append(out, '\\', ch)
		case ch < ' ':
			out = append(out, ' ')
		default:
			out = append(out, ch)
		}
	}
	return out
}

// ollamaLine is what one line, or one whole answer, says; its slices are the
// line's.
type ollamaLine struct {
	failed, done, message bool
	model, reason         []byte
	text, thinking        []byte
	tools                 []ollamaCall
	times                 ollamaTimes
}

// ollamaCall is a tool call.
type ollamaCall struct{ id, name, arguments []byte }

// read walks a line, in the place of the one before; false where it is no object.
func (l *ollamaLine) read(c *cursor) bool {
	*l = ollamaLine{tools: l.tools[:0]}
	if !c.object() {
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "model":
			l.model = textOf(c)
		case "message":
			l.readMessage(c)
		case "response": // of /api/generate
			l.text, l.message = textOf(c), true
		case "thinking":
			l.thinking = textOf(c)
		case "done":
			if v, ok := c.boolean(); ok {
				l.done = v
			} else {
				c.skip()
			}
		case "done_reason":
			l.reason = textOf(c)
		case "error":
			if !c.null() {
				l.failed = true
				c.skip()
			}
		default:
			l.times.field(c, string(key))
		}
	}
	return c.err == nil
}

func (l *ollamaLine) readMessage(c *cursor) {
	l.message = true
	for key := range c.each {
		switch string(key) {
		case "content":
			l.text = textOf(c)
		case "thinking":
			l.thinking = textOf(c)
		case "tool_calls":
			if !c.array() {
				continue
			}
			for c.element() {
				l.readCall(c)
			}
		}
	}
}

func (l *ollamaLine) readCall(c *cursor) {
	var call ollamaCall
	for key := range c.each {
		switch {
		case string(key) == "id":
			call.id = textOf(c)
		case string(key) == "function" && c.object():
			for key := range c.rest {
				switch string(key) {
				case "name":
					call.name = textOf(c)
				case "arguments":
					call.arguments = c.value()
				}
			}
		}
	}
	if len(call.name) > 0 {
		l.tools = append(l.tools, call)
	}
}

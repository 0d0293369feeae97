package adapters

import (
	"bytes"
	"errors"
	"strings"

	"headway/core"
)

// messagesReader reads one answer of the Messages format.
type messagesReader struct {
	op     core.Operation
	usage  messagesUsage // merged field by field: each report is cumulative
	start  core.Opt[int64]
	inner  bool // tools ran on the server, inside of this answer
	answer core.Answer
	event  messagesEvent // the last one
	given  messagesEvents
}

// Split is server-sent events.
func (r *messagesReader) Split() core.Splitting { return core.SplitSSE }

// Read looks at one event. Its type is read from the data, as some servers leave
// the event's name out.
func (r *messagesReader) Read(f *core.Frame) core.Mark {
	if len(f.Data) == 0 {
		return 0
	}
	e := &r.event
	*e = messagesEvent{}
	c := walk(f.Data)
	if !e.read(&c) || c.end() != nil {
		*e = messagesEvent{}
		return r.unread(f)
	}
	switch e.kind {
	case kindDelta:
		switch {
		case e.delta == "text_delta" && len(e.text) > 0:
			r.answer.OutputBytes += textLen(e.text)
			return core.MarkText
		case e.delta == "thinking_delta" && len(e.thinking) > 0:
			r.answer.OutputBytes += textLen(e.thinking)
			r.answer.StreamedReasoning = true
			return core.MarkReasoning
		case e.delta == "input_json_delta" && len(e.input) > 0:
			r.answer.OutputBytes += textLen(e.input)
			return core.MarkTool
		}
	case kindStart:
		r.take(&e.usage)
		r.answer.Opening = r.answer.Reported
		if !r.start.OK {
			r.start = r.usage.tokens().Fresh()
		}
	case kindBlock:
		r.inner = r.inner || e.block.server()
	case kindMessageDelta:
		r.take(&e.usage)
		r.answer.Opening = r.answer.Opening && !e.usage.output.OK
		if len(e.stop) > 0 {
			r.answer.Finish = string(unescape(e.stop))
			return core.MarkFinish
		}
	case kindStop:
		return core.MarkFinish | core.MarkEnd
	default:
		if e.kind == kindError || e.failure {
			failed := readError(f.Data)
			r.answer.Err = &failed
			if f.Name != "error" {
				f.Raw = nil // Anthropic's SDKs go by the name
			}
			return core.MarkError
		}
	}
	return 0
}

// unread says what an event is whose data is no JSON object. Anthropic's SDKs
// look at no data but that of the events that they know.
func (r *messagesReader) unread(f *core.Frame) core.Mark {
	switch {
	case string(bytes.TrimSpace(f.Data)) == "[DONE]": // of a server of several formats
	case f.Name == "error":
		r.answer.Err, f.Raw = &core.UpstreamError{}, nil
		return core.MarkError
	case f.Name == "", strings.HasPrefix(f.Name, "message_"), strings.HasPrefix(f.Name, "content_block_"):
		return core.MarkBroken
	}
	return 0
}

// ReadWhole looks at an unstreamed message, or a count of tokens, which reports
// no usage: it costs nothing.
func (r *messagesReader) ReadWhole(body []byte) error {
	var e messagesEvent
	c := walk(body)
	if !e.read(&c) || c.end() != nil {
		return errors.New("the answer is not a JSON object")
	}
	switch {
	case e.kind == kindError || e.failure:
		failed := readError(body)
		r.answer.Err = &failed
		return errors.New("the answer is an error")
	case r.op == core.OpCountTokens:
		if !e.usage.input.OK {
			return errors.New("the answer holds no count of tokens")
		}
		return nil
	case !e.content:
		return errors.New("the answer is not a message")
	}
	r.take(&e.usage)
	r.answer.Finish = string(unescape(e.stop))
	r.answer.OutputBytes = e.said
	if len(e.unsigned) > 0 {
		r.answer.Repaired = sign(body, e.unsigned)
	}
	return nil
}

// ReadError reads an error's body, also those that other servers of this format
// send.
func (r *messagesReader) ReadError(status int, body []byte) core.UpstreamError {
	failed := readError(body)
	failed.Status = status
	return failed
}

// Answer is what is known so far.
func (r *messagesReader) Answer() core.Answer {
	a := r.answer
	a.Usage = r.usage.tokens()
	a.Contradiction = a.Usage.Reasoning.V > a.Usage.Output.V
	// Input that grew because tools ran on the server in between: the first
	// token waited for the opening report's. Without such tools the opening
	// figure is a guess of the server's, and the later one is right.
	if fresh := a.Usage.Fresh(); r.start.OK && fresh.V > r.start.V && (r.inner || r.usage.inner) {
		a.InputAtStart = r.start
	}
	return a
}

func (r *messagesReader) take(u *messagesUsage) {
	if r.usage.merge(u) {
		r.answer.Reported = true
	}
}

// sign is the repair messages-signature: Ollama leaves out the signature of an
// unstreamed message's thinking, which AI SDK's reader requires. Streams need no
// repair: there it is a delta of its own, which may be absent.
func sign(body []byte, at []int) []byte {
	edits := make([]edit, len(at))
	for i, n := range at {
		edits[i] = edit{core.Span{From: n, To: n}, `,"signature":""`}
	}
	return splice(body, edits)
}

// The types of events that say something.
const (
	kindOther = iota // ping, whatever may come, or none
	kindStart
	kindBlock
	kindDelta
	kindBlockStop
	kindMessageDelta
	kindStop
	kindError
)

// messagesEvent is what one event, or one unstreamed message, says.
type messagesEvent struct {
	kind                  int
	delta                 string       // a delta's type, where it counts as output
	text, thinking, input []byte       // members of that name, as they are written
	signature             []byte       // of thinking, as it is written
	index                 []byte       // of the block
	block                 messagesPart // that begins
	id, model             []byte       // of the message that begins, as they are written
	stop                  []byte       // the stop reason, as it is written
	stopText              core.Quoted  // the stop sequence
	explained             []byte       // why the model declined, as it is written
	failure               bool         // an error is there
	content               bool         // a list of blocks is: a whole message
	said                  int          // the bytes of its texts, thinking and tools' input
	unsigned              []int        // of its thinking blocks without signature: their ends
	usage                 messagesUsage
}

// read walks the event, whatever the order of its members; false where it is
// not an object.
func (e *messagesEvent) read(c *cursor) bool {
	if !c.object() {
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "type":
			e.kind = eventKind(c)
		case "delta":
			e.readDelta(c)
		case "index":
			e.index, _ = c.number()
		case "content_block":
			e.block.read(c)
		case "message":
			// message_start holds the message; an error of a server that speaks
			// another format may hold a text of that name.
			if c.peek() == '{' {
				e.readMessage(c)
			} else {
				c.skip()
			}
		case "usage":
			e.usage.read(c)
		case "stop_reason":
			e.stop = textOf(c)
		case "content":
			e.readContent(c)
		case "input_tokens":
			e.usage.input = c.tokens()
		case "error":
			e.failure = !c.null()
			if e.failure {
				c.skip()
			}
		}
	}
	return true
}

// readMessage reads the message inside of message_start, which has no content yet.
func (e *messagesEvent) readMessage(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "usage":
			e.usage.read(c)
		case "id":
			e.id = textOf(c)
		case "model":
			e.model = textOf(c)
		}
	}
}

func eventKind(c *cursor) int {
	switch string(textOf(c)) {
	case "content_block_delta":
		return kindDelta
	case "content_block_start":
		return kindBlock
	case "content_block_stop":
		return kindBlockStop
	case "message_start":
		return kindStart
	case "message_delta":
		return kindMessageDelta
	case "message_stop":
		return kindStop
	case "error":
		return kindError
	}
	return kindOther
}

func (e *messagesEvent) readDelta(c *cursor) {
	for key := range c.each {
		switch string(key) {
		case "type":
			switch string(textOf(c)) {
			case "text_delta":
				e.delta = "text_delta"
			case "thinking_delta":
				e.delta = "thinking_delta"
			case "input_json_delta":
				e.delta = "input_json_delta"
			case "signature_delta":
				e.delta = "signature_delta"
			}
		case "text":
			e.text = textOf(c)
		case "thinking":
			e.thinking = textOf(c)
		case "partial_json":
			e.input = textOf(c)
		case "signature":
			e.signature = textOf(c)
		case "stop_reason":
			e.stop = textOf(c)
		case "stop_sequence":
			e.stopText = quotedOf(c)
		case "stop_details":
			e.readDetails(c)
		}
	}
}

func (e *messagesEvent) readDetails(c *cursor) {
	for key := range c.each {
		if string(key) == "explanation" {
			e.explained = textOf(c)
		}
	}
}

func (e *messagesEvent) readContent(c *cursor) {
	if !c.array() {
		c.skip()
		return
	}
	e.content = true
	for c.element() {
		if !c.object() {
			c.skip()
			continue
		}
		thinking, signed := false, false
		for key := range c.rest {
			switch string(key) {
			case "type":
				thinking = string(textOf(c)) == "thinking"
			case "signature":
				signed = true
				c.skip()
			case "text", "thinking":
				e.said += textLen(textOf(c))
			case "input":
				e.said += len(c.value())
			}
		}
		if thinking && !signed && c.err == nil {
			e.unsigned = append(e.unsigned, c.i-1)
		}
	}
}

// textOf consumes a value and gives a string's text as it is written; nothing
// for any other.
func textOf(c *cursor) []byte {
	raw, ok := c.text()
	if !ok {
		c.skip()
	}
	return raw
}

package adapters

import (
	"bytes"
	"errors"

	"headway/core"
)

// Reader reads an answer of the Responses API.
func (Responses) Reader(*core.Job, *core.Offer) core.Reader { return &responsesReader{} }

// responsesReader is what is known of one answer.
type responsesReader struct {
	answer   core.Answer
	report   openAIReport
	reported bool
	times    llamaTimes
	native   ollamaTimes
	repair   responsesRepair
	event    responsesEvent // the last one that was read
	events   responsesEvents
}

// Split is by server-sent events.
func (*responsesReader) Split() core.Splitting { return core.SplitSSE }

// responsesEvent is what one event holds.
type responsesEvent struct {
	kind                          []byte
	delta                         []byte // raw text
	other                         bool   // the delta is no text
	response, item, itemID        []byte
	output, content, summary, seq core.Opt[int64]
	seqAt                         core.Span // of the sequence number
	itemAt                        int       // of the item
	failed                        bool
	times                         llamaTimes
}

// Read marks an event (SPEC §3): output is a .delta that is not empty. It
// repairs the frame where the official SDKs could not read it.
func (r *responsesReader) Read(f *core.Frame) core.Mark {
	r.event = responsesEvent{}
	if len(f.Data) == 0 {
		return 0
	}
	if f.Data[0] == '[' && string(bytes.TrimSpace(f.Data)) == "[DONE]" { // OpenRouter
		return core.MarkEnd
	}
	e := &r.event
	if !e.walk(f.Data) {
		r.event = responsesEvent{}
		if f.Name == "error" {
			r.answer.Err, f.Raw = &core.UpstreamError{}, nil
			return core.MarkError
		}
		return core.MarkBroken
	}
	plain := len(e.kind) > 0 || e.failed
	if len(e.kind) == 0 {
		e.kind = []byte(f.Name)
	}
	mark := r.mark(f, e)
	r.repair.fix(f, e)
	if mark.Has(core.MarkError) && !plain {
		f.Raw = nil // SDKs go by the type inside of the data
	}
	return mark
}

func (r *responsesReader) mark(f *core.Frame, e *responsesEvent) core.Mark {
	var mark core.Mark
	switch string(e.kind) {
	case "response.output_text.delta", "response.audio.transcript.delta":
		return r.said(e, core.MarkText)
	case "response.completed", "response.incomplete", "response.failed":
		mark = core.MarkFinish | core.MarkEnd
		r.answer.Finish = string(e.kind[len("response."):])
		if e.times.figures.PromptMS.OK || e.times.figures.DecodeMS.OK { // llama-server
			r.times = e.times
		}
	case "error":
		e.failed = true
	case "":
		if !e.failed {
			return 0
		}
	}
	if bytes.HasSuffix(e.kind, []byte(".delta")) {
		switch {
		case bytes.HasPrefix(e.kind, []byte("response.reasoning")):
			mark = r.said(e, core.MarkReasoning)
			r.answer.StreamedReasoning = r.answer.StreamedReasoning || mark != 0
		case string(e.kind) == "response.refusal.delta":
			mark = r.said(e, core.MarkRefusal)
		default:
			mark = r.said(e, core.MarkTool)
		}
		return mark
	}
	if e.response != nil {
		r.response(e.response, false)
	}
	if e.failed {
		r.answer.Err = new(readError(f.Data))
	}
	if e.failed || string(e.kind) == "response.failed" {
		mark |= core.MarkError
		if r.answer.Err == nil {
			r.answer.Err = new(readError(e.response))
		}
	}
	return mark
}

func (r *responsesReader) said(e *responsesEvent, kind core.Mark) core.Mark {
	if len(e.delta) == 0 && !e.other {
		return 0
	}
	r.answer.OutputBytes += textLen(e.delta)
	return kind
}

// walk takes one event; false where it is not a JSON object and nothing else.
func (e *responsesEvent) walk(data []byte) bool {
	c := walk(data)
	if !c.object() {
		return false
	}
	for key := range c.rest {
		switch string(key) {
		case "type":
			e.kind = textOf(&c)
		case "delta":
			ch := c.peek()
			e.delta = textOf(&c)
			e.other = ch != '"' && ch != 'n'
		case "item_id":
			e.itemID = textOf(&c)
		case "output_index":
			e.output = c.tokens()
		case "content_index":
			e.content = c.tokens()
		case "summary_index":
			e.summary = c.tokens()
		case "sequence_number":
			c.peek()
			e.seqAt.From = c.i
			e.seq = c.tokens()
			e.seqAt.To = c.i
		case "response":
			e.response = objectOf(&c)
		case "item":
			c.peek()
			e.itemAt = c.i
			e.item = objectOf(&c)
		case "error":
			e.failed = !c.null()
			if e.failed {
				c.skip()
			}
		case "timings":
			e.times.set(&c)
		}
	}
	return c.end() == nil
}

// objectOf consumes a value and gives the text of an object, nil for anything else.
func objectOf(c *cursor) []byte {
	if v := c.value(); len(v) > 0 && v[0] == '{' {
		return v
	}
	return nil
}

// response takes what a response object holds: that of a terminal event, or the
// whole of an unstreamed answer, whose output no event has told of.
func (r *responsesReader) response(raw []byte, whole bool) (output, failed bool) {
	var status, reason string
	c := walk(raw)
	for key := range c.each {
		switch string(key) {
		case "usage":
			r.reported = r.report.set(&c) || r.reported
		case "timings":
			r.times.set(&c)
		case "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration":
			r.native.field(&c, string(key))
		case "status":
			status = c.word()
		case "incomplete_details":
			reason = incompleteReason(&c)
		case "error":
			if failed = !c.null(); failed {
				c.skip()
			}
		case "output":
			if output = c.peek() == '['; whole {
				r.answer.OutputBytes += saidIn(&c)
			} else {
				c.skip()
			}
		}
	}
	if whole {
		r.answer.Finish = status
	}
	if reason != "" {
		r.answer.Finish = reason
	}
	return output, failed
}

// incompleteReason consumes incomplete_details: why an answer stopped short.
func incompleteReason(c *cursor) (reason string) {
	if !c.object() {
		c.skip()
		return ""
	}
	for key := range c.rest {
		if string(key) == "reason" {
			reason = c.word()
		}
	}
	return reason
}

// saidIn consumes a value and gives the size of the output texts anywhere in it.
func saidIn(c *cursor) (n int) {
	switch c.peek() {
	case '[':
		for c.array(); c.element(); {
			n += saidIn(c)
		}
	case '{':
		for key := range c.each {
			switch string(key) {
			case "text", "refusal", "arguments", "input":
				n += textLen(textOf(c))
			default:
				n += saidIn(c)
			}
		}
	default:
		c.skip()
	}
	return n
}

// ReadWhole reads an unstreamed answer.
func (r *responsesReader) ReadWhole(body []byte) error {
	c := walk(body)
	if c.peek() != '{' {
		return errors.New("the answer is not a JSON object")
	}
	c.skip()
	if err := c.end(); err != nil {
		return err
	}
	output, failed := r.response(body, true)
	switch {
	case failed:
		r.answer.Err = new(readError(body))
		return errors.New("the answer holds an error")
	case !output:
		return errors.New("the answer has no output")
	}
	return nil
}

// ReadError reads the error of an answer with another status.
func (*responsesReader) ReadError(status int, body []byte) core.UpstreamError {
	e := readError(body)
	e.Status = status
	return e
}

// Answer is what is known so far.
func (r *responsesReader) Answer() core.Answer {
	return answerOf(r.answer, &r.report, r.reported, &r.times, &r.native)
}

package adapters

import (
	"errors"

	"headway/core"
)

// converseReader reads one answer of Converse.
type converseReader struct {
	answer core.Answer
	tools  int  // tool calls for the client so far
	inner  bool // the block under way is of a tool that runs on the server
	seal   []byte
	events []core.Event
	halves halves
}

// Split is AWS's messages.
func (r *converseReader) Split() core.Splitting { return core.SplitAWS }

// Answer is what is known so far.
func (r *converseReader) Answer() core.Answer { return r.answer }

// Events is what the message that was read last holds.
func (r *converseReader) Events(*core.Frame) []core.Event { return r.events }

func (r *converseReader) add(e core.Event) { r.events = append(r.events, e) }

// ReadError reads an error of AWS's.
func (r *converseReader) ReadError(status int, body []byte) core.UpstreamError {
	return awsError(status, "", body)
}

// Read looks at one message. Nothing is counted as output but text, reasoning and
// a tool's input: not the opening of a block, a signature, a citation, or what a
// tool gave on the server.
func (r *converseReader) Read(f *core.Frame) core.Mark {
	r.events = r.events[:0]
	if mark := awsFault(f, &r.answer); mark != 0 {
		return mark
	}
	var m converseMessage
	c := walk(f.Data)
	if !m.read(&c) || c.end() != nil {
		return core.MarkBroken
	}
	switch f.Name {
	case "messageStart":
		r.add(core.Event{Kind: core.EventStart})
	case "contentBlockStart":
		r.begin(&m.block)
	case "contentBlockDelta":
		return r.delta(&m.block)
	case "contentBlockStop":
		r.sealed()
		r.inner = false
	case "messageStop":
		r.sealed()
		r.finish(m.stop)
		return core.MarkFinish
	case "metadata":
		r.take(&m.usage)
		return core.MarkEnd
	}
	return 0
}

// begin takes the opening of a block.
func (r *converseReader) begin(b *converseBlock) {
	r.inner = b.server
	if !b.tool || b.server {
		return
	}
	r.add(core.Event{Kind: core.EventTool, Index: r.tools, ID: string(unescape(b.id)), Name: string(unescape(b.name))})
	r.tools++
}

// delta takes a piece of a block.
func (r *converseReader) delta(b *converseBlock) core.Mark {
	switch {
	case len(b.text) > 0:
		r.answer.OutputBytes += textLen(b.text)
		r.piece(core.EventText, b.text)
		return core.MarkText
	case len(b.reasoning) > 0:
		r.answer.OutputBytes += textLen(b.reasoning)
		r.answer.StreamedReasoning = true
		r.piece(core.EventReasoning, b.reasoning)
		return core.MarkReasoning
	case len(b.arguments) > 0:
		r.answer.OutputBytes += textLen(b.arguments)
		if !r.inner {
			r.piece(core.EventArguments, b.arguments)
		}
		return core.MarkTool
	case len(b.signature) > 0:
		r.seal = append(r.seal, b.signature...)
	case len(b.redacted) > 0:
		r.redacted(b.redacted)
	}
	return 0
}

// piece gives on a piece of text, as whole characters.
func (r *converseReader) piece(kind core.EventKind, text []byte) {
	if text = r.halves.whole(half{index: r.tools, kind: kind}, text); len(text) > 0 {
		r.add(core.Event{Kind: kind, Index: max(r.tools-1, 0), Text: text})
	}
}

// sealed gives on the signature of the reasoning that ends here.
func (r *converseReader) sealed() {
	if len(r.seal) > 0 {
		r.add(core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: requote(r.seal)}})
		r.seal = r.seal[:0]
	}
}

func (r *converseReader) redacted(data []byte) {
	r.add(core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: requote(data), Encrypted: true}})
}

// finish takes the reason of the end.
func (r *converseReader) finish(stop []byte) {
	r.answer.Finish = string(unescape(stop))
	finish := core.FinishStop
	switch r.answer.Finish {
	case "max_tokens", "model_context_window_exceeded":
		finish = core.FinishLength
	case "guardrail_intervened", "content_filtered":
		finish = core.FinishFilter
	case "refusal":
		finish = core.FinishRefusal
	case "pause_turn":
		finish = core.FinishPause
	default:
		if r.tools > 0 {
			finish = core.FinishTools
		}
	}
	r.add(core.Event{Kind: core.EventFinish, Finish: finish})
}

func (r *converseReader) take(u *converseUsage) {
	if !u.input.OK && !u.output.OK {
		return
	}
	r.answer.Reported = true
	r.answer.Usage = core.Usage{UncachedInput: u.input, CacheRead: u.read, CacheWrite: u.write, CacheWrite1h: u.write1h, Output: u.output}
}

// ReadWhole looks at an unstreamed answer.
func (r *converseReader) ReadWhole(body []byte) error {
	r.events = append(r.events[:0], core.Event{Kind: core.EventStart})
	m := converseMessage{whole: r.block}
	c := walk(body)
	if !m.read(&c) || c.end() != nil {
		return errors.New("the answer is not a JSON object")
	}
	if !m.content {
		return errors.New("the answer is not a message")
	}
	r.finish(m.stop)
	r.take(&m.usage)
	return nil
}

// WholeEvents is what an unstreamed answer that was read holds.
func (r *converseReader) WholeEvents([]byte) ([]core.Event, error) { return r.events, nil }

// block takes a whole block.
func (r *converseReader) block(b *converseBlock) {
	r.begin(b)
	switch r.delta(b) {
	case 0:
		if b.tool && len(b.input) > 0 {
			r.answer.OutputBytes += len(b.input)
			if !b.server && string(b.input) != "{}" && string(b.input) != "null" {
				r.piece(core.EventArguments, escapeJSON(b.input))
			}
		}
	case core.MarkReasoning:
		r.answer.StreamedReasoning = false
		r.seal = append(r.seal, b.signature...)
	}
	r.sealed()
}

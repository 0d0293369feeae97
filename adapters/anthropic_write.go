package adapters

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headway/core"
)

// messagesWriter writes one answer in the Messages format.
type messagesWriter struct {
	job *core.Job

	// The stream that is folded.
	message map[string]any // message_start's, completed by message_delta
	blocks  []*messagesBlock
	failed  bool // the stream reported an error
}

// messagesBlock is one content block under way.
type messagesBlock struct {
	index string // as the stream numbers it
	block map[string]any
	texts map[string]*strings.Builder // what deltas add to its members of that name
	input strings.Builder             // the pieces of a tool's input
}

// ContentType is that of an event stream, or of JSON.
func (w *messagesWriter) ContentType() string { return contentType(w.job) }

// ErrorBody is {"type":"error","error":{…}}.
func (w *messagesWriter) ErrorBody(e *core.Error) []byte {
	word := messagesErrorType(e)
	inner := map[string]any{"type": word, "message": errorText(e)}
	// Headway's own word, where Anthropic's is coarser.
	if code := errorWord(e); code != word {
		inner["code"] = code
	}
	return encode(map[string]any{"type": "error", "error": inner})
}

// ErrorEvent is that body as an event; nothing follows it.
func (w *messagesWriter) ErrorEvent(e *core.Error) []byte {
	return namedEvent("error", w.ErrorBody(e))
}

// errorWord is the most exact word for an error.
func errorWord(e *core.Error) string {
	if e.Code != "" {
		return e.Code
	}
	return core.Kinds[e.Kind].Name
}

// messagesErrorTypes are Anthropic's words, by the status that each stands for.
var messagesErrorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	405: "invalid_request_error", 413: "request_too_large", 426: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error",
	504: "timeout_error", 529: "overloaded_error",
}

// messagesErrorType is Anthropic's word for an error: the upstream's own where
// it is one of them, else that of the status.
func messagesErrorType(e *core.Error) string {
	for _, word := range messagesErrorTypes {
		if word == e.Code {
			return word
		}
	}
	if word := messagesErrorTypes[e.Status()]; word != "" {
		return word
	}
	return "api_error"
}

// namedEvent writes one server-sent event, with its type as its name.
func namedEvent(name string, data []byte) []byte {
	out := make([]byte, 0, len(name)+len(data)+16)
	out = append(append(append(out, "event: "...), name...), "\ndata: "...)
	return append(append(out, data...), "\n\n"...)
}

// Fold takes one event. The rules are those of Anthropic's own SDKs: a second
// message_start begins anew, counts of usage are totals that go over the ones
// before.
func (w *messagesWriter) Fold(f core.Frame) {
	var e map[string]any
	if len(f.Data) == 0 || decode(f.Data, &e) != nil {
		return
	}
	switch e["type"] {
	case "message_start":
		w.message, _ = e["message"].(map[string]any)
		w.blocks = nil
	case "content_block_start":
		if b, ok := e["content_block"].(map[string]any); ok {
			w.blocks = append(w.blocks, &messagesBlock{index: scalar(e["index"]), block: b, texts: map[string]*strings.Builder{}})
		}
	case "content_block_delta":
		// The newest block of that number: a stream may begin anew without saying so.
		for _, b := range slices.Backward(w.blocks) {
			if delta, ok := e["delta"].(map[string]any); ok && b.index == scalar(e["index"]) {
				b.add(delta)
				break
			}
		}
	case "message_delta":
		w.complete(e)
	default:
		if e["error"] != nil || e["type"] == "error" {
			w.failed = true
		}
	}
}

// complete takes what message_delta says of the whole message.
func (w *messagesWriter) complete(e map[string]any) {
	if w.message == nil {
		return
	}
	for name, v := range e {
		switch name {
		case "type":
		case "delta":
			delta, _ := v.(map[string]any)
			for name, v := range delta {
				w.message[name] = v
			}
		case "usage":
			report, _ := v.(map[string]any)
			usage, ok := w.message["usage"].(map[string]any)
			if !ok {
				usage = map[string]any{}
				w.message["usage"] = usage
			}
			for name, v := range report {
				if v != nil {
					usage[name] = v
				}
			}
		default:
			w.message[name] = v
		}
	}
}

// add takes one delta: pieces of text go behind the block's member of the same
// name, pieces of input are joined, citations are listed.
func (b *messagesBlock) add(delta map[string]any) {
	for name, v := range delta {
		text, isText := v.(string)
		switch {
		case name == "type":
		case name == "partial_json":
			b.input.WriteString(text)
		case name == "citation":
			list, _ := b.block["citations"].([]any)
			b.block["citations"] = append(list, v)
		case isText:
			if b.texts[name] == nil {
				b.texts[name] = &strings.Builder{}
				b.texts[name].WriteString(scalar(b.block[name]))
			}
			b.texts[name].WriteString(text)
		case v != nil:
			b.block[name] = v
		}
	}
}

// Folded is the message that the events made.
func (w *messagesWriter) Folded() ([]byte, error) {
	if w.failed {
		return nil, errors.New("the stream reported an error")
	}
	if w.message == nil {
		return nil, errors.New("the stream has no message_start")
	}
	content := make([]any, 0, len(w.blocks))
	for _, b := range w.blocks {
		for name, text := range b.texts {
			b.block[name] = text.String()
		}
		var input any
		if b.input.Len() > 0 && decode([]byte(b.input.String()), &input) == nil {
			b.block["input"] = input
		} else if kind := scalar(b.block["type"]); strings.HasSuffix(kind, "tool_use") && b.block["input"] == nil {
			b.block["input"] = map[string]any{} // without arguments, or cut off among them
		}
		content = append(content, b.block)
	}
	w.message["content"] = content
	return encode(w.message), nil
}

// Unfold makes the events that Anthropic's SDKs read to the same message.
func (w *messagesWriter) Unfold(body []byte) ([][]byte, error) {
	var message map[string]any
	if err := decode(body, &message); err != nil {
		return nil, fmt.Errorf("the answer is not a message: %w", err)
	}
	content, ok := message["content"].([]any)
	if !ok {
		return nil, errors.New("the answer is not a message")
	}
	// What is known only at the end comes with message_delta.
	end := map[string]any{}
	for _, name := range []string{"stop_reason", "stop_sequence", "stop_details", "container"} {
		if v, ok := message[name]; ok {
			end[name] = v
			message[name] = nil
		}
	}
	usage, ok := message["usage"].(map[string]any)
	if !ok {
		usage = map[string]any{} // SDKs write into it
	}
	opening := maps.Clone(usage)
	if opening["output_tokens"] != nil {
		opening["output_tokens"] = 0
	}
	message["usage"] = opening
	message["content"] = []any{}

	var frames [][]byte
	add := func(name string, members map[string]any) {
		members["type"] = name
		frames = append(frames, namedEvent(name, encode(members)))
	}
	add("message_start", map[string]any{"message": message})
	for i, v := range content {
		block, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("content[%d] of the answer is not a block", i)
		}
		deltas := blockDeltas(block)
		add("content_block_start", map[string]any{"index": i, "content_block": block})
		for _, d := range deltas {
			add("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		add("content_block_stop", map[string]any{"index": i})
	}
	add("message_delta", map[string]any{"delta": end, "usage": usage})
	add("message_stop", map[string]any{})
	return frames, nil
}

// blockDeltas takes out of a block what comes in deltas, as SDKs begin with an
// empty block; blocks of other types are whole in their opening event.
func blockDeltas(block map[string]any) (deltas []map[string]any) {
	move := func(name, kind, as string) {
		if text, ok := block[name].(string); ok && text != "" {
			deltas = append(deltas, map[string]any{"type": kind, as: text})
			block[name] = ""
		}
	}
	switch kind := scalar(block["type"]); {
	case kind == "text":
		if list, ok := block["citations"].([]any); ok {
			for _, c := range list {
				deltas = append(deltas, map[string]any{"type": "citations_delta", "citation": c})
			}
			block["citations"] = []any{}
		}
		move("text", "text_delta", "text")
	case kind == "thinking":
		move("thinking", "thinking_delta", "thinking")
		move("signature", "signature_delta", "signature")
	case strings.HasSuffix(kind, "tool_use"):
		input := block["input"]
		if input == nil {
			input = map[string]any{}
		}
		text := string(encode(input))
		if text == "{}" {
			text = "" // as Anthropic streams a call without arguments
		}
		deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": text})
		block["input"] = map[string]any{}
	}
	return deltas
}

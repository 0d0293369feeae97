package adapters

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"headway/core"
)

// googleWriter writes one answer in Google's format.
type googleWriter struct {
	job *core.Job

	// The stream that is folded.
	response   map[string]any
	candidates []*googleCandidate
	failed     bool // the stream reported an error
}

// googleCandidate is one candidate under way.
type googleCandidate struct {
	index   string
	members map[string]any // but for its content
	role    any
	parts   []map[string]any
	call    *googleArgs // of the last part, where its arguments are streamed
}

func (w *googleWriter) events() bool { return w.job != nil && w.job.SSE }

// ContentType is JSON but for a stream of events: without alt=sse a stream is
// one JSON array.
func (w *googleWriter) ContentType() string {
	if w.events() {
		return "text/event-stream"
	}
	return "application/json; charset=UTF-8"
}

// googleStatuses are Google's words for the statuses of errors.
var googleStatuses = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	405: "INVALID_ARGUMENT", 413: "INVALID_ARGUMENT", 426: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED",
	500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

// ErrorBody is {"error":{"code","message","status"}}, with Headway's own word
// for it among the details, as Google's are.
func (w *googleWriter) ErrorBody(e *core.Error) []byte {
	status := googleStatuses[e.Status()]
	word := errorWord(e)
	for _, known := range googleStatuses {
		if known == word {
			status = word // the upstream's own
		}
	}
	inner := map[string]any{"code": e.Status(), "message": errorText(e), "status": status}
	if word != status {
		inner["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": word, "domain": "headway"}}
	}
	return encode(map[string]any{"error": inner})
}

// ErrorEvent is that object as an event, or as the array's last element.
func (w *googleWriter) ErrorEvent(e *core.Error) []byte {
	body := w.ErrorBody(e)
	if w.events() {
		return googleEvent(body)
	}
	return append(append([]byte(",\n"), body...), "\n]"...)
}

// googleEvent writes one event. Google ends lines with CR LF, and its Go SDK
// looks for the nearest LF LF first: a stream should not have both.
func googleEvent(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\r\n\r\n"...)
}

// Fold takes one response: texts are joined, other parts listed; of everything
// else the last word stands, but usage without figures is none.
func (w *googleWriter) Fold(f core.Frame) {
	var e map[string]any
	if len(f.Data) == 0 || decode(f.Data, &e) != nil {
		return
	}
	if e["error"] != nil {
		w.failed = true
		return
	}
	if w.response == nil {
		w.response = map[string]any{}
	}
	for name, v := range e {
		switch name {
		case "candidates":
			list, _ := v.([]any)
			for _, c := range list {
				if c, ok := c.(map[string]any); ok {
					w.candidate(c)
				}
			}
		case "usageMetadata":
			var u googleUsage
			c := walk(encode(v))
			if u.read(&c); u.any() || w.response[name] == nil {
				w.response[name] = v
			}
		default:
			w.response[name] = v
		}
	}
}

func (w *googleWriter) candidate(c map[string]any) {
	index := scalar(c["index"])
	if index == "" {
		index = "0" // Google leaves zeros out
	}
	at := slices.IndexFunc(w.candidates, func(k *googleCandidate) bool { return k.index == index })
	if at < 0 {
		at = len(w.candidates)
		w.candidates = append(w.candidates, &googleCandidate{index: index, members: map[string]any{}})
	}
	into := w.candidates[at]
	for name, v := range c {
		if name != "content" {
			into.members[name] = v
			continue
		}
		content, _ := v.(map[string]any)
		if role, ok := content["role"]; ok {
			into.role = role
		}
		parts, _ := content["parts"].([]any)
		for _, p := range parts {
			if p, ok := p.(map[string]any); ok {
				into.part(p)
			}
		}
	}
}

// part adds one part. A text goes behind the text before it, where both are
// thought or both are not and nothing else is in the way; a signature belongs to
// the part that it came with, and ends it.
func (k *googleCandidate) part(p map[string]any) {
	if call, ok := p["functionCall"].(map[string]any); ok {
		k.function(p, call)
		return
	}
	k.call = nil
	text, isText := p["text"].(string)
	if !isText {
		k.parts = append(k.parts, p)
		return
	}
	plain := true
	for name := range p {
		plain = plain && (name == "text" || name == "thought")
	}
	if text == "" && plain {
		return // an empty block says nothing
	}
	if n := len(k.parts); n > 0 && text != "" {
		last := k.parts[n-1]
		said, ok := last["text"].(string)
		if ok && last["thought"] == p["thought"] && last["thoughtSignature"] == nil {
			for name, v := range p {
				last[name] = v
			}
			last["text"] = said + text
			return
		}
	}
	k.parts = append(k.parts, p)
}

// function adds a call, or more arguments of the one under way.
func (k *googleCandidate) function(p, call map[string]any) {
	goesOn := call["willContinue"] == true
	if k.call == nil || call["name"] != nil {
		k.call = nil
		k.parts = append(k.parts, p)
		if !goesOn && call["partialArgs"] == nil {
			return
		}
		k.call = &googleArgs{into: call}
	}
	k.call.add(call)
	if !goesOn {
		k.call = nil
	}
}

// Folded is the response that those of the stream made.
func (w *googleWriter) Folded() ([]byte, error) {
	if w.failed {
		return nil, errors.New("the stream reported an error")
	}
	if w.response == nil {
		return nil, errors.New("the stream has no response")
	}
	if w.candidates != nil {
		list := make([]any, len(w.candidates))
		for i, k := range w.candidates {
			content := map[string]any{}
			if k.role != nil {
				content["role"] = k.role
			}
			if len(k.parts) > 0 {
				content["parts"] = k.parts
			}
			k.members["content"] = content
			list[i] = k.members
		}
		w.response["candidates"] = list
	}
	return encode(w.response), nil
}

// Unfold makes a stream of one response.
func (w *googleWriter) Unfold(body []byte) ([][]byte, error) {
	var r googleResponse
	if c := walk(body); !r.read(&c) || c.end() != nil || !r.response {
		return nil, errors.New("the answer is not a response")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return nil, err
	}
	if w.events() {
		return [][]byte{googleEvent(line.Bytes())}, nil
	}
	return [][]byte{append(append([]byte("["), line.Bytes()...), "\n]"...)}, nil
}

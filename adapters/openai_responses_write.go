package adapters

import (
	"errors"
	"maps"
	"slices"

	"headway/core"
)

// Writer writes Responses.
func (Responses) Writer(job *core.Job) core.Writer { return &responsesWriter{job: job} }

// responsesWriter folds one answer; its other methods hold no state.
type responsesWriter struct {
	job   *core.Job
	final map[string]any // the terminal event's response
	items map[int]map[string]any
	ids   []string // the items' ids in the order they came, for servers without output_index
}

// ErrorBody is {"error": {"message", "type", "param", "code"}}.
func (*responsesWriter) ErrorBody(e *core.Error) []byte {
	return encode(map[string]any{"error": openAIErrorObject(e)})
}

// ErrorEvent is an error event, its members beside and inside "error" as SDKs
// differ in where they look, and the response.failed that ends a stream. What
// the stream's response was called is not known here; no SDK reads on behind the
// error.
func (*responsesWriter) ErrorEvent(e *core.Error) []byte {
	f := openAIErrorObject(e)
	code := "server_error" // the API's list of codes is closed
	if e.Kind == core.Busy {
		code = "rate_limit_exceeded"
	}
	out := namedEvent("error", encode(map[string]any{
		"type": "error", "sequence_number": 0, "code": f.Code, "message": f.Message, "param": f.Param, "error": f,
	}))
	return append(out, namedEvent("response.failed", encode(map[string]any{
		"type": "response.failed", "sequence_number": 1,
		"response": map[string]any{
			"id": "resp_failed", "object": "response", "status": "failed", "output": []any{}, "usage": nil, "incomplete_details": nil,
			"error": map[string]any{"code": code, "message": f.Message},
		},
	}))...)
}

// ContentType is that of the shape the client asked for.
func (w *responsesWriter) ContentType() string { return contentType(w.job) }

// Fold takes one event. The terminal one holds the whole answer; the others are
// put together for servers that leave its output out.
func (w *responsesWriter) Fold(f core.Frame) {
	var e map[string]any
	if len(f.Data) == 0 || decode(f.Data, &e) != nil {
		return
	}
	kind, _ := e["type"].(string)
	if kind == "" {
		kind = f.Name
	}
	switch kind {
	case "response.completed", "response.incomplete", "response.failed":
		w.final, _ = e["response"].(map[string]any)
		return
	case "response.output_item.added", "response.output_item.done":
		if item, ok := e["item"].(map[string]any); ok {
			w.put(e, item)
		}
		return
	}
	item := w.item(e)
	if item == nil {
		return
	}
	delta, _ := e["delta"].(string)
	switch kind {
	case "response.content_part.added", "response.content_part.done":
		setPart(item, "content", e["content_index"], e["part"])
	case "response.reasoning_summary_part.added", "response.reasoning_summary_part.done":
		setPart(item, "summary", e["summary_index"], e["part"])
	case "response.output_text.delta":
		addText(item, "content", e["content_index"], "output_text", "text", delta)
	case "response.refusal.delta":
		addText(item, "content", e["content_index"], "refusal", "refusal", delta)
	case "response.reasoning_text.delta":
		addText(item, "content", e["content_index"], "reasoning_text", "text", delta)
	case "response.reasoning_summary_text.delta":
		addText(item, "summary", e["summary_index"], "summary_text", "text", delta)
	case "response.function_call_arguments.delta", "response.mcp_call_arguments.delta":
		had, _ := item["arguments"].(string)
		item["arguments"] = had + delta
	case "response.custom_tool_call_input.delta":
		had, _ := item["input"].(string)
		item["input"] = had + delta
	}
}

// identity is what events call an item.
func identity(item map[string]any) string {
	if id, _ := item["id"].(string); id != "" {
		return id
	}
	id, _ := item["call_id"].(string)
	return id
}

// put takes an item at the place that its event names, or else that of its id.
func (w *responsesWriter) put(e, item map[string]any) {
	if w.items == nil {
		w.items = map[int]map[string]any{}
	}
	id := identity(item)
	at := slices.Index(w.ids, id)
	if at < 0 {
		at = len(w.ids)
		w.ids = append(w.ids, id)
	}
	if e["output_index"] != nil {
		at = number(e["output_index"])
	}
	w.items[at] = item
}

// item finds the item that an event belongs to.
func (w *responsesWriter) item(e map[string]any) map[string]any {
	if e["output_index"] != nil {
		return w.items[number(e["output_index"])]
	}
	id, _ := e["item_id"].(string)
	return w.items[slices.Index(w.ids, id)]
}

// setPart puts a part in its place in one of an item's lists.
func setPart(item map[string]any, list string, index, part any) {
	parts, _ := item[list].([]any)
	if i := number(index); index != nil && i < len(parts) {
		parts[i] = part
	} else if index == nil && len(parts) > 0 && number(part) == 0 && sameType(parts[len(parts)-1], part) {
		parts[len(parts)-1] = part
	} else {
		item[list] = append(parts, part)
	}
}

func sameType(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return x["type"] == y["type"]
}

// addText adds a piece to a part of one of an item's lists.
func addText(item map[string]any, list string, index any, kind, member, text string) {
	parts, _ := item[list].([]any)
	i := len(parts) - 1
	if index != nil {
		i = number(index)
	}
	if i < 0 || i >= len(parts) {
		item[list] = append(parts, map[string]any{"type": kind, member: text})
		return
	}
	if part, ok := parts[i].(map[string]any); ok {
		had, _ := part[member].(string)
		part[member] = had + text
	}
}

// Folded is the response of the terminal event; an error where none came.
func (w *responsesWriter) Folded() ([]byte, error) {
	if w.final == nil {
		return nil, errors.New("the stream ended without its terminal event")
	}
	output, _ := w.final["output"].([]any)
	if len(output) == 0 {
		output = []any{}
		for _, at := range slices.Sorted(maps.Keys(w.items)) {
			output = append(output, w.items[at])
		}
		w.final["output"] = output
	}
	return encode(w.final), nil
}

// Unfold makes the events of a whole answer: created and in_progress, each item
// with its parts opened, said in one delta and closed, and the terminal event.
func (w *responsesWriter) Unfold(body []byte) ([][]byte, error) {
	var answer map[string]any
	if err := decode(body, &answer); err != nil {
		return nil, errors.New("the answer is not a JSON object")
	}
	output, ok := answer["output"].([]any)
	if !ok {
		return nil, errors.New("the answer has no output")
	}
	status, _ := answer["status"].(string)
	switch status {
	case "incomplete", "failed":
	case "", "completed":
		status = "completed"
	default:
		return nil, errors.New("the answer is not finished")
	}
	u := &responsesUnfold{}
	begun := maps.Clone(answer)
	maps.Copy(begun, map[string]any{"status": "in_progress", "output": []any{}, "usage": nil, "error": nil, "incomplete_details": nil})
	delete(begun, "completed_at")
	u.give("response.created", map[string]any{"response": begun})
	u.give("response.in_progress", map[string]any{"response": begun})
	for i, v := range output {
		if item, ok := v.(map[string]any); ok {
			u.item(i, item)
		}
	}
	u.give("response."+status, map[string]any{"response": answer})
	return u.frames, nil
}

// responsesUnfold numbers the events of one stream.
type responsesUnfold struct{ frames [][]byte }

func (u *responsesUnfold) give(kind string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = kind, len(u.frames)
	u.frames = append(u.frames, namedEvent(kind, encode(fields)))
}

// item gives the events of one item. Of an item that is no message, reasoning or
// call, only its opening and its end are told.
func (u *responsesUnfold) item(at int, item map[string]any) {
	if identity(item) != "" && item["id"] == nil { // llama-server's calls
		item["id"] = identity(item)
	}
	begun := maps.Clone(item)
	if _, ok := begun["status"]; ok {
		begun["status"] = "in_progress"
	}
	for name, empty := range map[string]any{"content": []any{}, "summary": []any{}, "arguments": "", "input": ""} {
		switch begun[name].(type) {
		case string, []any:
			begun[name] = empty
		}
	}
	u.give("response.output_item.added", map[string]any{"output_index": at, "item": begun})
	within := func(more map[string]any) map[string]any {
		more["output_index"], more["item_id"] = at, item["id"]
		return more
	}
	summary, _ := item["summary"].([]any)
	for j, part := range summary {
		u.part("response.reasoning_summary_part", "summary_index", j, part, within)
	}
	content, _ := item["content"].([]any)
	for j, part := range content {
		u.part("response.content_part", "content_index", j, part, within)
	}
	for name, kind := range map[string]string{"function_call": "function_call_arguments", "mcp_call": "mcp_call_arguments", "custom_tool_call": "custom_tool_call_input"} {
		if item["type"] != name {
			continue
		}
		member := "arguments"
		if name == "custom_tool_call" {
			member = "input"
		}
		if said, _ := item[member].(string); said != "" {
			u.give("response."+kind+".delta", within(map[string]any{"delta": said}))
		}
		done := within(map[string]any{member: item[member]})
		if name == "function_call" {
			done["name"] = item["name"]
		}
		u.give("response."+kind+".done", done)
	}
	u.give("response.output_item.done", map[string]any{"output_index": at, "item": item})
}

// part gives the events of one part of an item.
func (u *responsesUnfold) part(family, index string, at int, v any, within func(map[string]any) map[string]any) {
	part, ok := v.(map[string]any)
	if !ok {
		return
	}
	kinds := map[string]string{
		"output_text": "response.output_text", "refusal": "response.refusal", "reasoning_text": "response.reasoning_text", "summary_text": "response.reasoning_summary_text",
	}
	kind, _ := part["type"].(string)
	member := "text"
	if kind == "refusal" {
		member = "refusal"
	}
	said, _ := part[member].(string)
	begun := maps.Clone(part)
	if kinds[kind] != "" {
		begun[member] = ""
	}
	if _, ok := begun["annotations"]; ok {
		begun["annotations"] = []any{}
	}
	u.give(family+".added", within(map[string]any{index: at, "part": begun}))
	if kinds[kind] != "" {
		delta, done := within(map[string]any{index: at, "delta": said}), within(map[string]any{index: at, member: said})
		if kind == "output_text" {
			delta["logprobs"], done["logprobs"] = []any{}, []any{}
			if had, ok := part["logprobs"].([]any); ok {
				delta["logprobs"], done["logprobs"] = had, had
			}
		}
		if said != "" {
			u.give(kinds[kind]+".delta", delta)
		}
		u.give(kinds[kind]+".done", done)
	}
	u.give(family+".done", within(map[string]any{index: at, "part": part}))
}

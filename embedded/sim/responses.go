package sim

import (
	"encoding/json"
	"net/http"

	"headway/core"
)

// responses is OpenAI's Responses format.
type responses struct{ chat }

func parseResponses(_ *http.Request, body []byte) (*request, *core.Error) {
	var in struct {
		Model           string          `json:"model"`
		Input           any             `json:"input"`
		Instructions    string          `json:"instructions"`
		MaxOutputTokens *int            `json:"max_output_tokens"`
		Stream          bool            `json:"stream"`
		Tools           json.RawMessage `json:"tools"`
		ToolChoice      json.RawMessage `json:"tool_choice"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	q := &request{wire: responses{}, op: core.OpGenerate, name: in.Model, stream: in.Stream}
	if in.Model == "" {
		return nil, core.Field("model", "is missing")
	}
	if err := q.maximum("max_output_tokens", in.MaxOutputTokens); err != nil {
		return nil, err
	}
	var tools []struct {
		Type       string          `json:"type"`
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if len(in.Tools) > 0 && json.Unmarshal(in.Tools, &tools) != nil {
		return nil, core.Field("tools", "a list of tools is wanted")
	}
	last := ""
	q.offer(in.Tools)
	q.say(in.Instructions)
	q.say(in.Input)
	switch v := in.Input.(type) {
	case string:
		last = v
	case []any:
		for _, e := range v {
			item, _ := e.(map[string]any)
			role, _ := item["role"].(string) // items without one are calls and their results
			last = spoken(last, role, item["content"])
		}
	default:
		return nil, core.Field("input", "a text or a list is wanted")
	}
	q.prompt = tokens(len(q.text))
	var usable []tool
	for _, t := range tools {
		if t.Type == "function" && t.Name != "" {
			usable = append(usable, tool{t.Name, t.Parameters})
		}
	}
	q.tool = choose(usable, in.ToolChoice, last)
	return q, nil
}

// item is the answer's one output item, as it stands: at first without text.
func (a *answer) item(status, text string, parts list) json.RawMessage {
	if a.call != nil {
		return object("id", identity("fc_", a.id), "type", "function_call", "status", status,
			"arguments", text, "call_id", identity("call_", a.id), "name", a.call.name)
	}
	return object("id", identity("msg_", a.id), "type", "message", "status", status, "role", "assistant", "content", parts)
}

func outputText(text string) json.RawMessage {
	return object("type", "output_text", "annotations", list{}, "logprobs", list{}, "text", text)
}

// response is the whole response object as it stands.
func (a *answer) response(status string, output list, usage json.RawMessage) json.RawMessage {
	incomplete := json.RawMessage("null")
	if status == "incomplete" {
		incomplete = object("reason", "max_output_tokens")
	}
	var most any
	if a.most.OK {
		most = a.most.V
	}
	return object("id", identity("resp_", a.id), "object", "response", "created_at", a.at.Unix(), "status", status,
		"background", false, "error", nil, "incomplete_details", incomplete, "instructions", nil,
		"max_output_tokens", most, "model", a.name, "output", output, "parallel_tool_calls", true,
		"previous_response_id", nil, "reasoning", object("effort", nil, "summary", nil), "service_tier", "default",
		"store", false, "temperature", 1, "text", object("format", object("type", "text")), "tool_choice", "auto",
		"tools", list{}, "top_p", 1, "truncation", "disabled", "usage", usage, "user", nil, "metadata", object())
}

// done is how the response ends: the item as it is then, and the response.
func (a *answer) done() (status string, item, response json.RawMessage) {
	status = "completed"
	if a.short {
		status = "incomplete"
	}
	item = a.item(status, a.joined(), list{outputText(a.joined())})
	usage := object("input_tokens", a.prompt, "input_tokens_details", a.openAICache(),
		"output_tokens", a.tokens, "output_tokens_details", object("reasoning_tokens", 0),
		"total_tokens", a.prompt+a.tokens)
	return status, item, a.response(status, list{item}, usage)
}

func (responses) whole(a *answer) []byte {
	_, _, response := a.done()
	return response
}

func (responses) stream(a *answer) frames {
	number := 0
	typed := func(name string, members ...any) []byte {
		data := object(append(append([]any{"type", name}, members...), "sequence_number", number)...)
		number++
		return event(name, data)
	}
	status, item, response := a.done()
	begun := a.response("in_progress", list{}, json.RawMessage("null"))
	f := frames{contentType: eventStream, open: [][]byte{
		typed("response.created", "response", begun),
		typed("response.in_progress", "response", begun),
	}}
	f.before = [][]byte{typed("response.output_item.added", "output_index", 0, "item", a.item("in_progress", "", list{}))}
	place := []any{"item_id", identity("msg_", a.id), "output_index", 0, "content_index", 0}
	delta := "response.output_text.delta"
	if a.call != nil {
		place = []any{"item_id", identity("fc_", a.id), "output_index", 0}
		delta = "response.function_call_arguments.delta"
	} else {
		f.before = append(f.before, typed("response.content_part.added", append(place, "part", outputText(""))...))
		place = append(place, "logprobs", list{})
	}
	first := number
	f.piece = func(i int) []byte {
		return event(delta, object(append(append([]any{"type", delta}, place...),
			"delta", a.pieces[i], "sequence_number", first+i)...))
	}
	number += len(a.pieces)
	if a.call != nil {
		f.after = [][]byte{typed("response.function_call_arguments.done", append(place, "name", a.call.name, "arguments", a.joined())...)}
	} else {
		f.after = [][]byte{
			typed("response.output_text.done", append(place, "text", a.joined())...),
			typed("response.content_part.done", append(place[:6:6], "part", outputText(a.joined()))...),
		}
	}
	f.after = append(f.after,
		typed("response.output_item.done", "output_index", 0, "item", item),
		typed("response."+status, "response", response))
	return f
}

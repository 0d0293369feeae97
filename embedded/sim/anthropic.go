package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"headway/core"
)

// messages is Anthropic's Messages format.
type messages struct{}

func parseMessages(r *http.Request, body []byte) (*request, *core.Error) {
	var in struct {
		Model      string           `json:"model"`
		Messages   []map[string]any `json:"messages"`
		System     any              `json:"system"`
		MaxTokens  *int             `json:"max_tokens"`
		Stream     bool             `json:"stream"`
		Tools      json.RawMessage  `json:"tools"`
		ToolChoice json.RawMessage  `json:"tool_choice"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	q := &request{wire: messages{}, op: core.OpGenerate, name: in.Model, stream: in.Stream}
	if strings.HasSuffix(r.URL.Path, "/count_tokens") {
		q.op = core.OpCountTokens
	}
	switch {
	case in.Model == "":
		return nil, core.Field("model", "is missing")
	case in.MaxTokens == nil && q.op == core.OpGenerate:
		return nil, core.Field("max_tokens", "is missing")
	case len(in.Messages) == 0:
		return nil, core.Field("messages", "a list with at least one message is wanted")
	}
	if err := q.maximum("max_tokens", in.MaxTokens); err != nil {
		return nil, err
	}
	var tools []struct {
		Type        string          `json:"type"` // set for tools that run at the provider
		Name        string          `json:"name"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	if len(in.Tools) > 0 && json.Unmarshal(in.Tools, &tools) != nil {
		return nil, core.Field("tools", "a list of tools is wanted")
	}
	q.offer(in.Tools)
	q.say(in.System)
	last := ""
	for i, m := range in.Messages {
		role, ok := m["role"].(string)
		if !ok {
			return nil, core.Field(fmt.Sprintf("messages[%d].role", i), "a text is wanted")
		}
		q.say(m)
		last = spoken(last, role, m["content"])
		if parts, _ := m["content"].([]any); hasType(parts, "tool_result") {
			last = "" // the tool was called: this is its result
		}
	}
	q.prompt = tokens(len(q.text))
	var usable []tool
	for _, t := range tools {
		if t.Name != "" && (t.Type == "" || t.Type == "custom") {
			usable = append(usable, tool{t.Name, t.InputSchema})
		}
	}
	q.tool = choose(usable, in.ToolChoice, last)
	return q, nil
}

// hasType tells whether one of a message's parts is of a type.
func hasType(parts []any, kind string) bool {
	for _, p := range parts {
		if o, _ := p.(map[string]any); o["type"] == kind {
			return true
		}
	}
	return false
}

func (messages) header(contentType string, id uint64) http.Header {
	h := http.Header{"Content-Type": {contentType}}
	if id != 0 {
		h.Set("Request-Id", identity("req_", id))
	}
	return h
}

func (a *answer) anthropicUsage(output int) json.RawMessage {
	return object("input_tokens", a.prompt-a.cached.V-a.wrote.V, "cache_creation_input_tokens", a.wrote.V,
		"cache_creation", object("ephemeral_5m_input_tokens", a.wrote.V-a.hour, "ephemeral_1h_input_tokens", a.hour),
		"cache_read_input_tokens", a.cached.V, "output_tokens", output, "service_tier", "standard")
}

func (a *answer) anthropicFinish() string {
	switch {
	case a.call != nil:
		return "tool_use"
	case a.short:
		return "max_tokens"
	}
	return "end_turn"
}

func (a *answer) message(content list, finish any, output int) json.RawMessage {
	return object("id", identity("msg_", a.id), "type", "message", "role", "assistant", "model", a.name,
		"content", content, "stop_reason", finish, "stop_sequence", nil, "usage", a.anthropicUsage(output))
}

// block is the answer's one content block; "" and nil open it in a stream.
func (a *answer) block(text string, input json.RawMessage) json.RawMessage {
	if a.call != nil {
		return object("type", "tool_use", "id", identity("toolu_", a.id), "name", a.call.name, "input", input)
	}
	return object("type", "text", "text", text)
}

func (messages) whole(a *answer) []byte {
	return a.message(list{a.block(a.joined(), json.RawMessage(a.joined()))}, a.anthropicFinish(), a.tokens)
}

func (messages) stream(a *answer) frames {
	typed := func(name string, members ...any) []byte {
		return event(name, object(append([]any{"type", name}, members...)...))
	}
	delta := object("type", "text_delta", "text", a.slot())
	if a.call != nil {
		delta = object("type", "input_json_delta", "partial_json", a.slot())
	}
	return frames{
		contentType: eventStream,
		open: [][]byte{
			typed("message_start", "message", a.message(list{}, nil, 1)),
			typed("ping"),
		},
		before: [][]byte{typed("content_block_start", "index", 0, "content_block", a.block("", object()))},
		piece:  a.fill(typed("content_block_delta", "index", 0, "delta", delta)),
		after: [][]byte{
			typed("content_block_stop", "index", 0),
			typed("message_delta", "delta", object("stop_reason", a.anthropicFinish(), "stop_sequence", nil),
				"usage", a.anthropicUsage(a.tokens)),
			typed("message_stop"),
		},
	}
}

func (messages) fail(status int, e *core.Error) []byte {
	kind, ok := map[int]string{
		401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
	}[status]
	switch {
	case ok:
	case status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	return object("type", "error", "error", object("type", kind, "message", e.Msg), "request_id", nil)
}

func (messages) model(name string) []byte {
	return object("type", "model", "id", name, "display_name", name,
		"created_at", time.Unix(since, 0).UTC().Format(time.RFC3339))
}

func (m messages) models(names []string) []byte {
	all, first, last := list{}, any(nil), any(nil)
	for i, n := range names {
		all = append(all, m.model(n))
		if i == 0 {
			first = n
		}
		last = n
	}
	return object("data", all, "has_more", false, "first_id", first, "last_id", last)
}

package sim

import (
	"encoding/json"
	"fmt"
	"net/http"

	"headway/core"
)

// chat is OpenAI's chat completions, and the errors and model lists of all of
// OpenAI's formats.
type chat struct{}

// openAIRequest has the members that chat completions and completions share.
type openAIRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens *int `json:"max_tokens"`
	N         *int `json:"n"`
}

func (in *openAIRequest) common(w wire) (*request, *core.Error) {
	if in.Model == "" {
		return nil, core.Field("model", "is missing")
	}
	if in.N != nil && *in.N != 1 {
		return nil, core.Field("n", "only 1 is simulated")
	}
	q := &request{wire: w, op: core.OpGenerate, name: in.Model, stream: in.Stream,
		usage: in.StreamOptions.IncludeUsage}
	return q, q.maximum("max_tokens", in.MaxTokens)
}

func parseChat(_ *http.Request, body []byte) (*request, *core.Error) {
	var in struct {
		openAIRequest
		MaxCompletionTokens *int             `json:"max_completion_tokens"`
		Messages            []map[string]any `json:"messages"`
		Tools               json.RawMessage  `json:"tools"`
		ToolChoice          json.RawMessage  `json:"tool_choice"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	q, err := in.common(chat{})
	if err == nil {
		err = q.maximum("max_completion_tokens", in.MaxCompletionTokens)
	}
	if err != nil {
		return nil, err
	}
	if len(in.Messages) == 0 {
		return nil, core.Field("messages", "a list with at least one message is wanted")
	}
	var tools []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if len(in.Tools) > 0 && json.Unmarshal(in.Tools, &tools) != nil {
		return nil, core.Field("tools", "a list of functions is wanted")
	}
	q.offer(in.Tools)
	last := ""
	for i, m := range in.Messages {
		role, ok := m["role"].(string)
		if !ok {
			return nil, core.Field(fmt.Sprintf("messages[%d].role", i), "a text is wanted")
		}
		q.say(m)
		last = spoken(last, role, m["content"])
	}
	q.prompt = tokens(len(q.text))
	var usable []tool
	for _, t := range tools {
		if t.Function.Name != "" {
			usable = append(usable, tool{t.Function.Name, t.Function.Parameters})
		}
	}
	q.tool = choose(usable, in.ToolChoice, last)
	return q, nil
}

// spoken keeps the text of the last message where it is a user's; instructions
// may follow it.
func spoken(last, role string, content any) string {
	switch role {
	case "user":
		return lastText(content)
	case "system", "developer":
		return last
	}
	return ""
}

func (chat) header(contentType string, id uint64) http.Header {
	h := http.Header{"Content-Type": {contentType}}
	if id != 0 {
		h.Set("X-Request-Id", identity("req_", id))
	}
	return h
}

// openAICache is how the formats of OpenAI tell cached tokens, with other members.
func (a *answer) openAICache(others ...any) json.RawMessage {
	members := append([]any{"cached_tokens", a.cached.V}, others...)
	if a.wrote.OK {
		members = append(members, "cache_write_tokens", a.wrote.V)
	}
	return object(members...)
}

func (a *answer) openAIUsage() json.RawMessage {
	return object("prompt_tokens", a.prompt, "completion_tokens", a.tokens, "total_tokens", a.prompt+a.tokens,
		"prompt_tokens_details", a.openAICache("audio_tokens", 0),
		"completion_tokens_details", object("reasoning_tokens", 0, "audio_tokens", 0,
			"accepted_prediction_tokens", 0, "rejected_prediction_tokens", 0))
}

func (a *answer) openAIFinish() string {
	switch {
	case a.call != nil:
		return "tool_calls"
	case a.short:
		return "length"
	}
	return "stop"
}

func (chat) whole(a *answer) []byte {
	message := object("role", "assistant", "content", a.joined(), "refusal", nil, "annotations", list{})
	if a.call != nil {
		call := object("id", identity("call_", a.id), "type", "function",
			"function", object("name", a.call.name, "arguments", a.joined()))
		message = object("role", "assistant", "content", nil, "refusal", nil, "annotations", list{}, "tool_calls", list{call})
	}
	choice := object("index", 0, "message", message, "logprobs", nil, "finish_reason", a.openAIFinish())
	return object("id", identity("chatcmpl-", a.id), "object", "chat.completion", "created", a.at.Unix(), "model", a.name,
		"choices", list{choice}, "usage", a.openAIUsage(), "service_tier", "default", "system_fingerprint", "fp_simulated")
}

// chunk is one event of a chat stream.
func (a *answer) chunk(choices list, usage json.RawMessage) []byte {
	members := []any{"id", identity("chatcmpl-", a.id), "object", "chat.completion.chunk", "created", a.at.Unix(),
		"model", a.name, "service_tier", "default", "system_fingerprint", "fp_simulated", "choices", choices}
	if a.usage {
		members = append(members, "usage", usage)
	}
	return event("", object(members...))
}

func (chat) stream(a *answer) frames {
	delta := func(d json.RawMessage, finish any) []byte {
		return a.chunk(list{object("index", 0, "delta", d, "logprobs", nil, "finish_reason", finish)}, json.RawMessage("null"))
	}
	f := frames{contentType: eventStream}
	if a.call == nil {
		f.open = [][]byte{delta(object("role", "assistant", "content", "", "refusal", nil), nil)}
		f.piece = a.fill(delta(object("content", a.slot()), nil))
	} else {
		f.open = [][]byte{delta(object("role", "assistant", "content", nil, "refusal", nil), nil)}
		f.before = [][]byte{delta(object("tool_calls", list{object("index", 0, "id", identity("call_", a.id), "type", "function",
			"function", object("name", a.call.name, "arguments", ""))}), nil)}
		f.piece = a.fill(delta(object("tool_calls", list{object("index", 0, "function", object("arguments", a.slot()))}), nil))
	}
	f.after = [][]byte{delta(object(), a.openAIFinish())}
	if a.usage {
		f.after = append(f.after, a.chunk(list{}, a.openAIUsage()))
	}
	f.after = append(f.after, []byte("data: [DONE]\n\n"))
	return f
}

func (chat) fail(status int, e *core.Error) []byte {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status == http.StatusUnauthorized:
		kind = "authentication_error"
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status >= 500:
		kind = "server_error"
	}
	return object("error", object("message", e.Msg, "type", kind, "param", orNull(e.Param), "code", orNull(e.Code)))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// since is when simulated models came into the world.
const since = 1767225600 // 2026-01-01

func (chat) model(name string) []byte {
	return object("id", name, "object", "model", "created", since, "owned_by", "simulated")
}

func (c chat) models(names []string) []byte {
	all := list{}
	for _, n := range names {
		all = append(all, c.model(n))
	}
	return object("object", "list", "data", all)
}

package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"headway/core"
)

// request is what a request asks for, whatever its format.
type request struct {
	wire   wire
	op     core.Operation
	name   string // the model as it was asked for: answers name it
	model  string // without what name@key=value says
	stream bool
	usage  bool // chat: a usage chunk was asked for
	array  bool // Google: a stream without alt=sse

	prompt int           // tokens
	text   []byte        // of the prompt: tools, system text, messages
	marks  []mark        // the places in it that it wants to be cached to
	cached core.Opt[int] // tokens of the prompt; once the request is read, it is there
	wrote  core.Opt[int] // tokens written to the cache, where that is told …
	hour   int           // … and those of them that stay for an hour
	most   core.Opt[int] // output tokens
	output core.Opt[int] // output tokens, by the model's name
	tool   *tool         // to be called

	inputs [][]byte // embeddings: one each
	dims   int
	base64 bool
}

// parser reads a request of one operation. An error is the caller's fault.
type parser func(r *http.Request, body []byte) (*request, *core.Error)

// wireOf tells the format that a request is in: errors are answered in it too.
func wireOf(r *http.Request) wire {
	path := r.URL.Path
	switch {
	case strings.Contains(path, "/v1beta/models"), r.Method == http.MethodPost && googleMethod(path) != "":
		return google{}
	case strings.HasSuffix(path, "/messages"), strings.HasSuffix(path, "/messages/count_tokens"),
		r.Header.Get("Anthropic-Version") != "":
		return messages{}
	case strings.HasSuffix(path, "/responses"):
		return responses{}
	case strings.HasSuffix(path, "/completions") && !strings.HasSuffix(path, "/chat/completions"):
		return completions{}
	}
	return chat{}
}

// route finds the parser of a path; nil: there is none.
func route(w wire, path string) parser {
	if _, ok := w.(google); ok {
		return map[string]parser{
			"generateContent": parseGoogle, "streamGenerateContent": parseGoogle, "countTokens": parseGoogle,
		}[googleMethod(path)]
	}
	for suffix, p := range map[string]parser{
		"/chat/completions": parseChat, "/responses": parseResponses, "/embeddings": parseEmbeddings,
		"/messages": parseMessages, "/messages/count_tokens": parseMessages,
	} {
		if strings.HasSuffix(path, suffix) {
			return p
		}
	}
	if strings.HasSuffix(path, "/completions") {
		return parseCompletions
	}
	return nil
}

// override reads what the model's name (name@prompt=40000,cached=100,output=200)
// and the header X-Sim-Prompt-Tokens say in place of the request; the name wins.
func (q *request) override(h http.Header) *core.Error {
	q.model = q.name
	if v := h.Get("X-Sim-Prompt-Tokens"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > mostPrompt {
			return core.Field("x-sim-prompt-tokens", "a whole number from 0 to %d is wanted", mostPrompt)
		}
		q.prompt = n
	}
	at := strings.LastIndexByte(q.name, '@')
	if at < 0 || !strings.Contains(q.name[at:], "=") {
		return nil // an @ may be a part of a name
	}
	q.model = q.name[:at]
	for part := range strings.SplitSeq(q.name[at+1:], ",") {
		key, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil || n < 0:
		case key == "prompt" && n <= mostPrompt:
			q.prompt = n
			continue
		case key == "cached" && n <= mostPrompt:
			q.cached = core.Some(n)
			continue
		case key == "output" && n >= 1 && n <= mostOutput:
			q.output = core.Some(n)
			continue
		}
		return core.Field("model", "behind the @ prompt=, cached= (0 to %d) and output= (1 to %d) are known", mostPrompt, mostOutput)
	}
	return nil
}

func (p *Provider) serves(model string) bool {
	return len(p.cfg.Models) == 0 || slices.Contains(p.cfg.Models, model)
}

// decode reads a body; its error names the field, where there is one.
func decode(body []byte, into any) *core.Error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return core.Field(wrong.Field, "%s is not what belongs here", article(wrong.Value))
	case errors.As(err, &wrong):
		return core.Errorf(core.Invalid, "the body is %s, not an object", article(wrong.Value))
	}
	return core.Errorf(core.Invalid, "the body is not valid JSON")
}

// article puts encoding/json's word for a value ("number 1.5") into a sentence.
func article(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	return "a " + kind
}

// maximum reads an output maximum; 0 and less are refused.
func (q *request) maximum(name string, v *int) *core.Error {
	if v == nil {
		return nil
	}
	if *v < 1 {
		return core.Field(name, "%d is not a number of tokens, 1 or more", *v)
	}
	q.most = core.Some(*v)
	return nil
}

// say adds what a model would read of a part of a request: its strings under the
// names that the formats use for text, and the free-form input and output of tools
// as JSON, always in the same order. What a part says of caching (Anthropic's
// cache_control) marks the end of it.
func (q *request) say(v any) {
	switch v := v.(type) {
	case string:
		q.text = append(q.text, v...)
	case []any:
		for _, e := range v {
			q.say(e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch name {
			case "text", "content", "parts", "thinking", "reasoning_content", "refusal", "arguments", "output", "summary",
				"tool_calls", "function", "functionCall", "functionResponse":
				q.say(v[name])
			case "input", "args", "response":
				free, _ := json.Marshal(v[name]) // it was JSON before
				q.text = append(q.text, free...)
			}
		}
		q.mark(v)
	}
}

// offer adds the definitions of tools, which are read as they are written.
func (q *request) offer(tools json.RawMessage) {
	if string(tools) == "null" {
		return
	}
	var all []map[string]any
	if !bytes.Contains(tools, []byte(`"cache_control"`)) || json.Unmarshal(tools, &all) != nil {
		q.text = append(q.text, tools...)
		return
	}
	for _, t := range all {
		marked := maps.Clone(t)
		delete(t, "cache_control")
		plain, _ := json.Marshal(t) // it was JSON before
		q.text = append(q.text, plain...)
		q.mark(marked)
	}
}

// mark notes where a part of a request that was just read wants to be cached to.
func (q *request) mark(part map[string]any) {
	if c, ok := part["cache_control"].(map[string]any); ok {
		q.marks = append(q.marks, mark{len(q.text), c["ttl"] == "1h"})
	}
}

// tokens is the size of a text of n bytes: four of them each, rounded up.
func tokens(n int) int { return (n + 3) / 4 }

// lastText is the text of a part of a request that is a message's content.
func lastText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		all := ""
		for _, e := range v {
			all += lastText(e) + "\n"
		}
		return all
	case map[string]any:
		if t, ok := v["text"].(string); ok {
			return t
		}
	}
	return ""
}

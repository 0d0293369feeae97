package sim_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"headway/embedded/sim"
)

// format is a way to ask for an answer and to read it.
type format struct {
	name   string
	path   func(model string, stream bool) string
	body   func(model, text string, stream bool, most int, tools string) string
	tools  string // a list with the one tool "look_up", which needs "place"
	output func(v map[string]any) string
	tokens func(v map[string]any) (prompt, output any)
	finish func(v map[string]any) any
}

const schema = `{"type":"object","properties":{"place":{"type":"string","enum":["Zürich 𝄞"]},"n":{"type":"integer"}},"required":["place"]}`

func member(with, name string, v any) string {
	if v == 0 || v == "" {
		return ""
	}
	if s, ok := v.(string); ok {
		return with + `"` + name + `":` + s
	}
	text, _ := json.Marshal(v)
	return with + `"` + name + `":` + string(text)
}

// at follows names and indexes into a JSON value; nil where they lead nowhere.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

func compact(v any) string {
	if v == nil {
		return ""
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func fixed(path string) func(string, bool) string {
	return func(string, bool) string { return path }
}

var formats = []format{
	{
		name: "chat", path: fixed("/v1/chat/completions"),
		body: func(model, text string, stream bool, most int, tools string) string {
			s := `{"model":"` + model + `","messages":[{"role":"user","content":"` + text + `"}]` +
				member(",", "max_completion_tokens", most) + member(",", "tools", tools)
			if stream {
				s += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			return s + `}`
		},
		tools: `[{"type":"function","function":{"name":"look_up","parameters":` + schema + `}}]`,
		output: func(v map[string]any) string {
			for _, holder := range []string{"delta", "message"} {
				d := at(v, "choices", 0, holder)
				if s := text(d, "content") + text(d, "tool_calls", 0, "function", "name") + "|" +
					text(d, "tool_calls", 0, "function", "arguments"); s != "|" {
					return strings.Trim(s, "|")
				}
			}
			return ""
		},
		tokens: func(v map[string]any) (any, any) {
			return at(v, "usage", "prompt_tokens"), at(v, "usage", "completion_tokens")
		},
		finish: func(v map[string]any) any { return at(v, "choices", 0, "finish_reason") },
	},
	{
		name: "completions", path: fixed("/v1/completions"),
		body: func(model, text string, stream bool, most int, _ string) string {
			s := `{"model":"` + model + `","prompt":"` + text + `"` + member(",", "max_tokens", most)
			if stream {
				s += `,"stream":true,"stream_options":{"include_usage":true}`
			}
			return s + `}`
		},
		output: func(v map[string]any) string { return text(v, "choices", 0, "text") },
		tokens: func(v map[string]any) (any, any) {
			return at(v, "usage", "prompt_tokens"), at(v, "usage", "completion_tokens")
		},
		finish: func(v map[string]any) any { return at(v, "choices", 0, "finish_reason") },
	},
	{
		name: "responses", path: fixed("/v1/responses"),
		body: func(model, text string, stream bool, most int, tools string) string {
			return `{"model":"` + model + `","input":[{"role":"user","content":[{"type":"input_text","text":"` + text + `"}]}]` +
				member(",", "max_output_tokens", most) + member(",", "tools", tools) + member(",", "stream", stream) + `}`
		},
		tools: `[{"type":"web_search"},{"type":"function","name":"look_up","parameters":` + schema + `}]`,
		output: func(v map[string]any) string {
			if strings.HasSuffix(text(v, "type"), ".delta") {
				return text(v, "delta")
			}
			if v["object"] == "response" {
				return text(v, "output", 0, "content", 0, "text") + text(v, "output", 0, "arguments")
			}
			return ""
		},
		tokens: func(v map[string]any) (any, any) {
			if r, ok := v["response"].(map[string]any); ok {
				v = r
			}
			return at(v, "usage", "input_tokens"), at(v, "usage", "output_tokens")
		},
		finish: func(v map[string]any) any {
			if r, ok := v["response"].(map[string]any); ok {
				v = r
			}
			if v["status"] == "in_progress" {
				return nil
			}
			return v["status"]
		},
	},
	{
		name: "messages", path: fixed("/v1/messages"),
		body: func(model, text string, stream bool, most int, tools string) string {
			if most == 0 {
				most = 100_000
			}
			return `{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"}]}]` +
				member(",", "max_tokens", most) + member(",", "tools", tools) + member(",", "stream", stream) + `}`
		},
		tools: `[{"name":"look_up","input_schema":` + schema + `}]`,
		output: func(v map[string]any) string {
			if v["type"] == "message" {
				return text(v, "content", 0, "text") + compact(at(v, "content", 0, "input"))
			}
			return text(v, "delta", "text") + text(v, "delta", "partial_json")
		},
		tokens: func(v map[string]any) (any, any) {
			if v["type"] == "message_start" {
				return nil, nil // its output is a placeholder
			}
			return at(v, "usage", "input_tokens"), at(v, "usage", "output_tokens")
		},
		finish: func(v map[string]any) any {
			if v["type"] == "message" {
				return v["stop_reason"]
			}
			return at(v, "delta", "stop_reason")
		},
	},
	googleFormat("google", "?alt=sse"),
	googleFormat("google array", ""),
}

func googleFormat(name, query string) format {
	return format{
		name: name,
		path: func(model string, stream bool) string {
			if stream {
				return "/v1beta/models/" + model + ":streamGenerateContent" + query
			}
			return "/v1beta/models/" + model + ":generateContent"
		},
		body: func(_, text string, _ bool, most int, tools string) string {
			s := `{"contents":[{"parts":[{"text":"` + text + `"}]}]` + member(",", "tools", tools)
			if most > 0 {
				s += `,"generation_config":{` + member("", "maxOutputTokens", most) + `}`
			}
			return s + `}`
		},
		tools: `[{"functionDeclarations":[{"name":"look_up","parametersJsonSchema":` + schema + `}]}]`,
		output: func(v map[string]any) string {
			p := at(v, "candidates", 0, "content", "parts", 0)
			return text(p, "text") + compact(at(p, "functionCall", "args"))
		},
		tokens: func(v map[string]any) (any, any) {
			return at(v, "usageMetadata", "promptTokenCount"), at(v, "usageMetadata", "candidatesTokenCount")
		},
		finish: func(v map[string]any) any { return at(v, "candidates", 0, "finishReason") },
	}
}

// heard is what a client made of an answer.
type heard struct {
	status               int
	header               http.Header
	headers, first, last time.Duration // since the request
	end                  time.Duration
	output               string
	outputs              int // events with output
	prompt, tokens       any
	finish               any
	err                  error // of the body
	body                 []byte
}

// ask sends a request and reads the answer, event by event.
func (f format) ask(t *testing.T, rt http.RoundTripper, now func() time.Time, model, prompt string, stream bool, most int, tools string) heard {
	t.Helper()
	r, err := http.NewRequest("POST", "http://sim.test"+f.path(model, stream), strings.NewReader(f.body(model, prompt, stream, most, tools)))
	if err != nil {
		t.Fatal(err)
	}
	return f.send(t, rt, now, r)
}

func (f format) send(t *testing.T, rt http.RoundTripper, now func() time.Time, r *http.Request) heard {
	t.Helper()
	start := now()
	since := func() time.Duration { return now().Sub(start) }
	res, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	h := heard{status: res.StatusCode, header: res.Header, headers: since()}
	take := func(data []byte) {
		var v map[string]any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s: %q is not JSON: %v", f.name, data, err)
		}
		if out := f.output(v); out != "" {
			if h.outputs == 0 {
				h.first = since()
			}
			h.last = since()
			h.output += out
			h.outputs++
		}
		if p, o := f.tokens(v); p != nil || o != nil {
			h.prompt, h.tokens = p, o
		}
		if fin := f.finish(v); fin != nil {
			h.finish = fin
		}
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		lines := bufio.NewReader(res.Body)
		for h.err == nil {
			var line []byte
			line, h.err = lines.ReadBytes('\n')
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && string(data) != "[DONE]" && h.err == nil {
				take(data)
			}
		}
	} else if strings.Contains(r.URL.Path, ":stream") && res.StatusCode == 200 {
		dec := json.NewDecoder(io.TeeReader(res.Body, writer(func(p []byte) { h.body = append(h.body, p...) })))
		if _, h.err = dec.Token(); h.err == nil {
			for dec.More() && h.err == nil {
				var raw json.RawMessage
				if h.err = dec.Decode(&raw); h.err == nil {
					take(raw)
				}
			}
			if h.err == nil {
				_, h.err = dec.Token()
			}
			if h.err == nil {
				_, h.err = dec.Token()
			}
		}
	} else {
		h.body, h.err = io.ReadAll(res.Body)
		if h.err == nil {
			take(h.body)
			h.err = io.EOF
		}
	}
	h.end = since()
	if h.err == io.EOF {
		h.err = nil
	}
	return h
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// exact is a provider without chance, which answers everything.
func exact(change func(*sim.Config)) sim.Config {
	c := sim.Default()
	c.Base, c.PrefillTPS, c.OutputTPS = 250*time.Millisecond, 3000, 70
	if change != nil {
		change(&c)
	}
	return c
}

func build(t *testing.T, c sim.Config) *sim.Provider {
	t.Helper()
	p, err := sim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// served serves a provider over pipes in a synctest bubble.
func served(t *testing.T, h http.Handler) *http.Transport {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	tr := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		s.Close()
		<-done
	})
	return tr
}

// pipes is a listener whose connections are handed to it.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

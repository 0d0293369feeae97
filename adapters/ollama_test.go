package adapters_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

func jsonString(s string) core.Quoted {
	b, _ := json.Marshal(s)
	return b
}

// toOllama builds a content's request and gives its body.
func toOllama(t *testing.T, c *core.Content, offer *core.Offer) (string, []string, error) {
	t.Helper()
	job := &core.Job{Format: c.Format, Operation: core.OpGenerate, Model: "m", Streamed: c.Streamed}
	req, dropped, err := adapters.Ollama{}.Build(t.Context(), job, c, core.RequestHead{Path: "/v1/chat/completions"}, offer)
	if err != nil {
		return "", nil, err
	}
	if req.URL.String() != "https://api.example/api/chat" || req.Header.Get("Authorization") != "Bearer sk-own" {
		t.Errorf("goes to %s with %v", req.URL, req.Header)
	}
	body, _ := io.ReadAll(req.Body)
	return string(body), dropped, nil
}

func TestOllamaBuild(t *testing.T) {
	say := func(role core.Role, parts ...core.Part) core.Message {
		return core.Message{Role: role, Parts: parts, At: "messages[0]"}
	}
	words := func(s string) core.Part { return core.Part{Kind: core.PartText, Text: jsonString(s)} }
	image := func(data string) core.Part {
		return core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte(data)}}
	}
	user := func(parts ...core.Part) []core.Message { return []core.Message{say(core.RoleUser, parts...)} }
	tools := []core.Tool{
		{Name: jsonString("f"), Description: jsonString("does"), Schema: core.JSON(`{"type":"object","properties":{"a":{"type":"object"}}}`), Strict: core.Some(true)},
		{Name: jsonString("g")},
	}
	const f = `{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","properties":{"a":{"type":"object"}}}}}`
	const g = `{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}`
	hi := user(words("hi"))
	for _, c := range []struct {
		name    string
		content core.Content
		want    string // members beside model, stream, truncate; without options they are {}
		dropped []string
	}{
		{"text as it stands", core.Content{Messages: user(core.Part{Text: core.Quoted(`"a\u00e9\/\n😀"`)})},
			`"messages":[{"role":"user","content":"a\u00e9\/\n😀"}]`, nil},
		{"system text where it stood", core.Content{Messages: []core.Message{say(core.RoleSystem, words("s")), say(core.RoleUser, words("a"), words("b")),
			say(core.RoleSystem, words("later")), say(core.RoleAssistant, words("one"), words("two"))}},
			`"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\n\nb"},{"role":"system","content":"later"},{"role":"assistant","content":"onetwo"}]`, nil},
		{"images in their order", core.Content{Messages: user(words("first"), image("QQ=="), image("Qg=="), words("second"), image("Qw=="))},
			`"messages":[{"role":"user","content":"first","images":["QQ==","Qg=="]},{"role":"user","content":"second","images":["Qw=="]}]`, nil},
		{"an image before its text", core.Content{Messages: user(image("QQ=="), words("first"), image("Qg=="), words("second"))},
			`"messages":[{"role":"user","content":"first","images":["QQ=="]},{"role":"user","content":"second","images":["Qg=="]}]`, nil},
		{"plain text as a document", core.Content{Messages: user(core.Part{Kind: core.PartDocument, Media: core.Media{Type: "text/plain", Base64: []byte("YSJi")}}, words("c"))},
			`"messages":[{"role":"user","content":"a\"b\n\nc"}]`, nil},
		{"tools", core.Content{Messages: hi, Tools: tools, OneTool: true, Fields: map[core.Ask]string{core.AskOneTool: "parallel_tool_calls"}},
			`"messages":[{"role":"user","content":"hi"}],"tools":[` + f + `,` + g + `]`, []string{"parallel_tool_calls", "strict"}},
		{"no tool may be called", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}},
			`"messages":[{"role":"user","content":"hi"}]`, nil},
		{"some tools may be called", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto, Names: []core.Quoted{core.Quoted(`"\u0067"`)}}},
			`"messages":[{"role":"user","content":"hi"}],"tools":[` + g + `]`, nil},
		{"calls and their results", core.Content{Messages: []core.Message{
			say(core.RoleAssistant, words("look"), core.Part{Kind: core.PartToolCall, ID: jsonString("c1"), Name: jsonString("f"), Arguments: core.JSON(`{"a":{}}`)}, core.Part{Kind: core.PartToolCall, ID: jsonString("c2"), Name: jsonString("g")}),
			say(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: jsonString("c1"), Parts: []core.Part{words("x"), image("QQ==")}}),
			say(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: jsonString("c2"), Failed: true, Parts: []core.Part{words("y")}}, words("go on")),
		}}, `"messages":[{"role":"assistant","content":"look","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":{}}}},{"id":"c2","function":{"name":"g","arguments":{}}}]},
			{"role":"tool","content":"x","tool_name":"f","tool_call_id":"c1"},{"role":"tool","content":"The tool failed.\n\ny","tool_name":"g","tool_call_id":"c2"},
			{"role":"user","content":"go on","images":["QQ=="]}]`, nil},
		{"a result's image last", core.Content{Messages: []core.Message{say(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: jsonString("c"), Name: jsonString("f"), Parts: []core.Part{image("QQ==")}}),
			say(core.RoleAssistant, words("a"))}},
			`"messages":[{"role":"tool","content":"","tool_name":"f","tool_call_id":"c"},{"role":"user","content":"","images":["QQ=="]},{"role":"assistant","content":"a"}]`, nil},
		{"a result's image at the end", core.Content{Messages: user(core.Part{Kind: core.PartToolResult, ID: jsonString("c"), Name: jsonString("f"), Parts: []core.Part{image("QQ==")}})},
			`"messages":[{"role":"tool","content":"","tool_name":"f","tool_call_id":"c"},{"role":"user","content":"","images":["QQ=="]}]`, nil},
		{"only its own thinking", core.Content{Messages: []core.Message{say(core.RoleAssistant,
			core.Part{Kind: core.PartReasoning, Text: jsonString("mine"), Seal: core.Seal{Origin: core.FormatOllama, Text: jsonString("thinking")}},
			core.Part{Kind: core.PartReasoning, Text: jsonString("another's"), Seal: core.Seal{Origin: core.FormatAnthropic, Text: jsonString("sig")}}, core.Part{Kind: core.PartRefusal, Text: jsonString("no")}),
			say(core.RoleAssistant, core.Part{Kind: core.PartReasoning, Text: jsonString("another's")})}},
			`"messages":[{"role":"assistant","content":"no","thinking":"mine"}]`, nil},
		{"options", core.Content{Messages: hi, MaxOutput: core.Some[int64](9), Temperature: core.Number("0.50"), TopP: core.Number("1e-1"), TopK: core.Number("4"),
			Seed: core.Number("7"), Frequency: core.Number("0.1"), Presence: core.Number("0.2"), Stop: []core.Quoted{jsonString("x"), jsonString("y")}, User: jsonString("u"),
			Fields: map[core.Ask]string{core.AskUser: "metadata.user_id", core.AskCache: "cache_control"}, Others: []core.OtherField{{Name: "store"}}},
			`"messages":[{"role":"user","content":"hi"}],"options":{"num_predict":9,"temperature":0.50,"top_p":1e-1,"top_k":4,"seed":7,"frequency_penalty":0.1,"presence_penalty":0.2,"stop":["x","y"]}`,
			[]string{"store", "metadata.user_id", "cache_control"}},
		{"a schema", core.Content{Messages: hi, Answer: core.AnswerForm{JSON: true, Schema: core.JSON(`{"type":"object"}`), Name: jsonString("n")}},
			`"messages":[{"role":"user","content":"hi"}],"format":{"type":"object"}`, nil},
		{"any JSON", core.Content{Messages: hi, Answer: core.AnswerForm{JSON: true}}, `"messages":[{"role":"user","content":"hi"}],"format":"json"`, nil},
		{"no thinking", core.Content{Messages: hi, Reasoning: core.ReasoningWish{Effort: "none"}}, `"messages":[{"role":"user","content":"hi"}],"think":false`, nil},
		{"much thinking", core.Content{Messages: hi, Reasoning: core.ReasoningWish{Effort: "xhigh"}, Fields: map[core.Ask]string{core.AskReasoning: "reasoning_effort"}}, `"messages":[{"role":"user","content":"hi"}]`, []string{"reasoning_effort"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.content.Format, c.content.Streamed = core.FormatOpenAI, true
			got, dropped, err := toOllama(t, &c.content, offerOf(core.FormatOllama, "qwen3:8b"))
			if err != nil {
				t.Fatal(err)
			}
			want := `{"model":"qwen3:8b","stream":true,"truncate":false,` + c.want
			if !strings.Contains(want, `"options"`) {
				want += `,"options":{}`
			}
			if !json.Valid([]byte(got)) || !sameJSON(t, []byte(got), []byte(want+"}")) {
				t.Errorf("sent\n%s\nwant\n%s}", got, want)
			}
			if !slices.Equal(dropped, c.dropped) {
				t.Errorf("dropped %q, want %q", dropped, c.dropped)
			}
		})
	}
	for want, wish := range map[string]core.ReasoningWish{
		`"think":"high"`: {Effort: "xhigh"}, `"think":"medium"`: {Budget: core.Some[int64](8000)}, `"think":"low"`: {Effort: "minimal"}, `"think":false`: {Effort: "none"},
	} {
		got, dropped, err := toOllama(t, &core.Content{Messages: hi, Reasoning: wish}, offerOf(core.FormatOllama, "gpt-oss:20b"))
		if err != nil || len(dropped) > 0 || !strings.Contains(got, want) {
			t.Errorf("gpt-oss: sent %s without %q, want %s, %v", got, dropped, want, err)
		}
	}
	offer := offerOf(core.FormatOllama, "m")
	offer.Limits.Context = core.Some[int64](32768)
	if got, _, err := toOllama(t, &core.Content{Messages: hi}, offer); err != nil || !strings.Contains(got, `"options":{"num_ctx":32768}`) || !strings.Contains(got, `"stream":false`) {
		t.Errorf("sent %s, %v", got, err)
	}
}

// TestOllamaCannot: what the API has no form for is an error that names it.
func TestOllamaCannot(t *testing.T) {
	part := func(p core.Part) core.Content {
		return core.Content{Messages: []core.Message{{Role: core.RoleUser, At: "messages[2]", Parts: []core.Part{{Kind: core.PartText, Text: jsonString("x")}, p}}}}
	}
	named := func(c core.Content, f core.Ask, name string) core.Content {
		c.Fields = map[core.Ask]string{f: name}
		return c
	}
	tools := []core.Tool{{Name: jsonString("f")}}
	for field, c := range map[string]core.Content{
		"messages[2].content[1]": part(core.Part{Kind: core.PartImage, Media: core.Media{URL: jsonString("https://x.example/y.png")}}),
		"contents[0].parts[0]": {Format: core.FormatGoogle, Messages: []core.Message{{Role: core.RoleUser, At: "contents[0]",
			Parts: []core.Part{{Kind: core.PartDocument, Media: core.Media{Type: "application/pdf", Base64: []byte("QQ==")}}}}}},
		"messages[1].content[0]": {Messages: []core.Message{{Role: core.RoleUser, At: "messages[1]", Parts: []core.Part{{Kind: core.PartAudio}}}}},
		"messages[4].content[0]": {Messages: []core.Message{{Role: core.RoleUser, At: "messages[4]", Parts: []core.Part{{Kind: core.PartToolResult, ID: jsonString("c"),
			Parts: []core.Part{{Kind: core.PartImage, Media: core.Media{URL: jsonString("https://x.example/y.png")}}}}}}}},
		"n":           named(core.Content{Choices: 2}, core.AskChoices, "n"),
		"logprobs":    named(core.Content{TopLogprobs: core.Some[int64](0)}, core.AskLogprobs, "logprobs"),
		"tool_choice": named(core.Content{Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}}, core.AskToolChoice, "tool_choice"),
		"toolChoice":  named(core.Content{Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{jsonString("f")}}}, core.AskToolChoice, "toolChoice"),
		"logit_bias":  {Others: []core.OtherField{{Name: "logit_bias", Refused: true}}},
	} {
		var e *core.Error
		if _, _, err := toOllama(t, &c, offerOf(core.FormatOllama, "m")); !errors.As(err, &e) || e.Kind != core.Invalid || !strings.HasPrefix(e.Msg, field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, job := range []*core.Job{{Operation: core.OpEmbeddings}, {Operation: core.OpCountTokens}} {
		if _, _, err := (adapters.Ollama{}).Build(t.Context(), job, &core.Content{}, core.RequestHead{}, offerOf(core.FormatOllama, "m")); err == nil {
			t.Errorf("%s is sent", job.Operation)
		}
	}
}

// told writes events as text, ids of our own as one word.
func told(events []core.Event) string {
	var out []string
	for _, e := range events {
		switch e.Kind {
		case core.EventStart:
			out = append(out, "start "+e.Model)
		case core.EventText:
			out = append(out, "text "+string(e.Text))
		case core.EventReasoning:
			out = append(out, "reasoning "+string(e.Text))
		case core.EventSeal:
			out = append(out, "seal "+string(e.Seal.Origin))
		case core.EventTool:
			id := e.ID
			if strings.HasPrefix(id, "call_") && len(id) > 20 {
				id = "made"
			}
			out = append(out, fmt.Sprintf("tool %d %s %s", e.Index, id, e.Name))
		case core.EventArguments:
			out = append(out, fmt.Sprintf("arguments %d %s", e.Index, e.Text))
		case core.EventFinish:
			out = append(out, "finish "+string(e.Finish))
		}
	}
	return strings.Join(out, "; ")
}

func TestOllamaRead(t *testing.T) {
	const times = `"total_duration":9000000,"load_duration":1000000,"prompt_eval_count":20,"prompt_eval_duration":2000000,"eval_count":30,"eval_duration":6000000`
	lines := func(all ...string) string { return strings.Join(all, "\n") + "\n" }
	message := func(m string) string {
		return `{"model":"qwen3","created_at":"x","message":{"role":"assistant",` + m + `},"done":false}`
	}
	done := func(reason string) string {
		return `{"model":"qwen3","message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `",` + times + `}`
	}
	for _, c := range []struct {
		name, body string
		marks      []core.Mark
		events     string
		finish     string
		output     int
	}{
		{"text", lines(message(`"content":"a\u00e9\""`), message(`"content":""`), done("stop")), []core.Mark{text, 0, ended},
			`start qwen3; text a\u00e9\"; finish stop`, "stop", 4},
		{"thinking and text", lines(message(`"content":"","thinking":"hm"`), message(`"content":"a","thinking":"m"`), done("length")), []core.Mark{reasoning, text | reasoning, ended},
			`start qwen3; reasoning hm; reasoning m; seal ollama; text a; finish length`, "length", 4},
		{"thinking alone", lines(message(`"content":"","thinking":"hm"`), done("stop")), []core.Mark{reasoning, ended},
			`start qwen3; reasoning hm; seal ollama; finish stop`, "stop", 2},
		{"tool calls", lines(message(`"content":"","tool_calls":[{"id":"call_a","function":{"index":0,"name":"f","arguments":{"a": "x\"y"}}},{"function":{"name":"g","arguments":{}}}]`),
			message(`"content":"","tool_calls":[{"function":{"name":"h","arguments":null}}]`), done("stop")), []core.Mark{tool, tool, ended},
			`start qwen3; tool 0 call_a f; arguments 0 {\"a\": \"x\\\"y\"}; tool 1 made g; tool 2 made h; finish tools`, "stop", 22},
		{"cut at its maximum inside a call", lines(message(`"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]`), done("length")), []core.Mark{tool, ended},
			`start qwen3; tool 0 made f; finish length`, "length", 3},
		{"no reason, no line end", message(`"content":"a"`) + "\r\n\n" + `{"model":"m","message":{"content":"b"},"done":true}`, []core.Mark{text, text | ended},
			`start qwen3; text a; text b; finish stop`, "stop", 2},
		{"loaded", lines(done("load")), []core.Mark{ended}, `start qwen3; finish stop`, "load", 0},
		{"an error", lines(message(`"content":"a"`), `{"error":"model runner has unexpectedly stopped"}`), []core.Mark{text, failed}, `start qwen3; text a`, "", 1},
		{"no JSON", lines(message(`"content":"a"`), `<html>`, `[1]`, `{"message":{"content":"b"}`), []core.Mark{text, broken, broken, broken}, `start qwen3; text a`, "", 1},
		{"of other types", lines(`{"model":1,"message":[],"done":"yes","done_reason":2,"error":null}`, `{"message":{"content":{},"thinking":3,"tool_calls":[1,{"function":2},{"function":{"name":[]}}]}}`),
			[]core.Mark{0, 0}, `start `, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := adapters.Ollama{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
			var marks []core.Mark
			var events []string
			for _, f := range cut(t, r.Split(), []byte(c.body)) {
				marks = append(marks, r.Read(&f))
				if s := told(r.Events(&f)); s != "" {
					events = append(events, s)
				}
			}
			a := r.Answer()
			if !slices.Equal(marks, c.marks) || strings.Join(events, "; ") != c.events || a.Finish != c.finish || a.OutputBytes != c.output {
				t.Errorf("marks %v, want %v\n%s\nwant\n%s\nfinish %q, %d bytes", marks, c.marks, strings.Join(events, "; "), c.events, a.Finish, a.OutputBytes)
			}
			if strings.Contains(c.body, "eval") {
				want := core.ServerFigures{PromptTokens: core.Some[int64](20), PromptMS: core.Some(2.0), DecodeTokens: core.Some[int64](30), DecodeMS: core.Some(6.0)}
				if a.Figures != want || a.Usage != (core.Usage{UncachedInput: core.Some[int64](20), Output: core.Some[int64](30)}) || !a.Reported {
					t.Errorf("%+v", a)
				}
			} else if a.Reported || a.Usage != (core.Usage{}) {
				t.Errorf("usage without a report: %+v", a)
			}
			if slices.Contains(marks, failed) && (a.Err == nil || a.Err.Message != "model runner has unexpectedly stopped") {
				t.Errorf("the error is %+v", a.Err)
			}
		})
	}
}

func TestOllamaWhole(t *testing.T) {
	job := &core.Job{Operation: core.OpGenerate}
	r := adapters.Ollama{}.Reader(job, nil)
	body := []byte(`{"model":"m","message":{"role":"assistant","content":"a","thinking":"hm","tool_calls":[{"id":"call_x","function":{"name":"f","arguments":{"a":1}}}]},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}`)
	if err := r.ReadWhole(body); err != nil {
		t.Fatal(err)
	}
	events, err := r.WholeEvents(body)
	if got := told(events); err != nil || got != `start m; reasoning hm; seal ollama; text a; tool 0 call_x f; arguments 0 {\"a\":1}; finish tools` {
		t.Errorf("%s, %v", got, err)
	}
	if a := r.Answer(); a.Usage.Input() != 3 || a.Usage.Output.V != 4 || a.Finish != "stop" {
		t.Errorf("%+v", a)
	}
	for _, bad := range []string{``, `[]`, `{"done":true}`, `{"error":"x"}`, `{"message":{}} {}`} {
		if r := (adapters.Ollama{}).Reader(job, nil); r.ReadWhole([]byte(bad)) == nil {
			t.Errorf("%s is an answer", bad)
		}
	}
}

func TestOllamaErrors(t *testing.T) {
	r := adapters.Ollama{}.Reader(&core.Job{}, nil)
	for body, want := range map[string]core.UpstreamError{
		`{"error":"model 'nope' not found"}`:                         {Status: 404, Message: "model 'nope' not found"},
		`{"error":"the input length exceeds the context length"}`:    {Status: 404, Code: "context_length_exceeded", Message: "the input length exceeds the context length"},
		`{"error":{"message":"bad","type":"invalid_request_error"}}`: {Status: 404, Type: "invalid_request_error", Message: "bad"},
		`404 page not found`:                                         {Status: 404},
	} {
		if got := r.ReadError(404, []byte(body)); got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

// FuzzReadOllama: whatever comes, no panic, events that are whole JSON text, and
// the same to the same bytes.
func FuzzReadOllama(f *testing.F) {
	seed(f, "ollama/api-chat-*.ndjson")
	seed(f, "ollama/api-chat-*.json")
	f.Add([]byte(`{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"\\\""}}}]},"done":true}` + "\n" + `{"error":{}}`))
	job := &core.Job{Operation: core.OpGenerate, Streamed: true}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, again := adapters.Ollama{}.Reader(job, nil), adapters.Ollama{}.Reader(job, nil)
		for _, frame := range cut(t, r.Split(), body) {
			raw := bytes.Clone(frame.Raw)
			if m := r.Read(&frame); m != again.Read(&frame) || !bytes.Equal(raw, frame.Raw) {
				t.Fatalf("%q: marks %v and others", body, m)
			}
			for _, e := range r.Events(&frame) {
				if e.Text != nil && !json.Valid(slices.Concat([]byte(`"`), e.Text, []byte(`"`))) {
					t.Fatalf("%q: an event's text is %q", body, e.Text)
				}
			}
		}
		if a, b := r.Answer(), again.Answer(); a.Usage != b.Usage || a.Usage.Output.V < 0 || a.OutputBytes < 0 {
			t.Fatalf("%q: %+v and then %+v", body, a, b)
		}
		if r := (adapters.Ollama{}).Reader(job, nil); r.ReadWhole(body) == nil {
			if events, err := r.WholeEvents(body); err != nil || len(events) == 0 || !json.Valid(body) {
				t.Fatalf("%q: %v, %v", body, events, err)
			}
		}
		r.ReadError(500, body)
	})
}

func BenchmarkOllamaEncode(b *testing.B) {
	long := jsonString(strings.Repeat("a line of text, \"quoted\"\n", 20))
	c := &core.Content{Format: core.FormatOpenAI}
	for range 800 {
		c.Messages = append(c.Messages, core.Message{Role: core.RoleUser, Parts: []core.Part{{Text: long}}})
	}
	job, offer := &core.Job{Operation: core.OpGenerate}, offerOf(core.FormatOllama, "m")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := (adapters.Ollama{}).Build(b.Context(), job, c, core.RequestHead{}, offer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOllamaEvents(b *testing.B) {
	r := adapters.Ollama{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	f := core.Frame{Data: []byte(`{"model":"headway-tiny","created_at":"2026-11-29T20:46:20.464090034Z","message":{"role":"assistant","content":" word"},"done":false}`)}
	b.ReportAllocs()
	for b.Loop() {
		r.Read(&f)
		if len(r.Events(&f)) == 0 {
			b.Fatal("no event")
		}
	}
}

package adapters_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

func quoted(s string) core.Quoted {
	b, _ := json.Marshal(s)
	return b
}

// members gives the members of a body that are named, as one object.
func members(t *testing.T, body string, names ...string) []byte {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]json.RawMessage{}
	for _, name := range names {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestChatDialects: what one content becomes at servers that differ.
func TestChatDialects(t *testing.T) {
	thoughts := core.Part{Kind: core.PartReasoning, Text: quoted("hm"), Seal: core.Seal{Origin: core.FormatOpenAI, Text: core.Quoted(`""`)}}
	text := func(s string) core.Part { return core.Part{Text: quoted(s)} }
	pdf := core.Part{Kind: core.PartDocument, Name: quoted("a.pdf"), Media: core.Media{Type: "application/pdf", Base64: []byte("JVBE")}}
	call := func(id string) core.Part {
		return core.Part{Kind: core.PartToolCall, ID: quoted(id), Name: quoted("f"), Arguments: core.JSON("{\n \"a\": \"\\\"\"}")}
	}
	result := func(id string, parts ...core.Part) core.Part {
		return core.Part{Kind: core.PartToolResult, ID: quoted(id), Parts: parts}
	}
	turn := func(role core.Role, parts ...core.Part) core.Message {
		return core.Message{Role: role, Parts: parts, At: "messages[0]"}
	}
	fields := map[core.Ask]string{
		core.AskChoices: "candidateCount", core.AskTopK: "topK", core.AskStop: "stop_sequences", core.AskAnswer: "responseSchema", core.AskReasoning: "thinking", core.AskUser: "metadata.user_id", core.AskCache: "cache_control",
	}
	thinking := core.Content{Messages: []core.Message{turn(core.RoleUser, text("q")), turn(core.RoleAssistant, thoughts, text("a")), turn(core.RoleUser, text("r"))}}
	prefill := core.Content{Messages: []core.Message{turn(core.RoleUser, text("q")), turn(core.RoleAssistant, text("a"))}}
	long := "toolu_" + strings.Repeat("x", 40)
	tools := core.Content{Messages: []core.Message{turn(core.RoleAssistant, call("toolu_1")), turn(core.RoleUser, text("q"), result("toolu_1", text("r"), text("s")))}}
	for _, c := range []struct {
		name, dialect string
		content       core.Content
		want          string // of the members that it names
		dropped       string
	}{
		{"reasoning that nobody asked back", "", thinking, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`, ""},
		{"reasoning_content", "deepseek", thinking, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"hm"},{"role":"user","content":"r"}]}`, ""},
		{"reasoning", "groq", thinking, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning":"hm"},{"role":"user","content":"r"}]}`, ""},
		{
			"thinking in parts", "mistral", thinking,
			`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]},{"role":"user","content":"r"}]}`, "",
		},
		{"a prefill", "openai", prefill, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"add_generation_prompt":null}`, ""},
		{"a prefill", "mistral", prefill, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","prefix":true}]}`, ""},
		{"a prefill", "vllm", prefill, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"add_generation_prompt":false,"continue_final_message":true}`, ""},
		{
			"an empty last turn is left out", "",
			core.Content{Messages: []core.Message{turn(core.RoleUser, text("q")), turn(core.RoleAssistant, core.Part{Kind: core.PartReasoning, Text: quoted("x"), Seal: core.Seal{Origin: core.FormatAnthropic}})}}, `{"messages":[{"role":"user","content":"q"}]}`, "",
		},
		{
			"calls and results", "", tools,
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{  \"a\": \"\\\"\"}"}}]},{"role":"tool","tool_call_id":"toolu_1","content":"r\ns"},{"role":"user","content":"q"}]}`, "",
		},
		{
			"ids of nine letters", "mistral", tools,
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{  \"a\": \"\\\"\"}"}}]},{"role":"tool","tool_call_id":"ID","content":"r\ns"},{"role":"assistant","content":"OK."},{"role":"user","content":"q"}]}`, "",
		},
		{
			"an id that is too long", "openai", core.Content{Messages: []core.Message{turn(core.RoleAssistant, call(long)), turn(core.RoleUser, result(long))}},
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{  \"a\": \"\\\"\"}"}}]},{"role":"tool","tool_call_id":"ID","content":""}]}`, "",
		},
		{
			"a result that failed, with an image", "",
			core.Content{Messages: []core.Message{turn(core.RoleAssistant, call("c")), turn(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: quoted("c"), Failed: true, Parts: []core.Part{text("no"), {Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("QQ==")}}}}, text("see"))}},
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{  \"a\": \"\\\"\"}"}}]},{"role":"tool","tool_call_id":"c","content":"Error\nno"},
				{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}},{"type":"text","text":"see"}]}]}`, "",
		},
		{
			"system text in its place", "", core.Content{Messages: []core.Message{turn(core.RoleSystem, text("a"), text("b")), turn(core.RoleUser, text("q")), turn(core.RoleSystem, text("s")), turn(core.RoleUser, text("r"))}},
			`{"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"q"},{"role":"system","content":"s"},{"role":"user","content":"r"}]}`, "",
		},
		{
			"system text for a model's template", "llamacpp",
			core.Content{Messages: []core.Message{turn(core.RoleSystem, text("a")), turn(core.RoleSystem, text("b")), turn(core.RoleUser, text("q")), turn(core.RoleSystem, text("s")), turn(core.RoleUser, text("r")), turn(core.RoleAssistant, text("x")), turn(core.RoleAssistant, text("y")), turn(core.RoleUser, text("z"))}},
			`{"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"q\n\n<system>\ns\n</system>\n\nr"},{"role":"assistant","content":"xy"},{"role":"user","content":"z"}]}`, "",
		},
		{
			"a document", "openai", core.Content{Messages: []core.Message{turn(core.RoleUser, pdf)}},
			`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"}}]}]}`, "",
		},
		{
			"a document", "mistral", core.Content{Messages: []core.Message{turn(core.RoleUser, pdf)}},
			`{"messages":[{"role":"user","content":[{"type":"document_url","document_url":"data:application/pdf;base64,JVBE"}]}]}`, "",
		},
		{
			"a document by its address", "openrouter", core.Content{Messages: []core.Message{turn(core.RoleUser, core.Part{Kind: core.PartDocument, Media: core.Media{URL: quoted("https://h/a")}})}},
			`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"document.pdf","file_data":"https://h/a"}}]}]}`, "",
		},
		{"the output maximum", "openai", core.Content{MaxOutput: core.Some[int64](5)}, `{"max_completion_tokens":5,"max_tokens":null}`, ""},
		{"the output maximum", "vllm", core.Content{MaxOutput: core.Some[int64](5)}, `{"max_tokens":5,"max_completion_tokens":null}`, ""},
		{"a stream", "", core.Content{Streamed: true}, `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"a stream", "mistral", core.Content{Streamed: true}, `{"stream":true,"stream_options":null}`, ""},
		{"sampling", "vllm", core.Content{TopK: core.Number("5"), Seed: core.Number("7"), User: quoted("u")}, `{"top_k":5,"seed":7,"user":"u"}`, ""},
		{"sampling", "mistral", core.Content{TopK: core.Number("5"), Seed: core.Number("7"), User: quoted("u")}, `{"top_k":null,"random_seed":7,"seed":null,"user":null}`, "topK,metadata.user_id"},
		{"a long tag of a user", "", core.Content{User: quoted(strings.Repeat("u", 65))}, `{"user":null}`, "metadata.user_id"},
		{"effort", "", core.Content{Reasoning: core.ReasoningWish{Effort: "xhigh"}}, `{"reasoning_effort":"xhigh"}`, ""},
		{"a limit as effort", "", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](31999)}}, `{"reasoning_effort":"high"}`, ""},
		{"effort", "llamacpp", core.Content{Reasoning: core.ReasoningWish{Effort: "xhigh"}}, `{"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"high"},"reasoning_effort":null}`, ""},
		{"no reasoning", "vllm", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](0)}}, `{"chat_template_kwargs":{"enable_thinking":false}}`, ""},
		{"effort", "deepseek", core.Content{Reasoning: core.ReasoningWish{Effort: "medium"}}, `{"thinking":{"type":"enabled"},"reasoning_effort":"high"}`, ""},
		{"no reasoning", "zai", core.Content{Reasoning: core.ReasoningWish{Effort: "none"}}, `{"thinking":{"type":"disabled"},"reasoning_effort":null}`, ""},
		{"a limit", "qwen", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](900)}}, `{"enable_thinking":true,"thinking_budget":900}`, ""},
		{"hidden", "openrouter", core.Content{Reasoning: core.ReasoningWish{Visible: core.Some(false)}}, `{"reasoning":{"exclude":true}}`, ""},
		{"effort", "mistral", core.Content{Reasoning: core.ReasoningWish{Effort: "low"}}, `{"reasoning_effort":null}`, "thinking"},
		{"effort", "ollama", core.Content{Reasoning: core.ReasoningWish{Effort: "low"}}, `{"reasoning_effort":null}`, "thinking"},
		{"no reasoning", "ollama", core.Content{Reasoning: core.ReasoningWish{Effort: "none"}}, `{"reasoning_effort":"none"}`, ""},
		{"effort without levels", "groq", core.Content{Reasoning: core.ReasoningWish{Effort: "low"}}, `{"reasoning_effort":null}`, "thinking"},
		{
			"schemas without properties", "", core.Content{Tools: []core.Tool{{Name: quoted("f"), Schema: core.JSON(`{"type":"object"}`)}, {Name: quoted("g"), Schema: core.JSON(`{ "type":"object","$ref":"#/x"}`)}, {Name: quoted("h"), Strict: core.Some(false)}}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}},
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"g","parameters":{"type":"object","$ref":"#/x"}}},
				{"type":"function","function":{"name":"h","parameters":{"type":"object","properties":{}},"strict":false}}],"tool_choice":"none"}`, "",
		},
		{
			"one of several names", "", core.Content{Tools: []core.Tool{{Name: quoted("f")}, {Name: quoted("g")}, {Name: quoted("h")}}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{quoted("f"), quoted("h")}}},
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"h","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required"}`, "",
		},
		{"a choice without tools", "", core.Content{ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto}, OneTool: true}, `{"tools":null,"tool_choice":null,"parallel_tool_calls":null}`, ""},
		{"marks that it has not", "", core.Content{Messages: []core.Message{turn(core.RoleUser, core.Part{Text: quoted("q"), Cache: "5m"})}}, `{"messages":[{"role":"user","content":"q"}]}`, "cache_control"},
	} {
		name := c.name + " at " + c.dialect
		c.content.Format = core.FormatAnthropic
		c.content.Fields = fields
		if c.dropped != "cache_control" {
			c.content.Fields = map[core.Ask]string{core.AskTopK: "topK", core.AskReasoning: "thinking", core.AskUser: "metadata.user_id"}
		}
		var wanted map[string]any
		if err := json.Unmarshal([]byte(c.want), &wanted); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var names []string
		for n, v := range wanted {
			names = append(names, n)
			if v == nil {
				delete(wanted, n)
			}
		}
		want, _ := json.Marshal(wanted)
		got, dropped, err := buildChat(t, &c.content, chatServer(c.dialect))
		if err != nil || strings.Join(dropped, ",") != c.dropped {
			t.Errorf("%s: dropped %q, want %q (%v)", name, dropped, c.dropped, err)
			continue
		}
		if at := strings.Index(got, `"tool_calls":[{"id":"`); at >= 0 && strings.Contains(c.want, `"ID"`) {
			id := got[at+len(`"tool_calls":[{"id":"`):]
			id = id[:strings.IndexByte(id, '"')]
			if c.dialect == "mistral" && len(id) != 9 || len(id) > 40 || strings.Count(got, id) != 2 {
				t.Errorf("%s: id %q", name, id)
			}
			got = strings.ReplaceAll(got, id, "ID")
		}
		same(t, name, members(t, got, names...), string(want))
	}

	for _, c := range []struct {
		name, dialect, field string
		content              core.Content
	}{
		{"answers", "llamacpp", "candidateCount", core.Content{Choices: 2}},
		{"stops", "openai", "stop_sequences", core.Content{Stop: slices.Repeat([]core.Quoted{quoted("a")}, 5)}},
		{"a schema", "deepseek", "responseSchema", core.Content{Answer: core.AnswerForm{JSON: true, Schema: core.JSON(`{}`)}}},
		{"a document", "deepseek", "messages[0].content[1]", core.Content{Messages: []core.Message{turn(core.RoleUser, text("q"), pdf)}}},
		{"a document's address", "openai", "messages[0].content[0]", core.Content{Messages: []core.Message{turn(core.RoleUser, core.Part{Kind: core.PartDocument, Media: core.Media{URL: quoted("https://h/a")}})}}},
		{"a sound", "openai", "messages[0].content[0]", core.Content{Messages: []core.Message{turn(core.RoleUser, core.Part{Kind: core.PartAudio, Media: core.Media{Type: "audio/ogg", Base64: []byte("QQ==")}})}}},
		{"an image of the model's", "openai", "messages[0].content[0]", core.Content{Messages: []core.Message{turn(core.RoleAssistant, core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("QQ==")}})}}},
		{"what only the client's format has", "", "thing", core.Content{Others: []core.OtherField{{Name: "thing", Refused: true}}}},
	} {
		c.content.Format, c.content.Fields = core.FormatAnthropic, fields
		delete(c.content.Fields, core.AskCache)
		_, _, err := buildChat(t, &c.content, chatServer(c.dialect))
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param != c.field {
			t.Errorf("%s at %s: %v", c.name, c.dialect, err)
		}
	}
}

// TestChatServers: a server is known by its dialect, its format or its address.
func TestChatServers(t *testing.T) {
	effort := &core.Content{Reasoning: core.ReasoningWish{Effort: "minimal"}, MaxOutput: core.Some[int64](5)}
	for _, c := range []struct {
		format              core.Format
		dialect, url, model string
		want                string
		dropped             int
	}{
		{core.FormatOpenAI, "", "https://api.openai.com/v1", "gpt-5-mini", `{"max_completion_tokens":5,"reasoning_effort":"minimal"}`, 0},
		{core.FormatOpenAI, "azure", "https://x/v1", "gpt-5.2", `{"max_completion_tokens":5,"reasoning_effort":"low"}`, 0},
		{core.FormatOpenAI, "", "https://r.openai.azure.com/v1", "o3", `{"max_completion_tokens":5,"reasoning_effort":"low"}`, 0},
		{core.FormatOpenAI, "openai", "https://x/v1", "gpt-4.1", `{"max_completion_tokens":5}`, 1},
		{core.FormatOpenAI, "", "https://api.groq.com/openai/v1", "openai/gpt-oss-20b", `{"max_completion_tokens":5,"reasoning_effort":"low"}`, 0},
		{core.FormatOpenAI, "not-known", "https://api.openai.com/v1", "m", `{"max_tokens":5,"reasoning_effort":"minimal"}`, 0},
		{core.FormatLlamaCpp, "", "http://127.0.0.1:8080", "m", `{"max_tokens":5,"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"low"}}`, 0},
	} {
		o := chatServer(c.dialect)
		o.Provider.Format, o.Provider.BaseURL, o.UpstreamModel = c.format, c.url, c.model
		got, dropped, err := buildChat(t, effort, o)
		if err != nil || len(dropped) != c.dropped {
			t.Errorf("%s: %q %v", c.url, dropped, err)
			continue
		}
		same(t, c.url+" "+c.model, members(t, got, "max_tokens", "max_completion_tokens", "reasoning_effort", "chat_template_kwargs"), c.want)
	}
}

func FuzzDecodeChat(f *testing.F) {
	seed(f, "*/*chat*.request.json")
	for _, s := range []string{
		chatWith(`{"role":"assistant","reasoning_content":"\u00e9","reasoning_details":[{"data":"hw1:anthropic:s:0:x"},{"data":"@1:hw1:a:e:1:xy"}],"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"aHcxOmE="}}}]}`),
		chatWith(`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]},{"role":"function","name":"f","content":"x"}`),
		chatBody(`,"tools":[` + aTool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"f"}}]}},"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"stop":["x"],"reasoning":{"effort":"low"}`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		job, err := adapters.Chat{}.Parse(core.RequestHead{Path: chatPath}, body)
		if err != nil {
			return
		}
		c, err := adapters.Chat{}.Decode(job)
		if err != nil {
			var e *core.Error
			if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param == "" && !strings.HasPrefix(e.Msg, "body") {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		for _, dialect := range []string{"", "openrouter", "mistral", "vllm"} {
			if _, _, err := (adapters.Chat{}).Build(t.Context(), job, c, core.RequestHead{}, chatServer(dialect)); err != nil {
				var e *core.Error
				if !errors.As(err, &e) || e.Kind != core.Invalid {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			buildChat(t, c, chatServer(dialect)) // it is JSON
		}
	})
}

func FuzzEventsChat(f *testing.F) {
	seed(f, "*/*chat*.sse")
	f.Add(chunks(`{"id":"c","choices":[{"index":0,"delta":{"content":"a\ud83c"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\udf75","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]},"finish_reason":"stop"}]}`))
	f.Add(chunks(`{"choices":[{"delta":{"reasoning":"x","reasoning_details":[{"type":"t","data":"y"}],"content":[{"thinking":[{"text":"x"}]}]}},{"index":3,"message":{"function_call":{"name":"f"}}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, streamed := range []bool{true, false} {
			job := &core.Job{Operation: core.OpGenerate, Streamed: streamed, Model: "m", AskedUsage: true}
			w := adapters.Chat{}.Translator(job, time.Unix(7, 0))
			r := adapters.Chat{}.Reader(job, chatServer("openrouter"))
			var out []byte
			for _, frame := range cut(t, core.SplitSSE, body) {
				if r.Read(&frame).Has(core.MarkError | core.MarkBroken) {
					continue
				}
				for _, e := range r.Events(&frame) {
					out = w.Event(out, &e)
				}
			}
			answer := r.Answer()
			out = w.End(out, &answer)
			if !streamed {
				if !json.Valid(out) {
					t.Fatalf("%q gives %q", body, out)
				}
				continue
			}
			for _, frame := range cut(t, core.SplitSSE, out) {
				if string(frame.Data) != "[DONE]" && !json.Valid(frame.Data) {
					t.Fatalf("%q gives %q", body, frame.Data)
				}
			}
		}
	})
}

// TestChatMistralOrder: Mistral's models, whoever serves them, are given roles in
// the order that they hold to.
func TestChatMistralOrder(t *testing.T) {
	text := func(s string) core.Part { return core.Part{Text: quoted(s)} }
	picture := core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("QQ==")}}
	c := core.Content{Format: core.FormatAnthropic, Messages: []core.Message{
		{Role: core.RoleUser, Parts: []core.Part{text("q")}},
		{Role: core.RoleSystem, Parts: []core.Part{text("s")}},
		{Role: core.RoleAssistant, Parts: []core.Part{{Kind: core.PartToolCall, ID: quoted("123456789"), Name: quoted("f"), Arguments: core.JSON("{}")}}},
		{Role: core.RoleUser, Parts: []core.Part{{Kind: core.PartToolResult, ID: quoted("123456789"), Parts: []core.Part{picture}}}},
		{Role: core.RoleAssistant, Parts: []core.Part{text("a")}},
	}}
	const want = `{"messages":[{"role":"user","content":"q\n\n<system>\ns\n</system>"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"123456789","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"123456789","content":"It is in the next message."},{"role":"assistant","content":"OK."},
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]},{"role":"assistant","content":"a"}]}`
	for _, model := range []string{"mistralai/Devstral-Small-2", "pixtral-12b", "qwen3-8b"} {
		o := chatServer("openrouter")
		o.UpstreamModel = model
		got, _, err := buildChat(t, &c, o)
		if err != nil {
			t.Fatal(err)
		}
		if model != "qwen3-8b" {
			same(t, model, members(t, got, "messages"), want)
		} else if strings.Contains(got, "OK.") || !strings.Contains(got, `{"role":"system","content":"s"}`) {
			t.Errorf("%s: %s", model, got)
		}
	}
}

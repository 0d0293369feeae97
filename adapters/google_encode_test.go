package adapters_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

func googleQuoted(s string) core.Quoted { return core.Quoted(`"` + s + `"`) }

func googleText(s string) core.Part { return core.Part{Kind: core.PartText, Text: googleQuoted(s)} }

// googleTurns makes messages, named as chat's are.
func googleTurns(all ...core.Message) []core.Message {
	for i := range all {
		all[i].At = "messages[" + string(rune('0'+i)) + "]"
	}
	return all
}

func googleSaid(r core.Role, parts ...core.Part) core.Message {
	return core.Message{Role: r, Parts: parts}
}

// googleSent is the body that Google's upstream gets of a content.
func googleSent(t *testing.T, c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	t.Helper()
	req, dropped, err := adapters.Google{}.Build(t.Context(), &core.Job{Operation: core.OpGenerate, Model: "m", Streamed: c.Streamed}, c, core.RequestHead{Path: "/v1/chat/completions"}, offer)
	if err != nil {
		return nil, nil, err
	}
	if body, err = io.ReadAll(req.Body); err != nil {
		t.Fatal(err)
	}
	return body, dropped, nil
}

func TestGoogleEncode(t *testing.T) {
	const system, user, assistant = core.RoleSystem, core.RoleUser, core.RoleAssistant
	call := func(id, name, args string) core.Part {
		return core.Part{Kind: core.PartToolCall, ID: googleQuoted(id), Name: googleQuoted(name), Arguments: core.JSON(args)}
	}
	result := func(id string, parts ...core.Part) core.Part {
		return core.Part{Kind: core.PartToolResult, ID: googleQuoted(id), Parts: parts}
	}
	image := core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("QUJD")}}
	seal := func(origin core.Format, text, s string) core.Part {
		p := core.Part{Kind: core.PartReasoning, Seal: core.Seal{Origin: origin, Text: googleQuoted(s)}}
		if text != "" {
			p.Text = googleQuoted(text)
		}
		return p
	}
	hi := googleTurns(googleSaid(user, googleText("hi")))
	const hiSent = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	tools := []core.Tool{{Name: googleQuoted("f"), Description: googleQuoted("does"), Schema: core.JSON(`{"type":"object","$defs":{"a":{"exclusiveMinimum":0}}}`)}, {Name: googleQuoted("g")}}
	const toolsSent = `"tools":[{"functionDeclarations":[{"name":"f","description":"does","parametersJsonSchema":{"type":"object","$defs":{"a":{"exclusiveMinimum":0}}}},{"name":"g"}]}]`
	fields := func(pairs ...string) map[core.Ask]string {
		m := map[core.Ask]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[core.Ask(pairs[i])] = pairs[i+1]
		}
		return m
	}

	for _, c := range []struct {
		name, model string
		content     core.Content
		want        string
		dropped     []string
	}{
		{"the least", "gemini-2.5-flash", core.Content{Messages: hi}, `{` + hiSent + `}`, nil},
		{"system text first and between", "gemini-2.5-flash", core.Content{Messages: googleTurns(googleSaid(system, googleText(`be\n`), googleText("")), googleSaid(system, googleText("brief")), googleSaid(user, googleText("a")), googleSaid(system, googleText("now")), googleSaid(user, googleText("b")), googleSaid(assistant, googleText("c"), googleText("")), googleSaid(system, googleText("end")))},
			`{"systemInstruction":{"parts":[{"text":"be\n"},{"text":"brief"}]},"contents":[{"role":"user","parts":[{"text":"a"},{"text":"<system>\nnow\n</system>"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"}]},{"role":"user","parts":[{"text":"<system>\nend\n</system>"}]}]}`, nil},
		{"nothing but system text", "gemini-2.5-flash", core.Content{Messages: googleTurns(googleSaid(system, googleText("be brief")))}, `{"contents":[{"role":"user","parts":[{"text":"be brief"}]}]}`, nil},
		{"an answer begun, and an empty turn", "gemini-2.5-flash", core.Content{Messages: googleTurns(googleSaid(user, googleText("list")), googleSaid(assistant, googleText("")), googleSaid(user, googleText("three")), googleSaid(assistant, googleText("1.")))},
			`{"contents":[{"role":"user","parts":[{"text":"list"}]},{"role":"user","parts":[{"text":"three"}]},{"role":"model","parts":[{"text":"1."}]}]}`, nil},
		{"files", "gemini-2.5-flash", core.Content{Messages: googleTurns(googleSaid(user, googleText("see"), image, core.Part{Kind: core.PartImage, Media: core.Media{URL: googleQuoted("https://x.example/a.webp"), Detail: "low"}},
			core.Part{Kind: core.PartDocument, Media: core.Media{Type: "application/pdf", URL: googleQuoted("https://x.example/d")}}, core.Part{Kind: core.PartAudio, Media: core.Media{Type: "audio/wav", Base64: []byte("QQ==")}}))},
			`{"contents":[{"role":"user","parts":[{"text":"see"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"fileData":{"mimeType":"image/webp","fileUri":"https://x.example/a.webp"}},{"fileData":{"mimeType":"application/pdf","fileUri":"https://x.example/d"}},{"inlineData":{"mimeType":"audio/wav","data":"QQ=="}}]}]}`, []string{"detail"}},
		{"calls and results", "gemini-2.5-flash", core.Content{Messages: googleTurns(googleSaid(user, googleText("go")), googleSaid(assistant, googleText(""), call("c1", "f", `{"a":{"b":1}}`), call("c2", "g", "")),
			googleSaid(user, result("c2", googleText("one"), image, googleText("two"))), googleSaid(user, core.Part{Kind: core.PartToolResult, ID: googleQuoted("c1"), Failed: true, Parts: []core.Part{googleText("no"), image}}), googleSaid(user, googleText("well?"))), Tools: tools},
			`{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":{"b":1}}}},{"functionCall":{"id":"c2","name":"g","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c2","name":"g","response":{"output":"one\ntwo"}}},{"functionResponse":{"id":"c1","name":"f","response":{"error":"no"}}},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"text":"well?"}]}],` + toolsSent + `}`, nil},
		{"an image of a tool, where the model takes it there", "gemini-3-pro", core.Content{Messages: googleTurns(googleSaid(user, googleText("go")), googleSaid(assistant, call("c1", "f", `{}`), call("c2", "f", `{}`)), googleSaid(user, result("c1", image), result("c2", googleText("x"))), googleSaid(assistant, call("c3", "f", "{}")))},
			`{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"c2","name":"f","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":""},"parts":[{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]}},{"functionResponse":{"id":"c2","name":"f","response":{"output":"x"}}}]},
			{"role":"model","parts":[{"functionCall":{"id":"c3","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}]}`, nil},
		{"seals of Google's and of others", "models/gemini-3.1-pro-preview", core.Content{Messages: googleTurns(googleSaid(user, googleText("go")), googleSaid(assistant, seal("anthropic", "hm", "x"), seal("google", "so", "c2ln"), googleText("I call"), call("c1", "f", `{}`), call("c2", "f", `{}`)),
			googleSaid(user, result("c1"), result("c2")), googleSaid(assistant, seal("google", "", "YQ=="), seal("google", "", "Yg=="), googleText("done"), seal("openai", "", "z")))},
			`{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"text":"so","thought":true},{"text":"I call"},{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c2","name":"f","args":{}}}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"output":""}}},{"functionResponse":{"id":"c2","name":"f","response":{"output":""}}}]},
			{"role":"model","parts":[{"text":"","thoughtSignature":"YQ=="},{"text":"done"},{"text":"","thoughtSignature":"Yg=="}]}]}`, nil},
		{"settings", "gemini-2.5-pro", core.Content{Messages: hi, MaxOutput: core.Some[int64](100), Choices: 3, Temperature: core.Number("0.20"), TopP: core.Number("1e-1"), TopK: core.Number("7"), Seed: core.Number("42"), Frequency: core.Number("0.5"), Presence: core.Number("-1"),
			Stop: []core.Quoted{googleQuoted("a"), googleQuoted(`\n`)}, Answer: core.AnswerForm{JSON: true, Schema: core.JSON(`{"$schema":"x","exclusiveMinimum":0}`), Name: googleQuoted("n"), Strict: core.Some(true)}},
			`{` + hiSent + `,"generationConfig":{"maxOutputTokens":100,"candidateCount":3,"temperature":0.20,"topP":1e-1,"topK":7,"seed":42,"presencePenalty":-1,"frequencyPenalty":0.5,"stopSequences":["a","\n"],"responseMimeType":"application/json","responseJsonSchema":{"$schema":"x","exclusiveMinimum":0}}}`, nil},
		{"JSON of any form", "gemini-2.5-pro", core.Content{Messages: hi, Answer: core.AnswerForm{JSON: true}}, `{` + hiSent + `,"generationConfig":{"responseMimeType":"application/json"}}`, nil},
		{"what only decorates", "gemini-2.5-pro", core.Content{Messages: googleTurns(googleSaid(system, core.Part{Kind: core.PartText, Text: googleQuoted("s"), Cache: "1h"}), googleSaid(user, googleText("hi"))), User: googleQuoted("u"), OneTool: true, Seed: core.Number("5000000000"),
			Tools: []core.Tool{{Name: googleQuoted("f"), Strict: core.Some(true), Cache: "5m"}}, Fields: fields("user", "metadata.user_id", "one_tool", "tool_choice.disable_parallel_tool_use", "cache_hint", "cache_control", "seed", "seed"),
			Others: []core.OtherField{{Name: "store"}}},
			`{"systemInstruction":{"parts":[{"text":"s"}]},` + hiSent + `,"tools":[{"functionDeclarations":[{"name":"f"}]}]}`, []string{"store", "cache_control", "strict", "metadata.user_id", "tool_choice.disable_parallel_tool_use", "seed"}},
		{"tools and the choice of none", "gemini-2.5-pro", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}}, `{` + hiSent + `,` + toolsSent + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`, nil},
		{"auto", "gemini-2.5-pro", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto}}, `{` + hiSent + `,` + toolsSent + `,"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}`, nil},
		{"any", "gemini-2.5-pro", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}}, `{` + hiSent + `,` + toolsSent + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`, nil},
		{"a certain one", "gemini-2.5-pro", core.Content{Messages: hi, Tools: tools, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{googleQuoted("g")}}}, `{` + hiSent + `,` + toolsSent + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}}`, nil},
	} {
		got, dropped, err := googleSent(t, &c.content, offerOf(core.FormatGoogle, c.model))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if same(t, c.name, got, c.want); !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s: dropped %q, want %q", c.name, dropped, c.dropped)
		}
	}

	// Vertex knows no ids.
	vertex := offerOf(core.FormatVertexGoogle, "gemini-2.5-pro")
	got, _, err := googleSent(t, &core.Content{Messages: googleTurns(googleSaid(user, googleText("go")), googleSaid(assistant, call("c1", "f", `{}`)), googleSaid(user, result("c1", googleText("x"))))}, vertex)
	if err != nil || strings.Contains(string(got), `"id"`) || !strings.Contains(string(got), `{"functionResponse":{"name":"f","response":{"output":"x"}}}`) {
		t.Errorf("to Vertex: %s %v", got, err)
	}
}

func TestGoogleThinking(t *testing.T) {
	some := core.Some[int64]
	shown := core.Some(true)
	for _, c := range []struct {
		model   string
		wish    core.ReasoningWish
		want    string
		dropped bool
	}{
		{"gemini-2.5-flash", core.ReasoningWish{Effort: "low"}, `{"thinkingBudget":2048}`, false},
		{"gemini-2.5-flash", core.ReasoningWish{Effort: "xhigh", Visible: shown}, `{"thinkingBudget":24576,"includeThoughts":true}`, false},
		{"gemini-2.5-flash", core.ReasoningWish{Effort: "none", Visible: shown}, `{"thinkingBudget":0}`, false},
		{"gemini-2.5-flash", core.ReasoningWish{Budget: some(5000)}, `{"thinkingBudget":5000}`, false},
		{"gemini-2.5-flash", core.ReasoningWish{Visible: shown}, `{"includeThoughts":true}`, false},
		{"gemini-2.5-flash", core.ReasoningWish{Visible: core.Some(false)}, ``, false},
		{"gemini-2.5-flash-lite", core.ReasoningWish{Budget: some(100)}, `{"thinkingBudget":512}`, false},
		{"gemini-2.5-flash-lite", core.ReasoningWish{Effort: "none"}, `{"thinkingBudget":0}`, false},
		{"gemini-2.5-pro", core.ReasoningWish{Effort: "xhigh"}, `{"thinkingBudget":32768}`, false},
		{"gemini-2.5-pro", core.ReasoningWish{Effort: "none"}, `{"thinkingBudget":128}`, true},
		{"gemini-2.5-pro", core.ReasoningWish{Effort: "extreme"}, ``, true},
		{"gemini-2.5-pro", core.ReasoningWish{Effort: "low", Budget: some(3000)}, `{"thinkingBudget":3000}`, false},
		{"mini", core.ReasoningWish{Budget: some(60000)}, `{"thinkingBudget":60000}`, false},
		{"gemini-3-pro-preview", core.ReasoningWish{Effort: "medium"}, `{"thinkingLevel":"HIGH"}`, false},
		{"gemini-3.1-pro-preview", core.ReasoningWish{Effort: "medium"}, `{"thinkingLevel":"MEDIUM"}`, false},
		{"models/gemini-3-flash", core.ReasoningWish{Effort: "minimal"}, `{"thinkingLevel":"MINIMAL"}`, false},
		{"gemini-3-pro", core.ReasoningWish{Effort: "none"}, `{"thinkingLevel":"LOW"}`, true},
		{"gemini-flash-latest", core.ReasoningWish{Budget: some(2000), Visible: shown}, `{"thinkingLevel":"LOW","includeThoughts":true}`, false},
		{"gemini-3-flash", core.ReasoningWish{Effort: "xhigh", Budget: some(100)}, `{"thinkingLevel":"HIGH"}`, false},
		{"gemini-2.0-flash", core.ReasoningWish{Effort: "high"}, ``, true},
		{"gemini-2.0-flash", core.ReasoningWish{Effort: "none"}, ``, false},
		{"gemma-3-27b-it", core.ReasoningWish{Effort: "low"}, ``, true},
	} {
		content := &core.Content{Messages: googleTurns(googleSaid(core.RoleUser, googleText("hi"))), Reasoning: c.wish, Fields: map[core.Ask]string{core.AskReasoning: "reasoning_effort"}}
		got, dropped, err := googleSent(t, content, offerOf(core.FormatGoogle, c.model))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
		if c.want != "" {
			want = strings.TrimSuffix(want, "}") + `,"generationConfig":{"thinkingConfig":` + c.want + `}}`
		}
		name := c.model + " " + c.wish.Effort
		if same(t, name, got, want); c.dropped != slices.Equal(dropped, []string{"reasoning_effort"}) {
			t.Errorf("%s: dropped %q", name, dropped)
		}
	}
}

func TestGoogleCannot(t *testing.T) {
	hi := googleTurns(googleSaid(core.RoleUser, googleText("hi")))
	for _, c := range []struct {
		name    string
		content core.Content
		param   string
	}{
		{"log probabilities", core.Content{Messages: hi, TopLogprobs: core.Some[int64](2), Fields: map[core.Ask]string{core.AskLogprobs: "top_logprobs"}}, "top_logprobs"},
		{"six stops", core.Content{Messages: hi, Stop: make([]core.Quoted, 6), Fields: map[core.Ask]string{core.AskStop: "stop_sequences"}}, "stop_sequences"},
		{"nine answers", core.Content{Messages: hi, Choices: 9, Fields: map[core.Ask]string{core.AskChoices: "n"}}, "n"},
		{"what changes the meaning", core.Content{Messages: hi, Others: []core.OtherField{{Name: "logit_bias", Refused: true}}}, "logit_bias"},
		{"an image of no known type", core.Content{Messages: googleTurns(googleSaid(core.RoleUser, googleText("see"), core.Part{Kind: core.PartImage, Media: core.Media{URL: googleQuoted("https://x.example/i?id=1.png")}}))}, "messages[0].content[1]"},
		{"an image for the system", core.Content{Messages: googleTurns(googleSaid(core.RoleSystem, core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("QQ==")}}), googleSaid(core.RoleUser, googleText("x")))}, "messages[0].content[0]"},
		{"a result of no call", core.Content{Messages: googleTurns(googleSaid(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: googleQuoted("c")}))}, "messages[0].content[0]"},
	} {
		_, _, err := googleSent(t, &c.content, offerOf(core.FormatGoogle, "gemini-2.5-flash"))
		if mistake(t, c.name, err, c.param); c.name != "a result of no call" {
			if e := (*core.Error)(nil); errors.As(err, &e) && e.Code != "unsupported_field" {
				t.Errorf("%s: code %q", c.name, e.Code)
			}
		}
	}
}

func TestGoogleBuildsTranslated(t *testing.T) {
	for streamed, want := range map[bool]string{true: "https://api.example/v1beta/models/gemini-9:streamGenerateContent?alt=sse", false: "https://api.example/v1beta/models/gemini-9:generateContent"} {
		job := &core.Job{Operation: core.OpGenerate, Model: "m", Streamed: streamed}
		content := &core.Content{Messages: googleTurns(googleSaid(core.RoleUser, googleText("hi"))), Streamed: streamed}
		req, _, err := adapters.Google{}.Build(t.Context(), job, content, core.RequestHead{Path: "/v1/messages"}, offerOf(core.FormatGoogle, "gemini-9"))
		if err != nil || req.URL.String() != want || req.Header.Get("X-Goog-Api-Key") != "sk-own" {
			t.Errorf("%v goes to %v, %v", streamed, req, err)
		}
	}
}

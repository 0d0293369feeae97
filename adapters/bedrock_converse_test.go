package adapters_test

import (
	"errors"
	"slices"
	"testing"

	"headway/core"
)

// q is a JSON string of a text without escapes.
func q(s string) core.Quoted { return core.Quoted(`"` + s + `"`) }

func txt(s string) core.Part { return core.Part{Kind: core.PartText, Text: q(s)} }

func says(role core.Role, parts ...core.Part) core.Message {
	return core.Message{Role: role, Parts: parts, At: "messages[0]"}
}

// converseBodyOf is the request that a content gives, for a model.
func converseBodyOf(t *testing.T, c *core.Content, model string) (string, []string, error) {
	t.Helper()
	job := &core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Streamed: c.Streamed}
	req, dropped, err := converse().Build(t.Context(), job, c, core.RequestHead{}, awsOffer(core.FormatConverse, model))
	if err != nil {
		return "", nil, err
	}
	return bodyOf(t, req), dropped, nil
}

const (
	oldClaude = "anthropic.claude-sonnet-4-20250514-v1:0"
	newClaude = "us.anthropic.claude-opus-4-8-v1:0"
	nova      = "us.amazon.nova-2-lite-v1:0"
	gptOSS    = "openai.gpt-oss-120b-1:0"
	llama     = "meta.llama3-3-70b-instruct-v1:0"
)

func TestConverseEncode(t *testing.T) {
	tool := core.Tool{Name: q("f"), Description: q("does f"), Schema: core.JSON(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`), At: "tools[0]"}
	call := core.Part{Kind: core.PartToolCall, ID: q("call_1"), Name: q("f"), Arguments: core.JSON(`{"a":["x"]}`)}
	result := core.Part{Kind: core.PartToolResult, ID: q("call_1"), Parts: []core.Part{txt("done")}}
	hi := says(core.RoleUser, txt("hi"))
	image := core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/png", Base64: []byte("iVBO")}}
	const plain = `"messages":[{"role":"user","content":[{"text":"hi"}]}]`
	const history = `"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"f","input":{"a":["x"]}}}]},` +
		`{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"done"}]}}]}]`
	const f = `{"toolSpec":{"name":"f","description":"does f","inputSchema":{"json":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}}}}`
	for _, c := range []struct {
		name    string
		content core.Content
		model   string
		want    string
		dropped []string
	}{
		{name: "text with its escapes, system text, turns of one role",
			content: core.Content{Messages: []core.Message{says(core.RoleSystem, txt(`be \"brief\"`)), says(core.RoleSystem, txt("and kind")), hi, says(core.RoleUser, txt(`\u00e9\n`)),
				says(core.RoleAssistant, txt("so"), core.Part{Kind: core.PartRefusal, Text: q("no")}), says(core.RoleUser, txt("go on"))}},
			want: `{"system":[{"text":"be \"brief\""},{"text":"and kind"}],"messages":[{"role":"user","content":[{"text":"hi"},{"text":"\u00e9\n"}]},` +
				`{"role":"assistant","content":[{"text":"so"},{"text":"no"}]},{"role":"user","content":[{"text":"go on"}]}],"inferenceConfig":{}}`},
		{name: "system text in between stays there, prefill stays last",
			content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant, txt("yes")), says(core.RoleSystem, txt("be brief")), hi, says(core.RoleAssistant, txt("Well, "))}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"text":"yes"}]},` +
				`{"role":"user","content":[{"text":"<system>\nbe brief\n</system>"},{"text":"hi"}]},{"role":"assistant","content":[{"text":"Well,"}]}],"inferenceConfig":{}}`},
		{name: "system text alone is asked", content: core.Content{Messages: []core.Message{says(core.RoleSystem, txt("hi"))}}, want: `{` + plain + `,"inferenceConfig":{}}`},
		{name: "empty texts", content: core.Content{Messages: []core.Message{says(core.RoleSystem, txt("")), says(core.RoleUser, txt(` \n\t`), txt("hi")), says(core.RoleAssistant, txt(""), call),
			says(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: q("call_1"), Parts: []core.Part{txt("")}, Failed: true}), says(core.RoleAssistant, txt(""))}, Tools: []core.Tool{tool}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"f","input":{"a":["x"]}}}]},` +
				`{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":""}],"status":"error"}}]}],"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{}}`},
		{name: "parallel calls, results with images and documents", content: core.Content{Tools: []core.Tool{tool}, Messages: []core.Message{hi,
			says(core.RoleAssistant, txt("so"), call, core.Part{Kind: core.PartToolCall, ID: q("odd.id"), Name: q("f")}),
			says(core.RoleUser, result), says(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: q("odd.id"), Parts: []core.Part{image,
				{Kind: core.PartDocument, Name: q("a/b  c.pdf"), Media: core.Media{Type: "application/pdf", Base64: []byte("JVBE")}}}}, txt("and?"))}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"text":"so"},{"toolUse":{"toolUseId":"call_1","name":"f","input":{"a":["x"]}}},` +
				`{"toolUse":{"toolUseId":"id_40822b6f1de6b6345f697041c6cd0557c88cdd31cc29ba49d39b03a7","name":"f","input":{}}}]},` +
				`{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"done"}]}},` +
				`{"toolResult":{"toolUseId":"id_40822b6f1de6b6345f697041c6cd0557c88cdd31cc29ba49d39b03a7","content":[{"image":{"format":"png","source":{"bytes":"iVBO"}}},` +
				`{"document":{"format":"pdf","name":"a-b c-pdf","source":{"bytes":"JVBE"}}}]}},{"text":"and?"}]}],"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{}}`},
		{name: "media", content: core.Content{Messages: []core.Message{says(core.RoleUser, txt("hi"),
			core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/jpeg", Base64: []byte("AA=="), Detail: "low"}},
			core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/webp", URL: q("s3://b/k")}},
			core.Part{Kind: core.PartDocument, Name: q("x"), Media: core.Media{Type: "text/plain; charset=utf-8", Base64: []byte("eA==")}},
			core.Part{Kind: core.PartDocument, Name: q("x"), Media: core.Media{Type: "text/csv", Base64: []byte("eA==")}},
			core.Part{Kind: core.PartDocument, Media: core.Media{Type: "application/pdf", Base64: []byte("eA==")}},
			core.Part{Kind: core.PartAudio, Media: core.Media{Type: "audio/wav", Base64: []byte("eA==")}})}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"},{"image":{"format":"jpeg","source":{"bytes":"AA=="}}},{"image":{"format":"webp","source":{"s3Location":{"uri":"s3://b/k"}}}},` +
				`{"document":{"format":"txt","name":"x","source":{"bytes":"eA=="}}},{"document":{"format":"csv","name":"x (2)","source":{"bytes":"eA=="}}},` +
				`{"document":{"format":"pdf","name":"document","source":{"bytes":"eA=="}}},{"audio":{"format":"wav","source":{"bytes":"eA=="}}}]}],"inferenceConfig":{}}`,
			dropped: []string{"detail"}},
		{name: "a first turn that is the model's, results before what else the user says", model: oldClaude, content: core.Content{Tools: []core.Tool{tool}, Messages: []core.Message{
			says(core.RoleAssistant, call), says(core.RoleSystem, txt("now")), says(core.RoleUser, result)}},
			want: `{"messages":[{"role":"user","content":[{"text":"."}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"f","input":{"a":["x"]}}}]},` +
				`{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"done"}]}},{"text":"<system>\nnow\n</system>"}]}],"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{}}`},
		{name: "limits and sampling", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, MaxOutput: core.Some(int64(9)), Temperature: core.Number("1.5"), TopP: core.Number("0.9"),
			TopK: core.Number("4"), Stop: []core.Quoted{q("a"), q(`\n\n#`)}},
			want: `{` + plain + `,"inferenceConfig":{"maxTokens":9,"temperature":1,"topP":0.9,"stopSequences":["a","\n\n#"]},"additionalModelRequestFields":{"top_k":4}}`, dropped: []string{"temperature"}},
		{name: "a Claude that takes one of two", model: "anthropic.claude-sonnet-4-5-20250929-v1:0", content: core.Content{Messages: []core.Message{hi}, Temperature: core.Number("0.5"), TopP: core.Number("0.9"),
			Fields: map[core.Ask]string{core.AskTopP: "top_p"}}, want: `{` + plain + `,"inferenceConfig":{"temperature":0.5}}`, dropped: []string{"top_p"}},
		{name: "Nova's top_k", model: nova, content: core.Content{Messages: []core.Message{hi}, TopK: core.Number("4")},
			want: `{` + plain + `,"inferenceConfig":{},"additionalModelRequestFields":{"inferenceConfig":{"topK":4}}}`},
		{name: "what only tunes is dropped", model: llama, content: core.Content{Messages: []core.Message{says(core.RoleUser, core.Part{Kind: core.PartText, Text: q("hi"), Cache: "5m"})}, TopK: core.Number("4"),
			Seed: core.Number("1"), Frequency: core.Number("1"), Presence: core.Number("1"), User: q("u"), OneTool: true, Tools: []core.Tool{{Name: q("f"), Strict: core.Some(true), At: "tools[0]"}},
			Reasoning: core.ReasoningWish{Effort: "low"},
			Fields: map[core.Ask]string{core.AskSeed: "seed", core.AskFrequency: "frequency_penalty", core.AskUser: "safety_identifier", core.AskCache: "cache_control",
				core.AskOneTool: "parallel_tool_calls", core.AskReasoning: "reasoning_effort"}, Others: []core.OtherField{{Name: "store"}}},
			want:    `{` + plain + `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]},"inferenceConfig":{}}`,
			dropped: []string{"store", "safety_identifier", "seed", "frequency_penalty", "presence_penalty", "parallel_tool_calls", "cache_control", "reasoning_effort", "tools[0].strict", "top_k"}},
		{name: "tool choice: required", content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}},
			want: `{` + plain + `,"toolConfig":{"tools":[` + f + `],"toolChoice":{"any":{}}},"inferenceConfig":{}}`},
		{name: "tool choice: one", content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{q("f")}}},
			want: `{` + plain + `,"toolConfig":{"tools":[` + f + `],"toolChoice":{"tool":{"name":"f"}}},"inferenceConfig":{}}`},
		{name: "tool choice: one of some", content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool, {Name: q("g")}, {Name: q("h")}},
			ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{q("f"), q("g")}}},
			want: `{` + plain + `,"toolConfig":{"tools":[` + f + `,{"toolSpec":{"name":"g","inputSchema":{"json":{"type":"object","properties":{}}}}}],"toolChoice":{"any":{}}},"inferenceConfig":{}}`},
		{name: "tool choice: some allowed", content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool, {Name: q("g")}}, ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto, Names: []core.Quoted{q("f")}}},
			want: `{` + plain + `,"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{}}`},
		{name: "tool choice: none", content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}}, want: `{` + plain + `,"inferenceConfig":{}}`},
		{name: "tool choice: none, where tools were called", model: oldClaude, content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant, call), says(core.RoleUser, result)}, Tools: []core.Tool{tool},
			ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}},
			want: `{` + history + `,"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{},"additionalModelRequestFields":{"tool_choice":{"type":"none"}}}`},
		{name: "no tools, where some were called", model: llama, content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant, call), says(core.RoleUser, result)}},
			want: `{` + history + `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"Not available any more: do not call it.","inputSchema":{"json":{"type":"object","properties":{}}}}}]},"inferenceConfig":{}}`},
		{name: "a schema", content: core.Content{Messages: []core.Message{hi}, Answer: core.AnswerForm{JSON: true, Schema: core.JSON("{\"type\":\"object\",\n\"properties\":{\"a\\\"\":{\"type\":\"string\"}}}"), Name: q("n"), Strict: core.Some(true)}},
			want: `{` + plain + `,"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\",\"properties\":{\"a\\\"\":{\"type\":\"string\"}},\"additionalProperties\":false}","name":"n"}}}},"inferenceConfig":{}}`},
		{name: "marks for the cache", model: oldClaude, content: core.Content{Fields: map[core.Ask]string{core.AskCache: "cache_control"}, Tools: []core.Tool{{Name: q("f"), Cache: "5m"}}, Messages: []core.Message{
			says(core.RoleSystem, core.Part{Kind: core.PartText, Text: q("s"), Cache: "1h"}), says(core.RoleUser, core.Part{Kind: core.PartText, Text: q("hi"), Cache: "5m"}, txt("x"))}},
			want: `{"system":[{"text":"s"},{"cachePoint":{"type":"default","ttl":"1h"}}],"messages":[{"role":"user","content":[{"text":"hi"},{"cachePoint":{"type":"default"}},{"text":"x"}]}],` +
				`"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}},{"cachePoint":{"type":"default"}}]},"inferenceConfig":{}}`},
		{name: "a mark inside of a result", model: oldClaude, content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant, call), says(core.RoleUser,
			core.Part{Kind: core.PartToolResult, ID: result.ID, Parts: []core.Part{{Kind: core.PartText, Text: q("1"), Cache: "5m"}}})}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"f","input":{"a":["x"]}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"1"}]}},{"cachePoint":{"type":"default"}}]}],` +
				`"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"Not available any more: do not call it.","inputSchema":{"json":{"type":"object","properties":{}}}}}]},"inferenceConfig":{},"additionalModelRequestFields":{"tool_choice":{"type":"none"}}}`},
		{name: "own reasoning goes back, another's does not", content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant,
			core.Part{Kind: core.PartReasoning, Text: q("hm"), Seal: core.Seal{Origin: core.FormatConverse, Text: q("sig")}},
			core.Part{Kind: core.PartReasoning, Seal: core.Seal{Origin: core.FormatConverse, Text: q("c2Vj"), Encrypted: true}},
			core.Part{Kind: core.PartReasoning, Text: q("x"), Seal: core.Seal{Origin: core.FormatAnthropic, Text: q("sig")}},
			core.Part{Kind: core.PartReasoning, Seal: core.Seal{Origin: core.FormatConverse, Text: q("hid")}}, txt("so")), hi}},
			want: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"sig"}}},` +
				`{"reasoningContent":{"redactedContent":"c2Vj"}},{"reasoningContent":{"reasoningText":{"text":"","signature":"hid"}}},{"text":"so"}]},{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{}}`},
		{name: "thinking: a limit", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, Reasoning: core.ReasoningWish{Budget: core.Some(int64(2000))}, Temperature: core.Number("0.5"),
			Fields: map[core.Ask]string{core.AskTemperature: "temperature"}},
			want: `{` + plain + `,"inferenceConfig":{},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}}`, dropped: []string{"temperature"}},
		{name: "thinking: an effort under the maximum", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, MaxOutput: core.Some(int64(5000)), Reasoning: core.ReasoningWish{Effort: "high"}},
			want: `{` + plain + `,"inferenceConfig":{"maxTokens":5000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2500}}}`},
		{name: "thinking: no room", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, MaxOutput: core.Some(int64(1000)), Reasoning: core.ReasoningWish{Effort: "high"}},
			want: `{` + plain + `,"inferenceConfig":{"maxTokens":1000}}`, dropped: []string{"reasoning"}},
		{name: "thinking: none", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, Reasoning: core.ReasoningWish{Effort: "none"}}, want: `{` + plain + `,"inferenceConfig":{}}`},
		{name: "thinking: behind another's tool call", model: oldClaude, content: core.Content{Messages: []core.Message{hi, says(core.RoleAssistant, call), says(core.RoleUser, result)}, Tools: []core.Tool{tool},
			Reasoning: core.ReasoningWish{Effort: "low"}},
			want: `{` + history + `,"toolConfig":{"tools":[` + f + `]},"inferenceConfig":{}}`, dropped: []string{"reasoning"}},
		{name: "thinking: before a tool that must be called", model: oldClaude, content: core.Content{Messages: []core.Message{hi}, Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired},
			Reasoning: core.ReasoningWish{Effort: "low"}},
			want: `{` + plain + `,"toolConfig":{"tools":[` + f + `],"toolChoice":{"any":{}}},"inferenceConfig":{}}`, dropped: []string{"reasoning"}},
		{name: "thinking: a Claude that decides itself", model: newClaude, content: core.Content{Messages: []core.Message{hi}, Reasoning: core.ReasoningWish{Effort: "xhigh", Visible: core.Some(true)}},
			want: `{` + plain + `,"outputConfig":{"effort":"xhigh"},"inferenceConfig":{},"additionalModelRequestFields":{"thinking":{"type":"adaptive","display":"summarized"}}}`},
		{name: "thinking: gpt-oss", model: gptOSS, content: core.Content{Messages: []core.Message{hi}, Reasoning: core.ReasoningWish{Effort: "minimal"}},
			want: `{` + plain + `,"inferenceConfig":{},"additionalModelRequestFields":{"reasoning_effort":"low"}}`},
		{name: "thinking: Nova", model: nova, content: core.Content{Messages: []core.Message{hi}, Reasoning: core.ReasoningWish{Effort: "high"}, MaxOutput: core.Some(int64(9))},
			want: `{` + plain + `,"inferenceConfig":{"maxTokens":9},"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}}}`},
	} {
		if c.model == "" {
			c.model = llama
		}
		got, dropped, err := converseBodyOf(t, &c.content, c.model)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		if !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s: dropped %q, want %q", c.name, dropped, c.dropped)
		}
	}
}

func TestConverseRefuses(t *testing.T) {
	hi := says(core.RoleUser, txt("hi"))
	call := core.Part{Kind: core.PartToolCall, ID: q("c"), Name: q("f")}
	for param, content := range map[string]core.Content{
		"n":               {Messages: []core.Message{hi}, Choices: 2, Fields: map[core.Ask]string{core.AskChoices: "n"}},
		"top_logprobs":    {Messages: []core.Message{hi}, TopLogprobs: core.Some(int64(2)), Fields: map[core.Ask]string{core.AskLogprobs: "top_logprobs"}},
		"response_format": {Messages: []core.Message{hi}, Answer: core.AnswerForm{JSON: true}, Fields: map[core.Ask]string{core.AskAnswer: "response_format"}},
		"stop":            {Messages: []core.Message{hi}, Stop: []core.Quoted{q(" ")}, Fields: map[core.Ask]string{core.AskStop: "stop"}},
		"tool_choice.x":   {Messages: []core.Message{hi}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}, Fields: map[core.Ask]string{core.AskToolChoice: "tool_choice.x"}},
		"text.format":     {Messages: []core.Message{hi}, Answer: core.AnswerForm{JSON: true, Schema: core.JSON(`{"type":"object","additionalProperties":{"type":"string"}}`)}, Fields: map[core.Ask]string{core.AskAnswer: "text.format"}},
		"logit_bias":      {Messages: []core.Message{hi}, Others: []core.OtherField{{Name: "logit_bias", Refused: true}}},
		"tool_choice": {Messages: []core.Message{hi, says(core.RoleAssistant, call), says(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: q("c")})}, Tools: []core.Tool{{Name: q("f")}},
			ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}, Fields: map[core.Ask]string{core.AskToolChoice: "tool_choice"}},
		"messages[0].content[1]": {Messages: []core.Message{says(core.RoleUser, txt("hi"), core.Part{Kind: core.PartImage, Media: core.Media{URL: q("https://x/a.png")}})}},
		"messages[0].content[0]": {Messages: []core.Message{says(core.RoleUser, core.Part{Kind: core.PartDocument, Media: core.Media{Type: "image/png", Base64: []byte("AA==")}})}},
		"messages[0].content": {Format: core.FormatOpenAI, Messages: []core.Message{says(core.RoleUser, core.Part{Kind: core.PartToolResult, ID: q("c"), Parts: []core.Part{
			{Kind: core.PartImage, Media: core.Media{Type: "image/bmp", Base64: []byte("AA==")}}}})}},
	} {
		model := llama
		if param == "stop" {
			model = oldClaude
		}
		_, _, err := converseBodyOf(t, &content, model)
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param != param {
			t.Errorf("%s: %v", param, err)
		}
	}
	job := &core.Job{Format: core.FormatConverse, Operation: core.OpGenerate}
	if _, _, err := converse().Build(t.Context(), job, nil, core.RequestHead{}, awsOffer(core.FormatConverse, llama)); err == nil {
		t.Error("a request without content")
	}
}

// spoken are the events of a stream.
func spoken(t *testing.T, messages ...[]byte) (events []core.Event, answer core.Answer) {
	t.Helper()
	r := converse().Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	for _, frame := range cut(t, core.SplitAWS, slices.Concat(messages...)) {
		r.Read(&frame)
		for _, e := range r.Events(&frame) {
			e.Text = append([]byte(nil), e.Text...)
			events = append(events, e)
		}
	}
	return events, r.Answer()
}

func TestConverseEvents(t *testing.T) {
	start := awsEvent(t, "messageStart", `{"role":"assistant","p":"a"}`)
	stop := awsEvent(t, "contentBlockStop", `{"contentBlockIndex":0}`)
	delta := func(d string) []byte {
		return awsEvent(t, "contentBlockDelta", `{"contentBlockIndex":0,"delta":`+d+`,"p":"ab"}`)
	}
	begin := func(s string) []byte {
		return awsEvent(t, "contentBlockStart", `{"contentBlockIndex":0,"start":`+s+`}`)
	}
	end := func(reason string) []byte { return awsEvent(t, "messageStop", `{"stopReason":"`+reason+`"}`) }
	text := func(s string) core.Event { return core.Event{Kind: core.EventText, Text: []byte(s)} }
	started := core.Event{Kind: core.EventStart}
	finish := func(f core.Finish) core.Event { return core.Event{Kind: core.EventFinish, Finish: f} }

	got, _ := spoken(t, start, delta(`{"text":""}`), delta(`{"text":"a\"\n"}`), delta(`{"text":"b\ud83d"}`), delta(`{"text":"\ude00c"}`), stop, end("end_turn"))
	sameEvents(t, "text", got, []core.Event{started, text(`a\"\n`), text("b"), text(`\ud83d\ude00c`), finish(core.FinishStop)})

	got, answer := spoken(t, start, delta(`{"reasoningContent":{"text":"hm"}}`), delta(`{"reasoningContent":{"signature":"si"}}`), delta(`{"reasoningContent":{"signature":"g"}}`), stop,
		delta(`{"reasoningContent":{"redactedContent":"c2Vj"}}`), stop, delta(`{"text":"so"}`), stop,
		begin(`{"toolUse":{"toolUseId":"a","name":"f"}}`), delta(`{"toolUse":{"input":""}}`), delta(`{"toolUse":{"input":"{\"x\":"}}`), delta(`{"toolUse":{"input":"1}"}}`), stop,
		begin(`{"toolUse":{"toolUseId":"b","name":"g"}}`), stop, end("tool_use"),
		awsEvent(t, "metadata", `{"usage":{"inputTokens":3,"outputTokens":5,"totalTokens":44,"cacheReadInputTokens":10,"cacheReadInputTokenCount":10,"cacheWriteInputTokens":26,"cacheDetails":[{"inputTokens":20,"ttl":"1h"},{"inputTokens":6,"ttl":"5m"}]},"metrics":{"latencyMs":5}}`))
	sameEvents(t, "reasoning and tools", got, []core.Event{started, {Kind: core.EventReasoning, Text: []byte("hm")},
		{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: q("sig")}},
		{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: q("c2Vj"), Encrypted: true}}, text("so"),
		{Kind: core.EventTool, ID: "a", Name: "f"}, {Kind: core.EventArguments, Text: []byte(`{\"x\":`)}, {Kind: core.EventArguments, Text: []byte(`1}`)},
		{Kind: core.EventTool, Index: 1, ID: "b", Name: "g"}, finish(core.FinishTools)})
	want := core.Usage{UncachedInput: core.Some(int64(3)), CacheRead: core.Some(int64(10)), CacheWrite: core.Some(int64(26)), CacheWrite1h: core.Some(int64(20)), Output: core.Some(int64(5))}
	if answer.Usage != want || !answer.Reported || !answer.StreamedReasoning {
		t.Errorf("usage %+v of %+v", answer.Usage, answer)
	}

	got, _ = spoken(t, start, begin(`{"toolUse":{"toolUseId":"a","name":"nova_grounding","type":"server_tool_use"}}`), delta(`{"toolUse":{"input":"{}"}}`), stop,
		begin(`{"toolResult":{"toolUseId":"a","status":"success"}}`), delta(`{"toolResult":[{"text":"x"}]}`), stop, delta(`{"text":"so"}`), delta(`{"citation":{"location":{}}}`), stop, end("end_turn"))
	sameEvents(t, "a tool on the server", got, []core.Event{started, text("so"), finish(core.FinishStop)})

	for reason, f := range map[string]core.Finish{"max_tokens": core.FinishLength, "model_context_window_exceeded": core.FinishLength, "stop_sequence": core.FinishTools,
		"guardrail_intervened": core.FinishFilter, "content_filtered": core.FinishFilter} {
		got, _ = spoken(t, begin(`{"toolUse":{"toolUseId":"a","name":"f"}}`), end(reason))
		if last := got[len(got)-1]; last.Finish != f {
			t.Errorf("%s is %s, want %s", reason, last.Finish, f)
		}
	}
	if mark := converse().Reader(&core.Job{}, nil).Read(&core.Frame{Name: "contentBlockDelta", Data: []byte(`{"delta":`)}); mark != core.MarkBroken {
		t.Errorf("broken JSON is marked %b", mark)
	}
}

func TestConverseWhole(t *testing.T) {
	body := []byte(`{"metrics":{"latencyMs":1},"output":{"message":{"role":"assistant","content":[
		{"reasoningContent":{"reasoningText":{"text":"hm","signature":"sig"}}},{"reasoningContent":{"redactedContent":"c2Vj"}},
		{"text":"a\u00e9"},{"citationsContent":{"citations":[{"title":"t"}],"content":[{"text":"b"},{"text":"c"}]}},
		{"toolUse":{"toolUseId":"s","name":"nova_grounding","input":{"q":1},"type":"server_tool_use"}},{"toolResult":{"toolUseId":"s","content":[{"text":"x"}]}},
		{"toolUse":{"toolUseId":"i","name":"f","input":{"a": "b\n"}}},{"toolUse":{"toolUseId":"j","name":"g","input":{}}}]}},
		"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`)
	r := converse().Reader(&core.Job{Operation: core.OpGenerate}, nil)
	if err := r.ReadWhole(body); err != nil {
		t.Fatal(err)
	}
	got, err := r.WholeEvents(body)
	if err != nil {
		t.Fatal(err)
	}
	sameEvents(t, "whole", got, []core.Event{{Kind: core.EventStart}, {Kind: core.EventReasoning, Text: []byte("hm")},
		{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: q("sig")}}, {Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatConverse, Text: q("c2Vj"), Encrypted: true}},
		{Kind: core.EventText, Text: []byte(`a\u00e9`)}, {Kind: core.EventText, Text: []byte("bc")}, {Kind: core.EventTool, ID: "i", Name: "f"},
		{Kind: core.EventArguments, Text: []byte(`{\"a\": \"b\\n\"}`)}, {Kind: core.EventTool, Index: 1, ID: "j", Name: "g"}, {Kind: core.EventFinish, Finish: core.FinishTools}})
	if a := r.Answer(); a.Finish != "tool_use" || a.Usage.Output.V != 2 || a.OutputBytes == 0 || a.StreamedReasoning {
		t.Errorf("answer %+v", a)
	}
	for _, body := range []string{`{}`, `{"message":"no"}`, `{"output":{"message":{}}}`, `[]`, `{"output":{"message":{"content":[]}}`} {
		if converse().Reader(&core.Job{}, nil).ReadWhole([]byte(body)) == nil {
			t.Errorf("%s is taken for an answer", body)
		}
	}
}

func BenchmarkConverseDelta(b *testing.B) {
	r := converse().Reader(&core.Job{Operation: core.OpGenerate}, nil)
	f := core.Frame{Name: "contentBlockDelta", Data: []byte(`{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefghijklmnopqrstuvwxyz"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if r.Read(&f) != core.MarkText || len(r.Events(&f)) != 1 {
			b.Fatal("no text")
		}
	}
}

func BenchmarkBedrockDelta(b *testing.B) {
	r := bedrock().Reader(&core.Job{Operation: core.OpGenerate}, nil)
	packed := cut(b, core.SplitAWS, chunk(b, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`))[0]
	b.ReportAllocs()
	for b.Loop() {
		f := packed
		if r.Read(&f) != core.MarkText {
			b.Fatal("no text")
		}
	}
}

package adapters_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// checkSent reads a request's body, which must be JSON.
func checkSent(t testing.TB, req *http.Request) string {
	t.Helper()
	sent, err := io.ReadAll(req.Body)
	if err != nil || !json.Valid(sent) {
		t.Fatalf("sent is %q (%v)", sent, err)
	}
	return string(sent)
}

func msgString(s string) core.Quoted { b, _ := json.Marshal(s); return b }

func msgText(text string) core.Part { return core.Part{Kind: core.PartText, Text: msgString(text)} }

func msgCall(id, name, arguments string) core.Part {
	return core.Part{Kind: core.PartToolCall, ID: msgString(id), Name: msgString(name), Arguments: core.JSON(arguments)}
}

func msgResult(id string, parts ...core.Part) core.Part {
	return core.Part{Kind: core.PartToolResult, ID: msgString(id), Parts: parts}
}

func msgThought(text, seal string) core.Part {
	return core.Part{Kind: core.PartReasoning, Text: msgString(text), Seal: core.Seal{Origin: core.FormatAnthropic, Text: msgString(seal)}}
}

// msgTurns are messages one after another, with their places.
func msgTurns(list ...core.Message) []core.Message {
	for i := range list {
		list[i].At = fmt.Sprintf("messages[%d]", i)
	}
	return list
}

func msgSystem(parts ...core.Part) core.Message {
	return core.Message{Role: core.RoleSystem, Parts: parts}
}
func msgUser(parts ...core.Part) core.Message {
	return core.Message{Role: core.RoleUser, Parts: parts}
}
func msgModel(parts ...core.Part) core.Message {
	return core.Message{Role: core.RoleAssistant, Parts: parts}
}

// toAnthropic builds the request of a content for a provider of Anthropic's format.
func toAnthropic(t testing.TB, c *core.Content, offer *core.Offer) (*http.Request, []string, error) {
	t.Helper()
	job := &core.Job{Format: c.Format, Operation: core.OpGenerate, Streamed: c.Streamed, Model: "asked"}
	return adapters.Anthropic{}.Build(t.Context(), job, c, core.RequestHead{Path: "/v1/chat/completions"}, offer)
}

func TestAnthropicEncodesTurns(t *testing.T) {
	cached := msgText("cached")
	cached.Cache = "1h"
	result := msgResult("b", msgText("x"))
	result.Cache, result.Failed = "5m", true
	png := core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/*", Base64: []byte("iVBORw0KGgoAAAA=")}}
	for _, c := range []struct {
		name     string
		messages []core.Message
		want     string // the members system and messages
	}{
		{"text", msgTurns(msgUser(msgText("hi"))), `"messages":[{"role":"user","content":"hi"}]`},
		{"leading system text", msgTurns(msgSystem(msgText("one")), msgSystem(msgText("two")), msgUser(msgText("hi"))),
			`"system":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"messages":[{"role":"user","content":"hi"}]`},
		{"one of them alone", msgTurns(msgSystem(msgText("one"), msgText(" ")), msgUser(msgText("hi"))), `"system":"one","messages":[{"role":"user","content":"hi"}]`},
		{"with cache hints", msgTurns(msgSystem(cached), msgUser(cached)),
			`"system":[{"type":"text","text":"cached","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":[{"type":"text","text":"cached","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]`},
		{"system text later stays there", msgTurns(msgUser(msgText("a")), msgModel(msgText("b")), msgSystem(msgText("mind\n\"that\"")), msgUser(msgText("c"))),
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"<system>\nmind\n\"that\"\n</system>"},{"type":"text","text":"c"}]}]`},
		{"system text alone", msgTurns(msgSystem(msgText("go on"))), `"messages":[{"role":"user","content":"go on"}]`},
		{"the model speaks first", msgTurns(msgSystem(msgText("s")), msgModel(msgText("hello")), msgUser(msgText("hi"))),
			`"system":"s","messages":[{"role":"user","content":"."},{"role":"assistant","content":"hello"},{"role":"user","content":"hi"}]`},
		{"prefill (case 040)", msgTurns(msgUser(msgText("List three.")), msgModel(msgText("Here is the list: 1."))),
			`"messages":[{"role":"user","content":"List three."},{"role":"assistant","content":"Here is the list: 1."}]`},
		{"prefill that ends in white space", msgTurns(msgModel(msgText("a ")), msgUser(msgText("q ")), msgModel(msgText("é\": \n"))),
			`"messages":[{"role":"user","content":"."},{"role":"assistant","content":"a "},{"role":"user","content":"q "},{"role":"assistant","content":"é\":"}]`},
		{"empty texts and turns (case 034)", msgTurns(msgUser(msgText("go")), msgModel(msgText(""), msgCall("call_1", "look", `{"q":"x"}`)), msgUser(msgResult("call_1", msgText("up"))), msgModel(msgText(" \n\t")), msgUser(msgText("on"))),
			`"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"look","input":{"q":"x"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"up"},{"type":"text","text":"on"}]}]`},
		{"results go first, together", msgTurns(msgUser(msgText("go")), msgModel(msgText("so"), msgCall("a", "f", ""), msgCall("b", "g", "{}")), msgUser(msgResult("a")), msgSystem(msgText("s")), msgUser(result), msgUser(msgText("and?"))),
			`"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"b","content":"x","is_error":true,"cache_control":{"type":"ephemeral"}},
			{"type":"text","text":"<system>\ns\n</system>"},{"type":"text","text":"and?"}]}]`},
		{"ids that the API refuses", msgTurns(msgUser(msgText("go")), msgModel(msgCall("a.b:c", "f", "{}"), msgCall("hw-612e62", "f", "{}"), msgCall("", "f", "{}")), msgUser(msgResult("a.b:c", msgText("1")), msgResult("hw-612e62", msgText("2")), msgResult("", msgText("3")))),
			`"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"hw-612e623a63","name":"f","input":{}},{"type":"tool_use","id":"hw-68772d363132653632","name":"f","input":{}},{"type":"tool_use","id":"hw-","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"hw-612e623a63","content":"1"},{"type":"tool_result","tool_use_id":"hw-68772d363132653632","content":"2"},{"type":"tool_result","tool_use_id":"hw-","content":"3"}]}]`},
		{"media (case 036)", msgTurns(msgUser(msgText("what is it"), png, core.Part{Kind: core.PartImage, Media: core.Media{URL: core.Quoted(`"https:\/\/a\/b"`), Detail: "auto"}},
			core.Part{Kind: core.PartDocument, Name: msgString("d.pdf"), Media: core.Media{Type: "application/pdf", Base64: []byte("JVBE")}}, core.Part{Kind: core.PartDocument, Media: core.Media{URL: msgString("https://a/c.pdf")}},
			core.Part{Kind: core.PartDocument, Name: msgString("n.md"), Media: core.Media{Type: "text/markdown", Base64: []byte("YSAiYiI=")}})),
			`"messages":[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAA="}},{"type":"image","source":{"type":"url","url":"https://a/b"}},
			{"type":"document","title":"d.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}},{"type":"document","source":{"type":"url","url":"https://a/c.pdf"}},
			{"type":"document","title":"n.md","source":{"type":"text","media_type":"text/plain","data":"a \"b\""}}]}]`},
		{"an image in a result", msgTurns(msgUser(msgText("go")), msgModel(msgCall("a", "f", "{}")), msgUser(msgResult("a", msgText("see"), png, msgText("")))),
			`"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAA="}}]}]}]`},
		{"thinking of its own, and of others", msgTurns(msgUser(msgText("q")), msgModel(msgThought("", "only"), core.Part{Kind: core.PartReasoning, Seal: core.Seal{Origin: core.FormatAnthropic, Text: msgString("data"), Encrypted: true}},
			core.Part{Kind: core.PartReasoning, Text: msgString("x"), Seal: core.Seal{Origin: core.FormatGoogle, Text: msgString("y")}}, core.Part{Kind: core.PartReasoning, Text: msgString("unsigned")}, msgText("a")), msgUser(msgText("b")), msgModel(msgThought("alone", "z")), msgUser(msgText("c"))),
			`"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"only"},{"type":"redacted_thinking","data":"data"},{"type":"text","text":"a"}]},{"role":"user","content":"b"},{"role":"user","content":"c"}]`},
		{"a refusal of the model's", msgTurns(msgUser(msgText("q")), msgModel(core.Part{Kind: core.PartRefusal, Text: msgString("no")}), msgUser(msgText("b"))),
			`"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"no"}]},{"role":"user","content":"b"}]`},
	} {
		req, dropped, err := toAnthropic(t, &core.Content{Format: core.FormatOpenAI, Messages: c.messages}, offerOf(core.FormatAnthropic, "claude-opus-4-6"))
		if err != nil || dropped != nil {
			t.Errorf("%s: %v, dropped %v", c.name, err, dropped)
			continue
		}
		same(t, c.name, []byte(checkSent(t, req)), `{"model":"claude-opus-4-6","max_tokens":8192,`+c.want+`}`)
	}
}

func TestAnthropicEncodesFields(t *testing.T) {
	tool := core.Tool{Name: msgString("f"), Description: msgString("d"), Schema: core.JSON(`{"type":"object","properties":{"a":{"type":"string"}}}`), At: "tools[0]"}
	strict := tool
	strict.Strict = core.Some(true)
	second := core.Tool{Name: msgString("g"), Description: core.Quoted(`""`), Cache: "5m", At: "tools[1]"}
	untyped := core.Tool{Name: msgString("h"), Schema: core.JSON(` { "properties":{}}`), At: "tools[2]"}
	const f, closedF = `{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}`,
		`{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false},"strict":true}`
	const g = `{"name":"g","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}`
	effort := func(level string) core.ReasoningWish { return core.ReasoningWish{Effort: level} }
	for _, c := range []struct {
		name, model string
		content     core.Content
		want        string
		dropped     string
	}{
		{"a stream", "m", core.Content{Streamed: true}, `"stream":true,"max_tokens":8192`, ""},
		{"output maximum, stop, user", "m", core.Content{MaxOutput: core.Some[int64](7), Stop: []core.Quoted{msgString("a"), msgString("b")}, User: msgString("u-1")}, `"max_tokens":7,"stop_sequences":["a","b"],"metadata":{"user_id":"u-1"}`, ""},
		{"an address as the user", "m", core.Content{User: msgString("a@b.c")}, `"max_tokens":8192`, "user"},
		{"what no part of the format says", "m", core.Content{Seed: core.Number("1"), Frequency: core.Number("0.5"), Presence: core.Number("1"), Others: []core.OtherField{{Name: "store"}}}, `"max_tokens":8192`, "store seed frequency_penalty presence_penalty"},
		{"sampling", "m", core.Content{Temperature: core.Number("0.5"), TopP: core.Number("0.9"), TopK: core.Number("4")}, `"max_tokens":8192,"temperature":0.5,"top_p":0.9,"top_k":4`, ""},
		{"hotter than the API takes", "m", core.Content{Temperature: core.Number("1.5")}, `"max_tokens":8192`, "temperature"},
		{"one of two samplers", "claude-sonnet-4-5", core.Content{Temperature: core.Number("0.5"), TopP: core.Number("0.9")}, `"max_tokens":8192,"temperature":0.5`, "top_p"},
		{"a Claude that samples as it likes", "claude-opus-4-7", core.Content{Temperature: core.Number("0.5"), TopP: core.Number("1.0"), TopK: core.Number("4")}, `"max_tokens":8192`, "temperature top_k"},

		{"tools", "m", core.Content{Tools: []core.Tool{tool, second, untyped}}, `"max_tokens":8192,"tools":[` + f + `,` + g + `,{"name":"h","input_schema":{"type":"object","properties":{}}}]`, ""},
		{"a strict tool", "m", core.Content{Tools: []core.Tool{strict}}, `"max_tokens":8192,"tools":[` + closedF + `]`, ""},
		{"of a Claude that has none", "claude-3-5-haiku-20241022", core.Content{Tools: []core.Tool{strict}}, `"max_tokens":8192,"tools":[` + f + `]`, "tools[0].strict"},
		{"tool choice none (case 032)", "m", core.Content{Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone}, OneTool: true}, `"max_tokens":8192,"tools":[` + f + `],"tool_choice":{"type":"none"}`, ""},
		{"auto", "m", core.Content{Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto}}, `"max_tokens":8192,"tools":[` + f + `],"tool_choice":{"type":"auto"}`, ""},
		{"one at most", "m", core.Content{Tools: []core.Tool{tool}, OneTool: true}, `"max_tokens":8192,"tools":[` + f + `],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, ""},
		{"required", "m", core.Content{Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}, OneTool: true}, `"max_tokens":8192,"tools":[` + f + `],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`, ""},
		{"named", "m", core.Content{Tools: []core.Tool{tool, second}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{msgString("g")}}}, `"max_tokens":8192,"tools":[` + f + `,` + g + `],"tool_choice":{"type":"tool","name":"g"}`, ""},
		{"one of several", "m", core.Content{Tools: []core.Tool{tool, second, untyped}, ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{msgString("g"), msgString("f")}}}, `"max_tokens":8192,"tools":[` + f + `,` + g + `],"tool_choice":{"type":"any"}`, ""},
		{"some of them allowed", "m", core.Content{Tools: []core.Tool{tool, second}, ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto, Names: []core.Quoted{msgString("g")}}}, `"max_tokens":8192,"tools":[` + g + `],"tool_choice":{"type":"auto"}`, ""},
		{"a choice without tools", "m", core.Content{ToolChoice: core.ToolChoice{Mode: core.ChoiceAuto}, OneTool: true}, `"max_tokens":8192`, ""},

		{"an answer's schema", "m", core.Content{Answer: core.AnswerForm{JSON: true, Name: msgString("n"), Schema: core.JSON(`{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0}},"required":["n"],"additionalProperties":false,"$schema":"x"}`)}},
			`"max_tokens":8192,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"type":"integer","description":"{exclusiveMinimum: 0}"}},"required":["n"],"additionalProperties":false}}}`, ""},

		{"effort of a model that has budgets", "claude-sonnet-4-5-20250929", core.Content{Reasoning: effort("medium")}, `"max_tokens":16384,"thinking":{"type":"enabled","budget_tokens":8192}`, ""},
		{"a budget of more than is set aside for a call", "claude-sonnet-4-5-20250929", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](60_000)}}, `"max_tokens":16384,"thinking":{"type":"enabled","budget_tokens":8192}`, ""},
		{"within the client's maximum", "claude-sonnet-4-5", core.Content{Reasoning: effort("high"), MaxOutput: core.Some[int64](4096)}, `"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":2048}`, ""},
		{"too little room to think", "claude-sonnet-4-5", core.Content{Reasoning: effort("high"), MaxOutput: core.Some[int64](1500)}, `"max_tokens":1500`, "reasoning_effort"},
		{"a budget", "claude-3-7-sonnet-20250219", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](512)}, MaxOutput: core.Some[int64](9000)}, `"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1024}`, ""},
		{"with sampling", "claude-sonnet-4-5", core.Content{Reasoning: effort("low"), MaxOutput: core.Some[int64](9000), Temperature: core.Number("0.5"), TopP: core.Number("0.97"), TopK: core.Number("3")}, `"max_tokens":9000,"top_p":0.97,"thinking":{"type":"enabled","budget_tokens":2048}`, "temperature top_k"},
		{"with a forced call", "claude-sonnet-4-5", core.Content{Reasoning: effort("low"), Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}}, `"max_tokens":10240,"tools":[` + f + `],"tool_choice":{"type":"any"}`, "reasoning_effort"},
		{"of a Claude that cannot think", "claude-3-5-haiku-latest", core.Content{Reasoning: effort("low"), MaxOutput: core.Some[int64](9000)}, `"max_tokens":9000`, "reasoning_effort"},
		{"effort of a model that has it", "claude-opus-4-6", core.Content{Reasoning: effort("xhigh"), MaxOutput: core.Some[int64](900)}, `"max_tokens":900,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`, ""},
		{"and more of it", "us.anthropic.claude-opus-4-8-v1:0", core.Content{Reasoning: core.ReasoningWish{Effort: "xhigh", Visible: core.Some(true)}, MaxOutput: core.Some[int64](900)}, `"max_tokens":900,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}`, ""},
		{"a budget for one that has effort", "claude-sonnet-5", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](5000), Visible: core.Some(false)}, MaxOutput: core.Some[int64](900)}, `"max_tokens":900,"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"medium"}`, ""},
		{"shown, if there is any", "claude-opus-4.7", core.Content{Reasoning: core.ReasoningWish{Visible: core.Some(true)}}, `"max_tokens":8192,"thinking":{"type":"adaptive","display":"summarized"}`, ""},
		{"minimal with a forced call", "claude-opus-4-7", core.Content{Reasoning: effort("minimal"), MaxOutput: core.Some[int64](9), Tools: []core.Tool{tool}, ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}}, `"max_tokens":9,"tools":[` + f + `],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`, ""},
		{"none where none is usual", "claude-opus-4-7", core.Content{Reasoning: effort("none")}, `"max_tokens":8192`, ""},
		{"none where it is not", "claude-opus-5", core.Content{Reasoning: effort("none")}, `"max_tokens":8192,"thinking":{"type":"disabled"}`, ""},
		{"none of a newer one", "claude-sonnet-5-5", core.Content{Reasoning: core.ReasoningWish{Budget: core.Some[int64](0)}}, `"max_tokens":8192,"thinking":{"type":"between_tools"}`, ""},
		{"none of one that always thinks", "claude-fable-5", core.Content{Reasoning: effort("none")}, `"max_tokens":8192,"output_config":{"effort":"low"}`, "reasoning_effort"},
		{"none of another model", "kimi", core.Content{Reasoning: effort("none")}, `"max_tokens":8192,"thinking":{"type":"disabled"}`, ""},
		{"effort of another model", "kimi", core.Content{Reasoning: effort("low"), MaxOutput: core.Some[int64](9000), Temperature: core.Number("0.5")}, `"max_tokens":9000,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":2048}`, ""},
	} {
		c.content.Format, c.content.Messages = core.FormatOpenAI, msgTurns(msgUser(msgText("hi")))
		c.content.Fields = map[core.Ask]string{core.AskReasoning: "reasoning_effort"}
		req, dropped, err := toAnthropic(t, &c.content, offerOf(core.FormatAnthropic, c.model))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, []byte(checkSent(t, req)), `{"model":"`+c.model+`",`+c.want+`,"messages":[{"role":"user","content":"hi"}]}`)
		if got := strings.Join(dropped, " "); got != c.dropped {
			t.Errorf("%s: dropped %q, want %q", c.name, got, c.dropped)
		}
		if req.URL.Path != "/v1/messages" || req.Header.Get("Anthropic-Version") != "2023-06-01" || req.Header.Get("X-Api-Key") != "sk-own" {
			t.Errorf("%s: %s %v", c.name, req.URL, req.Header)
		}
	}
	offer := offerOf(core.FormatAnthropic, "deployment-7")
	offer.Model, offer.Limits.MaxOutput = "claude-haiku-4-5", core.Some[int64](64000)
	req, _, err := toAnthropic(t, &core.Content{Messages: msgTurns(msgUser(msgText("hi"))), Reasoning: effort("low"), TopP: core.Number("0.5"), Fields: nil}, offer)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "an offer with a maximum", []byte(checkSent(t, req)), `{"model":"deployment-7","max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[{"role":"user","content":"hi"}]}`)
}

// Thinking that is asked for in the middle of a turn that began without is what
// the API refuses: of models that are given a budget.
func TestAnthropicThinkingWithinATurn(t *testing.T) {
	loop := func(first ...core.Part) []core.Message {
		return msgTurns(msgUser(msgText("q")), msgModel(msgText("old")), msgUser(msgText("go")), msgModel(append(first, msgCall("a", "f", "{}"))...), msgUser(msgResult("a", msgText("1"))), msgModel(msgCall("b", "f", "{}")), msgUser(msgResult("b", msgText("2"))))
	}
	for _, c := range []struct {
		name, model string
		messages    []core.Message
		thinks      bool
		keeps       int // thinking blocks sent
	}{
		{"begun with thinking", "claude-sonnet-4-5", loop(msgThought("t", "s")), true, 1},
		{"begun without", "claude-sonnet-4-5", loop(), false, 0},
		{"begun with another provider's", "claude-sonnet-4-5", loop(core.Part{Kind: core.PartReasoning, Text: msgString("x"), Seal: core.Seal{Origin: core.FormatGoogle, Text: msgString("y")}}), false, 0},
		{"begun without, left to the model", "claude-opus-4-6", loop(), true, 0},
		{"begun without, another model", "kimi", loop(), true, 0},
		{"a new turn", "claude-sonnet-4-5", msgTurns(msgUser(msgText("q")), msgModel(msgCall("a", "f", "{}")), msgUser(msgResult("a")), msgModel(msgText("old")), msgUser(msgText("go"))), true, 0},
		{"a prefill", "claude-sonnet-4-5", msgTurns(msgUser(msgText("q")), msgModel(msgText("So"))), false, 0},
	} {
		content := &core.Content{Messages: c.messages, Reasoning: core.ReasoningWish{Effort: "low"}, MaxOutput: core.Some[int64](9000), Fields: map[core.Ask]string{core.AskReasoning: "reasoning.effort"}}
		req, dropped, err := toAnthropic(t, content, offerOf(core.FormatAnthropic, c.model))
		if err != nil {
			t.Fatal(err)
		}
		sent := checkSent(t, req)
		if thinks := strings.Contains(sent, `"thinking":{`); thinks != c.thinks || c.thinks == slices.Contains(dropped, "reasoning.effort") {
			t.Errorf("%s: dropped %v of %s", c.name, dropped, sent)
		}
		if n := strings.Count(sent, `"type":"thinking"`); n != c.keeps {
			t.Errorf("%s: %d thinking blocks in %s", c.name, n, sent)
		}
	}
	req, _, err := toAnthropic(t, &core.Content{Messages: loop(msgThought("t", "s"))}, offerOf(core.FormatAnthropic, "claude-sonnet-4-5"))
	if err != nil {
		t.Fatal(err)
	}
	if sent := checkSent(t, req); strings.Contains(sent, "thinking") {
		t.Errorf("thinking is not asked for, and sent: %s", sent)
	}
}

func TestAnthropicEncodeRefuses(t *testing.T) {
	hi := msgTurns(msgUser(msgText("hi")))
	for name, c := range map[string]struct {
		content core.Content
		param   string
	}{
		"several answers":           {core.Content{Choices: 2, Messages: hi}, "n"},
		"log probabilities":         {core.Content{TopLogprobs: core.Some[int64](0), Messages: hi}, "logprobs"},
		"JSON without a schema":     {core.Content{Answer: core.AnswerForm{JSON: true}, Messages: hi}, "answer_form"},
		"open objects":              {core.Content{Answer: core.AnswerForm{JSON: true, Schema: core.JSON(`{"type":"object","additionalProperties":{"type":"string"}}`)}, Messages: hi}, "answer_form"},
		"a stop of white space":     {core.Content{Stop: []core.Quoted{msgString("\n\n")}, Messages: hi}, "stop"},
		"a forced call of no tool":  {core.Content{ToolChoice: core.ToolChoice{Mode: core.ChoiceRequired}, Messages: hi}, "tool_choice"},
		"a field of the client's":   {core.Content{Others: []core.OtherField{{Name: "logit_bias", Refused: true}}, Messages: hi}, "logit_bias"},
		"sound":                     {core.Content{Messages: msgTurns(msgUser(msgText("a"), core.Part{Kind: core.PartAudio}))}, "messages[0].content[1]"},
		"an image of another kind":  {core.Content{Messages: msgTurns(msgUser(core.Part{Kind: core.PartImage, Media: core.Media{Type: "image/tiff", Base64: []byte("SUkq")}}))}, "messages[0].content[0]"},
		"an address of another net": {core.Content{Messages: msgTurns(msgUser(core.Part{Kind: core.PartImage, Media: core.Media{URL: msgString("gs://a/b")}}))}, "messages[0].content[0]"},
		"a document of another":     {core.Content{Messages: msgTurns(msgUser(core.Part{Kind: core.PartDocument, Media: core.Media{Type: "application/zip", Base64: []byte("UEs=")}}))}, "messages[0].content[0]"},
		"a broken text document":    {core.Content{Messages: msgTurns(msgUser(core.Part{Kind: core.PartDocument, Media: core.Media{Type: "text/plain", Base64: []byte("*")}}))}, "messages[0].content[0]"},
		"an image by the model":     {core.Content{Messages: msgTurns(msgUser(msgText("a")), msgModel(core.Part{Kind: core.PartImage, Media: core.Media{URL: msgString("https://a")}}))}, "messages[1].content[0]"},
		"an image by the system":    {core.Content{Messages: msgTurns(msgSystem(core.Part{Kind: core.PartImage}), msgUser(msgText("a")))}, "messages[0].content[0]"},
	} {
		c.content.Fields = map[core.Ask]string{core.AskChoices: "n"}
		_, _, err := toAnthropic(t, &c.content, offerOf(core.FormatAnthropic, "m"))
		mistake(t, name, err, c.param)
	}
}

func TestAnthropicSchemas(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"a":{"type":["string","null"],"minLength":2,"pattern":"^a\"","description":"the \"a\""},"b":{"type":"array","items":{"type":"object","properties":{}},"minItems":1,"maxItems":3}},"additionalProperties":true}`,
			`{"type":"object","properties":{"a":{"type":["string","null"],"description":"the \"a\"\n\n{minLength: 2, pattern: \"^a\\\"\"}"},"b":{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false},"minItems":1,"description":"{maxItems: 3}"}},"additionalProperties":false}`},
		{`{"$defs":{"x":{"type":"object","properties":{"n":{"$ref":"#/$defs/x"}}}},"oneOf":[{"$ref":"#/$defs/x"},{"type":"string","format":"date"},{"type":"string","format":"iban"},true]}`,
			`{"$defs":{"x":{"type":"object","properties":{"n":{"$ref":"#/$defs/x"}},"additionalProperties":false}},"anyOf":[{"$ref":"#/$defs/x"},{"type":"string","format":"date"},{"type":"string","description":"{format: \"iban\"}"},true]}`},
		{`{"enum":["a",1],"title":"t","default":"a","allOf":[{"const":1}]}`, `{"enum":["a",1],"title":"t","default":"a","allOf":[{"const":1}]}`},
	} {
		content := &core.Content{Messages: msgTurns(msgUser(msgText("hi"))), Answer: core.AnswerForm{JSON: true, Schema: core.JSON(c.schema)}}
		req, _, err := toAnthropic(t, content, offerOf(core.FormatAnthropic, "m"))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		var sent struct {
			Config struct {
				Format struct {
					Schema json.RawMessage
				}
			} `json:"output_config"`
		}
		if err := json.Unmarshal([]byte(checkSent(t, req)), &sent); err != nil {
			t.Fatal(err)
		}
		same(t, c.schema, sent.Config.Format.Schema, c.want)
	}
}

// What an Anthropic client wrote, decoded and written anew, says the same.
func TestAnthropicThereAndBack(t *testing.T) {
	body := `{"model":"claude-opus-4-6","max_tokens":64,"stream":true,"system":[{"type":"text","text":"s1","cache_control":{"type":"ephemeral"}},{"type":"text","text":"s2"}],"temperature":0.3,
		"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"UklGRg=="}}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"\ud83d\ude00","signature":"s="},{"type":"text","text":"b"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"big":12345678901234567890}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"c"},{"type":"text","text":"d","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}],
		"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"big":{"type":"integer"}}}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"stop_sequences":["x"],"metadata":{"user_id":"u"}}`
	content, err := messagesContent(t, body)
	if err != nil {
		t.Fatal(err)
	}
	req, dropped, err := toAnthropic(t, content, offerOf(core.FormatAnthropic, "claude-opus-4-6"))
	if err != nil || dropped != nil {
		t.Fatal(err, dropped)
	}
	sent := checkSent(t, req)
	same(t, "there and back", []byte(sent), body)
	if !strings.Contains(sent, "12345678901234567890") || !strings.Contains(sent, `\ud83d\ude00`) {
		t.Errorf("texts or numbers are not as they stood: %s", sent)
	}
	if again, _ := messagesContent(t, body); !reflect.DeepEqual(again, content) {
		t.Errorf("encoding changed the content")
	}
}

func BenchmarkAnthropicDecodeEncode(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"model":"m","max_tokens":1024,"stream":true,"system":"be good","messages":[`)
	for i := range 100 {
		fmt.Fprintf(&body, `{"role":"user","content":"%s"},{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"f","input":{"a":[1,2,3],"b":"%s"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s"}]},`,
			strings.Repeat(`lorem ipsum dolor \"sit\" amet\n `, 40), i, strings.Repeat("x y z ", 100), i, strings.Repeat("lorem ipsum dolor sit amet ", 70))
	}
	body.WriteString(`{"role":"user","content":"go"}]}`)
	job, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: messagesPath}, []byte(body.String()))
	if err != nil {
		b.Fatal(err)
	}
	offer := offerOf(core.FormatAnthropic, "m")
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		c, err := adapters.Anthropic{}.Decode(job)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := (adapters.Anthropic{}).Build(b.Context(), job, c, core.RequestHead{}, offer); err != nil {
			b.Fatal(err)
		}
	}
}

package adapters_test

import (
	"context"
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

// decodedResponses reads a request of the Responses API.
func decodedResponses(body string) (*core.Content, error) {
	job, err := adapters.Responses{}.Parse(core.RequestHead{Path: responsesPath}, []byte(body))
	if err != nil {
		return nil, err
	}
	return adapters.Responses{}.Decode(job)
}

// encodedResponses writes a content for a provider of the API.
func encodedResponses(c *core.Content, upstream string) (body string, dropped []string, err error) {
	req, dropped, err := adapters.Responses{}.Build(context.Background(), &core.Job{}, c, core.RequestHead{}, offerOf(core.FormatResponses, upstream))
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	if _, err := io.Copy(&b, req.Body); err != nil {
		return "", nil, err
	}
	return b.String(), dropped, nil
}

// TestResponsesThere holds decoding and encoding against each other: a request
// that is decoded and written for a provider of the same API asks the same.
func TestResponsesThere(t *testing.T) {
	const pdf = `"data:application/pdf;base64,JVBERi0="`
	for _, c := range []struct{ name, rest, want, dropped string }{
		{"a text", `"input":"h\u00e9\n"`, `"input":[{"type":"message","role":"user","content":"hé\n"}]`, ""},
		{"a stream", `"input":"a","stream":true,"stream_options":{"include_obfuscation":false}`, `"stream":true,"input":[{"type":"message","role":"user","content":"a"}]`, ""},
		{
			"system text keeps its place", `"instructions":"be","input":[{"role":"developer","content":"brief"},{"role":"user","content":"a"},{"role":"system","content":[{"type":"input_text","text":"now"}]},{"role":"user","content":"b"}]`,
			`"instructions":"be\n\nbrief","input":[{"type":"message","role":"user","content":"a"},{"type":"message","role":"system","content":"now"},{"type":"message","role":"user","content":"b"}]`, "",
		},
		{
			"media", `"input":[{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image\/png;base64,\/9j\/","detail":"low"},{"type":"input_image","image_url":"https://x/y.png"},
			{"type":"input_file","filename":"a.pdf","file_data":` + pdf + `},{"type":"input_file","file_url":"https://x/z.pdf"},{"type":"input_file","filename":"a.TXT","file_data":"aGk="}]}]`,
			`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,/9j/","detail":"low"},{"type":"input_image","image_url":"https://x/y.png"},
			{"type":"input_file","filename":"a.pdf","file_data":` + pdf + `},{"type":"input_file","file_url":"https://x/z.pdf"},{"type":"input_file","filename":"a.TXT","file_data":"data:text/plain;base64,aGk="}]}]`, "",
		},
		{
			"a turn with tools", `"input":[{"role":"user","content":"go"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"EN"},
			{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]}]},
			{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":\"\\n\"}"},{"type":"function_call","call_id":"c2","name":"g","arguments":""},
			{"type":"function_call_output","id":"fco_1","call_id":"c1","output":"42"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"pic"},{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]}]`,
			`"input":[{"type":"message","role":"user","content":"go"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a\n\nb"}],"encrypted_content":"EN"},
			{"type":"message","role":"assistant","content":"ok"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":\"\\n\"}"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
			{"type":"function_call_output","call_id":"c1","output":"42"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"pic"},{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]}],
			"include":["reasoning.encrypted_content"]`, "",
		},
		{
			"a call that was cut off", `"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a"},{"type":"function_call_output","call_id":"c","output":"no JSON"}]`,
			`"input":[{"type":"message","role":"user","content":"go"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"INVALID_JSON\":\"{\\\"a\"}"},{"type":"function_call_output","call_id":"c","output":"no JSON"}]`, "",
		},
		{
			"a refusal and a prefill", `"input":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"output_text","text":"x"},{"type":"refusal","refusal":"no"}]},{"role":"user","content":"b"},{"role":"assistant","content":"Here: 1."}]`,
			`"input":[{"type":"message","role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"},{"type":"refusal","refusal":"no"}]},
			{"type":"message","role":"user","content":"b"},{"type":"message","role":"assistant","content":"Here: 1."}]`, "",
		},
		{
			"tools", `"input":"a","tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object","properties":{"p":{"$ref":"#/x"}}},"strict":true,"defer_loading":true,"async":false},{"type":"function","name":"g","parameters":null,"strict":null},
			{"type":"namespace","name":"ns","description":"n","tools":[{"type":"function","name":"h","parameters":{}},{"type":"function","name":"f","parameters":{}}]},{"type":"web_search"},{"type":"mcp","server_label":"m"},
			{"type":"custom","name":"sql","description":"q","format":{"type":"grammar","syntax":"lark","definition":"a\n"}}],"tool_choice":"auto","parallel_tool_calls":false`,
			`"input":[{"type":"message","role":"user","content":"a"}],"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object","properties":{"p":{"$ref":"#/x"}}},"strict":true},
			{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"ns__h","parameters":{},"strict":false},{"type":"function","name":"ns__f","parameters":{},"strict":false},
			{"type":"function","name":"sql","description":"q","parameters":{"type":"object","properties":{"input":{"type":"string","description":"Plain text that follows this grammar (lark):\na\n"}},"required":["input"],"additionalProperties":false},"strict":false}],
			"parallel_tool_calls":false,"tool_choice":"auto"`, "tools.web_search tools.mcp tools.description tools.defer_loading",
		},
		{
			"a plain text call and one of a namespace", `"input":[{"role":"user","content":"a"},{"type":"custom_tool_call","call_id":"c","name":"sql","input":"SELECT \"1\""},{"type":"custom_tool_call_output","call_id":"c","output":"1"},
			{"type":"function_call","call_id":"d","namespace":"ns","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"d","output":""}],
			"tools":[{"type":"custom","name":"sql"},{"type":"function","name":"f"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]}],"tool_choice":{"type":"function","name":"f"}`,
			`"input":[{"type":"message","role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"sql","arguments":"{\"input\":\"SELECT \\\"1\\\"\"}"},{"type":"function_call_output","call_id":"c","output":"1"},
			{"type":"function_call","call_id":"d","name":"ns__f","arguments":"{}"},{"type":"function_call_output","call_id":"d","output":""}],
			"tools":[{"type":"function","name":"sql","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false},"strict":false},
			{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"ns__f","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":{"type":"function","name":"f"}`, "",
		},
		{
			"some tools are allowed", `"input":"a","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"},{"type":"web_search"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"},{"type":"web_search"}]}`,
			`"input":[{"type":"message","role":"user","content":"a"}],"tools":[{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":"required"`, "tools.web_search",
		},
		{
			"sampling, form and tags", `"input":"a","max_output_tokens":99,"temperature":0.50,"top_p":1e-1,"user":"u1","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}},"verbosity":"low"},
			"metadata":{"a":"b"},"store":true,"service_tier":"flex","prompt_cache_key":"k","truncation":"auto","client_metadata":{"x":"y"},"safety_identifier":"s","max_tool_calls":3,"newer":1`,
			`"input":[{"type":"message","role":"user","content":"a"}],"max_output_tokens":99,"temperature":0.5,"top_p":0.1,"user":"u1","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}},"verbosity":"low"},"service_tier":"flex","metadata":{"a":"b"}`,
			"store prompt_cache_key truncation client_metadata safety_identifier max_tool_calls newer",
		},
		{
			"defaults and nulls are nothing", `"input":"a","metadata":{},"store":false,"service_tier":"auto","truncation":"disabled","top_logprobs":0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tools":[],"tool_choice":null,
			"previous_response_id":null,"conversation":null,"prompt":null,"background":false,"reasoning":{"effort":null,"summary":null},"include":[],"user":null,"instructions":"","temperature":null,"parallel_tool_calls":true,"newer":null`,
			`"input":[{"type":"message","role":"user","content":"a"}]`, "",
		},
		{"a JSON object", `"input":"a","text":{"format":{"type":"json_object"}}`, `"input":[{"type":"message","role":"user","content":"a"}],"text":{"format":{"type":"json_object"}}`, ""},
		{
			"reasoning", `"input":"a","reasoning":{"effort":"high","summary":"detailed","context":"auto"},"include":["reasoning.encrypted_content","file_search_call.results"]`,
			`"input":[{"type":"message","role":"user","content":"a"}],"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"]`, "reasoning.context include",
		},
		{"no reasoning", `"input":"a","reasoning":{"effort":"none"}`, `"input":[{"type":"message","role":"user","content":"a"}],"reasoning":{"effort":"none"}`, ""},
		{
			"what the provider ran is told by its answer", `"input":[{"role":"user","content":"a"},{"type":"web_search_call","id":"ws","status":"completed"},{"type":"item_reference","id":"rs_1"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`,
			`"input":[{"type":"message","role":"user","content":"a"},{"type":"message","role":"assistant","content":"b"},{"type":"message","role":"user","content":"c"}]`, "input.web_search_call input.item_reference",
		},
		{
			"a mark for the cache", `"input":[{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`,
			`"input":[{"type":"message","role":"user","content":"a"}]`, "prompt_cache_breakpoint",
		},
	} {
		content, err := decodedResponses(`{"model":"m",` + c.rest + `}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, dropped, err := encodedResponses(content, "big")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, []byte(got), `{"model":"big","store":false,`+c.want+`}`)
		left, wanted := slices.Sorted(slices.Values(dropped)), slices.Sorted(slices.Values(strings.Fields(c.dropped)))
		if !slices.Equal(left, wanted) {
			t.Errorf("%s: dropped %v, want %v", c.name, left, wanted)
		}
	}
}

// TestResponsesNotThere holds what cannot be asked of a provider of another API.
func TestResponsesNotThere(t *testing.T) {
	items := func(item string) string {
		return `"input":[{"role":"user","content":"a"},` + item + `]`
	}
	for _, c := range []struct{ name, rest, param, bound string }{
		{"an answer kept there", `"input":"a","previous_response_id":"resp_1"`, "previous_response_id", "previous_response_id"},
		{"a conversation kept there", `"input":"a","conversation":{"id":"c"}`, "conversation", "conversation"},
		{"a prompt kept there", `"prompt":{"id":"p"}`, "prompt", "prompt"},
		{"an item kept there", items(`{"type":"item_reference","id":"msg_1"}`), "input[1]", "input[1]"},
		{"a file kept there", items(`{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}`), "input[1].content[0].file_id", "input[1]"},
		{"a document kept there", items(`{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}`), "input[1].content[0].file_id", "input[1]"},
		{"a hosted tool demanded", `"input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}`, "tool_choice", ""},
		{"hosted tools alone demanded", `"input":"a","tools":[{"type":"web_search"}],"tool_choice":"required"`, "tool_choice", ""},
		{"a choice without a name", `"input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":3}`, "tool_choice.name", ""},
		{"a choice of the future", `"input":"a","tool_choice":"maybe"`, "tool_choice", ""},
		{"a call without an id", items(`{"type":"function_call","name":"f","arguments":"{}"}`), "input[1].call_id", ""},
		{"a result without an id", items(`{"type":"function_call_output","output":"x"}`), "input[1].call_id", ""},
		{"a tool without a name", `"input":"a","tools":[{"type":"function"}]`, "tools[0].name", ""},
		{"a role of the future", items(`{"role":"critic","content":"x"}`), "input[1].role", ""},
		{"a screenshot", items(`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:,"}}`), "input[1]", ""},
		{"a part of the future", items(`{"role":"user","content":[{"type":"smell"}]}`), "input[1].content[0]", ""},
		{"an image in no base64", items(`{"role":"user","content":[{"type":"input_image","image_url":"data:image/svg+xml,<svg>"}]}`), "input[1].content[0].image_url", ""},
		{"an image of nothing", items(`{"role":"user","content":[{"type":"input_image"}]}`), "input[1].content[0].image_url", ""},
		{"an effort of the future", `"input":"a","reasoning":{"effort":"huge"}`, "reasoning.effort", ""},
		{"a schema that is none", `"input":"a","text":{"format":{"type":"json_schema","name":"n"}}`, "text.format.schema", ""},
		{"a grammar", `"input":"a","text":{"format":{"type":"grammar"}}`, "text.format", ""},
		{"log probabilities", `"input":"a","include":["message.output_text.logprobs"]`, "include", ""},
		{"more of them", `"input":"a","top_logprobs":2`, "top_logprobs", ""},
		{"stop", `"input":"a","stop":["x"]`, "stop", ""},
	} {
		job, err := adapters.Responses{}.Parse(core.RequestHead{Path: responsesPath}, []byte(`{"model":"m",`+c.rest+`}`))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if job.Bound != c.bound {
			t.Errorf("%s: bound by %q, want %q", c.name, job.Bound, c.bound)
		}
		content, err := adapters.Responses{}.Decode(job)
		if err == nil {
			_, _, err = encodedResponses(content, "big")
		}
		mistake(t, c.name, err, c.param)
	}
}

// TestResponsesFromOthers holds what only clients of other formats ask.
func TestResponsesFromOthers(t *testing.T) {
	said := func(role core.Role, parts ...core.Part) core.Message {
		return core.Message{Role: role, Parts: parts, At: "messages[0]"}
	}
	quoted := func(s string) core.Quoted { return core.Quoted(`"` + s + `"`) }
	sealed := func(origin core.Format) core.Part {
		return core.Part{Kind: core.PartReasoning, Text: quoted("hm"), Seal: core.Seal{Origin: origin, Text: quoted("EN"), Encrypted: true, ID: quoted("rs_1")}}
	}
	for _, c := range []struct {
		name          string
		content       core.Content
		model         string
		want, dropped string
	}{
		{
			"old thinking of another provider is left out",
			core.Content{Messages: []core.Message{said(core.RoleAssistant, sealed(core.FormatAnthropic), core.Part{Text: quoted("x")})}},
			"m", `"input":[{"type":"message","role":"assistant","content":"x"}]`, "",
		},
		{
			"its own goes back", core.Content{Messages: []core.Message{said(core.RoleAssistant, sealed(core.FormatResponses), core.Part{Text: quoted("")}, core.Part{Kind: core.PartToolCall, ID: quoted("c"), Name: quoted("f"), Arguments: core.JSON("{\n}")})}},
			"m", `"input":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"EN"},{"type":"function_call","call_id":"c","name":"f","arguments":"{ }"}],"include":["reasoning.encrypted_content"]`, "",
		},
		{
			"a tool that failed", core.Content{Messages: []core.Message{said(core.RoleUser,
				core.Part{Kind: core.PartToolResult, ID: quoted("c"), Failed: true, Parts: []core.Part{{Text: quoted("x")}}}, core.Part{Kind: core.PartToolResult, ID: quoted("d"), Failed: true}, core.Part{Text: quoted("so")})}},
			"m", `"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"The tool failed."},{"type":"input_text","text":"x"}]},
			{"type":"function_call_output","call_id":"d","output":"The tool failed."},{"type":"message","role":"user","content":"so"}]`, "",
		},
		{
			"what only tunes", core.Content{
				Messages: []core.Message{said(core.RoleUser, core.Part{Text: quoted("a")})}, TopK: core.Number("4"), Seed: core.Number("1"), Frequency: core.Number("1"), Presence: core.Number("1"),
				User: quoted(strings.Repeat("u", 65)), Fields: map[core.Ask]string{core.AskTopK: "top_k", core.AskSeed: "seed", core.AskUser: "metadata.user_id", core.AskCache: "cache_control"},
				Reasoning: core.ReasoningWish{Budget: core.Some[int64](3000)}, Choices: 1, ToolChoice: core.ToolChoice{Mode: core.ChoiceNone},
			},
			"m", `"input":[{"type":"message","role":"user","content":"a"}],"reasoning":{"effort":"medium"},"include":["reasoning.encrypted_content"]`, "top_k seed frequency_penalty presence_penalty cache_control metadata.user_id",
		},
		{
			"one of several tools", core.Content{
				Messages: []core.Message{said(core.RoleUser, core.Part{Text: quoted("a")})}, Tools: []core.Tool{{Name: quoted("f"), Schema: core.JSON(`{}`)}},
				ToolChoice: core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{quoted("f"), quoted("g")}},
			},
			"m", `"input":[{"type":"message","role":"user","content":"a"}],"tools":[{"type":"function","name":"f","parameters":{},"strict":false}],
			"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}`, "",
		},
	} {
		got, dropped, err := encodedResponses(&c.content, c.model)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, c.name, []byte(got), `{"model":"`+c.model+`","store":false,`+c.want+`}`)
		if fmt.Sprint(dropped) != "["+c.dropped+"]" {
			t.Errorf("%s: dropped %v, want %v", c.name, dropped, c.dropped)
		}
	}
	for name, content := range map[string]core.Content{
		"stop": {Stop: []core.Quoted{quoted("x")}}, "n": {Choices: 2}, "messages[0].content[0]": {Messages: []core.Message{said(core.RoleUser, core.Part{Kind: core.PartAudio})}},
	} {
		content.Fields = map[core.Ask]string{core.AskStop: "stop", core.AskChoices: "n"}
		var e *core.Error
		if _, _, err := encodedResponses(&content, "m"); !errors.As(err, &e) || e.Param != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Encrypted reasoning is asked for where the model reasons; others refuse that.
	for model, want := range map[string]bool{
		"gpt-5": true, "gpt-5.1-codex": true, "openai/gpt-5-mini": true, "gpt-12": true, "o3": true, "o4-mini": true,
		"gpt-4.1": false, "gpt-4o": false, "gpt-5-chat-latest": false, "gpt-oss-20b": false, "llama3": false, "o": false, "omni-1": false, "": false,
	} {
		got, _, err := encodedResponses(&core.Content{Messages: []core.Message{said(core.RoleUser, core.Part{Text: quoted("a")})}}, model)
		if err != nil || strings.Contains(got, "encrypted_content") != want {
			t.Errorf("%s: %v %s", model, err, got)
		}
	}
}

// TestCodexDecodes takes a request as Codex makes it (CLIENTS.md).
func TestCodexDecodes(t *testing.T) {
	content, err := decodedResponses(`{"model":"m","instructions":"You are Codex.","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"p"}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},{"type":"reasoning","summary":[],"content":null,"encrypted_content":"hw1:anthropic:s:0:c2ln"},
		{"type":"function_call","id":"fc_x","name":"shell","arguments":"{\"cmd\":[\"ls\"]}","call_id":"toolu_1"},{"type":"function_call_output","id":"fco_x","call_id":"toolu_1","output":"a.txt"}],
		"tools":[{"type":"function","name":"shell","description":"d","strict":false,"parameters":{"type":"object"}},{"type":"namespace","name":"mcp__x","description":"n","tools":[{"type":"function","name":"read","strict":false,"parameters":{}}]},
		{"type":"web_search","external_web_access":false}],"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,
		"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"a":"b"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, m := range content.Messages {
		for _, p := range m.Parts {
			roles = append(roles, fmt.Sprint(m.At, m.Role, p.Kind))
		}
	}
	if got := strings.Join(roles, " "); got != "instructions0 0 input[0]0 0 input[1]1 0 input[2]2 6 input[2]2 4 input[4]1 5" {
		t.Errorf("messages %s", got)
	}
	seal := content.Messages[3].Parts[0].Seal
	if seal.Origin != core.FormatAnthropic || string(seal.Text) != `"c2ln"` || seal.Encrypted {
		t.Errorf("seal %+v", seal)
	}
	if p := content.Messages[4].Parts[0]; string(p.Name) != `"shell"` || string(p.ID) != `"toolu_1"` {
		t.Errorf("result %+v", p)
	}
	if fmt.Sprint(content.Others) != "[{tools.description false  } {tools.web_search false  } {prompt_cache_key false  } {client_metadata false  }]" || len(content.Tools) != 2 || !content.Streamed {
		t.Errorf("%v, %d tools", content.Others, len(content.Tools))
	}
}

// FuzzDecodeResponses: what Parse takes, Decode reads or refuses by a field, and
// what is encoded of it is JSON.
func FuzzDecodeResponses(f *testing.F) {
	seed(f, "*/*responses-*.request.json")
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:;base64,"},{"type":"input_file","file_data":"x"}]},{"type":"reasoning","summary":[{"text":"a"}],"encrypted_content":"hw1:x:e:9:"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"c","name":"f"}],"tools":[{"type":"namespace","tools":[{"type":"custom","name":"f","format":{}}]}],"tool_choice":{"type":"allowed_tools"},"text":{"format":{"type":"json_schema","schema":{}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := decodedResponses(string(body))
		if err == nil {
			var sent string
			if sent, _, err = encodedResponses(content, "gpt-5"); err == nil && !json.Valid([]byte(sent)) {
				t.Fatalf("%q is sent as %q", body, sent)
			}
		}
		var e *core.Error
		if err != nil && (!errors.As(err, &e) || e.Kind != core.Invalid) {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

func BenchmarkDecodeResponses(b *testing.B) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat(`lorem ipsum \n dolor sit amet `, 14_000) + `"}]}`)
	job, err := adapters.Responses{}.Parse(core.RequestHead{Path: responsesPath}, body)
	if err != nil {
		b.Fatal(err)
	}
	offer := offerOf(core.FormatResponses, "m")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		content, err := adapters.Responses{}.Decode(job)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := (adapters.Responses{}).Build(b.Context(), job, content, core.RequestHead{}, offer); err != nil {
			b.Fatal(err)
		}
	}
}

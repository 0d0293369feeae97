package adapters_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// chatBody is a request with one user message and more fields.
func chatBody(rest string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + rest + `}`
}

// chatWith is a request with one more message.
func chatWith(message string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"},` + message + `]}`
}

const aTool = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}`

// TestChatDecodes: what is decoded is the same request again when it is written
// for a server that takes all of it.
func TestChatDecodes(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"text", chatBody(""), chatBody("")},
		{
			"sampling", chatBody(`,"stream":true,"max_tokens":9,"n":2,"temperature":0.10,"top_p":0.5,"top_k":3,"seed":7,"frequency_penalty":-1,"presence_penalty":1.5e0,"stop":"a\nb","user":"u"`),
			chatBody(`,"stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"n":2,"temperature":0.10,"top_p":0.5,"top_k":3,"seed":7,"frequency_penalty":-1,"presence_penalty":1.5e0,"stop":["a\nb"],"user":"u"`),
		},
		{
			"defaults are absent",
			chatBody(`,"stream":false,"max_completion_tokens":9,"n":1,"top_p":1.0,"frequency_penalty":0,"presence_penalty":0.0,"stop":[],"logprobs":false,"parallel_tool_calls":true,"response_format":{"type":"text"},
				"reasoning_effort":null,"tools":[],"tool_choice":"auto","store":false,"service_tier":"auto","metadata":{},"modalities":["text"],"logit_bias":{},"verbosity":"medium","anything":null`),
			chatBody(`,"max_tokens":9`),
		},
		{
			"every role, where it stands",
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"developer","content":[{"type":"text","text":"d"}]},
				{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": \"\\n\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},
				{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"two"}]},{"role":"assistant","content":"so","refusal":" no"},{"role":"user","content":"go"},{"role":"assistant","content":"pre"}]}`,
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a\n\nb"},{"role":"system","content":"d"},
				{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": \"\\n\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"assistant","content":"so no"},{"role":"user","content":"go"},{"role":"assistant","content":"pre"}]}`,
		},
		{
			"arguments that went wrong stay told",
			chatWith(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": \"\\n"}},{"id":"b","type":"function","function":{"name":"f","arguments":"[1]"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{} {}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"null"}}]}`),
			chatWith(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"INVALID_JSON\":\"{\\\"x\\\": \\\"\\\\n\"}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{\"INVALID_JSON\":\"[1]\"}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{\"INVALID_JSON\":\"{} {}\"}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}]}`),
		},
		{
			"media",
			chatWith(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/PNG;x=1;base64,QU\/+","detail":"low"}},{"type":"image_url","image_url":"https://h/\u00e9.png"},{"type":"text","text":"see"},
				{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"}},{"type":"file","file":{"file_data":"JVBE"}},{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}},
				{"type":"file","file":{"filename":"n.TXT","file_data":"aGkgIg=="}}]}`),
			chatWith(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QU\/+","detail":"low"}},{"type":"image_url","image_url":{"url":"https://h/\u00e9.png"}},{"type":"text","text":"see"},
				{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBE"}},{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,JVBE"}},{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}},
				{"type":"text","text":"hi \""}]}`),
		},
		{
			"an image in a tool's result goes behind all results",
			`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c1","content":[{"type":"image_url","image_url":{"url":"https://h/a"}}]},{"role":"tool","tool_call_id":"c2","content":"t"},{"role":"assistant","content":"x"}]}`,
			`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c1","content":"It is in the next message."},{"role":"tool","tool_call_id":"c2","content":"t"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://h/a"}}]},{"role":"assistant","content":"x"}]}`,
		},
		{
			"the old functions",
			`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}],"functions":[{"name":"f","description":"d"}],"function_call":{"name":"f"}}`,
			`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"r"}],
				"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}],"tool_choice":{"type":"function","function":{"name":"f"}}}`,
		},
		{
			"tools", chatBody(`,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"enum":[1,"x"]}}}}}},"strict":true}}],"tool_choice":"required","parallel_tool_calls":false`),
			chatBody(`,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"enum":[1,"x"]}}}}}},"strict":true}}],"tool_choice":"required","parallel_tool_calls":false`),
		},
		{"no tool may be called", chatBody(`,"tools":[` + aTool + `],"tool_choice":"none"`), chatBody(`,"tools":[` + aTool + `],"tool_choice":"none"`)},
		{
			"allowed tools are those that it is told of",
			chatBody(`,"tools":[` + aTool + `,` + strings.Replace(aTool, `"f"`, `"g"`, 1) + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"\u0067"}}]}}`),
			chatBody(`,"tools":[` + strings.Replace(aTool, `"f"`, `"g"`, 1) + `],"tool_choice":"required"`),
		},
		{
			"a schema", chatBody(`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`),
			chatBody(`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`),
		},
		{"llama-server's schema", chatBody(`,"response_format":{"type":"json_object","schema":{"type":"object"}}`), chatBody(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}`)},
		{"JSON", chatBody(`,"response_format":{"type":"json_object"}`), chatBody(`,"response_format":{"type":"json_object"}`)},
		{"effort", chatBody(`,"reasoning_effort":"xhigh"`), chatBody(`,"reasoning":{"effort":"xhigh"}`)},
		{"a reasoning object", chatBody(`,"reasoning":{"max_tokens":2000,"exclude":true}`), chatBody(`,"reasoning":{"max_tokens":2000,"exclude":true}`)},
		{"thinking on", chatBody(`,"thinking":{"type":"enabled"}`), chatBody(`,"reasoning":{"effort":"medium"}`)},
		{"thinking off", chatBody(`,"enable_thinking":false,"include_reasoning":true`), chatBody(`,"reasoning":{"effort":"none"}`)},
		{"thinking with a limit", chatBody(`,"thinking":{"type":"enabled","budget_tokens":3000}`), chatBody(`,"reasoning":{"max_tokens":3000}`)},
		{
			"marks of what to cache",
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]},{"role":"user","content":"hi","cache_control":{"type":"ephemeral"}},
				{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}],
				"tools":[` + strings.TrimSuffix(aTool, "}") + `,"cache_control":{"type":"ephemeral"}}]}`,
			`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]},{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},
				{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}],
				"tools":[` + strings.TrimSuffix(aTool, "}") + `,"cache_control":{"type":"ephemeral"}}]}`,
		},
		{
			"reasoning of its own", chatWith(`{"role":"assistant","content":"a","reasoning_content":"hm"}`), chatWith(`{"role":"assistant","content":"a","reasoning":"hm"}`),
		},
		{
			"OpenRouter's details", chatWith(`{"role":"assistant","content":"a","reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","format":"headway","data":"hw1:openai:s:0:{\"type\":\"reasoning.text\",\"signature\":\"s\"}"}]}`),
			chatWith(`{"role":"assistant","content":"a","reasoning_details":[{"type":"reasoning.text","signature":"s","text":"hm"}]}`),
		},
		{
			"a call's extra content", chatWith(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"hw1:openai:s:0:{\"google\":{\"thought_signature\":\"c2ln\"}}"}}}]}`),
			chatWith(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`),
		},
		{
			"reasoning of others is left out", chatWith(`{"role":"assistant","content":"a","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.encrypted","format":"headway","data":"hw1:anthropic:s:0:c2ln"}]}`),
			chatWith(`{"role":"assistant","content":"a"}`),
		},
	} {
		content, err := decodeChat(t, c.body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, dropped, err := buildChat(t, content, chatServer("openrouter"))
		if err != nil || len(dropped) > 0 {
			t.Errorf("%s: dropped %q, %v", c.name, dropped, err)
			continue
		}
		same(t, c.name, []byte(got), c.want)
	}
}

func TestChatDecodeMistakes(t *testing.T) {
	part := func(p string) string { return chatWith(`{"role":"user","content":[` + p + `]}`) }
	call := func(c string) string { return chatWith(`{"role":"assistant","tool_calls":[` + c + `]}`) }
	for _, c := range []struct{ name, body, param string }{
		{"a role that is none", chatWith(`{"role":"narrator","content":"x"}`), "messages[1].role"},
		{"a data URL without base64", part(`{"type":"image_url","image_url":{"url":"data:image/png,xx"}}`), "messages[1].content[0].image_url.url"},
		{"a data URL without a type", part(`{"type":"image_url","image_url":{"url":"data:;base64,xx"}}`), "messages[1].content[0].image_url.url"},
		{"a data URL without data", part(`{"type":"image_url","image_url":"DATA:image/png;base64,"}`), "messages[1].content[0].image_url"},
		{"no address", part(`{"type":"text","text":"x"},{"type":"image_url","image_url":{}}`), "messages[1].content[1].image_url.url"},
		{"no image", part(`{"type":"image_url"}`), "messages[1].content[0].image_url"},
		{"a file at OpenAI", part(`{"type":"file","file":{"file_id":"file-1"}}`), "messages[1].content[0].file.file_id"},
		{"no file", part(`{"type":"file","file":{}}`), "messages[1].content[0].file.file_data"},
		{"a sound without its format", part(`{"type":"input_audio","input_audio":{"data":"xx"}}`), "messages[1].content[0].input_audio.format"},
		{"a part that is not known", part(`{"type":"video_url","video_url":{"url":"x"}}`), "messages[1].content[0]"},
		{"an answer in sound", chatWith(`{"role":"assistant","audio":{"id":"a"}}`), "messages[1].audio"},
		{"a call without an id", call(`{"type":"function","function":{"name":"f"}}`), "messages[1].tool_calls[0].id"},
		{"a call without a name", call(`{"id":"c","type":"function","function":{"arguments":"{}"}}`), "messages[1].tool_calls[0].function.name"},
		{"a custom call", call(`{"id":"c","type":"custom","custom":{}}`), "messages[1].tool_calls[0].type"},
		{"a result of no call", chatWith(`{"role":"tool","content":"x"}`), "messages[1].tool_call_id"},
		{"a tool without a name", chatBody(`,"tools":[{"type":"function","function":{}}]`), "tools[0].function.name"},
		{"a tool without a function", chatBody(`,"tools":[{"type":"function"}]`), "tools[0].function.name"},
		{"a tool of no type", chatBody(`,"tools":[{}]`), "tools[0].type"},
		{"parameters that are a list", chatBody(`,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`), "tools[0].function.parameters"},
		{"a choice that is none", chatBody(`,"tool_choice":"maybe"`), "tool_choice"},
		{"a choice of no name", chatBody(`,"tool_choice":{"type":"function"}`), "tool_choice.function.name"},
		{"allowed tools of no mode", chatBody(`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[]}}`), "tool_choice.allowed_tools.mode"},
		{"a schema that is none", chatBody(`,"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`), "response_format.json_schema.schema"},
		{"an effort that is none", chatBody(`,"reasoning_effort":"most"`), "reasoning_effort"},
		{"a seed that is a word", chatBody(`,"seed":"7"`), "seed"},
		{"a user that is a number", chatBody(`,"user":7`), "user"},
		{"parallel calls by a word", chatBody(`,"parallel_tool_calls":"no"`), "parallel_tool_calls"},
	} {
		_, err := decodeChat(t, c.body)
		mistake(t, c.name, err, c.param)
	}
	for _, path := range []string{completionsPath, embeddingsPath} {
		job, err := adapters.Chat{}.Parse(core.RequestHead{Path: path}, []byte(`{"model":"m","prompt":"x","input":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = adapters.Chat{}.Decode(job)
		mistake(t, path, err, string(job.Operation))
	}
}

// TestChatOthers: fields of chat alone are refused or dropped by their names.
func TestChatOthers(t *testing.T) {
	c, err := decodeChat(t, `{"model":"m","messages":[{"role":"user","name":"ann","content":[{"type":"text","text":"hi","vendor":1}]},{"role":"assistant","content":"x","annotations":[],"mood":"y"}],
		"metadata":{"a":"b"},"store":true,"service_tier":"flex","prediction":{"type":"content","content":"x"},"web_search_options":{"a":1},"prompt_cache_key":"k","verbosity":"low","vendor":{},"vendor2":1,
		"tools":[{"type":"web_search"},`+aTool+`],"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{}}},"safety_identifier":"s","stream":true,"stream_options":{"include_usage":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	if string(c.User) != `"s"` || c.Fields[core.AskUser] != "safety_identifier" || len(c.Tools) != 1 || c.Tools[0].At != "tools[1]" {
		t.Errorf("user %s of %s, tools %+v", c.User, c.Fields[core.AskUser], c.Tools)
	}
	_, dropped, err := buildChat(t, c, chatServer(""))
	want := []string{
		"messages[].content[].vendor", "messages[].name", "messages[].mood", "metadata", "store", "service_tier", "prediction", "web_search_options", "prompt_cache_key", "verbosity", "vendor2",
		"tools[0]", "response_format.json_schema.description",
	}
	if err != nil || !slices.Equal(dropped, want) {
		t.Errorf("dropped %q, want %q (%v)", dropped, want, err)
	}
	for field, rest := range map[string]string{
		"logit_bias": `"logit_bias":{"1":5}`, "modalities": `"modalities":["text","audio"],"audio":{"voice":"x"}`, "tools[0]": `"tools":[{"type":"custom","custom":{"name":"x"}}]`,
		"tool_choice.type": `"tool_choice":{"type":"custom","custom":{"name":"x"}}`, "response_format.type": `"response_format":{"type":"grammar","grammar":"x"}`,
		"logprobs": `"logprobs":true,"top_logprobs":3`, "guided_regex": `"guided_regex":"a+"`, "suffix": `"suffix":"x"`,
	} {
		c, err := decodeChat(t, chatBody(","+rest))
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		_, _, err = buildChat(t, c, chatServer(""))
		var e *core.Error
		if !errors.As(err, &e) || e.Param != field || e.Kind != core.Invalid || e.Code != "unsupported_field" {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestChatContent holds what is not seen in a request written anew.
func TestChatContent(t *testing.T) {
	c, err := decodeChat(t, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,QUJD","detail":"high"}}]},
		{"role":"assistant","content":"a","refusal":"no"},{"role":"tool","tool_call_id":"c","name":"f","content":"r"}],
		"max_tokens":5,"max_completion_tokens":5,"n":2,"stop":["a","b"],"logprobs":true,"top_logprobs":2,"reasoning_effort":"max","include_reasoning":false,"parallel_tool_calls":false}`)
	if err != nil {
		t.Fatal(err)
	}
	want := &core.Content{
		Format: core.FormatOpenAI, Choices: 2, MaxOutput: core.Some[int64](5), OneTool: true, Stop: []core.Quoted{core.Quoted(`"a"`), core.Quoted(`"b"`)}, TopLogprobs: core.Some[int64](2),
		Reasoning: core.ReasoningWish{Effort: "xhigh", Visible: core.Some(false)},
		Messages: []core.Message{
			{Role: core.RoleSystem, At: "messages[0]", Parts: []core.Part{{Text: core.Quoted(`"s"`)}}},
			{Role: core.RoleUser, At: "messages[1]", Parts: []core.Part{{Kind: core.PartImage, Media: core.Media{Type: "image/jpeg", Base64: []byte("QUJD"), Detail: "high"}}}},
			{Role: core.RoleAssistant, At: "messages[2]", Parts: []core.Part{{Text: core.Quoted(`"a"`)}, {Kind: core.PartRefusal, Text: core.Quoted(`"no"`)}}},
			{Role: core.RoleUser, At: "messages[3]", Parts: []core.Part{{Kind: core.PartToolResult, ID: core.Quoted(`"c"`), Name: core.Quoted(`"f"`), Parts: []core.Part{{Text: core.Quoted(`"r"`)}}}}},
		},
		Fields: map[core.Ask]string{
			core.AskChoices: "n", core.AskMaxOutput: "max_completion_tokens", core.AskStop: "stop", core.AskLogprobs: "logprobs", core.AskReasoning: "include_reasoning", core.AskOneTool: "parallel_tool_calls",
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("decoded\n%+v\nwant\n%+v", c, want)
	}
}

package adapters_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// messagesContent parses and decodes a request of Anthropic's format.
func messagesContent(t testing.TB, body string) (*core.Content, error) {
	t.Helper()
	job, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: messagesPath}, []byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return adapters.Anthropic{}.Decode(job)
}

// partWords is a part in words that a test can compare.
func partWords(p *core.Part) string {
	var b strings.Builder
	put := func(name string, v []byte) {
		if v != nil {
			fmt.Fprintf(&b, " %s=%s", name, v)
		}
	}
	b.WriteString([...]string{"text", "image", "document", "audio", "call", "result", "reasoning", "refusal"}[p.Kind])
	put("id", p.ID)
	put("name", p.Name)
	put("", p.Text)
	put("arguments", p.Arguments)
	if m := p.Media; m.Type != "" {
		b.WriteString(" " + m.Type)
	}
	put("base64", p.Media.Base64)
	put("url", p.Media.URL)
	if s := p.Seal; s.Origin != "" {
		fmt.Fprintf(&b, " seal=%s", s.Text)
		if s.Encrypted {
			b.WriteString(" encrypted")
		}
		put("of", s.ID)
		b.WriteString(" by " + string(s.Origin))
	}
	if p.Failed {
		b.WriteString(" failed")
	}
	if p.Cache != "" {
		b.WriteString(" cache=" + p.Cache)
	}
	for i := range p.Parts {
		b.WriteString(" [" + partWords(&p.Parts[i]) + "]")
	}
	return b.String()
}

// turnWords are the turns of a content, one part a line.
func turnWords(c *core.Content) string {
	var b strings.Builder
	for _, m := range c.Messages {
		for i := range m.Parts {
			fmt.Fprintf(&b, "%s %s: %s\n", m.At, [...]string{"system", "user", "assistant"}[m.Role], partWords(&m.Parts[i]))
		}
	}
	return b.String()
}

func TestAnthropicDecodesTurns(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"texts": {`"system":"be\nkind","messages":[{"role":"user","content":"a \u00e9"},{"content":[{"text":"b","type":"text"}],"role":"assistant"}]`, `
system system: text ="be\nkind"
messages[0] user: text ="a \u00e9"
messages[1] assistant: text ="b"
`},
		"system behind the turns, blocks, between turns": {`"messages":[{"role":"user","content":"a"},{"role":"system","content":"later"},{"role":"user","content":"b"}],
			"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"one","cache_control":{"type":"ephemeral"}},{"type":"text","text":"two","cache_control":{"type":"ephemeral","ttl":"1h"}}]`, `
system system: text ="one" cache=5m
system system: text ="two" cache=1h
messages[0] user: text ="a"
messages[1] system: text ="later"
messages[2] user: text ="b"
`},
		"all of the prompt is to be cached": {`"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"a"}]`, `
messages[0] user: text ="a" cache=5m
`},
		"media": {`"messages":[{"role":"user","content":[
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}},
			{"source":{"url":"https:\/\/a\/b.png","type":"url"},"type":"image"},
			{"type":"document","title":"t","context":"c","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"},"cache_control":{"type":"ephemeral"}},
			{"type":"document","source":{"type":"url","url":"https://a/b.pdf"}},
			{"type":"document","title":"t","context":"c","source":{"type":"text","media_type":"text/plain","data":"all\n"}},
			{"type":"document","title":"t","source":{"type":"content","content":[{"type":"text","text":"one"},{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lG"}}]}},
			{"type":"search_result","source":"https://s","title":"found","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}]`, `
messages[0] user: image image/png base64=iVBO
messages[0] user: image url="https:\/\/a\/b.png"
messages[0] user: text ="c"
messages[0] user: document name="t" application/pdf base64=JVBE cache=5m
messages[0] user: document application/pdf url="https://a/b.pdf"
messages[0] user: text ="t\n\nc\n\nall\n"
messages[0] user: text ="t"
messages[0] user: text ="one"
messages[0] user: image image/gif base64=R0lG
messages[0] user: text ="found\n\nhttps://s\n\nx\n\ny"
`},
		"tools and thinking": {`"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[
			{"type":"thinking","thinking":"hm","signature":"sig="},{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"thinking","thinking":"","signature":"hw1:openai-responses:e:4:rs_1enc"},
			{"type":"thinking","thinking":"unsigned","signature":""},
			{"type":"tool_use","id":"t1","name":"f","input":{"a":[1,{"b":null}]},"cache_control":null},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","is_error":true},{"type":"tool_result","tool_use_id":"t1","content":"up"},
			{"type":"tool_result","tool_use_id":"t3","cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://i"}},{"type":"tool_reference","tool_name":"h"}]},{"type":"text","text":"and?"}]}]`, `
messages[0] user: text ="q"
messages[1] assistant: reasoning ="hm" seal="sig=" by anthropic
messages[1] assistant: reasoning seal="ZGF0YQ==" encrypted by anthropic
messages[1] assistant: reasoning ="" seal="enc" encrypted of="rs_1" by openai-responses
messages[1] assistant: reasoning ="unsigned"
messages[1] assistant: call id="t1" name="f" arguments={"a":[1,{"b":null}]}
messages[1] assistant: call id="t2" name="g" arguments={}
messages[2] user: result id="t2" failed
messages[2] user: result id="t1" [text ="up"]
messages[2] user: result id="t3" cache=5m [text ="a"] [image url="https://i"] [text ="h"]
messages[2] user: text ="and?"
`},
		"what Anthropic's own tools did": {`"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}},
			{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"t","url":"u","encrypted_content":"e"}]}]},
			{"role":"assistant","content":[{"type":"mcp_tool_result","tool_use_id":"m1","is_error":false,"content":[{"type":"text","text":"said"}]},{"type":"code_execution_tool_result","content":{"type":"code_execution_result","stdout":"1"}},
			{"type":"compaction","content":"so far"},{"type":"text","text":"a"}]},{"role":"user","content":"b"}]`, `
messages[0] user: text ="q"
messages[2] assistant: text ="said"
messages[2] assistant: text ="so far"
messages[2] assistant: text ="a"
messages[3] user: text ="b"
`},
	} {
		content, err := messagesContent(t, `{"model":"m","max_tokens":9,`+c.body+`}`)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := turnWords(content); got != strings.TrimPrefix(c.want, "\n") {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

// askWords are the other fields of a content.
func askWords(c *core.Content) string {
	var b strings.Builder
	put := func(name string, v any, there bool) {
		if there {
			fmt.Fprintf(&b, "%s=%s ", name, v)
		}
	}
	put("max", fmt.Sprint(c.MaxOutput.V), c.MaxOutput.OK)
	put("temperature", c.Temperature, c.Temperature != nil)
	put("top_p", c.TopP, c.TopP != nil)
	put("top_k", c.TopK, c.TopK != nil)
	put("stop", bytes.Join(quotedBytes(c.Stop), []byte("|")), c.Stop != nil)
	for _, tool := range c.Tools {
		fmt.Fprintf(&b, "tool=%s,%s,%s,%s ", tool.Name, tool.Description, tool.Schema, tool.At)
		put("strict", fmt.Sprint(tool.Strict.V), tool.Strict.OK)
		put("cache", tool.Cache, tool.Cache != "")
	}
	put("choice", fmt.Sprint(c.ToolChoice.Mode), c.ToolChoice.Mode != 0)
	put("of", bytes.Join(quotedBytes(c.ToolChoice.Names), []byte("|")), c.ToolChoice.Names != nil)
	put("one", "tool", c.OneTool)
	put("json", c.Answer.Schema, c.Answer.JSON)
	put("effort", c.Reasoning.Effort, c.Reasoning.Effort != "")
	put("budget", fmt.Sprint(c.Reasoning.Budget.V), c.Reasoning.Budget.OK)
	put("visible", fmt.Sprint(c.Reasoning.Visible.V), c.Reasoning.Visible.OK)
	put("user", c.User, c.User != nil)
	for _, ask := range slices.Sorted(maps.Keys(c.Fields)) {
		if ask != core.AskMaxOutput {
			fmt.Fprintf(&b, "%s:%s ", ask, c.Fields[ask])
		}
	}
	for _, o := range c.Others {
		if o.Refused {
			b.WriteString("!")
		}
		b.WriteString("-" + o.Name + " ")
	}
	return strings.TrimSpace(b.String())
}

func quotedBytes(list []core.Quoted) (out [][]byte) {
	for _, q := range list {
		out = append(out, q)
	}
	return out
}

func TestAnthropicDecodesFields(t *testing.T) {
	for _, c := range []struct{ fields, want string }{
		{`"stream":false`, `max=9`},
		{`"temperature":0.50,"top_p":1e-1,"top_k":7,"stop_sequences":["a","\n"]`, `max=9 temperature=0.50 top_p=1e-1 top_k=7 stop="a"|"\n" stop:stop_sequences temperature:temperature top_k:top_k top_p:top_p`},
		{`"temperature":null,"tools":[],"stop_sequences":[],"service_tier":"auto","metadata":{},"mcp_servers":[],"speed":null`, `max=9`},
		{`"metadata":{"user_id":"{\"device\":1}","trace":"x"},"service_tier":"standard_only","context_management":{"edits":[]},"container":"c","betas":["x"],"diagnostics":{}`,
			`max=9 user="{\"device\":1}" user:metadata.user_id -metadata.trace -service_tier -context_management -container -betas -diagnostics`},
		{`"mcp_servers":[{"url":"x"}],"inference_geo":"us"`, `max=9 !-mcp_servers !-inference_geo`},
		{`"thinking":{"type":"enabled","budget_tokens":2048}`, `max=9 budget=2048 visible=true reasoning:thinking`},
		{`"thinking":{"type":"enabled","budget_tokens":2048,"display":"omitted"}`, `max=9 budget=2048 visible=false reasoning:thinking`},
		{`"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`, `max=9 effort=none reasoning:thinking`},
		{`"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"medium","task_budget":{"type":"tokens"}}`, `max=9 effort=medium visible=false reasoning:thinking -output_config.task_budget`},
		{`"output_config":{"effort":"max","format":{"type":"json_schema","schema":{"type":"object"}}}`, `max=9 json={"type":"object"} effort=xhigh answer_form:output_config.format reasoning:output_config.effort`},
		{`"output_format":{"type":"json_schema","schema":{"type":"array"}},"output_config":{"effort":"utmost"}`, `max=9 json={"type":"array"} answer_form:output_format -output_config.effort`},
		{`"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"defer_loading":true,"cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"custom","name":"g","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`,
			`max=9 tool="f","d",{"type":"object"},tools[0] strict=true cache=1h tool="g",,{},tools[1] choice=1 one=tool cache_hint:cache_control one_tool:tool_choice.disable_parallel_tool_use tool_choice:tool_choice tools:tools -tools[].defer_loading -tools[2]`},
		{`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"}`, `max=9 tool="f",,{},tools[0] choice=3 tool_choice:tool_choice tools:tools`},
		{`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}`, `max=9 tool="f",,{},tools[0] choice=4 of="f" tool_choice:tool_choice tools:tools`},
		{`"tool_choice":{"type":"none"}`, `max=9 choice=2 tool_choice:tool_choice`},
		{`"tools":[{"type":"computer_20251124","name":"computer"}]`, `max=9 !-tools[0].type`},
	} {
		content, err := messagesContent(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],`+c.fields+`}`)
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
		} else if got := askWords(content); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.fields, got, c.want)
		}
	}
	content, err := messagesContent(t, `{"model":"m","max_tokens":0,"stream":true,"messages":[{"role":"user","content":"a"}]}`)
	if err != nil || askWords(content) != "!-max_tokens" || !content.Streamed || content.Format != core.FormatAnthropic {
		t.Errorf("a call that only fills the cache: %+v %v", content, err)
	}
}

func TestAnthropicDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ fields, param string }{
		{`"messages":[{"role":"tool","content":"a"}]`, "messages[0].role"},
		{`"messages":[{"role":"user","content":[{"type":"text"}]}]`, "messages[0].content[0].text"},
		{`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"file","file_id":"x"}}]}]`, "messages[0].content[1].source"},
		{`"messages":[{"role":"user","content":[{"type":"image"}]}]`, "messages[0].content[0].source.type"},
		{`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":7}}]}]`, "messages[0].content[0].source.data"},
		{`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}]`, "messages[0].content[0].source.url"},
		{`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]}]`, "messages[0].content[0].input"},
		{`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","input":{}}]}]`, "messages[0].content[0]"},
		{`"messages":[{"role":"user","content":[{"type":"tool_result","content":"a"}]}]`, "messages[0].content[0].tool_use_id"},
		{`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"file"}}]}]}]`, "messages[0].content[0].content[0].source"},
		{`"messages":[{"role":"user","content":"a"}],"stop_sequences":[1]`, "stop_sequences"},
		{`"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"some"}`, "tool_choice.type"},
		{`"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"tool"}`, "tool_choice.name"},
		{`"messages":[{"role":"user","content":"a"}],"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"}`, "tool_choice"},
		{`"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`, "tool_choice"},
	} {
		_, err := messagesContent(t, `{"model":"m","max_tokens":9,`+c.fields+`}`)
		mistake(t, c.fields, err, c.param)
	}
}

// FuzzDecodeAnthropic holds what is true of every request that Parse takes: it is
// decoded or refused for the caller's fault, and what is decoded is written anew
// as JSON.
func FuzzDecodeAnthropic(f *testing.F) {
	seed(f, "*/*messages*.request.json")
	f.Add([]byte(`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}},{"type":"document","title":"t","source":{"type":"text","data":"x"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"\u00e9","signature":"hw1:google:s:0:x"},{"type":"tool_use","id":"a.b","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a.b","is_error":true,"content":[{"type":"text","text":"\n"}]}]},{"role":"system","content":"later"}],"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"a":{"minimum":1}}}}],"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"enabled","budget_tokens":3},"output_config":{"format":{"schema":{"oneOf":[{}]}}},"stop_sequences":["x"],"metadata":{"user_id":"u"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		job, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: messagesPath}, body)
		if err != nil {
			return
		}
		c, err := adapters.Anthropic{}.Decode(job)
		if err == nil {
			for _, model := range []string{"m", "claude-sonnet-4-5", "claude-opus-4-7"} {
				req, _, wrong := adapters.Anthropic{}.Build(t.Context(), job, c, core.RequestHead{}, offerOf(core.FormatAnthropic, model))
				if err = wrong; err != nil {
					break
				}
				checkSent(t, req)
			}
		}
		var e *core.Error
		if err != nil && (!errors.As(err, &e) || e.Kind != core.Invalid) {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

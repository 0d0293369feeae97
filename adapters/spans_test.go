package adapters_test

import (
	"slices"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// texts gives what spans of a job's body hold.
func texts(job *core.Job, spans []core.Span) (list []string) {
	for _, s := range spans {
		list = append(list, string(job.Body[s.From:s.To]))
	}
	return list
}

// ordered checks that the texts of a job stand in its body one behind the other.
func ordered(t *testing.T, job *core.Job) {
	t.Helper()
	for _, list := range [][]core.Span{job.Lead, job.Turns} {
		at := 0
		for _, s := range list {
			if s.From < at || s.To <= s.From || s.To > len(job.Body) {
				t.Fatalf("%q: text at %v behind byte %d", job.Body, s, at)
			}
			at = s.To
		}
	}
}

func parsed(t *testing.T, a core.Adapter, path, body string) *core.Job {
	t.Helper()
	job, err := a.Parse(core.RequestHead{Path: path}, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	ordered(t, job)
	return job
}

func TestTextsOfAPrompt(t *testing.T) {
	const picture = `data:image/png;base64,QUJD`
	for _, c := range []struct {
		name        string
		a           core.Adapter
		path, body  string
		lead, turns []string
	}{
		{
			"chat", adapters.Chat{}, chatPath,
			`{"model":"m","stop":["not this"],"messages":[{"role":"system","content":"be \"brief\""},{"role":"user","name":"ann","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"` + picture + `"}},
			{"type":"text","text":""},{"type":"text","text":"here"}]},{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
			{"id":"c2","type":"custom","custom":{"input":"x","name":"g"}},7]},{"role":"assistant","function_call":{"name":"h","arguments":"{}"}},{"role":"tool","tool_call_id":"c1","content":"42"}],
			"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom"}],"response_format":{"type":"json_schema","json_schema":{}},"user":"u"}`,
			[]string{`{"type":"function","function":{"name":"f"}}`, `{"type":"custom"}`, `"type":"json_schema","json_schema":{}}`},
			[]string{`be \"brief\"`, "ann", "look", "here", "hm", "f", `{\"a\":1}`, "x", "g", "h", "{}", "42"},
		},
		{"a prompt", adapters.Chat{}, completionsPath, `{"model":"m","prompt":["one","","two"]}`, nil, []string{"one", "two"}},
		{"a prompt of tokens", adapters.Chat{}, completionsPath, `{"model":"m","prompt":[1,2]}`, nil, nil},
		{"an input", adapters.Chat{}, embeddingsPath, `{"model":"m","input":"one"}`, nil, []string{"one"}},
		{
			"Responses", adapters.Responses{}, responsesPath,
			`{"model":"m","input":[{"role":"developer","content":"sys"},{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"` + picture + `"}]},
			{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}","status":"completed"},
			{"type":"function_call_output","call_id":"c","output":"42"}],"instructions":"be brief","tools":[{"type":"web_search"}],"text":{"format":{"type":"json_schema","schema":{}}},"metadata":{"a":"b"}}`,
			[]string{"be brief", `{"type":"web_search"}`, `"type":"json_schema","schema":{}}`},
			[]string{"sys", "look", "hm", "f", "{}", "42"},
		},
		{
			"Anthropic", adapters.Anthropic{}, messagesPath,
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},
			{"type":"document","title":"t","source":{"data":"plain","media_type":"text/plain","type":"text"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"zz"},
			{"type":"tool_use","id":"tu","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"tu","content":[{"type":"text","text":"42"},{"type":"image","source":{"type":"base64","data":"QUJD"}}]}]}],
			"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"sys"}],"tools":[{"name":"f"}],"output_config":{"format":{"schema":{}}},"metadata":{"user_id":"u"}}`,
			[]string{"sys", `{"name":"f"}`, `{"schema":{}}`},
			[]string{"look", "t", "plain", "hm", "f", `{"a":1}`, "42"},
		},
		{
			"Google", adapters.Google{}, generate,
			`{"contents":[{"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]},{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"zz"},{"functionCall":{"name":"f","args":{}}}]},
			{"role":"user","parts":{"functionResponse":{"name":"f","response":{"a":1},"parts":[{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]}}}],"systemInstruction":{"parts":[{"text":"sys"}]},
			"tools":[{"functionDeclarations":[]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}}}`,
			[]string{"sys", `{"functionDeclarations":[]}`, `{"type":"OBJECT"}`},
			[]string{"look", "hm", `{"name":"f","args":{}}`, "f", `{"a":1}`},
		},
	} {
		job := parsed(t, c.a, c.path, c.body)
		if lead, turns := texts(job, job.Lead), texts(job, job.Turns); !slices.Equal(lead, c.lead) || !slices.Equal(turns, c.turns) {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, lead, turns, c.lead, c.turns)
		}
	}
}

// A conversation one turn later begins with the bytes that it had, though the
// client has moved its markers and says a text in another of the format's ways.
func TestTextsBeginTheNextTurns(t *testing.T) {
	const mark = `"cache_control":{"type":"ephemeral"}`
	for _, c := range []struct {
		name          string
		a             core.Adapter
		path          string
		before, after string
	}{
		{
			"chat", adapters.Chat{}, chatPath,
			`{"model":"m","tools":[{"type":"function","function":{"name":"f"},` + mark + `}],"messages":[{"role":"system","content":[{"type":"text","text":"sys",` + mark + `}]},{"role":"user","content":[{"type":"text","text":"one",` + mark + `}]}]}`,
			`{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"system","content":"sys"},{"role":"user","content":"one"},
			{"role":"assistant","content":"two","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"three",` + mark + `}]}]}`,
		},
		{
			"Responses", adapters.Responses{}, responsesPath,
			`{"model":"m","instructions":"sys","tools":[{` + mark + `,"type":"function","name":"f"}],"input":"one"}`,
			`{"model":"m","instructions":"sys","tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":[{"type":"input_text","text":"one","prompt_cache_breakpoint":{"mode":"explicit"}}]},
			{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"two","annotations":[]}]},{"role":"user","content":"three"}]}`,
		},
		{
			"Anthropic", adapters.Anthropic{}, messagesPath,
			`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"sys",` + mark + `}],"tools":[{"name":"f","input_schema":{},` + mark + `,"strict":true},{` + mark + `}],
			"messages":[{"role":"user","content":[{"type":"text","text":"one",` + mark + `}]}]}`,
			`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: cch=2"},{"type":"text","text":"sys"}],"tools":[{"name":"f","input_schema":{},"strict":true},{}],
			"messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"two"},{"type":"tool_use","id":"tu","name":"f","input":{}}]},{"role":"user","content":[{` + mark + `,"type":"tool_result","tool_use_id":"tu","content":"three"}]}]}`,
		},
		{
			"Google", adapters.Google{}, generate,
			`{"systemInstruction":{"parts":[{"text":"sys"}]},"tools":[{"functionDeclarations":[]}],"contents":[{"role":"user","parts":{"text":"one"}}]}`,
			`{"systemInstruction":{"parts":{"text":"sys"}},"tools":[{"functionDeclarations":[]}],"contents":[{"role":"user","parts":[{"text":"one"}]},{"role":"model","parts":[{"text":"two"}]},{"role":"user","parts":[{"text":"three"}]}]}`,
		},
	} {
		before, after := parsed(t, c.a, c.path, c.before), parsed(t, c.a, c.path, c.after)
		if a, b := strings.Join(texts(before, before.Lead), ""), strings.Join(texts(after, after.Lead), ""); a != b {
			t.Errorf("%s: led by %s, then by %s", c.name, a, b)
		}
		a, b := texts(before, before.Turns), texts(after, after.Turns)
		if len(a) == 0 || len(b) <= len(a) || !slices.Equal(a, b[:len(a)]) || b[len(b)-1] != "three" {
			t.Errorf("%s: %q, then %q", c.name, a, b)
		}
	}
}

// However many texts a body has, what is noted of them is bounded.
func TestTextsAreBounded(t *testing.T) {
	job := parsed(t, adapters.Chat{}, embeddingsPath, `{"model":"m","input":["a"`+strings.Repeat(`,"a"`, 100_000)+`]}`)
	if n := len(job.Turns); n != 65_536 || cap(job.Turns) > 2*n || job.PromptBytes != 100_001 {
		t.Errorf("%d texts, room for %d, %d bytes", n, cap(job.Turns), job.PromptBytes)
	}
}

// manyTurns is a request of an agent: 60 turns, 240 KB.
func manyTurns(turn string) string {
	return strings.TrimSuffix(strings.Repeat(strings.ReplaceAll(turn, "WORDS", strings.Repeat("lorem ipsum ", 80))+",", 60), ",")
}

func BenchmarkParseTurns(b *testing.B) {
	for _, c := range []struct {
		name, path, body string
		a                core.Adapter
	}{
		{"chat", chatPath, `{"model":"m","messages":[` + manyTurns(`{"role":"user","content":"WORDS"},{"role":"assistant","content":[{"type":"text","text":"WORDS"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"WORDS\"}"}}]},{"role":"tool","tool_call_id":"c","content":"WORDS"}`) + `]}`, adapters.Chat{}},
		{"Responses", responsesPath, `{"model":"m","input":[` + manyTurns(`{"role":"user","content":"WORDS"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"WORDS"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":\"WORDS\"}"},{"type":"function_call_output","call_id":"c","output":"WORDS"}`) + `]}`, adapters.Responses{}},
		{"Anthropic", messagesPath, `{"model":"m","max_tokens":1,"messages":[` + manyTurns(`{"role":"user","content":"WORDS"},{"role":"assistant","content":[{"type":"text","text":"WORDS"},{"type":"tool_use","id":"c","name":"f","input":{"a":"WORDS"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"WORDS"}]}`) + `]}`, adapters.Anthropic{}},
		{"Google", generate, `{"contents":[` + manyTurns(`{"role":"user","parts":[{"text":"WORDS"}]},{"role":"model","parts":[{"text":"WORDS"},{"functionCall":{"name":"f","args":{"a":"WORDS"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a":"WORDS"}}}]}`) + `]}`, adapters.Google{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			body := []byte(c.body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.a.Parse(core.RequestHead{Path: c.path}, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package adapters_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
	"headway/core/relay"
)

const messagesPath = "/v1/messages"

// cut gives the frames of a whole stream, each with bytes of its own.
func cut(t testing.TB, kind core.Splitting, body []byte) []core.Frame {
	t.Helper()
	s := relay.NewSplitter(kind, 1<<24)
	defer s.Release()
	var frames []core.Frame
	take := func(f core.Frame) {
		f.Raw, f.Data = append([]byte(nil), f.Raw...), append([]byte(nil), f.Data...)
		frames = append(frames, f)
	}
	var f core.Frame
	for len(body) > 0 {
		room, err := s.Room()
		if err != nil {
			t.Fatal(err)
		}
		n := copy(room, body)
		s.Filled(n)
		for body = body[n:]; s.Next(&f); {
			take(f)
		}
	}
	if s.Rest(&f) {
		take(f)
	}
	return frames
}

// readAll gives a stream to a reader and returns the marks of its events.
func readAll(t testing.TB, r core.Reader, body string) (marks []core.Mark) {
	t.Helper()
	for _, f := range cut(t, r.Split(), []byte(body)) {
		if m := r.Read(&f); len(f.Data) > 0 {
			marks = append(marks, m)
		}
	}
	return marks
}

func recorded(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("../testdata/wire/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// mistake checks that err refuses the field.
func mistake(t *testing.T, name string, err error, param string) {
	t.Helper()
	var e *core.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%s: not refused: %v", name, err)
	case e.Kind != core.Invalid && e.Kind != core.NotFound:
		t.Errorf("%s: kind %v", name, e.Kind)
	case e.Param != param || !strings.HasPrefix(e.Msg, param):
		t.Errorf("%s: names %q in %q, want %q", name, e.Param, e.Msg, param)
	}
}

func TestAnthropicParseMistakes(t *testing.T) {
	const rest = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ name, body, param string }{
		{"empty", ``, "body"},
		{"broken", `{"model":"m",`, ""},
		{"data behind", `{"model":"m",` + rest + `}{"model":"x"}`, ""},
		{"bad utf-8", "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", ""},
		{"half a character", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"\ud83d"}]}`, ""},
		{"too deep", `{"model":"m","metadata":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,` + rest + `}`, "metadata"},
		{"deep in an unknown field", `{"model":"m","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,` + rest + `}`, ""},
		{"a list", `[1]`, "body"},
		{"null", `null`, "body"},
		{"no model", `{` + rest + `}`, "model"},
		{"model null", `{"model":null,` + rest + `}`, "model"},
		{"model empty", `{"model":"",` + rest + `}`, "model"},
		{"model a number", `{"model":7,` + rest + `}`, "model"},
		{"model endless", `{"model":"` + strings.Repeat("m", 300) + `",` + rest + `}`, "model"},
		{"model twice", `{"model":"m","model":"x",` + rest + `}`, "model"},
		{"model twice, escaped", `{"model":"m","mod\u0065l":"x",` + rest + `}`, "model"},
		{"model in capitals", `{"model":"m","Model":"x",` + rest + `}`, "model"},
		{"stream twice", `{"stream":false,"model":"m",` + rest + `,"stream":true}`, "stream"},
		{"stream by Go's folding", `{"model":"m","` + "\u017f" + `tream":true,` + rest + `}`, "stream"},
		{"stream a string", `{"model":"m","stream":"true",` + rest + `}`, "stream"},
		{"max_tokens twice", `{"model":"m","max_tokens":1,` + rest + `}`, "max_tokens"},
		{"no max_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		{"max_tokens null", `{"model":"m","max_tokens":null,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		{"max_tokens negative", `{"model":"m","max_tokens":-1,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		{"max_tokens broken", `{"model":"m","max_tokens":1.5,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		{"max_tokens text", `{"model":"m","max_tokens":"9","messages":[{"role":"user","content":"hi"}]}`, "max_tokens"},
		{"no messages", `{"model":"m","max_tokens":9}`, "messages"},
		{"messages an object", `{"model":"m","max_tokens":9,"messages":{}}`, "messages"},
		{"messages empty", `{"model":"m","max_tokens":9,"messages":[]}`, "messages"},
		{"a message of text", `{"model":"m","max_tokens":9,"messages":["hi"]}`, "messages[0]"},
		{"no role", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"content":"hi"}]}`, "messages[1].role"},
		{"role a number", `{"model":"m","max_tokens":9,"messages":[{"role":1,"content":"hi"}]}`, "messages[0].role"},
		{"no content", `{"model":"m","max_tokens":9,"messages":[{"role":"user"}]}`, "messages[0].content"},
		{"content a number", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":3}]}`, "messages[0].content"},
		{"a block of text", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":["hi"]}]}`, "messages[0].content[0]"},
		{"a block without type", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"hi"}]}]}`, "messages[0].content[1].type"},
		{"system a number", `{"model":"m","system":1,` + rest + `}`, "system"},
		{"a system block without type", `{"model":"m","system":[{}],` + rest + `}`, "system[0].type"},
		{"tools an object", `{"model":"m","tools":{},` + rest + `}`, "tools"},
		{"a tool of text", `{"model":"m","tools":[{},"f"],` + rest + `}`, "tools[1]"},
		{"temperature text", `{"model":"m","temperature":"hot",` + rest + `}`, "temperature"},
		{"stop_sequences text", `{"model":"m","stop_sequences":"x",` + rest + `}`, "stop_sequences"},
		{"thinking text", `{"model":"m","thinking":"much",` + rest + `}`, "thinking"},
	} {
		_, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: messagesPath}, []byte(c.body))
		mistake(t, c.name, err, c.param)
	}
}

func TestAnthropicParseFacts(t *testing.T) {
	image := strings.Repeat("QUJD", 50_000)
	for _, c := range []struct {
		name, path, body string
		want             core.Job
		least, most      int // PromptBytes
	}{
		{"the least", messagesPath, `{"model":"m\u0031","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
			core.Job{Operation: core.OpGenerate, Model: "m1", MaxOutput: core.Some[int64](9)}, 5, 20},
		{"an agent's", messagesPath, `{"model":"m","max_tokens":32000,"stream":true,"thinking":{"type":"adaptive"},"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
			"tools":[{"name":"f","input_schema":{"type":"object"},"defer_loading":true}],"output_config":{"effort":"low"},"new_field":{"a":[1,null]},
			"messages":[{"role":"user","content":"a"},{"role":"system","content":"between turns"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"` + image + `"}]}]}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Streamed: true, MaxOutput: core.Some[int64](32000), Features: core.FeatureTools}, 80, 200},
		{"fills the cache", messagesPath, `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]}`,
			core.Job{Operation: core.OpGenerate, Model: "m", MaxOutput: core.Some[int64](0)}, 1, 10},
		{"media", messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[
			{"source":{"data":"` + image + `","media_type":"image/png","type":"base64"},"type":"image"},
			{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + strings.Repeat("word ", 1000) + `"}}]}]}`,
			core.Job{Operation: core.OpGenerate, Model: "m", MaxOutput: core.Some[int64](1), Features: core.FeatureImages | core.FeatureDocuments}, 11_000, 11_100},
		{"a schema", messagesPath, `{"model":"m","max_tokens":1,"output_config":{"format":{"type":"json_schema","schema":{}}},"messages":[{"role":"user","content":"x"}],"stream":null,"system":null,"tools":null}`,
			core.Job{Operation: core.OpGenerate, Model: "m", MaxOutput: core.Some[int64](1), Features: core.FeatureSchema}, 1, 60},
		{"counting", messagesPath + "/count_tokens", `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`,
			core.Job{Operation: core.OpCountTokens, Model: "m"}, 1, 10},
	} {
		body := []byte(c.body)
		got, err := adapters.Anthropic{}.Parse(core.RequestHead{Path: c.path}, body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.PromptBytes < c.least || got.PromptBytes > c.most {
			t.Errorf("%s: %d bytes of prompt, want %d to %d", c.name, got.PromptBytes, c.least, c.most)
		}
		if s := string(body[got.Edits.Model.From:got.Edits.Model.To]); !strings.HasPrefix(s, `"m`) {
			t.Errorf("%s: the model's span holds %s", c.name, s)
		}
		c.want.Format, c.want.AskedUsage, c.want.Body, c.want.PromptBytes, c.want.Edits = core.FormatAnthropic, true, body, got.PromptBytes, got.Edits
		c.want.Lead, c.want.Turns = got.Lead, got.Turns // spans_test.go
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v", c.name, *got)
		}
	}
}

func offerOf(format core.Format, upstream string) *core.Offer {
	return &core.Offer{
		ID: "p/m", Model: "m", UpstreamModel: upstream,
		Provider: &core.Provider{ID: "p", Format: format, BaseURL: "https://api.example", APIKey: core.NewSecret("sk-own")},
	}
}

func TestAnthropicBuild(t *testing.T) {
	head := core.RequestHead{
		Path:  messagesPath,
		Query: url.Values{"beta": {"true"}, "key": {"hw_caller"}},
		Header: http.Header{
			"Anthropic-Beta": {"a-1,b-2", "c-3"}, "Traceparent": {"00-1-2-01"}, "X-Api-Key": {"hw_caller"}, "Authorization": {"Bearer hw_caller"},
			"Cookie": {"s=1"}, "X-Stainless-Os": {"Linux"}, "User-Agent": {"claude-cli"},
		},
	}
	body := []byte(`{ "model" : "m", "max_tokens":1,"messages":[{"role":"user","content":"hi"}],"new":1e400 }`)
	job, err := adapters.Anthropic{}.Parse(head, body)
	if err != nil {
		t.Fatal(err)
	}
	offer := offerOf(core.FormatAnthropic, `cl"aude`)
	offer.Provider.Headers = map[string]core.Secret{"anthropic-beta": core.NewSecret("own")}
	req, _, err := adapters.Anthropic{}.Build(t.Context(), job, nil, head, offer)
	if err != nil {
		t.Fatal(err)
	}
	if got := req.Method + " " + req.URL.String(); got != "POST https://api.example/v1/messages?beta=true" {
		t.Errorf("goes to %s", got)
	}
	want := http.Header{
		"X-Api-Key": {"sk-own"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"own"}, "Traceparent": {"00-1-2-01"},
		"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"headway"},
	}
	if !reflect.DeepEqual(req.Header, want) {
		t.Errorf("headers %v", req.Header)
	}
	sent, _ := io.ReadAll(req.Body)
	if s := strings.Replace(string(body), `"m"`, `"cl\"aude"`, 1); string(sent) != s || req.ContentLength != int64(len(s)) {
		t.Errorf("sent %s (%d)", sent, req.ContentLength)
	}

	head.Header.Set("Anthropic-Version", "2024-01-01")
	offer = offerOf(core.FormatAnthropic, "m")
	job.Operation = core.OpCountTokens
	if req, _, err = (adapters.Anthropic{}).Build(t.Context(), job, nil, head, offer); err != nil {
		t.Fatal(err)
	}
	sent, _ = io.ReadAll(req.Body)
	if string(sent) != string(body) || req.URL.Path != "/v1/messages/count_tokens" || req.Header.Get("Anthropic-Version") != "2024-01-01" {
		t.Errorf("%s %v: %s", req.URL, req.Header, sent)
	}
	if got := req.Header.Values("Anthropic-Beta"); !reflect.DeepEqual(got, []string{"a-1,b-2", "c-3"}) {
		t.Errorf("anthropic-beta is %q", got)
	}

	offer.Provider.APIKey = core.NewSecret("a\r\nx-evil: 1")
	if _, _, err = (adapters.Anthropic{}).Build(t.Context(), job, nil, head, offer); err == nil || strings.Contains(err.Error(), "evil") {
		t.Errorf("a key with a line break: %v", err)
	}
}

// sse writes events in Anthropic's way, each named by its type.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var head struct{ Type string }
		_ = json.Unmarshal([]byte(e), &head)
		b.WriteString("event: " + head.Type + "\ndata: " + e + "\n\n")
	}
	return b.String()
}

const (
	text, reasoning, tool = core.MarkText, core.MarkReasoning, core.MarkTool
	finish, ended, failed = core.MarkFinish, core.MarkFinish | core.MarkEnd, core.MarkError
	broken                = core.MarkBroken
)

func TestAnthropicRead(t *testing.T) {
	start := func(usage string) string {
		return `{"type":"message_start","message":{"id":"a","role":"assistant","content":[],"stop_reason":null,"usage":` + usage + `}}`
	}
	delta := func(d string) string { return `{"type":"content_block_delta","index":0,"delta":` + d + `}` }
	end := func(usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":` + usage + `}`
	}
	some := core.Some[int64]
	for _, c := range []struct {
		name  string
		body  string
		marks []core.Mark
		want  core.Answer
	}{
		{"a text", sse(start(`{"input_tokens":25,"output_tokens":1}`), `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"not yet"}}`, `{"type":"ping"}`,
			delta(`{"type":"text_delta","text":""}`), delta(`{"text":" ","type":"text_delta"}`), `{"type":"content_block_stop","index":0}`, end(`{"output_tokens":15}`), `{"type":"message_stop"}`),
			[]core.Mark{0, 0, 0, 0, text, 0, finish, ended},
			core.Answer{Usage: core.Usage{UncachedInput: some(25), Output: some(15)}, Reported: true, Finish: "end_turn", OutputBytes: 1}},
		{"kinds of delta", sse(delta(`{"type":"thinking_delta","thinking":"h\u00e9"}`), delta(`{"type":"signature_delta","signature":"x"}`), delta(`{"type":"citations_delta","citation":{"text":"x"}}`),
			delta(`{"type":"input_json_delta","partial_json":""}`), delta(`{"type":"input_json_delta","partial_json":"{\"a"}`), delta(`{"type":"compaction_delta","content":"x"}`), delta(`{"type":"text_delta","thinking":"x"}`)),
			[]core.Mark{reasoning, 0, 0, 0, tool, 0, 0}, core.Answer{StreamedReasoning: true, OutputBytes: 3 + 3}},
		{"members in another order", "data: " + `{"delta":{"text":"a","type":"text_delta"},"index":0,"type":"content_block_delta"}` + "\n\n", []core.Mark{text}, core.Answer{OutputBytes: 1}},
		{"totals, not sums", sse(start(`{"input_tokens":60,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":10}}`),
			end(`{"input_tokens":60,"cache_creation_input_tokens":40,"cache_read_input_tokens":1200,"output_tokens":44,"output_tokens_details":{"thinking_tokens":7}}`)),
			[]core.Mark{0, finish}, core.Answer{Reported: true, Finish: "end_turn",
				Usage: core.Usage{UncachedInput: some(60), CacheRead: some(1200), CacheWrite: some(40), CacheWrite1h: some(10), Output: some(44), Reasoning: some(7)}}},
		{"null erases nothing", sse(start(`{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":1}`), end(`{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":5}`)),
			[]core.Mark{0, finish}, core.Answer{Reported: true, Finish: "end_turn", Usage: core.Usage{UncachedInput: some(9), CacheRead: some(4), Output: some(5)}}},
		{"a negative count is no count", sse(start(`{"input_tokens":-3,"output_tokens":1}`)), []core.Mark{0}, core.Answer{Reported: true, Opening: true, Usage: core.Usage{Output: some(1)}}},
		{"cut behind the opening", sse(start(`{"input_tokens":12,"output_tokens":1}`), delta(`{"type":"text_delta","text":"Hel"}`)),
			[]core.Mark{0, text}, core.Answer{Reported: true, Opening: true, OutputBytes: 3, Usage: core.Usage{UncachedInput: some(12), Output: some(1)}}},
		{"tools on the server", sse(start(`{"input_tokens":2225,"output_tokens":25}`), `{"type":"content_block_start","index":0,"content_block":{"id":"s","type":"server_tool_use","name":"web_search","input":{}}}`,
			end(`{"input_tokens":9447,"output_tokens":114,"server_tool_use":{"web_search_requests":1}}`)), []core.Mark{0, 0, finish},
			core.Answer{Reported: true, Finish: "end_turn", InputAtStart: some(2225), Usage: core.Usage{UncachedInput: some(9447), Output: some(114)}}},
		{"an opening guess", sse(start(`{"input_tokens":25,"output_tokens":0}`), end(`{"input_tokens":63,"output_tokens":5}`)), []core.Mark{0, finish},
			core.Answer{Reported: true, Finish: "end_turn", Usage: core.Usage{UncachedInput: some(63), Output: some(5)}}},
		{"more thinking than output", sse(end(`{"output_tokens":5,"output_tokens_details":{"thinking_tokens":6}}`)), []core.Mark{finish},
			core.Answer{Reported: true, Finish: "end_turn", Contradiction: true, Usage: core.Usage{Output: some(5), Reasoning: some(6)}}},
		{"a refusal", sse(`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`), []core.Mark{finish}, core.Answer{Finish: "refusal"}},
		{"overloaded", sse(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), []core.Mark{failed},
			core.Answer{Err: &core.UpstreamError{Status: 529, Type: "overloaded_error", Message: "Overloaded"}}},
		{"an OpenAI error", "data: " + `{"error":{"code":500,"message":"no","type":"server_error"}}` + "\n\n", []core.Mark{failed},
			core.Answer{Err: &core.UpstreamError{Status: 500, Type: "server_error", Code: "500", Message: "no"}}},
		{"a bare error", sse(`{"type":"ping"}`) + "{\"error\":\n {\"type\":\"rate_limit_error\",\"message\":\"slow\"}}", []core.Mark{0, failed},
			core.Answer{Err: &core.UpstreamError{Status: 429, Type: "rate_limit_error", Message: "slow"}}},
		{"no JSON, half of it, another's", "data: hello\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}\n\ndata: [DONE]\n\ndata: {\"choices\":[]}\n\n: ping\n\n", []core.Mark{broken, broken, 0, 0}, core.Answer{}},
		{"no JSON where nobody looks", "event: ping\ndata: hello\n\nevent: vendor\ndata: {\n\nevent: message_stop\ndata: }\n\n", []core.Mark{0, 0, broken}, core.Answer{}},
		{"an error that is no JSON", "event: error\ndata: oh no\n\n", []core.Mark{failed}, core.Answer{Err: &core.UpstreamError{}}},
	} {
		r := adapters.Anthropic{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
		if got := readAll(t, r, c.body); !reflect.DeepEqual(got, c.marks) {
			t.Errorf("%s: marks %v, want %v", c.name, got, c.marks)
		}
		if got := r.Answer(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestAnthropicReadsOtherServers(t *testing.T) {
	for _, c := range []struct {
		file         string
		first        int // event of the first output
		in, out      int64
		cached       core.Opt[int64]
		reasoning    bool
		finishReason string
	}{
		{"llamacpp/messages-stream.sse", 2, 1, 17, core.Some[int64](16), false, "end_turn"},
		{"llamacpp/messages-stream-tool.sse", 2, 7, 24, core.Some[int64](90), false, "tool_use"},
		{"ollama/v1-messages-stream.sse", 2, 18, 49, core.Opt[int64]{}, true, "end_turn"},
	} {
		r := adapters.Anthropic{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
		marks := readAll(t, r, recorded(t, c.file))
		first := 0
		for !marks[first].Output() {
			first++
		}
		a := r.Answer()
		if first != c.first || a.Usage.UncachedInput.V != c.in || a.Usage.Output.V != c.out || a.Usage.CacheRead != c.cached || a.InputAtStart.OK || a.StreamedReasoning != c.reasoning || a.Finish != c.finishReason || a.Err != nil {
			t.Errorf("%s: first output %d, %+v", c.file, first, a)
		}
	}
}

func TestAnthropicReadWhole(t *testing.T) {
	read := func(op core.Operation, body string) (core.Answer, error) {
		r := adapters.Anthropic{}.Reader(&core.Job{Operation: op}, nil)
		err := r.ReadWhole([]byte(body))
		return r.Answer(), err
	}
	a, err := read(core.OpGenerate, `{"type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"}],"stop_reason":"max_tokens","usage":{"input_tokens":4,"cache_creation_input_tokens":1165,"output_tokens":207}}`)
	if err != nil || a.Finish != "max_tokens" || a.Usage.Fresh().V != 1169 || a.Usage.Output.V != 207 || !a.Reported || a.OutputBytes != 4 || a.Repaired != nil {
		t.Errorf("%v %+v", err, a)
	}
	if a, err := read(core.OpCountTokens, recorded(t, "llamacpp/messages-count-tokens.json")); err != nil || a.Reported || a.Usage != (core.Usage{}) {
		t.Errorf("a count of tokens: %v %+v", err, a)
	}
	for name, body := range map[string]string{
		"html": "<html>busy</html>", "cut": `{"type":"message","content":[`, "a list": `[]`, "empty": ``, "another's": `{"object":"chat.completion","choices":[]}`, "a count": `{"input_tokens":3}`,
	} {
		if _, err := read(core.OpGenerate, body); err == nil {
			t.Errorf("%s is taken for a message", name)
		}
	}
	if _, err := read(core.OpCountTokens, `{"content":[]}`); err == nil {
		t.Error("a message is taken for a count")
	}
	if a, err := read(core.OpGenerate, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`); err == nil || a.Err == nil || a.Err.Status != 529 {
		t.Errorf("an error with status 200: %v %+v", err, a)
	}
}

// Ollama's thinking has no signature, which AI SDK's reader requires.
func TestAnthropicSignatureRepair(t *testing.T) {
	body := recorded(t, "ollama/v1-messages-unstreamed.json")
	r := adapters.Anthropic{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
	if err := r.ReadWhole([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if got := len(r.Answer().Repaired); got != len(body)+len(`,"signature":""`) {
		t.Errorf("repaired to %d bytes from %d", got, len(body))
	}
	var m struct {
		Content []struct {
			Type      string
			Signature *string
		}
		Usage map[string]int
	}
	if err := json.Unmarshal(r.Answer().Repaired, &m); err != nil {
		t.Fatal(err)
	}
	if m.Content[0].Type != "thinking" || m.Content[0].Signature == nil || m.Content[1].Signature != nil || m.Usage["output_tokens"] != 27 {
		t.Errorf("repaired: %s", r.Answer().Repaired)
	}
}

func TestAnthropicReadError(t *testing.T) {
	for body, want := range map[string]core.UpstreamError{
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"},"request_id":"r"}`: {Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 9 tokens > 8 maximum"},
		recorded(t, "llamacpp/messages-error-no-messages.json"):                                                                           {Status: 400, Type: "server_error", Code: "500", Message: "'messages' is required"},
		`{"error":"model 'x' not found"}`:                      {Status: 400, Message: "model 'x' not found"},
		`{"detail":[{"loc":["body"],"msg":"field required"}]}`: {Status: 400, Message: "field required"},
		`{"detail":"Not authenticated"}`:                       {Status: 400, Message: "Not authenticated"},
		`404 page not found`:                                   {Status: 400},
		``:                                                     {Status: 400},
		`<html>`:                                               {Status: 400},
	} {
		if got := (adapters.Anthropic{}).Reader(&core.Job{}, nil).ReadError(400, []byte(body)); got != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

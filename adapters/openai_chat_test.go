package adapters_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
	embeddingsPath  = "/v1/embeddings"
)

func TestChatParseMistakes(t *testing.T) {
	chat := func(rest string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + rest + `}`
	}
	message := func(m string) string { return `{"model":"m","messages":[{"role":"user","content":"hi"},` + m + `]}` }
	for _, c := range []struct{ name, path, body, param string }{
		{"nothing", chatPath, ``, "body"},
		{"a list", chatPath, `[]`, "body"},
		{"cut off", chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}`, ""},
		{"cut off in a string", chatPath, `{"model":"m`, ""},
		{"data behind it", chatPath, chat("") + `{"model":"big"}`, ""},
		{"a comma too much", chatPath, chat(","), ""},
		{"not UTF-8", chatPath, chat(",\"user\":\"\xff\""), ""},
		{"half a character", chatPath, chat(`,"user":"\ud83d"`), ""},
		{"the other half first", chatPath, chat(`,"user":"\ude00\ud83d"`), ""},
		{"too deep", chatPath, chat(`,"x":` + strings.Repeat("[", 100_000)), ""},
		{"no model", chatPath, `{"messages":[{"role":"user","content":"hi"}]}`, "model"},
		{"model empty", chatPath, `{"model":"","messages":[]}`, "model"},
		{"model a number", chatPath, `{"model":7}`, "model"},
		{"model null", chatPath, `{"model":null}`, "model"},
		{"model huge", chatPath, `{"model":"` + strings.Repeat("m", 300) + `"}`, "model"},
		{"model twice", chatPath, chat(`,"model":"big"`), "model"},
		{"model twice, escaped", chatPath, chat(`,"\u006dodel":"big"`), "model"},
		{"model in capitals", chatPath, chat(`,"Model":"big"`), "model"},
		{"stream twice", chatPath, chat(`,"stream":false,"stream":true`), "stream"},
		{"stream with a long s", chatPath, chat(`,"ſtream":true`), "stream"},
		{"stream in capitals", chatPath, chat(`,"STREAM":true`), "stream"},
		{"stream a word", chatPath, chat(`,"stream":"true"`), "stream"},
		{"messages twice", chatPath, chat(`,"messages":[]`), "messages"},
		{"no messages", chatPath, `{"model":"m"}`, "messages"},
		{"messages empty", chatPath, `{"model":"m","messages":[]}`, "messages"},
		{"messages a string", chatPath, `{"model":"m","messages":"hi"}`, "messages"},
		{"messages null", chatPath, `{"model":"m","messages":null}`, "messages"},
		{"message a string", chatPath, message(`"hi"`), "messages[1]"},
		{"no role", chatPath, message(`{"content":"hi"}`), "messages[1].role"},
		{"role a number", chatPath, message(`{"role":1,"content":"hi"}`), "messages[1].role"},
		{"role empty", chatPath, message(`{"role":"","content":"hi"}`), "messages[1].role"},
		{"no content", chatPath, message(`{"role":"user"}`), "messages[1].content"},
		{"content null", chatPath, message(`{"role":"system","content":null}`), "messages[1].content"},
		{"content a number", chatPath, message(`{"role":"user","content":3}`), "messages[1].content"},
		{"content an object", chatPath, message(`{"role":"user","content":{"type":"text","text":"x"}}`), "messages[1].content"},
		{"nothing said, no calls", chatPath, message(`{"role":"assistant","content":null,"tool_calls":null}`), "messages[1].content"},
		{"tool_calls an object", chatPath, message(`{"role":"assistant","tool_calls":{}}`), "messages[1].tool_calls"},
		{"part a string", chatPath, message(`{"role":"user","content":["hi"]}`), "messages[1].content[0]"},
		{"part without type", chatPath, message(`{"role":"user","content":[{"type":"text","text":"a"},{"text":"hi"}]}`), "messages[1].content[1].type"},
		{"part without text", chatPath, message(`{"role":"user","content":[{"type":"text"}]}`), "messages[1].content[0].text"},
		{"part with text of another type", chatPath, message(`{"role":"user","content":[{"type":"text","text":["a"]}]}`), "messages[1].content[0].text"},
		{"max_tokens 0", chatPath, chat(`,"max_tokens":0`), "max_tokens"},
		{"max_tokens below 0", chatPath, chat(`,"max_tokens":-1`), "max_tokens"},
		{"max_tokens half", chatPath, chat(`,"max_tokens":1.5`), "max_tokens"},
		{"max_tokens a word", chatPath, chat(`,"max_tokens":"100"`), "max_tokens"},
		{"max_tokens beyond 32 bits", chatPath, chat(`,"max_tokens":4294967297`), "max_tokens"},
		{"max_tokens beyond 64 bits", chatPath, chat(`,"max_tokens":99999999999999999999`), "max_tokens"},
		{"both maxima", chatPath, chat(`,"max_tokens":5,"max_completion_tokens":6`), "max_tokens"},
		{"n 0", chatPath, chat(`,"n":0`), "n"},
		{"n huge", chatPath, chat(`,"n":129`), "n"},
		{"temperature a word", chatPath, chat(`,"temperature":"hot"`), "temperature"},
		{"stop a number", chatPath, chat(`,"stop":1`), "stop"},
		{"stop a list of numbers", chatPath, chat(`,"stop":["a",1]`), "stop"},
		{"tools an object", chatPath, chat(`,"tools":{}`), "tools"},
		{"tool a string", chatPath, chat(`,"tools":[{},"f"]`), "tools[1]"},
		{"format a word", chatPath, chat(`,"response_format":"json"`), "response_format"},
		{"format without type", chatPath, chat(`,"response_format":{}`), "response_format.type"},
		{"format with type a number", chatPath, chat(`,"response_format":{"type":1}`), "response_format.type"},
		{"modalities a word", chatPath, chat(`,"modalities":"audio"`), "modalities"},
		{"options without a stream", chatPath, chat(`,"stream_options":{"include_usage":true}`), "stream_options"},
		{"options with stream false", chatPath, chat(`,"stream":false,"stream_options":{}`), "stream_options"},
		{"options a list", chatPath, chat(`,"stream":true,"stream_options":[]`), "stream_options"},
		{"include_usage a word", chatPath, chat(`,"stream":true,"stream_options":{"include_usage":"yes"}`), "stream_options.include_usage"},
		{"include_usage twice", chatPath, chat(`,"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`), "stream_options.include_usage"},
		{"include_usage in capitals", chatPath, chat(`,"stream":true,"stream_options":{"Include_usage":true}`), "stream_options.include_usage"},
		{"no prompt", completionsPath, `{"model":"m"}`, "prompt"},
		{"prompt an object", completionsPath, `{"model":"m","prompt":{}}`, "prompt"},
		{"prompts mixed", completionsPath, `{"model":"m","prompt":["a",1]}`, "prompt"},
		{"prompts none", completionsPath, `{"model":"m","prompt":[]}`, "prompt"},
		{"best_of below n", completionsPath, `{"model":"m","prompt":"a","n":3,"best_of":2}`, "best_of"},
		{"no input", embeddingsPath, `{"model":"m"}`, "input"},
		{"input empty", embeddingsPath, `{"model":"m","input":""}`, "input"},
		{"input null", embeddingsPath, `{"model":"m","input":null}`, "input"},
		{"input of lists of words", embeddingsPath, `{"model":"m","input":[["a"]]}`, "input"},
		{"another path", "/v1/files", chat(""), ""},
	} {
		_, err := adapters.Chat{}.Parse(core.RequestHead{Path: c.path}, []byte(c.body))
		mistake(t, c.name, err, c.param)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q has several lines", c.name, err)
		}
	}
}

func TestChatParseFacts(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		want             core.Job
	}{
		{
			"plain", chatPath, `{"model":"a\u002fb","messages":[{"role":"system","content":"be\nbrief"},{"role":"user","content":"h\u00e9","vendor_note":"keep"}],"vendor":{"deep":[1]}}`,
			core.Job{Operation: core.OpGenerate, Model: "a/b", Choices: 1, PromptBytes: 6 + 8 + 4 + 3},
		},
		{
			"everything", chatPath, `{"n":3,"max_completion_tokens":12.0,"max_tokens":12,"stream":true,"stream_options":{"x":1,"include_usage":true},"tools":[{"type":"function"}],
			"response_format":{"type":"json_schema"},"modalities":["text","audio"],"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"look"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 5000) + `"}},{"type":"file","file":{"file_data":"eA=="}}]}]}`,
			core.Job{
				Operation: core.OpGenerate, Model: "m", Streamed: true, AskedUsage: true, MaxOutput: core.Some[int64](12), Choices: 3, Beyond: true,
				Features:    core.FeatureTools | core.FeatureImages | core.FeatureSchema | core.FeatureAudio | core.FeatureDocuments,
				PromptBytes: 4 + 4 + 2*3000 + len(`[{"type":"function"}]`) + len(`"type":"json_schema"}`),
			},
		},
		{
			"nulls", chatPath, `{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[]},{"role":"x"}],"stream":null,"stream_options":null,"max_tokens":null,"n":null,"tools":null,"stop":null,"response_format":null,"temperature":null,"modalities":null}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Choices: 1, PromptBytes: 9 + 2 + 1},
		},
		{
			"text is no schema, no tools are none", chatPath, `{"model":"m","messages":[{"role":"user","content":""}],"response_format":{"type":"text"},"tools":[]}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Choices: 1, PromptBytes: 4 + 2},
		},
		{
			"completions", completionsPath, `{"model":"m","prompt":["one","two"],"max_tokens":0,"n":2,"best_of":4,"stop":["a"],"messages":3}`,
			core.Job{Operation: core.OpCompletions, Model: "m", MaxOutput: core.Some[int64](0), Choices: 8, PromptBytes: 6},
		},
		{
			"a prompt of tokens", completionsPath, `{"model":"m","prompt":[1,2,3]}`,
			core.Job{Operation: core.OpCompletions, Model: "m", Choices: 1, PromptBytes: 12},
		},
		{
			"embeddings", embeddingsPath, `{"model":"m","input":[[1,2],[3]],"stream":"no matter"}`,
			core.Job{Operation: core.OpEmbeddings, Model: "m", PromptBytes: 12},
		},
	} {
		job, err := adapters.Chat{}.Parse(core.RequestHead{Path: c.path}, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := *job
		if string(got.Body) != c.body || c.body[got.Edits.Model.From] != '"' || c.body[got.Edits.Model.To-1] != '"' {
			t.Errorf("%s: the body or its spans are wrong: %+v", c.name, got.Edits)
		}
		got.Body, got.Edits, got.Lead, got.Turns = nil, core.Edits{}, nil, nil // texts: spans_test.go
		if c.want.Format = core.FormatOpenAI; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", c.name, got, c.want)
		}
	}
}

func built(t *testing.T, a core.Adapter, head core.RequestHead, body string, offer *core.Offer) (*http.Request, string) {
	t.Helper()
	job, err := a.Parse(head, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, _, err := a.Build(t.Context(), job, nil, head, offer)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(req.Body)
	if err != nil || req.ContentLength != int64(len(sent)) {
		t.Errorf("length %d of %s (%v)", req.ContentLength, sent, err)
	}
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := io.ReadAll(again); string(second) != string(sent) {
		t.Errorf("sent again it is %s", second)
	}
	if string(job.Body) != body {
		t.Errorf("the job's body became %s", job.Body)
	}
	return req, string(sent)
}

func TestChatBuildBody(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi","note":1}]`
	for _, c := range []struct {
		name, body, want  string
		upstream, dialect string
		include           core.IncludeUsage
	}{
		{name: "nothing to change", body: `{ "seed":9007199254740993, "model":"m",` + messages + ` }`},
		{name: "the model", body: `{"model" : "m","x":"m",` + messages + `}`, upstream: `o/"x"`, want: `{"model" : "o/\"x\"","x":"m",` + messages + `}`},
		{name: "usage asked", body: `{"model":"m","stream":true,` + messages + `}`, want: `{"stream_options":{"include_usage":true},"model":"m","stream":true,` + messages + `}`},
		{name: "usage refused", body: `{"stream_options":{"include_usage": false},"model":"m","stream":true,` + messages + `}`, upstream: "big",
			want: `{"stream_options":{"include_usage": true},"model":"big","stream":true,` + messages + `}`},
		{name: "usage null", body: `{"model":"m","stream":true,` + messages + `,"stream_options":{"include_usage":null,"x":1}}`,
			want: `{"model":"m","stream":true,` + messages + `,"stream_options":{"include_usage":true,"x":1}}`},
		{name: "options null", body: `{"model":"m","stream":true,` + messages + `,"stream_options":null}`, want: `{"model":"m","stream":true,` + messages + `,"stream_options":{"include_usage":true}}`},
		{name: "options empty", body: `{"model":"m","stream":true,` + messages + `,"stream_options":{ }}`, want: `{"model":"m","stream":true,` + messages + `,"stream_options":{"include_usage":true }}`},
		{name: "options with something else", body: `{"model":"m","stream":true,"stream_options":{"x":{}},` + messages + `}`, want: `{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":{}},` + messages + `}`},
		{name: "asked by the client", body: `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + messages + `}`},
		{name: "never", body: `{"model":"m","stream":true,` + messages + `}`, include: core.UsageNever},
		{name: "a dialect that reports unasked", body: `{"model":"m","stream":true,` + messages + `}`, dialect: "deepseek"},
	} {
		offer := offerOf(core.FormatOpenAI, "m")
		offer.Provider.Dialect, offer.IncludeUsage = c.dialect, c.include
		if c.upstream != "" {
			offer.UpstreamModel = c.upstream
		}
		if c.want == "" {
			c.want = c.body
		}
		if _, sent := built(t, adapters.Chat{}, core.RequestHead{Path: chatPath}, c.body, offer); sent != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, sent, c.want)
		}
	}
}

func TestChatBuildRequest(t *testing.T) {
	head := core.RequestHead{
		Path: chatPath, Query: url.Values{"api-version": {"2"}, "key": {"hw_caller"}},
		Header: http.Header{
			"Openai-Beta": {"b=1"}, "Traceparent": {"00-1-2-01", "a\r\nx-evil: 1"}, "Authorization": {"Bearer hw_caller"}, "Cookie": {"s=1"}, "X-Api-Key": {"hw_caller"},
			"Openai-Organization": {"org"},
		},
	}
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	offer := offerOf(core.FormatOpenAI, "m")
	offer.Provider.BaseURL = "https://api.example/openai/v1?api-version=1&own=1"
	offer.Provider.Headers = map[string]core.Secret{"host": core.NewSecret("other.example"), "x-title": core.NewSecret("a"), "user-agent": core.NewSecret("ours")}
	req, _ := built(t, adapters.Chat{}, head, body, offer)
	if req.Method != "POST" || req.URL.String() != "https://api.example/openai/v1/chat/completions?api-version=2&own=1" || req.Host != "other.example" {
		t.Errorf("%s %s %s", req.Method, req.URL, req.Host)
	}
	want := http.Header{
		"Authorization": {"Bearer sk-own"}, "Openai-Beta": {"b=1"}, "Traceparent": {"00-1-2-01"}, "Content-Type": {"application/json"},
		"Accept-Encoding": {"identity"}, "User-Agent": {"ours"}, "X-Title": {"a"},
	}
	if !reflect.DeepEqual(req.Header, want) {
		t.Errorf("headers %v", req.Header)
	}

	llama := offerOf(core.FormatLlamaCpp, "m")
	llama.Provider.BaseURL, llama.Provider.APIKey = "http://127.0.0.1:8081", core.Secret{}
	for path, body := range map[string]string{
		chatPath: body, completionsPath: `{"model":"m","prompt":"a"}`, embeddingsPath: `{"model":"m","input":"a"}`,
	} {
		req, _ := built(t, adapters.Chat{}, core.RequestHead{Path: path}, body, llama)
		if req.URL.Path != path || req.Header.Get("Authorization") != "" {
			t.Errorf("%s goes to %s with %v", path, req.URL, req.Header)
		}
	}

	job, err := adapters.Chat{}.Parse(head, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*core.Provider){
		"address":      func(p *core.Provider) { p.BaseURL = "http://[::1" },
		"no address":   func(p *core.Provider) { p.BaseURL = "" },
		"key":          func(p *core.Provider) { p.APIKey = core.NewSecret("a\nevil: 1") },
		"header":       func(p *core.Provider) { p.Headers = map[string]core.Secret{"x": core.NewSecret("a\x00evil")} },
		"a host value": func(p *core.Provider) { p.Headers = map[string]core.Secret{"Host": core.NewSecret("a\r\nevil")} },
	} {
		bad := offerOf(core.FormatOpenAI, "m")
		spoil(bad.Provider)
		_, _, err := adapters.Chat{}.Build(t.Context(), job, nil, head, bad)
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Internal || strings.Contains(e.Msg, "evil") || strings.Contains(e.Msg, "[::1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChatRead(t *testing.T) {
	const usageOnly, refusal = core.MarkUsageOnly, core.MarkRefusal
	delta := func(d string) string {
		return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}],"usage":null}`
	}
	for _, c := range []struct {
		name, data string
		want       core.Mark
	}{
		{"role", delta(`{"role":"assistant","content":""}`), 0},
		{"role with null", delta(`{"role":"assistant","content":null,"refusal":null,"tool_calls":null,"function_call":null,"reasoning":null}`), 0},
		{"white space", delta(`{"content":"\n"}`), text},
		{"role and text", delta(`{"role":"assistant","content":"a"}`), text},
		{"both names of reasoning", delta(`{"reasoning":"a","reasoning_content":"a"}`), reasoning},
		{"refusal", delta(`{"refusal":"no"}`), refusal},
		{"empty calls", delta(`{"tool_calls":[]}`), 0},
		{"a call", delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`), tool},
		{"a call's entry that is empty", delta(`{"tool_calls":[{}]}`), tool},
		{"the old call", delta(`{"function_call":{"arguments":"{"}}`), tool},
		{"parts", delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":""}]}`), reasoning},
		{"text parts", delta(`{"content":[{"text":"a","type":"text"}]}`), text},
		{"encrypted reasoning", delta(`{"content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"xx"}]}`), 0},
		{"annotations", delta(`{"annotations":[{"text":"x"}],"audio":{"transcript":"x"}}`), 0},
		{"text of completions is none here", `{"choices":[{"index":0,"text":"a"}]}`, 0},
		{"finish", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, finish},
		{"text, finish and usage", `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, text | finish},
		{"usage only", `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1},"timings":{"prompt_n":1}}`, usageOnly},
		{"usage without choices", `{"usage":{"prompt_tokens":1}}`, usageOnly},
		{"no usage, no choices", `{"choices":[],"usage":null,"prompt_filter_results":[{}]}`, 0},
		{"usage of nothing", `{"choices":[],"usage":{}}`, 0},
		{"error object", `{"error":{"message":"x","code":500}}`, failed},
		{"error text", `{"error":"x"}`, failed},
		{"error null", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, text},
		{"error in a choice", `{"choices":[{"delta":{},"error":{"message":"x"},"finish_reason":"error"}]}`, failed | finish},
		{"error of older servers", `{"object":"error","message":"x","type":"BadRequestError","code":400}`, failed},
		{"error with choices and usage", `{"error":{"code":502},"choices":[{"delta":{"content":""}}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`, failed},
		{"end", `[DONE]`, core.MarkEnd},
		{"end with blanks", `[DONE] `, core.MarkEnd},
		{"not JSON", `{"choices":[{"delta":{"content":"a`, broken},
		{"JSON and more", delta(`{"content":"a"}`) + `x`, broken},
		{"another JSON", `["a"]`, broken},
		{"choices of another type", `{"choices":{"delta":1}}`, 0},
		{"choice of another type", `{"choices":[7,{"delta":[]},{"delta":{"content":{"a":1},"tool_calls":"x"}}]}`, 0},
	} {
		r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, offerOf(core.FormatOpenAI, "m"))
		f := core.Frame{Raw: []byte("data: " + c.data + "\n\n"), Data: []byte(c.data)}
		if got := r.Read(&f); got != c.want {
			t.Errorf("%s: marked %b, want %b", c.name, got, c.want)
		}
		if c.want.Has(core.MarkError) != (r.Answer().Err != nil) {
			t.Errorf("%s: err %v", c.name, r.Answer().Err)
		}
	}
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpCompletions}, nil)
	if got := r.Read(&core.Frame{Data: []byte(`{"choices":[{"text":" a","index":0}]}`)}); got != text || r.Answer().OutputBytes != 2 {
		t.Errorf("completions: marked %b", got)
	}
	r = adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
	if got := r.Read(&core.Frame{Name: "error", Data: []byte(`Internal Server Error`)}); got != failed || r.Answer().Err == nil {
		t.Errorf("an event named error: marked %b", got)
	}
}

// TestChatChoices: a stream of several choices is over when each of them is.
func TestChatChoices(t *testing.T) {
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true, Choices: 2}, nil)
	for i, c := range []struct {
		data string
		want core.Mark
	}{
		{`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, text},
		{`{"choices":[{"delta":{"content":"b"},"index":1}]}`, text},
		{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, 0},
		{`{"choices":[{"index":1,"delta":{"content":"b"}}]}`, text},
		{`{"choices":[{"finish_reason":"length","delta":{},"index":1}]}`, finish},
	} {
		if got := r.Read(&core.Frame{Data: []byte(c.data)}); got != c.want {
			t.Errorf("chunk %d: marked %b, want %b", i, got, c.want)
		}
	}
	r = adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true, Choices: 2}, nil)
	for _, data := range []string{`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":900,"delta":{}}]}`} {
		r.Read(&core.Frame{Data: []byte(data)})
	}
	if got := r.Read(&core.Frame{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)}); got != finish {
		t.Errorf("one choice of a server that writes no more: marked %b", got)
	}
}

func TestChatUsage(t *testing.T) {
	some := core.Some[int64]
	for _, c := range []struct {
		name, chunk   string
		want          core.Usage
		contradiction bool
	}{
		{
			"OpenAI", `{"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},"completion_tokens_details":{"reasoning_tokens":20}}}`,
			core.Usage{UncachedInput: some(30), CacheRead: some(60), CacheWrite: some(10), Output: some(50), Reasoning: some(20)}, false,
		},
		{
			"reasoning beside the output", `{"usage":{"prompt_tokens":165,"completion_tokens":2,"total_tokens":296,"prompt_tokens_details":{"cached_tokens":164},"completion_tokens_details":{"reasoning_tokens":129}}}`,
			core.Usage{UncachedInput: some(1), CacheRead: some(164), Output: some(131), Reasoning: some(129)}, false,
		},
		{
			"as much reasoning as cache, beside the output", `{"usage":{"prompt_tokens":200,"completion_tokens":2,"total_tokens":302,"prompt_tokens_details":{"cached_tokens":100},"completion_tokens_details":{"reasoning_tokens":100}}}`,
			core.Usage{UncachedInput: some(100), CacheRead: some(100), Output: some(102), Reasoning: some(100)}, false,
		},
		{
			"the cache beside the input", `{"usage":{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":161}}}`,
			core.Usage{UncachedInput: some(7), CacheRead: some(161), Output: some(8)}, false,
		},
		{
			"the cache beside the input, in the total", `{"usage":{"prompt_tokens":300,"completion_tokens":8,"total_tokens":469,"prompt_tokens_details":{"cached_tokens":161}}}`,
			core.Usage{UncachedInput: some(300), CacheRead: some(161), Output: some(8)}, false,
		},
		{
			"a little more reasoning than output", `{"usage":{"prompt_tokens":43,"completion_tokens":10,"total_tokens":53,"completion_tokens_details":{"reasoning_tokens":11}}}`,
			core.Usage{UncachedInput: some(43), Output: some(10), Reasoning: some(11)}, true,
		},
		{
			"far more reasoning than output", `{"usage":{"prompt_tokens":28,"completion_tokens":9,"total_tokens":37,"completion_tokens_details":{"reasoning_tokens":61}}}`,
			core.Usage{UncachedInput: some(28), Output: some(70), Reasoning: some(61)}, true,
		},
		{
			"DeepSeek", `{"usage":{"prompt_tokens":496,"completion_tokens":31,"total_tokens":527,"prompt_tokens_details":{"cached_tokens":384},"prompt_cache_hit_tokens":384,"prompt_cache_miss_tokens":112}}`,
			core.Usage{UncachedInput: some(112), CacheRead: some(384), Output: some(31)}, false,
		},
		{
			"the cache at the top, details null", `{"usage":{"cached_tokens":16,"prompt_tokens":19,"completion_tokens":13,"prompt_tokens_details":{"cached_tokens":null},"reasoning_tokens":3}}`,
			core.Usage{UncachedInput: some(3), CacheRead: some(16), Output: some(13), Reasoning: some(3)}, false,
		},
		{
			"Moonshot", `{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13,"cached_tokens":16}}]}`,
			core.Usage{UncachedInput: some(3), CacheRead: some(16), Output: some(13)}, false,
		},
		{
			"Groq alone", `{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":5,"completion_tokens":6}}}`,
			core.Usage{UncachedInput: some(5), Output: some(6)}, false,
		},
		{
			"llama-server's timings", `{"usage":{"prompt_tokens":84,"completion_tokens":57},"timings":{"cache_n":83,"prompt_n":1,"predicted_n":57}}`,
			core.Usage{UncachedInput: some(1), CacheRead: some(83), Output: some(57)}, false,
		},
		{
			"llama-server's timings alone", `{"choices":[{"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":83,"prompt_n":1,"predicted_n":57}}`,
			core.Usage{UncachedInput: some(1), CacheRead: some(83), Output: some(57)}, false,
		},
		{
			"below 0 is absent", `{"usage":{"prompt_tokens":-4,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":-1}}}`,
			core.Usage{Output: some(3)}, false,
		},
		{
			"beyond all sense is absent", `{"usage":{"prompt_tokens":9e18,"completion_tokens":3}}`,
			core.Usage{Output: some(3)}, false,
		},
	} {
		r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
		r.Read(&core.Frame{Data: []byte(c.chunk)})
		r.Read(&core.Frame{Data: []byte(`{"choices":[],"usage":null}`)}) // erases nothing
		if a := r.Answer(); a.Usage != c.want || a.Contradiction != c.contradiction || !a.Reported {
			t.Errorf("%s: %+v %v, want %+v", c.name, a.Usage, a.Contradiction, c.want)
		}
	}
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	for _, n := range []string{"1", "2", "3"} { // the last report stands, they are not added up
		r.Read(&core.Frame{Data: []byte(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":` + n + `}}`)})
	}
	if a := r.Answer(); a.Usage.Output != some(3) || a.Usage.UncachedInput != some(9) || a.OutputBytes != 3 {
		t.Errorf("cumulative: %+v", a)
	}
}

func TestChatFigures(t *testing.T) {
	some, ms := core.Some[int64], core.Some[float64]
	for name, c := range map[string]struct {
		chunk string
		want  core.ServerFigures
	}{
		"Groq": {
			`{"usage":{"queue_time":0.2,"prompt_tokens":20,"prompt_time":0.5,"completion_tokens":4,"completion_time":0.25,"total_time":0.75}}`,
			core.ServerFigures{PromptTokens: some(20), PromptMS: ms(500), DecodeTokens: some(4), DecodeMS: ms(250)},
		},
		"Cerebras": {
			`{"time_info":{"queue_time":1,"prompt_time":0.5,"completion_time":0.25},"usage":{"prompt_tokens":20,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":5}}}`,
			core.ServerFigures{PromptTokens: some(15), PromptMS: ms(500), DecodeTokens: some(4), DecodeMS: ms(250)},
		},
		"GPUStack": {
			`{"usage":{"prompt_tokens":15,"completion_tokens":4,"time_to_first_token_ms":38.5,"time_per_output_token_ms":2.5}}`,
			core.ServerFigures{PromptTokens: some(15), PromptMS: ms(38.5), DecodeTokens: some(4), DecodeMS: ms(10)},
		},
		"Ollama at the top": {
			`{"choices":[],"prompt_eval_count":18,"prompt_eval_duration":2000000,"eval_count":60,"eval_duration":110000000,"load_duration":1,"usage":{"prompt_tokens":18,"completion_tokens":60}}`,
			core.ServerFigures{PromptTokens: some(18), PromptMS: ms(2), DecodeTokens: some(60), DecodeMS: ms(110)},
		},
		"Ollama inside timings": {
			`{"timings":{"prompt_eval_count":18,"prompt_eval_duration":2000000,"eval_count":60,"eval_duration":110000000},"usage":{"prompt_tokens":18,"completion_tokens":60}}`,
			core.ServerFigures{PromptTokens: some(18), PromptMS: ms(2), DecodeTokens: some(60), DecodeMS: ms(110)},
		},
		"none": {`{"usage":{"prompt_tokens":15,"completion_tokens":4}}`, core.ServerFigures{}},
	} {
		for _, whole := range []bool{false, true} {
			r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: !whole}, nil)
			if r.Read(&core.Frame{Data: []byte(c.chunk)}); whole {
				r = adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
				chunk := strings.Replace(c.chunk, `"choices":[],`, "", 1)
				if err := r.ReadWhole([]byte(`{"choices":[{"message":{"content":"a"}}],` + chunk[1:])); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.Answer().Figures; got != c.want {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
	}
}

func TestChatReadWhole(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": ``, "a page": `<html><body>502 Bad Gateway</body></html>`, "a list": `[]`, "a string": `"ok"`, "no choices": `{"id":"x"}`, "choices null": `{"choices":null}`,
		"an error": `{"error":{"message":"quota","type":"insufficient_quota"}}`, "an error text": `{"error":"model 'x' not found"}`,
		"an error in the choice": `{"choices":[{"error":{"code":502,"message":"quota"}}]}`, "data behind it": `{"choices":[]}{}`,
	} {
		r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
		err := r.ReadWhole([]byte(body))
		if err == nil {
			t.Errorf("%s is taken for an answer", name)
		} else if strings.Contains(err.Error(), "quota") {
			t.Errorf("%s: the upstream's text is in the error: %v", name, err)
		}
		if strings.HasPrefix(name, "an error") && r.Answer().Err == nil {
			t.Errorf("%s: no Err", name)
		}
	}
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpEmbeddings}, nil)
	if err := r.ReadWhole([]byte(`{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`)); err != nil {
		t.Fatal(err)
	}
	if u := r.Answer().Usage; u != (core.Usage{UncachedInput: core.Some[int64](8)}) {
		t.Errorf("embeddings: %+v", u)
	}
}

func TestChatReadError(t *testing.T) {
	for _, c := range []struct {
		body string
		want core.UpstreamError
	}{
		{`{"error":{"message":"a","type":"b","param":null,"code":"c"}}`, core.UpstreamError{Status: 418, Type: "b", Code: "c", Message: "a"}},
		{recorded(t, "llamacpp/error-context-exceeded.json"), core.UpstreamError{
			Status: 418, Type: "exceed_context_size_error", Code: "400",
			Message: "request (35286 tokens) exceeds the available context size (32768 tokens), try increasing it",
		}},
		{`{"error":"model 'nope' not found"}`, core.UpstreamError{Status: 418, Message: "model 'nope' not found"}},
		{`{"detail":"Not Found"}`, core.UpstreamError{Status: 418, Message: "Not Found"}},
		{`<html>`, core.UpstreamError{Status: 418}},
		{``, core.UpstreamError{Status: 418}},
	} {
		if got := (adapters.Chat{}).Reader(&core.Job{}, nil).ReadError(418, []byte(c.body)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
	}
}

func FuzzParseOpenAI(f *testing.F) {
	seed(f, "*/*chat-*.request.json")
	seed(f, "*/*completions-*.request.json")
	f.Add([]byte(`{"model":"m","prompt":["a"],"input":[[1]],"messages":[{"role":"user","content":[{"type":"image_url"}]}],"stream":true,"stream_options":{"include_usage":false}}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{ "x":null }}`))
	fuzzParse(f, adapters.Chat{}, []core.RequestHead{{Path: chatPath}, {Path: completionsPath}, {Path: embeddingsPath}}, core.FormatOpenAI)
}

func FuzzReadOpenAI(f *testing.F) {
	seed(f, "*/*chat-stream*.sse")
	seed(f, "llamacpp/completions-stream.sse")
	seed(f, "*/*chat-unstreamed*.json")
	f.Add([]byte("data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}},{}]}}],\"x_groq\":{\"usage\":{\"prompt_tokens\":1}}}\n\n{\"error\":\"x\"}"))
	fuzzReader(f, adapters.Chat{}, []*core.Job{{Operation: core.OpGenerate, Streamed: true, AskedUsage: true}, {Operation: core.OpCompletions, Streamed: true}, {Operation: core.OpEmbeddings}})
}

func BenchmarkReadOpenAIChat(b *testing.B) {
	benchmarkRead(b, adapters.Chat{}, `{"id":"chatcmpl-C47M0QMQKhvcmN07HzeSZdlYG7oAp","object":"chat.completion.chunk","created":1755097616,"model":"gpt-5.6-sol-2026-07-01","service_tier":"default","system_fingerprint":"fp_3d7ed3b779","choices":[{"index":0,"delta":{"content":" answer"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"nWGYWBbZqbOv8"}`)
}

func BenchmarkParseOpenAIChat(b *testing.B) {
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor sit amet ", 15_000) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (adapters.Chat{}).Parse(core.RequestHead{Path: chatPath}, body); err != nil {
			b.Fatal(err)
		}
	}
}

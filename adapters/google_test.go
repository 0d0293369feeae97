package adapters_test

import (
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
	generate = "/v1beta/models/m:generateContent"
	stream   = "/v1beta/models/m:streamGenerateContent"
)

func TestGoogleParseMistakes(t *testing.T) {
	const rest = `"contents":[{"parts":[{"text":"hi"}]}]`
	for _, c := range []struct{ name, path, body, param string }{
		{"no method", "/v1beta/models/m", `{` + rest + `}`, ""},
		{"no model", "/v1beta/models/:generateContent", `{` + rest + `}`, ""},
		{"no version", "/models/m:generateContent", `{` + rest + `}`, ""},
		{"another version", "/../models/m:generateContent", `{` + rest + `}`, ""},
		{"no model's path", "/v1beta/files/m:generateContent", `{` + rest + `}`, ""},
		{"unknown method", "/v1beta/models/m:predict", `{` + rest + `}`, ""},
		{"a long name", "/v1beta/models/" + strings.Repeat("m", 300) + ":generateContent", `{` + rest + `}`, "model"},
		{"alt", generate + "?alt=proto", `{` + rest + `}`, "alt"},
		{"empty", generate, ``, "body"},
		{"a list", generate, `[{` + rest + `}]`, "body"},
		{"broken", generate, `{` + rest, ""},
		{"data behind", generate, `{` + rest + `}{}`, ""},
		{"bad utf-8", generate, "{\"contents\":[{\"parts\":[{\"text\":\"\xc3\x28\"}]}]}", ""},
		{"no contents", generate, `{}`, "contents"},
		{"contents an object", generate, `{"contents":{}}`, "contents"},
		{"contents empty", generate, `{"contents":[]}`, "contents"},
		{"contents twice", generate, `{` + rest + `,` + rest + `}`, "contents"},
		{"contents in capitals", generate, `{` + rest + `,"Contents":[]}`, "contents"},
		{"a content of text", generate, `{"contents":["hi"]}`, "contents[0]"},
		{"role a number", generate, `{"contents":[{"role":1}]}`, "contents[0].role"},
		{"parts text", generate, `{"contents":[{"parts":[]},{"parts":"hi"}]}`, "contents[1].parts"},
		{"a part of text", generate, `{"contents":[{"parts":[{},"hi"]}]}`, "contents[0].parts[1]"},
		{"another model", generate, `{` + rest + `,"model":"models/secret"}`, "model"},
		{"tools text", generate, `{` + rest + `,"tools":"f"}`, "tools"},
		{"system text", generate, `{` + rest + `,"systemInstruction":"be"}`, "systemInstruction"},
		{"config text", generate, `{` + rest + `,"generationConfig":"x"}`, "generationConfig"},
		{"config in two spellings", generate, `{` + rest + `,"generationConfig":{},"generation_config":{}}`, "generationConfig"},
		{"limit negative", generate, `{` + rest + `,"generationConfig":{"maxOutputTokens":-1}}`, "generationConfig.maxOutputTokens"},
		{"limit of words", generate, `{` + rest + `,"generationConfig":{"maxOutputTokens":"many"}}`, "generationConfig.maxOutputTokens"},
		{"limit in two spellings", generate, `{` + rest + `,"generationConfig":{"maxOutputTokens":1,"max_output_tokens":9}}`, "generationConfig.maxOutputTokens"},
		{"limit in capitals", generate, `{` + rest + `,"generationConfig":{"MaxOutputTokens":9}}`, "generationConfig.maxOutputTokens"},
		{"temperature text", generate, `{` + rest + `,"generationConfig":{"temperature":"hot"}}`, "generationConfig.temperature"},
		{"nothing to embed", "/v1beta/models/m:embedContent", `{}`, "content"},
		{"no requests", "/v1beta/models/m:batchEmbedContents", `{"requests":[]}`, "requests"},
		{"a request of another model", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/x","content":{}}]}`, "requests[0].model"},
		{"a request for nothing", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m"}]}`, "requests[0].content"},
		{"nothing to count", "/v1beta/models/m:countTokens", `{}`, "contents"},
		{"nothing inside to count", "/v1beta/models/m:countTokens", `{"generateContentRequest":{"model":"models/m"}}`, "generateContentRequest.contents"},
	} {
		path, query, _ := strings.Cut(c.path, "?")
		q, _ := url.ParseQuery(query)
		_, err := adapters.Google{}.Parse(core.RequestHead{Path: path, Query: q}, []byte(c.body))
		mistake(t, c.name, err, c.param)
	}
}

func TestGoogleParseFacts(t *testing.T) {
	image := strings.Repeat("QUJD", 50_000)
	for _, c := range []struct {
		name, path, body string
		want             core.Job
		least, most      int
	}{
		{"the least", generate, `{"contents":[{"parts":[{"text":"hello"}]}]}`, core.Job{Operation: core.OpGenerate, Model: "m"}, 5, 5},
		{"events", stream + "?alt=sse", `{"contents":[{"role":"user","parts":{"text":"hello"}}],"generationConfig":{"maxOutputTokens":"400","candidateCount":2},"newField":1}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Streamed: true, SSE: true, MaxOutput: core.Some[int64](400), Choices: 2}, 9, 9},
		{"an array", stream, `{"contents":[{"parts":[{"text":"x"}]}],"tools":[],"generation_config":{"max_output_tokens":9,"response_mime_type":"text/plain"}}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Streamed: true, MaxOutput: core.Some[int64](9)}, 1, 3},
		{"not a stream", generate + "?alt=sse", `{"contents":[{"parts":[{"text":"x"}]}]}`, core.Job{Operation: core.OpGenerate, Model: "m"}, 1, 1},
		{"a tuned model", "/v1/tunedModels/my-1:generateContent", `{"model":"tunedModels/my-1","contents":[{"parts":[{"text":"x"}]}]}`, core.Job{Operation: core.OpGenerate, Model: "tunedModels/my-1"}, 1, 1},
		{"a name with a colon and a slash", "/v1beta/models/org/llama:latest:generateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, core.Job{Operation: core.OpGenerate, Model: "org/llama:latest"}, 1, 1},
		{"media", generate, `{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"` + image + `"}},{"fileData":{"fileUri":"gs://x","mimeType":"AUDIO/mp3"}},
			{"functionResponse":{"name":"f","response":{},"parts":[{"inlineData":{"mimeType":"application/pdf","data":"` + image + `"}}]}},{"text":"x","thoughtSignature":"` + image + `"}]}],
			"tools":[{"functionDeclarations":[]}],"generationConfig":{"responseMimeType":"application/json","responseModalities":["TEXT"]}}`,
			core.Job{Operation: core.OpGenerate, Model: "m", Beyond: true, Features: core.FeatureImages | core.FeatureAudio | core.FeatureDocuments | core.FeatureTools | core.FeatureSchema}, 9001, 9100},
		{"counting", "/v1beta/models/m:countTokens", `{"generateContentRequest":{"model":"models/m","contents":[{"parts":[{"text":"hello"}]}]}}`, core.Job{Operation: core.OpCountTokens, Model: "m"}, 5, 5},
		{"embedding", "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"hello"}]}}`, core.Job{Operation: core.OpEmbeddings, Model: "m"}, 5, 5},
		{"embedding many", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]}},{"model":"models/m","content":{"parts":[{"text":"b"}]}}]}`,
			core.Job{Operation: core.OpEmbeddings, Model: "m"}, 2, 2},
	} {
		path, query, _ := strings.Cut(c.path, "?")
		q, _ := url.ParseQuery(query)
		body := []byte(c.body)
		got, err := adapters.Google{}.Parse(core.RequestHead{Path: path, Query: q}, body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.PromptBytes < c.least || got.PromptBytes > c.most {
			t.Errorf("%s: %d bytes of prompt, want %d to %d", c.name, got.PromptBytes, c.least, c.most)
		}
		c.want.Format, c.want.AskedUsage, c.want.Body, c.want.PromptBytes, c.want.Edits = core.FormatGoogle, true, body, got.PromptBytes, got.Edits
		c.want.Lead, c.want.Turns = got.Lead, got.Turns // spans_test.go
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v", c.name, *got)
		}
	}
}

func TestGoogleBuild(t *testing.T) {
	for _, c := range []struct{ path, query, body, upstream, address, sent string }{
		{stream, "alt=sse&key=hw_caller&access_token=hw", `{ "contents":[{}],"x":1 }`, "gemini-9", "https://api.example/v1beta/models/gemini-9:streamGenerateContent?alt=sse", `{ "contents":[{}],"x":1 }`},
		{stream, "key=hw_caller", `{"contents":[{}]}`, "m", "https://api.example/v1beta/models/m:streamGenerateContent", `{"contents":[{}]}`},
		{generate, "alt=sse&prettyPrint=false", `{"model":"models/m","contents":[{}]}`, "tunedModels/a b?", "https://api.example/v1beta/tunedModels/a%20b%3F:generateContent?prettyPrint=false", `{"model":"tunedModels/a b?","contents":[{}]}`},
		{"/v1/models/m:generateContent", "", `{"contents":[{}],"model":"m"}`, "g", "https://api.example/v1/models/g:generateContent", `{"contents":[{}],"model":"g"}`},
		{"/v1beta/models/m:batchEmbedContents", "", `{"requests":[{"model":"models/m","content":{}},{"content":{},"model":"models/m"}]}`, "e", "https://api.example/v1beta/models/e:batchEmbedContents",
			`{"requests":[{"model":"models/e","content":{}},{"content":{},"model":"models/e"}]}`},
		{"/v1beta/models/m:countTokens", "", `{"generateContentRequest":{"contents":[{}],"model":"models/m"}}`, "e", "https://api.example/v1beta/models/e:countTokens", `{"generateContentRequest":{"contents":[{}],"model":"models/e"}}`},
	} {
		q, _ := url.ParseQuery(c.query)
		head := core.RequestHead{Path: c.path, Query: q, Header: http.Header{"X-Goog-Api-Key": {"hw_caller"}, "X-Goog-Api-Client": {"genai"}, "Cookie": {"s"}}}
		job, err := adapters.Google{}.Parse(head, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		req, _, err := adapters.Google{}.Build(t.Context(), job, nil, head, offerOf(core.FormatGoogle, c.upstream))
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		sent, _ := io.ReadAll(req.Body)
		if req.URL.String() != c.address || string(sent) != c.sent {
			t.Errorf("%s goes to %s\nwith %s", c.path, req.URL, sent)
		}
		want := http.Header{"X-Goog-Api-Key": {"sk-own"}, "Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"headway"}}
		if !reflect.DeepEqual(req.Header, want) {
			t.Errorf("%s: headers %v", c.path, req.Header)
		}
		if q.Encode() != head.Query.Encode() {
			t.Errorf("%s: the caller's query was changed to %v", c.path, head.Query)
		}
	}
}

// googleSSE writes responses as Google does.
func googleSSE(events ...string) string {
	return "data: " + strings.Join(events, "\r\n\r\ndata: ") + "\r\n\r\n"
}

func TestGoogleRead(t *testing.T) {
	some := core.Some[int64]
	part := func(p string) string {
		return `{"candidates":[{"content":{"parts":[` + p + `],"role":"model"},"index":0}]}`
	}
	usage := func(u string) string { return `{"usageMetadata":` + u + `}` }
	for _, c := range []struct {
		name  string
		body  string
		marks []core.Mark
		want  core.Answer
	}{
		{"kinds of part", googleSSE(part(`{"text":""}`), part(`{"text":" "}`), part(`{"thought":true,"text":"h\u00e9"}`), part(`{"text":"x","thought":true},{"text":"y"}`), part(`{"functionCall":{"name":"f","args":{}}}`),
			part(`{"functionCall":{}}`), part(`{"text":"","thoughtSignature":"c2ln"}`), part(`{"executableCode":{"code":"x"}},{"codeExecutionResult":{"output":"x"}},{"inlineData":{"data":"x"}},{"toolCall":{"a":1}}`), part(``),
			`{"candidates":[{"content":{}}]}`, `{"candidates":[{"index":0}]}`, part(`{"functionCall":{"name":"f","willContinue":true}}`)),
			[]core.Mark{0, text, reasoning, reasoning | text, tool, 0, 0, 0, 0, 0, 0, tool}, core.Answer{StreamedReasoning: true, OutputBytes: 1 + 3 + 2 + 22 + 32}},
		{"the finish", googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, `{"candidates":[{"finishReason":"MAX_TOKENS"}]}`),
			[]core.Mark{text | finish, finish}, core.Answer{Finish: "MAX_TOKENS", OutputBytes: 1}},
		{"a blocked prompt", googleSSE(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}`),
			[]core.Mark{finish}, core.Answer{Finish: "blocked:SAFETY", Reported: true, Usage: core.Usage{UncachedInput: some(4)}}},
		{"feedback alone", googleSSE(`{"promptFeedback":{"safetyRatings":[]}}`), []core.Mark{0}, core.Answer{}},
		{"thoughts beside candidates", googleSSE(usage(`{"promptTokenCount":3000,"cachedContentTokenCount":2048,"candidatesTokenCount":7,"thoughtsTokenCount":12,"totalTokenCount":3019}`)),
			[]core.Mark{0}, core.Answer{Reported: true, Usage: core.Usage{UncachedInput: some(952), CacheRead: some(2048), Output: some(19), Reasoning: some(12)}}},
		{"thoughts within candidates", googleSSE(usage(`{"promptTokenCount":10,"candidatesTokenCount":20,"thoughtsTokenCount":12,"totalTokenCount":30}`)),
			[]core.Mark{0}, core.Answer{Reported: true, Usage: core.Usage{UncachedInput: some(10), Output: some(20), Reasoning: some(12)}}},
		{"thoughts that cannot be within", googleSSE(usage(`{"promptTokenCount":10,"candidatesTokenCount":9,"thoughtsTokenCount":61,"totalTokenCount":19}`)),
			[]core.Mark{0}, core.Answer{Reported: true, Contradiction: true, Usage: core.Usage{UncachedInput: some(10), Output: some(9), Reasoning: some(61)}}},
		{"what tools put in", googleSSE(usage(`{"promptTokenCount":32,"candidatesTokenCount":25,"thoughtsTokenCount":37,"toolUsePromptTokenCount":4610,"totalTokenCount":4704}`)),
			[]core.Mark{0}, core.Answer{Reported: true, Usage: core.Usage{UncachedInput: some(4642), Output: some(62), Reasoning: some(37)}}},
		{"more cached than there is", googleSSE(usage(`{"promptTokenCount":7,"cachedContentTokenCount":161,"candidatesTokenCount":2}`)),
			[]core.Mark{0}, core.Answer{Reported: true, Usage: core.Usage{CacheRead: some(161), Output: some(2)}}},
		{"the last report, not one without figures", googleSSE(usage(`{"promptTokenCount":9,"candidatesTokenCount":15}`), usage(`{"promptTokenCount":87,"thoughtsTokenCount":78,"totalTokenCount":165}`), usage(`{"trafficType":"ON_DEMAND"}`), `{"usageMetadata":null}`),
			[]core.Mark{0, 0, 0, 0}, core.Answer{Reported: true, Usage: core.Usage{UncachedInput: some(87), Output: some(78), Reasoning: some(78)}}},
		{"input that grew behind the first output", googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":46,"candidatesTokenCount":1}}`, usage(`{"promptTokenCount":147,"candidatesTokenCount":9,"toolUsePromptTokenCount":360}`)),
			[]core.Mark{text, 0}, core.Answer{Reported: true, OutputBytes: 1, InputAtStart: some(46), Usage: core.Usage{UncachedInput: some(507), Output: some(9)}}},
		{"an error", googleSSE(part(`{"text":"a"}`), `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`),
			[]core.Mark{text, failed}, core.Answer{OutputBytes: 1, Err: &core.UpstreamError{Status: 503, Type: "UNAVAILABLE", Code: "503", Message: "busy"}}},
		{"a bare error", googleSSE(part(`{"text":"a"}`)) + "{\n \"error\": {\n  \"code\": 499,\n  \"message\": \"cancelled\",\n  \"status\": \"CANCELLED\"\n }\n}\n",
			[]core.Mark{text, failed}, core.Answer{OutputBytes: 1, Err: &core.UpstreamError{Status: 499, Type: "CANCELLED", Code: "499", Message: "cancelled"}}},
		{"no JSON, another's", "data: hello\n\ndata: {\"candidates\":[{\"content\":\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", []core.Mark{broken, broken, 0}, core.Answer{}},
	} {
		r := adapters.Google{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true, SSE: true}, nil)
		if got := readAll(t, r, c.body); !reflect.DeepEqual(got, c.marks) {
			t.Errorf("%s: marks %v, want %v", c.name, got, c.marks)
		}
		if got := r.Answer(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestGoogleReadsAnArray(t *testing.T) {
	r := adapters.Google{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	marks := readAll(t, r, "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a ] }\"}]}}]}\n,\n{\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":1}}\n]\n")
	if !reflect.DeepEqual(marks, []core.Mark{text, finish}) || r.Answer().Usage.Output.V != 1 {
		t.Errorf("%v %+v", marks, r.Answer())
	}
	r = adapters.Google{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	if marks := readAll(t, r, `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`); !reflect.DeepEqual(marks, []core.Mark{failed}) || r.Answer().Err.Status != 429 {
		t.Errorf("%v %+v", marks, r.Answer())
	}
}

func TestGoogleReadWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		op   core.Operation
		body string
		ok   bool
	}{
		{"an answer", core.OpGenerate, `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}}`, true},
		{"a blocked prompt", core.OpGenerate, `{"promptFeedback":{"blockReason":"OTHER"}}`, true},
		{"a count", core.OpCountTokens, `{"totalTokens":31}`, true},
		{"vectors", core.OpEmbeddings, `{"embedding":{"values":[0.1]}}`, true},
		{"html", core.OpGenerate, `<html>`, false},
		{"cut", core.OpGenerate, `{"candidates":[{"content"`, false},
		{"another's", core.OpGenerate, `{"choices":[]}`, false},
		{"no count", core.OpCountTokens, `{"candidates":[]}`, false},
		{"no vectors", core.OpEmbeddings, `{"totalTokens":31}`, false},
		{"an error", core.OpGenerate, `{"error":{"code":500,"status":"INTERNAL","message":"x"},"candidates":[]}`, false},
	} {
		r := adapters.Google{}.Reader(&core.Job{Operation: c.op}, nil)
		if err := r.ReadWhole([]byte(c.body)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if a := r.Answer(); a.Reported != (c.name == "an answer") || (a.Err != nil) != (c.name == "an error") {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

func TestGoogleReadError(t *testing.T) {
	for body, want := range map[string]core.UpstreamError{
		`{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`: {Status: 400, Type: "INVALID_ARGUMENT", Code: "API_KEY_INVALID", Message: "API key not valid."},
		`[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`:                                                                                                       {Status: 400, Type: "RESOURCE_EXHAUSTED", Code: "429", Message: "slow"},
		`[]`:       {Status: 400},
		`{}`:       {Status: 400},
		`not JSON`: {Status: 400},
	} {
		if got := (adapters.Google{}).Reader(&core.Job{}, nil).ReadError(400, []byte(body)); got != want {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

func TestGoogleErrors(t *testing.T) {
	events, array := adapters.Google{}.Writer(&core.Job{Streamed: true, SSE: true}), adapters.Google{}.Writer(&core.Job{Streamed: true})
	for _, c := range []struct {
		err  *core.Error
		want string
	}{
		{core.Field("contents", "required"), `{"error":{"code":400,"message":"contents: required","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"headway","reason":"invalid_request_error"}]}}`},
		{&core.Error{Kind: core.Busy, Msg: "too \"many\"", Hint: "wait"}, `{"error":{"code":429,"message":"too \"many\"; wait","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"headway","reason":"rate_limit_error"}]}}`},
		{&core.Error{Kind: core.Upstream, Code: "UNAVAILABLE", Msg: "a: busy"}, `{"error":{"code":502,"message":"a: busy","status":"UNAVAILABLE"}}`},
	} {
		same(t, "body", events.ErrorBody(c.err), c.want)
		same(t, "array", array.ErrorBody(c.err), c.want)
		frames := cut(t, core.SplitSSE, events.ErrorEvent(c.err))
		if len(frames) != 1 {
			t.Fatalf("%q", events.ErrorEvent(c.err))
		}
		same(t, "event", frames[0].Data, c.want)
		whole := append([]byte(`[{"candidates":[]}`), array.ErrorEvent(c.err)...)
		same(t, "element", whole, `[{"candidates":[]},`+c.want+`]`)
	}
	for kind, info := range core.Kinds {
		r := adapters.Google{}.Reader(&core.Job{}, nil)
		if got := r.ReadError(info.Status, events.ErrorBody(&core.Error{Kind: kind, Msg: "x"})); got.Type == "" || got.Message != "x" {
			t.Errorf("%s has no word of Google's: %+v", info.Name, got)
		}
	}
}

func TestGoogleFold(t *testing.T) {
	sse := &core.Job{Operation: core.OpGenerate, Streamed: true, SSE: true}
	got := roundTrip(t, "made up", adapters.Google{}, sse, []byte(googleSSE(
		`{"candidates":[{"content":{"parts":[{"text":"hm ","thought":true}],"role":"model"}}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9},"modelVersion":"g"}`,
		`{"candidates":[{"content":{"parts":[{"text":"so","thought":true},{"text":""},{"text":"a"}]},"index":0},{"content":{"parts":[{"text":"other"}]},"index":1}],"modelVersion":"g"}`,
		`{"candidates":[{"content":{"parts":[{"text":"<b>","thoughtSignature":"s1"},{"text":"c"}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12345678901,"totalTokenCount":14}}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"s2"},{"functionCall":{"name":"g","args":{}}}]},"safetyRatings":[1]}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s3"}]},"finishReason":"STOP","index":0,"safetyRatings":[2]}],"usageMetadata":{"trafficType":"ON_DEMAND"}}`)))
	same(t, "folded", got, `{"modelVersion":"g","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":12345678901,"totalTokenCount":14},"candidates":[
		{"content":{"role":"model","parts":[{"text":"hm so","thought":true},{"text":"a<b>","thoughtSignature":"s1"},{"text":"c"},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"s2"},
			{"functionCall":{"name":"g","args":{}}},{"text":"","thoughtSignature":"s3"}]},"finishReason":"STOP","index":0,"safetyRatings":[2]},
		{"content":{"parts":[{"text":"other"}]},"index":1}]}`)

	// The array says the same.
	array := &core.Job{Operation: core.OpGenerate, Streamed: true}
	same(t, "array", roundTrip(t, "array", adapters.Google{}, array, []byte(`[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]},{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}]`)),
		`{"candidates":[{"content":{"parts":[{"text":"ab"}]},"finishReason":"STOP"}]}`)
	same(t, "blocked", roundTrip(t, "blocked", adapters.Google{}, sse, []byte(googleSSE(`{"promptFeedback":{"blockReason":"SAFETY"}}`))), `{"promptFeedback":{"blockReason":"SAFETY"}}`)
}

func TestGoogleFoldsStreamedArguments(t *testing.T) {
	call := func(f string) string {
		return `{"candidates":[{"content":{"parts":[{"functionCall":` + f + `}]}}]}`
	}
	got := roundTrip(t, "arguments", adapters.Google{}, &core.Job{Operation: core.OpGenerate, Streamed: true, SSE: true}, []byte(googleSSE(
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"cook","willContinue":true},"thoughtSignature":"s"}]}}]}`,
		call(`{"partialArgs":[{"jsonPath":"$.recipe.steps[0]","stringValue":"boil","willContinue":true}],"willContinue":true}`),
		call(`{"partialArgs":[{"jsonPath":"$.recipe.steps[0]","stringValue":" water"}],"willContinue":true}`),
		call(`{"partialArgs":[{"jsonPath":"$.recipe.steps[1]","stringValue":"wait"},{"jsonPath":"$['odd.name'].n","numberValue":2.50},{"jsonPath":"$.fast","boolValue":false},{"jsonPath":"$.none","nullValue":null}],"willContinue":true}`),
		call(`{"partialArgs":[{"jsonPath":"$.far[99999999]","stringValue":"x"},{"jsonPath":"nowhere","stringValue":"x"},{"jsonPath":"$['open","stringValue":"x"}],"willContinue":true}`),
		call(`{}`),
		call(`{"name":"wash","willContinue":true}`),
		call(`{}`))))
	same(t, "folded", got, `{"candidates":[{"content":{"parts":[
		{"functionCall":{"name":"cook","args":{"recipe":{"steps":["boil water","wait"]},"odd.name":{"n":2.50},"fast":false,"none":null}},"thoughtSignature":"s"},
		{"functionCall":{"name":"wash","args":{}}}]}}]}`)
}

func TestGoogleFoldsNoError(t *testing.T) {
	for name, body := range map[string]string{"nothing": "", "an error": googleSSE(`{"candidates":[]}`, `{"error":{"code":500}}`)} {
		w := adapters.Google{}.Writer(nil)
		for _, f := range cut(t, core.SplitSSE, []byte(body)) {
			w.Fold(f)
		}
		if got, err := w.Folded(); err == nil {
			t.Errorf("%s folds to %s", name, got)
		}
	}
	for _, body := range []string{`{}`, `[]`, `<html>`, `{"error":{}}`} {
		if got, err := (adapters.Google{}).Writer(nil).Unfold([]byte(body)); err == nil {
			t.Errorf("%s unfolds to %s", body, got)
		}
	}
	frames, err := adapters.Google{}.Writer(&core.Job{Streamed: true, SSE: true}).Unfold([]byte("{\n \"candidates\": []\n}\n"))
	if err != nil || len(frames) != 1 || string(frames[0]) != "data: {\"candidates\":[]}\r\n\r\n" {
		t.Errorf("%q %v", frames, err)
	}
}

package sim_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"headway/embedded/sim"
)

// do sends a request to a provider on a clock of its own.
func do(t *testing.T, p *sim.Provider, method, path, body string, header ...string) (int, map[string]any, *http.Response) {
	t.Helper()
	r, err := http.NewRequest(method, "http://sim.test"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := p.Transport(sim.NewClock(start)).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(all, &v); err != nil {
		t.Fatalf("%s %s: %q is not a JSON object: %v", method, path, all, err)
	}
	return res.StatusCode, v, res
}

func askNow(t *testing.T, p *sim.Provider, f format, model, prompt string, stream bool, most int, tools string) heard {
	t.Helper()
	clock := sim.NewClock(start)
	h := f.ask(t, p.Transport(clock), clock.Now, model, prompt, stream, most, tools)
	if h.err != nil || h.status != 200 {
		t.Fatalf("%s: status %d, error %v", f.name, h.status, h.err)
	}
	return h
}

func TestAnswers(t *testing.T) {
	finished := map[string][2]any{
		"chat": {"stop", "length"}, "completions": {"stop", "length"}, "responses": {"completed", "incomplete"},
		"messages": {"end_turn", "max_tokens"}, "google": {"STOP", "MAX_TOKENS"}, "google array": {"STOP", "MAX_TOKENS"},
	}
	c := exact(func(c *sim.Config) { c.OutputTokens = 40; c.TokensPerEvent = 3 })
	for _, f := range formats {
		for _, stream := range []bool{true, false} {
			lengths := map[any]bool{}
			for _, prompt := range []string{"One.", "Two, please.", "Tell me about the harbour and its lamps."} {
				h := askNow(t, build(t, c), f, "any", prompt, stream, 0, "")
				if want := float64((len(prompt) + 3) / 4); h.prompt != want {
					t.Errorf("%s: %v prompt tokens of %q, want %v", f.name, h.prompt, prompt, want)
				}
				words := float64(len(strings.Fields(h.output)))
				if h.tokens != words || words < 20 || words > 60 {
					t.Errorf("%s: %v output tokens reported, %v sent, want 20 to 60", f.name, h.tokens, words)
				}
				if h.finish != finished[f.name][0] || !strings.HasSuffix(h.output, ".") {
					t.Errorf("%s: finish %v of %q", f.name, h.finish, h.output)
				}
				if again := askNow(t, build(t, c), f, "any", prompt, stream, 0, ""); again.output != h.output {
					t.Errorf("%s: the same request was answered with %q and %q", f.name, h.output, again.output)
				}
				lengths[words] = true
			}
			if len(lengths) == 1 {
				t.Errorf("%s: three requests had answers of one length", f.name)
			}
			h := askNow(t, build(t, c), f, "any@output=50", "One.", stream, 11, "")
			if h.tokens != 11.0 || len(strings.Fields(h.output)) != 11 || h.finish != finished[f.name][1] {
				t.Errorf("%s, at most 11 tokens: %v tokens, %q, finish %v", f.name, h.tokens, h.output, h.finish)
			}
		}
	}
}

func TestUsageIsAskedFor(t *testing.T) {
	for path, prompt := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"Hi"}]`, "/v1/completions": `"prompt":"Hi"`,
	} {
		for _, options := range []string{"", `,"stream_options":{"include_usage":false}`, `,"stream_options":{"include_usage":true}`} {
			r, _ := http.NewRequest("POST", "http://sim.test"+path, strings.NewReader(`{"model":"m","stream":true,`+prompt+options+`}`))
			res, err := build(t, exact(nil)).Transport(sim.NewClock(start)).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := io.ReadAll(res.Body)
			asked := strings.Contains(options, "true")
			if got := strings.Contains(string(all), `"choices":[],"usage":{`); got != asked {
				t.Errorf("%s with %q: usage chunk %v, want %v", path, options, got, asked)
			}
			if !asked && strings.Contains(string(all), "usage") {
				t.Errorf("%s with %q names usage that nobody asked for", path, options)
			}
			if !strings.HasSuffix(string(all), "data: [DONE]\n\n") {
				t.Errorf("%s does not end in [DONE]", path)
			}
		}
	}
}

func TestCachedShare(t *testing.T) {
	p := build(t, exact(func(c *sim.Config) { c.Cached = 0.25 }))
	_, v, _ := do(t, p, "POST", "/v1/messages", `{"model":"m@prompt=1000","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	if in, read := at(v, "usage", "input_tokens"), at(v, "usage", "cache_read_input_tokens"); in != 750.0 || read != 250.0 {
		t.Errorf("Messages report %v fresh and %v read, want 750 and 250: input is without the cache there", in, read)
	}
	_, v, _ = do(t, p, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, "X-Sim-Prompt-Tokens", "1000")
	if in, read := at(v, "usage", "prompt_tokens"), at(v, "usage", "prompt_tokens_details", "cached_tokens"); in != 1000.0 || read != 250.0 {
		t.Errorf("chat reports %v and %v of it cached, want 1000 and 250", in, read)
	}
	_, v, _ = do(t, p, "POST", "/v1beta/models/m@prompt=1000,cached=2000:generateContent", `{"contents":[{"parts":[{"text":"Hi"}]}]}`)
	if in, read := at(v, "usageMetadata", "promptTokenCount"), at(v, "usageMetadata", "cachedContentTokenCount"); in != 1000.0 || read != 1000.0 {
		t.Errorf("Google reports %v and %v of it cached, want 1000 and 1000", in, read)
	}
}

// TestPromptTexts: what a model reads counts, names and pictures do not.
func TestPromptTexts(t *testing.T) {
	p := build(t, exact(nil))
	for _, c := range []struct {
		path, body string
		bytes      int
		at         []any
	}{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"12345"},
			{"role":"user","content":[{"type":"text","text":"123"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
			{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"1234567890"}]}`, 5 + 3 + 7 + 10, []any{"usage", "prompt_tokens"}},
		{"/v1/messages", `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"12345","cache_control":{"type":"ephemeral"}}],"messages":[
			{"role":"user","content":"123"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"1234567890"}]}]}]}`,
			5 + 3 + 7 + 10, []any{"usage", "input_tokens"}},
		{"/v1/messages/count_tokens", `{"model":"m","system":"12345","messages":[{"role":"user","content":"123"}],"tools":[{"name":"f"}]}`,
			5 + 3 + 14, []any{"input_tokens"}},
		{"/v1/responses", `{"model":"m","instructions":"12345","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"123"}]},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c","output":"1234567890"}]}`,
			5 + 3 + 7 + 10, []any{"usage", "input_tokens"}},
		{"/v1beta/models/m:countTokens", `{"contents":[{"role":"user","parts":[{"text":"123"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},
			{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"b":2}}}]}]}`,
			3 + 7 + 7, []any{"totalTokens"}},
		{"/v1beta/models/m:countTokens", `{"generateContentRequest":{"model":"models/m","systemInstruction":{"parts":[{"text":"12345"}]},"contents":[{"parts":[{"text":"123"}]}]}}`,
			5 + 3, []any{"totalTokens"}},
	} {
		status, v, _ := do(t, p, "POST", c.path, c.body)
		if got, want := at(v, c.at...), float64((c.bytes+3)/4); status != 200 || got != want {
			t.Errorf("%s: status %d, %v prompt tokens, want %v", c.path, status, got, want)
		}
	}
}

func TestToolCalls(t *testing.T) {
	const want = `{"place":"Zürich 𝄞"}`
	calls := map[string]any{"chat": "tool_calls", "responses": "completed", "messages": "tool_use", "google": "STOP", "google array": "STOP"}
	for _, f := range formats {
		if f.tools == "" {
			continue
		}
		for _, stream := range []bool{true, false} {
			p := build(t, exact(nil))
			h := askNow(t, p, f, "m", "Please use a Tool.", stream, 0, f.tools)
			var got, expected any
			_, args, _ := strings.Cut("|"+strings.ReplaceAll(h.output, "look_up|", ""), "|")
			args = strings.TrimPrefix(args, "look_up")
			_ = json.Unmarshal([]byte(args), &got)
			_ = json.Unmarshal([]byte(want), &expected)
			if compact(got) != compact(expected) || h.finish != calls[f.name] {
				t.Errorf("%s, stream %v: arguments %q, finish %v", f.name, stream, h.output, h.finish)
			}
			if stream && f.name != "google" && f.name != "google array" && h.outputs < 3 {
				t.Errorf("%s: the call came in %d events", f.name, h.outputs)
			}
			for name, h := range map[string]heard{
				"without the word":         askNow(t, p, f, "m", "Just write.", stream, 0, f.tools),
				"without tools":            askNow(t, p, f, "m", "Please use a tool.", stream, 0, ""),
				"with too small an output": askNow(t, p, f, "m", "Please use a tool.", stream, 3, f.tools),
			} {
				if strings.Contains(h.output, "place") || len(strings.Fields(h.output)) < 3 {
					t.Errorf("%s, %s: %q is no text", f.name, name, h.output)
				}
			}
		}
	}
}

// TestToolChoice: a tool is called once, not again when its result is there, and
// a request may choose.
func TestToolChoice(t *testing.T) {
	const tools = `,"tools":[{"name":"first","input_schema":{}},{"name":"second","input_schema":{}}]`
	const asked = `{"role":"user","content":"Use a tool."}`
	p := build(t, exact(nil))
	for _, c := range []struct{ name, messages, choice, want string }{
		{"asked", asked, "", "first"},
		{"named in the text", `{"role":"user","content":"Use the tool SECOND."}`, "", "second"},
		{"chosen", `{"role":"user","content":"Hi"}`, `,"tool_choice":{"type":"tool","name":"second"}`, "second"},
		{"any", `{"role":"user","content":"Hi"}`, `,"tool_choice":{"type":"any"}`, "first"},
		{"none", asked, `,"tool_choice":{"type":"none"}`, ""},
		{"unknown", asked, `,"tool_choice":{"type":"tool","name":"third"}`, ""},
		{"instructions behind it", asked + `,{"role":"system","content":"Be brief."}`, "", "first"},
		{"result", asked + `,{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"first","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"the tool says 5"},{"type":"text","text":"tool"}]}`, "", ""},
		{"answered", asked + `,{"role":"assistant","content":"No tool."}`, "", ""},
	} {
		_, v, _ := do(t, p, "POST", "/v1/messages", `{"model":"m","max_tokens":50,"messages":[`+c.messages+`]`+tools+c.choice+`}`)
		if got := text(v, "content", 0, "name"); got != c.want {
			t.Errorf("%s: %q was called, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"tool"},{"role":"assistant","tool_calls":[]},{"role":"tool","content":"tool"}],
			"tools":[{"type":"function","function":{"name":"f"}}]}`, "assistant stop"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}],"tool_choice":{"type":"function","function":{"name":"f"}},
			"tools":[{"type":"function","function":{"name":"f"}}]}`, "assistant tool_calls"},
	} {
		_, v, _ := do(t, p, "POST", c.path, c.body)
		if got := text(v, "choices", 0, "message", "role") + " " + text(v, "choices", 0, "finish_reason"); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

func TestBadRequests(t *testing.T) {
	p := build(t, exact(func(c *sim.Config) { c.Models = []string{"known"} }))
	const chat, message, responses, google = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1beta/models/known:generateContent"
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", chat, `{`, 400, "not valid JSON"},
		{"POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}]} {}`, 400, "not valid JSON"},
		{"POST", chat, `[]`, 400, "an array, not an object"},
		{"POST", chat, `{"messages":[{"role":"user","content":"Hi"}]}`, 400, "model: "},
		{"POST", chat, `{"model":5,"messages":[{"role":"user","content":"Hi"}]}`, 400, "model: a number"},
		{"POST", chat, `{"model":"known"}`, 400, "messages: "},
		{"POST", chat, `{"model":"known","messages":[{"content":"Hi"}]}`, 400, "messages[0].role: "},
		{"POST", chat, `{"model":"known","messages":[null]}`, 400, "messages[0].role: "},
		{"POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}],"max_tokens":0}`, 400, "max_tokens: 0"},
		{"POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}],"n":2}`, 400, "n: "},
		{"POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}],"stream":"yes"}`, 400, "stream: a string"},
		{"POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}],"tools":{}}`, 400, "tools: "},
		{"POST", chat, `{"model":"other","messages":[{"role":"user","content":"Hi"}]}`, 404, `"other"`},
		{"POST", chat, `{"model":"known@output=0","messages":[{"role":"user","content":"Hi"}]}`, 400, "model: "},
		{"POST", chat, `{"model":"known@speed=9","messages":[{"role":"user","content":"Hi"}]}`, 400, "model: "},
		{"POST", chat, `{"model":"known@2026","messages":[{"role":"user","content":"Hi"}]}`, 404, `"known@2026"`},
		{"POST", "/v1/completions", `{"model":"known","prompt":["a","b"]}`, 400, "prompt: "},
		{"POST", "/v1/completions", `{"model":"known","prompt":{}}`, 400, "prompt: "},
		{"POST", "/v1/embeddings", `{"model":"known","input":[]}`, 400, "input: "},
		{"POST", "/v1/embeddings", `{"model":"known","input":"a","dimensions":0}`, 400, "dimensions: "},
		{"POST", "/v1/embeddings", `{"model":"known","input":"a","encoding_format":"hex"}`, 400, "encoding_format: "},
		{"POST", responses, `{"model":"known"}`, 400, "input: "},
		{"POST", responses, `{"model":"known","input":"Hi","max_output_tokens":"5"}`, 400, "max_output_tokens: a string"},
		{"POST", responses, `{"model":"other","input":"Hi"}`, 404, `"other"`},
		{"POST", message, `nope`, 400, "not valid JSON"},
		{"POST", message, `{"model":"known","messages":[{"role":"user","content":"Hi"}]}`, 400, "max_tokens: "},
		{"POST", message, `{"model":"known","max_tokens":5,"messages":[]}`, 400, "messages: "},
		{"POST", message, `{"model":"other","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`, 404, `"other"`},
		{"POST", google, `{"contents":[]}`, 400, "contents: "},
		{"POST", google, `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"candidateCount":2}}`, 400, "generationConfig.candidateCount: "},
		{"POST", google, `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":"x"}}`, 400, "generationConfig.maxOutputTokens: "},
		{"POST", "/v1beta/models/other:generateContent", `{"contents":[{"parts":[{"text":"Hi"}]}]}`, 404, `"other"`},
		{"POST", "/v1beta/models/known:dream", `{}`, 404, "not served"},
		{"POST", "/v1/nothing", `{}`, 404, "/v1/nothing"},
		{"PUT", chat, `{}`, 405, "PUT"},
		{"GET", chat, ``, 404, chat},
		{"GET", "/v1/models/other", ``, 404, "/v1/models/other"},
	} {
		status, v, res := do(t, p, c.method, c.path, c.body)
		message := text(v, "error", "message")
		if status != c.status || !strings.Contains(message, c.says) {
			t.Errorf("%s %s with %s: %d %q, want %d and %q", c.method, c.path, c.body, status, message, c.status, c.says)
		}
		switch { // the shape of each format
		case strings.HasPrefix(c.path, "/v1/messages"):
			if v["type"] != "error" || text(v, "error", "type") == "" {
				t.Errorf("%s: %v is not Anthropic's error", c.path, v)
			}
		case strings.HasPrefix(c.path, "/v1beta/"):
			if at(v, "error", "code") != float64(c.status) || text(v, "error", "status") == "" {
				t.Errorf("%s: %v is not Google's error", c.path, v)
			}
		default:
			if text(v, "error", "type") == "" {
				t.Errorf("%s: %v is not OpenAI's error", c.path, v)
			}
		}
		if status == 405 && res.Header.Get("Allow") != "POST" {
			t.Errorf("405 allows %q", res.Header.Get("Allow"))
		}
	}
	if status, v, _ := do(t, p, "POST", chat, `{"model":"known","messages":[{"role":"user","content":"Hi"}]}`, "X-Sim-Prompt-Tokens", "-1"); status != 400 {
		t.Errorf("a bad X-Sim-Prompt-Tokens gave %d %v", status, v)
	}
}

func TestModelLists(t *testing.T) {
	p := build(t, exact(func(c *sim.Config) { c.Models = []string{"one", "two:latest"} }))
	for _, c := range []struct {
		path, header string
		list         []any
		name         string
	}{
		{"/v1/models", "", []any{"data"}, "id"},
		{"/v1/models", "Anthropic-Version", []any{"data"}, "id"},
		{"/v1beta/models", "", []any{"models"}, "name"},
	} {
		var header []string
		if c.header != "" {
			header = []string{c.header, "2023-06-01"}
		}
		_, v, _ := do(t, p, "GET", c.path, "", header...)
		prefix := ""
		if c.name == "name" {
			prefix = "models/"
		}
		for i, name := range []string{"one", "two:latest"} {
			if got := text(at(v, c.list...), i, c.name); got != prefix+name {
				t.Errorf("%s: model %d is %q, want %q", c.path, i, got, prefix+name)
			}
			_, one, _ := do(t, p, "GET", c.path+"/"+name, "", header...)
			if got := text(one, c.name); got != prefix+name {
				t.Errorf("%s/%s is %q", c.path, name, got)
			}
		}
		if c.header != "" && (v["has_more"] != false || v["first_id"] != "one" || v["last_id"] != "two:latest") {
			t.Errorf("%v is not Anthropic's list", v)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	p := build(t, exact(nil))
	for _, c := range []struct {
		input  string
		n      int
		tokens float64
	}{
		{`"Hello, harbour"`, 1, 4}, {`["a","bcdef"]`, 2, 3}, {`[1,2,3]`, 1, 3}, {`[[1,2],[3]]`, 2, 3}, {`""`, 1, 0},
	} {
		status, v, _ := do(t, p, "POST", "/v1/embeddings", `{"model":"m","input":`+c.input+`,"dimensions":12}`)
		_, packed, _ := do(t, p, "POST", "/v1/embeddings", `{"model":"m","input":`+c.input+`,"dimensions":12,"encoding_format":"base64"}`)
		data, _ := v["data"].([]any)
		if status != 200 || len(data) != c.n || at(v, "usage", "prompt_tokens") != c.tokens {
			t.Fatalf("%s: status %d, %v", c.input, status, v)
		}
		for i := range data {
			plain, _ := at(data, i, "embedding").([]any)
			raw, err := base64.StdEncoding.DecodeString(text(packed, "data", i, "embedding"))
			if err != nil || len(plain) != 12 || len(raw) != 48 {
				t.Fatalf("%s: %d numbers, %d bytes, %v; want 12, 48", c.input, len(plain), len(raw), err)
			}
			sum := 0.0
			for j, x := range plain {
				f, _ := x.(float64)
				sum += f * f
				if bits := binary.LittleEndian.Uint32(raw[4*j:]); math.Float32frombits(bits) != float32(f) {
					t.Errorf("%s: number %d is %v and, packed, %v", c.input, j, f, math.Float32frombits(bits))
				}
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("%s: a vector has length %v", c.input, math.Sqrt(sum))
			}
		}
	}
	_, v, _ := do(t, p, "POST", "/v1/embeddings", `{"model":"m","input":["a","b"],"dimensions":4}`)
	if a, b := compact(at(v, "data", 0, "embedding")), compact(at(v, "data", 1, "embedding")); a == b {
		t.Errorf("two inputs have one vector, %s", a)
	}
}

// TestStreamFrames: the order of a stream's events, and what readers check of
// them besides their texts.
func TestStreamFrames(t *testing.T) {
	const input = `"model":"m@output=3","stream":true,"tools":[`
	for _, c := range []struct{ path, body, want string }{
		{"/v1/responses", `{"input":"Hi",` + input + `]}`, "response.created response.in_progress response.output_item.added " +
			"response.content_part.added response.output_text.delta response.output_text.delta response.output_text.delta " +
			"response.output_text.done response.content_part.done response.output_item.done response.completed"},
		{"/v1/responses", `{"input":"Hi","max_output_tokens":2,` + input + `]}`, "response.created response.in_progress response.output_item.added " +
			"response.content_part.added response.output_text.delta response.output_text.delta " +
			"response.output_text.done response.content_part.done response.output_item.done response.incomplete"},
		{"/v1/responses", `{"input":"A tool",` + input + `{"type":"function","name":"f"}]}`, "response.created response.in_progress " +
			"response.output_item.added response.function_call_arguments.delta response.function_call_arguments.done " +
			"response.output_item.done response.completed"},
		{"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],` + input + `]}`, "message_start ping content_block_start " +
			"content_block_delta content_block_delta content_block_delta content_block_stop message_delta message_stop"},
	} {
		r, _ := http.NewRequest("POST", "http://sim.test"+c.path, strings.NewReader(c.body))
		res, err := build(t, exact(nil)).Transport(sim.NewClock(start)).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := io.ReadAll(res.Body)
		var got []string
		for frame := range strings.SplitSeq(strings.TrimSuffix(string(all), "\n\n"), "\n\n") {
			name, data, _ := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
			var v map[string]any
			if err := json.Unmarshal([]byte(data), &v); err != nil || v["type"] != name {
				t.Errorf("%s: event %s has type %v, %v", c.path, name, v["type"], err)
			}
			if n, ok := v["sequence_number"]; c.path == "/v1/responses" && (!ok || n != float64(len(got))) {
				t.Errorf("%s has the number %v, want %d", name, n, len(got))
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s\n got %v\nwant %s", c.path, c.body, got, c.want)
		}
	}
}

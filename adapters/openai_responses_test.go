package adapters_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

const responsesPath = "/v1/responses"

func TestResponsesParseMistakes(t *testing.T) {
	call := func(rest string) string { return `{"model":"m","input":"hi"` + rest + `}` }
	items := func(item string) string {
		return `{"model":"m","input":[{"role":"user","content":"hi"},` + item + `]}`
	}
	for _, c := range []struct{ name, body, param string }{
		{"nothing", ``, "body"},
		{"a string", `"hi"`, "body"},
		{"cut off", `{"model":"m","input":"hi"`, ""},
		{"data behind it", call("") + `[]`, ""},
		{"half a character", `{"model":"m","input":"\udc00"}`, ""},
		{"no model", `{"input":"hi"}`, "model"},
		{"model twice", call(`,"model":"n"`), "model"},
		{"model in capitals", call(`,"MODEL":"n"`), "model"},
		{"stream twice", call(`,"stream":true,"str\u0065am":false`), "stream"},
		{"stream a number", call(`,"stream":1`), "stream"},
		{"input twice", call(`,"input":"x"`), "input"},
		{"no input", `{"model":"m"}`, "input"},
		{"input null", `{"model":"m","input":null}`, "input"},
		{"input empty", `{"model":"m","input":[]}`, "input"},
		{"input a number", `{"model":"m","input":1}`, "input"},
		{"item a string", items(`"hi"`), "input[1]"},
		{"item without role", items(`{"content":"hi"}`), "input[1].role"},
		{"message without role", items(`{"type":"message","content":"hi"}`), "input[1].role"},
		{"role a number", items(`{"role":1,"content":"hi"}`), "input[1].role"},
		{"type a number", items(`{"type":1}`), "input[1].type"},
		{"message without content", items(`{"role":"user"}`), "input[1].content"},
		{"content null", items(`{"role":"user","content":null}`), "input[1].content"},
		{"content a number", items(`{"role":"user","content":1}`), "input[1].content"},
		{"part a string", items(`{"role":"user","content":["x"]}`), "input[1].content[0]"},
		{"part without type", items(`{"role":"user","content":[{"type":"input_text","text":"x"},{"text":"y"}]}`), "input[1].content[1].type"},
		{"part without text", items(`{"role":"user","content":[{"type":"input_text"}]}`), "input[1].content[0].text"},
		{"output a number", items(`{"type":"function_call_output","call_id":"a","output":1}`), "input[1].output"},
		{"instructions a list", call(`,"instructions":[]`), "instructions"},
		{"max_output_tokens 0", call(`,"max_output_tokens":0`), "max_output_tokens"},
		{"max_output_tokens a word", call(`,"max_output_tokens":"9"`), "max_output_tokens"},
		{"tools an object", call(`,"tools":{}`), "tools"},
		{"tool a number", call(`,"tools":[1]`), "tools[0]"},
		{"text a word", call(`,"text":"json"`), "text"},
		{"format a word", call(`,"text":{"format":"json"}`), "text.format"},
		{"format without type", call(`,"text":{"format":{}}`), "text.format.type"},
		{"temperature a word", call(`,"temperature":"hot"`), "temperature"},
		{"options without a stream", call(`,"stream_options":{"include_obfuscation":false}`), "stream_options"},
		{"options a word", call(`,"stream":true,"stream_options":"x"`), "stream_options"},
		{"in the background", call(`,"background":true`), "background"},
	} {
		_, err := adapters.Responses{}.Parse(core.RequestHead{Path: responsesPath}, []byte(c.body))
		mistake(t, c.name, err, c.param)
	}
	_, err := adapters.Responses{}.Parse(core.RequestHead{Path: "/v1/responses/resp_1/cancel"}, []byte(call("")))
	mistake(t, "another path", err, "")
}

func TestResponsesParseFacts(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       core.Job
	}{
		{"a text", `{"model":"m","input":"h\u00e9\n","x":{"y":[1]}}`, core.Job{Model: "m", PromptBytes: 4}},
		{"kept at the provider", `{"model":"m","previous_response_id":"resp_1","stream":true,"stream_options":{"include_obfuscation":false}}`, core.Job{Model: "m", Streamed: true, Bound: "previous_response_id", Beyond: true}},
		{"a prompt, no input", `{"model":"m","prompt":{"id":"p"},"input":[]}`, core.Job{Model: "m", Bound: "prompt", Beyond: true}},
		{
			"everything", `{"model":"m","max_output_tokens":16,"instructions":"be","background":false,"text":{"format":{"type":"json_schema"},"verbosity":"low"},
			"tools":[{"type":"namespace","tools":[]},{"type":"web_search"}],"input":[{"role":"developer","content":[{"type":"input_text","text":"ab"},
			{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("QUJD", 5000) + `","detail":"auto"},{"type":"input_file","file_id":null,"file_data":"eA=="}]},
			{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s"}],"content":null,"encrypted_content":"xx"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"42"},
			{"type":"computer_call_output","call_id":"d","output":{"type":"computer_screenshot","image_url":"data:,"}}]}`,
			core.Job{
				Model: "m", MaxOutput: core.Some[int64](16), Beyond: true, Features: core.FeatureTools | core.FeatureImages | core.FeatureSchema | core.FeatureDocuments,
				PromptBytes: len("be") + len(`"type":"json_schema"}`) + len(`[{"type":"namespace","tools":[]},{"type":"web_search"}]`) + len("developer"+"ab"+"s"+"xx"+"f"+"{}"+"42") + 3*3000,
			},
		},
	} {
		job, err := adapters.Responses{}.Parse(core.RequestHead{Path: responsesPath}, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := *job
		if c.body[got.Edits.Model.From:got.Edits.Model.To] != `"m"` {
			t.Errorf("%s: spans %+v", c.name, got.Edits)
		}
		got.Body, got.Edits, got.Lead, got.Turns = nil, core.Edits{}, nil, nil // texts: spans_test.go
		if c.want.Format, c.want.Operation = core.FormatResponses, core.OpGenerate; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", c.name, got, c.want)
		}
	}
}

func TestResponsesBuild(t *testing.T) {
	offer := offerOf(core.FormatResponses, "big")
	offer.Provider.BaseURL = "https://api.example/v1"
	req, sent := built(t, adapters.Responses{}, core.RequestHead{Path: responsesPath}, `{"input":"hi", "model":"m","stream":true}`, offer)
	if req.URL.String() != "https://api.example/v1/responses" || req.Header.Get("Authorization") != "Bearer sk-own" || sent != `{"input":"hi", "model":"big","stream":true}` {
		t.Errorf("%s %v: %s", req.URL, req.Header, sent)
	}
}

func TestResponsesRead(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       core.Mark
	}{
		{"created", `{"type":"response.created","sequence_number":0,"response":{"id":"r","output":[],"usage":null,"error":null}}`, 0},
		{"an item", `{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"a","type":"function_call","name":"f","arguments":""}}`, 0},
		{"text", `{"type":"response.output_text.delta","delta":"a"}`, text},
		{"type last", `{"delta":" ","type":"response.output_text.delta"}`, text},
		{"empty", `{"type":"response.output_text.delta","delta":""}`, 0},
		{"null", `{"type":"response.output_text.delta","delta":null}`, 0},
		{"reasoning", `{"type":"response.reasoning_text.delta","delta":"a"}`, reasoning},
		{"its summary", `{"type":"response.reasoning_summary_text.delta","delta":"a"}`, reasoning},
		{"refusal", `{"type":"response.refusal.delta","delta":"a"}`, core.MarkRefusal},
		{"arguments", `{"type":"response.function_call_arguments.delta","delta":"{"}`, tool},
		{"a server's tool", `{"type":"response.code_interpreter_call_code.delta","delta":"x"}`, tool},
		{"a type of the future", `{"type":"response.dance.delta","delta":{"step":1}}`, tool},
		{"done is no output", `{"type":"response.function_call_arguments.done","arguments":"{}"}`, 0},
		{"completed", `{"type":"response.completed","response":{"status":"completed","output":[]}}`, ended},
		{"incomplete", `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`, ended},
		{"failed", `{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}`, ended | failed},
		{"error", `{"type":"error","code":"rate_limit_exceeded","message":"x"}`, failed},
		{"error inside", `{"type":"error","error":{"type":"server_error","message":"x"}}`, failed},
		{"error alone", `{"error":{"message":"x"}}`, failed},
		{"error null", `{"type":"response.output_text.delta","delta":"a","error":null}`, text},
		{"keepalive", `{"type":"keepalive","sequence_number":4}`, 0},
		{"no type", `{"delta":"a"}`, 0},
		{"end", `[DONE]`, core.MarkEnd},
		{"not JSON", `{"type":"response.output_text.delta","delta":"a`, broken},
		{"another JSON", `"response.completed"`, broken},
	} {
		r := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
		f := core.Frame{Raw: []byte("data: " + c.data + "\n\n"), Data: []byte(c.data)}
		if got := r.Read(&f); got != c.want {
			t.Errorf("%s: marked %b, want %b", c.name, got, c.want)
		}
		if a := r.Answer(); c.want.Has(core.MarkError) != (a.Err != nil) || c.want.Has(core.MarkError) && c.name != "failed" && a.Err.Message != "x" {
			t.Errorf("%s: err %+v", c.name, r.Answer().Err)
		}
	}
	r := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
	r.Read(&core.Frame{Data: []byte(`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"x"},"usage":{"input_tokens":5,"output_tokens":2}}}`)})
	if a := r.Answer(); a.Err.Status != 429 || a.Err.Message != "x" || a.Usage.UncachedInput != core.Some[int64](5) || a.Finish != "failed" {
		t.Errorf("failed: %+v %+v", a, a.Err)
	}
	r = adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
	if got := r.Read(&core.Frame{Name: "response.output_text.delta", Data: []byte(`{"delta":"a"}`)}); got != text {
		t.Errorf("typed by its name alone it is marked %b", got)
	}
}

func TestResponsesReadWhole(t *testing.T) {
	for name, body := range map[string]string{
		"nothing": ``, "a page": `<html>`, "no output": `{"id":"r"}`, "output null": `{"output":null}`, "an error": `{"error":{"message":"quota"},"output":[]}`, "data behind it": `{"output":[]}1`,
	} {
		r := adapters.Responses{}.Reader(&core.Job{}, nil)
		if err := r.ReadWhole([]byte(body)); err == nil || strings.Contains(err.Error(), "quota") {
			t.Errorf("%s: %v", name, err)
		}
		if (name == "an error") != (r.Answer().Err != nil) {
			t.Errorf("%s: err %v", name, r.Answer().Err)
		}
	}
	r := adapters.Responses{}.Reader(&core.Job{}, nil)
	err := r.ReadWhole([]byte(`{"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete","output":[{"type":"message","content":[{"type":"output_text","text":"h\u00e9"}]},
		{"type":"function_call","arguments":"{}"}],"usage":{"input_tokens":64,"output_tokens":9}}`))
	if a := r.Answer(); err != nil || a.Finish != "max_output_tokens" || a.OutputBytes != 5 || a.Usage.Output != core.Some[int64](9) {
		t.Errorf("%v %+v", err, a)
	}
}

// relayedStream is what a client gets of a stream.
func relayedStream(t *testing.T, stream string) string {
	t.Helper()
	r := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
	var out strings.Builder
	for _, f := range cut(t, r.Split(), []byte(stream)) {
		r.Read(&f)
		out.Write(f.Raw)
	}
	return out.String()
}

// checkIndexed puts a stream together as OpenAI's own SDKs do, and refuses what
// they refuse.
func checkIndexed(t *testing.T, stream string) (texts []string) {
	t.Helper()
	type item struct {
		ID    string
		parts map[string]int
		text  string
	}
	var items []item
	for i, f := range cut(t, core.SplitSSE, []byte(stream)) {
		var e struct {
			Type    string
			Seq     *int   `json:"sequence_number"`
			Output  *int   `json:"output_index"`
			Content *int   `json:"content_index"`
			Summary *int   `json:"summary_index"`
			ItemID  string `json:"item_id"`
			Item    *struct{ ID string }
			Delta   string
		}
		if err := json.Unmarshal(f.Data, &e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if f.Name != "" && f.Name != e.Type {
			t.Errorf("event %d is named %s and is %s", i, f.Name, e.Type)
		}
		if e.Seq == nil || *e.Seq != i {
			t.Errorf("event %d: %s", i, f.Data)
		}
		if e.Item == nil && e.ItemID == "" {
			continue
		}
		switch {
		case e.Output == nil:
			t.Fatalf("no output_index: %s", f.Data)
		case e.Type == "response.output_item.added":
			if *e.Output != len(items) || e.Item.ID == "" {
				t.Fatalf("item out of place: %s", f.Data)
			}
			items = append(items, item{ID: e.Item.ID, parts: map[string]int{}})
			continue
		case *e.Output >= len(items):
			t.Fatalf("no item there: %s", f.Data)
		}
		it := &items[*e.Output]
		if e.Item != nil && e.Item.ID != it.ID || e.ItemID != "" && e.ItemID != it.ID {
			t.Errorf("not item %s: %s", it.ID, f.Data)
		}
		list, index := "content", e.Content
		if strings.HasPrefix(e.Type, "response.reasoning_summary_") {
			list, index = "summary", e.Summary
		}
		switch family, step, _ := cutLast(e.Type); {
		case step == "added":
			if index == nil || *index != it.parts[list] {
				t.Fatalf("part out of place: %s", f.Data)
			}
			it.parts[list]++
		case strings.HasSuffix(family, "_text") || strings.HasSuffix(family, "refusal") || strings.HasSuffix(family, "_part"):
			if index == nil || *index >= it.parts[list] {
				t.Fatalf("no part there: %s", f.Data)
			}
		}
		it.text += e.Delta
	}
	for _, it := range items {
		texts = append(texts, it.text)
	}
	return texts
}

func cutLast(s string) (before, after string, ok bool) {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func TestResponsesRepair(t *testing.T) {
	llama := recorded(t, "llamacpp/responses-stream.sse")
	if texts := checkIndexed(t, relayedStream(t, llama)); len(texts) != 1 || texts[0] != "Cheap is good when the dark canal." {
		t.Errorf("llama-server's stream says %q", texts)
	}
	ollama := recorded(t, "ollama/v1-responses-stream.sse")
	out := relayedStream(t, ollama)
	if texts := checkIndexed(t, out); len(texts) != 2 || !strings.HasPrefix(texts[0], "Hmm your question") || !strings.HasPrefix(texts[1], "The clock") {
		t.Errorf("Ollama's stream says %q", texts)
	}
	if strings.Count(out, "response.reasoning_summary_part.added") != 2 { // its name and its type
		t.Errorf("the summary is opened another number of times")
	}
	// What is whole already stays, byte for byte.
	for name, stream := range map[string]string{"llama-server": relayedStream(t, llama), "Ollama": out, "none": ": hi\n\ndata: [DONE]\n\n"} {
		if again := relayedStream(t, stream); again != stream {
			t.Errorf("%s: repaired again it is\n%s", name, again)
		}
	}

	// llama-server with thinking and two calls: nothing is opened, the items end
	// after all deltas, and calls have no id of their own.
	bare := sse(
		`{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress"}}`,
		`{"type":"response.output_item.added","item":{"id":"rs","summary":[],"type":"reasoning","content":[],"status":"in_progress"}}`,
		`{"type":"response.reasoning_text.delta","delta":"h","item_id":"rs"}`,
		`{"type":"response.reasoning_text.delta","delta":"m","item_id":"rs"}`,
		`{"type":"response.output_item.added","item":{"content":[],"id":"msg","role":"assistant","type":"message"}}`,
		`{"type":"response.content_part.added","item_id":"msg","part":{"type":"output_text","text":""}}`,
		`{"type":"response.output_text.delta","item_id":"msg","delta":"a"}`,
		`{"type":"response.output_item.added","item":{"arguments":"","call_id":"fc_1","name":"f","type":"function_call"}}`,
		`{"type":"response.function_call_arguments.delta","delta":"{","item_id":"fc_1"}`,
		`{"type":"response.output_item.added","item":{"arguments":"","call_id":"fc_2","name":"g","type":"function_call"}}`,
		`{"type":"response.function_call_arguments.delta","delta":"[","item_id":"fc_2"}`,
		`{"type":"response.output_item.done","item":{"id":"rs","summary":[],"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]}}`,
		`{"type":"response.output_text.done","item_id":"msg","text":"a"}`,
		`{"type":"response.output_item.done","item":{"type":"function_call","arguments":"{","call_id":"fc_1","name":"f"}}`,
		`{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
	)
	if texts := checkIndexed(t, relayedStream(t, bare)); fmt.Sprint(texts) != "[hm a { []" {
		t.Errorf("the bare stream says %q", texts)
	}
	// The same with data over two lines, and with CR LF.
	split := strings.ReplaceAll(bare, `","`, "\",\ndata: \"")
	if texts := checkIndexed(t, relayedStream(t, split)); fmt.Sprint(texts) != "[hm a { []" {
		t.Errorf("over two lines it says %q", texts)
	}
	if texts := checkIndexed(t, relayedStream(t, strings.ReplaceAll(bare, "\n", "\r\n"))); fmt.Sprint(texts) != "[hm a { []" {
		t.Errorf("with CR LF it says %q", texts)
	}
	// A stream that only has no sequence numbers, as OpenAI's once were, and one
	// that was cut before its items, are left alone.
	for name, stream := range map[string]string{
		"no sequence numbers": sse(`{"type":"response.created","response":{"id":"r","output":[]}}`, `{"type":"response.output_item.added","output_index":0,"item":{"id":"a","type":"message","content":[]}}`,
			`{"type":"response.output_text.delta","item_id":"a","output_index":0,"content_index":0,"delta":"x"}`),
		"no items":                  sse(`{"type":"response.output_text.delta","sequence_number":1,"item_id":"a","output_index":0,"content_index":0,"delta":"x"}`),
		"a summary without an item": sse(`{"type":"response.reasoning_summary_text.delta","sequence_number":1,"item_id":"a","output_index":0,"summary_index":0,"delta":"x"}`),
		"a huge index":              sse(`{"type":"response.output_item.added","sequence_number":1,"output_index":1000000000,"item":{"id":"a","type":"message"}}`),
	} {
		if got := relayedStream(t, stream); got != stream {
			t.Errorf("%s: changed to\n%s", name, got)
		}
	}
}

func TestResponsesErrors(t *testing.T) {
	w := adapters.Responses{}.Writer(&core.Job{Streamed: true})
	e := &core.Error{Kind: core.Timeout, Msg: "the \"offer\" is silent", Hint: "try again"}
	same(t, "body", w.ErrorBody(e), `{"error":{"message":"the \"offer\" is silent; try again","type":"server_error","param":null,"code":"timeout_error"}}`)
	r := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
	event := string(w.ErrorEvent(e))
	marks := readAll(t, r, event)
	if want := []core.Mark{failed, ended | failed}; !reflect.DeepEqual(marks, want) {
		t.Errorf("the events are marked %v, want %v", marks, want)
	}
	if got := r.Answer().Err; got == nil || got.Message != "the \"offer\" is silent; try again" || got.Status != 504 {
		t.Errorf("they read as %+v", got)
	}
	if !strings.HasPrefix(event, "event: error\ndata: {") || !strings.Contains(event, "\n\nevent: response.failed\ndata: {") {
		t.Errorf("events %q", event)
	}
}

func TestResponsesFold(t *testing.T) {
	// A terminal event that leaves the output out: it is put together.
	stream := sse(
		`{"type":"response.created","response":{"id":"r","output":[]}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning_summary_part.added","output_index":0,"item_id":"rs","summary_index":0,"part":{"type":"summary_text","text":""}}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs","summary_index":0,"delta":"h"}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs","summary_index":0,"delta":"m"}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg","type":"message","role":"assistant","content":[]}}`,
		`{"type":"response.content_part.added","output_index":1,"item_id":"msg","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
		`{"type":"response.output_text.delta","output_index":1,"item_id":"msg","content_index":0,"delta":"a"}`,
		`{"type":"response.output_text.delta","output_index":1,"item_id":"msg","content_index":0,"delta":"b"}`,
		`{"type":"response.refusal.delta","output_index":1,"item_id":"msg","content_index":1,"delta":"no"}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc","type":"function_call","call_id":"c","name":"f","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc","delta":"{"}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"item_id":"fc","delta":"}"}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"id":"x","type":"web_search_call"}}`,
		`{"type":"response.output_item.done","output_index":3,"item":{"id":"x","type":"web_search_call","status":"completed"}}`,
		`{"type":"response.completed","response":{"id":"r","status":"completed"}}`,
	)
	want := `{"id":"r","status":"completed","output":[{"id":"rs","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},
		{"id":"msg","type":"message","role":"assistant","content":[{"type":"output_text","text":"ab","annotations":[]},{"type":"refusal","refusal":"no"}]},
		{"id":"fc","type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"id":"x","type":"web_search_call","status":"completed"}]}`
	same(t, "with indexes", roundTrip(t, "with indexes", adapters.Responses{}, &core.Job{Streamed: true}, []byte(stream)), want)
	bare := stream
	for i := range 4 {
		bare = strings.ReplaceAll(bare, fmt.Sprintf(`"output_index":%d,`, i), "")
	}
	bare = strings.NewReplacer(`"content_index":0,`, "", `"summary_index":0,`, "").Replace(bare)
	same(t, "without", roundTrip(t, "without", adapters.Responses{}, &core.Job{Streamed: true}, []byte(bare)), want)

	for name, stream := range map[string]string{"nothing": "", "cut off": sse(`{"type":"response.created","response":{"id":"r"}}`), "an error": sse(`{"type":"error","message":"x"}`)} {
		w := adapters.Responses{}.Writer(&core.Job{})
		for _, f := range cut(t, core.SplitSSE, []byte(stream)) {
			w.Fold(f)
		}
		if body, err := w.Folded(); err == nil {
			t.Errorf("%s folds to %s", name, body)
		}
	}
}

func TestResponsesUnfold(t *testing.T) {
	for _, file := range []string{"llamacpp/responses-unstreamed.json", "ollama/v1-responses-unstreamed.json"} {
		frames, err := adapters.Responses{}.Writer(&core.Job{Streamed: true}).Unfold([]byte(recorded(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		checkIndexed(t, string(bytes.Join(frames, nil)))
	}
	// A call without an id, as llama-server's, gets its call_id.
	frames, err := adapters.Responses{}.Writer(&core.Job{Streamed: true}).Unfold([]byte(`{"id":"r","status":"incomplete","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"custom_tool_call","id":"ct","call_id":"d","name":"g","input":"x"},{"type":"message","id":"m","content":[{"type":"refusal","refusal":"no"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if texts := checkIndexed(t, string(bytes.Join(frames, nil))); fmt.Sprint(texts) != "[{} x no]" {
		t.Errorf("it says %q", texts)
	}
	if last := string(frames[len(frames)-1]); !strings.HasPrefix(last, "event: response.incomplete\n") {
		t.Errorf("it ends with %s", last)
	}
	for _, bad := range []string{``, `[]`, `{"id":"r"}`, `{"status":"queued","output":[]}`} {
		if frames, err := (adapters.Responses{}).Writer(&core.Job{}).Unfold([]byte(bad)); err == nil {
			t.Errorf("%s unfolds to %s", bad, frames)
		}
	}
}

func FuzzParseResponses(f *testing.F) {
	seed(f, "*/*responses-*.request.json")
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"\u00e9"}]},{"type":"computer_call_output","output":{"type":"x"}}],"text":{"format":{"type":"text"}}}`))
	fuzzParse(f, adapters.Responses{}, []core.RequestHead{{Path: responsesPath}}, core.FormatResponses)
}

// FuzzReadResponses holds the reader and its repair: no panic, a repaired frame
// is still an event, and what was repaired once is not changed again.
func FuzzReadResponses(f *testing.F) {
	seed(f, "*/*responses-*.sse")
	f.Add([]byte(sse(`{"type":"response.output_item.added","item":{"call_id":"a"},"sequence_number":1}`, `{"item_id":"a","type":"response.reasoning_text.delta","delta":"x"}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, w := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil), adapters.Responses{}.Writer(&core.Job{})
		for _, frame := range cut(t, r.Split(), body) {
			w.Fold(frame)
			raw := bytes.Clone(frame.Raw)
			r.Read(&frame)
			if bytes.Equal(frame.Raw, raw) {
				continue
			}
			for _, fixed := range cut(t, r.Split(), frame.Raw) {
				if len(fixed.Data) > 0 && !json.Valid(fixed.Data) {
					t.Fatalf("%q becomes %q", raw, frame.Raw)
				}
			}
		}
		if u := r.Answer().Usage; u.UncachedInput.V < 0 || u.Output.V < 0 {
			t.Fatalf("%q: %+v", body, u)
		}
		if whole, err := w.Folded(); err == nil && !json.Valid(whole) {
			t.Fatalf("%q folds to %q", body, whole)
		}
		r = adapters.Responses{}.Reader(&core.Job{}, nil)
		if r.ReadWhole(body) == nil && !json.Valid(body) {
			t.Fatalf("%q is taken for an answer", body)
		}
		if frames, err := w.Unfold(body); err == nil && len(frames) < 3 {
			t.Fatalf("%q unfolds to %q", body, frames)
		}
	})
}

func BenchmarkReadOpenAIResponses(b *testing.B) {
	benchmarkRead(b, adapters.Responses{}, `{"type":"response.output_text.delta","sequence_number":41,"item_id":"msg_67e554a1de488191af0831d35cbe082e0794405d35281ae2","output_index":0,"content_index":0,"delta":" answer","logprobs":[],"obfuscation":"nWGYWBbZqbOv8"}`)
}

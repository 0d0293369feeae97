package adapters_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

func TestAnthropicErrors(t *testing.T) {
	w := adapters.Anthropic{}.Writer(nil)
	for _, c := range []struct {
		err  *core.Error
		want string
	}{
		{core.Field("max_tokens", "required"), `{"error":{"message":"max_tokens: required","type":"invalid_request_error"},"type":"error"}`},
		{&core.Error{Kind: core.OverBudget, Msg: "the key's budget is used up", Hint: "wait for \"midnight\"\n<UTC>"},
			`{"error":{"code":"budget_exceeded","message":"the key's budget is used up; wait for \"midnight\"\n<UTC>","type":"billing_error"},"type":"error"}`},
		{core.Errorf(core.Unauthorized, "no key"), `{"error":{"message":"no key","type":"authentication_error"},"type":"error"}`},
		{core.Errorf(core.NoOffer, "none"), `{"error":{"code":"no_offer_available","message":"none","type":"overloaded_error"},"type":"error"}`},
		{&core.Error{Kind: core.Upstream, Code: "overloaded_error", Msg: "a: Overloaded"}, `{"error":{"message":"a: Overloaded","type":"overloaded_error"},"type":"error"}`},
		{&core.Error{Kind: core.Upstream, Code: "server_error", Msg: "a"}, `{"error":{"code":"server_error","message":"a","type":"api_error"},"type":"error"}`},
	} {
		if got := w.ErrorBody(c.err); string(got) != strings.ReplaceAll(c.want, "\n<", `\n<`) {
			t.Errorf("%s", got)
		}
		frames := cut(t, core.SplitSSE, w.ErrorEvent(c.err))
		if len(frames) != 1 || frames[0].Name != "error" || !bytes.Equal(frames[0].Data, w.ErrorBody(c.err)) {
			t.Errorf("as an event: %s", w.ErrorEvent(c.err))
		}
	}
}

func TestContentTypes(t *testing.T) {
	for _, c := range []struct {
		a    core.Adapter
		job  *core.Job
		want string
	}{
		{adapters.Anthropic{}, nil, "application/json"},
		{adapters.Anthropic{}, &core.Job{}, "application/json"},
		{adapters.Anthropic{}, &core.Job{Streamed: true}, "text/event-stream"},
		{adapters.Google{}, nil, "application/json"},
		{adapters.Google{}, &core.Job{Streamed: true}, "application/json"},
		{adapters.Google{}, &core.Job{Streamed: true, SSE: true}, "text/event-stream"},
	} {
		if got := c.a.Writer(c.job).ContentType(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%T %+v: %s", c.a, c.job, got)
		}
	}
}

// folded folds a stream with a writer of its own.
func folded(t testing.TB, a core.Adapter, job *core.Job, stream []byte) []byte {
	t.Helper()
	w := a.Writer(job)
	for _, f := range cut(t, a.Reader(job, nil).Split(), stream) {
		w.Fold(f)
	}
	body, err := w.Folded()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// there and back: the stream of a folded stream folds to the same answer.
func roundTrip(t *testing.T, name string, a core.Adapter, job *core.Job, stream []byte) []byte {
	t.Helper()
	once := folded(t, a, job, stream)
	frames, err := a.Writer(job).Unfold(once)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if again := folded(t, a, job, bytes.Join(frames, nil)); !bytes.Equal(once, again) {
		t.Errorf("%s: folds to\n%s\nand then to\n%s", name, once, again)
	}
	return once
}

// same tells whether two JSON texts say the same.
func same(t *testing.T, name string, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v in %s", name, err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v in what is wanted", name, err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: %s\nwant %s", name, got, want)
	}
}

func TestAnthropicFold(t *testing.T) {
	job := &core.Job{Operation: core.OpGenerate, Streamed: true}
	stream := sse(
		`{"type":"message_start","message":{"id":"gone","content":[],"usage":{"input_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"gone"}}`,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":7,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"<so>"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"ping"}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"c3lu"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"cited_text":"x","n":1}}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"cited","vendor":"a"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"!","vendor":"b"}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"2345678901234567890}"}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"g"}}`,
		`{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t3","name":"h","input":{}}}`,
		`{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"cut"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15,"cache_read_input_tokens":null},"context_management":{"applied_edits":[]}}`,
		`{"type":"message_stop"}`)
	got := roundTrip(t, "made up", adapters.Anthropic{}, job, []byte(stream))
	same(t, "folded", got, `{"id":"msg_1","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","stop_sequence":null,"context_management":{"applied_edits":[]},
		"usage":{"input_tokens":25,"cache_read_input_tokens":7,"output_tokens":15},"content":[
		{"type":"thinking","thinking":"hm <so>","signature":"c2ln"},{"type":"redacted_thinking","data":"c3lu"},
		{"type":"text","text":"cited!","vendor":"ab","citations":[{"cited_text":"x","n":1}]},
		{"type":"tool_use","id":"t1","name":"f","input":{"a":12345678901234567890}},{"type":"tool_use","id":"t2","name":"g","input":{}},{"type":"tool_use","id":"t3","name":"h","input":{}}]}`)
	if !strings.Contains(string(got), "12345678901234567890") {
		t.Errorf("a large number lost digits: %s", got)
	}

	for _, file := range []string{"llamacpp/messages-stream.sse", "llamacpp/messages-stream-tool.sse", "ollama/v1-messages-stream.sse"} {
		roundTrip(t, file, adapters.Anthropic{}, job, []byte(recorded(t, file)))
	}
}

func TestAnthropicFoldsNoError(t *testing.T) {
	for name, stream := range map[string]string{
		"nothing":        "",
		"no opening":     sse(`{"type":"message_stop"}`),
		"an error":       sse(`{"type":"message_start","message":{"content":[]}}`, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`),
		"another format": "data: {\"choices\":[]}\n\n",
	} {
		w := adapters.Anthropic{}.Writer(nil)
		for _, f := range cut(t, core.SplitSSE, []byte(stream)) {
			w.Fold(f)
		}
		if body, err := w.Folded(); err == nil {
			t.Errorf("%s folds to %s", name, body)
		}
	}
}

func TestAnthropicUnfold(t *testing.T) {
	w := adapters.Anthropic{}.Writer(&core.Job{Streamed: true})
	frames, err := w.Unfold([]byte(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"f","input":{"a":[1]}},{"type":"tool_use","id":"u","name":"g","input":{}}],
		"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":9}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":0}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":[1]}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"u","name":"g","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":3,"output_tokens":9}}`,
		`{"type":"message_stop"}`,
	}
	if len(frames) != len(want) {
		t.Fatalf("%d frames: %s", len(frames), bytes.Join(frames, nil))
	}
	for i, f := range frames {
		got := cut(t, core.SplitSSE, f)
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(want[i]), &head); err != nil || len(got) != 1 || got[0].Name != head.Type {
			t.Fatalf("frame %d is %q", i, f)
		}
		same(t, head.Type, got[0].Data, want[i])
	}
	for _, body := range []string{`{}`, `[]`, `<html>`, `{"content":["x"]}`, `{"type":"error","error":{}}`} {
		if _, err := w.Unfold([]byte(body)); err == nil {
			t.Errorf("%s is unfolded", body)
		}
	}
}

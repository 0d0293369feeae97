package adapters_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

// eventWords are events in words that a test can compare.
func eventWords(events []core.Event) string {
	var list []string
	for _, e := range events {
		switch e.Kind {
		case core.EventStart:
			list = append(list, "start "+e.ID+" "+e.Model)
		case core.EventText, core.EventReasoning, core.EventRefusal:
			list = append(list, map[core.EventKind]string{core.EventText: "text ", core.EventReasoning: "think ", core.EventRefusal: "refuse "}[e.Kind]+string(e.Text))
		case core.EventSeal:
			list = append(list, fmt.Sprintf("seal %s %s %v", e.Seal.Origin, e.Seal.Text, e.Seal.Encrypted))
		case core.EventTool:
			list = append(list, fmt.Sprintf("tool %d %s %s", e.Index, e.ID, e.Name))
		case core.EventArguments:
			list = append(list, fmt.Sprintf("args %d %s", e.Index, e.Text))
		case core.EventFinish:
			list = append(list, strings.TrimSpace(fmt.Sprintf("finish %s %s", e.Finish, e.StopText)))
		}
	}
	return strings.Join(list, "\n")
}

// messagesEvents reads a stream of Anthropic's format.
func messagesEvents(t testing.TB, stream string) string {
	t.Helper()
	r := adapters.Anthropic{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, nil)
	var list []string
	for _, f := range cut(t, r.Split(), []byte(stream)) {
		r.Read(&f)
		if words := eventWords(r.Events(&f)); words != "" {
			list = append(list, words)
		}
	}
	return strings.Join(list, "\n")
}

func TestAnthropicEvents(t *testing.T) {
	const begin = `{"type":"message_start","message":{"id":"msg_1","model":"claude","content":[],"usage":{"input_tokens":1}}}`
	for _, c := range []struct {
		name   string
		stream []string
		want   string
	}{
		{"all kinds", []string{begin, `{"type":"ping"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm\n"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig="}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"secret"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"say \"\u00e9\""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"content_block_stop","index":3}`,
			`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}`,
			`{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_stop","index":4}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}`, `{"type":"message_stop"}`},
			"start msg_1 claude\nthink hm\\n\nseal anthropic \"sig=\" false\nseal anthropic \"secret\" true\ntext say \\\"\\u00e9\\\"\ntool 0 t1 f\nargs 0 {\\\"a\\\":\nargs 0 1}\ntool 1 t2 g\nfinish tools"},
		{"tools that run on the server are none of the client's", []string{begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":1}"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","text":"x"}]}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`},
			"start msg_1 claude\ntool 0 t f\nargs 0 {}\nfinish pause"},
		{"all in the opening of its block", []string{begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"s"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"x"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a": "\n"}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`},
			"start msg_1 claude\nthink t\nseal anthropic \"s\" false\ntext x\ntool 0 t f\nargs 0 {\\\"a\\\": \\\"\\\\n\\\"}\nfinish tools"},
		{"and again in deltas", []string{begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":1}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}`, `{"type":"content_block_stop","index":0}`},
			"start msg_1 claude\ntool 0 t f\nargs 0 {\\\"a\\\":1}"},
		{"a stream that begins anew", []string{begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f"}}`, begin,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"u","name":"g"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`},
			"start msg_1 claude\ntool 0 t f\ntool 1 u g\nargs 1 {}"},
		{"a character cut in two", []string{
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00b\\ud83d"}}`},
			"text a\ntext \\ud83d\\ude00b\\\\ud83d"},
		{"a stop sequence", []string{`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\n"}}`}, `finish stop "\n"`},
		{"cut", []string{`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null}}`}, "finish length"},
		{"out of context", []string{`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}`}, "finish length"},
		{"a refusal", []string{`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"not that"}}}`}, "refuse not that\nfinish refusal"},
		{"usage alone", []string{`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":1}}`}, ""},
		{"an error", []string{`{"type":"error","error":{"type":"overloaded_error"}}`, `[DONE]`, `{"type":"content_block_delta"`}, ""},
	} {
		if got := messagesEvents(t, sse(c.stream...)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestAnthropicWholeEvents(t *testing.T) {
	r := adapters.Anthropic{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
	events, err := r.WholeEvents([]byte(`{"stop_reason":"tool_use","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a\nb","citations":[]},
		{"type":"server_tool_use","id":"s","name":"x","input":{"q":1}},{"type":"tool_use","id":"t1","name":"f","input":{ "a":"\"" }},{"type":"tool_use","id":"t2","name":"g","input":{}},7],"id":"msg_1","model":"claude"}`))
	want := "start msg_1 claude\nthink t\nseal anthropic \"s\" false\nseal anthropic \"d\" true\ntext a\\nb\ntool 0 t1 f\nargs 0 { \\\"a\\\":\\\"\\\\\\\"\\\" }\ntool 1 t2 g\nfinish tools"
	if got := eventWords(events); got != want || err != nil {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if events, err := r.WholeEvents([]byte(`[]`)); err == nil {
		t.Errorf("a list gives %s", eventWords(events))
	}
}

// messagesWritten gives events to a translator of Anthropic's format, and ends it.
func messagesWritten(streamed bool, usage core.Usage, events ...core.Event) []byte {
	tr := adapters.Anthropic{}.Translator(&core.Job{Operation: core.OpGenerate, Model: `mi"ni`, Streamed: streamed}, time.Time{})
	var out []byte
	for i := range events {
		out = tr.Event(out, &events[i])
	}
	a := core.Answer{Usage: usage}
	out = tr.End(out, &a)
	return tr.End(tr.Event(out, &core.Event{Kind: core.EventText, Text: []byte("late")}), &a)
}

// messagesBrief is a stream of messages without what is the same in each.
func messagesBrief(t testing.TB, stream []byte) string {
	t.Helper()
	var list []string
	for _, f := range cut(t, core.SplitSSE, stream) {
		var e struct {
			Type  string
			Index int
			Block json.RawMessage `json:"content_block"`
			Delta json.RawMessage
		}
		if err := json.Unmarshal(f.Data, &e); err != nil || e.Type != f.Name {
			t.Fatalf("%s: %v", f.Raw, err)
		}
		words := strings.NewReplacer("content_block_", "", "message_", "").Replace(e.Type)
		if strings.HasPrefix(e.Type, "content_block_") {
			words += fmt.Sprintf(" %d", e.Index)
		}
		list = append(list, strings.TrimSpace(words+" "+string(e.Block)+string(e.Delta)))
	}
	return strings.Join(list, "\n")
}

func pieceEvent(kind core.EventKind, text string) core.Event {
	return core.Event{Kind: kind, Text: []byte(text)}
}

func toolEvent(index int, id, name string) core.Event {
	return core.Event{Kind: core.EventTool, Index: index, ID: id, Name: name}
}

func argsEvent(index int, text string) core.Event {
	return core.Event{Kind: core.EventArguments, Index: index, Text: []byte(text)}
}

func sealEvent(origin core.Format, text string, encrypted bool) core.Event {
	return core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: origin, Text: core.Quoted(`"` + text + `"`), ID: core.Quoted(`"rs"`), Encrypted: encrypted}}
}

func finishEvent(why core.Finish) core.Event { return core.Event{Kind: core.EventFinish, Finish: why} }

func TestAnthropicTranslates(t *testing.T) {
	start := core.Event{Kind: core.EventStart, ID: "cc-1", Model: "theirs"}
	stopped := finishEvent(core.FinishStop)
	stopped.StopText = core.Quoted(`"\n\n"`)
	second := pieceEvent(core.EventText, "another answer")
	second.Choice = 1
	const end = "\ndelta {\"stop_reason\":\"%s\",\"stop_sequence\":null}\nstop"
	for _, c := range []struct {
		name    string
		events  []core.Event
		stream  string // brief, behind message_start
		content string // of the unstreamed message
		stop    string
	}{
		{"nothing", nil, "", `[]`, "end_turn"},
		{"text, a finish twice (case 025)", []core.Event{start, pieceEvent(core.EventText, `fine\u00e9 `), pieceEvent(core.EventText, ""), finishEvent(core.FinishStop), pieceEvent(core.EventText, `\"on\"`), finishEvent(core.FinishLength), second},
			`start 0 {"type":"text","text":""}
delta 0 {"type":"text_delta","text":"fine\u00e9 "}
delta 0 {"type":"text_delta","text":"\"on\""}
stop 0`, `[{"type":"text","text":"fineé \"on\""}]`, "end_turn"},
		{"thinking with a signature, and without", []core.Event{start, pieceEvent(core.EventReasoning, "a"), pieceEvent(core.EventReasoning, "b"), sealEvent(core.FormatGoogle, "s", false), pieceEvent(core.EventReasoning, "c"), pieceEvent(core.EventText, "d"), finishEvent(core.FinishLength)},
			`start 0 {"type":"thinking","thinking":"","signature":""}
delta 0 {"type":"thinking_delta","thinking":"a"}
delta 0 {"type":"thinking_delta","thinking":"b"}
delta 0 {"type":"signature_delta","signature":"hw1:google:s:2:rss"}
stop 0
start 1 {"type":"thinking","thinking":"","signature":""}
delta 1 {"type":"thinking_delta","thinking":"c"}
delta 1 {"type":"signature_delta","signature":"hw1::s:0:"}
stop 1
start 2 {"type":"text","text":""}
delta 2 {"type":"text_delta","text":"d"}
stop 2`, `[{"type":"thinking","thinking":"ab","signature":"hw1:google:s:2:rss"},{"type":"thinking","thinking":"c","signature":"hw1::s:0:"},{"type":"text","text":"d"}]`, "max_tokens"},
		{"encrypted, with a summary and without, and a call's", []core.Event{start, pieceEvent(core.EventReasoning, "sum"), sealEvent(core.FormatResponses, "e1", true), sealEvent(core.FormatResponses, "e2", true), sealEvent(core.FormatGoogle, "g", false), toolEvent(0, "t", "f"), argsEvent(0, "{}"), finishEvent(core.FinishTools)},
			`start 0 {"type":"thinking","thinking":"","signature":""}
delta 0 {"type":"thinking_delta","thinking":"sum"}
delta 0 {"type":"signature_delta","signature":"hw1:openai-responses:e:2:rse1"}
stop 0
start 1 {"type":"redacted_thinking","data":"hw1:openai-responses:e:2:rse2"}
stop 1
start 2 {"type":"thinking","thinking":"","signature":""}
delta 2 {"type":"signature_delta","signature":"hw1:google:s:2:rsg"}
stop 2
start 3 {"type":"tool_use","id":"t","name":"f","input":{}}
delta 3 {"type":"input_json_delta","partial_json":"{}"}
stop 3`, `[{"type":"thinking","thinking":"sum","signature":"hw1:openai-responses:e:2:rse1"},{"type":"redacted_thinking","data":"hw1:openai-responses:e:2:rse2"},{"type":"thinking","thinking":"","signature":"hw1:google:s:2:rsg"},{"type":"tool_use","id":"t","name":"f","input":{}}]`, "tool_use"},
		{"interleaved calls (case 031)", []core.Event{start, toolEvent(0, "call_a", "north"), toolEvent(1, "call_b", "south"), argsEvent(0, `{\"k\"`), argsEvent(1, `{\"k\"`), argsEvent(0, `:1}`), argsEvent(1, `:2}`), finishEvent(core.FinishTools)},
			`start 0 {"type":"tool_use","id":"call_a","name":"north","input":{}}
delta 0 {"type":"input_json_delta","partial_json":"{\"k\""}
delta 0 {"type":"input_json_delta","partial_json":":1}"}
stop 0
start 1 {"type":"tool_use","id":"call_b","name":"south","input":{}}
delta 1 {"type":"input_json_delta","partial_json":"{\"k\""}
delta 1 {"type":"input_json_delta","partial_json":":2}"}
stop 1`, `[{"type":"tool_use","id":"call_a","name":"north","input":{"k":1}},{"type":"tool_use","id":"call_b","name":"south","input":{"k":2}}]`, "tool_use"},
		{"calls without arguments, text behind", []core.Event{start, toolEvent(0, "a", "f"), toolEvent(1, "b", "g"), pieceEvent(core.EventText, "and "), pieceEvent(core.EventText, "so"), argsEvent(1, `{\"}\\\"\\u007d\":[{}]}`), argsEvent(1, `{}`), finishEvent(core.FinishStop)},
			`start 0 {"type":"tool_use","id":"a","name":"f","input":{}}
stop 0
start 1 {"type":"tool_use","id":"b","name":"g","input":{}}
delta 1 {"type":"input_json_delta","partial_json":"{\"}\\\"\\u007d\":[{}]}"}
stop 1
start 2 {"type":"text","text":""}
delta 2 {"type":"text_delta","text":"and so"}
stop 2`, `[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"g","input":{"}\"}":[{}]}},{"type":"text","text":"and so"}]`, "tool_use"},
		{"a call cut off (case 035)", []core.Event{start, toolEvent(0, "call_a", "look"), argsEvent(0, `{\"ci`), finishEvent(core.FinishLength)},
			`start 0 {"type":"tool_use","id":"call_a","name":"look","input":{}}
delta 0 {"type":"input_json_delta","partial_json":"{\"ci"}
stop 0`, `[{"type":"tool_use","id":"call_a","name":"look","input":{"INVALID_JSON":"{\"ci"}}]`, "max_tokens"},
		{"a call that went wrong", []core.Event{start, toolEvent(0, "a", "f"), argsEvent(0, `[1]`), finishEvent(core.FinishTools)},
			`start 0 {"type":"tool_use","id":"a","name":"f","input":{}}
delta 0 {"type":"input_json_delta","partial_json":"[1]"}
stop 0`, `[{"type":"tool_use","id":"a","name":"f","input":{"INVALID_JSON":"[1]"}}]`, "tool_use"},
		{"a refusal", []core.Event{pieceEvent(core.EventRefusal, "I will "), pieceEvent(core.EventRefusal, "not"), finishEvent(core.FinishStop)},
			`start 0 {"type":"text","text":""}
delta 0 {"type":"text_delta","text":"I will "}
delta 0 {"type":"text_delta","text":"not"}
stop 0`, `[{"type":"text","text":"I will not"}]`, "refusal"},
		{"a filter", []core.Event{start, finishEvent(core.FinishFilter)}, "", `[]`, "refusal"},
		{"a pause", []core.Event{start, finishEvent(core.FinishPause)}, "", `[]`, "pause_turn"},
		{"tools said, none called", []core.Event{start, finishEvent(core.FinishTools)}, "", `[]`, "end_turn"},
	} {
		want := "start\n" + c.stream + fmt.Sprintf(end, c.stop)
		if c.stream == "" {
			want = "start" + fmt.Sprintf(end, c.stop)
		}
		if got := messagesBrief(t, messagesWritten(true, core.Usage{}, c.events...)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
		id := `cc-1`
		body := messagesWritten(false, core.Usage{}, c.events...)
		if made := regexp.MustCompile(`msg_[0-9a-f]{24}`).FindString(string(body)); made != "" {
			id = made
		}
		same(t, c.name, body, `{"id":"`+id+`","type":"message","role":"assistant","model":"mi\"ni","content":`+c.content+`,"stop_reason":"`+c.stop+`","stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}`)
	}

	frames := cut(t, core.SplitSSE, messagesWritten(true, core.Usage{UncachedInput: core.Some[int64](86), CacheRead: core.Some[int64](1920), Output: core.Some[int64](30)}, start, stopped))
	same(t, "the opening", frames[0].Data, `{"type":"message_start","message":{"id":"cc-1","type":"message","role":"assistant","model":"mi\"ni","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}`)
	same(t, "usage (case 015) and a stop sequence", frames[1].Data, `{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\n\n"},"usage":{"input_tokens":86,"cache_read_input_tokens":1920,"output_tokens":30}}`)
	var whole struct{ Usage json.RawMessage }
	if err := json.Unmarshal(messagesWritten(false, core.Usage{UncachedInput: core.Some[int64](5), CacheWrite: core.Some[int64](10), CacheWrite1h: core.Some[int64](4), Output: core.Some[int64](9), Reasoning: core.Some[int64](7)}), &whole); err != nil {
		t.Fatal(err)
	}
	same(t, "all of the usage", whole.Usage, `{"input_tokens":5,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":6,"ephemeral_1h_input_tokens":4},"output_tokens":9,"output_tokens_details":{"thinking_tokens":7}}`)
}

// A call's arguments reach the client as they come, also those of the second
// call where the first one is complete.
func TestAnthropicTranslatesAtOnce(t *testing.T) {
	tr := adapters.Anthropic{}.Translator(&core.Job{Streamed: true}, time.Time{})
	for i, c := range []struct {
		event core.Event
		says  string
	}{
		{core.Event{Kind: core.EventStart, ID: "x"}, "message_start"}, {toolEvent(0, "a", "f"), `"id":"a"`}, {argsEvent(0, `{\"a\":`), `{\"a\":`}, {argsEvent(0, `\"{\"}`), `\"{\"}`},
		{toolEvent(1, "b", "g"), `"id":"b"`}, {argsEvent(1, `{}`), `{}`}, {pieceEvent(core.EventText, "x"), "text_delta"}, {finishEvent(core.FinishStop), ""},
	} {
		if got := string(tr.Event(nil, &c.event)); !strings.Contains(got, c.says) || c.says == "" && got != "" {
			t.Errorf("event %d writes %q", i, got)
		}
	}
	made := string(tr.Event(nil, &core.Event{Kind: core.EventTool, Index: 2, Name: "h"}))
	if !regexp.MustCompile(`"id":"toolu_[0-9a-f]{24}"`).MatchString(made) {
		t.Errorf("a call without an id: %s", made)
	}
}

// A stream read to events and written again says the same, but for what has no
// place in events.
func TestAnthropicStreamsThereAndBack(t *testing.T) {
	for _, name := range []string{"llamacpp/messages-stream.sse", "llamacpp/messages-stream-tool.sse"} {
		stream := recorded(t, name)
		job := &core.Job{Operation: core.OpGenerate, Streamed: true, Model: "m"}
		r, tr := adapters.Anthropic{}.Reader(job, nil), adapters.Anthropic{}.Translator(job, time.Time{})
		var out []byte
		for _, f := range cut(t, r.Split(), []byte(stream)) {
			mark := r.Read(&f)
			for _, e := range r.Events(&f) {
				out = tr.Event(out, &e)
			}
			if mark.Has(core.MarkEnd) {
				a := r.Answer()
				out = tr.End(out, &a)
			}
		}
		var was, is map[string]any
		if json.Unmarshal(folded(t, adapters.Anthropic{}, job, []byte(stream)), &was) != nil || json.Unmarshal(folded(t, adapters.Anthropic{}, job, out), &is) != nil {
			t.Fatalf("%s does not fold", name)
		}
		if was["model"] = "m"; was["stop_details"] == nil {
			delete(was, "stop_details")
		}
		want, _ := json.Marshal(was)
		got, _ := json.Marshal(is)
		if string(want) != string(got) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// FuzzEventsAnthropic holds what is true of the events of any stream: none is
// empty, each is text between quotes, and what they make is JSON.
func FuzzEventsAnthropic(f *testing.F) {
	seed(f, "*/*messages-*.sse")
	f.Add([]byte(sse(`{"type":"message_start","message":{"id":"x"}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{"a":1}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"\ud83d"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"explanation":"x"}}}`)))
	f.Fuzz(func(t *testing.T, stream []byte) {
		job := &core.Job{Operation: core.OpGenerate, Streamed: true}
		r := adapters.Anthropic{}.Reader(job, nil)
		tr, whole := adapters.Anthropic{}.Translator(job, time.Time{}), adapters.Anthropic{}.Translator(&core.Job{}, time.Time{})
		var out, body []byte
		for _, frame := range cut(t, r.Split(), stream) {
			r.Read(&frame)
			for _, e := range r.Events(&frame) {
				if e.Text != nil && (len(e.Text) == 0 || !json.Valid([]byte(`"`+string(e.Text)+`"`))) {
					t.Fatalf("%q: a piece %q", stream, e.Text)
				}
				out, body = tr.Event(out, &e), whole.Event(body, &e)
			}
		}
		a := r.Answer()
		for _, frame := range cut(t, core.SplitSSE, tr.End(out, &a)) {
			if !json.Valid(frame.Data) {
				t.Fatalf("%q is written as %q", stream, frame.Data)
			}
		}
		if body = whole.End(body, &a); !json.Valid(body) {
			t.Fatalf("%q is written as %q", stream, body)
		}
		if events, err := r.WholeEvents(stream); err != nil && events != nil {
			t.Fatalf("%q: events and %v", stream, err)
		}
	})
}

func BenchmarkAnthropicDelta(b *testing.B) {
	job := &core.Job{Operation: core.OpGenerate, Streamed: true, Model: "m"}
	r, tr := adapters.Anthropic{}.Reader(job, nil), adapters.Anthropic{}.Translator(job, time.Time{})
	data := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" the"}     }`)
	f := core.Frame{Raw: data, Data: data}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		r.Read(&f)
		events := r.Events(&f)
		out = out[:0]
		for i := range events {
			out = tr.Event(out, &events[i])
		}
	}
}

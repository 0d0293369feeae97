package adapters_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

// shownEvent is a step of an answer as a word.
func shownEvent(e *core.Event) string {
	switch e.Kind {
	case core.EventStart:
		return "start " + e.ID + " " + e.Model
	case core.EventText:
		return "text " + string(e.Text)
	case core.EventReasoning:
		return "think " + string(e.Text)
	case core.EventSeal:
		return fmt.Sprintf("seal %s %s %t %s", e.Seal.Origin, e.Seal.Text, e.Seal.Encrypted, e.Seal.ID)
	case core.EventRefusal:
		return "refuse " + string(e.Text)
	case core.EventTool:
		return fmt.Sprintf("tool %d %s %s", e.Index, e.ID, e.Name)
	case core.EventArguments:
		return fmt.Sprintf("args %d %s", e.Index, e.Text)
	}
	return "finish " + string(e.Finish)
}

// responsesSteps are the events of a stream, pieces of the same thing joined.
func responsesSteps(t testing.TB, stream []byte) (steps []string) {
	t.Helper()
	r := adapters.Responses{}.Reader(&core.Job{Streamed: true}, nil)
	for _, f := range cut(t, r.Split(), stream) {
		r.Read(&f)
		steps = joinSteps(steps, r.Events(&f))
	}
	return steps
}

func joinSteps(steps []string, events []core.Event) []string {
	for i := range events {
		next := shownEvent(&events[i])
		kind, text, _ := strings.Cut(next, " ")
		at := len(steps) - 1
		switch kind {
		case "text", "think", "refuse":
			if at >= 0 && strings.HasPrefix(steps[at], kind+" ") {
				steps[at] += text
				continue
			}
		case "args":
			index, piece, _ := strings.Cut(text, " ")
			for at >= 0 && !strings.HasPrefix(steps[at], "args "+index+" ") {
				at--
			}
			if at >= 0 {
				steps[at] += piece
				continue
			}
		}
		steps = append(steps, next)
	}
	return steps
}

func TestResponsesEvents(t *testing.T) {
	const (
		created = `{"type":"response.created","response":{"id":"r","model":"big","output":[]}}`
		done    = `{"type":"response.completed","response":{"status":"completed","output":[]}}`
	)
	delta := func(kind, item, more string) string {
		return `{"type":"response.` + kind + `.delta","item_id":"` + item + `",` + more + `}`
	}
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"text", []string{created, delta("output_text", "m", `"delta":"h\u00e9"`), delta("output_text", "m", `"delta":"\n"`), delta("output_text", "m", `"delta":""`), done}, `start r big|text h\u00e9\n|finish stop`},
		{"no opening", []string{delta("output_text", "m", `"delta":"a"`), `{"type":"response.completed","response":{"id":"r","model":"big","output":[]}}`}, `text a|start r big|finish stop`},
		{
			"half a character in each of two", []string{created, delta("output_text", "m", `"delta":"a\ud83d"`), delta("output_text", "m", `"delta":"\ude00b\\ud83d"`), done}, `start r big|text a\ud83d\ude00b\\ud83d|finish stop`,
		},
		{
			"parts of a summary", []string{
				created, delta("reasoning_summary_text", "rs", `"output_index":0,"summary_index":0,"delta":"a"`), delta("reasoning_summary_text", "rs", `"output_index":0,"summary_index":1,"delta":"b"`),
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"EN"}}`,
				delta("reasoning_text", "r2", `"output_index":1,"content_index":0,"delta":"c"`), done,
			}, `start r big|think a\n\nb|seal openai-responses "EN" true "rs"|think c|finish stop`,
		},
		{
			"reasoning that is told at its end alone", []string{
				created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"first"}}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}}`, done,
			}, `start r big|think hm|finish stop`,
		},
		{
			"calls by turns", []string{
				created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"a","call_id":"c1","name":"f","arguments":""}}`,
				`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"b","call_id":"c2","name":"g","arguments":""}}`,
				delta("function_call_arguments", "a", `"output_index":0,"delta":"{\"x\ud83d"`), delta("function_call_arguments", "b", `"output_index":1,"delta":"{}"`), delta("function_call_arguments", "a", `"output_index":0,"delta":"\ude00\":1}"`),
				`{"type":"response.function_call_arguments.done","item_id":"a","output_index":0,"arguments":"{\"x\":1}"}`, done,
			}, `start r big|tool 0 c1 f|tool 1 c2 g|args 0 {\"x\ud83d\ude00\":1}|args 1 {}|finish tools`,
		},
		{
			"arguments at the end alone", []string{
				created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"a","call_id":"c1","name":"f","arguments":""}}`,
				`{"type":"response.function_call_arguments.done","item_id":"a","output_index":0,"arguments":"{\"x\":1}"}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"a","call_id":"c1","name":"f","arguments":"{\"x\":1}"}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"b","call_id":"c2","name":"g","arguments":"{}"}}`, done,
			}, `start r big|tool 0 c1 f|args 0 {\"x\":1}|tool 1 c2 g|args 1 {}|finish tools`,
		},
		{
			"a call for plain text", []string{
				created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","id":"a","call_id":"c1","name":"sql","input":""}}`,
				delta("custom_tool_call_input", "a", `"output_index":0,"delta":"a\""`), delta("custom_tool_call_input", "a", `"output_index":0,"delta":"\n"`),
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"custom_tool_call","id":"a","call_id":"c1","name":"sql","input":"a\"\n"}}`, done,
			}, `start r big|tool 0 c1 sql|args 0 {\"input\":\"a\\\"\\n\"}|finish tools`,
		},
		{
			"a tool that the provider runs", []string{
				created, `{"type":"response.output_item.added","output_index":0,"item":{"type":"mcp_call","id":"mcp","name":"x","arguments":""}}`, delta("mcp_call_arguments", "mcp", `"output_index":0,"delta":"{}"`),
				delta("code_interpreter_call_code", "ci", `"output_index":1,"delta":"print"`), done,
			}, `start r big|finish stop`,
		},
		{"a refusal", []string{created, delta("refusal", "m", `"delta":"no"`), done}, `start r big|refuse no|finish stop`},
		{"cut off", []string{created, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`}, `start r big|finish length`},
		{"filtered", []string{created, `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`}, `start r big|finish filter`},
		{"an error", []string{created, `{"type":"response.failed","response":{"error":{"message":"x"}}}`, `{"type":"error","message":"x"}`, `{"type":"response.output_text.delta","delta":"a","error":{}}`}, `start r big`},
		{
			"all of it at the end", []string{created, `{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}}`},
			`start r big|text a|tool 0 c f|args 0 {}|finish tools`,
		},
	} {
		if got := strings.Join(responsesSteps(t, []byte(sse(c.events...))), "|"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	r := adapters.Responses{}.Reader(&core.Job{}, nil)
	for _, data := range []string{"", "[DONE]", "{", `{"type":"response.output_text.delta"`} {
		f := core.Frame{Data: []byte(data)}
		if r.Read(&f); len(r.Events(&f)) > 0 {
			t.Errorf("%q holds %v", data, r.Events(&f))
		}
	}
}

// translatedResponse is an answer, given as events, in the API's form.
func translatedResponse(job *core.Job, events []core.Event, a core.Answer) string {
	w := adapters.Responses{}.Translator(job, time.Unix(1_700_000_000, 0))
	var out []byte
	for i := range events {
		out = w.Event(out, &events[i])
	}
	out = w.End(out, &a)
	return string(w.End(out, &a)) // the second adds nothing
}

// withoutIDs replaces the ids that were made.
func withoutIDs(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `"id":"msg_`)
	if !ok {
		if _, rest, ok = strings.Cut(body, `"id":"fc_`); !ok {
			_, rest, ok = strings.Cut(body, `"id":"rs_`)
		}
	}
	if !ok || len(rest) < 24 {
		t.Fatalf("no ids in %s", body)
	}
	return strings.ReplaceAll(body, rest[:24], "")
}

func TestResponsesTranslate(t *testing.T) {
	say := func(kind core.EventKind, text string) core.Event { return core.Event{Kind: kind, Text: []byte(text)} }
	job := &core.Job{Model: "m", Streamed: true, Body: []byte(`{"model":"m","temperature":0.5,
		"tools":[{"type":"custom","name":"sql"},{"type":"function","name":"f"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]}],"text":{"verbosity":"low"},"metadata":{"a":"b"}}`)}
	events := []core.Event{
		{Kind: core.EventStart, ID: "up-1", Model: "big"},
		say(core.EventReasoning, "h"), say(core.EventReasoning, `m\n`),
		{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatAnthropic, Text: core.Quoted(`"c2ln"`)}},
		say(core.EventText, "a"), say(core.EventText, `\"b`), say(core.EventText, ""), say(core.EventRefusal, "no"),
		{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatGoogle, Text: core.Quoted(`"T"`)}},
		{Kind: core.EventTool, Index: 0, ID: "call_a", Name: "ns__f"},
		{Kind: core.EventTool, Index: 1, ID: "call_b", Name: "sql"},
		{Kind: core.EventArguments, Index: 0, Text: []byte(`{\"x\"`)},
		{Kind: core.EventArguments, Index: 1, Text: []byte(`{\"input\": \"a\\\"`)},
		{Kind: core.EventArguments, Index: 0, Text: []byte(`:1}`)},
		{Kind: core.EventArguments, Index: 1, Text: []byte(`b\"}`)},
		{Kind: core.EventTool, Index: 2, ID: "call_c", Name: "f"},
		{Kind: core.EventFinish, Finish: core.FinishTools},
		{Kind: core.EventFinish, Finish: core.FinishTools},
		{Kind: core.EventText, Choice: 1, Text: []byte("another")},
	}
	answer := core.Answer{Usage: core.Usage{UncachedInput: core.Some[int64](10), CacheRead: core.Some[int64](5), CacheWrite: core.Some[int64](3), Output: core.Some[int64](7), Reasoning: core.Some[int64](2)}}
	want := `{"id":"up-1","object":"response","created_at":1700000000,"status":"completed","background":false,"error":null,"incomplete_details":null,"model":"m","output":[
		{"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm\n"}],"encrypted_content":"hw1:anthropic:s:0:c2ln"},
		{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a\"b","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}]},
		{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"hw1:google:s:0:T"},
		{"id":"fc_3","type":"function_call","status":"completed","call_id":"call_a","name":"f","namespace":"ns","arguments":"{\"x\":1}"},
		{"id":"ctc_4","type":"custom_tool_call","status":"completed","call_id":"call_b","name":"sql","input":"a\"b"},
		{"id":"fc_5","type":"function_call","status":"completed","call_id":"call_c","name":"f","arguments":"{}"}],
		"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{"a":"b"},"parallel_tool_calls":true,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,
		"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"custom","name":"sql"},{"type":"function","name":"f"},{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]}],
		"top_logprobs":0,"top_p":null,"truncation":"disabled","user":null,"previous_response_id":null,"service_tier":"default","store":false,
		"usage":{"input_tokens":18,"input_tokens_details":{"cached_tokens":5,"cache_write_tokens":3},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":25}}`

	stream := withoutIDs(t, translatedResponse(job, events, answer))
	if texts := checkIndexed(t, stream); fmt.Sprintf("%q", texts) != `["hm\n" "a\"bno" "" "{\"x\":1}" "a\"b" "{}"]` {
		t.Errorf("the stream says %q", texts)
	}
	frames := cut(t, core.SplitSSE, []byte(stream))
	var last struct{ Response json.RawMessage }
	if err := json.Unmarshal(frames[len(frames)-1].Data, &last); err != nil {
		t.Fatal(err)
	}
	same(t, "the last event", last.Response, want)
	var kinds []string
	items := map[string]json.RawMessage{}
	for _, f := range frames {
		var e struct {
			Type   string
			Output int `json:"output_index"`
			Item   json.RawMessage
		}
		if err := json.Unmarshal(f.Data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "response.output_item.done" {
			items[fmt.Sprint(e.Output)] = e.Item
		}
		kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
	}
	const order = "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done content_part.added refusal.delta refusal.done content_part.done output_item.done " +
		"output_item.added output_item.done output_item.added output_item.added function_call_arguments.delta function_call_arguments.delta output_item.added " +
		"function_call_arguments.done output_item.done custom_tool_call_input.delta custom_tool_call_input.done output_item.done function_call_arguments.delta function_call_arguments.done output_item.done completed"
	if got := strings.Join(kinds, " "); got != order {
		t.Errorf("events\n%s\nwant\n%s", got, order)
	}
	var whole struct{ Output []json.RawMessage }
	if err := json.Unmarshal(last.Response, &whole); err != nil {
		t.Fatal(err)
	}
	for i, item := range whole.Output {
		if !bytes.Equal(items[fmt.Sprint(i)], item) {
			t.Errorf("item %d ends as %s and is %s", i, items[fmt.Sprint(i)], item)
		}
	}

	job.Streamed = false
	same(t, "whole", []byte(withoutIDs(t, translatedResponse(job, events, answer))), want)
}

func TestResponsesTranslateEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []core.Event
		want   string
	}{
		{"nothing", nil, `completed null null []`},
		{"no finish", []core.Event{{Kind: core.EventText, Text: []byte("a")}}, `completed null null [message completed]`},
		{
			"cut off", []core.Event{{Kind: core.EventText, Text: []byte("a")}, {Kind: core.EventTool, ID: "c", Name: "f"}, {Kind: core.EventArguments, Text: []byte(`{`)}, {Kind: core.EventFinish, Finish: core.FinishLength}},
			`incomplete {"reason":"max_output_tokens"} null [message completed function_call incomplete]`,
		},
		{"filtered", []core.Event{{Kind: core.EventText, Text: []byte("a")}, {Kind: core.EventFinish, Finish: core.FinishFilter}}, `incomplete {"reason":"content_filter"} null [message incomplete]`},
		{"declined without a word", []core.Event{{Kind: core.EventFinish, Finish: core.FinishRefusal}}, `incomplete {"reason":"content_filter"} null []`},
		{"declined", []core.Event{{Kind: core.EventRefusal, Text: []byte("no")}, {Kind: core.EventFinish, Finish: core.FinishRefusal}}, `completed null null [message completed]`},
		{"reasoning without a seal", []core.Event{{Kind: core.EventReasoning, Text: []byte("h")}}, `completed null null [reasoning hw1::s:0:]`},
		{"a pause", []core.Event{{Kind: core.EventFinish, Finish: core.FinishPause}}, `completed null null []`},
	} {
		for _, streamed := range []bool{true, false} {
			body := translatedResponse(&core.Job{Model: "m", Streamed: streamed, Body: []byte(`{"model":"m","input":"a"}`)}, c.events, core.Answer{})
			if streamed {
				checkIndexed(t, body)
				w := adapters.Responses{}.Writer(&core.Job{})
				for _, f := range cut(t, core.SplitSSE, []byte(body)) {
					w.Fold(f)
				}
				folded, err := w.Folded()
				if err != nil {
					t.Fatal(err)
				}
				body = string(folded)
			}
			var got struct {
				ID, Status string
				Incomplete json.RawMessage `json:"incomplete_details"`
				Usage      json.RawMessage
				Output     []struct {
					Type, Status string
					Encrypted    string `json:"encrypted_content"`
				}
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%s: %v in %s", c.name, err, body)
			}
			items := strings.NewReplacer("{", "", " }", "", "}", "", "  ", " ").Replace(fmt.Sprint(got.Output))
			if s := fmt.Sprintf("%s %s %s %s", got.Status, got.Incomplete, got.Usage, items); s != c.want || !strings.HasPrefix(got.ID, "resp_") {
				t.Errorf("%s, streamed %t: %s %s, want %s", c.name, streamed, got.ID, s, c.want)
			}
		}
	}
	// The model's own words where a tool takes plain text; line breaks of the
	// request do not cut an event in two.
	job := &core.Job{Model: "m", Streamed: true, Body: []byte("{\"tools\":[{\"type\":\"custom\",\r\n\"name\":\"sql\"}]}")}
	for said, want := range map[string]string{``: ``, `{\"input\":\"a\\n\"}`: `a\n`, `{\"query\":1}`: `{\"query\":1}`, `[`: `[`, `{\"input\":`: `{\"input\":`} {
		out := translatedResponse(job, []core.Event{{Kind: core.EventTool, ID: "c", Name: "sql"}, {Kind: core.EventArguments, Text: []byte(said)}}, core.Answer{})
		checkIndexed(t, out)
		if !strings.Contains(out, `"name":"sql","input":"`+want+`"}`) {
			t.Errorf("%s: %s", said, out)
		}
	}
}

// TestResponsesRecordingsThrough reads every recording of the API as events,
// writes them for a client of the API and reads that again: the same steps. What
// they say is what the recording's own items say.
func TestResponsesRecordingsThrough(t *testing.T) {
	dir := wire(t)
	files := map[string]bool{}
	for _, l := range labels(t, dir) {
		if l.Format == "openai-responses" && l.Error == nil {
			files[filepath.Join(dir, l.File)] = l.Streamed
		}
	}
	for _, name := range []string{"llamacpp/responses-stream.sse", "ollama/v1-responses-stream.sse", "llamacpp/responses-unstreamed.json", "ollama/v1-responses-unstreamed.json"} {
		files["../testdata/wire/"+name] = strings.HasSuffix(name, ".sse")
	}
	for file, streamed := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			job := &core.Job{Model: "m", Streamed: streamed, Body: []byte(`{"model":"m","input":"a"}`)}
			r, w := adapters.Responses{}.Reader(job, nil), adapters.Responses{}.Translator(job, time.Unix(0, 0))
			var steps []string
			var out []byte
			take := func(events []core.Event) {
				steps = joinSteps(steps, events)
				for i := range events {
					out = w.Event(out, &events[i])
				}
			}
			if streamed {
				for _, f := range cut(t, r.Split(), body) {
					r.Read(&f)
					take(r.Events(&f))
				}
			} else {
				if err := r.ReadWhole(body); err != nil {
					t.Fatal(err)
				}
				events, err := r.WholeEvents(body)
				if err != nil {
					t.Fatal(err)
				}
				take(events)
			}
			a := r.Answer()
			out = w.End(out, &a)
			checkSteps(t, steps, body, streamed)

			again := adapters.Responses{}.Reader(job, nil)
			var second []string
			if streamed {
				checkIndexed(t, string(out))
				for _, f := range cut(t, again.Split(), out) {
					again.Read(&f)
					second = joinSteps(second, again.Events(&f))
				}
			} else {
				if err := again.ReadWhole(out); err != nil {
					t.Fatal(err)
				}
				events, _ := again.WholeEvents(out)
				second = joinSteps(second, events)
			}
			if got, want := unsealed(second), unsealed(steps); !reflect.DeepEqual(got, want) {
				t.Errorf("%q\nand then\n%q", want, got)
			}
			if got, want := again.Answer().Usage, a.Usage; got.Output != want.Output || got.Input() != want.Input() || got.CacheRead.V != want.CacheRead.V || got.Reasoning.V != want.Reasoning.V {
				t.Errorf("usage %+v and then %+v", want, got)
			}
		})
	}
}

// unsealed leaves out what differs for a reason: the model's name, and seals,
// which are wrapped, or made to tell from whose the reasoning is.
func unsealed(steps []string) (out []string) {
	for _, s := range steps {
		switch {
		case strings.HasPrefix(s, "start "):
			s = strings.Fields(s)[1]
		case strings.HasPrefix(s, "seal "):
			continue
		case strings.HasPrefix(s, "think ") && len(out) > 0 && strings.HasPrefix(out[len(out)-1], "think "):
			out[len(out)-1] += strings.TrimPrefix(s, "think ")
			continue
		}
		out = append(out, s)
	}
	return out
}

// checkSteps holds the steps against the items that the recording ends with.
func checkSteps(t *testing.T, steps []string, body []byte, streamed bool) {
	t.Helper()
	type item struct {
		Type, Name, Arguments, Input string
		CallID                       string `json:"call_id"`
		Encrypted                    string `json:"encrypted_content"`
		Content, Summary             []struct{ Text, Refusal string }
	}
	var items []item
	if streamed {
		for _, f := range cut(t, core.SplitSSE, body) {
			var e struct {
				Type string
				Item item
			}
			if json.Unmarshal(f.Data, &e) == nil && e.Type == "response.output_item.done" {
				items = append(items, e.Item)
			}
		}
	} else {
		var whole struct{ Output []item }
		if err := json.Unmarshal(body, &whole); err != nil {
			t.Fatal(err)
		}
		items = whole.Output
	}
	want := map[string]string{}
	for _, it := range items {
		switch it.Type {
		case "message":
			for _, p := range it.Content {
				want["text"] += p.Text
			}
		case "reasoning":
			var parts []string
			for _, p := range append(it.Summary, it.Content...) {
				parts = append(parts, p.Text)
			}
			want["think"] += strings.Join(parts, "\n\n")
			if it.Encrypted != "" {
				want["seal"] += it.Encrypted
			}
		case "function_call":
			want["tool"] += it.CallID + it.Name
			want["args"] += it.Arguments
		case "custom_tool_call":
			want["tool"] += it.CallID + it.Name
			want["args"] += `{"input":"` + it.Input + `"}`
		}
	}
	got := map[string]string{}
	for _, s := range steps {
		kind, text, _ := strings.Cut(s, " ")
		switch kind {
		case "tool":
			f := strings.Fields(text)
			text = f[1] + f[2]
		case "args":
			_, text, _ = strings.Cut(text, " ")
		case "seal":
			_, text, _ = strings.Cut(text, ` "`)
			text, _, _ = strings.Cut(text, `" `)
		case "start", "finish", "refuse":
			continue
		}
		var plain string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &plain); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		got[kind] += plain
	}
	maps.DeleteFunc(want, func(_, said string) bool { return said == "" })
	if !reflect.DeepEqual(got, want) && len(items) > 0 {
		t.Errorf("it says\n%q\nand means\n%q", got, want)
	}
}

// FuzzTranslateResponses: whatever a stream holds, what is written of it is a
// stream of JSON events, and whole it is JSON.
func FuzzTranslateResponses(f *testing.F) {
	seed(f, "*/*responses-*.sse")
	seed(f, "*/*responses-unstreamed.json")
	f.Add([]byte(sse(`{"type":"response.output_item.added","item":{"type":"custom_tool_call","call_id":"a"}}`, `{"item_id":"a","type":"response.custom_tool_call_input.delta","delta":"x"}`, `{"type":"response.reasoning_text.delta","delta":"\ud83d"}`,
		`{"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"x"}}`, `{"type":"response.refusal.delta","delta":"x"}`, `{"type":"response.completed","response":{}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, streamed := range []bool{true, false} {
			job := &core.Job{Model: "m", Streamed: streamed, Body: []byte(`{"tools":[{"type":"custom","name":""}]}`)}
			r, w := adapters.Responses{}.Reader(job, nil), adapters.Responses{}.Translator(job, time.Unix(0, 0))
			var out []byte
			take := func(events []core.Event) {
				for i := range events {
					out = w.Event(out, &events[i])
				}
			}
			for _, frame := range cut(t, r.Split(), body) {
				r.Read(&frame)
				take(r.Events(&frame))
			}
			if r.ReadWhole(body) == nil {
				events, _ := r.WholeEvents(body)
				take(events)
			}
			a := r.Answer()
			if out = w.End(out, &a); !streamed {
				if !json.Valid(out) {
					t.Fatalf("%q becomes %q", body, out)
				}
				continue
			}
			for _, frame := range cut(t, core.SplitSSE, out) {
				if !json.Valid(frame.Data) {
					t.Fatalf("%q becomes %q", body, out)
				}
			}
		}
	})
}

func BenchmarkTranslateResponses(b *testing.B) {
	job := &core.Job{Model: "m", Streamed: true, Body: []byte(`{"model":"m"}`)}
	r, w := adapters.Responses{}.Reader(job, nil), adapters.Responses{}.Translator(job, time.Unix(0, 0))
	f := core.Frame{Data: []byte(`{"type":"response.output_text.delta","sequence_number":41,"item_id":"msg_67e554a1de488191af0831d35cbe082e0794405d35281ae2","output_index":0,"content_index":0,"delta":" answer","logprobs":[],"obfuscation":"nWGYWBbZqbOv8"}`)}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		f.Raw = f.Data
		r.Read(&f)
		events := r.Events(&f)
		for i := range events {
			out = w.Event(out[:0], &events[i])
		}
	}
}

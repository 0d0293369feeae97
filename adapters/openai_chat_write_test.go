package adapters_test

import (
	"encoding/json"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// chunks writes chat chunks as a stream.
func chunks(data ...string) []byte {
	return []byte("data: " + strings.Join(append(data, "[DONE]"), "\n\ndata: ") + "\n\n")
}

func TestChatErrors(t *testing.T) {
	w := adapters.Chat{}.Writer(nil)
	for _, c := range []struct {
		err  *core.Error
		want string
	}{
		{core.Field("messages[2].role", "required"), `{"error":{"message":"messages[2].role: required","type":"invalid_request_error","param":"messages[2].role","code":null}}`},
		{&core.Error{Kind: core.Unauthorized, Msg: "no key", Hint: "send one"}, `{"error":{"message":"no key; send one","type":"authentication_error","param":null,"code":null}}`},
		{&core.Error{Kind: core.NotFound, Msg: "no model \"<x>\"\n", Code: "model_not_found"}, `{"error":{"message":"no model \"<x>\"\n","type":"not_found_error","param":null,"code":"model_not_found"}}`},
		{&core.Error{Kind: core.OverBudget, Msg: "spent"}, `{"error":{"message":"spent","type":"budget_exceeded","param":null,"code":"budget_exceeded"}}`},
		{&core.Error{Kind: core.Busy, Msg: "slow"}, `{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":null}}`},
		{&core.Error{Kind: core.Upstream, Msg: "down"}, `{"error":{"message":"down","type":"server_error","param":null,"code":"upstream_error"}}`},
		{&core.Error{Kind: core.NoOffer, Msg: "none"}, `{"error":{"message":"none","type":"server_error","param":null,"code":"no_offer_available"}}`},
	} {
		same(t, c.err.Msg, w.ErrorBody(c.err), c.want)
		event := string(w.ErrorEvent(c.err))
		if event != "data: "+string(w.ErrorBody(c.err))+"\n\n" || strings.Contains(string(w.ErrorBody(c.err)), `\u003c`) {
			t.Errorf("event %q", event)
		}
		r := adapters.Chat{}.Reader(&core.Job{Streamed: true}, nil)
		if marks := readAll(t, r, event); len(marks) != 1 || marks[0] != core.MarkError || r.Answer().Err.Message != c.err.Msg && c.err.Hint == "" {
			t.Errorf("the event reads as %v, %+v", marks, r.Answer().Err)
		}
	}
}

func TestChatFold(t *testing.T) {
	head := `"id":"c","object":"chat.completion.chunk","created":1,"model":"m"`
	chunk := func(delta, finish string) string {
		return `{` + head + `,"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	usage := `{` + head + `,"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	answer := func(message, finish string) string {
		return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":` + finish +
			`}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	}
	for _, c := range []struct {
		name   string
		chunks []string
		want   string
	}{
		{
			"text", []string{chunk(`{"role":"assistant","content":""}`, "null"), chunk(`{"content":"a "}`, "null"), chunk(`{"content":"b"}`, "null"), chunk(`{}`, `"stop"`)},
			answer(`{"role":"assistant","content":"a b"}`, `"stop"`),
		},
		{
			"reasoning, a refusal and what is not known", []string{
				chunk(`{"role":"assistant","content":null,"reasoning_content":"h","mood":"go","label":"x"}`, "null"),
				chunk(`{"reasoning_content":"h","mood":"od","score":1,"label":"x"}`, "null"), chunk(`{"refusal":"no","score":2,"label":"x"}`, "null"), chunk(`{"refusal":"!"}`, `"stop"`),
			},
			answer(`{"role":"assistant","content":null,"reasoning_content":"hh","mood":"good","label":"x","score":2,"refusal":"no!"}`, `"stop"`),
		},
		{
			"parallel calls, pieces between one another", []string{
				chunk(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, "null"),
				chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\""}}]}`, "null"),
				chunk(`{"tool_calls":[{"index":0,"id":"","function":{"arguments":"{\"x\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}`, "null"),
				chunk(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}`, `"tool_calls"`),
			},
			answer(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
				{"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\":2}"}}]}`, `"tool_calls"`),
		},
		{
			"whole calls that all have index 0, or none", []string{
				chunk(`{"content":"","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]}`, "null"),
				chunk(`{"tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]}`, `"tool_calls"`),
			},
			answer(`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
				{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"g","arguments":"{}"}}]}`, `"tool_calls"`),
		},
		{
			"parts of content", []string{
				chunk(`{"role":"assistant","content":""}`, "null"), chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}`, "null"),
				chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]}]}`, "null"), chunk(`{"content":[{"type":"text","text":"a"}]}`, "null"),
				chunk(`{"content":[{"type":"text","text":"b"}]}`, "null"), chunk(`{"content":""}`, `"stop"`),
			},
			answer(`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"ab"}]}`, `"stop"`),
		},
		{
			"the message so far beside each delta, the finish twice", []string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{"content":"b"},"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}`, chunk(`{"content":""}`, `"stop"`),
			},
			answer(`{"role":"assistant","content":"ab"}`, `"stop"`),
		},
	} {
		job := &core.Job{Operation: core.OpGenerate, Streamed: true, AskedUsage: true}
		body := roundTrip(t, c.name, adapters.Chat{}, job, chunks(append(c.chunks, usage)...))
		same(t, c.name, body, c.want)
	}

	two := roundTrip(t, "two choices", adapters.Chat{}, &core.Job{Streamed: true}, chunks(
		`{"id":"c","choices":[{"index":1,"delta":{"content":"B"},"logprobs":{"content":[{"token":"B"}]}}]}`, `{"choices":[{"index":0,"delta":{"content":"A"}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}]},"finish_reason":"length"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	))
	same(t, "two choices", two, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"stop"},
		{"index":1,"message":{"role":"assistant","content":"Bb"},"logprobs":{"content":[{"token":"B"},{"token":"b"}]},"finish_reason":"length"}]}`)

	parts := roundTrip(t, "parts, then text", adapters.Chat{}, &core.Job{Streamed: true}, chunks(
		`{"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`, `{"choices":[{"index":0,"delta":{"content":"1"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"44"},"finish_reason":"stop"}]}`,
	))
	same(t, "parts, then text", parts, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",
		"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"144"}]},"finish_reason":"stop"}]}`)

	completion := roundTrip(t, "completions", adapters.Chat{}, &core.Job{Operation: core.OpCompletions, Streamed: true}, chunks(
		`{"id":"c","choices":[{"index":0,"text":"a","finish_reason":null}]}`, `{"choices":[{"index":0,"text":" b","finish_reason":"length"}]}`,
	))
	same(t, "completions", completion, `{"id":"c","object":"text_completion","choices":[{"index":0,"text":"a b","finish_reason":"length"}]}`)

	for name, stream := range map[string]string{"nothing": "", "comments": ": hi\n\n", "an end": "data: [DONE]\n\n", "an error": "data: {\"error\":{}}\n\n", "no JSON": "data: <html>\n\n"} {
		w := adapters.Chat{}.Writer(&core.Job{})
		for _, f := range cut(t, core.SplitSSE, []byte(stream)) {
			w.Fold(f)
		}
		if body, err := w.Folded(); err == nil {
			t.Errorf("%s folds to %s", name, body)
		}
	}
}

func TestChatUnfold(t *testing.T) {
	body := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning":"hm","refusal":null,
		"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],
		"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"timings":{"prompt_n":1}}`
	for _, asked := range []bool{false, true} {
		job := &core.Job{Operation: core.OpGenerate, Streamed: true, AskedUsage: asked}
		frames, err := adapters.Chat{}.Writer(job).Unfold([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r := adapters.Chat{}.Reader(job, nil)
		var marks []core.Mark
		for i, f := range frames {
			marks = append(marks, readAll(t, r, string(f))...)
			if i == len(frames)-1 {
				break
			}
			var chunk map[string]any
			if err := json.Unmarshal(f[len("data: "):], &chunk); err != nil || chunk["id"] != "c" || chunk["object"] != "chat.completion.chunk" || chunk["created"] == nil || chunk["model"] != "m" {
				t.Errorf("chunk %d: %s (%v)", i, f, err)
			}
			if _, ok := chunk["usage"]; ok != asked {
				t.Errorf("asked %v, and chunk %d is %s", asked, i, f)
			}
		}
		want := []core.Mark{reasoning, text, tool, finish}
		if asked {
			want = append(want, core.MarkUsageOnly)
		}
		want = append(want, core.MarkEnd)
		if len(marks) != len(want) {
			t.Fatalf("asked %v: marks %v", asked, marks)
		}
		for i := range want {
			if marks[i] != want[i] {
				t.Errorf("frame %d is marked %b, want %b", i, marks[i], want[i])
			}
		}
	}
	for _, bad := range []string{``, `[]`, `{"id":"c"}`, `{"choices":{}}`} {
		if frames, err := (adapters.Chat{}).Writer(&core.Job{}).Unfold([]byte(bad)); err == nil {
			t.Errorf("%s unfolds to %s", bad, frames)
		}
	}
}

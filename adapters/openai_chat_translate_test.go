package adapters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

// chatServer is an offer of a server that speaks a dialect.
func chatServer(dialect string) *core.Offer {
	o := offer()
	o.Provider.Format, o.Provider.Dialect, o.UpstreamModel = core.FormatOpenAI, dialect, ""
	return o
}

// decodeChat reads a request body.
func decodeChat(t testing.TB, body string) (*core.Content, error) {
	t.Helper()
	job, err := adapters.Chat{}.Parse(core.RequestHead{Path: chatPath}, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	c, err := adapters.Chat{}.Decode(job)
	if err == nil && string(job.Body) != body {
		t.Errorf("the body has changed to %s", job.Body)
	}
	return c, err
}

// buildChat writes a content for an offer.
func buildChat(t testing.TB, c *core.Content, o *core.Offer) (body string, dropped []string, err error) {
	t.Helper()
	req, dropped, err := adapters.Chat{}.Build(context.Background(), &core.Job{Operation: core.OpGenerate}, c, core.RequestHead{}, o)
	if err != nil {
		return "", dropped, err
	}
	b, err := io.ReadAll(req.Body)
	if err != nil || !json.Valid(b) {
		t.Fatalf("%v: not JSON: %s", err, b)
	}
	return string(b), dropped, nil
}

// chatTold writes events as lines.
func chatTold(events []core.Event) (lines []string) {
	for _, e := range events {
		line := ""
		switch e.Kind {
		case core.EventStart:
			line = "start " + e.ID + " " + e.Model
		case core.EventText:
			line = "text " + string(e.Text)
		case core.EventReasoning:
			line = "reasoning " + string(e.Text)
		case core.EventRefusal:
			line = "refusal " + string(e.Text)
		case core.EventSeal:
			line = fmt.Sprintf("seal %s %v %s", e.Seal.Origin, e.Seal.Encrypted, e.Seal.Text)
		case core.EventTool:
			line = fmt.Sprintf("tool %d %s %s", e.Index, e.ID, e.Name)
		case core.EventArguments:
			line = fmt.Sprintf("arguments %d %s", e.Index, e.Text)
		case core.EventFinish:
			line = "finish " + string(e.Finish)
			if e.StopText != nil {
				line += " " + string(e.StopText)
			}
		}
		if e.Choice > 0 {
			line += fmt.Sprintf(" #%d", e.Choice)
		}
		lines = append(lines, line)
	}
	return lines
}

// streamEvents are the events of a stream.
func streamEvents(t testing.TB, stream []byte, o *core.Offer) (lines []string, answer core.Answer) {
	t.Helper()
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true}, o)
	for _, f := range cut(t, core.SplitSSE, stream) {
		if m := r.Read(&f); !m.Has(core.MarkError | core.MarkBroken) {
			lines = append(lines, chatTold(r.Events(&f))...)
		}
	}
	return lines, r.Answer()
}

func TestChatEvents(t *testing.T) {
	delta := func(delta, finish string) string {
		return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	for _, c := range []struct {
		name, dialect string
		chunks        []string
		want          []string
	}{
		{
			"text", "", []string{delta(`{"role":"assistant","content":""}`, "null"), delta(`{"content":"a "}`, "null"), delta(`{"content":"\u00e9\n"}`, "null"), delta(`{"content":"b"}`, "null"), delta(`{}`, `"stop"`)},
			[]string{"start c m", "text a ", `text \u00e9\n`, "text b", "finish stop"},
		},
		{
			"Azure's filters first", "azure", []string{`{"choices":[],"id":"","model":"","prompt_filter_results":[]}`, delta(`{"content":"a"}`, "null"), delta(`{}`, `"content_filter"`)},
			[]string{"start c m", "text a", "finish filter"},
		},
		{
			"reasoning under both names", "", []string{
				delta(`{"reasoning":"h","reasoning_content":"h"}`, "null"), delta(`{"reasoning":"m","reasoning_content":"m"}`, "null"), delta(`{"content":"a"}`, `"stop"`), delta(`{}`, `"stop"`),
			},
			[]string{"start c m", "reasoning h", "reasoning m", `seal openai false ""`, "text a", "finish stop", "finish stop"},
		},
		{
			"reasoning", "deepseek", []string{
				delta(`{"reasoning_content":"h"}`, "null"), delta(`{"reasoning_content":"m"}`, "null"), delta(`{"content":"a"}`, "null"), delta(`{"content":"b"}`, "null"), delta(`{}`, `"length"`),
			},
			[]string{"start c m", "reasoning h", "reasoning m", `seal openai false ""`, "text a", "text b", "finish length"},
		},
		{
			"reasoning between like chunks", "deepseek", []string{
				delta(`{"reasoning_content":"h"}`, "null"), delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}`, "null"), delta(`{"reasoning_content":"m"}`, "null"), delta(`{"content":"a"}`, "null"),
			},
			[]string{"start c m", "reasoning h", `seal openai false ""`, "tool 0 a f", "reasoning m", `seal openai false ""`, "text a"},
		},
		{
			"OpenRouter's details", "openrouter", []string{
				delta(`{"reasoning":"h","reasoning_details":[{"type":"reasoning.text","text":"h","format":"anthropic-claude-v1","index":0}]}`, "null"),
				delta(`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"","signature":"s\"g","format":"anthropic-claude-v1","index":0}]}`, "null"),
				delta(`{"content":"a"}`, "null"),
			},
			[]string{"start c m", "reasoning h", `seal openai false "{\"type\":\"reasoning.text\",\"signature\":\"s\\\"g\",\"format\":\"anthropic-claude-v1\",\"index\":0}"`, "text a"},
		},
		{
			"Google's signature of a call", "gemini", []string{
				delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`, `"tool_calls"`),
			},
			[]string{"start c m", `seal openai false "{\"google\":{\"thought_signature\":\"c2ln\"}}"`, "tool 0 a f", "arguments 0 {}", "finish tools"},
		},
		{
			"Mistral's parts", "mistral", []string{
				delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, "null"), delta(`{"content":[{"type":"text","text":"a"}]}`, "null"), delta(`{"content":"b"}`, `"model_length"`),
			},
			[]string{"start c m", "reasoning hm", `seal openai false ""`, "text a", "text b", "finish length"},
		},
		{
			"parallel calls in pieces, one without arguments", "", []string{
				delta(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, "null"),
				delta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\""}}]}`, "null"),
				delta(`{"tool_calls":[{"index":0,"id":"","function":{"arguments":"{\"x\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}`, "null"),
				delta(`{"tool_calls":[{"index":2,"id":"c","function":{"name":"h","arguments":null}}]}`, `"stop"`),
			},
			[]string{"start c m", "tool 0 a f", "tool 1 b g", `arguments 1 {\"y\"`, `arguments 0 {\"x\":1}`, "arguments 1 :2}", "tool 2 c h", "finish tools"},
		},
		{
			"whole calls that all have index 0, or none", "", []string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"f","arguments":{"x":"\n"}}}]}`, "null"),
				delta(`{"tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]}`, `"length"`),
			},
			[]string{"start c m", "tool 0 a f", "arguments 0 {}", "tool 1 b f", `arguments 1 {\"x\":\"\\n\"}`, "tool 2 c g", "arguments 2 {}", "finish length"},
		},
		{
			"pieces that only their id tells apart", "", []string{
				delta(`{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}]}`, "null"),
				delta(`{"tool_calls":[{"id":"a","function":{"arguments":"{}"}},{"function":{"arguments":"[]"}}]}`, "null"),
			},
			[]string{"start c m", "tool 0 a f", "tool 1 b g", "arguments 0 {}", "arguments 1 []"},
		},
		{
			"a name behind its arguments", "", []string{
				delta(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}`, "null"), delta(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}`, "null"),
			},
			[]string{"start c m", "tool 0 a f", "arguments 0 {", "arguments 0 }"},
		},
		{
			"a finish for calls that are not there", "", []string{delta(`{"content":"a"}`, `"tool_calls"`)},
			[]string{"start c m", "text a", "finish stop"},
		},
		{
			"a refusal, the order of members", "", []string{
				`{"choices":[{"finish_reason":"stop","delta":{"refusal":"no","content":"so "},"index":0}],"model":"m","id":"c"}`,
			},
			[]string{"start c m", "text so ", "refusal no", "finish refusal"},
		},
		{
			"choices between one another", "", []string{
				delta(`{"content":"a"}`, "null"), strings.Replace(delta(`{"content":"x"}`, "null"), `"index":0`, `"index":1`, 1), delta(`{"content":"b"}`, "null"),
				strings.Replace(delta(`{"content":"y"}`, "null"), `"index":0`, `"index":1`, 1), strings.Replace(delta(`{"content":"z"}`, "null"), `"index":0`, `"index":1`, 1),
			},
			[]string{"start c m", "text a", "text x #1", "text b", "text y #1", "text z #1"},
		},
		{
			"characters cut in two", "", []string{
				delta(`{"content":"a\ud83c"}`, "null"), delta(`{"content":"\udf75 b"}`, "null"), delta(`{"content":"c\ud83c"}`, "null"), delta(`{"content":"d"}`, "null"), delta(`{"content":"\udf75e"}`, "null"),
				delta("{\"content\":\"f\xc3\"}", "null"), delta("{\"content\":\"\xa9g\"}", "null"), delta(`{"content":"\\ud83c"}`, "null"), delta(`{"content":"h"}`, "null"),
			},
			[]string{"start c m", "text a", `text \ud83c\udf75 b`, "text c", "text \ufffdd", "text \ufffde", "text f", "text \u00e9g", `text \\ud83c`, "text h"},
		},
		{
			"a stop sequence that is told", "vllm", []string{strings.Replace(delta(`{"content":"a"}`, `"stop"`), `}]}`, `,"stop_reason":"END"}]}`, 1)},
			[]string{"start c m", "text a", `finish stop "END"`},
		},
		{
			"an error beside choices", "openrouter", []string{delta(`{"content":"a"}`, "null"), `{"error":{"message":"no"},"choices":[{"index":0,"delta":{"content":"b"}}]}`},
			[]string{"start c m", "text a"},
		},
		{"usage alone, comments, ends", "", []string{delta(`{"content":"a"}`, "null"), `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`}, []string{"start c m", "text a"}},
	} {
		got, _ := streamEvents(t, chunks(c.chunks...), chatServer(c.dialect))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}

	// The old function_call has no id: one is made.
	got, _ := streamEvents(t, chunks(delta(`{"function_call":{"name":"f","arguments":"{"}}`, "null"), delta(`{"function_call":{"arguments":"}"}}`, `"function_call"`)), chatServer(""))
	if len(got) != 5 || !strings.HasPrefix(got[1], "tool 0 call_") || !strings.HasSuffix(got[1], " f") || got[2] != "arguments 0 {" || got[3] != "arguments 0 }" || got[4] != "finish tools" {
		t.Errorf("function_call: %q", got)
	}
}

func TestChatWholeEvents(t *testing.T) {
	body := `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
		{"id":"b","function":{"name":"g","arguments":""}}],"content":"hi","reasoning_content":"hm","refusal":null},"delta":{"content":"no"}},{"index":1,"finish_reason":"length","message":{"content":"two"}}],"usage":{}}`
	r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate}, chatServer("qwen"))
	if err := r.ReadWhole([]byte(body)); err != nil {
		t.Fatal(err)
	}
	events, err := r.WholeEvents([]byte(body))
	want := []string{"start c m", "reasoning hm", `seal openai false ""`, "text hi", "tool 0 a f", `arguments 0 {\"x\":1}`, "tool 1 b g", "finish tools", "text two #1", "finish length #1"}
	if got := chatTold(events); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %q", err, got)
	}
}

// chatPiece makes an event of a kind.
func chatPiece(kind core.EventKind, text string) core.Event {
	return core.Event{Kind: kind, Text: []byte(text)}
}

func chatSeal(origin core.Format, text string, encrypted bool) core.Event {
	return core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: origin, Text: core.Quoted(`"` + text + `"`), Encrypted: encrypted}}
}

// translated is what a chat client gets of events; frames is how many events wrote something.
func translated(job *core.Job, events []core.Event, answer *core.Answer) (out string, frames int) {
	w := adapters.Chat{}.Translator(job, time.Unix(7, 0))
	var b []byte
	for i := range events {
		n := len(b)
		if b = w.Event(b, &events[i]); len(b) > n {
			frames++
		}
		for j := range events[i].Text {
			events[i].Text[j] = 'X' // it was only lent
		}
	}
	b = w.End(b, answer)
	return string(w.End(b, answer)), frames
}

func TestChatTranslate(t *testing.T) {
	start := core.Event{Kind: core.EventStart, ID: "msg_1", Model: "upstream"}
	finish := func(f core.Finish) core.Event { return core.Event{Kind: core.EventFinish, Finish: f} }
	tool := func(i int, id, name string) core.Event {
		return core.Event{Kind: core.EventTool, Index: i, ID: id, Name: name}
	}
	args := func(i int, s string) core.Event {
		return core.Event{Kind: core.EventArguments, Index: i, Text: []byte(s)}
	}
	known := core.Answer{Reported: true, Usage: core.Usage{UncachedInput: core.Some[int64](3), CacheRead: core.Some[int64](40), CacheWrite: core.Some[int64](500), CacheWrite1h: core.Some[int64](100), Output: core.Some[int64](9), Reasoning: core.Some[int64](4)}}
	usage := `{"prompt_tokens":543,"completion_tokens":9,"total_tokens":552,"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":500},"completion_tokens_details":{"reasoning_tokens":4}}`
	for _, c := range []struct {
		name    string
		events  func() []core.Event
		message string
		finish  string
	}{
		{"text", func() []core.Event {
			return []core.Event{start, chatPiece(core.EventText, `a\n`), chatPiece(core.EventText, "b"), finish(core.FinishStop), chatPiece(core.EventText, "c"), finish(core.FinishLength)}
		}, `{"content":"a\nbc","refusal":null}`, "stop"},
		{"nothing at all", func() []core.Event { return []core.Event{start} }, `{"content":"","refusal":null}`, "stop"},
		{"reasoning with its seal, text, parallel calls", func() []core.Event {
			return []core.Event{
				start, chatPiece(core.EventReasoning, "h"), chatPiece(core.EventReasoning, "m"), chatSeal(core.FormatAnthropic, "c2ln", false), chatPiece(core.EventText, "a"), tool(0, "t0", "f"), tool(1, "t1", "g"),
				args(1, `{\"y\"`), args(0, `{\"x\":1}`), args(1, `:2}`), tool(2, "t2", "h"), finish(core.FinishTools),
			}
		}, `{"content":"a","refusal":null,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.encrypted","format":"headway","index":0,"data":"hw1:anthropic:s:0:c2ln"}],
			"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"t1","type":"function","function":{"name":"g","arguments":"{\"y\":2}"}},
			{"id":"t2","type":"function","function":{"name":"h","arguments":"{}"}}]}`, "tool_calls"},
		{"a call's own seal", func() []core.Event {
			return []core.Event{start, chatSeal(core.FormatGoogle, "c2ln", false), tool(0, "t0", "f"), args(0, "{}"), finish(core.FinishTools)}
		}, `{"content":null,"refusal":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"hw1:google:s:0:c2ln"}}}]}`, "tool_calls"},
		{"a seal of hidden reasoning", func() []core.Event {
			return []core.Event{start, chatSeal(core.FormatAnthropic, "cmVk", true), chatPiece(core.EventText, "a"), finish(core.FinishStop)}
		}, `{"content":"a","refusal":null,"reasoning_details":[{"type":"reasoning.encrypted","format":"headway","index":0,"data":"hw1:anthropic:e:0:cmVk"}]}`, "stop"},
		{"several blocks of reasoning", func() []core.Event {
			return []core.Event{
				start, chatPiece(core.EventReasoning, `\u00e9`), chatSeal(core.FormatAnthropic, "YQ", false), chatPiece(core.EventText, "a"), chatSeal(core.FormatAnthropic, "cg", true),
				chatPiece(core.EventReasoning, "m"), chatSeal(core.FormatAnthropic, "Yg", false), finish(core.FinishStop),
			}
		}, `{"content":"a","refusal":null,"reasoning_content":"ém","reasoning_details":[{"type":"reasoning.encrypted","format":"headway","index":0,"data":"hw1:anthropic:s:0:YQ"},
			{"type":"reasoning.encrypted","format":"headway","index":1,"data":"@2:hw1:anthropic:e:0:cg"},{"type":"reasoning.encrypted","format":"headway","index":2,"data":"@2:hw1:anthropic:s:0:Yg"}]}`, "stop"},
		{"a refusal", func() []core.Event {
			return []core.Event{start, chatPiece(core.EventRefusal, "no"), finish(core.FinishRefusal)}
		}, `{"content":null,"refusal":"no"}`, "stop"},
		{"declined with text", func() []core.Event {
			return []core.Event{start, chatPiece(core.EventText, "I"), finish(core.FinishRefusal)}
		}, `{"content":"I","refusal":null}`, "content_filter"},
		{"filtered", func() []core.Event { return []core.Event{start, finish(core.FinishFilter)} }, `{"content":"","refusal":null}`, "content_filter"},
		{"a call that is cut", func() []core.Event {
			return []core.Event{start, tool(0, "t0", "f"), args(0, `{\"ci`), finish(core.FinishLength)}
		}, `{"content":null,"refusal":null,"tool_calls":[{"id":"t0","type":"function","function":{"name":"f","arguments":"{\"ci"}}]}`, "length"},
	} {
		choice := `{"index":0,"message":` + strings.Replace(c.message, "{", `{"role":"assistant",`, 1) + `,"logprobs":null,"finish_reason":"` + c.finish + `"}`
		want := `{"id":"msg_1","object":"chat.completion","created":7,"model":"asked","choices":[` + choice + `],"usage":` + usage + `}`
		got, frames := translated(&core.Job{Model: "asked"}, c.events(), &known)
		same(t, c.name, []byte(got), want)
		if frames > 0 {
			t.Errorf("%s: %d events wrote something before the end", c.name, frames)
		}

		stream, _ := translated(&core.Job{Model: "asked", Streamed: true, AskedUsage: true}, c.events(), &known)
		folded := chatFold(t, stream)
		// In a stream an empty text and a refusal that is none are not said.
		streamed := strings.NewReplacer(`"content":"","refusal":null`, `"content":null`, `,"refusal":null`, "").Replace(want)
		same(t, c.name+", streamed", folded, streamed)
		for i, f := range cut(t, core.SplitSSE, []byte(stream)) {
			if string(f.Data) == "[DONE]" {
				continue
			}
			var chunk struct {
				ID, Object, Model string
				Created           int
				Choices           []struct{ Delta map[string]any }
				Usage             map[string]any
			}
			if err := json.Unmarshal(f.Data, &chunk); err != nil || chunk.ID != "msg_1" || chunk.Object != "chat.completion.chunk" || chunk.Created != 7 || chunk.Model != "asked" ||
				len(chunk.Choices) != 1 && chunk.Usage == nil || i == 0 && chunk.Choices[0].Delta["role"] != "assistant" || i > 0 && len(chunk.Choices) == 1 && chunk.Choices[0].Delta["role"] != nil {
				t.Errorf("%s: chunk %d: %s (%v)", c.name, i, f.Data, err)
			}
		}
		if !strings.HasSuffix(stream, "}\n\ndata: [DONE]\n\n") || strings.Count(stream, "[DONE]") != 1 {
			t.Errorf("%s ends with %q", c.name, stream[max(0, len(stream)-60):])
		}
		silent, _ := translated(&core.Job{Model: "asked", Streamed: true}, c.events(), &known)
		if strings.Contains(silent, "usage") {
			t.Errorf("%s: usage that was not asked for: %s", c.name, silent)
		}
	}
	two, _ := translated(&core.Job{Model: "m"}, []core.Event{{Kind: core.EventText, Choice: 1, Text: []byte("b")}, {Kind: core.EventText, Text: []byte("a")}, {Kind: core.EventFinish, Choice: 1, Finish: core.FinishLength}}, &core.Answer{})
	var answer struct {
		ID      string
		Choices json.RawMessage
		Usage   *int
	}
	if err := json.Unmarshal([]byte(two), &answer); err != nil || !strings.HasPrefix(answer.ID, "chatcmpl-") || answer.Usage != nil {
		t.Errorf("%v: %s", err, two)
	}
	same(t, "two choices", answer.Choices, `[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"stop"},
		{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":null,"finish_reason":"length"}]`)

	old := core.Job{Model: "m", Body: []byte(`{"messages":[],"functions":[{"name":"f"}]}`)}
	for _, streamed := range []bool{false, true} {
		old.Streamed = streamed
		got, _ := translated(&old, []core.Event{start, tool(0, "t0", "f"), args(0, "{}"), tool(1, "t1", "g"), finish(core.FinishTools)}, &core.Answer{})
		if streamed {
			got = string(chatFold(t, got))
		}
		got = strings.Replace(strings.Replace(got, `"logprobs":null,`, "", 1), `"refusal":null,`, "", 1)
		same(t, "functions", []byte(got), `{"id":"msg_1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"finish_reason":"function_call",
			"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}}]}`)
	}
}

// chatFold makes one answer of a stream, by the code for calls of the same format.
func chatFold(t testing.TB, stream string) []byte {
	t.Helper()
	w := adapters.Chat{}.Writer(&core.Job{Operation: core.OpGenerate})
	for _, f := range cut(t, core.SplitSSE, []byte(stream)) {
		w.Fold(f)
	}
	body, err := w.Folded()
	if err != nil {
		t.Fatalf("%v: %s", err, stream)
	}
	return body
}

// TestChatSealsComeBack: what a provider gave with its reasoning is the same
// again in the client's next turn, also where the client writes its JSON anew.
func TestChatSealsComeBack(t *testing.T) {
	id := core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: core.FormatResponses, ID: core.Quoted(`"rs_1"`), Text: core.Quoted(`"enc\\\"1"`), Encrypted: true}}
	events := func() []core.Event {
		return []core.Event{
			chatPiece(core.EventReasoning, `caf\u00e9 "`[:len(`caf\u00e9 `)]), chatPiece(core.EventReasoning, `\ud83c\udf75`), chatSeal(core.FormatAnthropic, "YQ==", false), chatPiece(core.EventText, "a"),
			chatSeal(core.FormatAnthropic, "cmVk", true), chatPiece(core.EventReasoning, "more"), id,
			chatSeal(core.FormatGoogle, "Z29v", false), {Kind: core.EventTool, ID: "t0", Name: "f"},
		}
	}
	for _, streamed := range []bool{false, true} {
		got, _ := translated(&core.Job{Model: "m", Streamed: streamed}, events(), &core.Answer{})
		if streamed {
			got = string(chatFold(t, got))
		}
		var answer struct{ Choices []struct{ Message any } }
		if err := json.Unmarshal([]byte(got), &answer); err != nil {
			t.Fatal(err)
		}
		message, err := json.Marshal(answer.Choices[0].Message)
		if err != nil {
			t.Fatal(err)
		}
		c, err := decodeChat(t, `{"model":"m","messages":[{"role":"user","content":"hi"},`+string(message)+`]}`)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, p := range c.Messages[1].Parts {
			parts = append(parts, fmt.Sprintf("%d %s %s %v %s %s %s", p.Kind, p.Text, p.Seal.Origin, p.Seal.Encrypted, p.Seal.ID, p.Seal.Text, p.Name))
		}
		want := []string{
			fmt.Sprintf("%d %s anthropic false  %s ", core.PartReasoning, `"café 🍵"`, `"YQ=="`),
			fmt.Sprintf("%d  anthropic true  %s ", core.PartReasoning, `"cmVk"`),
			fmt.Sprintf(`%d "more" openai-responses true "rs_1" "enc\\\"1" `, core.PartReasoning),
			fmt.Sprintf(`%d "a"  false   `, core.PartText),
			fmt.Sprintf(`%d  google false  "Z29v" `, core.PartReasoning),
			fmt.Sprintf(`%d   false   "f"`, core.PartToolCall),
		}
		if !slices.Equal(parts, want) {
			t.Errorf("streamed %v:\n%s\nwant\n%s", streamed, strings.Join(parts, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestChatRecordingsTranslate: every recorded stream means the same when it has
// gone through events.
func TestChatRecordingsTranslate(t *testing.T) {
	dir := wire(t)
	for _, l := range labels(t, dir) {
		if l.Format != "openai-chat" || l.Error != nil {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, l.File))
		if err != nil {
			t.Fatal(err)
		}
		o := chatServer(strings.ReplaceAll(l.Dialect, "llama.cpp", "llamacpp"))
		whole := body
		var out []byte
		w := adapters.Chat{}.Translator(&core.Job{Model: "m"}, time.Unix(7, 0))
		r := adapters.Chat{}.Reader(&core.Job{Operation: core.OpGenerate, Streamed: l.Streamed}, o)
		take := func(events []core.Event) {
			for i := range events {
				out = w.Event(out, &events[i])
			}
		}
		if l.Streamed {
			for _, f := range cut(t, core.SplitSSE, body) {
				r.Read(&f)
				take(r.Events(&f))
			}
			whole = chatFold(t, string(body))
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
		answer := r.Answer()
		out = w.End(out, &answer)
		got, want := meaning(t, out), meaning(t, whole)
		if got != want {
			t.Errorf("%s:\n%.2000s\nwant\n%.2000s", l.File, got, want)
		}
	}
}

// meaning is what an unstreamed chat answer says, in words of its own.
func meaning(t testing.TB, body []byte) string {
	t.Helper()
	var a struct {
		Choices []struct {
			Message struct {
				Content          any
				Reasoning        string `json:"reasoning"`
				ReasoningContent string `json:"reasoning_content"`
				Refusal          string
				ToolCalls        []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var b strings.Builder
	for _, c := range a.Choices {
		content, _ := c.Message.Content.(string)
		reasoning := c.Message.ReasoningContent
		if len(reasoning) < len(c.Message.Reasoning) { // some servers begin with both names and go on with one
			reasoning = c.Message.Reasoning
		}
		if parts, ok := c.Message.Content.([]any); ok {
			for _, p := range parts {
				part := p.(map[string]any)
				if s, ok := part["text"].(string); ok {
					content += s
				}
				if list, ok := part["thinking"].([]any); ok {
					for _, q := range list {
						reasoning += q.(map[string]any)["text"].(string)
					}
				}
			}
		}
		finish := c.Finish
		if len(c.Message.ToolCalls) > 0 && finish == "stop" {
			finish = "tool_calls"
		}
		if finish == "" || finish == "eos" {
			finish = "stop"
		}
		fmt.Fprintf(&b, "%s|%s|%s|%s", reasoning, content, c.Message.Refusal, finish)
		for _, call := range c.Message.ToolCalls {
			arguments := call.Function.Arguments
			if arguments == "" {
				arguments = "{}"
			}
			fmt.Fprintf(&b, "|%s(%s)", call.Function.Name, arguments)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

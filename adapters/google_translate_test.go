package adapters_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
)

var googleTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// googleTranslated gives an answer of events as a client of Google's gets it.
func googleTranslated(job *core.Job, events []core.Event, a core.Answer) (pieces []string) {
	tr := adapters.Google{}.Translator(job, googleTime)
	for i := range events {
		pieces = append(pieces, string(tr.Event(nil, &events[i])))
	}
	pieces = append(pieces, string(tr.End(nil, &a)))
	if again := tr.End(nil, &a); len(again) > 0 {
		pieces = append(pieces, "twice: "+string(again))
	}
	return pieces
}

func googleSeal(origin core.Format, text string) core.Event {
	return core.Event{Kind: core.EventSeal, Seal: core.Seal{Origin: origin, Text: googleQuoted(text)}}
}

func TestGoogleTranslate(t *testing.T) {
	some := core.Some[int64]
	words := func(kind core.EventKind, s string) core.Event { return core.Event{Kind: kind, Text: []byte(s)} }
	text := func(s string) core.Event { return words(core.EventText, s) }
	think := func(s string) core.Event { return words(core.EventReasoning, s) }
	tool := func(i int, id, name string) core.Event {
		return core.Event{Kind: core.EventTool, Index: i, ID: id, Name: name}
	}
	args := func(i int, s string) core.Event {
		return core.Event{Kind: core.EventArguments, Index: i, Text: []byte(s)}
	}
	finish := func(f core.Finish) core.Event { return core.Event{Kind: core.EventFinish, Finish: f} }
	in := func(choice int, e core.Event) core.Event { e.Choice = choice; return e }
	wrapped := base64.StdEncoding.EncodeToString([]byte("hw1:anthropic:s:0:c2ln"))

	for _, c := range []struct {
		name   string
		events []core.Event
		answer core.Answer
		pieces []string // the candidates of each response of a stream
		whole  string   // the candidates of a whole answer
		usage  string
	}{
		{"text", []core.Event{text(`a \"b\"`), text(""), text(`\n c`), finish(core.FinishStop), finish(core.FinishLength)},
			core.Answer{Usage: core.Usage{UncachedInput: some(10), CacheRead: some(90), CacheWrite: some(5), Output: some(12), Reasoning: some(4)}},
			[]string{`[{"content":{"parts":[{"text":"a \"b\""}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":"\n c"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"text":"a \"b\"\n c"}],"role":"model"},"finishReason":"STOP","index":0}]`,
			`{"promptTokenCount":105,"candidatesTokenCount":8,"totalTokenCount":117,"cachedContentTokenCount":90,"thoughtsTokenCount":4}`},
		{"reasoning with its seal, then a call", []core.Event{think("h"), think("m"), googleSeal("anthropic", "c2ln"), text("ok"), tool(0, "c1", "f"), args(0, `{\"a\":`), args(0, `\"\\u00e9 \\\"\"}`), finish(core.FinishTools)}, core.Answer{},
			[]string{`[{"content":{"parts":[{"text":"h","thought":true}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":"m","thought":true}],"role":"model"},"index":0}]`,
				`[{"content":{"parts":[{"text":"ok","thoughtSignature":"` + wrapped + `"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":"\u00e9 \""}}}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"text":"hm","thought":true},{"text":"ok","thoughtSignature":"` + wrapped + `"},{"functionCall":{"id":"c1","name":"f","args":{"a":"\u00e9 \""}}}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
		{"seals on text that goes on, before more thoughts, and last", []core.Event{googleSeal("anthropic", "c2ln"), think("h"), googleSeal("anthropic", "c2ln"), text("a"), text("b"), googleSeal("anthropic", "c2ln")}, core.Answer{},
			[]string{`[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"` + wrapped + `"},{"text":"h","thought":true}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":"a","thoughtSignature":"` + wrapped + `"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":"b"}],"role":"model"},"index":0}]`,
				`[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"` + wrapped + `"}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"` + wrapped + `"},{"text":"h","thought":true},{"text":"ab","thoughtSignature":"` + wrapped + `"},{"text":"","thought":true,"thoughtSignature":"` + wrapped + `"}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
		{"a call's own seal, and one that none follows", []core.Event{googleSeal("google", "Z28="), tool(0, "c1", "f"), tool(1, "c2", "g"), args(1, `{}`), googleSeal("anthropic", "c2ln"), finish(core.FinishStop)}, core.Answer{},
			[]string{`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"Z28="},{"functionCall":{"id":"c2","name":"g","args":{}},"thoughtSignature":"` + wrapped + `"}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"Z28="},{"functionCall":{"id":"c2","name":"g","args":{}},"thoughtSignature":"` + wrapped + `"}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
		{"calls one behind the other", []core.Event{tool(0, "c1", "f"), args(0, `{\"k\":`), args(0, `1}`), tool(1, "c2", "g"), args(1, `{\n  \"k\":\r\n2}`), text("so")}, core.Answer{},
			[]string{`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"k":1}}}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"functionCall":{"id":"c2","name":"g","args":{"k":2}}},{"text":"so"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"k":1}}},{"functionCall":{"id":"c2","name":"g","args":{"k":2}}},{"text":"so"}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
		{"calls mixed", []core.Event{tool(0, "c1", "f"), tool(1, "c2", "g"), args(0, `{\"k\"`), args(1, `{\"k\"`), args(0, `:1}`), args(1, `:2}`), finish(core.FinishTools)}, core.Answer{},
			[]string{`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"k":1}}},{"functionCall":{"id":"c2","name":"g","args":{"k":2}}}],"role":"model"},"finishReason":"STOP","index":0}]`},
			`[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"k":1}}},{"functionCall":{"id":"c2","name":"g","args":{"k":2}}}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
		{"arguments that were cut", []core.Event{text("x"), tool(0, "c1", "f"), args(0, `{\"k\":\"ab`), finish(core.FinishLength)}, core.Answer{Usage: core.Usage{Output: some(3)}},
			[]string{`[{"content":{"parts":[{"text":"x"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","finishMessage":"Malformed function call: f {\"k\":\"ab","index":0}]`},
			`[{"content":{"parts":[{"text":"x"}],"role":"model"},"finishReason":"MAX_TOKENS","finishMessage":"Malformed function call: f {\"k\":\"ab","index":0}]`, `{"candidatesTokenCount":3}`},
		{"arguments that are no object", []core.Event{tool(0, "c1", "f"), args(0, `[1]`), tool(1, "c2", "g"), args(1, `null`), finish(core.FinishTools)}, core.Answer{},
			[]string{`[{"content":{"parts":[{"functionCall":{"id":"c2","name":"g","args":{}}}],"role":"model"},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f [1]","index":0}]`},
			`[{"content":{"parts":[{"functionCall":{"id":"c2","name":"g","args":{}}}],"role":"model"},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f [1]","index":0}]`, ``},
		{"several answers", []core.Event{in(1, text("b")), text("a"), in(1, finish(core.FinishLength))}, core.Answer{Usage: core.Usage{UncachedInput: some(1)}},
			[]string{`[{"content":{"parts":[{"text":"b"}],"role":"model"},"index":1}]`, `[{"content":{"parts":[{"text":"a"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0},{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","index":1}]`},
			`[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP","index":0},{"content":{"parts":[{"text":"b"}],"role":"model"},"finishReason":"MAX_TOKENS","index":1}]`, `{"promptTokenCount":1}`},
		{"a refusal", []core.Event{words(core.EventRefusal, "no"), finish(core.FinishStop)}, core.Answer{},
			[]string{`[{"content":{"parts":[{"text":"no"}],"role":"model"},"index":0}]`, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"SAFETY","index":0}]`},
			`[{"content":{"parts":[{"text":"no"}],"role":"model"},"finishReason":"SAFETY","index":0}]`, ``},
		{"nothing", nil, core.Answer{}, []string{`[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]`}, `[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}]`, ``},
	} {
		events := append([]core.Event{{Kind: core.EventStart, ID: "id-1", Model: "other"}}, c.events...)
		behind := `,"modelVersion":"m","responseId":"id-1"}`
		usage := ""
		if c.usage != "" {
			usage = `,"usageMetadata":` + c.usage
		}

		sse := strings.Join(googleTranslated(&core.Job{Model: "m", Streamed: true, SSE: true}, events, c.answer), "")
		frames := cut(t, core.SplitSSE, []byte(sse))
		if len(frames) != len(c.pieces) || !strings.HasSuffix(sse, "}\r\n\r\n") {
			t.Fatalf("%s: %d pieces, want %d: %q", c.name, len(frames), len(c.pieces), sse)
		}
		for i, want := range c.pieces {
			if want = `{"candidates":` + want; i == len(c.pieces)-1 {
				want += usage
			}
			same(t, c.name, frames[i].Data, want+behind)
		}

		array := strings.Join(googleTranslated(&core.Job{Model: "m", Streamed: true}, events, c.answer), "")
		elements := cut(t, core.SplitArray, []byte(array))
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(array), &list); err != nil || len(list) != len(frames) {
			t.Fatalf("%s: %v in %s", c.name, err, array)
		}
		for i := range frames {
			if !bytes.Equal(elements[i].Data, frames[i].Data) {
				t.Errorf("%s: element %d is %s, not as the event %s", c.name, i, elements[i].Data, frames[i].Data)
			}
		}

		pieces := googleTranslated(&core.Job{Model: "m"}, events, c.answer)
		same(t, c.name+", whole", []byte(strings.Join(pieces, "")), `{"candidates":`+c.whole+usage+behind)
	}
}

// An answer that has no id gets one.
func TestGoogleTranslateMakesAnID(t *testing.T) {
	var r struct{ ResponseID string }
	pieces := googleTranslated(&core.Job{Model: `a"b`}, []core.Event{{Kind: core.EventText, Text: []byte("x")}}, core.Answer{})
	if err := json.Unmarshal([]byte(pieces[1]), &r); err != nil || len(r.ResponseID) != 26 || !strings.Contains(pieces[1], `"modelVersion":"a\"b"`) {
		t.Errorf("%v in %s", err, pieces[1])
	}
}

// What a client of Google's sends back of an answer is what its provider gave:
// its seals, its call's id and arguments.
func TestGoogleSealsComeBack(t *testing.T) {
	signed := core.Seal{Origin: core.FormatAnthropic, Text: googleQuoted("c2lnL+A=")}
	item := core.Seal{Origin: core.FormatResponses, Text: googleQuoted("gAAA"), ID: googleQuoted("rs_1"), Encrypted: true}
	events := []core.Event{{Kind: core.EventReasoning, Text: []byte(`h\u00e9`)}, {Kind: core.EventReasoning, Text: []byte("m")}, {Kind: core.EventSeal, Seal: signed},
		{Kind: core.EventText, Text: []byte("a")}, {Kind: core.EventText, Text: []byte("b")},
		{Kind: core.EventSeal, Seal: item}, {Kind: core.EventTool, ID: "toolu_1", Name: "f"}, {Kind: core.EventArguments, Text: []byte(`{\"a\":1}`)}}
	sse := strings.Join(googleTranslated(&core.Job{Model: "m", Streamed: true, SSE: true}, events, core.Answer{}), "")
	var parts []json.RawMessage
	for _, f := range cut(t, core.SplitSSE, []byte(sse)) {
		var r struct {
			Candidates []struct {
				Content struct{ Parts []json.RawMessage }
			}
		}
		if err := json.Unmarshal(f.Data, &r); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, r.Candidates[0].Content.Parts...)
	}
	history, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	got, err := googleContent(`{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":` + string(history) + `},{"parts":[{"functionResponse":{"id":"toolu_1","name":"f","response":{"output":"x"}}}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `contents[0] user: text "go";
contents[1] assistant: reasoning "h\u00e9m" seal(anthropic "c2lnL+A="  false); text "ab"; reasoning seal(openai-responses "gAAA" "rs_1" true); call "toolu_1" "f" {"a":1};
contents[2] user: result "toolu_1" "f" [ text "x"; ];
`
	if s := contentWords(got); s != want {
		t.Errorf("%s\nwant\n%s", s, want)
	}
}

// Google's own signatures reach Google again by way of a client of another
// format, on the call that they came with.
func TestGoogleSignaturesReturn(t *testing.T) {
	r := googleReader()
	body := googleSSE(`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}`)
	m := core.Message{Role: core.RoleAssistant}
	for _, f := range cut(t, r.Split(), []byte(body)) {
		r.Read(&f)
		for _, e := range r.Events(&f) {
			switch e.Kind {
			case core.EventReasoning:
				m.Parts = append(m.Parts, core.Part{Kind: core.PartReasoning, Text: googleQuoted(string(e.Text))})
			case core.EventSeal: // as it seals the reasoning
				m.Parts[0].Seal = core.Seal{Origin: e.Seal.Origin, Text: bytes.Clone(e.Seal.Text)}
			case core.EventTool:
				m.Parts = append(m.Parts, googleText("and text that came with it"), core.Part{Kind: core.PartToolCall, ID: googleQuoted(e.ID), Name: googleQuoted(e.Name), Arguments: core.JSON(`{"a":1}`)})
			}
		}
	}
	got, _, err := googleSent(t, &core.Content{Messages: googleTurns(googleSaid(core.RoleUser, googleText("go")), m)}, offerOf(core.FormatGoogle, "gemini-3-pro"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "sent", got, `{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"text":"hm","thought":true},{"text":"and text that came with it"},{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}]}]}`)
}

package adapters_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

var googleMadeID = regexp.MustCompile(`call_[0-9a-f]{24}`)

// googleHappened is events in few words; ids that were made are ID.
func googleHappened(events []core.Event) string {
	var b strings.Builder
	for i := range events {
		e := &events[i]
		fmt.Fprint(&b, [...]string{"start", "text", "reasoning", "seal", "refusal", "tool", "arguments", "finish", "media"}[e.Kind])
		if e.Choice > 0 {
			fmt.Fprintf(&b, "@%d", e.Choice)
		}
		switch e.Kind {
		case core.EventStart:
			fmt.Fprintf(&b, " %s %s", e.ID, e.Model)
		case core.EventSeal:
			fmt.Fprintf(&b, " %s %s", e.Seal.Origin, e.Seal.Text)
		case core.EventTool:
			fmt.Fprintf(&b, " %d %s %s", e.Index, googleMadeID.ReplaceAllString(e.ID, "ID"), e.Name)
		case core.EventArguments:
			fmt.Fprintf(&b, " %d %s", e.Index, e.Text)
		case core.EventFinish:
			fmt.Fprintf(&b, " %s", e.Finish)
		case core.EventMedia:
			fmt.Fprintf(&b, " %s %s%s", e.Media.Type, e.Media.Base64, e.Media.URL)
		default:
			fmt.Fprintf(&b, " %s", e.Text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// googleReader is one of a client's that speaks another format.
func googleReader() core.Reader {
	return adapters.Google{}.Reader(&core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Streamed: true}, nil)
}

// googleEventsOf reads a stream for its events.
func googleEventsOf(t testing.TB, r core.Reader, body string) string {
	t.Helper()
	var all string
	for _, f := range cut(t, r.Split(), []byte(body)) {
		if !r.Read(&f).Has(core.MarkError | core.MarkBroken) {
			all += googleHappened(r.Events(&f))
		}
	}
	return all
}

func TestGoogleEvents(t *testing.T) {
	part := func(parts string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0}]}`
	}
	end := func(reason string) string {
		return `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"` + reason + `","index":0}]}`
	}
	for _, c := range []struct{ name, body, want string }{
		{"text", googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a \"b\"\n"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":4},"modelVersion":"gemini-x","responseId":"r1"}`, part(`{"text":" c"}`), end("STOP")), `
start r1 gemini-x
text a \"b\"\n
text  c
finish stop
`},
		{"thoughts, then a signature without text", googleSSE(part(`{"text":"hm","thought":true}`), part(`{"thought":true,"text":"so"},{"text":"ok"}`), part(`{"text":"","thoughtSignature":"c2ln"}`), end("MAX_TOKENS")), `
start  
reasoning hm
reasoning so
text ok
seal google "c2ln"
finish length
`},
		{"a signature with text, and alone", googleSSE(part(`{"text":"ok","thoughtSignature":"c2ln"}`), part(`{"thoughtSignature":"eHg="}`)), `
start  
text ok
seal google "c2ln"
seal google "eHg="
`},
		{"calls with ids and without", googleSSE(part(`{"functionCall":{"name":"f","args":{"a": {"q": "x \"y\" \\ \u00e9"}, "b": [1, 2]},"id":"c1"},"thoughtSignature":"c2ln"},{"functionCall":{"name":"g","args":{ }}},{"functionCall":{"name":"h"}}`), end("STOP")), `
start  
seal google "c2ln"
tool 0 c1 f
arguments 0 {\"a\":{\"q\":\"x \\\"y\\\" \\\\ \\u00e9\"},\"b\":[1,2]}
tool 1 ID g
tool 2 ID h
finish tools
`},
		{"arguments in pieces", googleSSE(part(`{"functionCall":{"name":"cook","willContinue":true},"thoughtSignature":"s"}`), part(`{"functionCall":{"partialArgs":[{"jsonPath":"$.steps[0]","stringValue":"boil","willContinue":true}],"willContinue":true}}`),
			part(`{"functionCall":{"partialArgs":[{"jsonPath":"$.steps[0]","stringValue":" \"it\""},{"jsonPath":"$.n","numberValue":2.50}],"willContinue":true}}`), part(`{"functionCall":{}}`), part(`{"functionCall":{"name":"wash","willContinue":true}}`), end("STOP")), `
start  
seal google "s"
tool 0 ID cook
arguments 0 {\"n\":2.50,\"steps\":[\"boil \\\"it\\\"\"]}
tool 1 ID wash
finish tools
`},
		{"a call that follows before the pieces of the last one are closed", googleSSE(part(`{"functionCall":{"name":"a","partialArgs":[{"jsonPath":"$.x","boolValue":true}],"willContinue":true}}`), part(`{"functionCall":{"name":"b","args":{"y":1}}}`)), `
start  
tool 0 ID a
arguments 0 {\"x\":true}
tool 1 ID b
arguments 1 {\"y\":1}
`},
		{"STOP with every piece, and a call behind it", googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`, `{"candidates":[{"finishReason":"STOP"}]}`), `
start  
text a
tool 0 ID f
finish tools
`},
		{"cut behind a call", googleSSE(part(`{"functionCall":{"name":"f"}}`), end("MAX_TOKENS")), `
start  
tool 0 ID f
finish length
`},
		{"several candidates, the number behind the content", googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0},{"content":{"parts":[{"text":"b"},{"functionCall":{"name":"f"}}]},"finishReason":"SAFETY","index":1}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"g"}}]},"index":1},{"content":{"parts":[{"text":"x"}]},"index":4000000}]}`), `
start  
text a
text@1 b
tool@1 0 ID f
finish@1 filter
tool@1 1 ID g
`},
		{"a blocked prompt", googleSSE(`{"promptFeedback":{"blockReason":"SAFETY"},"modelVersion":"m","responseId":"r"}`), `
start r m
finish filter
`},
		{"what other formats have no place for", googleSSE(part(`{"executableCode":{"code":"x"},"thoughtSignature":"c2ln"},{"codeExecutionResult":{"output":"1"}},{"inlineData":{"mimeType":"image/png","data":"QQ=="}},{"text":"one"}`), `{"usageMetadata":{"promptTokenCount":1}}`, `{"candidates":[{"content":{}}]}`), `
start  
media image/png QQ==
text one
`},
		{"half a character", googleSSE(part(`{"text":"a\\\ud83d"}`), part(`{"text":"\ude00b"}`), part(`{"text":"\\\\ud83d"}`), part(`{"text":"t\ud83d","thought":true}`), part(`{"text":"c"}`), part(`{"text":"\ude00","thought":true}`)), `
start  
text a\\
text \ud83d\ude00b
text \\\\ud83d
reasoning t
text c
reasoning \ud83d\ude00
`},
		{"an error", googleSSE(part(`{"text":"a"}`), `{"error":{"code":503}}`), `
start  
text a
`},
	} {
		if got := googleEventsOf(t, googleReader(), c.body); got != c.want[1:] {
			t.Errorf("%s:\n%s\nwant%s", c.name, got, c.want)
		}
	}
}

func TestGoogleFinish(t *testing.T) {
	for reason, want := range map[string]string{"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "filter", "RECITATION": "filter", "PROHIBITED_CONTENT": "filter", "BLOCKLIST": "filter", "SPII": "filter", "IMAGE_SAFETY": "filter", "MALFORMED_FUNCTION_CALL": "stop", "OTHER": "stop", "NEW_ONE": "stop"} {
		r := googleReader()
		events, err := r.WholeEvents([]byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"` + reason + `"}],"responseId":"r","modelVersion":"m"}`))
		if got := googleHappened(events); err != nil || got != "start r m\ntext x\nfinish "+want+"\n" {
			t.Errorf("%s: %s %v", reason, got, err)
		}
	}
	for body, want := range map[string]string{
		`"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed: \"f(\""`: "text Malformed: \\\"f(\\\"\nfinish stop\n",
		`"finishReason":"STOP","finishMessage":"well"`:                                 "finish stop\n",
		`"finishReason":"SAFETY","finishMessage":"unsafe"`:                             "finish filter\n",
	} {
		body = `{"candidates":[{` + body + `}],"responseId":"r","modelVersion":"m"}`
		if events, err := googleReader().WholeEvents([]byte(body)); err != nil || googleHappened(events) != "start r m\n"+want {
			t.Errorf("%s: %s %v", body, googleHappened(events), err)
		}
		if got := googleEventsOf(t, googleReader(), "data: "+body+"\n\n"); !strings.HasPrefix(got, "start r m\n"+strings.TrimSuffix(want, "finish stop\n")) {
			t.Errorf("streamed %s: %s", body, got)
		}
	}
	if events, err := googleReader().WholeEvents([]byte(`{"candidates":[`)); err == nil {
		t.Errorf("half a body has %v", events)
	}
}

// googleHeard is what a client of Google's hears of an answer, pieces joined.
type googleHeard struct {
	Text, Thoughts string
	Calls          []any
	Finish         string
}

func googleHear(t *testing.T, body []byte) (h googleHeard) {
	t.Helper()
	var r struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text         string
					Thought      bool
					FunctionCall *struct {
						Name string
						Args map[string]any
					}
				}
			}
			FinishReason string
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, c := range r.Candidates {
		h.Finish += c.FinishReason
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				h.Calls = append(h.Calls, p.FunctionCall.Name, p.FunctionCall.Args)
			case p.Thought:
				h.Thoughts += p.Text
			default:
				h.Text += p.Text
			}
		}
	}
	return h
}

// A recorded answer says the same once it went through events, streamed and not.
func TestGoogleEventsOfRecordings(t *testing.T) {
	dir := wire(t)
	n := 0
	for _, l := range labels(t, dir) {
		if l.Format != "google-generatecontent" || l.Error != nil || l.FinishReason == "" {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, l.File))
		if err != nil {
			t.Fatal(err)
		}
		job := l.job()
		r := adapters.Google{}.Reader(job, nil)
		want := body
		out := adapters.Google{}.Translator(&core.Job{Model: "m"}, googleTime)
		var events []core.Event
		if l.Streamed {
			w := adapters.Google{}.Writer(job)
			for _, f := range cut(t, r.Split(), body) {
				w.Fold(f)
				r.Read(&f)
				for _, e := range r.Events(&f) {
					if b := out.Event(nil, &e); len(b) > 0 {
						t.Fatalf("%s: %s is written before the end", l.File, b)
					}
				}
			}
			if r.Answer().Err != nil {
				continue // an error that is no event
			}
			if want, err = w.Folded(); err != nil {
				t.Fatal(err)
			}
		} else {
			if err := r.ReadWhole(body); err != nil {
				t.Fatal(err)
			}
			if events, err = r.WholeEvents(body); err != nil {
				t.Fatal(err)
			}
			for i := range events {
				out.Event(nil, &events[i])
			}
		}
		n++
		answer := r.Answer()
		got := out.End(nil, &answer)
		w, g := googleHear(t, want), googleHear(t, got)
		if w.Finish != "STOP" {
			w.Finish = "SAFETY" // recitation and blocks
		}
		if fmt.Sprint(w) != fmt.Sprint(g) {
			t.Errorf("%s says\n%v\nwant\n%v", l.File, g, w)
		}
		again := adapters.Google{}.Reader(&core.Job{Operation: core.OpGenerate}, nil)
		if err := again.ReadWhole(got); err != nil {
			t.Fatalf("%s: %v", l.File, err)
		}
		if u := again.Answer().Usage; u != answer.Usage {
			t.Errorf("%s: usage %+v, want %+v", l.File, u, answer.Usage)
		}
	}
	if n < 15 {
		t.Errorf("only %d recordings", n)
	}
}

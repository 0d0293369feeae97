package adapters_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"headway/adapters"
	"headway/core"
)

// What can be decoded can be written again, as JSON; what cannot is the caller's
// fault.
func FuzzDecodeGoogle(f *testing.F) {
	for _, s := range []string{
		`{"contents":[{"role":"user","parts":[{"text":"hi"},{"inline_data":{"mime_type":"image/png","data":"Q_-="}},{"fileData":{"fileUri":"https://x.example/a.png"}}]},{"role":"model","parts":[{"text":"h","thought":true},{"text":"","thoughtSignature":"aHcxOmdvb2dsZTpzOjA6YQ=="},{"functionCall":{"name":"f","args":{"a":1}}}]},{"parts":{"functionResponse":{"name":"f","response":{"output":"x"},"parts":[{"inlineData":{"mimeType":"image/png","data":"QQ=="}}]}}}],"systemInstruction":{"parts":[{"text":"s"}]}}`,
		`{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","nullable":true,"anyOf":[{"type":"STRING","enum":["a"]}],"properties":{"a":{"items":{"minItems":"1"}}}}}],"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`,
		`{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"maxOutputTokens":"9","temperature":1,"seed":"7","stopSequences":["a"],"responseMimeType":"application/json","responseSchema":{"type":"STRING"},"_responseJsonSchema":{},"thinkingConfig":{"thinkingBudget":5,"includeThoughts":true,"thinkingLevel":"LOW"},"responseModalities":["TEXT"]}}`,
	} {
		f.Add([]byte(s))
	}
	head := core.RequestHead{Path: stream, Query: url.Values{"alt": {"sse"}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		job, err := adapters.Google{}.Parse(head, body)
		if err != nil {
			return
		}
		content, err := adapters.Google{}.Decode(job)
		if !bytes.Equal(body, before) {
			t.Fatalf("%q was written over: %q", before, body)
		}
		var e *core.Error
		if err != nil {
			if !errors.As(err, &e) || e.Kind != core.Invalid {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		for _, model := range []string{"gemini-2.5-flash", "gemini-3-pro"} {
			req, _, err := adapters.Google{}.Build(t.Context(), job, content, head, offerOf(core.FormatGoogle, model))
			if err != nil {
				if !errors.As(err, &e) || e.Kind != core.Invalid {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			if sent, _ := io.ReadAll(req.Body); !json.Valid(sent) {
				t.Fatalf("%q is sent as %q", body, sent)
			}
		}
	})
}

// Whatever an upstream sends, what a client of Google's gets of it is JSON.
func FuzzEventsGoogle(f *testing.F) {
	for _, s := range []string{
		googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a\ud83d","thought":true},{"functionCall":{"name":"f","willContinue":true},"thoughtSignature":"eA=="}]}}],"responseId":"r"}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a[1].b","stringValue":"x\""}]}}]},"finishReason":"STOP","index":1}]}`),
		googleSSE(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a": "\\\"", "b": [1 ,2]}}}]},"finishReason":"SAFETY"}]}`, `{"promptFeedback":{"blockReason":"SAFETY"}}`, `{"candidates":[{"content":{"parts":[{"text":"\ude00"}]}}],"error":{"code":1}}`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		job := &core.Job{Model: "m", Streamed: true, SSE: true}
		r := googleReader()
		streamed, whole := adapters.Google{}.Translator(job, googleTime), adapters.Google{}.Translator(&core.Job{Model: "m"}, googleTime)
		var out, one []byte
		for _, frame := range cut(t, r.Split(), body) {
			if r.Read(&frame).Has(core.MarkError | core.MarkBroken) {
				continue
			}
			for _, e := range r.Events(&frame) {
				if !json.Valid(googleRequoted(e.Text)) {
					t.Fatalf("%q has the piece %q", body, e.Text)
				}
				out, one = streamed.Event(out, &e), whole.Event(one, &e)
			}
		}
		a := r.Answer()
		out, one = streamed.End(out, &a), whole.End(one, &a)
		if !json.Valid(one) {
			t.Fatalf("%q becomes %q", body, one)
		}
		for _, event := range strings.Split(strings.TrimSuffix(string(out), "\r\n\r\n"), "\r\n\r\n") {
			if data, ok := strings.CutPrefix(event, "data: "); !ok || !json.Valid([]byte(data)) {
				t.Fatalf("%q becomes %q", body, out)
			}
		}
		if r := googleReader(); r.ReadWhole(body) == nil {
			if _, err := r.WholeEvents(body); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
		}
	})
}

func googleRequoted(inner []byte) []byte {
	return append(append([]byte{'"'}, inner...), '"')
}

func BenchmarkTranslateGoogle(b *testing.B) {
	r, tr := googleReader(), adapters.Google{}.Translator(&core.Job{Model: "m", Streamed: true, SSE: true}, googleTime)
	data := []byte(`{"candidates": [{"content": {"parts": [{"text": " trees and parks integrated"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 34,"candidatesTokenCount": 80,"totalTokenCount": 114,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 34}]},"modelVersion": "gemini-2.0-flash","responseId": "REVVabaiCdq4qtsPnZu96Qo"}`)
	f := core.Frame{Raw: data, Data: data}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = out[:0]
		for _, e := range r.Events(&f) {
			out = tr.Event(out, &e)
		}
	}
}

func BenchmarkRequestGoogle(b *testing.B) {
	words := strings.Repeat("lorem ipsum \\\"dolor\\\" sit amet ", 700)
	turn := `{"role":"user","parts":[{"text":"` + words + `"}]},{"role":"model","parts":[{"text":"ok"},{"functionCall":{"name":"f","args":{"a":"` + words[:2000] + `"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"` + words + `"}}}]}`
	body := []byte(`{"contents":[` + strings.TrimSuffix(strings.Repeat(turn+",", 9), ",") + `]}`)
	job, err := adapters.Google{}.Parse(core.RequestHead{Path: generate}, body)
	if err != nil {
		b.Fatal(err)
	}
	offer := offerOf(core.FormatGoogle, "gemini-3-pro")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		content, err := adapters.Google{}.Decode(job)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := (adapters.Google{}).Build(b.Context(), job, content, core.RequestHead{}, offer); err != nil {
			b.Fatal(err)
		}
	}
}

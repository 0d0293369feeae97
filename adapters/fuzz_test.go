package adapters_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unicode/utf8"

	"headway/adapters"
	"headway/core"
)

// fuzzParse holds what is true of every Parse: what it takes is valid JSON in
// UTF-8 with facts that fit the body, what it refuses is the caller's fault, and
// what it took can be built.
func fuzzParse(f *testing.F, a core.Adapter, heads []core.RequestHead, format core.Format) {
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, head := range heads {
			job, err := a.Parse(head, bytes.Clone(body))
			if err != nil {
				var e *core.Error
				if !errors.As(err, &e) || e.Kind != core.Invalid {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			if !json.Valid(body) || !utf8.Valid(body) || job.Model == "" || job.PromptBytes < 0 || !bytes.Equal(job.Body, body) {
				t.Fatalf("%q is taken as %+v", body, job)
			}
			ordered(t, job)
			req, _, err := a.Build(t.Context(), job, nil, head, offerOf(format, "another"))
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			sent := new(bytes.Buffer)
			if _, err := sent.ReadFrom(req.Body); err != nil || !json.Valid(sent.Bytes()) {
				t.Fatalf("%q is sent as %q", body, sent)
			}
		}
	})
}

// fuzzReader holds what is true of every Reader and Writer: whatever comes, no
// panic, no negative figure, and the same answer to the same bytes.
func fuzzReader(f *testing.F, a core.Adapter, jobs []*core.Job) {
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, job := range jobs {
			r, again, w := a.Reader(job, nil), a.Reader(job, nil), a.Writer(job)
			for _, frame := range cut(t, r.Split(), body) {
				raw := bytes.Clone(frame.Raw)
				copied := frame
				w.Fold(frame)
				if m := r.Read(&frame); m != again.Read(&copied) || !bytes.Equal(frame.Raw, raw) && !(m.Has(core.MarkError) && len(frame.Raw) == 0) {
					t.Fatalf("%q: marks %v and others, %q for %q", body, m, frame.Raw, raw)
				}
			}
			answer := r.Answer()
			if !reflect.DeepEqual(answer, again.Answer()) {
				t.Fatalf("%q: %+v and then %+v", body, answer, again.Answer())
			}
			u := answer.Usage
			for _, n := range []core.Opt[int64]{u.UncachedInput, u.CacheRead, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, answer.InputAtStart} {
				if n.V < 0 {
					t.Fatalf("%q: %+v", body, answer)
				}
			}
			if whole, err := w.Folded(); err == nil {
				if !json.Valid(whole) {
					t.Fatalf("%q folds to %q", body, whole)
				}
				if frames, err := w.Unfold(whole); err == nil && len(frames) == 0 {
					t.Fatalf("%q unfolds to nothing", whole)
				}
			}
			r = a.Reader(job, nil)
			if err := r.ReadWhole(body); err == nil && !json.Valid(body) {
				t.Fatalf("%q is taken for an answer", body)
			}
			if repaired := r.Answer().Repaired; repaired != nil && !json.Valid(repaired) {
				t.Fatalf("%q is repaired to %q", body, repaired)
			}
			r.ReadError(500, body)
		}
	})
}

// seed adds the recordings of our own of a format.
func seed(f *testing.F, pattern string) {
	files, err := filepath.Glob("../testdata/wire/" + pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no files for %s: %v", pattern, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzParseAnthropic(f *testing.F) {
	seed(f, "*/*messages*.request.json")
	f.Add([]byte(`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x"}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"QQ=="}},{"type":"tool_result","content":[{"type":"text","text":"\u00e9"}]}]}]}`))
	fuzzParse(f, adapters.Anthropic{}, []core.RequestHead{{Path: messagesPath}, {Path: messagesPath + "/count_tokens"}}, core.FormatAnthropic)
}

func FuzzReadAnthropic(f *testing.F) {
	seed(f, "*/*messages-*.sse")
	seed(f, "ollama/v1-messages-unstreamed.json")
	f.Add([]byte(sse(`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":1}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"error","error":{"type":"x"}}`)))
	fuzzReader(f, adapters.Anthropic{}, []*core.Job{{Operation: core.OpGenerate, Streamed: true}, {Operation: core.OpCountTokens}})
}

func FuzzParseGoogle(f *testing.F) {
	for _, s := range []string{
		`{"contents":[{"role":"user","parts":[{"text":"hi"},{"inline_data":{"mime_type":"image/png","data":"QQ=="}}]}],"generationConfig":{"maxOutputTokens":"9"}}`,
		`{"model":"models/m","contents":[{"parts":{"text":"x"}}],"tools":[{}]}`, `{"requests":[{"model":"models/m","content":{"parts":[]}}]}`,
		`{"generateContentRequest":{"model":"m","contents":[{}]}}`, `{"content":{"parts":[{"functionResponse":{"parts":[{}]}}]}}`,
	} {
		f.Add([]byte(s))
	}
	var heads []core.RequestHead
	for _, method := range []string{"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"} {
		heads = append(heads, core.RequestHead{Path: "/v1beta/models/m:" + method, Query: url.Values{"alt": {"sse"}}})
	}
	fuzzParse(f, adapters.Google{}, heads, core.FormatGoogle)
}

func FuzzReadGoogle(f *testing.F) {
	for _, s := range []string{
		googleSSE(`{"candidates":[{"content":{"parts":[{"text":"a","thought":true},{"functionCall":{"name":"f","willContinue":true}}]}}]}`, `{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a[1].b","stringValue":"x"}]}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`),
		`[{"candidates":[{"content":{"parts":[{"text":"x"}]}}]},{"error":{"code":1}}]`, `{"promptFeedback":{"blockReason":"SAFETY"}}`, `{"totalTokens":3}`, `{"embedding":{}}`,
	} {
		f.Add([]byte(s))
	}
	fuzzReader(f, adapters.Google{}, []*core.Job{{Operation: core.OpGenerate, Streamed: true, SSE: true}, {Operation: core.OpGenerate, Streamed: true}, {Operation: core.OpCountTokens}, {Operation: core.OpEmbeddings}})
}

func benchmarkRead(b *testing.B, a core.Adapter, event string) {
	r := a.Reader(&core.Job{Operation: core.OpGenerate, Streamed: true, SSE: true}, nil)
	f := core.Frame{Raw: []byte(event), Data: []byte(event)}
	if !r.Read(&f).Has(core.MarkText) {
		b.Fatal("no text")
	}
	b.SetBytes(int64(len(event)))
	b.ReportAllocs()
	for b.Loop() {
		r.Read(&f)
	}
}

func BenchmarkReadAnthropic(b *testing.B) {
	benchmarkRead(b, adapters.Anthropic{}, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" the"}     }`)
}

func BenchmarkReadGoogle(b *testing.B) {
	benchmarkRead(b, adapters.Google{}, `{"candidates": [{"content": {"parts": [{"text": " trees and parks integrated"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 34,"candidatesTokenCount": 80,"totalTokenCount": 114,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 34}]},"modelVersion": "gemini-2.0-flash","responseId": "REVVabaiCdq4qtsPnZu96Qo"}`)
}

func BenchmarkParseAnthropic(b *testing.B) {
	body := []byte(`{"model":"m","max_tokens":1024,"stream":true,"messages":[{"role":"user","content":"` + string(bytes.Repeat([]byte("lorem ipsum dolor sit amet "), 15_000)) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (adapters.Anthropic{}).Parse(core.RequestHead{Path: messagesPath}, body); err != nil {
			b.Fatal(err)
		}
	}
}

package measure_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headway/core"
	"headway/core/measure"
)

// said is what one event or body of llama-server or Ollama says, as far as this
// test needs it.
type said struct {
	Type    string // Responses
	Choices []struct {
		Text  string
		Delta struct {
			Content   string
			Reasoning string            `json:"reasoning_content"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		}
	}
	Message struct {
		Content, Thinking string
		ToolCalls         []json.RawMessage `json:"tool_calls"`
	}
	Usage struct {
		Prompt     core.Opt[int64] `json:"prompt_tokens"`
		Completion core.Opt[int64] `json:"completion_tokens"`
	}
	Timings *struct {
		CacheN      int64   `json:"cache_n"`
		PromptN     int64   `json:"prompt_n"`
		PromptMS    float64 `json:"prompt_ms"`
		PredictedN  int64   `json:"predicted_n"`
		PredictedMS float64 `json:"predicted_ms"`
	}
	PromptCount *int64  `json:"prompt_eval_count"`
	PromptNS    float64 `json:"prompt_eval_duration"`
	EvalCount   int64   `json:"eval_count"`
	EvalNS      float64 `json:"eval_duration"`
}

func (s *said) output() bool {
	for _, c := range s.Choices {
		if c.Text != "" || c.Delta.Content != "" || c.Delta.Reasoning != "" || len(c.Delta.ToolCalls) > 0 {
			return true
		}
	}
	return strings.HasSuffix(s.Type, ".delta") || s.Message.Content != "" || s.Message.Thinking != "" || len(s.Message.ToolCalls) > 0
}

// answer is what a reader of the format would know after the last event.
func (s *said) answer(a core.Answer) core.Answer {
	if s.Usage.Prompt.OK {
		a.Reported = true
		a.Usage.UncachedInput, a.Usage.Output = s.Usage.Prompt, s.Usage.Completion
	}
	if t := s.Timings; t != nil {
		a = server(a, t.PromptN, t.PromptMS, t.PredictedN, t.PredictedMS)
		if a.Reported {
			a.Usage.UncachedInput.V -= t.CacheN
			a.Usage.CacheRead = core.Some(t.CacheN)
		}
	}
	if s.PromptCount != nil {
		a = server(reported(*s.PromptCount, 0, s.EvalCount, 0), *s.PromptCount, s.PromptNS/1e6, s.EvalCount, s.EvalNS/1e6)
	}
	return a
}

// Every recording of a real server that reports its own times: none is set
// aside, whatever queue, cold load or cache there was, and each figure is the
// server's.
func TestRecordedServersKeepTheirFigures(t *testing.T) {
	seen := map[string]int{}
	for _, server := range []string{"llamacpp", "ollama"} {
		metas, err := filepath.Glob(filepath.Join("..", "..", "testdata", "wire", server, "*.meta.json"))
		if err != nil || len(metas) == 0 {
			t.Fatalf("no recordings of %s: %v", server, err)
		}
		for _, path := range metas {
			name := strings.TrimSuffix(path, ".meta.json")
			var meta struct {
				HeadersMS float64      `json:"headers_ms"`
				EndMS     float64      `json:"end_ms"`
				Arrivals  [][2]float64 // ms, bytes
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &meta); err != nil {
				t.Fatal(err)
			}
			for _, ext := range []string{".sse", ".ndjson", ".json"} {
				body, err := os.ReadFile(name + ext)
				if err != nil {
					continue
				}
				tl, ans, arrivals := replay(body, ext, meta.Arrivals)
				if ans.Figures == (core.ServerFigures{}) {
					continue
				}
				seen[server+ext]++
				m := marks(0, meta.HeadersMS, tl[0], tl[1], -1, tl[2], meta.EndMS)
				got := measure.Figures(m, ans, ext != ".json", arrivals)
				f := ans.Figures
				if got.FiguresFrom != measure.FromServer || got.Prompt != core.Some(core.Micro(f.PromptMS.V)) || got.Decode != core.Some(core.Micro(f.DecodeMS.V)) {
					t.Errorf("%s: figures %+v, of the server %+v", filepath.Base(name), got, f)
				}
				if want := core.PerSecond(f.DecodeTokens.V, f.DecodeMS); got.DecodeTPS != want {
					t.Errorf("%s: decode speed %v, want %v", filepath.Base(name), got.DecodeTPS, want)
				}
				if got.PromptTPS.OK == (f.PromptTokens.V == 1) {
					t.Errorf("%s: prompt speed %v of %d tokens", filepath.Base(name), got.PromptTPS, f.PromptTokens.V)
				}
			}
		}
	}
	for _, kind := range []string{"llamacpp.sse", "llamacpp.json", "ollama.ndjson", "ollama.json"} {
		if seen[kind] == 0 {
			t.Errorf("no recording with the server's own figures among %s", kind)
		}
	}
}

// replay reads a body and says when, in ms after the dispatch, its first event,
// its first output and its last output came, and in how many arrivals.
func replay(body []byte, ext string, reads [][2]float64) (at [3]float64, ans core.Answer, arrivals int) {
	at = [3]float64{-1, -1, -1}
	if ext == ".json" {
		var s said
		if json.Unmarshal(body, &s) == nil {
			ans = s.answer(ans)
		}
		return at, ans, 0
	}
	last, offset, read, readEnd := -1.0, 0, -1, 0.0
	for line := range bytes.Lines(body) {
		offset += len(line)
		for readEnd < float64(offset) && read+1 < len(reads) {
			read++
			readEnd += reads[read][1]
		}
		var s said
		if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &s) != nil {
			continue
		}
		now := reads[read][0]
		if at[0] < 0 {
			at[0] = now
		}
		ans = s.answer(ans)
		if !s.output() {
			continue
		}
		if at[1] < 0 {
			at[1] = now
		}
		at[2] = now
		if last < 0 || now-last >= 10 {
			last = now
			arrivals++
		}
	}
	return at, ans, arrivals
}

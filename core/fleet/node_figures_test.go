package fleet

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// recording is one exchange of testdata/wire, with what its server reported of itself.
type recording struct {
	name     string
	format   core.Format
	path     string
	status   int
	header   map[string]string
	request  []byte
	body     []byte
	reads    []int // bytes
	streamed bool
	// The server's own figures.
	promptN, decodeN   int64
	promptMS, decodeMS float64
}

// recordings are those of a server that answer a call by the format that it is asked
// with.
func recordings(t *testing.T, server string, format core.Format, path string) (all []recording) {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join("..", "..", "testdata", "wire", server, "*.meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatalf("no recordings of %s: %v", server, err)
	}
	for _, meta := range metas {
		base := strings.TrimSuffix(meta, ".meta.json")
		var m struct {
			Path     string
			Status   int
			Headers  map[string]string
			Arrivals [][2]float64
		}
		text, err := os.ReadFile(meta)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Path != path {
			continue
		}
		r := recording{name: filepath.Base(base), format: format, path: path, status: m.Status, header: m.Headers}
		for _, a := range m.Arrivals {
			r.reads = append(r.reads, int(a[1]))
		}
		if r.request, err = os.ReadFile(base + ".request.json"); err != nil {
			t.Fatal(err)
		}
		for _, ext := range []string{".sse", ".ndjson", ".json"} {
			if b, err := os.ReadFile(base + ext); err == nil {
				r.body, r.streamed = b, ext != ".json"
			}
		}
		for line := range bytes.Lines(r.body) {
			var said struct {
				Timings *struct {
					PromptN     int64   `json:"prompt_n"`
					PromptMS    float64 `json:"prompt_ms"`
					PredictedN  int64   `json:"predicted_n"`
					PredictedMS float64 `json:"predicted_ms"`
				}
				PromptCount int64   `json:"prompt_eval_count"`
				PromptNS    float64 `json:"prompt_eval_duration"`
				EvalCount   int64   `json:"eval_count"`
				EvalNS      float64 `json:"eval_duration"`
			}
			if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &said) != nil {
				continue
			}
			if s := said.Timings; s != nil {
				r.promptN, r.promptMS, r.decodeN, r.decodeMS = s.PromptN, s.PromptMS, s.PredictedN, s.PredictedMS
			} else if said.EvalNS > 0 {
				r.promptN, r.promptMS, r.decodeN, r.decodeMS = said.PromptCount, said.PromptNS/1e6, said.EvalCount, said.EvalNS/1e6
			}
		}
		all = append(all, r)
	}
	return all
}

// Every recorded answer of a real server goes through a node byte for byte, and the
// node's figures are those that the server reported.
func TestNodeKeepsTheServersFigures(t *testing.T) {
	seen := map[bool]int{}
	for _, of := range []struct {
		server, path string
		format       core.Format
	}{{"llamacpp", "/v1/chat/completions", core.FormatLlamaCpp}, {"llamacpp", "/v1/completions", core.FormatLlamaCpp}, {"ollama", "/api/chat", core.FormatOllama},
		{"ollama", "/v1/chat/completions", core.FormatOpenAI}} {
		all := recordings(t, of.server, of.format, of.path)
		var playing recording
		srv := serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method != http.MethodPost {
				return
			}
			got, err := io.ReadAll(req.Body)
			if err != nil || !bytes.Equal(got, playing.request) {
				t.Errorf("%s: asked with %d bytes, %v", playing.name, len(got), err)
			}
			for name, v := range playing.header {
				if name != "connection" && name != "transfer-encoding" && name != "content-length" {
					w.Header().Set(name, v)
				}
			}
			w.WriteHeader(playing.status)
			rest := playing.body
			for _, n := range playing.reads {
				n = min(n, len(rest))
				write(w, string(rest[:n]))
				rest = rest[n:]
				time.Sleep(200 * time.Microsecond)
			}
			write(w, string(rest))
		}))
		r := newNodeRig(t, rigOf{}, Upstream{URL: srv.URL, Format: of.format, Fixed: true, Offers: []core.NodeModel{{Model: "m"}}})
		r.ready(1)
		for _, playing = range all {
			st := chatStart()
			st.Path, st.ContentLength, st.Streamed = of.path, int64(len(playing.request)), playing.streamed
			if of.path == "/v1/completions" {
				st.Operation = core.OpCompletions
			}
			h, body, e := r.start(st, playing.request, true).all()
			if h.Status != playing.status || !bytes.Equal(body, playing.body) || e.Error != "" {
				t.Errorf("%s: status %d, %d bytes of %d, %q", playing.name, h.Status, len(body), len(playing.body), e.Error)
				continue
			}
			tm := e.Timing
			if !tm.Service.OK || !tm.UpstreamHeaders.OK || tm.FirstToken.OK != (playing.streamed && playing.status == 200) {
				t.Errorf("%s: timing %+v", playing.name, tm)
			}
			if playing.decodeMS == 0 {
				if tm.FiguresFrom == "server" {
					t.Errorf("%s: figures of a server that reports none: %+v", playing.name, tm)
				}
				continue
			}
			seen[playing.streamed]++
			if tm.FiguresFrom != "server" || tm.Prompt != core.Some(core.Micro(playing.promptMS)) || tm.Decode != core.Some(core.Micro(playing.decodeMS)) ||
				tm.DecodeTPS != core.PerSecond(playing.decodeN, core.Some(playing.decodeMS)) || tm.PromptTPS.OK != (playing.promptN > 1) {
				t.Errorf("%s: figures %+v, of the server: %d tokens in %v ms, %d in %v ms", playing.name, tm, playing.promptN, playing.promptMS, playing.decodeN, playing.decodeMS)
			}
		}
	}
	if seen[true] < 15 || seen[false] < 3 {
		t.Errorf("%v recordings with figures", seen)
	}
}

// What an answer says beside its figures must not matter: a node passes on what it
// cannot read.
func TestNodePassesOnWhatItCannotRead(t *testing.T) {
	huge := "data: " + strings.Repeat("x", meteredEvent+1<<20) + "\n\n"
	for name, c := range map[string]struct{ kind, body string }{
		"not of the format":   {"text/event-stream", "data: [broken\n\n" + eventsEnd},
		"a huge event":        {"text/event-stream", event("a") + huge + eventsEnd},
		"no end":              {"text/event-stream", event("a")},
		"JSON for a stream":   {"application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`},
		"HTML for a stream":   {"text/html", "<html>"},
		"a stream unnamed":    {"application/octet-stream", event("a") + eventsEnd},
		"nothing":             {"text/event-stream", ""},
		"blanks":              {"text/plain", strings.Repeat(" \n", 1<<20)},
		"a large whole":       {"application/json", `{"choices":"` + strings.Repeat("x", 5<<20) + `"}`},
		"an unreadable whole": {"application/json", `{"choices"`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				_, _ = io.WriteString(w, c.body)
			})
			r := newNodeRig(t, rigOf{}, openAI(srv))
			r.ready(1)
			_, body, e := r.chat().all()
			if string(body) != c.body || e.Error != "" || e.Timing.DecodeTPS.OK || !e.Timing.Service.OK {
				t.Fatalf("%d bytes of %d, %+v", len(body), len(c.body), e)
			}
		})
	}
}

// A reader that panics costs the figures, not the answer.
func TestNodeOutlivesAReader(t *testing.T) {
	srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		write(w, event("a")+eventsEnd)
	})
	r := newNodeRig(t, rigOf{parts: func(p *NodeParts) { p.Formats = []core.ProviderSide{faulty{}} }}, openAI(srv))
	r.ready(1)
	_, body, e := r.chat().all()
	if string(body) != event("a")+eventsEnd || e.Error != "" || e.Timing.FiguresFrom != "" || !e.Timing.Service.OK {
		t.Fatalf("%q, %+v", body, e)
	}
}

type faulty struct{ core.ProviderSide }

func (faulty) Format() core.Format                       { return core.FormatOpenAI }
func (faulty) Reader(*core.Job, *core.Offer) core.Reader { return faultyReader{} }

type faultyReader struct{ core.Reader }

func (faultyReader) Split() core.Splitting      { return core.SplitSSE }
func (faultyReader) Read(*core.Frame) core.Mark { panic("a fault") }
func (faultyReader) Answer() core.Answer        { return core.Answer{} }

// Output that comes at once is no stream, and has no speed of one.
func TestNodeCountsArrivals(t *testing.T) {
	for pause, want := range map[time.Duration]bool{0: false, 12 * time.Millisecond: true} {
		srv := modelServerOf(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 6 {
				write(w, event("word"))
				time.Sleep(pause)
			}
			write(w, eventsEnd)
		})
		r := newNodeRig(t, rigOf{}, openAI(srv))
		r.ready(1)
		_, _, e := r.chat().all()
		if tm := e.Timing; tm.FiguresFrom != "stream" || tm.Decode.OK != want || tm.DecodeTPS.OK != want || !tm.PromptTPS.OK {
			t.Errorf("pauses of %v: %+v", pause, tm)
		}
	}
}

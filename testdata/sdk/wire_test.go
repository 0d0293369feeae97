// Package sdktest holds Headway against the official Go SDKs as unmodified
// clients: what an SDK reads straight from a recorded answer it must read
// through Headway too. The server is the built binary, the upstream replays
// recordings with pauses, and each call's receipt is held against what is known
// of its recording. Between formats, what an SDK asks is what the provider reads,
// and what the provider says is what the SDK gives. It is a module of its own, so that the SDKs are in nobody's
// build but this one's.
package sdktest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The APIs that the SDKs speak, by the name of their recordings' format.
const (
	chat        = "openai-chat"
	completions = "openai-completions"
	responses   = "openai-responses"
	messages    = "anthropic-messages"
	generate    = "google-generatecontent"
)

// recording is one recorded answer.
type recording struct {
	name     string // its file without the extension, slashes as dots: the model that clients ask for
	api      string
	provider string // the format of the provider that serves it
	dialect  string
	media    string // content type
	streamed bool
	status   int
	request  []byte // the recorded request's body, nil where there is none
	body     []byte
	chunks   []chunk
	label    *label // nil where nobody labelled it
}

// chunk is what the upstream writes at once, after a pause.
type chunk struct {
	wait time.Duration
	data []byte
}

// label is what is known of a recording (README.md beside labels.json).
type label struct {
	File, Format, Dialect, Media, Request string
	Streamed                              bool
	FirstOutput                           *int   `json:"first_output"`
	FirstText                             *int   `json:"first_text"`
	FinishReason                          string `json:"finish_reason"`
	HasText                               bool   `json:"has_text"`
	ToolCalls                             int    `json:"tool_calls"`
	Usage                                 *struct {
		Fresh         *int64  `json:"fresh_input"`
		AllInput      *int64  `json:"all_input"`
		AllOutput     *int64  `json:"all_output"`
		AllOutputAlso []int64 `json:"all_output_also"`
		Cached        *int64  `json:"cached_read"`
		Write         *int64  `json:"cache_write"`
		Reasoning     *int64
	}
	Error *struct{ Event int }
}

// The pauses of a replay: a model thinks before it speaks, and then speaks
// steadily. Long streams are not held up in proportion.
const (
	beforeFirst  = 25 * time.Millisecond
	betweenMany  = time.Millisecond
	longestTotal = 150 * time.Millisecond
)

// corpus is the folder of the labelled recordings, which are other people's and
// not in the repository; "" where there is none.
func corpus(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HEADWAY_WIRE")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "wire")
	}
	if _, err := os.Stat(filepath.Join(dir, "labels.json")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no labelled recordings: %v", err)
		}
		t.Logf("no labelled recordings in %s: set HEADWAY_WIRE", dir)
		return ""
	}
	return dir
}

// labelled reads the recordings that an SDK can be a client of.
func labelled(t *testing.T, dir string) (all []*recording) {
	t.Helper()
	var file struct{ Files []label }
	readJSON(t, filepath.Join(dir, "labels.json"), &file)
	formats := map[string]string{chat: "openai", completions: "openai", responses: "openai-responses", messages: "anthropic", generate: "google"}
	for _, l := range file.Files {
		if formats[l.Format] == "" {
			continue
		}
		r := &recording{name: slug(l.File), api: l.Format, provider: formats[l.Format], dialect: l.Dialect, streamed: l.Streamed,
			status: 200, media: "application/json", body: read(t, filepath.Join(dir, l.File)), label: &l}
		if l.Media == "sse" {
			r.media = "text/event-stream"
		}
		if l.Request != "" {
			r.request = read(t, filepath.Join(dir, l.Request))
		}
		r.chunks = paced(r.body, l.FirstOutput)
		all = append(all, r)
	}
	if len(all) < 150 {
		t.Fatalf("only %d recordings in %s", len(all), dir)
	}
	return all
}

// own reads the recordings of the repository that are answers to a call of an
// SDK: made from llama-server and Ollama, with the time of every read.
func own(t *testing.T) (all []*recording) {
	t.Helper()
	apis := map[string]string{"/v1/chat/completions": chat, "/v1/completions": completions, "/v1/responses": responses, "/v1/messages": messages}
	metas, err := filepath.Glob(filepath.Join("..", "wire", "*", "*.meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatalf("no recordings in ../wire: %v", err)
	}
	for _, path := range metas {
		var meta struct {
			Path     string
			Status   int
			Headers  map[string]string
			EndMS    float64 `json:"end_ms"`
			Arrivals [][2]float64
		}
		readJSON(t, path, &meta)
		base := strings.TrimSuffix(path, ".meta.json")
		server := filepath.Base(filepath.Dir(path))
		r := &recording{name: server + "." + filepath.Base(base), api: apis[meta.Path], status: meta.Status, media: meta.Headers["content-type"], dialect: server}
		if r.api == "" || strings.Contains(r.name, "bad-json") || strings.Contains(r.name, "no-messages") || strings.Contains(r.name, "cancel") {
			continue // an SDK sends neither broken JSON nor a call without messages
		}
		switch {
		case r.api == responses:
			r.provider = "openai-responses"
		case r.api == messages:
			r.provider = "anthropic"
		case server == "llamacpp":
			r.provider = "llamacpp"
		default:
			r.provider = "openai"
		}
		for _, ext := range []string{".sse", ".json"} {
			if body, err := os.ReadFile(base + ext); err == nil {
				r.body, r.streamed = body, ext == ".sse"
			}
		}
		if r.body == nil {
			continue
		}
		r.request = read(t, base+".request.json")
		r.chunks = asRecorded(r.body, meta.Arrivals, meta.EndMS)
		all = append(all, r)
	}
	return all
}

// paced cuts a body at its events; every fourth event comes in two pieces, as
// reads do not end where events do.
func paced(body []byte, first *int) (out []chunk) {
	events := split(body)
	wait := min(betweenMany, longestTotal/time.Duration(len(events)))
	for i, e := range events {
		c := chunk{wait, e}
		if first != nil && i == *first || first == nil && i == 0 {
			c.wait = beforeFirst
		}
		if i%4 == 3 && len(e) > 8 {
			half := len(e)/2 + 1
			out = append(out, chunk{c.wait, e[:half]})
			c = chunk{betweenMany, e[half:]}
		}
		out = append(out, c)
	}
	return out
}

// split cuts a stream behind each blank line. Comments are pieces of their own.
func split(body []byte) (out [][]byte) {
	for len(body) > 0 {
		n := len(body)
		for _, blank := range []string{"\n\n", "\r\n\r\n"} {
			if i := bytes.Index(body, []byte(blank)); i >= 0 {
				n = min(n, i+len(blank))
			}
		}
		out = append(out, body[:n])
		body = body[n:]
	}
	return out
}

// asRecorded cuts a body at the reads it came in, at the times of those reads,
// in a quarter of a second at most.
func asRecorded(body []byte, arrivals [][2]float64, end float64) (out []chunk) {
	scale := min(1, 250/max(end, 1))
	last := 0.0
	for i, a := range arrivals {
		n := min(int(a[1]), len(body))
		if i == len(arrivals)-1 {
			n = len(body)
		}
		out = append(out, chunk{time.Duration((a[0] - last) * scale * float64(time.Millisecond)), body[:n]})
		body, last = body[n:], a[0]
	}
	return out
}

func slug(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file, filepath.Ext(file)), "/", ".")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(read(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

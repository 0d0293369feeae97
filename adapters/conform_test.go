package adapters_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/adapters"
	"headway/core"
	"headway/core/relay"
)

// label is what is known of one recorded body (wire/README.md).
type label struct {
	File, Format, Dialect, Media string
	Streamed                     bool
	FirstEvent                   *int   `json:"first_event"`
	FirstOutput                  *int   `json:"first_output"`
	FirstOutputKind              string `json:"first_output_kind"`
	FirstText                    *int   `json:"first_text"`
	LastOutput                   *int   `json:"last_output"`
	LastOutputAlso               []int  `json:"last_output_also"`
	FinishReason                 string `json:"finish_reason"`
	EndMarker                    *bool  `json:"end_marker"`
	Events                       int
	Usage                        *struct {
		Fresh         *int64  `json:"fresh_input"`
		AllInput      *int64  `json:"all_input"`
		AllOutput     *int64  `json:"all_output"`
		AllOutputAlso []int64 `json:"all_output_also"`
		Cached        *int64  `json:"cached_read"`
		Write         *int64  `json:"cache_write"`
		Reasoning     *int64
	}
	Error *struct {
		Event int
		Body  struct {
			Type, Message string
			Error         struct{ Type, Message string }
			Exception     string                   // AWS's
			Body          struct{ Message string } // of one
		}
	}
}

// job is one of the format that a label names, or nil for one not spoken here.
func (l label) job() *core.Job {
	job := &core.Job{Operation: core.OpGenerate, Streamed: l.Streamed, AskedUsage: true, SSE: l.Media == "sse"}
	switch l.Format {
	case "openai-chat":
		job.Format = core.FormatOpenAI
	case "openai-completions":
		job.Format, job.Operation = core.FormatOpenAI, core.OpCompletions
	case "openai-responses":
		job.Format = core.FormatResponses
	case "anthropic-messages":
		job.Format = core.FormatAnthropic
	case "google-generatecontent":
		job.Format = core.FormatGoogle
	case "ollama-native":
		job.Format = core.FormatOllama
	case "bedrock-anthropic":
		job.Format = core.FormatBedrock
	case "bedrock-converse":
		job.Format = core.FormatConverse
	default:
		return nil
	}
	return job
}

func adapterOf(t testing.TB, f core.Format) core.Adapter {
	t.Helper()
	for _, a := range adapters.All() {
		if a.Format() == f {
			return a
		}
	}
	t.Fatalf("no adapter speaks %s", f)
	return nil
}

// sideOf is the adapter of a format towards providers, which more formats have.
func sideOf(t testing.TB, f core.Format) core.ProviderSide {
	t.Helper()
	for _, p := range adapters.Providers(time.Now) {
		if p.Format() == f {
			return p
		}
	}
	return adapterOf(t, f)
}

func offer() *core.Offer {
	return &core.Offer{ID: "p/m", Model: "m", UpstreamModel: "m", Provider: &core.Provider{ID: "p", BaseURL: "http://127.0.0.1/v1"}}
}

// wire is the folder of recordings; they are other people's and not in the
// repository.
func wire(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("HEADWAY_WIRE")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "wire")
	}
	if _, err := os.Stat(filepath.Join(dir, "labels.json")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no recordings: %v", err)
		}
		t.Skipf("no recordings in %s: set HEADWAY_WIRE", dir)
	}
	return dir
}

func labels(t testing.TB, dir string) []label {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "labels.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Files []label }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Files, func(l label) bool { return l.job() == nil })
}

// seen is one frame as it was read.
type seen struct {
	mark    core.Mark
	event   int // its index by the labels' counting, -1 for comments
	data    string
	name    string
	raw     string // before the reader saw it
	relayed string
	answer  core.Answer // behind it
}

// feed sends a body through a splitter and a reader, in pieces of the sizes that
// next gives.
func feed(a core.ProviderSide, job *core.Job, body []byte, next func(left int) int) []seen {
	r := a.Reader(job, offer())
	s := relay.NewSplitter(r.Split(), 16<<20)
	defer s.Release()
	var all []seen
	events := 0
	take := func(f *core.Frame) {
		got := seen{event: -1, data: string(f.Data), name: f.Name, raw: string(f.Raw)}
		if r.Split() != core.SplitSSE && len(f.Data) > 0 || hasData(f.Raw) {
			got.event = events
			events++
		}
		got.mark = r.Read(f)
		got.relayed, got.answer = string(f.Raw), r.Answer()
		all = append(all, got)
	}
	var f core.Frame
	for len(body) > 0 {
		room, err := s.Room()
		if err != nil {
			panic(err)
		}
		n := copy(room, body[:min(max(next(len(body)), 1), len(body))])
		s.Filled(n)
		body = body[n:]
		for s.Next(&f) {
			take(&f)
		}
	}
	if s.Rest(&f) {
		take(&f)
	}
	return all
}

func whole(left int) int { return left }

func hasData(raw []byte) bool {
	for line := range strings.FieldsFuncSeq(string(raw), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.HasPrefix(strings.TrimPrefix(line, "\ufeff"), "data") {
			return true
		}
	}
	return false
}

// kinds are the words of labels for what a mark says.
var kinds = map[string]core.Mark{"text": core.MarkText, "reasoning": core.MarkReasoning, "tool": core.MarkTool, "refusal": core.MarkRefusal}

func TestRecordings(t *testing.T) {
	dir := wire(t)
	for _, l := range labels(t, dir) {
		t.Run(l.File, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(dir, l.File))
			if err != nil {
				t.Fatal(err)
			}
			job := l.job()
			a := sideOf(t, job.Format)
			client, spoken := a.(core.Adapter)
			if !l.Streamed {
				r := a.Reader(job, offer())
				if err := r.ReadWhole(body); err != nil {
					t.Fatal(err)
				}
				checkAnswer(t, l, r.Answer())
				for n := range len(body) - 1 {
					if bytes.TrimSpace(body[n+1:]) == nil {
						break
					}
					if a.Reader(job, offer()).ReadWhole(body[:n]) == nil {
						t.Fatalf("cut at byte %d it is still an answer", n)
					}
				}
				if spoken {
					checkUnfold(t, client, job, body)
				}
				return
			}
			frames := feed(a, job, body, whole)
			checkFrames(t, l, frames)
			checkAnswer(t, l, frames[len(frames)-1].answer)
			checkCuts(t, a, job, body, frames)
			if job.Format == core.FormatBedrock {
				checkAnthropic(t, frames)
			}
			if spoken && frames[len(frames)-1].answer.Err == nil && l.FinishReason != "" && (l.EndMarker == nil || *l.EndMarker || job.Format == core.FormatOpenAI) {
				checkFold(t, client, job, frames)
			}
		})
	}
}

// checkFrames holds the marks and the bytes against the labels.
func checkFrames(t *testing.T, l label, frames []seen) {
	t.Helper()
	first, last := -1, -1
	var firstMark core.Mark
	firstText, firstEvent, failed, events := -1, -1, -1, 0
	ended := false
	var raw, relayed strings.Builder
	for _, f := range frames {
		raw.WriteString(f.raw)
		relayed.WriteString(f.relayed)
		events = max(events, f.event+1)
		if f.event >= 0 && f.data != "" && firstEvent < 0 {
			firstEvent = f.event
		}
		if f.mark.Output() {
			if last = f.event; first < 0 {
				first, firstMark = f.event, f.mark
			}
		}
		if f.mark.Has(core.MarkText) && firstText < 0 {
			firstText = f.event
		}
		if f.mark.Has(core.MarkError) && failed < 0 {
			failed = f.event
			if f.answer.Err == nil {
				t.Error("an error without its Err")
			}
		}
		ended = ended || f.mark.Has(core.MarkEnd)
		if f.mark.Has(core.MarkUsageOnly) && f.mark != core.MarkUsageOnly {
			t.Errorf("event %d: usage only, and %b", f.event, f.mark)
		}
	}
	body, err := os.ReadFile(filepath.Join(wire(t), l.File))
	if l.Media == "eventstream" {
		relayed = raw // no client reads it as it came
	}
	if err != nil || raw.String() != string(body) || relayed.String() != string(body) {
		t.Errorf("the frames are not the bytes that came (%v)", err)
	}
	if events != l.Events {
		t.Errorf("%d events, want %d", events, l.Events)
	}
	for _, c := range []struct {
		what string
		got  int
		want *int
		also []int
	}{
		{"first event", firstEvent, l.FirstEvent, nil},
		{"first output", first, l.FirstOutput, nil},
		{"first text", firstText, l.FirstText, nil},
		{"last output", last, l.LastOutput, l.LastOutputAlso},
	} {
		want := -1
		if c.want != nil {
			want = *c.want
		}
		if c.got != want && !slices.Contains(c.also, c.got) {
			t.Errorf("%s is %d, want %d", c.what, c.got, want)
		}
	}
	if first >= 0 && !firstMark.Has(kinds[l.FirstOutputKind]) {
		t.Errorf("first output is marked %b, want %s", firstMark, l.FirstOutputKind)
	}
	switch {
	case l.Error != nil && failed != l.Error.Event:
		t.Errorf("error at %d, want %d", failed, l.Error.Event)
	case l.Error == nil && failed >= 0: // a bare one is no event (-1)
		t.Errorf("an error at %d, want none", failed)
	}
	// A Google stream has no marker of its end.
	if l.EndMarker != nil && ended != *l.EndMarker {
		t.Errorf("end marker %v, want %v", ended, *l.EndMarker)
	}
}

// checkAnthropic holds what a client of Anthropic's format gets of Bedrock's
// frames against what its own reader makes of it.
func checkAnthropic(t *testing.T, frames []seen) {
	t.Helper()
	var relayed strings.Builder
	want := frames
	for _, f := range frames {
		relayed.WriteString(f.relayed)
	}
	if last := len(frames) - 1; frames[last].mark.Has(core.MarkError) { // AWS's word is kept from it
		want = frames[:last]
	}
	got := feed(adapters.Anthropic{}, &core.Job{Format: core.FormatAnthropic, Operation: core.OpGenerate, Streamed: true}, []byte(relayed.String()), whole)
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		var event struct{ Type string }
		if err := json.Unmarshal([]byte(got[i].data), &event); err != nil || event.Type != got[i].name {
			t.Errorf("frame %d is named %q: %s (%v)", i, got[i].name, got[i].data, err)
		}
		if got[i].mark != want[i].mark || !reflect.DeepEqual(got[i].answer, want[i].answer) {
			t.Errorf("frame %d is %b %+v, want %b %+v", i, got[i].mark, got[i].answer, want[i].mark, want[i].answer)
		}
	}
}

// checkAnswer holds what is known at the end against the labels.
func checkAnswer(t *testing.T, l label, a core.Answer) {
	t.Helper()
	if a.Finish != l.FinishReason {
		t.Errorf("finish %q, want %q", a.Finish, l.FinishReason)
	}
	if l.Error != nil && a.Err != nil {
		want := l.Error.Body.Message + l.Error.Body.Error.Message + l.Error.Body.Body.Message
		if a.Err.Message != want {
			t.Errorf("error %q, want %q", a.Err.Message, want)
		}
		if l.Error.Body.Exception != "" && a.Err.Type != l.Error.Body.Exception {
			t.Errorf("error %q, want %q", a.Err.Type, l.Error.Body.Exception)
		}
		if a.Err.Status < 400 || a.Err.Status > 599 {
			t.Errorf("error status %d of %+v", a.Err.Status, *a.Err)
		}
	}
	if a.Reported != (l.Usage != nil) {
		t.Errorf("reported %v, want %v", a.Reported, l.Usage != nil)
	}
	if l.Usage == nil {
		return
	}
	u := l.Usage
	for _, c := range []struct {
		what string
		got  core.Opt[int64]
		want *int64
		also []int64
	}{
		{"fresh input", a.Usage.Fresh(), u.Fresh, nil},
		{"all input", core.Some(a.Usage.Input()), u.AllInput, nil},
		{"all output", a.Usage.Output, u.AllOutput, u.AllOutputAlso},
		{"cache reads", a.Usage.CacheRead, u.Cached, nil},
		{"cache writes", a.Usage.CacheWrite, u.Write, nil},
		{"reasoning", a.Usage.Reasoning, u.Reasoning, nil},
	} {
		if c.want == nil {
			if c.got.OK && c.got.V != 0 {
				t.Errorf("%s is %d, want none", c.what, c.got.V)
			}
			continue
		}
		if !c.got.OK || c.got.V != *c.want && !slices.Contains(c.also, c.got.V) {
			t.Errorf("%s is %v, want %d", c.what, c.got, *c.want)
		}
	}
}

// checkCuts feeds the body in pieces, and only parts of it.
func checkCuts(t *testing.T, a core.ProviderSide, job *core.Job, body []byte, want []seen) {
	t.Helper()
	if len(body) < 64<<10 {
		got := feed(a, job, body, func(int) int { return 1 })
		if len(got) != len(want) {
			t.Fatalf("byte by byte: %d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("byte by byte frame %d differs:\n%+v\n%+v", i, got[i], want[i])
			}
		}
	}
	var raws, marks bytes.Buffer
	for _, f := range want {
		raws.WriteString(f.relayed)
		fmt.Fprintln(&marks, f.mark)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range min(len(body), 200) {
		at := i * len(body) / 200
		if len(body) > 8<<10 {
			at = rnd.IntN(len(body))
		}
		checkCut(t, a, job, body, at, raws.Bytes(), marks.Bytes(), want[len(want)-1].answer)
		if len(body) > 256<<10 && i > 10 {
			break
		}
	}
	// Cut off: what was known so far is kept.
	n := 0
	for i, f := range want {
		n += len(f.raw)
		if i%(1+len(want)/50) != 0 {
			continue
		}
		got := feed(a, job, body[:n], whole)
		if end := got[len(got)-1].answer; !reflect.DeepEqual(end, f.answer) {
			t.Fatalf("cut off behind frame %d: %+v, want %+v", i, end, f.answer)
		}
		half := feed(a, job, body[:n-len(f.raw)/2], whole)
		if i > 0 && want[i-1].answer.Reported && !half[len(half)-1].answer.Reported {
			t.Fatalf("cut off inside frame %d the usage is lost", i)
		}
	}
}

// checkCut feeds the body in two pieces and compares all that comes of it.
func checkCut(t *testing.T, a core.ProviderSide, job *core.Job, body []byte, at int, raws, marks []byte, want core.Answer) {
	t.Helper()
	r := a.Reader(job, offer())
	s := relay.NewSplitter(r.Split(), 16<<20)
	defer s.Release()
	var gotRaw, gotMarks bytes.Buffer
	take := func(f *core.Frame) {
		mark := r.Read(f)
		gotRaw.Write(f.Raw)
		fmt.Fprintln(&gotMarks, mark)
	}
	var f core.Frame
	for _, piece := range [][]byte{body[:at], body[at:]} {
		for len(piece) > 0 {
			room, err := s.Room()
			if err != nil {
				t.Fatal(err)
			}
			n := copy(room, piece)
			s.Filled(n)
			for piece = piece[n:]; s.Next(&f); {
				take(&f)
			}
		}
	}
	if s.Rest(&f) {
		take(&f)
	}
	if !bytes.Equal(gotRaw.Bytes(), raws) || !bytes.Equal(gotMarks.Bytes(), marks) || !reflect.DeepEqual(r.Answer(), want) {
		t.Fatalf("cut at %d of %d it is another answer", at, len(body))
	}
}

func frame(f seen) core.Frame {
	return core.Frame{Raw: []byte(f.raw), Name: f.name, Data: []byte(f.data)}
}

// fold makes one answer of a stream.
func fold(t *testing.T, a core.Adapter, job *core.Job, frames []seen) []byte {
	t.Helper()
	w := a.Writer(job)
	for _, f := range frames {
		w.Fold(frame(f))
	}
	body, err := w.Folded()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// checkFold folds a stream, unfolds that and folds it again: the answer is the
// same, and it is one to the reader.
func checkFold(t *testing.T, a core.Adapter, job *core.Job, frames []seen) {
	t.Helper()
	body := fold(t, a, job, frames)
	want := frames[len(frames)-1].answer
	r := a.Reader(job, offer())
	if err := r.ReadWhole(body); err != nil {
		t.Fatalf("the folded answer: %v\n%s", err, body)
	}
	if got := r.Answer(); got.Usage != want.Usage || got.Finish != want.Finish {
		t.Errorf("folded it is %+v %q, want %+v %q", got.Usage, got.Finish, want.Usage, want.Finish)
	}
	checkUnfold(t, a, job, body)
}

// checkUnfold makes a stream of an answer and folds it again.
func checkUnfold(t *testing.T, a core.Adapter, job *core.Job, body []byte) {
	t.Helper()
	job = ptr(*job)
	job.Streamed, job.SSE = true, true
	pieces, err := a.Writer(job).Unfold(body)
	if err != nil {
		t.Fatal(err)
	}
	r := a.Reader(job, offer())
	if err := r.ReadWhole(body); err != nil {
		t.Fatal(err)
	}
	want := r.Answer()
	again := feed(a, job, bytes.Join(pieces, nil), whole)
	if len(again) != len(pieces) {
		t.Errorf("%d pieces make %d frames", len(pieces), len(again))
	}
	got := again[len(again)-1].answer
	if got.Usage != want.Usage || got.Finish != want.Finish {
		t.Errorf("unfolded it is %+v %q, want %+v %q", got.Usage, got.Finish, want.Usage, want.Finish)
	}
	for _, f := range again {
		if f.mark.Has(core.MarkError) || f.relayed != f.raw {
			t.Errorf("unfolded it has a faulty frame: %s", f.raw)
		}
	}
	if refolded := fold(t, a, job, again); !sameJSON(t, refolded, body) {
		t.Errorf("folded again it is\n%s\nwant\n%s", refolded, body)
	}
}

func ptr[T any](v T) *T { return &v }

// sameJSON compares two JSON texts; an object's member that is null is the same
// as one that is not there.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return reflect.DeepEqual(withoutNull(x), withoutNull(y))
}

func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, m := range v {
			if v[k] = withoutNull(m); v[k] == nil {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	}
	return v
}

// local are the recordings of this project's own servers, by the path that they
// answered on.
func local(t *testing.T, each func(t *testing.T, job *core.Job, body []byte)) {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join("..", "testdata", "wire", "*", "*.meta.json"))
	if err != nil || len(metas) == 0 {
		t.Fatalf("no recordings of our own (%v)", err)
	}
	for _, file := range metas {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var meta struct {
			Path   string
			Status int
		}
		if err := json.Unmarshal(data, &meta); err != nil {
			t.Fatal(err)
		}
		job := &core.Job{Operation: core.OpGenerate, Streamed: true, AskedUsage: true}
		switch meta.Path {
		case "/v1/chat/completions":
			job.Format = core.FormatOpenAI
		case "/v1/completions":
			job.Format, job.Operation = core.FormatOpenAI, core.OpCompletions
		case "/v1/responses":
			job.Format = core.FormatResponses
		case "/v1/messages":
			job.Format = core.FormatAnthropic
		case "/api/chat":
			job.Format = core.FormatOllama
		default:
			continue
		}
		if meta.Status != 200 {
			continue
		}
		base := strings.TrimSuffix(file, ".meta.json")
		body, err := os.ReadFile(base + ".sse")
		if err != nil {
			body, err = os.ReadFile(base + ".ndjson")
		}
		if err != nil {
			job.Streamed = false
			if body, err = os.ReadFile(base + ".json"); err != nil {
				t.Fatal(err)
			}
		}
		name, _ := filepath.Rel(filepath.Join("..", "testdata", "wire"), base)
		t.Run(name, func(t *testing.T) { each(t, job, body) })
	}
}

// llamaFigures are llama-server's own counts and times of a call.
type llamaFigures struct {
	Cached      int64   `json:"cache_n"`
	Prompt      int64   `json:"prompt_n"`
	PromptMS    float64 `json:"prompt_ms"`
	Predicted   int64   `json:"predicted_n"`
	PredictedMS float64 `json:"predicted_ms"`
}

func TestOwnRecordings(t *testing.T) {
	local(t, func(t *testing.T, job *core.Job, body []byte) {
		a := sideOf(t, job.Format)
		client, spoken := a.(core.Adapter)
		if !job.Streamed {
			r := a.Reader(job, offer())
			if err := r.ReadWhole(body); err != nil {
				t.Fatal(err)
			}
			checkOwn(t, t.Name(), body, r.Answer())
			if spoken {
				checkUnfold(t, client, job, body)
			}
			return
		}
		frames := feed(a, job, body, whole)
		last := frames[len(frames)-1]
		cancelled := strings.Contains(t.Name(), "cancel")
		if !cancelled {
			checkOwn(t, t.Name(), body, last.answer)
			if spoken {
				checkFold(t, client, job, frames)
			}
		}
		for i, f := range frames {
			switch {
			case f.mark.Has(core.MarkError):
				t.Errorf("frame %d is an error: %s", i, f.raw)
			case f.mark.Output() && job.Operation != core.OpCompletions && i == 0 && strings.Contains(f.data, `"content":null`):
				t.Errorf("the role chunk counts as output")
			case f.event < 0 && f.mark != 0:
				t.Errorf("a comment is marked %b", f.mark)
			}
		}
		// Ollama swallows the thinking of a completion and sends its text empty.
		if silent := strings.HasSuffix(t.Name(), "/ollama/v1-completions-stream"); silent != (last.answer.OutputBytes == 0) {
			t.Errorf("%d bytes of output were seen", last.answer.OutputBytes)
		}
		checkCuts(t, a, job, body, frames)
	})
}

// checkOwn holds what was read against llama-server's timings, where there are any.
func checkOwn(t *testing.T, name string, body []byte, a core.Answer) {
	t.Helper()
	if a.Finish == "" || !a.Usage.Output.OK || a.Usage.Output.V == 0 || a.Usage.Input() == 0 {
		t.Errorf("%s: finish %q, usage %+v", name, a.Finish, a.Usage)
	}
	_, text, ok := bytes.Cut(body, []byte(`"timings":`))
	if !ok {
		return
	}
	var f llamaFigures
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&f); err != nil {
		t.Fatal(err)
	}
	want := core.Usage{UncachedInput: core.Some(f.Prompt), CacheRead: core.Some(f.Cached), Output: core.Some(f.Predicted)}
	if a.Usage != want || !a.Reported {
		t.Errorf("usage %+v, want %+v", a.Usage, want)
	}
	figures := core.ServerFigures{
		PromptTokens: core.Some(f.Prompt), PromptMS: core.Some(f.PromptMS), DecodeTokens: core.Some(f.Predicted), DecodeMS: core.Some(f.PredictedMS),
	}
	if a.Figures != figures {
		t.Errorf("figures %+v, want %+v", a.Figures, figures)
	}
}

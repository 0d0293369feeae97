package sdktest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write adapters/FIELDS.md anew")

// spoken is what the table says of one client format: the documented fields and,
// for each, a request that has it.
type spoken struct {
	api, title string
	path       string // where calls go; %s is the model
	// base is what every request has that its sample does not give.
	base map[string]string
	// documented are the fields that the SDK's types have.
	documented func(whole func(path string) bool) []string
	// shared are pieces of samples, by the name that samples have for them.
	shared []string
	// samples are the members of a request's body, by field. What stands between
	// « and » is there with the field and not without it; «this|that» is this with
	// it and that without.
	samples []sample
	// needless are what a provider of another format is not asked, and why.
	needless []needless
}

// needless is a field that means nothing to providers of the formats named (all
// where none is), so that nobody need be told that it is left out.
type needless struct{ field, formats, why string }

func (n needless) holds(field, format string) bool {
	return n.field == field && (n.formats == "" || slices.Contains(strings.Fields(n.formats), format))
}

// sample shows a field. What the upstream must get with the field alone is seek;
// where that is empty, one of the marks that the sample has. Where there is none,
// or seek is "*", it must get anything else than without the field.
type sample struct{ field, members, seek string }

// marks are values that no request has but where a sample has them.
var marks = []string{"zebra", "0.37", "4321"}

// target is a provider's format, a usual model of such a provider, as what it
// takes is for some formats the model's own affair, and what the configuration
// needs.
type target struct{ format, short, model, settings string }

var targets = []target{
	{"openai", "openai", "gpt-oss-120b", "    base_url: %s/v1\n    api_key: KEY\n"},
	{"openai-responses", "responses", "gpt-5.1", "    base_url: %s/v1\n    api_key: KEY\n"},
	{"anthropic", "anthropic", "claude-sonnet-4-5", "    base_url: %s\n    api_key: KEY\n"},
	{"google", "google", "gemini-3-pro-preview", "    base_url: %s\n    api_key: KEY\n"},
	{"bedrock", "bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "    base_url: %s\n    region: eu-west-1\n    api_key: KEY\n"},
	{"bedrock-converse", "converse", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "    base_url: %s\n    region: eu-west-1\n    api_key: KEY\n"},
	{"vertex-anthropic", "vertex-a", "claude-sonnet-4-5@20250929", "    base_url: %s\n    project: p\n    location: global\n    api_key: KEY\n"},
	{"vertex-google", "vertex-g", "gemini-3-pro-preview", "    base_url: %s\n    project: p\n    location: global\n    api_key: KEY\n"},
	{"ollama", "ollama", "gpt-oss:20b", "    base_url: %s\n"},
	{"llamacpp", "llamacpp", "qwen3", "    base_url: %s\n"},
}

// outcome is what became of a field.
type outcome string

const (
	arrived outcome = "✓"
	dropped outcome = "dropped"
	refused outcome = "refused"
	idle    outcome = "–"
	lost    outcome = "LOST"
)

// TestFields sends every documented field of every client format to every
// provider format and sees that it arrived, was refused, or was named among what
// was left out. The outcome is adapters/FIELDS.md.
func TestFields(t *testing.T) {
	sinks := make([]*sink, len(targets))
	var config strings.Builder
	fmt.Fprintf(&config, "listen: 127.0.0.1:0\nadmin_token: ${HEADWAY_ADMIN_TOKEN}\nbreaker: {within: 1ms, out: 1ms}\n")
	fmt.Fprintf(&config, "keys:\n  - {name: sdk, key: %s}\nproviders:\n", callerKey)
	for i, to := range targets {
		sinks[i] = &sink{}
		server := httptest.NewServer(sinks[i])
		t.Cleanup(server.Close)
		fmt.Fprintf(&config, "  - id: %s\n    format: %s\n", to.format, to.format)
		config.WriteString(strings.ReplaceAll(fmt.Sprintf(to.settings, server.URL), "KEY", providerKey))
		fmt.Fprintf(&config, "    offers:\n      - {model: to-%s, upstream_model: %q, input_usd_per_mtok: \"1\", output_usd_per_mtok: \"1\"}\n", to.format, to.model)
	}
	h := serve(t, config.String())

	all := []*spoken{chatFields(), responsesFields(), messagesFields(), generateFields()}
	tables := make([]map[string][]outcome, len(all))
	for i, s := range all {
		s.check(t)
		s.sort()
		tables[i] = map[string][]outcome{}
		for _, sample := range s.samples {
			tables[i][sample.field] = make([]outcome, len(targets))
		}
	}
	t.Run("targets", func(t *testing.T) {
		for n, to := range targets {
			t.Run(to.format, func(t *testing.T) {
				t.Parallel()
				for i, s := range all {
					if to.format == providerOf(s.api) {
						continue
					}
					c := &courier{t: t, base: h.base, spoken: s, model: "to-" + to.format, sink: sinks[n], known: map[string]reply{}}
					for _, sample := range s.samples {
						what, why := c.outcome(sample)
						if what == lost && slices.ContainsFunc(s.needless, func(n needless) bool { return n.holds(sample.field, to.format) }) {
							what = idle
						}
						if tables[i][sample.field][n] = what; what == lost {
							t.Errorf("%s: %s", sample.field, why)
						}
					}
				}
			})
		}
	})
	for i, s := range all {
		for _, n := range s.needless {
			if row := tables[i][n.field]; !slices.Contains(row, idle) {
				t.Errorf("%s: %s is said to mean nothing to others, but became %v", s.title, n.field, row)
			}
		}
	}
	document(t, all, tables)
}

// check holds the samples against the documented fields.
func (s *spoken) check(t *testing.T) {
	sampled := map[string]bool{}
	for _, sample := range s.samples {
		if sampled[sample.field] {
			t.Errorf("%s: %s has two samples", s.title, sample.field)
		}
		sampled[sample.field] = true
	}
	for _, field := range slices.Compact(s.documented(func(path string) bool { return sampled[path] })) {
		if !sampled[field] {
			t.Errorf("%s: the SDK's types have %s, for which no sample says how to ask for it", s.title, field)
		}
	}
}

// sort puts the samples of one member of the body together.
func (s *spoken) sort() {
	var tops []string
	top := func(field string) int {
		name := member.FindString(field)
		if !slices.Contains(tops, name) {
			tops = append(tops, name)
		}
		return slices.Index(tops, name)
	}
	for _, sample := range s.samples {
		top(sample.field)
	}
	slices.SortStableFunc(s.samples, func(a, b sample) int { return top(a.field) - top(b.field) })
}

var member = regexp.MustCompile(`^\w+`)

// body is a request with a sample's field, or without.
func (s *spoken) body(t *testing.T, sample sample, model string, with bool) string {
	shared := strings.NewReplacer(s.shared...)
	members := choice.ReplaceAllStringFunc(sample.members, func(m string) string {
		here, there, _ := strings.Cut(strings.Trim(m, "«»"), "|")
		if with {
			return here
		}
		return there
	})
	members = shared.Replace(shared.Replace(members)) // pieces have pieces in them
	own := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte("{"+members+"}"), &own); err != nil {
		t.Fatalf("%s: the sample makes %s: %v", sample.field, members, err)
	}
	for name, value := range s.base {
		if own[name] == nil {
			own[name] = json.RawMessage(strings.ReplaceAll(shared.Replace(value), "$MODEL", model))
		}
	}
	body, err := json.Marshal(own)
	if err != nil {
		t.Fatalf("%s: %v", sample.field, err)
	}
	return string(body)
}

var choice = regexp.MustCompile(`«[^»]*»`)

// courier makes the calls of one client format to one target.
type courier struct {
	*spoken
	t           *testing.T
	base, model string
	sink        *sink
	known       map[string]reply // by the body: most fields are left out of the same request
}

// reply is what came of a call: what the client got, and what the upstream.
type reply struct {
	status   int
	message  string // the error's
	left     []string
	upstream string
}

// outcome says what became of a field, and what is wrong where it was lost.
func (c *courier) outcome(s sample) (outcome, string) {
	with, without := c.call(s, true), c.call(s, false)
	switch {
	case with.status == http.StatusBadRequest:
		// It may be refused together with another field that it needs.
		if name, _, _ := strings.Cut(with.message, ":"); names(name, s.field) || with.message == without.message && strings.Contains(s.members, lastOf(name)) {
			return refused, ""
		}
		return lost, "refused without its name: " + with.message
	case with.status != http.StatusOK:
		return lost, fmt.Sprintf("status %d: %s", with.status, with.message)
	case without.status != http.StatusOK:
		return lost, fmt.Sprintf("without it: status %d: %s", without.status, without.message)
	}
	for _, name := range with.left {
		// A field that no request goes without is named both times.
		if names(name, s.field) && (strings.Contains(s.members, "|") || !slices.Contains(without.left, name)) {
			return dropped, ""
		}
	}
	if with.upstream == without.upstream {
		return lost, "the upstream gets the same without it: " + with.upstream
	}
	mark := s.seek
	for _, m := range marks {
		if mark == "" && strings.Contains(s.members, m) {
			mark = m
		}
	}
	if mark != "" && mark != "*" && (!strings.Contains(with.upstream, mark) || strings.Contains(without.upstream, mark)) {
		return lost, fmt.Sprintf("%q does not tell what the upstream gets, %s, from what it gets without: %s", mark, with.upstream, without.upstream)
	}
	return arrived, ""
}

func (c *courier) call(s sample, with bool) reply {
	body := c.body(c.t, s, c.model, with)
	if r, ok := c.known[body]; ok {
		return r
	}
	path := c.path
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, c.model)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+callerKey)
	req.Header.Set("Content-Type", "application/json")
	c.sink.take()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s: %v", s.field, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s: %v", s.field, err)
	}
	r := reply{status: resp.StatusCode, upstream: c.sink.take()}
	if names := resp.Header.Get("X-Headway-Dropped"); names != "" {
		r.left = strings.Split(names, ", ")
	}
	var e struct{ Error struct{ Message string } }
	if json.Unmarshal(answer, &e) == nil {
		r.message = e.Error.Message
	}
	c.known[body] = r
	return r
}

// names tells whether a name that Headway gives is that of a field, of what the
// field is part of, or of a part of it. Members between may be left out, and a
// form may stand for itself ("server_tool_use").
func names(name, field string) bool {
	field, _, _ = strings.Cut(field, " ")
	field = strings.NewReplacer(":string", "", ":data", "").Replace(field)
	said := strings.TrimSuffix(selector.ReplaceAllString(name, ""), ".type")
	if strings.Contains(field, "["+said+"]") {
		return true
	}
	plain := selector.ReplaceAllString(field, "")
	words := strings.Split(said, ".")
	for _, member := range strings.Split(plain, ".") {
		if len(words) > 0 && words[0] == member {
			words = words[1:]
		}
	}
	return said != "" && len(words) == 0 || strings.HasPrefix(said, plain+".")
}

// lastOf is the last word of a field's name, as a member of an object.
func lastOf(name string) string {
	name = selector.ReplaceAllString(name, "")
	return `"` + name[strings.LastIndex(name, ".")+1:] + `"`
}

var selector = regexp.MustCompile(`\[[^\]]*\]`)

// sink is an upstream that answers any call and keeps what it got.
type sink struct {
	mu  sync.Mutex // guards got
	got string
}

// take gives what came since it was last asked.
func (s *sink) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = ""
	return got
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.got = r.URL.RequestURI() + " " + string(body)
	s.mu.Unlock()
	answer := goodAnswer(r.URL.Path)
	switch {
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		w.Header().Set("Content-Type", "text/event-stream")
		answer = "data: " + answer + "\r\n\r\n"
	case strings.HasSuffix(r.URL.Path, "/converse-stream"):
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		answer = awsFrame("event", "messageStart", `{"role":"assistant"}`) + awsFrame("event", "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Yes."}}`) +
			awsFrame("event", "contentBlockStop", `{"contentBlockIndex":0}`) + awsFrame("event", "messageStop", `{"stopReason":"end_turn"}`) +
			awsFrame("event", "metadata", `{"usage":{"inputTokens":9,"outputTokens":2,"totalTokens":11},"metrics":{"latencyMs":1}}`)
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = io.WriteString(w, answer)
}

// goodAnswer is a short whole answer of the API at a path.
func goodAnswer(path string) string {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	case strings.HasSuffix(path, "/responses"):
		return `{"id":"r1","object":"response","created_at":1,"model":"m","status":"completed","output":[{"id":"i1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Yes.","annotations":[]}]}],"usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}`
	case strings.HasSuffix(path, "/converse"):
		return `{"output":{"message":{"role":"assistant","content":[{"text":"Yes."}]}},"stopReason":"end_turn","usage":{"inputTokens":9,"outputTokens":2,"totalTokens":11},"metrics":{"latencyMs":1}}`
	case strings.HasSuffix(path, "/api/chat"):
		return `{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"Yes."},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":2}`
	case strings.HasSuffix(path, "enerateContent"):
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"Yes."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"m"}`
	}
	return `{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":2}}`
}

// document writes FIELDS.md, or holds it against what was found.
func document(t *testing.T, all []*spoken, tables []map[string][]outcome) {
	var b strings.Builder
	b.WriteString(fieldsIntroduction)
	for i, s := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		width := 0
		for _, sample := range s.samples {
			width = max(width, len(sample.field)+2)
		}
		cells := func(first string, cell func(n int) string) {
			fmt.Fprintf(&b, "| %-*s |", width, first)
			for n, to := range targets {
				if to.format != providerOf(s.api) {
					fmt.Fprintf(&b, " %-*s |", max(len(to.short), len(refused)), cell(n))
				}
			}
			b.WriteString("\n")
		}
		cells("field", func(n int) string { return targets[n].short })
		cells(strings.Repeat("-", width), func(n int) string { return strings.Repeat("-", max(len(targets[n].short), len(refused))) })
		for _, sample := range s.samples {
			cells("`"+sample.field+"`", func(n int) string { return string(tables[i][sample.field][n]) })
		}
		if len(s.needless) > 0 {
			b.WriteString("\n")
		}
		for _, n := range s.needless {
			fmt.Fprintf(&b, "- `%s`: %s\n", n.field, n.why)
		}
	}
	file := filepath.Join("..", "..", "adapters", "FIELDS.md")
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil || string(now) != b.String() {
		t.Errorf("%s is not what the adapters do: write it anew with go test -run TestFields -update (%v)", file, err)
	}
}

const fieldsIntroduction = `# What becomes of a field at a provider of another format

A call to a provider of the client's own format passes as it came. To a provider of another format it is translated, and
this is what becomes of each documented field of the client's:

| word | meaning |
|---|---|
| ✓ | it reaches the provider in its own form |
| dropped | the provider has no place for it, and the answer means the same without it: it is left out and named in ` + "`x-headway-dropped`" + ` |
| refused | the provider has no place for it, and the answer would mean something else without it: the call fails with 400 and an error that names it |
| – | it is nothing that a provider of another format is asked; why stands below the table |

The fields are those of the official Go SDKs' types, by the names on the wire. A list's elements are ` + "`stop[]`" + `; ` + "`content[image_url]`" + `
is the form of that type or role, ` + "`stop:string`" + ` the form that is no object. A field without parts stands for all that is in it.
Providers: ` + "`openai`" + ` is a server without a dialect, ` + "`responses`" + ` openai-responses, ` + "`converse`" + ` bedrock-converse, ` + "`vertex-a`" + `
vertex-anthropic, ` + "`vertex-g`" + ` vertex-google. What some of them take depends on the model: here it is Claude Sonnet 4.5 and Gemini 3 Pro.

This page is made from what the code does: ` + "`cd testdata/sdk && go test -run TestFields . -args -update`" + `.
`

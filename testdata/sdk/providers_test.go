package sdktest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The APIs that providers alone speak.
const (
	invoke   = "bedrock-invoke"
	converse = "bedrock-converse"
	ollama   = "ollama-native"
)

// provider is a format that upstreams speak.
type provider struct {
	format string // in a configuration file
	api    string // how it answers
	native string // the client's API whose bytes it takes
	read   func(r *reading, body node)
	// lacks are the words of an ask that the format has none for.
	lacks []string
	// seals tells that it takes its own reasoning back.
	seals bool
	// failure is how a format says that a tool failed that has no member for it.
	failure string
	// settings are the provider's own lines of a configuration file.
	settings string
}

// providers are all upstream formats of SPEC §13.
var providers = []*provider{
	{"openai", chat, chat, readChat, []string{"pause", "top_k", "result image", "failed", "cache", "shown", "1h", "logs"}, false, "Error", "base_url: UP/v1\n    api_key: KEY"},
	{"llamacpp", chat, chat, readLlama, []string{"pause", "n", "document", "later system", "result image", "failed", "cache", "shown", "1h", "logs"}, false, "Error", "base_url: UP\n    api_key: KEY"},
	{"openai-responses", responses, responses, readResponses, []string{"pause", "top_k", "seed", "presence", "frequency", "n", "stop", "failed", "cache", "1h", "logs"}, true, "The tool failed.", "base_url: UP/v1\n    api_key: KEY"},
	{"anthropic", messages, messages, readMessages, []string{"seed", "presence", "frequency", "n", "logs", "later system", "json", "shown"}, true, "", "base_url: UP\n    api_key: KEY"},
	{"bedrock", invoke, messages, readInvoke, []string{"seed", "presence", "frequency", "n", "logs", "later system", "json", "shown", "link"}, true, "", aws},
	{"vertex-anthropic", messages, messages, readVertexMessages, []string{"seed", "presence", "frequency", "n", "logs", "later system", "json", "shown", "link"}, true, "", vertex},
	{"google", generate, generate, readGenerate, []string{"pause", "one tool", "user", "later system", "cache", "write", "logs", "result image", "name"}, true, "", "base_url: UP\n    api_key: KEY"},
	{"vertex-google", generate, generate, readGenerate, []string{"pause", "one tool", "user", "later system", "cache", "write", "logs", "result image", "name"}, true, "", vertex},
	{"bedrock-converse", converse, "", readConverse, []string{"pause", "seed", "presence", "frequency", "n", "logs", "later system", "one tool", "user", "none", "link", "json", "shown", "1h", "thought"}, true, "", aws},
	{"ollama", ollama, "", readOllama, []string{"pause", "n", "later system alone", "one tool", "user", "choice", "none", "link", "document", "failed", "cache", "shown", "seal", "read", "write", "thought", "refusal", "result image", "split", "logs"}, false, "The tool failed.", "base_url: UP"},
}

const (
	aws    = "base_url: UP\n    region: us-east-1\n    access_key_id: AKIDEXAMPLE0123\n    secret_access_key: KEY"
	vertex = "base_url: UP\n    project: proj\n    location: us-central1\n    api_key: KEY"
)

func (p *provider) has(what string) bool { return !slices.Contains(p.lacks, what) }

// cell is one call of the matrix: what its model is to answer, by turns.
type cell struct {
	model string
	*provider
	// name is what clients ask for, where that is not model: a model of two
	// offers has two cells, of which the cheaper is asked first.
	name  string
	cheap bool
	says  []*say
	// replay answers in the place of words, where it is set.
	replay *replay
	// gate is closed when the client has heard the text: the end is held for it.
	gate chan struct{}

	mu  sync.Mutex // guards got
	got []*reading
}

// upstream is the provider's name for the cell's model. What a model at Bedrock
// or Ollama can do is known by its name.
func (c *cell) upstream() string {
	switch {
	case c.settings == aws:
		return "us.anthropic.claude-sonnet-4-5-20250929-" + viaModel + c.model
	case c.native == messages:
		return "claude-sonnet-4-5-20250929-" + viaModel + c.model
	case c.api == ollama:
		return "gpt-oss-" + viaModel + c.model
	}
	return viaModel + c.model
}

// market is the upstream of all providers: a model for each cell.
type market struct {
	*httptest.Server
	cells map[string]*cell
}

func openMarket(t *testing.T, cells []*cell) *market {
	m := &market{cells: map[string]*cell{}}
	for _, c := range cells {
		if m.cells[c.model] != nil {
			t.Fatalf("two cells are named %s", c.model)
		}
		m.cells[c.model] = c
	}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// dialect is the provider's, by the recording that it answers with.
func (c *cell) dialect() string {
	if c.replay == nil || c.api != chat {
		return ""
	}
	dialect := strings.ToLower(c.replay.recording.dialect)
	if strings.ContainsAny(dialect, "._ ") {
		return ""
	}
	return dialect
}

// group is the provider that has the cell. A used-up quota or a wrong
// credential takes all of a provider's models out: who may have that has a
// provider of its own.
func (c *cell) group() string {
	switch {
	case c.replay != nil:
		return c.format + " " + c.replay.name
	case c.says[0].fail != nil && c.says[0].fail.status == 401:
		return c.model
	}
	return c.format
}

// configuration has a provider of each format and dialect, with an offer for each
// of its cells.
func (m *market) configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:0\nadmin_token: ${HEADWAY_ADMIN_TOKEN}\nbreaker: {within: 1ms, out: 1ms}\nkeys:\n  - {name: sdk, key: %s}\nproviders:\n", callerKey)
	groups := map[string][]*cell{}
	for _, c := range m.cells {
		groups[c.group()] = append(groups[c.group()], c)
	}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		p, dialect := groups[name][0].provider, groups[name][0].dialect()
		fmt.Fprintf(&b, "  - id: p%d\n    format: %s\n    %s\n", i, p.format, strings.NewReplacer("UP", m.URL, "KEY", providerKey).Replace(p.settings))
		if dialect != "" {
			fmt.Fprintf(&b, "    dialect: %s\n", dialect)
		}
		fmt.Fprintf(&b, "    offers:\n")
		for _, c := range groups[name] {
			price := 2
			if c.cheap {
				price = 1
			}
			fmt.Fprintf(&b, "      - {model: %s, upstream_model: %s, input_usd_per_mtok: \"1\", output_usd_per_mtok: \"%d\"}\n", cmp.Or(c.name, c.model), c.upstream(), price)
		}
	}
	return b.String()
}

// where a provider's calls go, with its credential.
func (p *provider) expected(model string, streamed bool) (path, query, header, credential string) {
	pick := func(yes, no string) string {
		if streamed {
			return yes
		}
		return no
	}
	verb := pick(":streamGenerateContent", ":generateContent")
	switch p.format {
	case "openai-responses":
		return "/v1/responses", "", "Authorization", "Bearer " + providerKey
	case "anthropic":
		return "/v1/messages", "", "X-Api-Key", providerKey
	case "google":
		return "/v1beta/models/" + model + verb, pick("alt=sse", ""), "X-Goog-Api-Key", providerKey
	case "bedrock":
		return "/model/" + model + pick("/invoke-with-response-stream", "/invoke"), "", "Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE0123/"
	case "bedrock-converse":
		return "/model/" + model + pick("/converse-stream", "/converse"), "", "Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE0123/"
	case "vertex-anthropic":
		return "/v1/projects/proj/locations/us-central1/publishers/anthropic/models/" + model + pick(":streamRawPredict", ":rawPredict"), "", "Authorization", "Bearer " + providerKey
	case "vertex-google":
		return "/v1/projects/proj/locations/us-central1/publishers/google/models/" + model + verb, pick("alt=sse", ""), "Authorization", "Bearer " + providerKey
	case "ollama":
		return "/api/chat", "", "", ""
	}
	return "/v1/chat/completions", "", "Authorization", "Bearer " + providerKey
}

// ServeHTTP reads a call as its provider does, and answers with the cell's next words.
func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, model, _ := strings.Cut(modelAt(r.URL, body), viaModel)
	c := m.cells[model]
	if c == nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"no provider has %s"}}`, r.URL.Path), http.StatusNotFound)
		return
	}
	got := newReading()
	b := parse(got, body)
	streamed := c.api == ollama || c.api == chat || c.api == responses || c.format == "anthropic"
	if streamed {
		members, _ := b.v.(map[string]any)
		streamed, _ = members["stream"].(bool)
	} else {
		streamed = strings.Contains(strings.ToLower(r.URL.Path), "stream")
	}
	path, query, header, credential := c.expected(c.upstream(), streamed)
	if r.Method != http.MethodPost || r.URL.Path != path || r.URL.RawQuery != query || !strings.HasPrefix(r.Header.Get(header), credential) {
		got.refuse("%s %s?%s with %q, want POST %s?%s with %s", r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get(header), path, query, credential)
	}
	c.read(got, b)
	got.finish()
	c.mu.Lock()
	n := len(c.got)
	c.got = append(c.got, got)
	c.mu.Unlock()

	if c.replay != nil {
		w.Header().Set("Content-Type", c.replay.media)
		_, _ = w.Write(c.replay.body)
		return
	}
	s := c.says[min(n, len(c.says)-1)]
	out := s.speak(c.provider, streamed)
	if len(got.wrong) > 0 {
		_, text := wrong(c.api, 400)
		out = utterance{status: 400, header: out.header, chunks: []string{strings.Replace(text, failed, "the provider refuses: "+strings.Trim(quote(strings.Join(got.wrong, "; ")), `"`), 1)}}
		out.header["Content-Type"] = "application/json"
	}
	for name, v := range out.header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(out.status)
	if s.cut {
		defer panic(http.ErrAbortHandler)
	}
	for i, chunk := range out.chunks {
		if c.gate != nil && i == out.said { // the end waits for the client to have heard what was before
			select {
			case <-c.gate:
			case <-time.After(10 * time.Second):
			}
		}
		_, _ = io.WriteString(w, chunk)
		if streamed && len(out.chunks) < 100 {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// modelAt finds a call's model, in its path or its body.
func modelAt(u *url.URL, body []byte) string {
	for _, before := range []string{"/model/", "/models/"} {
		if _, rest, ok := strings.Cut(u.Path, before); ok {
			return strings.FieldsFunc(rest, func(c rune) bool { return c == '/' || c == ':' })[0]
		}
	}
	model, _ := modelOf(u.Path, body)
	return model
}

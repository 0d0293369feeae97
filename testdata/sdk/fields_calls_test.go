package sdktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

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

package sdktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// providerKey is the only credential that the upstream takes; the callers' key
// must never reach it.
const providerKey = "sk-provider-0123456789abcdef"

// The upstream's models are the recordings' names behind one of these: an SDK
// asks for raw ones directly, Headway for via ones.
const (
	rawModel = "raw."
	viaModel = "via."
)

// ending is what the upstream does behind the last chunk.
type ending int

const (
	complete ending = iota
	cut             // the connection breaks
	silent          // nothing more comes until the caller leaves
)

// answer is what the upstream says to a model's calls.
type answer struct {
	api    string
	status int
	header map[string]string
	chunks []chunk
	ending ending
}

// asked is one request that the upstream got.
type asked struct {
	path   string
	query  url.Values
	header http.Header
	body   []byte
	quiet  chan struct{}  // closed when the upstream has said all that it says
	left   chan time.Time // gets the time at which the caller left before the end
}

// upstream replays answers, chosen by the model's name.
type upstream struct {
	*httptest.Server
	answers map[string]*answer

	mu   sync.Mutex // guards got
	got  map[string][]*asked
	news *sync.Cond // got has grown
}

func startUpstream(t *testing.T, answers map[string]*answer) *upstream {
	u := &upstream{answers: answers, got: map[string][]*asked{}}
	u.news = sync.NewCond(&u.mu)
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

// paths are where each API is.
var paths = map[string][]string{
	chat:        {"/v1/chat/completions", "/v1/embeddings"},
	completions: {"/v1/completions"},
	responses:   {"/v1/responses"},
	messages:    {"/v1/messages", "/v1/messages/count_tokens"},
	generate:    {":generateContent", ":streamGenerateContent", ":countTokens"},
}

// ServeHTTP answers one call. What a real provider would refuse, it refuses: a
// wrong credential, a path of another API, a model that it does not have.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	model, path := modelOf(r.URL.Path, body)
	a := u.answers[strings.TrimPrefix(strings.TrimPrefix(model, rawModel), viaModel)]
	if a == nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"the upstream has no model %q"}}`, model), http.StatusNotFound)
		return
	}
	if !speaks(a.api, path) || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"%s %s is not of %s"}}`, r.Method, path, a.api), http.StatusNotFound)
		return
	}
	if key := credential(a.api, r.Header); key != providerKey {
		http.Error(w, `{"error":{"message":"wrong key"}}`, http.StatusUnauthorized)
		return
	}
	q := &asked{path, r.URL.Query(), r.Header, body, make(chan struct{}), make(chan time.Time, 1)}
	u.mu.Lock()
	u.got[model] = append(u.got[model], q)
	u.mu.Unlock()
	u.news.Broadcast()

	for name, v := range a.header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(a.status)
	out := http.NewResponseController(w)
	for _, c := range a.chunks {
		select {
		case <-time.After(c.wait):
		case <-r.Context().Done():
			q.left <- time.Now()
			return
		}
		_, _ = w.Write(c.data)
		_ = out.Flush()
	}
	close(q.quiet)
	switch a.ending {
	case cut:
		panic(http.ErrAbortHandler)
	case silent:
		select {
		case <-r.Context().Done():
			q.left <- time.Now()
		case <-time.After(30 * time.Second):
		}
	}
}

// modelOf gives a request's model, and its path without it.
func modelOf(path string, body []byte) (model, rest string) {
	if named, ok := strings.CutPrefix(path, "/v1beta/models/"); ok {
		model, verb, _ := strings.Cut(named, ":")
		return model, ":" + verb
	}
	var named struct{ Model string }
	_ = json.Unmarshal(body, &named)
	return named.Model, path
}

func speaks(api, path string) bool {
	for _, p := range paths[api] {
		if p == path {
			return true
		}
	}
	return false
}

func credential(api string, h http.Header) string {
	switch api {
	case messages:
		return h.Get("X-Api-Key")
	case generate:
		return h.Get("X-Goog-Api-Key")
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

// nth waits for a model's n-th request, counted from 1.
func (u *upstream) nth(t *testing.T, model string, n int) *asked {
	t.Helper()
	stop := time.AfterFunc(20*time.Second, func() {
		u.mu.Lock()
		u.got[model+" is late"] = []*asked{}
		u.mu.Unlock()
		u.news.Broadcast()
	})
	defer stop.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.got[model]) < n {
		if u.got[model+" is late"] != nil {
			t.Fatalf("the upstream got %d requests for %s, want %d", len(u.got[model]), model, n)
		}
		u.news.Wait()
	}
	return u.got[model][n-1]
}

// count is how many requests for a model have come.
func (u *upstream) count(model string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.got[model])
}

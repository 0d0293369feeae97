package command_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// withoutGateway are the checks of a client that also hold where it talks to the
// mock itself.
var withoutGateway = []string{"status", "text", "text_length", "reasoning", "finish", "events", "json", "arrivals", "raw", "decodes"}

// TestClientReadsTheMock plays calls straight from the client to the mock.
func TestClientReadsTheMock(t *testing.T) {
	for name, wrong := range map[string]int{
		"001-ttft-role-chunk": 0, "002-ttft-reasoning-counts": 0, "009-usage-anthropic-cumulative": 0,
		"012-usage-responses-incomplete": 0, "017-utf8-split-cjk": 0, "018-sse-comment-keepalive": 0,
		"019-sse-crlf": 0, "020-sse-event-over-64k": 0, "021-responses-no-done-marker": 0,
		"022-error-event-after-text": 0, "023-gzip-json-body": 0, "024-flush-each-event": 0,
		// Here the upstream does what the gateway must not pass on.
		"026-sse-answer-to-unstreamed-call": 1, "027-stream-of-comments-only": 2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := readCase(filepath.Join(moduleRoot, "testdata", "cases", name+".json"), nil)
			if err != nil {
				t.Fatal(err)
			}
			m := startUpstream(t, nil, c.Given.Upstream["A"])
			want := maps.Clone(c.Expect.Client["c1"])
			maps.DeleteFunc(want, func(k string, _ any) bool { return !slices.Contains(withoutGateway, k) })
			a := c.Given.Client[0].send(t, m.addr(), "k", func() {})
			if a.err != nil {
				t.Fatal(a.err)
			}
			faults := check("c1", want, seenOfClient(want, []*clientAnswer{a}))
			if len(faults) != wrong {
				t.Errorf("expected %d faults, saw %q", wrong, faults)
			}
			got := m.seen()
			if len(got) != 1 || string(got[0].Body) != string(c.Given.Client[0].content()) || got[0].Header.Get("Authorization") != "Bearer k" {
				t.Errorf("the mock did not get the request as it was sent: %+v", got)
			}
		})
	}
}

func post(path, body string, read *caseRead) *caseCall {
	return &caseCall{ID: "c", Method: http.MethodPost, Path: path, Raw: &body, Read: read}
}

func chatChunk(text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text)
}

func TestMockPlaysItsScripts(t *testing.T) {
	stream := map[string]string{"content-type": "text/event-stream"}
	m := startUpstream(t, []string{"mini"}, []mockScript{
		{Status: 200, Chunks: []mockChunk{{AfterMS: 30, Bytes: "one"}}, Then: "close"},
		{Status: 200, Chunks: []mockChunk{{Bytes: "two"}}, Then: "reset"},
		{Status: 0, Then: "reset"},
		{Status: 0, Then: "hang"},
		{Status: 200, Headers: stream, Chunks: []mockChunk{{Bytes: chatChunk("half ")}}, Then: "hang"},
		{Status: 503, Chunks: []mockChunk{{Bytes: "last"}}, Then: "close"},
	})
	var left time.Time
	for i, want := range []struct {
		read   *caseRead
		status int
		body   string
		broken bool
	}{
		{nil, 200, "one", false},
		{nil, 200, "two", true},
		{nil, 0, "", true},
		{&caseRead{Stop: "close", AfterMS: 50}, 0, "", false},
		{&caseRead{Stop: "close", AfterText: "half "}, 200, chatChunk("half "), false},
		{nil, 503, "last", false},
		{nil, 503, "last", false},
	} {
		// A question of the gateway's own in between counts for nothing.
		if resp, err := http.Get("http://" + m.addr() + "/v1/models"); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		a := post("/v1/chat/completions", "{}", want.read).send(t, m.addr(), "k", func() {})
		if a.status != want.status || string(a.body) != want.body || (a.err != nil) != want.broken {
			t.Errorf("request %d: saw status %d, body %q, error %v", i, a.status, a.body, a.err)
		}
		if i == 4 {
			left = a.left
		}
	}
	got := m.seen()
	if len(got) != 7 {
		t.Fatalf("saw %d requests, expected 7", len(got))
	}
	for deadline := time.Now().Add(callLimit); time.Now().Before(deadline) && m.seen()[4].PeerClosed.IsZero(); {
		<-time.After(time.Millisecond)
	}
	for i, r := range m.seen() {
		if r.PeerClosed.IsZero() == (i == 3 || i == 4) {
			t.Errorf("request %d: the peer's close was seen at %v", i, r.PeerClosed)
		}
	}
	if closed := m.seen()[4].PeerClosed; closed.Before(left) {
		t.Errorf("the close was seen at %v, before the client left at %v", closed, left)
	}
}

func TestMockKeepsItsPauses(t *testing.T) {
	m := startUpstream(t, nil, []mockScript{{Status: 200, Then: "close", Chunks: []mockChunk{
		{AfterMS: 40, Bytes: "a"}, {AfterMS: 60, Bytes: "b"}, {AfterMS: 0, Bytes: "c", Repeat: 3},
	}}})
	a := post("/v1/x", "{}", nil).send(t, m.addr(), "k", func() {})
	if string(a.body) != "abccc" {
		t.Fatalf("saw %q", a.body)
	}
	first, _ := a.firstSeen("a").(float64)
	second, _ := a.firstSeen("b").(float64)
	if first < 40 || second < 100 || second <= first {
		t.Errorf("a came after %v ms and b after %v ms, expected 40 and 100 or more", first, second)
	}
	if _, never := a.firstSeen("d").(missing); !never {
		t.Error("a text that never came has a time")
	}
}

func TestMockUsesAConnectionAgain(t *testing.T) {
	m := startUpstream(t, nil, []mockScript{{Status: 200, Then: "close", Chunks: []mockChunk{{Bytes: "x"}}}})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for range 3 {
		resp, err := client.Post("http://"+m.addr()+"/v1/x", "text/plain", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	m.mu.Lock()
	conns := len(m.conns)
	m.mu.Unlock()
	if n := len(m.seen()); n != 3 || conns != 1 {
		t.Errorf("%d requests over %d connections, expected 3 over 1", n, conns)
	}
	for _, r := range m.seen() {
		if !r.PeerClosed.IsZero() {
			t.Error("an answer that came to its end counts as left by the peer")
		}
	}
}

func TestClientAsksBeforeALargeBody(t *testing.T) {
	expect, body := "100-continue", strings.Repeat("x", 4<<20)
	for _, reads := range []bool{true, false} {
		got := make(chan int, 1)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !reads {
				w.WriteHeader(http.StatusUnauthorized)
				got <- 0
				return
			}
			n, _ := io.Copy(io.Discard, r.Body)
			got <- int(n)
		}))
		call := post("/", body, nil)
		call.Headers = map[string]*string{"expect": &expect}
		a := call.send(t, strings.TrimPrefix(s.URL, "http://"), "k", func() {})
		want := 0
		if reads {
			want = len(body)
		}
		if n := <-got; n != want || a.saw100 != reads || a.err != nil {
			t.Errorf("reads %v: %d bytes came, saw 100 %v, error %v", reads, n, a.saw100, a.err)
		}
		s.Close()
	}
}

func TestEventsKeepTheirDistance(t *testing.T) {
	begun := make([]time.Time, 3)
	late := func(i int, by time.Duration) func(func()) {
		return func(started func()) {
			<-time.After(by)
			begun[i] = time.Now()
			started()
		}
	}
	start := time.Now()
	runEvents([]event{{60, late(2, 0)}, {0, late(0, 0)}, {20, late(1, 80*time.Millisecond)}})
	for i, after := range []time.Duration{0, 100 * time.Millisecond, 40 * time.Millisecond} {
		from := start
		if i == 2 {
			from = begun[1]
		}
		if begun[i].Sub(from) < after {
			t.Errorf("event %d began %v after what it counts from, expected %v", i, begun[i].Sub(from), after)
		}
	}
}

func TestClientStalls(t *testing.T) {
	gone := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 64<<10))
		}
		gone <- err
	}))
	t.Cleanup(s.Close)
	a := post("/", "{}", &caseRead{Stop: "stall", AfterMS: 50}).send(t, strings.TrimPrefix(s.URL, "http://"), "k", func() {})
	if a.err != nil || !a.left.IsZero() || a.status != 200 {
		t.Errorf("saw status %d, error %v, left %v", a.status, a.err, a.left)
	}
	if err := <-gone; !strings.Contains(err.Error(), "timeout") {
		t.Errorf("the server's write ended with %v, expected its own limit: the connection must stay open", err)
	}
}

package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/core/ledger"
)

// refusal is a request that must be refused before anything is dispatched.
type refusal struct {
	name   string
	body   string
	status int    // 400 where it is 0
	says   string // a part of the message
}

// refusals are the mistakes in a body, for each format.
func refusals(w wire) []refusal {
	good := w.ask(prompt, false)
	with := func(members string) string { return strings.TrimSuffix(good, "}") + "," + members + "}" }
	put := func(from, to string) string {
		if !strings.Contains(good, from) {
			panic(from + " is not in " + good)
		}
		return strings.Replace(good, from, to, 1)
	}
	all := []refusal{
		{"nothing", "", 0, "body"},
		{"white space", " \n", 0, "body"},
		{"no JSON", "hello", 0, "body"},
		{"a page", "<html></html>", 0, "body"},
		{"half of it", good[:len(good)/2], 0, "body"},
		{"no end", good[:len(good)-1], 0, "body"},
		{"a last comma", strings.TrimSuffix(good, "}") + ",}", 0, "body"},
		{"single quotes", strings.ReplaceAll(good, `"`, `'`), 0, "body"},
		{"a list", "[" + good + "]", 0, "body"},
		{"a text", `"` + prompt + `"`, 0, "body"},
		{"null", "null", 0, "body"},
		{"a number", "17", 0, "body"},
		{"data behind it", good + "{}", 0, "data after"},
		{"a letter behind it", good + "x", 0, "data after"},
		{"a null byte behind it", good + "\x00", 0, "data after"},
		{"two of it", good + "\n" + good, 0, "data after"},
		{"not UTF-8", put(prompt, prompt+"\xff"), 0, "UTF-8"},
		{"half a character", put(prompt, prompt+`\ud83d`), 0, "half a character"},
		{"a control character", put(prompt, prompt+"\x01"), 0, "body"},
		{"UTF-16", "\xff\xfe{\x00}\x00", 0, "body"},
		{"a byte order mark", "\xef\xbb\xbf" + good, 0, "body"},
		{"deep lists", with(`"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), 0, "deeper"},
		{"deep objects", with(`"x":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)), 0, "deeper"},
		{"deep and broken", strings.Repeat("[", 200_000), 0, "body"},
	}
	if w.format != core.FormatGoogle {
		all = append(all, []refusal{
			{"no model", put(`"model":"mini",`, ""), 0, "model"},
			{"an empty model", put(`"mini"`, `""`), 0, "model"},
			{"a model that is a number", put(`"mini"`, "17"), 0, "model"},
			{"a model that is null", put(`"mini"`, "null"), 0, "model"},
			{"a model that is a list", put(`"mini"`, `["mini"]`), 0, "model"},
			{"a long model", put("mini", strings.Repeat("m", 64<<10)), 0, "model"},
			{"an unknown model", put("mini", "minj"), 404, `"mini"`},
			{"a model with line breaks", put("mini", `mini\r\nX-Evil: 1`), 404, "model"},
			{"a model with a null", put("mini", `mini\u0000`), 404, "model"},
			{"two models", with(`"model":"mini"`), 0, "model: given twice"},
			{"two models, one escaped", with(`"mod\u0065l":"mini"`), 0, "model: given twice"},
			{"a model in capitals", with(`"Model":"mini"`), 0, "model: must be spelt so"},
			{"a model in escaped capitals", with(`"\u004dODEL":"mini"`), 0, "model: must be spelt so"},
			{"a model in letters that fold to it", with("\"\u017ftream\":true"), 0, "stream: must be spelt so"},
			{"two streams", with(`"stream":true`), 0, "stream: given twice"},
			{"two streams, one escaped", with(`"\u0073tream":true`), 0, "stream: given twice"},
			{"a stream in capitals", with(`"STREAM":true`), 0, "stream: must be spelt so"},
			{"a stream that is a text", put(`"stream":false`, `"stream":"true"`), 0, "stream"},
			{"a stream that is a number", put(`"stream":false`, `"stream":1`), 0, "stream"},
			{"a temperature that is a text", with(`"temperature":"hot"`), 0, "temperature"},
			{"a temperature without sense", with(`"temperature":NaN`), 0, "temperature"},
			{"tools that are an object", with(`"tools":{}`), 0, "tools"},
			{"tools that are texts", with(`"tools":["f"]`), 0, "tools[0]"},
		}...)
	}
	maximum := func(name string, inside string) {
		for _, v := range []string{`"many"`, "-1", "1.5", "1e99", "99999999999999999999", "[]", "true"} {
			all = append(all, refusal{"a maximum of " + v, with(fmt.Sprintf(inside, name, v)), 0, name})
		}
	}
	switch w.name {
	case "chat":
		maximum("max_tokens", `"%s":%s`)
		maximum("max_completion_tokens", `"%s":%s`)
		maximum("n", `"%s":%s`)
		all = append(all, []refusal{
			{"no messages", `{"model":"mini"}`, 0, "messages: required"},
			{"empty messages", `{"model":"mini","messages":[]}`, 0, "messages"},
			{"messages that are a text", `{"model":"mini","messages":"hi"}`, 0, "messages"},
			{"a message that is a text", `{"model":"mini","messages":["hi"]}`, 0, "messages[0]"},
			{"a message without role", `{"model":"mini","messages":[{"content":"hi"}]}`, 0, "messages[0].role"},
			{"a message without content", `{"model":"mini","messages":[{"role":"user"}]}`, 0, "messages[0].content"},
			{"a content that is a number", `{"model":"mini","messages":[{"role":"user","content":7}]}`, 0, "messages[0].content"},
			{"a part without type", `{"model":"mini","messages":[{"role":"user","content":[{"text":"x"}]}]}`, 0, "messages[0].content[0].type"},
			{"two maxima that differ", with(`"max_tokens":5,"max_completion_tokens":6`), 0, "max_tokens"},
			{"stream options without a stream", with(`"stream_options":{"include_usage":true}`), 0, "stream_options"},
			{"stream options that are a text", with(`"stream_options":"x"`), 0, "stream_options"},
			{"two include_usage", `{"model":"mini","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`, 0, "include_usage: given twice"},
			{"two messages", with(`"messages":[]`), 0, "messages: given twice"},
			{"a form without type", with(`"response_format":{}`), 0, "response_format.type"},
		}...)
	case "responses":
		maximum("max_output_tokens", `"%s":%s`)
		all = append(all, []refusal{
			{"no input", `{"model":"mini"}`, 0, "input: required"},
			{"an empty input", `{"model":"mini","input":[]}`, 0, "input"},
			{"an input that is a number", `{"model":"mini","input":5}`, 0, "input"},
			{"an item that is a text", `{"model":"mini","input":["x"]}`, 0, "input[0]"},
			{"an item without role", `{"model":"mini","input":[{"content":"x"}]}`, 0, "input[0].role"},
			{"in the background", with(`"background":true`), 0, "background"},
			{"stream options without a stream", with(`"stream_options":{"include_obfuscation":false}`), 0, "stream_options"},
		}...)
	case "messages":
		without := put(`"max_tokens":100,`, "")
		for _, v := range []string{`"many"`, "-1", "1.5", "1e99", "null"} {
			all = append(all, refusal{"a maximum of " + v, strings.TrimSuffix(without, "}") + `,"max_tokens":` + v + "}", 0, "max_tokens"})
		}
		all = append(all, []refusal{
			{"no maximum", without, 0, "max_tokens: required"},
			{"no messages", `{"model":"mini","max_tokens":5}`, 0, "messages: required"},
			{"empty messages", `{"model":"mini","max_tokens":5,"messages":[]}`, 0, "messages"},
			{"a message without role", `{"model":"mini","max_tokens":5,"messages":[{"content":"x"}]}`, 0, "messages[0].role"},
			{"a block that is a text", `{"model":"mini","max_tokens":5,"messages":[{"role":"user","content":["x"]}]}`, 0, "messages[0].content[0]"},
			{"a block without type", `{"model":"mini","max_tokens":5,"messages":[{"role":"user","content":[{"text":"x"}]}]}`, 0, "messages[0].content[0].type"},
			{"a system that is a number", with(`"system":5`), 0, "system"},
		}...)
	case "google":
		maximum("maxOutputTokens", `"generationConfig":{"%s":%s}`)
		all = append(all, []refusal{
			{"no contents", `{}`, 0, "contents: required"},
			{"empty contents", `{"contents":[]}`, 0, "contents"},
			{"contents that are a text", `{"contents":"hi"}`, 0, "contents"},
			{"a content that is a text", `{"contents":["hi"]}`, 0, "contents[0]"},
			{"parts that are a text", `{"contents":[{"parts":"hi"}]}`, 0, "contents[0].parts"},
			{"another model inside", with(`"model":"models/other"`), 0, "model"},
			{"two contents", with(`"contents":[]`), 0, "contents: given twice"},
			{"contents in both spellings", with(`"system_instruction":{"parts":[]},"systemInstruction":{"parts":[]}`), 0, "systemInstruction: given twice"},
			{"a temperature that is a text", with(`"generationConfig":{"temperature":"hot"}`), 0, "temperature"},
		}...)
	}
	return all
}

// refused checks all that holds for every refused call.
func (r *rig) refused(t *testing.T, what string, before int) {
	t.Helper()
	synctest.Wait()
	for name, u := range r.upstreams {
		if n := u.calls(); n != 0 {
			t.Fatalf("%s: %s got %d calls", what, name, n)
		}
	}
	if n := r.receipts(); n != 0 {
		t.Errorf("%s: %d receipts", what, n)
	}
	log := r.log.String()[before:]
	if !strings.Contains(log, "refused=") || strings.Count(log, "\n") != 1 {
		t.Errorf("%s: wants one log line, got %q", what, log)
	}
	for _, secret := range []string{prompt, clientKey, "sk-a", "<html>"} {
		if strings.Contains(log, secret) {
			t.Errorf("%s: the log holds %q: %s", what, secret, log)
		}
	}
}

func (r *rig) receipts() (n int) {
	_ = r.book.Receipts(time.Time{}, time.Time{}, false, func(*core.Receipt) bool { n++; return true })
	return n
}

// TestMistakesInTheBody: a mistake is answered in the caller's format, names
// what is wrong, reaches no provider, and leaves no receipt (SPEC §23).
func TestMistakesInTheBody(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, w.good("a", "fine", false))
				for _, m := range refusals(w) {
					if m.status == 0 {
						m.status = 400
					}
					before := r.log.Len()
					a := r.post(w.path, m.body, "anthropic-version", "2023-06-01")
					if a.status != m.status || a.err != nil {
						t.Errorf("%s: status %d, want %d; %v; %.300s", m.name, a.status, m.status, a.err, a.body)
						continue
					}
					if said := w.failure(t, a); !strings.Contains(said, m.says) {
						t.Errorf("%s: says %.300q, which lacks %q", m.name, said, m.says)
					}
					if len(a.body) > 2000 {
						t.Errorf("%s: the error has %d bytes", m.name, len(a.body))
					}
					if a.id() == "" || a.header.Get("X-Evil") != "" {
						t.Errorf("%s: headers %v", m.name, a.header)
					}
					r.refused(t, m.name, before)
				}
				if a := w.post(r, false); a.status != 200 || !strings.Contains(a.body, "fine") {
					t.Errorf("the call after them: %d %s", a.status, a.body)
				}
			})
		})
	}
}

// TestOtherOperations: mistakes on the paths that do not generate.
func TestOtherOperations(t *testing.T) {
	for _, c := range []struct {
		path, body string
		format     core.Format
		says       string
	}{
		{"/v1/completions", `{"model":"mini"}`, core.FormatOpenAI, "prompt: required"},
		{"/v1/completions", `{"model":"mini","prompt":{}}`, core.FormatOpenAI, "prompt"},
		{"/v1/completions", `{"model":"mini","prompt":[1,"x"]}`, core.FormatOpenAI, "prompt"},
		{"/v1/completions", `{"model":"mini","prompt":"x","best_of":1,"n":2}`, core.FormatOpenAI, "best_of"},
		{"/v1/completions", `{"model":"mini","prompt":"x"} x`, core.FormatOpenAI, "data after"},
		{"/v1/embeddings", `{"model":"mini"}`, core.FormatOpenAI, "input: required"},
		{"/v1/embeddings", `{"model":"mini","input":""}`, core.FormatOpenAI, "input"},
		{"/v1/embeddings", `{"model":"mini","input":[]}`, core.FormatOpenAI, "input"},
		{"/v1/embeddings", `{"model":"mini","input":[true]}`, core.FormatOpenAI, "input"},
		{"/v1/messages/count_tokens", `{"model":"mini"}`, core.FormatAnthropic, "messages: required"},
		{"/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"x"}]}`, core.FormatAnthropic, "model: required"},
		{"/v1beta/models/mini:countTokens", `{}`, core.FormatGoogle, "contents: required"},
		{"/v1beta/models/mini:countTokens", `{"generateContentRequest":{}}`, core.FormatGoogle, "generateContentRequest.contents"},
		{"/v1beta/models/mini:embedContent", `{}`, core.FormatGoogle, "content: required"},
		{"/v1beta/models/mini:batchEmbedContents", `{"requests":[{"model":"models/other","content":{"parts":[]}}]}`, core.FormatGoogle, "requests[0].model"},
		{"/v1beta/models/mini:streamGenerateContent?alt=xml", `{"contents":[{"parts":[{"text":"x"}]}]}`, core.FormatGoogle, "alt"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, offer{name: "a", format: c.format})
			a := r.post(c.path, c.body)
			if said := failure(t, c.format, a.status, a.header.Get("Content-Type"), a.body); a.status != 400 || !strings.Contains(said, c.says) {
				t.Errorf("%s %s: %d %q, want %q", c.path, c.body, a.status, said, c.says)
			}
			r.refused(t, c.path, 0)
		})
	}
}

// TestMistakesInTheRequest: what is wrong around the body.
func TestMistakesInTheRequest(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		headers            []string // pairs; an empty value takes a header away
		status             int
		says               string
		want               map[string]string
	}{
		{name: "a get", method: "GET", path: "/v1/chat/completions", status: 405, says: "GET", want: map[string]string{"Allow": "POST"}},
		{name: "a put", method: "PUT", path: "/v1/responses", status: 405, says: "PUT", want: map[string]string{"Allow": "POST"}},
		{name: "a delete", method: "DELETE", path: "/v1/messages", status: 405, says: "DELETE", want: map[string]string{"Allow": "POST"}},
		{name: "an odd method", method: "MAKE<b>", path: "/v1/messages/count_tokens", status: 400},
		{name: "an unknown method", method: "BREW", path: "/v1/messages", status: 405, want: map[string]string{"Allow": "POST"}},
		{name: "a put at google's", method: "PUT", path: "/v1beta/models/mini:generateContent", status: 405, want: map[string]string{"Allow": "POST"}},
		{name: "a get at google's", method: "GET", path: "/v1beta/models/mini:generateContent", status: 404, says: "mini:generateContent"},
		{name: "a post to the models", method: "POST", path: "/v1/models", status: 405, want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "a delete of a model", method: "DELETE", path: "/v1/models/mini", status: 405, want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "no such path", method: "POST", path: "/v1/nothing", status: 404, says: "path"},
		{name: "the root", method: "GET", path: "/", status: 404, says: "path"},
		{name: "a path below", method: "POST", path: "/v1/chat/completions/x", status: 404, says: "path"},
		{name: "two slashes", method: "POST", path: "//v1/chat/completions", status: 404, says: "path"},
		{name: "no method of google's", method: "POST", path: "/v1beta/models/mini", status: 404},
		{name: "another method of google's", method: "POST", path: "/v1beta/models/mini:fly", status: 404},
		{name: "a websocket", method: "GET", path: "/v1/responses", status: 426, headers: []string{"Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Key", "eA==", "Sec-WebSocket-Version", "13"}},
		{name: "compressed", method: "POST", path: "/v1/chat/completions", headers: []string{"Content-Encoding", "gzip"}, status: 400, says: "content-encoding"},
		{name: "compressed twice", method: "POST", path: "/v1/messages", headers: []string{"Content-Encoding", "identity, br"}, status: 400, says: "content-encoding"},
		{name: "a long job", method: "POST", path: "/v1/responses", headers: []string{"X-Headway-Job", strings.Repeat("j", 129)}, status: 400, says: "x-headway-job"},
		{name: "a job beyond ASCII", method: "POST", path: "/v1/messages", headers: []string{"X-Headway-Job", "j\u00e9"}, status: 400, says: "x-headway-job"},
		{name: "a step with a tab", method: "POST", path: "/v1/messages", headers: []string{"X-Headway-Step", "a\tb"}, status: 400, says: "x-headway-step"},
		{name: "a time value that is none", method: "POST", path: "/v1/chat/completions", headers: []string{"X-Headway-Time-Value", "NaN"}, status: 400, says: "x-headway-time-value"},
		{name: "a time value below 0", method: "POST", path: "/v1/chat/completions", headers: []string{"X-Headway-Time-Value", "-1"}, status: 400, says: "x-headway-time-value"},
		{name: "a time value beyond money", method: "POST", path: "/v1beta/models/mini:generateContent", headers: []string{"X-Headway-Time-Value", "1e20"}, status: 400, says: "x-headway-time-value"},
		{name: "no key", method: "POST", path: "/v1/chat/completions", headers: []string{"Authorization", ""}, status: 401, says: "API key"},
		{name: "an empty key", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "Bearer "}, status: 401, says: "API key"},
		{name: "another scheme", method: "POST", path: "/v1/responses", headers: []string{"Authorization", "Basic " + clientKey}, status: 401, says: "API key"},
		{name: "a wrong key", method: "POST", path: "/v1beta/models/mini:generateContent", headers: []string{"Authorization", "", "X-Goog-Api-Key", "hw_wrong"}, status: 401, says: "API key"},
		{name: "a key with more behind it", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "", "X-Api-Key", clientKey + ", " + clientKey}, status: 401, says: "API key"},
		{name: "a long key", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "", "X-Api-Key", strings.Repeat("k", 60<<10)}, status: 401, says: "API key"},
		{name: "a key beyond ASCII", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "Bearer \u00e9"}, status: 401, says: "API key"},
		{name: "an expired key", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "Bearer hw_expired"}, status: 401, says: "API key"},
		{name: "a revoked key", method: "POST", path: "/v1/messages", headers: []string{"Authorization", "Bearer hw_revoked"}, status: 401, says: "API key"},
		{name: "the models without a key", method: "GET", path: "/v1/models", headers: []string{"Authorization", ""}, status: 401, says: "API key"},
		{name: "a model that is not there", method: "GET", path: "/v1/models/minj", status: 404, says: "minj"},
		{name: "a long model that is not there", method: "GET", path: "/v1beta/models/" + strings.Repeat("m", 9000), status: 404, says: "mmm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wireOf(c.path)
				r := newRig(t, nil, w.good("a", "fine", false))
				r.moreKeys()
				raw := c.method + " " + c.path + " HTTP/1.1\r\nHost: gateway\r\n"
				headers := map[string]string{"Authorization": "Bearer " + clientKey, "Content-Type": "application/json"}
				for i := 0; i < len(c.headers); i += 2 {
					headers[c.headers[i]] = c.headers[i+1]
				}
				for k, v := range headers {
					if v != "" {
						raw += k + ": " + v + "\r\n"
					}
				}
				body := w.ask(prompt, false)
				if c.method == "GET" {
					body = ""
				}
				a := r.raw(raw + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
				if a.status != c.status || a.err != nil {
					t.Fatalf("status %d, want %d; %v; %s", a.status, c.status, a.err, a.body)
				}
				if c.name == "an odd method" {
					return // net/http's own word
				}
				if said := w.failure(t, a); !strings.Contains(said, c.says) {
					t.Errorf("says %q, which lacks %q", said, c.says)
				}
				for k, v := range c.want {
					if got := a.header.Get(k); got != v {
						t.Errorf("header %s is %q, want %q", k, got, v)
					}
				}
				if strings.Contains(a.body, clientKey) || len(a.body) > 2000 {
					t.Errorf("%d bytes of error: %.200s", len(a.body), a.body)
				}
				r.refused(t, c.name, 0)
				if a := w.post(r, false); a.status != 200 {
					t.Errorf("the call after it: %d %s", a.status, a.body)
				}
			})
		})
	}
}

// wireOf is the format in which a path is answered.
func wireOf(path string) wire {
	all := wires()
	switch {
	case strings.HasPrefix(path, "/v1/responses"):
		return all[1]
	case strings.HasPrefix(path, "/v1/messages"):
		return all[2]
	case strings.HasPrefix(path, "/v1beta/"):
		return all[3]
	}
	return all[0]
}

// moreKeys adds keys that are no longer valid.
func (r *rig) moreKeys() {
	pepper := &ledger.Pepper{}
	r.gw.Keys.Set([]*core.Key{
		{ID: "test", Name: "test", Hash: pepper.Hash(clientKey)},
		{ID: "expired", Hash: pepper.Hash("hw_expired"), ExpiresAt: core.Some(time.Now())},
		{ID: "revoked", Hash: pepper.Hash("hw_revoked"), Revoked: true},
	})
}

// raw sends bytes as they are on a connection of its own, and reads one answer.
func (r *rig) raw(request string) answer {
	r.t.Helper()
	conn := r.dial()
	defer conn.Close()
	return r.exchange(conn, request)
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := r.front.dial(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// exchange sends bytes while it reads one answer.
func (r *rig) exchange(conn net.Conn, request string) answer {
	r.t.Helper()
	start := time.Now()
	go func() { _, _ = io.WriteString(conn, request) }()
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{err: err, after: time.Since(start)}
	}
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err, time.Since(start)}
}

// TestKeyPlaces: a key counts wherever an SDK puts it, and goes no further.
func TestKeyPlaces(t *testing.T) {
	for _, c := range []struct{ query, header, value string }{
		{"", "Authorization", "Bearer " + clientKey},
		{"", "Authorization", "bearer " + clientKey},
		{"", "X-Api-Key", clientKey},
		{"", "X-Goog-Api-Key", clientKey},
		{"?key=" + clientKey, "", ""},
		{"?%6bey=" + clientKey + "&key=other&x=1", "", ""},
		{"?x=1&key=" + clientKey, "Cookie", "session=" + clientKey},
	} {
		for _, w := range wires() {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, w.good("a", "fine", false))
				a := r.post(w.path+c.query, w.ask(prompt, false), "Authorization", "", c.header, c.value)
				if c.header == "" {
					a = r.post(w.path+c.query, w.ask(prompt, false), "Authorization", "")
				}
				if a.status != 200 {
					t.Fatalf("%s %+v: %d %s", w.name, c, a.status, a.body)
				}
				got := r.upstreams["a"].requests[0]
				if seen := fmt.Sprint(got.URL, got.Header); strings.Contains(seen, clientKey) || strings.Contains(seen, "key=") || got.Header.Get("Cookie") != "" {
					t.Errorf("%s %+v: the upstream saw %s", w.name, c, seen)
				}
				if strings.Contains(c.query, "x=1") && got.URL.Query().Get("x") != "1" {
					t.Errorf("%s: the rest of the query is lost: %s", w.name, got.URL)
				}
				synctest.Wait()
				if strings.Contains(r.log.String(), clientKey) {
					t.Errorf("%s: the log holds the key: %s", w.name, r.log)
				}
			})
		}
	}
}

// TestUnreadBodies: a call that is refused for its head is answered soon,
// whether its body comes or not, and its connection does not stay open for it.
func TestUnreadBodies(t *testing.T) {
	key := "Authorization: Bearer " + clientKey + "\r\n"
	for _, c := range []struct {
		name, head string
		status     int
	}{
		{"no key", "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n", 401},
		{"no key, chunked", "POST /v1/messages HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		{"no key, waits for a word", "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", 401},
		{"too large", "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n" + key + "Content-Length: 1048577\r\n\r\n", 413},
		{"much too large", "POST /v1/responses HTTP/1.1\r\nHost: g\r\n" + key + "Content-Length: 9223372036854775807\r\n\r\n", 413},
		{"too large, waits for a word", "POST /v1/messages HTTP/1.1\r\nHost: g\r\n" + key + "Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", 413},
		{"a bad header", "POST /v1/messages HTTP/1.1\r\nHost: g\r\n" + key + "X-Headway-Job: \t\x7f\r\nContent-Length: 1000\r\n\r\n", 400},
		{"compressed", "POST /v1/messages HTTP/1.1\r\nHost: g\r\n" + key + "Content-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n", 400},
		{"no such path", "POST /v1/nothing HTTP/1.1\r\nHost: g\r\n" + key + "Content-Length: 1000\r\n\r\n", 404},
		{"a wrong method", "PUT /v1/messages HTTP/1.1\r\nHost: g\r\n" + key + "Content-Length: 1000\r\n\r\n", 405},
		{"a body for the models", "GET /v1/models HTTP/1.1\r\nHost: g\r\n" + key + "Content-Length: 1000\r\n\r\n", 200},
		{"a body for the health", "POST /healthz HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\n", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(s *core.Settings) { s.Limits.Body = 1 << 20 }, good("a", "fine"))
				conn := r.dial()
				defer conn.Close()
				a := r.exchange(conn, c.head)
				if a.status != c.status || a.after > time.Second {
					t.Fatalf("%d after %v, want %d within a second; %v %s", a.status, a.after, c.status, a.err, a.body)
				}
				start := time.Now()
				_ = conn.SetReadDeadline(start.Add(time.Hour))
				if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF || time.Since(start) > 30*time.Second {
					t.Errorf("the connection is open for %v: %d %v", time.Since(start), n, err)
				}
			})
		})
	}
}

// TestUploads: a body may come slowly, but it must come.
func TestUploads(t *testing.T) {
	head := func(length int) string {
		if length < 0 {
			return "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer " + clientKey + "\r\nTransfer-Encoding: chunked\r\n\r\n"
		}
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", clientKey, length)
	}
	large := `{"model":"mini","messages":[{"role":"user","content":"` + strings.Repeat("x", 2<<20) + `"}]}`
	// slowly sends a body in pieces with pauses.
	slowly := func(conn net.Conn, body string, pieces int, pause time.Duration, chunked bool) {
		for i := range pieces {
			piece := body[i*len(body)/pieces : (i+1)*len(body)/pieces]
			if chunked {
				piece = chunk(piece)
			}
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
			<-time.After(pause)
		}
		if chunked {
			_, _ = io.WriteString(conn, lastChunk)
		}
	}
	for _, c := range []struct {
		name   string
		send   func(net.Conn)
		status int
		after  time.Duration // the latest
		before time.Duration // not sooner
		says   string
	}{
		{"byte by byte", func(c net.Conn) { _, _ = io.WriteString(c, head(len(ask))); slowly(c, ask, len(ask), 100*ms, false) }, 200, time.Minute, 5 * time.Second, ""},
		{"2 MiB in 50 s", func(c net.Conn) {
			_, _ = io.WriteString(c, head(len(large)))
			slowly(c, large, 50, time.Second, false)
		}, 200, 60 * time.Second, 45 * time.Second, ""},
		{"2 MiB in 50 s, chunked", func(c net.Conn) { _, _ = io.WriteString(c, head(-1)); slowly(c, large, 50, time.Second, true) }, 200, 60 * time.Second, 45 * time.Second, ""},
		{"nothing", func(c net.Conn) { _, _ = io.WriteString(c, head(1000)) }, 400, 31 * time.Second, 29 * time.Second, "in time"},
		{"half of it", func(c net.Conn) { _, _ = io.WriteString(c, head(len(ask))+ask[:20]) }, 400, 31 * time.Second, 29 * time.Second, "in time"},
		{"a byte a minute", func(c net.Conn) {
			_, _ = io.WriteString(c, head(len(ask)))
			slowly(c, ask, len(ask), time.Minute, false)
		}, 400, 61 * time.Second, 29 * time.Second, "in time"},
		{"chunks that are none", func(c net.Conn) { _, _ = io.WriteString(c, head(-1)+"hello\r\n") }, 400, time.Second, 0, "body"},
		{"more than allowed, chunked", func(c net.Conn) {
			_, _ = io.WriteString(c, head(-1))
			slowly(c, strings.Repeat("x", 4<<20), 4, 0, true)
		}, 413, time.Second, 0, "3 MiB"},
		{"a word first", func(c net.Conn) {
			_, _ = io.WriteString(c, strings.Replace(head(len(ask)), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1))
			_, _ = io.WriteString(c, ask)
		}, 200, time.Second, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wires()[0]
				r := newRig(t, func(s *core.Settings) { s.Limits.Body = 3 << 20 }, w.good("a", "fine", false))
				conn := r.dial()
				sent := make(chan struct{})
				defer func() {
					_ = conn.Close()
					<-sent
					<-time.After(time.Second) // for which net/http keeps a connection that it closes
				}()
				start := time.Now()
				go func() {
					defer close(sent)
					c.send(conn)
				}()
				br := bufio.NewReader(conn)
				resp, err := http.ReadResponse(br, nil)
				if err == nil && resp.StatusCode == http.StatusContinue {
					resp, err = http.ReadResponse(br, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(start)
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || took > c.after || took < c.before {
					t.Fatalf("%d after %v, want %d after %v to %v: %s", resp.StatusCode, took, c.status, c.before, c.after, body)
				}
				if c.status != 200 {
					if said := failure(t, w.format, c.status, resp.Header.Get("Content-Type"), string(body)); !strings.Contains(said, c.says) {
						t.Errorf("says %q", said)
					}
					r.refused(t, c.name, 0)
				}
			})
		})
	}
}

// TestClientLeavesWhileUploading: nothing is dispatched and nothing is kept.
func TestClientLeavesWhileUploading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, good("a", "fine"))
		for _, head := range []string{"Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n400\r\n"} {
			before := r.log.Len()
			conn := r.dial()
			if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer "+clientKey+"\r\n"+head+ask[:20]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_ = conn.Close()
			r.refused(t, head, before)
			if !strings.Contains(r.log.String()[before:], "refused=client_gone") {
				t.Errorf("the log says %s", r.log.String()[before:])
			}
			if n := r.gw.Open(); n != 0 {
				t.Errorf("%d calls are open", n)
			}
		}
	})
}

// TestClientStopsReading: a write that blocks for limits.client_write ends the
// call, as the client's fault, and the upstream is let go.
func TestClientStopsReading(t *testing.T) {
	for _, w := range wires() {
		for _, streamed := range []bool{true, false} {
			t.Run(fmt.Sprint(w.name, streamed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := w.good("a", strings.Repeat("x", 64<<10), false)
					path := w.path
					if streamed {
						path = w.stream
						o = w.offer("a", step{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, step{20 * ms, chunk(w.says(strings.Repeat("x", 64<<10)))}, step{time.Hour, ""})
					}
					r := newRig(t, func(s *core.Settings) { s.Limits.ClientWrite = 3 * time.Second }, o)
					conn := r.dial()
					defer conn.Close()
					body := w.ask(prompt, streamed)
					if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, clientKey, len(body), body); err != nil {
						t.Fatal(err)
					}
					if _, err := conn.Read(make([]byte, 10)); err != nil {
						t.Fatal(err)
					}
					<-time.After(4 * time.Second)
					rec := r.only()
					if rec.Outcome != core.ClientStalled || len(rec.Attempts) != 1 || rec.Attempts[0].Error != "client_stalled" || rec.Timing.TotalHandler.V > 3100 {
						t.Errorf("outcome %s after %v ms, attempts %+v", rec.Outcome, rec.Timing.TotalHandler.V, rec.Attempts)
					}
					if n := r.failures("a"); n != 0 {
						t.Errorf("the provider is blamed: %d", n)
					}
					if streamed && len(r.upstreams["a"].closed) != 1 {
						t.Error("the upstream still writes")
					}
				})
			})
		}
	}
}

// TestClientReadsSlowly: a client may take longer than limits.client_write over
// an answer, as long as it takes some of it; silence of the upstream is not its.
func TestClientReadsSlowly(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, w := range wires() {
		for _, streamed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				o, path := w.good("a", long, false), w.path
				if streamed {
					path = w.stream
					o = w.offer("a", step{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, step{4 * time.Second, chunk(w.says(long) + w.ending)}, step{0, lastChunk})
				}
				r := newRig(t, func(s *core.Settings) { s.Limits.ClientWrite = 3 * time.Second }, o)
				conn := r.dial()
				defer conn.Close()
				body := w.ask(prompt, streamed)
				if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: g\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, clientKey, len(body), body); err != nil {
					t.Fatal(err)
				}
				got := 0
				for piece := make([]byte, 64<<10); ; <-time.After(300 * ms) {
					n, err := io.ReadFull(conn, piece)
					if got += n; err != nil {
						break
					}
				}
				if rec := r.only(); rec.Outcome != core.Settled || got < len(long) {
					t.Errorf("%s %t: outcome %s, %d bytes came", w.name, streamed, rec.Outcome, got)
				}
			})
		}
	}
}

// TestNobodyReads: an answer that is no call's has a limit too.
func TestNobodyReads(t *testing.T) {
	for _, path := range []string{"GET /healthz", "GET /metrics", "GET /v1/models", "OPTIONS /v1/messages", "GET /nothing", "POST /v1/messages", "POST /v1/chat/completions"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(s *core.Settings) { s.Limits.ClientWrite = 3 * time.Second })
			conn := r.dial()
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: g\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			<-time.After(4 * time.Second)
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: the connection is still open: %v", path, err)
			}
		})
	}
}

func (r *rig) failures(name string) int {
	return r.catalogue.Offer(core.OfferID(name+"/mini")).Status(time.Now(), r.gw.Setup().Settings.Breaker, core.Opt[float64]{}).CountedFailures
}

// TestClientLeaves: in every phase the upstream is cancelled at once, no other
// offer is tried, and the provider is not blamed.
func TestClientLeaves(t *testing.T) {
	for _, w := range wires() {
		for name, script := range map[string][]step{
			"before the headers":       {{time.Hour, ""}},
			"before the first byte":    {{10 * ms, w.head()}, {time.Hour, ""}},
			"inside of a gzip header":  {{10 * ms, strings.Replace(w.head(), "\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1) + chunk("\x1f\x8b")}, {time.Hour, ""}},
			"before the first output":  {{10 * ms, w.head() + chunk(w.opening)}, {time.Hour, ""}},
			"inside of the output":     {{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, {time.Hour, ""}},
			"inside of an error":       {{10 * ms, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{"}, {time.Hour, ""}},
			"inside of a whole answer": {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"}, {time.Hour, ""}},
			"in an endless stream":     {{10 * ms, w.head() + chunk(w.opening+w.says("tea"))}, {20 * ms, strings.Repeat(chunk(w.says("more")), 20_000)}},
		} {
			t.Run(w.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, w.offer("a", script...), w.good("b", "fine", true))
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, "POST", "http://gateway"+w.stream, strings.NewReader(w.ask(prompt, true)))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Authorization", "Bearer "+clientKey)
					resp, err := r.client.Do(req)
					if err == nil {
						_, _ = io.CopyN(io.Discard, resp.Body, 1000)
						<-ctx.Done() // and reads no more
						_ = resp.Body.Close()
					}
					rec := r.only()
					if rec.Outcome != core.ClientGone || len(rec.Attempts) != 1 || rec.Attempts[0].Error != "client_gone" {
						t.Errorf("outcome %s, attempts %+v", rec.Outcome, rec.Attempts)
					}
					if got := map[bool]int{true: 200}[err == nil]; rec.Status != got {
						t.Errorf("the receipt's status is %d, the client got %d", rec.Status, got)
					}
					if n := r.failures("a"); n != 0 || r.upstreams["b"].calls() != 0 {
						t.Errorf("%d failures, %d more calls", n, r.upstreams["b"].calls())
					}
				})
			})
		}
	}
}

// TestFullBook: a receipt that could not be kept is a call that is not made.
func TestFullBook(t *testing.T) {
	for _, w := range wires() {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, w.good("a", "fine", false))
			r.book.Sick = core.Errorf(core.Unavailable, "receipts cannot be stored now")
			a := w.post(r, false)
			if said := w.failure(t, a); a.status != 503 || !strings.Contains(said, "receipts") {
				t.Errorf("%s: %d %s", w.name, a.status, said)
			}
			r.refused(t, w.name, 0)
			r.book.Sick = nil
			if a := w.post(r, false); a.status != 200 {
				t.Errorf("%s: %d once it is well", w.name, a.status)
			}
		})
	}
}

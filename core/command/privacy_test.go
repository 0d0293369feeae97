package command_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// secrecy is what must be found nowhere. Each text that is secret begins and
// ends with one of two random words, so that one search finds a part of any.
type secrecy struct {
	credential string   // of callers, providers and operators
	content    string   // of prompts and answers
	made       []string // credentials that the gateway made itself
}

func newSecrecy() *secrecy {
	return &secrecy{credential: "S" + rand.Text()[:14], content: "C" + rand.Text()[:14]}
}

func (s *secrecy) key(name string) string  { return s.credential + "-" + name + "-" + s.credential }
func (s *secrecy) said(name string) string { return s.content + "-" + name + "-" + s.content }

// leaks names what a text gives away, as it is or encoded; only credentials
// where contentToo is false.
func (s *secrecy) leaks(text []byte, contentToo bool) (found []string) {
	words := []string{s.credential}
	if contentToo {
		words = append(words, s.content)
	}
	for _, m := range s.made {
		words = append(words, m[:len(m)/2], m[len(m)/2:])
	}
	for _, w := range words {
		forms := []string{w, hex.EncodeToString([]byte(w)), strings.ToUpper(hex.EncodeToString([]byte(w)))}
		for shift := range 3 { // the three ways that a text can lie in base64
			b := base64.RawStdEncoding.EncodeToString([]byte("xx"[:shift] + w))
			forms = append(forms, b[2*shift:len(b)-2])
		}
		for _, form := range forms {
			if at := bytes.Index(text, []byte(form)); at >= 0 {
				found = append(found, fmt.Sprintf("%q", text[max(0, at-100):min(len(text), at+100)]))
			}
		}
	}
	return found
}

func TestSecrecyIsSeen(t *testing.T) {
	s := newSecrecy()
	s.made = []string{"hw_0123456789abcdef"}
	for _, text := range []string{
		s.key("x"), "…" + s.said("y")[:16], base64.StdEncoding.EncodeToString([]byte("1" + s.key("x"))), base64.StdEncoding.EncodeToString([]byte("12" + s.key("x"))),
		base64.RawURLEncoding.EncodeToString([]byte(s.said("x"))), hex.EncodeToString([]byte(s.key("x"))), `"456789abcdef"`,
	} {
		if len(s.leaks([]byte(text), true)) == 0 {
			t.Errorf("%q gives nothing away", text)
		}
	}
	if s.leaks([]byte(s.said("x")), false) != nil || s.leaks([]byte(s.credential[:10]+s.content[:10]), true) != nil {
		t.Error("a harmless text gives something away")
	}
}

// badAnswer is one way in which a provider answers; one of them is good.
type badAnswer struct {
	name string
	do   func(w http.ResponseWriter, f wire, streamed bool, said, key string)
}

func badAnswers() []badAnswer {
	status := func(n int, body func(f wire, said, key string) string) func(http.ResponseWriter, wire, bool, string, string) {
		return func(w http.ResponseWriter, f wire, _ bool, said, key string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", said)
			w.Header().Set("Location", "http://127.0.0.1:1/"+said+"?key="+key)
			w.WriteHeader(n)
			send(w, body(f, said, key))
		}
	}
	failure := func(f wire, said, key string) string { return f.failure(said + " for the key " + key) }
	stream := func(events func(f wire, said, key string) []string) func(http.ResponseWriter, wire, bool, string, string) {
		return func(w http.ResponseWriter, f wire, streamed bool, said, key string) {
			if !streamed {
				send(w, f.whole(said, said)[:60])
				panic(http.ErrAbortHandler)
			}
			begin(w, events(f, said, key)...)
			panic(http.ErrAbortHandler)
		}
	}
	raw := func(text func(body, said string) string) func(http.ResponseWriter, wire, bool, string, string) {
		return func(w http.ResponseWriter, f wire, streamed bool, said, _ string) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			body := f.whole(said, said)
			if streamed {
				body = f.open + f.text(said) + f.end
			}
			_, _ = io.WriteString(conn, text(body, said))
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn) // until the gateway has done with it
		}
	}
	return []badAnswer{
		{"well", func(w http.ResponseWriter, f wire, streamed bool, said, key string) {
			for _, name := range []string{"X-Request-Id", "Openai-Organization", "Set-Cookie", "X-Debug"} {
				w.Header().Set(name, key)
			}
			if streamed {
				begin(w, f.open, f.text(said), f.arguments(said), f.end)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			send(w, f.whole(said, said))
		}},
		{"refused", status(400, failure)},
		{"unauthorized", status(401, failure)},
		{"busy", status(429, failure)},
		{"down", status(500, failure)},
		{"page", status(502, func(_ wire, said, key string) string { return "<html>" + said + " " + key })},
		{"moved", status(302, failure)},
		{"cut", stream(func(f wire, said, key string) []string { return []string{f.open, f.text(said)} })},
		{"broken", stream(func(f wire, said, key string) []string { return []string{f.open, f.text(said), f.broken(said + key)} })},
		{"early", stream(func(f wire, said, key string) []string { return []string{f.open, f.broken(said + key)} })},
		{"nonsense", stream(func(f wire, said, key string) []string { return []string{f.open, data("{" + said), data(said)} })},
		{"unspoken", raw(func(_, said string) string { return said + "\r\n\r\n" })},
		{"numberless", raw(func(_, said string) string { return "HTTP/1.1 " + said + " OK\r\n\r\n" })},
		{"colonless", raw(func(_, said string) string { return "HTTP/1.1 200 OK\r\n" + said + "\r\n\r\n" })},
		{"lengthless", raw(func(_, said string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + said + "\r\n\r\n" })},
		{"chunkless", raw(func(_, said string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + "\r\n"
		})},
		{"encoded", raw(func(body, said string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", said, len(body), body)
		})},
		{"too long", raw(func(body, said string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s", len(body), body, said)
		})},
		{"too short", raw(func(body, said string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s", len(body)+len(said)+1, body, said)
		})},
	}
}

// privacyRig is a gateway with a provider for each format and each fault.
type privacyRig struct {
	*gateway
	*secrecy
	t       *testing.T
	bin     string
	config  map[string]any
	secrets caseSecrets
	client  *http.Client
	keys    []string // of callers

	mu   sync.Mutex      // guards what follows
	seen map[string]bool // providers that were called as they should be
}

// TestNothingIsGivenAway searches all that Headway writes, keeps and shows for
// credentials and for what was asked and answered.
func TestNothingIsGivenAway(t *testing.T) {
	r := &privacyRig{t: t, secrecy: newSecrecy(), bin: buildHeadway(t), client: patient(t), seen: map[string]bool{}}
	r.start()
	r.callAll()
	r.mistakes()
	r.adminMistakes()
	r.search("while it runs")

	for _, f := range wires() { // streams that nobody ends
		path, body := f.ask(providerOf(f, "open"), r.said("prompt"), true)
		resp, err := r.call(r.client, r.keys[0], path, body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := readUntil(resp.Body, r.content); err != nil {
			t.Fatal(err)
		}
	}
	r.kill()
	r.searchLog("until it was killed")
	r.searchFiles("after it was killed")
	r.gateway = startGateway(t, r.bin, r.data, r.config, r.secrets)
	r.seen = map[string]bool{}
	r.callAll()
	r.search("after the restart")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r.searchLog("to its end")
	r.searchFiles("after it was stopped")
}

func providerOf(f wire, fault string) string {
	return f.format + "-" + strings.ReplaceAll(fault, " ", "-")
}

// start starts the gateway with one provider in the file and all others, and a
// key, made as operators make them.
func (r *privacyRig) start() {
	t := r.t
	server := modelServer(t, r.answer)
	provider := func(f wire, fault string) map[string]any {
		id := providerOf(f, fault)
		p := asking(id, f.format, server.URL, id)
		p["api_key"], p["headers"] = r.key(id), map[string]any{"X-Extra": r.key("extra-" + id)}
		return p
	}
	filed := provider(wires()[0], "open")
	filed["api_key"] = "${FILED_KEY}"
	r.secrets = caseSecrets{"FILED_KEY": r.key(providerOf(wires()[0], "open")), "CALLER_KEY": r.key("caller")}
	r.config = map[string]any{"listen": "127.0.0.1:0", "admin_token": "${HEADWAY_ADMIN_TOKEN}", "log": map[string]any{"level": "debug"},
		"providers": []any{filed}, "keys": []any{map[string]any{"name": "caller", "key": "${CALLER_KEY}"}}}
	r.gateway = startGateway(t, r.bin, t.TempDir(), r.config, r.secrets)
	pepper, err := os.ReadFile(filepath.Join(r.data, "pepper"))
	if err != nil {
		t.Fatal(err)
	}
	r.made = append(r.made, strings.TrimPrefix(r.token, "hwa_"), strings.TrimSpace(string(pepper)))

	for i, f := range wires() {
		list := badAnswers()
		if i > 0 {
			list = append(list, badAnswer{name: "open"})
		}
		for _, x := range list {
			p := provider(f, x.name)
			p["allow_private"] = true
			status, body, err := r.admin(http.MethodPost, "/admin/v1/providers", p)
			if err != nil || status != http.StatusCreated {
				t.Fatalf("POST providers: status %d: %s (error %v)", status, body, err)
			}
			r.look("the answer to POST providers", body, true)
		}
	}
	code, out, errs := headway(r.bin, t.TempDir(), nil, "key", "create", "--name", "made", "--data", r.data)
	if code != 0 {
		t.Fatalf("headway key create: exit code %d: %s", code, errs)
	}
	made := strings.TrimSpace(out)
	status, body, err := r.admin(http.MethodPost, "/admin/v1/keys", map[string]any{"name": "given", "key": r.key("given")})
	if err != nil || status != http.StatusCreated {
		t.Fatalf("POST keys: status %d: %s (error %v)", status, body, err)
	}
	r.keys = []string{r.key("caller"), made, r.key("given")}
	r.made = append(r.made, strings.TrimPrefix(made, "hw_"))
	r.look("what key create says beside the key", []byte(errs), true)
}

// answer is every provider; it looks at what reaches them.
func (r *privacyRig) answer(w http.ResponseWriter, q *http.Request, body []byte, model string, streamed bool) {
	var f wire
	for _, x := range wires() {
		if strings.HasPrefix(model, x.format+"-") && len(x.format) > len(f.format) {
			f = x
		}
	}
	own, extra := r.key(model), r.key("extra-"+model)
	var head bytes.Buffer
	_ = q.Header.Write(&head)
	asked := q.RequestURI + "\n" + head.String()
	if !strings.Contains(asked, own) || !strings.Contains(asked, extra) || !strings.Contains(string(body), r.content) && !strings.Contains(string(body), "Say ok.") {
		r.t.Errorf("provider %s was called without its credentials or without the prompt:\n%s%s", model, asked, body)
	}
	foreign := strings.NewReplacer(own, "", extra, "").Replace(asked)
	if found := r.leaks([]byte(foreign), false); found != nil {
		r.t.Errorf("provider %s was sent the credentials of somebody else: %s", model, found)
	}
	r.mu.Lock()
	r.seen[model] = true
	r.mu.Unlock()
	name := strings.TrimPrefix(model, f.format+"-")
	for _, x := range badAnswers() {
		if strings.ReplaceAll(x.name, " ", "-") == name {
			x.do(w, f, streamed, r.said("answer"), own)
			return
		}
	}
	begin(w, f.open, f.text(r.said("answer")))
	<-q.Context().Done()
}

// callAll calls every provider in every way, with each key in each place.
func (r *privacyRig) callAll() {
	places := []func(key string) (query string, headers []string){
		func(key string) (string, []string) { return "", []string{"Authorization", "Bearer " + key} },
		func(key string) (string, []string) { return "", []string{"Authorization", "", "X-Api-Key", key} },
		func(key string) (string, []string) { return "", []string{"Authorization", "", "X-Goog-Api-Key", key} },
		func(key string) (string, []string) { return "key=" + key, []string{"Authorization", ""} },
	}
	n, served := 0, 0
	for _, f := range wires() {
		for _, x := range badAnswers() {
			for _, streamed := range []bool{true, false} {
				path, body := f.ask(providerOf(f, x.name), r.said("prompt"), streamed)
				key := r.keys[n%len(r.keys)]
				query, headers := places[(n/2)%len(places)](key)
				n++
				if query != "" {
					path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + query
				}
				resp, err := r.call(r.client, "", path, body, append(headers, "Cookie", "session="+r.key("cookie"))...)
				if err != nil {
					r.t.Errorf("%s %s: %v", f.format, x.name, err)
					continue
				}
				answer, _ := io.ReadAll(resp.Body) // many are cut off
				resp.Body.Close()
				what := fmt.Sprintf("the answer to %s %s, streamed %v, status %d", f.format, x.name, streamed, resp.StatusCode)
				r.look(what, answer, false)
				var head bytes.Buffer
				_ = resp.Header.Write(&head)
				r.look(what+", its head", head.Bytes(), false)
				if x.name == "well" {
					if resp.StatusCode != http.StatusOK || !strings.Contains(string(answer), r.content) {
						r.t.Errorf("%s: %s", what, answer)
					}
					served++
				}
				if resp.Header.Get("X-Headway-Offer") == "" && x.name != "unauthorized" {
					r.t.Errorf("%s: it was not dispatched: %s", what, answer)
				}
			}
			r.mu.Lock()
			if !r.seen[providerOf(f, x.name)] {
				r.t.Errorf("%s %s: the provider was not called", f.format, x.name)
			}
			r.mu.Unlock()
		}
	}
	if served != 2*len(wires()) {
		r.t.Errorf("%d calls went well", served)
	}
}

// mistakes are requests that are refused before any dispatch. Their errors are
// Headway's own words.
func (r *privacyRig) mistakes() {
	said, auth := r.said("prompt"), "Bearer "+r.keys[0]
	q := quoted(said)
	for _, f := range wires() {
		model := providerOf(f, "well")
		path, good := f.ask(model, said, false)
		bodies := []string{
			good[:len(good)-1], good + q, good[:len(good)/2], strings.Replace(good, q, strings.Repeat(`[{"x":`, 2000)+q, 1),
			strings.Replace(good, q, `{"a":`+q+`}`, 1), strings.Replace(good, q, "\"\xff\xfe"+said+`"`, 1), q, "[" + q + "]", said,
			`{"model":"` + model + `","messages":` + q + `,"max_tokens":5,"contents":` + q + `,"input":{"x":` + q + `}}`,
			`{"model":"` + model + `","model":"` + said + `","messages":[{"role":"user","content":` + q + `}],"contents":[],"max_tokens":9}`,
			`{"model":["` + said + `"],"messages":[],"contents":[{"role":` + q + `}]}`,
		}
		for _, body := range bodies {
			for _, headers := range [][]string{nil, {"Content-Encoding", "gzip"}, {"X-Headway-Time-Value", said}, {"X-Headway-Job", strings.Repeat(said, 9)},
				{"Authorization", "Bearer " + r.key("wrong")}, {"Authorization", r.key("wrong")}, {"Authorization", "", "X-Api-Key", r.key("wrong")}} {
				resp, err := r.call(r.client, r.keys[0], path, body, headers...)
				if err != nil {
					r.t.Errorf("%s: %v", f.format, err)
					continue
				}
				answer, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					r.t.Errorf("%s: %v", f.format, err)
				}
				// What is passed on is the provider's answer to what it was asked.
				r.look(fmt.Sprintf("the answer to %.80s with %v", body, headers), answer, resp.Header.Get("X-Headway-Offer") == "")
				if resp.StatusCode >= 500 {
					r.t.Errorf("a caller's mistake has status %d: %s\n%.200s", resp.StatusCode, answer, body)
				}
			}
		}
		path, unknown := f.ask(r.said("model"), said, true)
		r.exchange("POST "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: "+auth+"\r\nContent-Length: "+fmt.Sprint(len(unknown))+"\r\n\r\n"+unknown, false)
		// A client that leaves in the middle of its request.
		r.exchange("POST "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: "+auth+"\r\nContent-Length: 100000\r\n\r\n"+good, true)
	}
	for _, head := range []string{
		"GET /v1/" + said + "?key=" + r.key("wrong") + " HTTP/1.1\r\nHost: x\r\n\r\n", "GET /?key=" + r.key("wrong") + " HTTP/9.1\r\nHost: x\r\n\r\n",
		r.key("wrong") + "\r\n\r\n", "POST /v1/messages HTTP/1.1\r\nHost: " + r.key("wrong") + "\r\nX-Api-Key " + r.key("wrong") + "\r\n\r\n",
		"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: " + r.key("wrong") + "\r\n\r\n", said + " /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: " + auth + "\r\nTransfer-Encoding: chunked\r\n\r\n" + said + "\r\n\r\n",
		"GET /admin/v1/calls?" + said + "=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + r.key("wrong") + "\r\n\r\n",
	} {
		r.exchange(head, true)
	}
}

// exchange writes bytes and reads what comes, until the gateway is done with the
// connection or nothing more is to come.
func (r *privacyRig) exchange(request string, contentToo bool) {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request)
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	r.look(fmt.Sprintf("the answer to %.60s", request), answer, contentToo)
}

// adminMistakes are refused with errors that must not repeat a credential.
func (r *privacyRig) adminMistakes() {
	key := r.key("posted")
	for _, c := range []struct{ path, body string }{
		{"providers", `{"id":"a","format":"openai","base_url":"http://127.0.0.1:1/v1","api_key":` + quoted(key) + `}`}, // private, and not allowed to be
		{"providers", `{"id":"a","format":"openai","allow_private":true,"base_url":"http://u:` + key + `@127.0.0.1:1/v1","offers":[]}`},
		{"providers", `{"id":"a","format":"openai","allow_private":true,"base_url":"http://127.0.0.1:1/v1?key=` + key + `","offers":[]}`},
		{"providers", `{"id":"a","api_key":["` + key + `"]}`}, {"providers", `{"id":"a","api_key":"` + key},
		{"providers", `{"id":"a","api_key":"${` + key + `}"}`}, {"providers", `{"id":"a","api_key":"${file:/nowhere/x}","headers":{"x":["` + key + `"],"bad name":"` + key + `"}}`},
		{"providers", `{"id":"a","format":"openai","base_url":"http://127.0.0.1:1/v1","api_key":"a\n` + key + `"}`},
		{"keys", `{"name":"a","key":"` + r.key("given") + `"}`}, {"keys", `{"name":"a","key":["` + key + `"]}`}, {"keys", `{"name":"a","key":"` + key}, // the first is there already
		{"apply", "providers:\n  - id: a\n    api_key: [" + key + "]\n"}, {"apply", "admin_token: {a: " + key + "}\nkeys: [{name: a, key: \"" + key + "\\\""},
		{"apply", "keys:\n  - {name: a, key: " + key + "}\n  - {name: b, key: " + key + "}\n"},
	} {
		req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+"/admin/v1/"+c.path, strings.NewReader(c.body))
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.token)
		resp, err := r.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode > 499 {
			r.t.Errorf("POST %s %s: status %d: %s", c.path, c.body, resp.StatusCode, answer)
		}
		r.look("the answer to POST "+c.path+" "+c.body, answer, true)
	}
}

// search looks at everything that the running gateway shows and keeps.
func (r *privacyRig) search(when string) {
	t := r.t
	var index struct {
		Endpoints []struct{ Method, Path string }
	}
	_, raw, err := r.adminBy(r.client, "/admin/v1/")
	if err == nil {
		err = json.Unmarshal(raw, &index)
	}
	if err != nil || len(index.Endpoints) == 0 {
		t.Fatalf("GET /admin/v1/: %s (error %v)", raw, err)
	}
	paths := []string{"/metrics", "/healthz", "/readyz", "/v1/models"}
	for _, e := range index.Endpoints {
		if e.Method == http.MethodGet && !strings.Contains(e.Path, "{") {
			paths = append(paths, e.Path)
		}
	}
	for _, list := range []string{"calls", "keys", "offers", "providers", "models", "measures"} {
		paths = append(paths, "/admin/v1/"+list+"?limit=1000")
	}
	calls, err := r.allCalls(r.client)
	if err != nil {
		t.Fatal(err)
	}
	if least := 2 * len(badAnswers()) * len(wires()) * 9 / 10; len(calls) < least {
		t.Errorf("%d calls are listed %s, expected %d and more", len(calls), when, least)
	}
	for _, c := range calls {
		paths = append(paths, "/admin/v1/calls/"+c.ID, "/admin/v1/jobs/"+c.ID)
	}
	for _, path := range paths {
		status, body, err := r.adminBy(r.client, path)
		want := http.StatusOK
		if path == "/admin/v1/backup" { // it has the secrets, and is made over the socket alone
			want = http.StatusForbidden
		}
		if err != nil || status != want && path != "/v1/models" {
			t.Errorf("GET %s: status %d, error %v: %s", path, status, err, body)
		}
		r.look("GET "+path+" "+when, body, true)
	}
	for _, command := range [][]string{
		{"requests"}, {"requests", "--json"}, {"trace", calls[0].ID}, {"usage"}, {"usage", "--json"}, {"speed"}, {"offers", "list"}, {"key", "list"},
		{"models"}, {"status"}, {"offers", "test", providerOf(wires()[0], "well") + "/" + providerOf(wires()[0], "well")},
		{"offers", "test", providerOf(wires()[0], "down") + "/" + providerOf(wires()[0], "down")},
	} {
		_, out, errs := headway(r.bin, t.TempDir(), nil, append(command, "--data", r.data)...)
		r.look(fmt.Sprintf("headway %v %s", command, when), []byte(out+errs), true)
	}
	var env []string
	for name, value := range r.secrets {
		env = append(env, name+"="+value)
	}
	code, out, errs := headway(r.bin, t.TempDir(), env, "check", "--show", r.file())
	if code != 0 || !strings.Contains(out, "X-Extra") {
		t.Errorf("headway check --show: exit code %d\n%s%s", code, out, errs)
	}
	r.look("headway check --show", []byte(out+errs), true)
	r.searchLog(when)
	r.searchFiles(when)
}

func (r *privacyRig) searchLog(when string) {
	log := r.log.all()
	if !strings.Contains(log, `"msg":"call"`) {
		r.t.Errorf("the log has no calls %s", when)
	}
	for line := range strings.Lines(log) {
		r.look("the log "+when, []byte(line), true)
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "goroutine ") {
			r.t.Errorf("the log says %s", line)
		}
	}
}

// searchFiles looks into every file of the data folder but the two that are there
// to hold a credential.
func (r *privacyRig) searchFiles(when string) {
	files := 0
	err := filepath.WalkDir(r.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store has done with it
		}
		files++
		if name := d.Name(); name != "admin-token" && name != "pepper" {
			r.look("the file "+path+" "+when, text, true)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) || files < 5 {
		r.t.Errorf("%d files were searched: %v", files, err)
	}
}

func (r *privacyRig) look(where string, text []byte, contentToo bool) {
	for _, found := range r.leaks(text, contentToo) {
		r.t.Errorf("%s gives away %s", strings.NewReplacer(r.credential, "S…", r.content, "C…").Replace(where), found)
	}
}

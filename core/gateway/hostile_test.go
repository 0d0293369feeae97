package gateway_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// zipped compresses a text.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// with adds headers to a head.
func with(head, headers string) string {
	return strings.Replace(head, "\r\n", "\r\n"+headers, 1)
}

// broken are answers that are none, in any format: each is a counted failure
// that the next offer hides from the client.
func broken(w wire, streamed bool) map[string][]step {
	answer := w.whole("tea")
	if streamed {
		answer = w.opening + w.says("tea") + w.ending
	}
	ok := func(headers, body string) []step {
		return []step{{10 * ms, "HTTP/1.1 200 OK\r\n" + headers + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body}}
	}
	head := w.head()
	if !streamed {
		head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	}
	all := map[string][]step{
		"a page with 200":           ok("Content-Type: text/html\r\n", "<!doctype html><title>hi</title>"),
		"a page with 502":           {{10 * ms, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"}},
		"a page that says JSON":     ok("Content-Type: application/json\r\n", "<html></html>"),
		"a page that says events":   ok("Content-Type: text/event-stream\r\n", "<html></html>"),
		"plain words":               ok("Content-Type: text/plain\r\n", "service unavailable"),
		"plain words as events":     ok("Content-Type: text/event-stream\r\n", "service unavailable\n\n"),
		"nothing":                   ok("Content-Type: application/json\r\n", ""),
		"nothing as events":         ok("Content-Type: text/event-stream\r\n", ""),
		"white space":               ok("Content-Type: application/json\r\n", strings.Repeat(" \n", 5000)),
		"204":                       {{10 * ms, "HTTP/1.1 204 No Content\r\n\r\n"}},
		"205 of nothing":            {{10 * ms, "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"}},
		"an error with 200":         ok("Content-Type: application/json\r\n", `{"error":{"message":"boom","type":"server_error","code":"x"}}`),
		"an error text with 200":    ok("Content-Type: application/json\r\n", `{"error":"boom"}`),
		"an array":                  ok("Content-Type: application/json\r\n", `[{"error":{"message":"boom"}}]`),
		"null":                      ok("Content-Type: application/json\r\n", "null"),
		"an empty object":           ok("Content-Type: application/json\r\n", "{}"),
		"another object":            ok("Content-Type: application/json\r\n", `{"ok":true,"status":"success"}`),
		"null bytes":                ok("Content-Type: application/json\r\n", strings.Repeat("\x00", 1000)),
		"null bytes as events":      ok("Content-Type: text/event-stream\r\n", "data: \x00\x00\n\n"),
		"JSON that is cut":          ok("Content-Type: application/json\r\n", w.whole("tea")[:60]),
		"JSON that goes on":         ok("Content-Type: application/json\r\n", w.whole("tea")+"}"),
		"deep JSON":                 ok("Content-Type: application/json\r\n", `{"choices":`+strings.Repeat("[", 10_000)),
		"a length too long":         {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n" + w.whole("tea")}, {20 * ms, cutOff}},
		"a length too short":        {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + w.whole("tea")}},
		"a length that is none":     {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}"}},
		"two lengths":               {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"}},
		"chunks that are none":      {{10 * ms, head + "nonsense\r\n"}},
		"half a chunk":              {{10 * ms, head + "ff\r\n" + answer[:20]}, {20 * ms, cutOff}},
		"no end of the chunks":      {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(w.whole("tea")[:50])}, {20 * ms, cutOff}},
		"a page of brotli":          ok("Content-Type: application/json\r\nContent-Encoding: br\r\n", "\x0b\x02\x80{}\x03"),
		"two encodings":             ok("Content-Encoding: gzip, gzip\r\n", zipped(zipped(answer))),
		"gzip that is none":         ok("Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", answer),
		"gzip of nothing":           ok("Content-Encoding: gzip\r\n", ""),
		"gzip that is cut":          ok("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", zipped(w.whole(strings.Repeat("tea ", 500)))[:60]),
		"gzip with a wrong sum":     ok("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", damaged(zipped(w.whole("tea")))),
		"a header that is none":     {{10 * ms, with(head, "no colon here\r\n") + chunk(answer) + lastChunk}},
		"no HTTP":                   {{10 * ms, "SSH-2.0-OpenSSH_9.9\r\n"}},
		"an HTTP of its own":        {{10 * ms, "HTTP/9.9 200 OK\r\n\r\n"}, {20 * ms, cutOff}},
		"a status of two digits":    {{10 * ms, "HTTP/1.1 20 OK\r\n\r\n"}},
		"a status below all":        {{10 * ms, "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\n{}"}},
		"a status above all":        {{10 * ms, "HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}"}},
		"a switch of protocols":     {{10 * ms, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"}},
		"a redirect":                {{10 * ms, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://b/v1\r\nContent-Length: 0\r\n\r\n"}},
		"a redirect to metadata":    {{10 * ms, "HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"}},
		"not modified":              {{10 * ms, "HTTP/1.1 304 Not Modified\r\n\r\n"}},
		"a connection that is shut": {{10 * ms, cutOff}},
		"half a head":               {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: appl"}, {20 * ms, cutOff}},
		"529":                       {{10 * ms, status(529, "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)}},
		"408":                       {{10 * ms, status(408, "", `{}`)}},
		"500 of nothing":            {{10 * ms, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"}},
		"500 that never ends":       {{10 * ms, "HTTP/1.1 500 No\r\nContent-Length: 500\r\n\r\n{"}, {time.Hour, ""}},
		"500 that drips":            append([]step{{10 * ms, "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"}}, drip(2*time.Second, chunk("x"), 60)...),
		"500 of brotli":             {{10 * ms, status(500, "Content-Encoding: br\r\n", "\x0b\x02\x80{}\x03")}},
	}
	if w.name == "google array" {
		delete(all, "JSON that goes on") // an array has no such end
	}
	if !streamed {
		if !strings.HasPrefix(w.name, "google") {
			all["a stream with an event that is no JSON"] = ok("Content-Type: text/event-stream\r\n", w.opening+w.says("tea")+w.event+"{oops\n\n"+w.says("tea")+w.ending)
		}
		return all
	}
	for name, body := range map[string]string{
		"an event that is no JSON":    w.opening + w.event + "{oops\n\n",
		"an event that is cut":        w.opening + strings.TrimRight(w.says("tea"), "\r\n}") + "\n\n",
		"an event of another type":    w.opening + w.event + "[1]\n\n",
		"null bytes in an event":      w.opening + w.event + "\x00\x00\n\n",
		"the format's error":          w.opening + w.boom,
		"the format's error at first": strings.Replace(w.boom, ",\r\n", "[", 1),
		"an error by its name alone":  w.opening + "event: error\ndata: boom\n\n",
		"an error object alone":       `{"error":{"message":"boom"}}`,
		"comments alone":              strings.Repeat(": ping\n\n", 3),
		"only its opening":            w.opening,
		"a large event":               w.opening + w.says(strings.Repeat("x", 200<<10)),
		"an event without end":        w.opening + w.event + strings.Repeat("x", 200<<10),
		"one endless line":            strings.Repeat("x", 200<<10),
	} {
		if w.name == "google array" && (strings.Contains(name, "by its name") || strings.Contains(name, "is cut") || strings.HasPrefix(name, "null") || strings.Contains(name, "no JSON")) {
			continue // an array has no names, and its elements no lines
		}
		all[name] = []step{{10 * ms, w.head() + chunk(body) + lastChunk}}
	}
	all["cut behind its opening"] = []step{{10 * ms, w.head() + chunk(w.opening)}, {20 * ms, cutOff}}
	all["the format's error, then silence"] = []step{{10 * ms, w.head() + chunk(w.opening+w.boom)}, {time.Hour, ""}}
	all["gzip that breaks behind the opening"] = ok("Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", zipped(w.opening + strings.Repeat(w.says("tea"), 50))[:80])
	return all
}

func damaged(s string) string {
	b := []byte(s)
	b[len(b)-6] ^= 0xff
	return string(b)
}

// drip is a write repeated with pauses.
func drip(pause time.Duration, write string, n int) (steps []step) {
	for i := range n {
		steps = append(steps, step{time.Duration(i+1) * pause, write})
	}
	return steps
}

// TestBrokenAnswersFallBack: whatever an upstream sends in place of an answer,
// the client sees the next offer's alone, soon; without a next one an error in
// its format (SPEC §9, §23).
func TestBrokenAnswersFallBack(t *testing.T) {
	limits := func(s *core.Settings) { s.Limits.Event = 64 << 10 }
	for _, w := range wires() {
		for _, streamed := range []bool{true, false} {
			if w.name == "google array" && !streamed {
				continue
			}
			for name, script := range broken(w, streamed) {
				t.Run(fmt.Sprintf("%s %t %s", w.name, streamed, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, limits, w.offer("a", script...), w.good("b", "fine", streamed))
						a := w.post(r, streamed)
						w.isFine(t, a, streamed)
						if a.after > 7*time.Second {
							t.Errorf("it took %v", a.after)
						}
						rec := r.only()
						if rec.Outcome != core.Settled || rec.Offer != "b/mini" || len(rec.Attempts) != 2 || rec.Attempts[0].Outcome != core.Failed || rec.Attempts[0].Error == "" {
							t.Errorf("outcome %s at %s, attempts %+v", rec.Outcome, rec.Offer, rec.Attempts)
						}
						if n := r.failures("a"); n != 1 {
							t.Errorf("%d counted failures", n)
						}
						if len(r.upstreams["b"].requests) != 1 || r.upstreams["b"].bodies[0] != r.upstreams["a"].bodies[0] {
							t.Errorf("b got %q", r.upstreams["b"].bodies)
						}
					})
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, limits, w.offer("a", script...))
						a := w.post(r, streamed)
						if a.status != 502 || a.err != nil {
							t.Fatalf("alone: %d %v %s", a.status, a.err, a.body)
						}
						if said := w.failure(t, a); strings.Contains(a.body, "<html>") || strings.Contains(a.body, "169.254") || !strings.Contains(said, "a/mini") {
							t.Errorf("alone: %s", a.body)
						}
						if rec := r.only(); rec.Outcome != core.Failed || rec.Charge.V != 0 && rec.UsageFrom != core.FromProvider || rec.Status != 502 {
							t.Errorf("alone: outcome %s, status %d, charge %v", rec.Outcome, rec.Status, rec.Charge)
						}
					})
				})
			}
		}
	}
}

// isFine checks that a client got b's answer and nothing else.
func (w wire) isFine(t *testing.T, a answer, streamed bool) {
	t.Helper()
	if a.status != 200 || a.err != nil {
		t.Fatalf("status %d, %v: %.500s", a.status, a.err, a.body)
	}
	if !streamed {
		if a.body != w.whole("fine") {
			t.Errorf("got %.500s", a.body)
		}
		return
	}
	if got, err := w.sdk(a.body); err != nil || got != (read{"fine", true, ""}) {
		t.Errorf("an SDK reads %+v, %v of %.500s", got, err, a.body)
	}
}

// TestOddButGoodAnswers: what an upstream may do without being wrong.
func TestOddButGoodAnswers(t *testing.T) {
	for _, w := range wires() {
		stream := w.opening + w.says("fine") + w.ending
		gz := func(headers string) string {
			return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + headers + "Transfer-Encoding: chunked\r\n\r\n"
		}
		pieces := func(head, body string, n int) []step {
			var b strings.Builder
			b.WriteString(head)
			for len(body) > n {
				b.WriteString(chunk(body[:n]))
				body = body[n:]
			}
			return []step{{10 * ms, b.String() + chunk(body) + lastChunk}}
		}
		streams := map[string][]step{
			"byte by byte":        pieces(w.head(), stream, 1),
			"without a type":      pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", stream, 7),
			"as JSON":             pieces("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", stream, 7),
			"as words":            pieces("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n", stream, 1000),
			"as a wrong type":     pieces("HTTP/1.1 200 OK\r\nContent-Type: ;;;\r\nTransfer-Encoding: chunked\r\n\r\n", stream, 1000),
			"gzip":                pieces(gz("Content-Type: text/event-stream\r\n"), zipped(stream), 9),
			"gzip without a type": pieces(gz(""), zipped(stream), 9),
			"gzip in two members": pieces(gz("Content-Type: text/event-stream\r\n"), zipped(stream[:50])+zipped(stream[50:]), 9),
			"201":                 pieces(strings.Replace(w.head(), "200 OK", "201 Created", 1), stream, 1000),
			"with a length":       {{10 * ms, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(stream), stream)}},
			"until it closes":     {{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream}, {20 * ms, cutOff}},
			"HTTP/1.0":            {{10 * ms, "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream}, {20 * ms, cutOff}},
			"with trailers":       {{10 * ms, with(w.head(), "Trailer: X-Sum\r\n") + chunk(stream) + "0\r\nX-Sum: 1\r\nX-Evil: 2\r\n\r\n"}},
			"behind early hints":  {{5 * ms, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"}, {10 * ms, w.head() + chunk(stream) + lastChunk}},
			"behind a continue":   {{5 * ms, "HTTP/1.1 100 Continue\r\n\r\n"}, {10 * ms, w.head() + chunk(stream) + lastChunk}},
			"cut behind its end":  {{10 * ms, w.head() + chunk(stream)}, {20 * ms, cutOff}},
			"whole":               {{10 * ms, status(200, "", w.whole("fine"))}},
			"slow white space":    append([]step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"}}, append(drip(30*time.Second, chunk("\n"), 5), step{151 * time.Second, chunk(w.whole("fine")) + lastChunk})...),
		}
		if w.name != "google array" {
			streams["with comments"] = pieces(w.head(), ": hi\n\n"+strings.ReplaceAll(stream, "\n\n", "\n\n: ping\n\n"), 1000)
			streams["with a byte order mark"] = pieces(w.head(), "\xef\xbb\xbf"+stream, 3)
			streams["with carriage returns"] = pieces(w.head(), strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\n", "\r\n"), 3)
			streams["with more behind its end"] = pieces(w.head(), stream+": bye\n\n: bye\n\n", 1000)
			streams["without its last line end"] = pieces(w.head(), strings.TrimRight(stream, "\r\n"), 1000)
			streams["broken behind its end"] = pieces(w.head(), stream+w.event+"{oops\n\n", 1000)
		}
		if w.format == core.FormatAnthropic {
			streams["with a ping that is no JSON"] = pieces(w.head(), w.opening+"event: ping\ndata: ping\n\n"+w.says("fine")+w.ending, 1000)
		}
		body := w.whole("fine")
		var deflated bytes.Buffer
		z := zlib.NewWriter(&deflated)
		_, _ = z.Write([]byte(body))
		_ = z.Close()
		whole := map[string][]step{
			"byte by byte":     pieces("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body, 1),
			"as words":         {{10 * ms, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)}},
			"gzip":             pieces(gz("Content-Type: application/json\r\n"), zipped(body), 9),
			"GZip":             pieces(strings.Replace(gz(""), "gzip", "X-GZip", 1), zipped(body), 9),
			"deflate":          pieces(strings.Replace(gz(""), "gzip", "deflate", 1), deflated.String(), 9),
			"identity":         pieces(strings.Replace(gz(""), "gzip", "identity", 1), body, 9),
			"until it closes":  {{10 * ms, "HTTP/1.1 200 OK\r\n\r\n" + body}, {20 * ms, cutOff}},
			"with trailers":    {{10 * ms, "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) + "0\r\nX-Sum: 1\r\n\r\n"}},
			"202":              {{10 * ms, status(202, "", body)}},
			"slow white space": streams["slow white space"],
		}
		if w.name == "google array" {
			whole = nil
		}
		for streamed, scripts := range map[bool]map[string][]step{true: streams, false: whole} {
			for name, script := range scripts {
				t.Run(fmt.Sprintf("%s %t %s", w.name, streamed, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, nil, w.offer("a", script...))
						a := w.post(r, streamed)
						if a.header.Get("Content-Encoding") != "" || a.header.Get("X-Sum") != "" || a.header.Get("Trailer") != "" || a.header.Get("Link") != "" {
							t.Errorf("headers %v", a.header)
						}
						if a.status/100 != 2 {
							t.Fatalf("%d: %s", a.status, a.body)
						}
						a.status = 200
						if name == "whole" || name == "slow white space" {
							a.body = strings.TrimLeft(a.body, "\n")
						}
						w.isFine(t, a, streamed)
						want := "application/json"
						if streamed && w.name != "google array" {
							want = "text/event-stream"
						}
						if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, want) && name != "201" && name != "202" {
							t.Errorf("Content-Type %q, want %q", got, want)
						}
						rec := r.only()
						if rec.Outcome != core.Settled || rec.Usage.UncachedInput.V != 8 || rec.Usage.Output.V != 1 || rec.UsageFrom != core.FromProvider || r.failures("a") != 0 {
							t.Errorf("outcome %s, usage %+v from %s", rec.Outcome, rec.Usage, rec.UsageFrom)
						}
					})
				})
			}
		}
	}
}

// TestBrokenBehindOutput: what breaks after the client has seen output ends in
// the format's stream error, never in its normal end, and nothing that an SDK
// cannot read reaches the client.
func TestBrokenBehindOutput(t *testing.T) {
	for _, w := range wires() {
		begun := w.head() + chunk(w.opening+w.says("tea"))
		cases := map[string]struct {
			script  []step
			outcome core.Outcome
			word    string
			says    string
		}{
			"the format's error":              {[]step{{10 * ms, begun}, {20 * ms, chunk(w.boom) + lastChunk}}, core.Failed, "stream_error", "boom"},
			"the format's error in one read":  {[]step{{10 * ms, w.head() + chunk(w.opening+w.says("tea")+w.boom) + lastChunk}}, core.Failed, "stream_error", "boom"},
			"the format's error, then an end": {[]step{{10 * ms, begun}, {20 * ms, chunk(w.boom+strings.TrimPrefix(w.ending, ",")) + lastChunk}}, core.Failed, "stream_error", "boom"},
			"the format's error, then more":   {[]step{{10 * ms, begun}, {20 * ms, chunk(w.boom+strings.Repeat(w.says("more"), 5000)) + lastChunk}}, core.Failed, "stream_error", "boom"},
			"the format's error, then a hang": {[]step{{10 * ms, begun}, {20 * ms, chunk(w.boom)}, {time.Hour, ""}}, core.Failed, "stream_error", "boom"},
			"cut":                             {[]step{{10 * ms, begun}, {20 * ms, cutOff}}, core.Truncated, "cut", ""},
			"cut inside of an event":          {[]step{{10 * ms, begun}, {20 * ms, chunk(w.says("more")[:len(w.event)+5])}, {30 * ms, cutOff}}, core.Truncated, "cut", ""},
			"a clean end without a finish":    {[]step{{10 * ms, begun + lastChunk}}, core.Truncated, "cut", ""},
			"a large event":                   {[]step{{10 * ms, begun}, {20 * ms, chunk(w.event + strings.Repeat("x", 200<<10))}, {time.Hour, ""}}, core.Truncated, "event_too_large", "event_mib"},
			"an event of another type":        {[]step{{10 * ms, begun}, {20 * ms, chunk(w.event+"[7]\n\n"+w.ending) + lastChunk}}, core.Failed, "bad_answer", "format"},
			"an event that is no JSON":        {[]step{{10 * ms, begun}, {20 * ms, chunk(w.event+"{oops}\n\n"+w.ending) + lastChunk}}, core.Failed, "bad_answer", "format"},
			"null bytes":                      {[]step{{10 * ms, begun}, {20 * ms, chunk(w.event+"{\"a\":\x00}\n\n"+w.ending) + lastChunk}}, core.Failed, "bad_answer", "format"},
			"chunks that are none":            {[]step{{10 * ms, begun}, {20 * ms, "nonsense\r\n"}}, core.Truncated, "cut", ""},
			"silence":                         {[]step{{10 * ms, begun}, {time.Hour, ""}}, core.TimedOut, "stream_idle", "stream_idle"},
			"gzip that is cut":                {[]step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n" + zipped(w.opening + strings.Repeat(w.says("tea"), 5000))[:1000]}, {20 * ms, cutOff}}, core.Truncated, "cut", ""},
		}
		unended := cases["cut"]
		unended.script = []step{{10 * ms, begun}, {20 * ms, chunk(strings.TrimRight(w.says(" and more"), "\r\n")) + lastChunk}}
		cases["an event without its line end"] = unended
		if w.name == "google array" {
			between := cases["an event of another type"]
			between.script = []step{{10 * ms, begun}, {20 * ms, chunk(strings.Replace(w.says("more"), "{", "x{", 1)+w.ending) + lastChunk}}
			cases["nonsense between elements"] = between
			delete(cases, "the format's error, then an end")
			delete(cases, "the format's error, then more")
		}
		for name, c := range cases {
			t.Run(w.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, func(s *core.Settings) { s.Limits.Event = 64 << 10 }, w.offer("a", c.script...), w.good("b", "fine", true))
					a := w.post(r, true)
					got, err := w.sdk(a.body)
					if a.status != 200 || a.err != nil || err != nil {
						t.Fatalf("%d %v, an SDK says %v of %.600s", a.status, a.err, err, a.body)
					}
					if name == "gzip that is cut" {
						got.text = got.text[:3]
					}
					got.text = strings.TrimSuffix(got.text, " and more")
					if got.text != "tea" || got.failed == "" || got.ended || !strings.Contains(got.failed, c.says) {
						t.Errorf("an SDK reads %+v of %.600s", got, a.body)
					}
					rec := r.only()
					if rec.Outcome != c.outcome || len(rec.Attempts) != 1 || rec.Attempts[0].Error != c.word || rec.Status != 200 {
						t.Errorf("outcome %s, status %d, attempts %+v", rec.Outcome, rec.Status, rec.Attempts)
					}
					if !rec.Charge.OK || rec.Usage.Output.V < 1 || rec.Usage.UncachedInput.V < 1 {
						t.Errorf("usage %+v, charge %v", rec.Usage, rec.Charge)
					}
					if r.failures("a") != 1 || r.upstreams["b"].calls() != 0 {
						t.Errorf("%d failures, %d more calls", r.failures("a"), r.upstreams["b"].calls())
					}
					if a.after > 61*time.Second {
						t.Errorf("it took %v", a.after)
					}
				})
			})
		}
	}
}

// TestEndlessStreams: a stream that does not end costs no memory and holds
// nobody.
func TestEndlessStreams(t *testing.T) {
	chat := wires()[0]
	endless := func(frame string) step {
		return step{20 * ms, strings.Repeat(chunk(strings.Repeat(frame, 1<<20/len(frame))), 3)}
	}
	limits := func(s *core.Settings) { s.Limits.Event = 1 << 20 }
	t.Run("comments are dropped before they pile up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, limits, chat.offer("a", step{10 * ms, streamHead}, endless(": ping\n\n"), step{30 * ms, chunk(role+text("fine")+chat.ending) + lastChunk}))
			a := chat.post(r, true)
			chat.isFine(t, a, true)
			if len(a.body) > 200<<10 {
				t.Errorf("%d bytes were held back", len(a.body))
			}
		})
	})
	t.Run("frames before the output go out before they pile up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, limits, chat.offer("a", step{10 * ms, streamHead}, endless(role), step{time.Hour, ""}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // sooner than limits.hold
			defer cancel()
			if a := r.postCtx(ctx, chat.stream, chat.ask(prompt, true)); a.status != 200 || len(a.body) < 1<<20 {
				t.Errorf("%d, %d bytes within a second", a.status, len(a.body))
			}
		})
	})
	for name, tail := range map[string][]step{
		"all at once": {endless(": bye\n\n")},
		"for ever":    drip(500*ms, chunk(": bye\n\n"), 1000),
		"of text":     {endless(text("more"))},
	} {
		t.Run("behind its end "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, limits, chat.offer("a", append([]step{{10 * ms, streamHead + chunk(role+text("fine")+chat.ending)}}, tail...)...))
				a := chat.post(r, true)
				if a.after > 3*time.Second || len(a.body) > 200<<10 {
					t.Errorf("%d bytes in %v", len(a.body), a.after)
				}
				if rec := r.only(); rec.Outcome != core.Settled || len(r.upstreams["a"].closed) > 1 {
					t.Errorf("outcome %s", rec.Outcome)
				}
			})
		})
	}
	t.Run("a small gzip of a large event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bomb := zipped(role + "data: " + strings.Repeat("x", 8<<20))
			r := newRig(t, limits, chat.offer("a", step{10 * ms, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(bomb), bomb)}), chat.good("b", "fine", true))
			chat.isFine(t, chat.post(r, true), true)
			if rec := r.only(); rec.Attempts[0].Error != "event_too_large" {
				t.Errorf("attempts %+v", rec.Attempts)
			}
		})
	})
}

// TestCredentialInAnError: what repeats a provider's credential is taken out of
// its errors, in any spelling, and the rest stays the JSON that it was.
func TestCredentialInAnError(t *testing.T) {
	const said = `{"error":{"message":"no: ab&cd/ef<gh ab\u0026cd/ef\u003cgh ab&cd\/ef<gh qrs+tuv/wxyz qrs+tuv\/wxyz","type":"invalid_request_error","retryable":true}}`
	const want = `{"error":{"message":"no: *** *** *** *** ***","type":"invalid_request_error","retryable":true}}`
	for _, streamed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			script := []step{{10 * ms, status(400, "", said)}}
			if streamed {
				script = []step{{10 * ms, wires()[0].head() + chunk(role+text("tea")+"data: "+said+"\n\n") + lastChunk}}
			}
			r := newRig(t, nil, offer{name: "a", script: script})
			p := r.catalogue.Offer("a/mini").Offer.Provider
			p.APIKey = core.NewSecret("ab&cd/ef<gh")
			p.Headers = map[string]core.Secret{"X-Other": core.NewSecret("Bearer qrs+tuv/wxyz"), "X-Browser": core.NewSecret("true"), "X-Kind": core.NewSecret("message")}
			if a := wires()[0].post(r, streamed); !strings.Contains(a.body, want) {
				t.Errorf("%t: got %s", streamed, a.body)
			}
		})
	}
}

// dialError is a transport whose every dial fails.
type dialError struct{ err error }

func (d dialError) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", d.err)}
}

// TestOwnLimitsBlameNobody: a provider is not taken out because this machine has
// no file descriptor or port left.
func TestOwnLimitsBlameNobody(t *testing.T) {
	for err, counted := range map[error]int{syscall.EMFILE: 0, syscall.ENFILE: 0, syscall.EADDRNOTAVAIL: 0, syscall.ECONNREFUSED: 1, syscall.EHOSTUNREACH: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := wires()[0]
			r := newRig(t, nil, w.good("a", "fine", false))
			r.gw.Dialer = roundTrips{dialError{err}}
			if a := w.post(r, false); a.status != 502 || r.only().Attempts[0].Outcome != core.Failed {
				t.Errorf("%v: %d %s", err, a.status, a.body)
			}
			if n := r.failures("a"); n != counted {
				t.Errorf("%v: %d counted failures", err, n)
			}
		})
	}
}

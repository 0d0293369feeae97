package gateway_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
)

// good is an upstream that answers a stream in 100 ms.
func good(name, says string) offer {
	return offer{name: name, script: []step{
		{50 * ms, streamHead + chunk(role)},
		{60 * ms, chunk(text(says))},
		{100 * ms, chunk(finish+usage(8, 1)+done) + lastChunk},
	}}
}

// wholeCall is one call through the gateway, in fake time.
type wholeCall struct {
	name    string
	change  func(*core.Settings)
	offers  []offer
	body    string // askStream where empty
	leave   time.Duration
	status  int
	after   time.Duration // 0: not checked
	has     []string      // parts of the client's bytes, in order
	hasNot  []string
	header  map[string]string
	outcome core.Outcome
	tries   []string // offer outcome error
	calls   map[string]int
	failed  map[string]int // counted failures
	check   func(*testing.T, *rig, *core.Receipt, answer)
}

func TestWholeCalls(t *testing.T) {
	failStatus := func(name string, code int, headers, body string) offer {
		return offer{name: name, script: []step{{20 * ms, status(code, headers, body)}}}
	}
	busyError := `{"error":{"message":"busy","type":"server_error"}}`
	for _, c := range []wholeCall{
		{name: "a stream", offers: []offer{good("a", "tea")}, status: 200, after: 100 * ms,
			has: []string{role, text("tea"), finish, done}, hasNot: []string{`"choices":[],"usage"`}, outcome: core.Settled, tries: []string{"a/mini settled "},
			header: map[string]string{"X-Headway-Offer": "a/mini", "X-Headway-Attempts": "1", "Content-Type": "text/event-stream"},
			check: func(t *testing.T, r *rig, rec *core.Receipt, a answer) {
				if rec.Usage.UncachedInput.V != 8 || rec.Usage.Output.V != 1 || rec.UsageFrom != core.FromProvider || rec.Charge.V.String() != "0.00001" {
					t.Errorf("usage %+v from %s, charge %s", rec.Usage, rec.UsageFrom, rec.Charge.V)
				}
				if !strings.Contains(r.upstreams["a"].bodies[0], `"include_usage":true`) {
					t.Errorf("the upstream was not asked for usage: %s", r.upstreams["a"].bodies[0])
				}
				if got := r.upstreams["a"].requests[0].Header.Get("Authorization"); got != "Bearer sk-a" {
					t.Errorf("the upstream got credential %q", got)
				}
			}},
		{name: "usage that was asked for", offers: []offer{good("a", "tea")}, status: 200, outcome: core.Settled,
			body: `{"model":"mini","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`, has: []string{usage(8, 1)}},
		{name: "frames wait for the first output", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{
			{10 * ms, streamHead + chunk(": ping\n\n")}, {20 * ms, chunk(role)}, {900 * ms, chunk(text("x"))}, {910 * ms, chunk(finish+done) + lastChunk}}}},
			has: []string{": ping\n\n" + role + text("x")}},
		{name: "a stream that errors before output falls back", status: 200, outcome: core.Settled, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, chunk(`data: {"error":{"message":"overloaded","type":"server_error"}}`+"\n\n") + lastChunk}}}, good("b", "fine")},
			has: []string{text("fine")}, hasNot: []string{"overloaded"}, tries: []string{"a/mini failed stream_error", "b/mini settled "}, failed: map[string]int{"a": 1}, after: 120 * ms},
		{name: "a stream of comments is no answer", status: 502, outcome: core.Failed, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(": ping\n\n")}, {20 * ms, chunk(": ping\n\n") + lastChunk}}}},
			has: []string{`"error"`}, tries: []string{"a/mini failed no_output"}, failed: map[string]int{"a": 1}},
		{name: "a stream that is cut before output falls back", status: 200, outcome: core.Settled, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, cutOff}}}, good("b", "fine")},
			has: []string{text("fine")}, tries: []string{"a/mini failed no_output", "b/mini settled "}, failed: map[string]int{"a": 1}},
		{name: "a stream that is cut after output ends in an error", status: 200, outcome: core.Truncated, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, chunk(text("one "))}, {30 * ms, cutOff}}}, good("b", "fine")},
			has: []string{text("one "), `data: {"error":`}, hasNot: []string{"fine", done}, tries: []string{"a/mini truncated cut"}, calls: map[string]int{"b": 0}, failed: map[string]int{"a": 1},
			check: func(t *testing.T, _ *rig, rec *core.Receipt, _ answer) {
				if rec.UsageFrom != core.FromEstimate || rec.Usage.Output.V < 1 || rec.Usage.UncachedInput.V < 1 || !rec.Charge.OK {
					t.Errorf("usage %+v from %s", rec.Usage, rec.UsageFrom)
				}
			}},
		{name: "a clean end without a finish is cut too", status: 200, outcome: core.Truncated, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, chunk(text("one ")) + lastChunk}}}},
			has: []string{text("one "), `data: {"error":`}},
		{name: "an error event after output", status: 200, outcome: core.Failed, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role+text("one "))}, {20 * ms, chunk(`data: {"error":{"message":"boom","type":"server_error"}}`+"\n\n") + lastChunk}}}, good("b", "fine")},
			has: []string{text("one "), "boom"}, hasNot: []string{"fine", done}, tries: []string{"a/mini failed stream_error"}, failed: map[string]int{"a": 1}},
		{name: "hold-back ends after five seconds", status: 200, outcome: core.Failed, after: 6*time.Second + 100*ms, offers: []offer{
			{name: "a", script: []step{{100 * ms, streamHead + chunk(role)}, {6 * time.Second, chunk(`data: {"error":{"message":"late","type":"server_error"}}` + "\n\n")}, {6100 * ms, lastChunk}}}, good("b", "fine")},
			has: []string{role, "late"}, hasNot: []string{"fine"}, tries: []string{"a/mini failed stream_error"}, calls: map[string]int{"b": 0}},
		{name: "no headers within the limit", status: 200, outcome: core.Settled, after: 120*time.Second + 100*ms, offers: []offer{{name: "a", script: []step{{time.Hour, ""}}}, good("b", "fine")},
			has: []string{text("fine")}, tries: []string{"a/mini timeout header_timeout", "b/mini settled "}, failed: map[string]int{"a": 1}},
		{name: "no headers anywhere", status: 504, outcome: core.TimedOut, after: 120 * time.Second, offers: []offer{{name: "a", script: []step{{time.Hour, ""}}}},
			has: []string{`"error"`}, tries: []string{"a/mini timeout header_timeout"}},
		{name: "silence before output falls back", status: 200, outcome: core.Settled, after: 60*time.Second + 110*ms, change: func(s *core.Settings) { s.Limits.Hold = 2 * time.Minute },
			offers: []offer{{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {time.Hour, ""}}}, good("b", "fine")},
			has:    []string{text("fine")}, tries: []string{"a/mini timeout stream_idle", "b/mini settled "}},
		{name: "silence after output ends the stream", status: 200, outcome: core.TimedOut, after: 60*time.Second + 20*ms,
			offers: []offer{{name: "a", script: []step{{10 * ms, streamHead + chunk(role)}, {20 * ms, chunk(text("some "))}, {time.Hour, ""}}}, good("b", "fine")},
			has:    []string{text("some "), `data: {"error":`}, tries: []string{"a/mini timeout stream_idle"}, calls: map[string]int{"b": 0}, failed: map[string]int{"a": 1}},
		{name: "comments are signs of life", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{10 * ms, streamHead + chunk(": wait\n\n")},
			{50 * time.Second, chunk(": wait\n\n")}, {100 * time.Second, chunk(": wait\n\n")}, {150 * time.Second, chunk(role + text("x"))}, {151 * time.Second, chunk(finish+done) + lastChunk}}}}, has: []string{text("x")}, after: 151 * time.Second},
		{name: "a 500 falls back", status: 200, outcome: core.Settled, offers: []offer{failStatus("a", 500, "", busyError), good("b", "fine")}, has: []string{text("fine")},
			tries: []string{"a/mini failed status", "b/mini settled "}, failed: map[string]int{"a": 1}, header: map[string]string{"X-Headway-Offer": "b/mini", "X-Headway-Attempts": "2"}},
		{name: "three at the most", status: 502, outcome: core.Failed, offers: []offer{failStatus("a", 500, "", busyError), failStatus("b", 502, "", busyError), failStatus("c", 503, "", busyError), good("d", "fine")},
			tries: []string{"a/mini failed status", "b/mini failed status", "c/mini failed status"}, calls: map[string]int{"d": 0}},
		{name: "a connection refused falls back", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{0, cutOff}}}, good("b", "fine")},
			tries: []string{"a/mini failed connect", "b/mini settled "}, failed: map[string]int{"a": 1}},
		{name: "a redirect is not followed", status: 502, outcome: core.Failed, offers: []offer{failStatus("a", 302, "Location: http://b/\r\n", "{}")}, tries: []string{"a/mini failed redirect"}},
		{name: "the caller's mistake goes back as it is", status: 422, outcome: core.Failed, offers: []offer{failStatus("a", 422, "", `{"error":{"message":"odd","type":"invalid_request_error","x":1}}`), good("b", "fine")},
			has: []string{`{"error":{"message":"odd","type":"invalid_request_error","x":1}}`}, calls: map[string]int{"b": 0}, failed: map[string]int{"a": 0}},
		{name: "all busy: 429 with the smallest pause", status: 429, outcome: core.Failed, offers: []offer{failStatus("a", 429, "Retry-After: 30\r\n", busyError), failStatus("b", 429, "Retry-After: 7\r\n", busyError)},
			header: map[string]string{"Retry-After": "7"}, failed: map[string]int{"a": 0, "b": 0}},
		{name: "an upstream's 401 is not the caller's", status: 502, outcome: core.Failed, offers: []offer{failStatus("a", 401, "", `{"error":{"message":"bad key sk-a","type":"invalid_request_error"}}`)},
			hasNot: []string{"sk-a", "bad key"}, tries: []string{"a/mini failed auth"}, failed: map[string]int{"a": 0}},
		{name: "a prompt too long goes to a larger offer", status: 200, outcome: core.Settled, offers: []offer{
			{name: "a", context: 1000, script: []step{{10 * ms, status(400, "", `{"error":{"message":"This model's maximum context length is 1000 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`)}}},
			{name: "b", context: 800, script: []step{{10 * ms, status(500, "", busyError)}}}, {name: "c", context: 9000, script: good("c", "fine").script}},
			has: []string{text("fine")}, tries: []string{"a/mini failed prompt_too_long", "c/mini settled "}, calls: map[string]int{"b": 0}, failed: map[string]int{"a": 0}},
		{name: "too long for all: the upstream's own word", status: 400, outcome: core.Failed, offers: []offer{
			failStatus("a", 400, "", `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)}, has: []string{`"code":"context_length_exceeded"`}},
		{name: "too long for one, and the other failed", status: 502, outcome: core.Failed, offers: []offer{
			failStatus("a", 400, "", `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`), failStatus("b", 500, "", busyError)},
			tries: []string{"a/mini failed prompt_too_long", "b/mini failed status"}, failed: map[string]int{"a": 0, "b": 1}},
		{name: "one failed, and too long for the other", status: 502, outcome: core.Failed, offers: []offer{failStatus("a", 500, "", busyError),
			failStatus("b", 400, "", `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)},
			hasNot: []string{"context_length_exceeded"}, tries: []string{"a/mini failed status", "b/mini failed prompt_too_long"}, failed: map[string]int{"a": 1, "b": 0}},
		{name: "a prompt too long, told in the stream", status: 200, outcome: core.Settled, offers: []offer{
			{name: "a", context: 1000, script: []step{{10 * ms, streamHead + chunk(role+tooLongEvent) + lastChunk}}},
			good("b", "fine")}, has: []string{text("fine")}, tries: []string{"a/mini failed prompt_too_long", "b/mini settled "}, failed: map[string]int{"a": 0}},
		{name: "too long for all, told in the stream", status: 400, outcome: core.Failed, offers: []offer{
			{name: "a", script: []step{{10 * ms, streamHead + chunk(role+tooLongEvent) + lastChunk}}}}, has: []string{"too long", `"code":"context_length_exceeded"`}, failed: map[string]int{"a": 0}},
		{name: "too long, told in place of an answer", body: ask, status: 400, outcome: core.Failed, offers: []offer{
			{name: "a", script: []step{{10 * ms, status(200, "", `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`)}}}}, has: []string{`"code":"context_length_exceeded"`}, failed: map[string]int{"a": 0}},
		{name: "an unstreamed answer", body: ask, status: 200, outcome: core.Settled, after: 500 * ms, offers: []offer{{name: "a", script: []step{{100 * ms, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"}, {500 * ms, chunk(whole("fine", 8, 1)) + lastChunk}}}},
			has: []string{whole("fine", 8, 1)}, check: func(t *testing.T, _ *rig, rec *core.Receipt, _ answer) {
				if rec.Timing.FirstToken.OK || rec.Timing.FirstText.OK || rec.Timing.FirstEvent.OK || rec.Timing.DecodeTPS.OK || rec.Streamed || rec.Timing.UpstreamDone.V != 500 {
					t.Errorf("timing %+v", rec.Timing)
				}
			}},
		{name: "a page in place of an answer", body: ask, status: 502, outcome: core.Failed, offers: []offer{{name: "a", script: []step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"}}}}, tries: []string{"a/mini failed bad_answer"}, failed: map[string]int{"a": 1}},
		{name: "a page in place of a stream", status: 502, outcome: core.Failed, offers: []offer{{name: "a", script: []step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"}}}}, tries: []string{"a/mini failed bad_answer"}},
		{name: "a stream that was not asked for is folded", body: ask, status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{10 * ms, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(role+text("fi")+text("ne")+finish+usage(8, 2)+done) + lastChunk}}}},
			has: []string{`"content":"fine"`}, header: map[string]string{"Content-Type": "application/json"}},
		{name: "an answer to a call for a stream is unfolded", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{10 * ms, status(200, "", whole("fine", 8, 1))}}}},
			has: []string{`"delta":`, `fine`, done}, header: map[string]string{"Content-Type": "text/event-stream; charset=utf-8"}},
		{name: "a client that leaves", status: 0, leave: 300 * ms, outcome: core.ClientGone, offers: []offer{{name: "a", script: []step{{time.Hour, ""}}}, good("b", "fine")},
			tries: []string{"a/mini client_gone client_gone"}, calls: map[string]int{"b": 0}, failed: map[string]int{"a": 0}, check: func(t *testing.T, r *rig, rec *core.Receipt, _ answer) {
				if len(r.upstreams["a"].closed) != 1 {
					t.Error("the upstream was not cancelled")
				}
				if rec.UsageFrom != core.FromEstimate || rec.Usage.UncachedInput.V < 1 || rec.Usage.Output.OK || rec.Charge.V <= 0 {
					t.Errorf("the prompt was sent: usage %+v from %q, charge %v", rec.Usage, rec.UsageFrom, rec.Charge)
				}
			}},
		{name: "nothing but a finish is an answer", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{10 * ms, streamHead + chunk(role+finish+done) + lastChunk}}}}, has: []string{role + finish + done}},
		{name: "a refusal is an answer", status: 200, outcome: core.Settled, offers: []offer{{name: "a", script: []step{{10 * ms, streamHead + chunk(role+delta(`{"refusal":"no"}`)+finish+done) + lastChunk}}}}, failed: map[string]int{"a": 0}},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.play) })
	}
}

func (c wholeCall) play(t *testing.T) {
	r := newRig(t, c.change, c.offers...)
	body := c.body
	if body == "" {
		body = askStream
	}
	ctx := t.Context()
	if c.leave > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.leave)
		defer cancel()
	}
	a := r.postCtx(ctx, "/v1/chat/completions", body)
	if a.status != c.status || c.leave == 0 && a.err != nil {
		t.Fatalf("status %d, want %d; %v; %s", a.status, c.status, a.err, a.body)
	}
	if c.after > 0 && a.after != c.after {
		t.Errorf("answered after %v, want %v", a.after, c.after)
	}
	rest := a.body
	for _, s := range c.has {
		i := strings.Index(rest, s)
		if i < 0 {
			t.Fatalf("the client's bytes lack %q (in order):\n%s", s, a.body)
		}
		rest = rest[i+len(s):]
	}
	for _, s := range c.hasNot {
		if strings.Contains(a.body, s) {
			t.Errorf("the client's bytes hold %q:\n%s", s, a.body)
		}
	}
	for k, v := range c.header {
		if got := a.header.Get(k); got != v {
			t.Errorf("header %s is %q, want %q", k, got, v)
		}
	}
	rec := r.only()
	if rec.Outcome != c.outcome || rec.Status != c.status && c.leave == 0 {
		t.Errorf("receipt: outcome %s, status %d; want %s, %d", rec.Outcome, rec.Status, c.outcome, c.status)
	}
	if c.tries != nil {
		var got []string
		for _, x := range rec.Attempts {
			got = append(got, string(x.Offer)+" "+string(x.Outcome)+" "+x.Error)
		}
		if strings.Join(got, "; ") != strings.Join(c.tries, "; ") {
			t.Errorf("attempts %q, want %q", got, c.tries)
		}
	}
	for name, n := range c.calls {
		if got := r.upstreams[name].calls(); got != n {
			t.Errorf("%s got %d calls, want %d", name, got, n)
		}
	}
	for name, n := range c.failed {
		st := r.catalogue.Offer(core.OfferID(name+"/mini")).Status(time.Now(), r.gw.Setup().Settings.Breaker, core.Opt[float64]{})
		if st.CountedFailures != n {
			t.Errorf("%s has %d counted failures, want %d", name, st.CountedFailures, n)
		}
	}
	if strings.Contains(r.log.String(), "how are you") || strings.Contains(r.log.String(), "sk-a") {
		t.Errorf("the log holds content or a credential:\n%s", r.log)
	}
	if c.check != nil {
		c.check(t, r, rec, a)
	}
}

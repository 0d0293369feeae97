package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/core/market"
)

// standing is how an upstream of a rig stands.
func (r *rig) standing(name string) market.Status {
	return r.catalogue.Offer(core.OfferID(name+"/mini")).Status(time.Now(), r.gw.Setup().Settings.Breaker, core.Opt[float64]{})
}

// TestErrorStatuses: what each refusal of an upstream means for the client, with
// another offer and alone, and for the offer (SPEC §9).
func TestErrorStatuses(t *testing.T) {
	for _, w := range wires()[:4] {
		failure := func(kind string) string {
			if w.format == core.FormatAnthropic {
				return `{"type":"error","error":{"type":"` + kind + `","message":"boom"}}`
			}
			return `{"error":{"message":"boom","type":"` + kind + `","status":"` + kind + `","code":"x"}}`
		}
		const page = "<html>sk-a</html>"
		for _, c := range []struct {
			name   string
			status int
			body   string
			kind   string // of the body; JSON where empty
			alone  int    // what the client gets without another offer
			as     string // the body that it then gets; its format's error where empty
			state  string // of the offer
			by     string // who paused it
			falls  bool   // another offer answers
		}{
			{name: "a wrong key", status: 401, body: failure("authentication_error"), alone: 502, state: "paused", by: "auth", falls: true},
			{name: "a wrong key, as a page", status: 401, body: page, kind: "text/html", alone: 502, state: "paused", by: "auth", falls: true},
			{name: "google's wrong key", status: 400, body: `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, alone: 502, state: "paused", by: "auth", falls: true},
			{name: "may not", status: 403, body: failure("permission_error"), alone: 502, state: "active", falls: true},
			{name: "no money", status: 402, body: failure("billing_error"), alone: 502, state: "paused", by: "quota", falls: true},
			{name: "no credit", status: w.noCredit, body: w.quota, alone: 502, state: "paused", by: "quota", falls: true},
			{name: "busy", status: 429, body: failure("rate_limit_error"), alone: 429, state: "active", falls: true},
			{name: "busy, as a page", status: 429, body: page, kind: "text/html", alone: 429, state: "active", falls: true},
			{name: "overloaded", status: 529, body: failure("overloaded_error"), alone: 502, state: "active", falls: true},
			{name: "a bad gateway", status: 502, body: page, kind: "text/html", alone: 502, state: "active", falls: true},
			{name: "not implemented", status: 501, body: "", alone: 502, state: "active", falls: true},
			{name: "the caller's", status: 400, body: failure("invalid_request_error"), alone: 400, as: failure("invalid_request_error"), state: "active"},
			{name: "not found", status: 404, body: failure("not_found_error"), alone: 404, as: failure("not_found_error"), state: "active"},
			{name: "not found, as a page", status: 404, body: page, kind: "text/html", alone: 404, state: "active"},
			{name: "not found, in words", status: 404, body: "404 page not found", kind: "text/plain", alone: 404, state: "active"},
			{name: "not found, of nothing", status: 404, body: "", alone: 404, state: "active"},
			{name: "not found, cut", status: 404, body: `{"error":{"message":"bo`, alone: 404, state: "active"},
			{name: "unprocessable", status: 422, body: `{"detail":[{"msg":"boom"}]}`, alone: 422, as: `{"detail":[{"msg":"boom"}]}`, state: "active"},
			{name: "a teapot", status: 418, body: failure("tea"), alone: 418, as: failure("tea"), state: "active"},
		} {
			for _, streamed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %t %s", w.name, streamed, c.name), func(t *testing.T) {
					kind := c.kind
					if kind == "" {
						kind = "application/json"
					}
					script := step{10 * ms, fmt.Sprintf("HTTP/1.1 %d No\r\nContent-Type: %s\r\nSet-Cookie: a=sk-a\r\nContent-Length: %d\r\n\r\n%s", c.status, kind, len(c.body), c.body)}
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, nil, w.offer("a", script))
						a := w.post(r, streamed)
						if a.status != c.alone || a.err != nil {
							t.Fatalf("%d %v %s", a.status, a.err, a.body)
						}
						if c.as != "" && a.body != c.as {
							t.Errorf("got %s", a.body)
						}
						if c.as == "" {
							w.failure(t, answer{status: googleCode(w, a), header: a.header, body: a.body})
						}
						if strings.Contains(a.body, "sk-a") || a.header.Get("Set-Cookie") != "" {
							t.Errorf("the upstream's own reached the client: %v %s", a.header, a.body)
						}
						if st := r.standing("a"); st.State != c.state || st.PausedBy != c.by {
							t.Errorf("the offer is %s by %q", st.State, st.PausedBy)
						}
						if rec := r.only(); rec.Outcome != core.Failed || rec.Status != c.alone || rec.Attempts[0].Status != c.status || rec.Charge.OK {
							t.Errorf("outcome %s, status %d, attempts %+v", rec.Outcome, rec.Status, rec.Attempts)
						}
					})
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, nil, w.offer("a", script), w.good("b", "fine", streamed))
						a := w.post(r, streamed)
						if c.falls {
							w.isFine(t, a, streamed)
						} else if a.status != c.alone || r.upstreams["b"].calls() != 0 {
							t.Errorf("%d %s", a.status, a.body)
						}
					})
				})
			}
		}
	}
}

// googleCode is the status that Google's body must name: its words have one for
// each status of Headway's own, and an upstream's other 4xx is told as a 400.
func googleCode(w wire, a answer) int {
	if w.format == core.FormatGoogle && a.status == 418 {
		return 400
	}
	return a.status
}

// TestErrorsInStreams: an error inside of a stream means what the same error as
// a status does, where it comes before output.
func TestErrorsInStreams(t *testing.T) {
	for name, c := range map[string]struct {
		wire  int
		frame string
		state string
		by    string
		alone int
	}{
		"messages, a wrong key":   {2, named("error", `{"type":"error","error":{"type":"authentication_error","message":"boom"}}`), "paused", "auth", 502},
		"messages, no credit":     {2, named("error", `{"type":"error","error":{"type":"billing_error","message":"boom"}}`), "paused", "quota", 502},
		"messages, busy":          {2, named("error", `{"type":"error","error":{"type":"rate_limit_error","message":"boom"}}`), "active", "", 429},
		"messages, the caller's":  {2, named("error", `{"type":"error","error":{"type":"invalid_request_error","message":"boom"}}`), "active", "", 502},
		"chat, a wrong key":       {0, `data: {"error":{"message":"boom","code":401}}` + "\n\n", "paused", "auth", 502},
		"chat, no credit":         {0, `data: {"error":{"message":"boom","type":"insufficient_quota","code":"insufficient_quota"}}` + "\n\n", "paused", "quota", 502},
		"chat, busy":              {0, `data: {"error":{"message":"boom","code":"rate_limit_exceeded"}}` + "\n\n", "active", "", 429},
		"responses, no credit":    {1, named("response.failed", `{"type":"response.failed","response":{"output":[],"error":{"code":"insufficient_quota","message":"boom"}}}`), "paused", "quota", 502},
		"google, a wrong key":     {3, `data: {"error":{"code":401,"message":"boom","status":"UNAUTHENTICATED"}}` + "\r\n\r\n", "paused", "auth", 502},
		"google's array, no fund": {4, `[{"error":{"code":402,"message":"boom","status":"FAILED_PRECONDITION"}}]`, "paused", "quota", 502},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wires()[c.wire]
				r := newRig(t, nil, w.offer("a", step{10 * ms, w.head() + chunk(c.frame) + lastChunk}))
				a := w.post(r, true)
				if a.status != c.alone {
					t.Fatalf("%d %s", a.status, a.body)
				}
				w.failure(t, a)
				if st := r.standing("a"); st.State != c.state || st.PausedBy != c.by {
					t.Errorf("the offer is %s by %q", st.State, st.PausedBy)
				}
			})
		})
	}
}

// tooLongEvent is how a stream says that its prompt was too long.
const tooLongEvent = `data: {"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}` + "\n\n"

// TestOneModel: a model is found by every name that a call may use for it.
func TestOneModel(t *testing.T) {
	for path, status := range map[string]int{
		"/v1/models/mini": 200, "/v1/models/mini:latest": 200, "/v1beta/models/mini:latest": 200, "/v1/models/mini:8b": 404, "/v1/models/": 404,
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, wires()[0].good("a", "fine", false))
				a := r.raw("GET " + path + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + clientKey + "\r\n\r\n")
				if a.status != status || status == 200 && !strings.Contains(a.body, path[strings.LastIndex(path, "/")+1:]) {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		})
	}
}

// TestRetryAfter: every form that the header comes in, at the client, at the
// breaker, and cut to the longest pause that is allowed.
func TestRetryAfter(t *testing.T) {
	w := wires()[2]
	for _, status := range []int{429, 503} {
		for _, c := range []struct {
			value string
			told  string
			out   time.Duration // 0: the failure is counted in place
			odd   bool          // neither out nor counted: the pause is over
		}{
			{"7", "7", 7 * time.Second, false},
			{" 7 ", "7", 7 * time.Second, false},
			{"1.5", "2", 1500 * ms, false},
			{"0", "", 0, true},
			{"{in}", "30", 30 * time.Second, false},
			{"Fri, 31 Dec 1999 23:59:59 GMT", "", 0, true},
			{"Fri, 31 Dec 2049 23:59:59 GMT", "600", 10 * time.Minute, false},
			{"999999999999999999999999", "600", 10 * time.Minute, false},
			{"-5", "", 0, false},
			{"soon", "", 0, false},
			{"", "", 0, false},
			{"NaN", "", 0, false},
			{"1e3", "", 0, false},
			{"0x10", "", 0, false},
			{"7, 8", "", 0, false},
			{"1.2.3", "", 0, false},
			{strings.Repeat("9", 5000), "600", 10 * time.Minute, false},
		} {
			t.Run(fmt.Sprintf("%d %.40q", status, c.value), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					value := strings.Replace(c.value, "{in}", time.Now().Add(30*time.Second).UTC().Format(http.TimeFormat), 1)
					r := newRig(t, nil, w.offer("a", step{0, fmt.Sprintf("HTTP/1.1 %d No\r\nRetry-After: %s\r\nContent-Length: 2\r\n\r\n{}", status, value)}))
					a := w.post(r, true)
					want := map[int]int{429: 429, 503: 502}[status]
					if a.status != want || a.header.Get("Retry-After") != c.told {
						t.Errorf("%d, Retry-After %q", a.status, a.header.Get("Retry-After"))
					}
					st := r.standing("a")
					out := time.Duration(0)
					if st.OutUntil.OK {
						out = time.Until(st.OutUntil.V)
					}
					counted := 0
					if c.out == 0 && !c.odd {
						counted = 1
					}
					if out != c.out || st.CountedFailures != counted {
						t.Errorf("out for %v with %d failures", out, st.CountedFailures)
					}
				})
			})
		}
	}
}

// TestMixedRefusals: 429 is the word only where every offer said so.
func TestMixedRefusals(t *testing.T) {
	w := wires()[0]
	busy := func(name, after string) offer {
		return w.offer(name, step{0, status(429, "Retry-After: "+after+"\r\n", "{}")})
	}
	empty := w.offer("b", step{0, status(429, "Retry-After: 3\r\n", w.quota)})
	for name, c := range map[string]struct {
		offers []offer
		status int
		after  string
	}{
		"busy and busy":    {[]offer{busy("a", "9"), busy("b", "4")}, 429, "4"},
		"busy and empty":   {[]offer{busy("a", "9"), empty}, 502, ""},
		"empty alone":      {[]offer{empty}, 502, "3"},
		"busy and broken":  {[]offer{busy("a", "9"), w.offer("b", step{0, cutOff})}, 502, ""},
		"broken and busy":  {[]offer{w.offer("b", step{0, cutOff}), busy("a", "9")}, 502, ""},
		"busy three times": {[]offer{busy("a", "9"), busy("b", "4000"), busy("c", "soon")}, 429, "9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, c.offers...)
				if a := w.post(r, false); a.status != c.status || a.header.Get("Retry-After") != c.after {
					t.Errorf("%d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
				}
			})
		})
	}
}

// TestKeyEchoes: a provider that repeats its credential in an error does not
// give it away, wherever the error is.
func TestKeyEchoes(t *testing.T) {
	for _, w := range wires() {
		echo := strings.ReplaceAll(w.boom, "boom", "boom sk-a is not known, Bearer sk-a")
		body := `{"error":{"message":"boom sk-a is not known","type":"sk-a","code":"sk-a","status":"sk-a"}}`
		for name, script := range map[string][]step{
			"400":                 {{0, status(400, "", body)}},
			"404":                 {{0, status(404, "Request-Id: sk-a\r\n", body)}},
			"401":                 {{0, status(401, "", body)}},
			"403":                 {{0, status(403, "", body)}},
			"413":                 {{0, status(413, "", body)}},
			"429":                 {{0, status(429, "", body)}},
			"500":                 {{0, status(500, "", body)}},
			"200":                 {{0, status(200, "", body)}},
			"a page":              {{0, "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nsk-a"}},
			"before the output":   {{0, w.head() + chunk(w.opening+echo) + lastChunk}},
			"behind the output":   {{0, w.head() + chunk(w.opening+w.says("tea"))}, {10 * ms, chunk(echo) + lastChunk}},
			"a bare error behind": {{0, w.head() + chunk(w.opening+w.says("tea"))}, {10 * ms, chunk(body) + lastChunk}},
		} {
			t.Run(w.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, w.offer("a", script...))
					a := w.post(r, true)
					all := fmt.Sprint(a.header, a.body)
					rec, err := json.Marshal(r.only())
					if strings.Contains(all, "sk-a") || strings.Contains(r.log.String(), "sk-a") || strings.Contains(string(rec), "sk-a") || err != nil {
						t.Errorf("the key is in\n%s\n%s\n%s", all, r.log, rec)
					}
				})
			})
		}
	}
}

// TestUpstreamHeaders: of an upstream's headers only those pass that SDKs read,
// and none that an SDK could not take.
func TestUpstreamHeaders(t *testing.T) {
	for _, w := range wires() {
		for _, streamed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				o := w.good("a", "fine", streamed)
				o.script[0].write = with(o.script[0].write, "Set-Cookie: a=b\r\nServer: evil\r\nX-Request-Id: theirs\r\nX-Headway-Offer: evil\r\nOpenai-Organization: acme\r\nAccess-Control-Allow-Origin: *\r\n"+
					"Content-Security-Policy: x\r\nConnection: X-Custom\r\nKeep-Alive: 5\r\nLocation: http://x/\r\nOpenai-Processing-Ms: 12\r\nRequest-Id: "+strings.Repeat("r", 5000)+"\r\nX-Should-Retry: a\r\nX-Should-Retry: b\r\n")
				r := newRig(t, nil, o)
				a := w.post(r, streamed)
				w.isFine(t, a, streamed)
				for _, name := range []string{"Set-Cookie", "Server", "Openai-Organization", "Access-Control-Allow-Origin", "Content-Security-Policy", "Keep-Alive", "Location", "Request-Id"} {
					if v := a.header.Get(name); v != "" {
						t.Errorf("%s: %s is %q", w.name, name, v)
					}
				}
				if len(a.header["X-Should-Retry"]) != 1 || a.header.Get("Openai-Processing-Ms") != "12" || a.header.Get("X-Headway-Offer") != "a/mini" || len(a.id()) != 26 {
					t.Errorf("%s: %v", w.name, a.header)
				}
			})
		}
	}
}

// lies are usage reports that cannot be true, put into answers of each format.
func lies(w wire) map[string]string {
	names := map[core.Format][3]string{
		core.FormatOpenAI: {"prompt_tokens", "completion_tokens", "total_tokens"}, core.FormatResponses: {"input_tokens", "output_tokens", "total_tokens"},
		core.FormatAnthropic: {"input_tokens", "output_tokens", "x"}, core.FormatGoogle: {"promptTokenCount", "candidatesTokenCount", "totalTokenCount"},
	}[w.format]
	report := func(in, out, more string) string {
		return fmt.Sprintf(`{"%s":%s,"%s":%s%s}`, names[0], in, names[1], out, more)
	}
	const most = "9223372036854775807"
	all := map[string]string{
		"negative":         report("-8", "-1", ""),
		"the least":        report("-9223372036854775808", "-9223372036854775808", ""),
		"fractions":        report("8.5", "1.5", ""),
		"texts":            report(`"8"`, `"1"`, ""),
		"huge":             report(most, most, ""),
		"beyond numbers":   report("1e400", "1e400", ""),
		"a large exponent": report("1e30", "1e18", ""),
		"none":             "{}",
		"null":             "null",
		"a list":           "[8,1]",
		"a text":           `"8"`,
		"nulls":            report("null", "null", ""),
		"lists":            report("[8]", "{}", ""),
		"zero":             report("0", "0", ""),
		"twice":            report("8", "1", fmt.Sprintf(`,"%s":-5`, names[0])),
		"a wrong total":    report("8", "1", fmt.Sprintf(`,"%s":1`, names[2])),
		"a huge total":     report("8", "1", fmt.Sprintf(`,"%s":%s`, names[2], most)),
	}
	parts := map[core.Format][]string{
		core.FormatOpenAI:    {`,"prompt_tokens_details":{"cached_tokens":%[1]s},"completion_tokens_details":{"reasoning_tokens":%[1]s}`},
		core.FormatResponses: {`,"input_tokens_details":{"cached_tokens":%[1]s},"output_tokens_details":{"reasoning_tokens":%[1]s}`},
		core.FormatAnthropic: {`,"cache_read_input_tokens":%[1]s`, `,"cache_creation_input_tokens":%[1]s`, `,"cache_creation":{"ephemeral_5m_input_tokens":%[1]s,"ephemeral_1h_input_tokens":%[1]s}`},
		core.FormatGoogle:    {`,"cachedContentTokenCount":%[1]s,"thoughtsTokenCount":%[1]s`, `,"toolUsePromptTokenCount":%[1]s`},
	}[w.format]
	for i, part := range parts {
		for _, n := range []string{most, "-7", "100", "1e12", `"x"`} {
			all[fmt.Sprintf("parts %d of %s", i, n)] = report("8", "1", fmt.Sprintf(part, n))
		}
	}
	return all
}

// TestLyingUsage: whatever a report says, a receipt's counts and charge can be
// true: not negative, not overflowing, not missing.
func TestLyingUsage(t *testing.T) {
	for _, w := range wires()[:4] {
		honest := map[core.Format]string{
			core.FormatOpenAI: `{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}`, core.FormatResponses: `{"input_tokens":8,"output_tokens":1,"total_tokens":9}`,
			core.FormatAnthropic: `{"input_tokens":8,"output_tokens":1}`, core.FormatGoogle: `{"promptTokenCount":8,"candidatesTokenCount":1,"totalTokenCount":9}`,
		}[w.format]
		for name, lie := range lies(w) {
			for _, streamed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %t %s", w.name, streamed, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						body := strings.Replace(w.whole("fine"), honest, lie, 1)
						script := []step{{10 * ms, status(200, "", body)}}
						if streamed {
							end := strings.Replace(w.ending, honest, lie, 1)
							if w.format == core.FormatAnthropic {
								end = strings.Replace(w.ending, `{"output_tokens":1}`, lie, 1)
							}
							if end == w.ending {
								t.Fatal("nothing was replaced")
							}
							script = []step{{10 * ms, w.head() + chunk(w.opening+w.says("fi"))}, {500 * ms, chunk(w.says("ne")+end) + lastChunk}}
						}
						r := newRig(t, nil, w.offer("a", script...))
						a := w.post(r, streamed)
						if a.status != 200 {
							t.Fatalf("%d %s", a.status, a.body)
						}
						rec := r.only()
						u := rec.Usage
						for _, n := range []core.Opt[int64]{u.UncachedInput, u.CacheRead, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, core.Some(u.Input()), u.Fresh()} {
							if n.V < 0 {
								t.Errorf("usage %+v", u)
							}
						}
						if rec.Outcome != core.Settled || !rec.Charge.OK || rec.Charge.V <= 0 || u.Input() == 0 || !u.Output.OK {
							t.Errorf("outcome %s, usage %+v from %s, charge %v", rec.Outcome, u, rec.UsageFrom, rec.Charge)
						}
						out, err := json.Marshal(rec)
						if err != nil || strings.Contains(string(out), "null") {
							t.Errorf("%v %s", err, out)
						}
						for _, figure := range []core.Opt[float64]{rec.Timing.VisibleTPS, rec.Timing.DecodeTPS, rec.Timing.PromptTPS, rec.Timing.Decode, rec.Timing.Prompt} {
							if figure.OK && figure.V <= 0 {
								t.Errorf("timing %+v", rec.Timing)
							}
						}
						if strings.Contains(r.log.String(), "level=ERROR") {
							t.Errorf("the log: %s", r.log)
						}
						if streamed {
							return // what follows is slow, and the same
						}
						if page := r.get("/metrics"); page.status != 200 || strings.Contains(page.body, "NaN") {
							t.Errorf("metrics: %d", page.status)
						}
					})
				})
			}
		}
	}
}

// TestOtherAnswers: the paths that do not generate, answered well and badly.
func TestOtherAnswers(t *testing.T) {
	chat, messages, google := wires()[0], wires()[2], wires()[3]
	for _, c := range []struct {
		w          wire
		path, body string
		good       string
		usage      int64 // input tokens that are charged
	}{
		{messages, "/v1/messages/count_tokens", messages.ask(prompt, false), `{"input_tokens":31}`, 0},
		{google, "/v1beta/models/mini:countTokens", google.ask(prompt, false), `{"totalTokens":31}`, 0},
		{google, "/v1beta/models/mini:embedContent", `{"content":{"parts":[{"text":"` + prompt + `"}]}}`, `{"embedding":{"values":[0.1]}}`, 5},
		{chat, "/v1/embeddings", `{"model":"mini","input":"` + prompt + `"}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"mini","usage":{"prompt_tokens":8,"total_tokens":8}}`, 8},
		{chat, "/v1/completions", `{"model":"mini","prompt":"` + prompt + `"}`, `{"id":"c","object":"text_completion","choices":[{"text":"fine","index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}`, 8},
	} {
		good := c.w.offer("b", step{10 * ms, status(200, "", c.good)})
		bad := map[string]string{
			"a page": "<html>", "nothing": "", "null": "null", "a list": "[]", "an empty object": "{}", "another's": `{"ok":true}`, "cut": c.good[:len(c.good)-4],
			"more behind it": c.good + "}", "an error": `{"error":{"message":"boom"}}`, "null bytes": "\x00\x00", "a text in place": `{"input_tokens":"x","totalTokens":null,"embedding":1,"data":"x","choices":7}`,
		}
		if strings.HasSuffix(c.path, "embedContent") {
			delete(bad, "a text in place")
		}
		for name, body := range bad {
			t.Run(c.path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, nil, c.w.offer("a", step{0, status(200, "", body)}), good)
					a := r.post(c.path, c.body)
					if a.status != 200 || a.body != c.good || r.failures("a") != 1 {
						t.Errorf("%d, %d failures: %s", a.status, r.failures("a"), a.body)
					}
					rec := r.only()
					if rec.Usage.Input() != c.usage || c.usage > 0 && rec.Charge.V <= 0 || c.usage == 0 && (!rec.Charge.OK || rec.Charge.V != 0) || rec.Timing.FirstToken.OK {
						t.Errorf("usage %+v, charge %v", rec.Usage, rec.Charge)
					}
				})
			})
		}
		synctest.Test(t, func(t *testing.T) { // not every server has the path
			r := newRig(t, nil, c.w.offer("a", step{0, "HTTP/1.1 404 No\r\nContent-Type: text/plain\r\nContent-Length: 18\r\n\r\n404 page not found"}))
			a := r.post(c.path, c.body)
			if said := c.w.failure(t, a); a.status != 404 || !strings.Contains(said, "404") {
				t.Errorf("%s: %d %s", c.path, a.status, a.body)
			}
		})
	}
}

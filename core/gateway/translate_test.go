package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"headway/core"
)

// text is the text of an unstreamed answer.
func (w wire) text(t *testing.T, body string) string {
	t.Helper()
	type part struct{ Text string }
	var a struct {
		Choices    []struct{ Message struct{ Content string } }
		Output     []struct{ Content []part }
		Content    []part
		Candidates []struct{ Content struct{ Parts []part } }
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Errorf("%v: %.500s", err, body)
		return ""
	}
	var parts []part
	switch w.format {
	case core.FormatOpenAI:
		for _, c := range a.Choices {
			parts = append(parts, part{c.Message.Content})
		}
	case core.FormatResponses:
		for _, o := range a.Output {
			parts = append(parts, o.Content...)
		}
	case core.FormatAnthropic:
		parts = a.Content
	case core.FormatGoogle:
		for _, c := range a.Candidates {
			parts = append(parts, c.Content.Parts...)
		}
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return all.String()
}

// pairs runs a test for every client format and every provider of another one,
// streamed and not.
func pairs(t *testing.T, run func(t *testing.T, client, provider wire, streamed bool)) {
	for _, client := range wires() {
		for _, provider := range wires() {
			if provider.format == client.format || provider.name == "google array" {
				continue
			}
			for _, streamed := range []bool{true, false} {
				if client.name == "google array" && !streamed {
					continue
				}
				name := client.name + " to " + provider.name
				if streamed {
					name += " streamed"
				}
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { run(t, client, provider, streamed) })
				})
			}
		}
	}
}

// reads checks that a client got a text as the whole of a good answer.
func (w wire) reads(t *testing.T, a answer, text string, streamed bool) {
	t.Helper()
	if a.status != 200 || a.err != nil {
		t.Fatalf("status %d, %v: %.500s", a.status, a.err, a.body)
	}
	if !streamed {
		if got := w.text(t, a.body); got != text {
			t.Errorf("the client reads %q of %.500s", got, a.body)
		}
		return
	}
	if got, err := w.sdk(a.body); err != nil || got != (read{text, true, ""}) {
		t.Errorf("an SDK reads %+v, %v of %.500s", got, err, a.body)
	}
}

// TestEveryPair: an answer of a provider that speaks another format reaches the
// client in its own, with the figures, the usage and the charge that it has in
// any other, also where it comes in the other shape than was asked for.
func TestEveryPair(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		r := newRig(t, nil, provider.good("a", "t\u00e9a \U0001F375", streamed))
		a := client.post(r, streamed)
		client.reads(t, a, "t\u00e9a \U0001F375", streamed)
		synctest.Wait()
		rec := r.only()
		if rec.Outcome != core.Settled || rec.Format != client.format || rec.UpstreamFormat != provider.format || rec.UsageFrom != core.FromProvider ||
			rec.Usage.UncachedInput != core.Some[int64](8) || rec.Usage.Output != core.Some[int64](1) {
			t.Errorf("%s %s to %s, usage %s %+v", rec.Outcome, rec.Format, rec.UpstreamFormat, rec.UsageFrom, rec.Usage)
		}
		if streamed && (rec.Timing.FirstResponse != core.Some(10.0) || rec.Timing.FirstText != core.Some(10.0) || rec.TextDeltas != core.Some[int64](1)) {
			t.Errorf("first response %v, first text %v, %v text deltas", rec.Timing.FirstResponse, rec.Timing.FirstText, rec.TextDeltas)
		}
		if !strings.Contains(r.upstreams["a"].bodies[0], prompt) {
			t.Errorf("the provider got %s", r.upstreams["a"].bodies[0])
		}
	})
}

func TestEveryPairInTheOtherShape(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		r := newRig(t, nil, provider.good("a", "tea", !streamed))
		client.reads(t, client.post(r, streamed), "tea", streamed)
	})
}

// TestPairsFallBack: a provider that fails before it has said anything is
// followed by one of another format.
func TestPairsFallBack(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		broken := client.offer("a", step{10 * ms, status(500, "", `{"error":{"message":"down"}}`)})
		r := newRig(t, nil, broken, provider.good("b", "tea", streamed))
		a := client.post(r, streamed)
		client.reads(t, a, "tea", streamed)
		if got := a.header.Get("X-Headway-Offer") + " " + a.header.Get("X-Headway-Attempts"); got != "b/mini 2" {
			t.Errorf("answered by %s", got)
		}
	})
}

// TestPairsFail: an error of the provider's reaches the client in its format,
// with its status and text; after output as the format's error in a stream.
func TestPairsFail(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		refusal := provider.offer("a", step{10 * ms, status(400, "", `{"error":{"message":"boom","type":"invalid_request_error","code":null}}`)})
		r := newRig(t, nil, refusal)
		a := client.post(r, streamed)
		if msg := client.failure(t, a); a.status != 400 || !strings.Contains(msg, "boom") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if !streamed {
			return
		}
		for _, script := range [][]step{
			{{10 * ms, provider.head() + chunk(provider.opening+provider.says("tea"))}, {20 * ms, chunk(provider.boom) + lastChunk}},
			{{10 * ms, provider.head() + chunk(provider.opening+provider.says("tea"))}, {20 * ms, cutOff}},
		} {
			r.upstreams["a"].scripts = [][]step{script}
			a = client.post(r, streamed)
			got, err := client.sdk(a.body)
			if err != nil || got.text != "tea" || got.ended && client.format != core.FormatOpenAI || got.failed == "" {
				t.Errorf("an SDK reads %+v, %v of %s", got, err, a.body)
			}
		}
	})
}

// TestReasoningShown: a client of Anthropic's or Google's gets a provider's
// reasoning where it would get that API's own: a client that did not ask takes the
// first block for the answer. It counts as output all the same.
func TestReasoningShown(t *testing.T) {
	const thought = "marked-thought"
	chat, messages, google := wires()[0], wires()[2], wires()[3]
	for _, c := range []struct {
		client wire
		more   string // fields of the request
		shown  bool
	}{
		{messages, ``, false},
		{messages, `,"thinking":{"type":"disabled"}`, false},
		{messages, `,"thinking":{"type":"adaptive","display":"omitted"}`, false},
		{messages, `,"thinking":{"type":"adaptive"}`, true},
		{messages, `,"thinking":{"type":"enabled","budget_tokens":50}`, true},
		{messages, `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`, true},
		{google, ``, false},
		{google, `,"generationConfig":{"thinkingConfig":{"thinkingBudget":50}}`, false},
		{google, `,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`, true},
	} {
		t.Run(c.client.name+c.more, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				thinks := `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning_content":"` + thought + `"},"finish_reason":null}]}` + "\n\n"
				r := newRig(t, nil, chat.offer("a", step{10 * ms, chat.head() + chunk(chat.opening+thinks)}, step{30 * ms, chunk(chat.says("tea"))}, step{40 * ms, chunk(chat.ending) + lastChunk}))
				ask := c.client.ask(prompt, true)
				a := r.post(c.client.stream, ask[:len(ask)-1]+c.more+"}", "anthropic-version", "2023-06-01")
				if got, err := c.client.sdk(a.body); err != nil || !strings.HasSuffix(got.text, "tea") || !got.ended {
					t.Errorf("an SDK reads %+v, %v of %s", got, err, a.body)
				}
				if strings.Contains(a.body, thought) != c.shown {
					t.Errorf("reasoning shown: %t, want %t, in %s", !c.shown, c.shown, a.body)
				}
				synctest.Wait()
				if first := r.only().Timing.FirstResponse; first != core.Some(10.0) {
					t.Errorf("the first response came after %v, want 10 ms", first)
				}
				if a.header.Get("X-Headway-Offer") != "a/mini" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
					t.Errorf("the header is %v", a.header)
				}
			})
		})
	}
}

// TestPairsBadBytes: bytes of a provider that are no text do not reach a client
// of another format.
func TestPairsBadBytes(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		says, whole := provider.says, provider.whole
		bad := func(s string) string { return strings.ReplaceAll(s, "~", "\xff") }
		provider.says = func(s string) string { return bad(says(s)) }
		provider.whole = func(s string) string { return bad(whole(s)) }
		a := client.post(newRig(t, nil, provider.good("a", "t~a", streamed)), streamed)
		if !utf8.ValidString(a.body) {
			t.Errorf("the client gets %.500q", a.body)
		}
		client.reads(t, a, "t\ufffda", streamed)
	})
}

// TestPairsTooManyCalls: an answer of more tool calls than any has is not held
// for the client: it is broken.
func TestPairsTooManyCalls(t *testing.T) {
	pairs(t, func(t *testing.T, client, provider wire, streamed bool) {
		if provider.format != core.FormatGoogle {
			return
		}
		says, whole := provider.says, provider.whole
		many := func(s string) string {
			return strings.Replace(s, `{"text":"tea"}`, strings.Repeat(`{"functionCall":{"name":"f"}},`, 5000)+`{"text":"tea"}`, 1)
		}
		provider.says = func(s string) string { return many(says(s)) }
		provider.whole = func(s string) string { return many(whole(s)) }
		r := newRig(t, nil, provider.good("a", "tea", streamed))
		a := client.post(r, streamed)
		synctest.Wait()
		if rec := r.only(); rec.Outcome != core.Failed || len(a.body) > 10_000 {
			t.Errorf("%s: %d %.500s", rec.Outcome, a.status, a.body)
		}
	})
}

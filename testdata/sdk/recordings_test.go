package sdktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// otherwise names the recordings that an SDK does not read through Headway as it
// reads them straight from the upstream, and how else.
var otherwise = map[string]struct {
	why     string
	outcome string // of the receipt; "" for settled
	check   func(t *testing.T, via, raw *heard)
}{
	// A stream that stops without its format's finish ends cleanly for the SDKs,
	// which take it for a whole answer. Headway ends it with an error (SPEC §9, §11).
	"openai-chat.syn-cut-mid-event":                     {"cut inside an event", "truncated", toldOfCut},
	"google-generatecontent.syn-usage-only-last-cached": {"no finish reason", "truncated", toldOfCut},
	// A stream without output and without its finish is no answer: with no other
	// offer left, a failure (SPEC §9).
	"google-generatecontent.empty-content-only": {"nothing was said", "failed", status(502)},
	// An error before output moves on to another offer; with none left it is the
	// call's status (SPEC §9).
	"openai-responses.error-insufficient-quota": {"the provider's quota is used up", "failed", status(502)},
	// The named repair responses-indexes (SPEC §13, CLIENTS.md 1).
	"llamacpp.responses-stream":  {"events without their indices", "", repaired},
	"ollama.v1-responses-stream": {"a summary's part that is not opened", "", repaired},
	// The named repair of thinking without its signature (CLIENTS.md 1): this SDK
	// does without, another refuses the answer.
	"ollama.v1-messages-unstreamed": {"thinking without a signature", "", signed},
	// An error that is no event of the stream, which no other SDK would see, is
	// told as one, with the upstream's words (SPEC §24).
	"google-generatecontent.bare-json-error-mid-stream": {"a bare error object", "failed", retold},
	// The upstream refused Headway's credential, not the caller's (SPEC §9).
	"llamacpp.error-wrong-key": {"an upstream's 401", "failed", status(502)},
}

// notAsked are recordings of answers that no call of an SDK gets.
var notAsked = map[string]string{
	"google-generatecontent.syn-json-array": "the SDK always asks for events",
}

// unreadable are recordings that the SDK reads neither way. It leaves the stream
// where it stumbles, so that how the call ends is a matter of time.
var unreadable = map[string]string{
	"openai-chat.syn-empty-data-keepalive-first": "the SDK takes an event without data for broken JSON",
}

func (g *rig) testRecordings(t *testing.T) {
	for _, r := range g.recordings {
		if notAsked[r.name] != "" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			g.recording(t, r)
		})
	}
}

func (g *rig) recording(t *testing.T, r *recording) {
	raw := g.raw.call(t.Context(), r, r.streamed)
	via := g.via.call(t.Context(), r, r.streamed)
	known(t, raw, r)

	outcome := "settled"
	switch o, ok := otherwise[r.name]; {
	case ok:
		o.check(t, via, raw)
		if o.outcome != "" {
			outcome = o.outcome
		}
	default:
		same(t, via, raw)
		if raw.err != nil {
			outcome = "failed"
		}
	}
	sameRequest(t, g.up.nth(t, viaModel+r.name, 1), g.up.nth(t, rawModel+r.name, 1))
	if unreadable[r.name] != "" {
		if raw.err == nil {
			t.Error("the SDK reads it straight from the upstream")
		}
		return
	}
	got := g.headway.receipt(t, via.id)
	if got.Outcome != outcome {
		t.Errorf("the receipt's outcome is %s, want %s: %s", got.Outcome, outcome, got.raw)
	}
	switch {
	case r.label != nil && outcome != "failed":
		got.held(t, r.label)
	case outcome == "settled":
		if got.UsageFrom != "provider" || value(got.Usage.Output) == 0 || got.FinishReason == "" || got.Streamed != r.streamed {
			t.Errorf("the receipt lacks something of %s", got.raw)
		}
	}
	if r.api == chat && r.streamed && r.status == http.StatusOK {
		g.unasked(t, r, raw)
	}
}

// known holds what the SDK reads straight from the replay against the label: the
// replay itself could be wrong.
func known(t *testing.T, raw *heard, r *recording) {
	t.Helper()
	if l := r.label; l != nil && raw.err == nil && raw.Refused == "" && r.api != completions {
		if (raw.Text != "") != l.HasText && l.FirstText != nil || l.ToolCalls > 0 && len(raw.Tools) == 0 {
			t.Errorf("straight from the upstream: text %q and tools %v, labelled text %v and %d tool calls", raw.Text, raw.Tools, l.HasText, l.ToolCalls)
		}
	}
	if raw.err == nil && len(raw.Events) == 0 {
		t.Error("straight from the upstream: nothing")
	}
}

// sameRequest holds the request that came through Headway against the one that
// the SDK sends by itself: the same bytes but for the model's name, and the
// provider's credential in the place of the caller's.
func sameRequest(t *testing.T, via, raw *asked) {
	t.Helper()
	swap := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"`+rawModel), []byte(`"`+viaModel)) }
	if !bytes.Equal(via.body, swap(raw.body)) {
		t.Errorf("through Headway the request is\n%s\nand straight from the SDK\n%s", short(string(via.body)), short(string(raw.body)))
	}
	if via.path != raw.path || via.query.Encode() != raw.query.Encode() {
		t.Errorf("through Headway the request goes to %s?%s, straight to %s?%s", via.path, via.query.Encode(), raw.path, raw.query.Encode())
	}
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "Content-Type"} {
		if !slices.Equal(via.header[name], raw.header[name]) {
			t.Errorf("through Headway %s is %q, straight %q", name, via.header[name], raw.header[name])
		}
	}
	for name, values := range via.header {
		if strings.Contains(strings.Join(values, " "), callerKey) {
			t.Errorf("the caller's key reached the upstream in %s", name)
		}
	}
}

// unasked makes the same call without asking for the usage: the upstream is
// asked for it all the same, and what answers that alone is kept from the client
// (SPEC §24).
func (g *rig) unasked(t *testing.T, r *recording, raw *heard) {
	t.Helper()
	if _, ok := otherwise[r.name]; ok || raw.err != nil {
		return
	}
	via := g.via.chatCall(t.Context(), r, true, false)
	var want []string
	for _, e := range raw.Events {
		var chunk struct {
			Choices []json.RawMessage
			Usage   *json.RawMessage
		}
		if json.Unmarshal([]byte(e), &chunk) != nil || len(chunk.Choices) > 0 || chunk.Usage == nil {
			want = append(want, e)
		}
	}
	sameEvents(t, via.Events, want)
	if via.err != nil {
		t.Errorf("without asking for the usage: %v", via.err)
	}
	var sent struct {
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	q := g.up.nth(t, viaModel+r.name, 2)
	if err := json.Unmarshal(q.body, &sent); err != nil {
		t.Fatal(err)
	}
	reports := slices.Contains([]string{"mistral", "deepseek", "perplexity"}, r.dialect) // without being asked
	if sent.Options.Usage == reports {
		t.Errorf("the upstream was asked for usage: %v", sent.Options.Usage)
	}
	if got := g.headway.receipt(t, via.id); r.label != nil {
		got.held(t, r.label)
	}
}

// toldOfCut: every event that the SDK could read, and then an error.
func toldOfCut(t *testing.T, via, raw *heard) {
	t.Helper()
	if raw.err != nil {
		t.Errorf("straight from the upstream: %v, want a clean end", raw.err)
	}
	if told := new(ssestream.StreamError); statusOf(via.err) == 0 && !errors.As(via.err, &told) {
		t.Errorf("through Headway the stream ended with %v, want an error that the SDK was told", via.err)
	}
	sameEvents(t, via.Events, raw.Events)
	if via.Text != raw.Text {
		t.Errorf("text %q, want %q", via.Text, raw.Text)
	}
}

// repaired: the SDK's helper can put together what it could not.
func repaired(t *testing.T, via, raw *heard) {
	t.Helper()
	if raw.Refused == "" {
		t.Error("straight from the upstream the stream needs no repair")
	}
	if via.Refused != "" || via.err != nil {
		t.Errorf("through Headway the stream is refused: %s %v", via.Refused, via.err)
	}
	if via.Finish != raw.Finish || via.Usage != raw.Usage || via.Final != raw.Final {
		t.Errorf("the end is %s %s %s, want %s %s %s", via.Finish, via.Usage, via.Final, raw.Finish, raw.Usage, raw.Final)
	}
	if len(via.Text) == 0 || !strings.Contains(via.Final, via.Text) {
		t.Errorf("the events say %q, the whole answer %q", via.Text, via.Final)
	}
}

// signed: the same but for an empty signature that was put in.
func signed(t *testing.T, via, raw *heard) {
	t.Helper()
	if strings.Contains(raw.Events[0], `"signature"`) {
		t.Error("straight from the upstream the thinking is signed")
	}
	without := strings.Replace(via.Events[0], `,"signature":""`, "", 1)
	if without == via.Events[0] {
		t.Errorf("no signature in %s", via.Events[0])
	}
	via.Events[0] = without
	same(t, via, raw)
}

// retold: the same events, and an error with the same words.
func retold(t *testing.T, via, raw *heard) {
	t.Helper()
	sameEvents(t, via.Events, raw.Events)
	const words = "The operation was cancelled."
	if !strings.Contains(raw.Err, words) || !strings.Contains(via.Err, words) {
		t.Errorf("the error is %q, straight %q", via.Err, raw.Err)
	}
}

// status: the call failed as a whole.
func status(want int) func(t *testing.T, via, raw *heard) {
	return func(t *testing.T, via, _ *heard) {
		t.Helper()
		if got := statusOf(via.err); got != want || len(via.Events) > 0 {
			t.Errorf("status %d (%v) and %d events, want %d and none", got, via.err, len(via.Events), want)
		}
	}
}

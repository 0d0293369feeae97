package sdktest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// replay is a recorded answer of a provider's format.
type replay struct {
	*recording
	*provider
}

// replays are the labelled recordings of every format that a provider speaks.
func replays(t *testing.T) (all []*replay) {
	t.Helper()
	dir := corpus(t)
	if dir == "" {
		return nil
	}
	formats := map[string]string{chat: "openai", responses: "openai-responses", messages: "anthropic", generate: "google", "bedrock-anthropic": "bedrock", converse: "bedrock-converse", ollama: "ollama"}
	var file struct{ Files []label }
	readJSON(t, filepath.Join(dir, "labels.json"), &file)
	for _, l := range file.Files {
		i := slices.IndexFunc(providers, func(p *provider) bool { return p.format == formats[l.Format] })
		if i < 0 {
			continue // Cohere's, and old completions, which are not translated
		}
		r := &recording{name: slug(l.File), api: l.Format, dialect: l.Dialect, streamed: l.Streamed, body: read(t, filepath.Join(dir, l.File)), label: &l,
			media: map[string]string{"sse": "text/event-stream", "ndjson": "application/x-ndjson", "eventstream": "application/vnd.amazon.eventstream"}[l.Media]}
		if r.media == "" {
			r.media = "application/json"
		}
		all = append(all, &replay{r, providers[i]})
	}
	if len(all) < 170 {
		t.Fatalf("only %d recordings in %s", len(all), dir)
	}
	return all
}

// replayCells are a model for each call that is answered by a recording.
func replayCells(all []*replay) (cells []*cell) {
	for _, r := range all {
		for _, c := range callers {
			for _, shape := range []string{"stream", "whole"} {
				if r.asks(c, shape) {
					cells = append(cells, &cell{model: strings.Join([]string{"wire", r.name, c.api, shape}, "."), provider: r.provider, replay: r})
				}
			}
		}
	}
	return cells
}

// others are recordings that mean to Headway something else than to the SDK of
// their format.
var others = map[string]func(meant *said, c *caller){
	// Two messages in one stream. The SDK forgets the first, of which a client of
	// another format has been told before the second came: with a call that was
	// broken off, of which Google's calls, which are whole, tell by the finish.
	"anthropic-messages.spliced-second-message-start": func(s *said, c *caller) {
		s.reasoning = "I will call the tool." + s.reasoning
		if c.api == generate {
			s.finish = "finish MALFORMED_FUNCTION_CALL"
		} else {
			s.calls = append([]call{{"", "test-tool", map[bool]string{true: "{}", false: `{"value":"Spark`}[c.api == messages]}}, s.calls...)
		}
	},
	// A stream without output and without its finish is no answer (SPEC §9).
	"google-generatecontent.empty-content-only":         func(s *said, _ *caller) { s.err = errors.New("nothing was said") },
	"google-generatecontent.syn-usage-only-last-cached": func(s *said, _ *caller) { s.err = errors.New("the stream is cut") },
}

// asks tells whether a client's call in a shape is one of the test. The formats
// that are no server-sent events have calls of their own for each shape.
func (r *replay) asks(c *caller, shape string) bool {
	return r.native != c.api && (r.media == "text/event-stream" || r.streamed == (shape == "stream")) && (r.media != "application/json" || r.provider.api != ollama)
}

// testReplays delivers each recording to each client of another format, in either
// shape: what the SDK gives is what the recording says.
func testReplays(t *testing.T, via side, h *headway, all []*replay) {
	for _, r := range all {
		for _, c := range callers {
			for _, shape := range []string{"stream", "whole"} {
				if !r.asks(c, shape) {
					continue
				}
				t.Run(strings.Join([]string{r.name, c.api, shape}, "/"), func(t *testing.T) {
					t.Parallel()
					r.hold(t, via, h, c, shape == "stream")
				})
			}
		}
	}
}

func (r *replay) hold(t *testing.T, via side, h *headway, c *caller, streamed bool) {
	want := r.meaning(t, c)
	shape := map[bool]string{true: "stream", false: "whole"}[streamed]
	a := ask{turns: []turn{asks}, max: 16000, effort: "medium"}
	got := c.call(via, t.Context(), strings.Join([]string{"wire", r.name, c.api, shape}, "."), &a, streamed)
	if others[r.name] != nil {
		others[r.name](want, c)
	}
	if want.err != nil {
		if got.err == nil {
			t.Fatalf("the call ends well, the recording with %v", want.err)
		}
		if streamed && got.text+got.refusal != want.text+want.refusal && statusOf(got.err) < 400 {
			t.Errorf("before the error the SDK gives %q, the recording %q", got.text, want.text)
		}
		return
	}
	if got.err != nil || got.trouble != "" {
		t.Fatalf("the call ends with %v; %s", got.err, got.trouble)
	}
	sameLines(t, "the SDK gives", got.spokenLines(c), want.spokenLines(c))
	if streamed == r.streamed {
		receipt := h.receipt(t, got.id)
		if receipt.held(t, r.label); receipt.Outcome != "settled" {
			t.Errorf("the receipt's outcome is %s: %s", receipt.Outcome, receipt.raw)
		}
	}
	if u := r.label.Usage; u != nil {
		for _, f := range []struct {
			what      string
			got       int64
			want      *int64
			otherwise []int64
		}{{"input", got.usage.in, u.AllInput, nil}, {"output", got.usage.out, u.AllOutput, u.AllOutputAlso}, {"cached", got.usage.read, u.Cached, nil}, {"reasoning", got.usage.thought, u.Reasoning, nil}} {
			if f.want != nil && f.got != *f.want && !slices.Contains(f.otherwise, f.got) {
				t.Errorf("the SDK gives %d tokens of %s, labelled %d", f.got, f.what, *f.want)
			}
		}
	}
}

// spokenLines is what an answer says, in one spelling for all formats: a refusal
// is text where there is no other place for it, several answers are one where a
// format has no more.
func (r *said) spokenLines(c *caller) []string {
	words := r.text + r.refusal
	if c.api == responses || c.api == messages {
		words, _, _ = strings.Cut(words, "|")
	}
	words = strings.TrimSuffix(words, "|")
	finish := strings.Replace(r.finish, "refusal", "filter", 1)
	if r.refusal != "" {
		finish = "filter"
	}
	lines := []string{"text " + quote(words), "reasoning " + quote(strings.Join(strings.Fields(r.reasoning), " ")), "finish " + finish}
	for _, x := range r.calls {
		lines = append(lines, "call "+x.name+" "+plain(x.args))
	}
	return lines
}

// meaning is what a recording says, read without Headway: by the official SDK of
// its format where there is one.
func (r *replay) meaning(t *testing.T, c *caller) *said {
	t.Helper()
	switch r.provider.api {
	case chat:
		return r.chatMeaning(t, c)
	case converse:
		return r.converseMeaning(t)
	case ollama:
		return r.ollamaMeaning(t)
	}
	api, body, media := r.provider.api, r.body, r.media
	if api == invoke {
		api, media = messages, "text/event-stream"
		body = nil
		for _, f := range awsFrames(t, r.body) {
			var inner struct{ Bytes []byte }
			_ = json.Unmarshal(f.payload, &inner)
			event := string(inner.Bytes)
			if f.kind == "exception" {
				event = `{"type":"error","error":{"type":"api_error","message":"an exception"}}`
			}
			body = append(body, withNames([]string{event})[0]...)
		}
	}
	up := startUpstream(t, map[string]*answer{r.name: {api: api, status: 200, header: map[string]string{"Content-Type": media}, chunks: []chunk{{0, body}}}})
	i := slices.IndexFunc(callers, func(c *caller) bool { return c.api == api })
	s := callers[i].call(side{up.URL, providerKey, "", nil}, t.Context(), rawModel+r.name, &ask{turns: []turn{asks}, max: 1000}, r.streamed)
	if s.events != nil && s.text+s.refusal == "" && len(s.calls) == 0 { // the end does not repeat what was said
		s.text, s.reasoning, s.refusal = s.events.text, s.events.reasoning, s.events.refusal
	}
	return s
}

// chatMeaning puts chunks together by the rules of the format, see assembled.
func (r *replay) chatMeaning(t *testing.T, to *caller) *said {
	t.Helper()
	var events []string
	s, over := &said{}, !r.streamed
	if !r.streamed {
		events = []string{strings.ReplaceAll(string(r.body), `"message"`, `"delta"`)}
	}
	for _, e := range strings.Split(strings.ReplaceAll(string(r.body), "\r\n", "\n"), "\n\n") {
		var data []string
		for line := range strings.Lines(e) {
			if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data:"); ok {
				data = append(data, strings.TrimPrefix(text, " "))
			}
		}
		all := strings.Join(data, "\n")
		over = over || strings.TrimSpace(all) == "[DONE]" || strings.Contains(all, `"finish_reason":"`) || strings.Contains(all, `"finish_reason": "`)
		if strings.Contains(all, `"error":{`) || strings.Contains(all, `"error": {`) {
			s.err = fmt.Errorf("%s", all)
		}
		if r.streamed && strings.Contains(all, `"choices"`) && json.Valid([]byte(all)) &&
			(to.fields["n"] != "" || !strings.Contains(all, `"choices":[{"index":1`)) { // a client of one answer gets the first
			events = append(events, all)
		}
	}
	if !over {
		s.err = fmt.Errorf("the stream is cut")
	}
	h := assembled(t, events)
	s.text, s.refusal, s.reasoning = h.Text, strings.Trim(h.Refusal, "|"), h.Reasoning
	for _, e := range events { // Mistral's parts
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content []struct{ Thinking []struct{ Text string } }
				}
			}
		}
		if json.Unmarshal([]byte(e), &chunk) == nil {
			for _, c := range chunk.Choices {
				for _, p := range c.Delta.Content {
					for _, t := range p.Thinking {
						s.reasoning += t.Text
					}
				}
			}
		}
	}
	for _, x := range h.Tools {
		s.calls = append(s.calls, call{"", x.Name, x.Arguments})
	}
	first, _, _ := strings.Cut(h.Finish, "|")
	if s.finish = back(chatFinish, first); first == "" {
		s.finish = "stop" // Snowflake never says
	}
	return s
}

// awsMessage is one message of an event stream.
type awsMessage struct {
	kind, name string
	payload    []byte
}

func awsFrames(t *testing.T, body []byte) (all []awsMessage) {
	t.Helper()
	for len(body) >= 16 {
		n, headers := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		if int(n) > len(body) {
			break // cut
		}
		m := awsMessage{payload: body[12+headers : n-4]}
		for h := body[12 : 12+headers]; len(h) > 0; {
			name := string(h[1 : 1+h[0]])
			h = h[2+h[0]:]
			size := binary.BigEndian.Uint16(h)
			value := string(h[2 : 2+size])
			h = h[2+size:]
			switch name {
			case ":message-type":
				m.kind = value
			case ":event-type", ":exception-type":
				m.name = value
			}
		}
		all, body = append(all, m), body[n:]
	}
	return all
}

// converseMeaning reads Converse's answers by hand.
func (r *replay) converseMeaning(t *testing.T) *said {
	t.Helper()
	type block struct {
		Text    string
		ToolUse *struct {
			Name      string
			ToolUseID string
			Type      string
			Input     json.RawMessage
		}
		Reasoning *struct {
			Text          string
			ReasoningText struct{ Text string }
		} `json:"reasoningContent"`
	}
	s, stop := &said{}, ""
	tools := map[int]int{} // calls by the index of their block
	take := func(i int, b block) {
		s.text += b.Text
		if b.Reasoning != nil {
			s.reasoning += b.Reasoning.Text + b.Reasoning.ReasoningText.Text
		}
		if u := b.ToolUse; u != nil && u.Type != "server_tool_use" {
			if u.Name != "" {
				s.calls = append(s.calls, call{u.ToolUseID, u.Name, ""})
				tools[i] = len(s.calls)
			}
			var piece string
			if json.Unmarshal(u.Input, &piece) != nil {
				piece = string(u.Input)
			}
			if n := tools[i]; n > 0 {
				s.calls[n-1].args += piece
			}
		}
	}
	if !r.streamed {
		var whole struct {
			Output struct {
				Message struct{ Content []block }
			}
			StopReason string
		}
		if err := json.Unmarshal(r.body, &whole); err != nil {
			t.Fatal(err)
		}
		for i, b := range whole.Output.Message.Content {
			take(i, b)
		}
		stop = whole.StopReason
	}
	for _, f := range awsFrames(t, r.body) {
		if !r.streamed {
			break
		}
		var e struct {
			Index        int `json:"contentBlockIndex"`
			Start, Delta block
			StopReason   string
		}
		if f.kind == "exception" {
			s.err = fmt.Errorf("%s", f.payload)
			continue
		}
		if err := json.Unmarshal(f.payload, &e); err != nil {
			t.Fatal(err)
		}
		take(e.Index, e.Start)
		take(e.Index, e.Delta)
		if e.StopReason != "" {
			stop = e.StopReason
		}
	}
	for i := range s.calls {
		if s.calls[i].args == "" {
			s.calls[i].args = "{}"
		}
	}
	s.finish = map[string]string{"stop_sequence": "stop", "guardrail_intervened": "filter"}[stop]
	if s.finish == "" {
		s.finish = back(converseFinish, stop)
	}
	return s
}

// ollamaMeaning reads Ollama's lines by hand.
func (r *replay) ollamaMeaning(t *testing.T) *said {
	t.Helper()
	s := &said{}
	for _, line := range bytes.Split(r.body, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e struct {
			Message struct {
				Content, Thinking string
				ToolCalls         []struct {
					Function struct {
						Name      string
						Arguments json.RawMessage
					}
				} `json:"tool_calls"`
			}
			Response   string // of its older call
			Error      string
			DoneReason string `json:"done_reason"`
			Done       bool
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		s.text += e.Message.Content + e.Response
		s.reasoning += e.Message.Thinking
		for _, c := range e.Message.ToolCalls {
			s.calls = append(s.calls, call{"", c.Function.Name, string(c.Function.Arguments)})
		}
		if e.Error != "" {
			s.err = fmt.Errorf("%s", e.Error)
		}
		if e.Done {
			s.finish = "stop"
			if e.DoneReason == "length" {
				s.finish = "length"
			}
			if len(s.calls) > 0 {
				s.finish = "tools"
			}
		}
	}
	return s
}

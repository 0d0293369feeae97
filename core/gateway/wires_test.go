package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"headway/core"
)

// A wire is a format as a client and a provider of it speak: what a test says in
// it, and how its official SDKs read what comes back.
type wire struct {
	name     string
	format   core.Format
	path     string // of an unstreamed call
	stream   string // of a streamed one
	ask      func(prompt string, streamed bool) string
	opening  string // the frames before the first output
	says     func(text string) string
	ending   string // finish, usage (8 in, 1 out), end
	boom     string // the format's own error in a stream; its message is "boom"
	whole    func(text string) string
	event    string // how an event of the stream begins
	quota    string // the error body of an exhausted quota, with its status
	noCredit int
}

func named(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// wires are the four formats, Google's twice: as events and as one array.
func wires() []wire {
	chat := wire{name: "chat", format: core.FormatOpenAI, path: "/v1/chat/completions", stream: "/v1/chat/completions",
		ask: func(prompt string, streamed bool) string {
			return fmt.Sprintf(`{"model":"mini","messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, streamed)
		},
		opening: role, says: text, ending: finish + usage(8, 1) + done,
		boom:  `data: {"error":{"message":"boom","type":"server_error","param":null,"code":null}}` + "\n\n",
		whole: func(s string) string { return whole(s, 8, 1) }, event: "data: ",
		quota: `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, noCredit: 429,
	}
	response := func(status, output, usage string) string {
		return `{"id":"resp_1","object":"response","created_at":1,"status":"` + status + `","error":null,"incomplete_details":null,"model":"mini","output":[` + output + `],"usage":` + usage + `}`
	}
	const responseUsage = `{"input_tokens":8,"output_tokens":1,"total_tokens":9}`
	message := func(s string) string {
		return fmt.Sprintf(`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, s)
	}
	responses := wire{name: "responses", format: core.FormatResponses, path: "/v1/responses", stream: "/v1/responses",
		ask: func(prompt string, streamed bool) string {
			return fmt.Sprintf(`{"model":"mini","input":%q,"stream":%t}`, prompt, streamed)
		},
		opening: named("response.created", `{"type":"response.created","sequence_number":0,"response":`+response("in_progress", "", "null")+`}`) +
			named("response.output_item.added", `{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}`) +
			named("response.content_part.added", `{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`),
		says: func(s string) string {
			return named("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":%q}`, s))
		},
		ending: named("response.completed", `{"type":"response.completed","sequence_number":4,"response":`+response("completed", message("tea"), responseUsage)+`}`),
		boom:   named("error", `{"type":"error","sequence_number":4,"code":"server_error","message":"boom","param":null}`),
		whole:  func(s string) string { return response("completed", message(s), responseUsage) }, event: "event: response.output_text.delta\ndata: ",
		quota: chat.quota, noCredit: 429,
	}
	messages := wire{name: "messages", format: core.FormatAnthropic, path: "/v1/messages", stream: "/v1/messages",
		ask: func(prompt string, streamed bool) string {
			return fmt.Sprintf(`{"model":"mini","max_tokens":100,"messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, streamed)
		},
		opening: named("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"mini","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":1}}}`) +
			named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		says: func(s string) string {
			return named("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, s))
		},
		ending: named("content_block_stop", `{"type":"content_block_stop","index":0}`) +
			named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}}`) + named("message_stop", `{"type":"message_stop"}`),
		boom: named("error", `{"type":"error","error":{"type":"api_error","message":"boom"}}`),
		whole: func(s string) string {
			return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"mini","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":8,"output_tokens":1}}`, s)
		}, event: "event: content_block_delta\ndata: ",
		quota: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, noCredit: 400,
	}
	piece := func(parts, more string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + more + `}],"modelVersion":"mini"`
	}
	const googleUsage = `,"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":1,"totalTokenCount":9}}`
	says := func(s string) string { return piece(fmt.Sprintf(`{"text":%q}`, s), "") + "}" }
	const googleBoom = `{"error":{"code":500,"message":"boom","status":"INTERNAL"}}`
	google := wire{name: "google", format: core.FormatGoogle, path: "/v1beta/models/mini:generateContent", stream: "/v1beta/models/mini:streamGenerateContent?alt=sse",
		ask: func(prompt string, _ bool) string {
			return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, prompt)
		},
		opening: "data: " + piece(`{"text":""}`, "") + "}\r\n\r\n",
		says:    func(s string) string { return "data: " + says(s) + "\r\n\r\n" },
		ending:  "data: " + piece("", `,"finishReason":"STOP"`) + googleUsage + "\r\n\r\n",
		boom:    "data: " + googleBoom + "\r\n\r\n",
		whole: func(s string) string {
			return piece(fmt.Sprintf(`{"text":%q}`, s), `,"finishReason":"STOP"`) + googleUsage
		}, event: "data: ",
		quota: `{"error":{"code":402,"message":"Billing is off.","status":"FAILED_PRECONDITION"}}`, noCredit: 402,
	}
	array := google
	array.name, array.stream, array.event = "google array", "/v1beta/models/mini:streamGenerateContent", ",\n"
	array.opening = "[" + piece(`{"text":""}`, "") + "}"
	array.says = func(s string) string { return ",\r\n" + says(s) }
	array.ending = ",\r\n" + piece("", `,"finishReason":"STOP"`) + googleUsage + "\n]"
	array.boom = ",\r\n" + googleBoom + "\n]"
	return []wire{chat, responses, messages, google, array}
}

// offer is an upstream of the format that plays a script.
func (w wire) offer(name string, script ...step) offer {
	return offer{name: name, format: w.format, script: script}
}

// head is that of a stream of the format.
func (w wire) head() string {
	if w.name == "google array" {
		return strings.Replace(streamHead, "text/event-stream", "application/json; charset=UTF-8", 1)
	}
	return streamHead
}

// good answers any call in the format: a stream to a call for one.
func (w wire) good(name, says string, streamed bool) offer {
	if !streamed {
		return w.offer(name, step{10 * ms, status(200, "", w.whole(says))})
	}
	return w.offer(name, step{10 * ms, w.head() + chunk(w.opening+w.says(says))}, step{20 * ms, chunk(w.ending) + lastChunk})
}

// post makes a call.
func (w wire) post(r *rig, streamed bool) answer {
	path := w.path
	if streamed {
		path = w.stream
	}
	return r.post(path, w.ask(prompt, streamed), "anthropic-version", "2023-06-01")
}

// prompt is looked for wherever it must not be.
const prompt = "marked-prompt-8c1f"

// read is a streamed answer as the format's SDKs see it.
type read struct {
	text   string
	ended  bool   // with the format's own end
	failed string // the message of an error
}

// sdk reads a stream; an error is what the SDK cannot read.
func (w wire) sdk(body string) (got read, err error) {
	if w.name == "google array" {
		return w.sdkArray(body)
	}
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(body, "\ufeff"))
	for _, block := range strings.Split(lines, "\n\n") {
		var name, data string
		for _, line := range strings.Split(block, "\n") {
			field, v, _ := strings.Cut(line, ":")
			v = strings.TrimPrefix(v, " ")
			switch field {
			case "event":
				name = v
			case "data":
				data += v + "\n"
			}
			if json.Valid([]byte(line)) && strings.HasPrefix(line, "{") {
				return got, fmt.Errorf("what is no event: %q", line)
			}
		}
		data = strings.TrimSuffix(data, "\n")
		switch {
		case data == "":
			continue
		case strings.TrimSpace(data) == "[DONE]":
			got.ended = true
			continue
		case got.failed != "":
			return got, nil // the SDK has thrown
		}
		if err := w.sdkEvent(&got, name, []byte(data)); err != nil {
			return got, err
		}
	}
	return got, nil
}

func (w wire) sdkEvent(got *read, name string, data []byte) error {
	// Anthropic's SDKs go by the event's name.
	if w.format == core.FormatAnthropic && !slices.Contains([]string{"message_start", "message_delta", "message_stop",
		"content_block_start", "content_block_delta", "content_block_stop", "error"}, name) {
		return nil
	}
	var e struct {
		Type           string
		Error          *struct{ Message string }
		Message, Delta json.RawMessage
		Choices        []struct{ Delta struct{ Content string } }
		Candidates     []struct {
			FinishReason string
			Content      struct{ Parts []struct{ Text string } }
		}
	}
	if err := json.Unmarshal(data, &e); err != nil && !json.Valid(data) {
		return fmt.Errorf("%w in %.200q", err, data)
	}
	switch {
	case e.Error != nil:
		got.failed = e.Error.Message
	case e.Type == "error":
		got.failed = string(e.Message)
	case e.Type == "response.failed":
		got.failed = "response.failed"
	case e.Type == "response.completed", e.Type == "message_stop":
		got.ended = true
	case e.Delta == nil:
	case e.Type == "response.output_text.delta":
		var s string
		if err := json.Unmarshal(e.Delta, &s); err != nil {
			return err
		}
		got.text += s
	case e.Type == "content_block_delta":
		var d struct{ Text string }
		if err := json.Unmarshal(e.Delta, &d); err != nil {
			return err
		}
		got.text += d.Text
	}
	for _, c := range e.Choices {
		got.text += c.Delta.Content
	}
	for _, c := range e.Candidates {
		for _, p := range c.Content.Parts {
			got.text += p.Text
		}
		got.ended = got.ended || c.FinishReason != ""
	}
	return nil
}

func (w wire) sdkArray(body string) (got read, err error) {
	d := json.NewDecoder(strings.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return got, fmt.Errorf("no array: %v, %v", t, err)
	}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return got, err
		}
		if err := w.sdkEvent(&got, "", raw); err != nil {
			return got, err
		}
	}
	if _, err := d.Token(); err != nil {
		return got, fmt.Errorf("the array does not end: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return got, fmt.Errorf("more behind the array: %v", err)
	}
	return got, nil
}

// failure reads an unstreamed error as the format's SDKs do, and gives its
// message.
func (w wire) failure(t *testing.T, a answer) string {
	t.Helper()
	return failure(t, w.format, a.status, a.header.Get("Content-Type"), a.body)
}

func failure(t *testing.T, format core.Format, status int, kind, body string) string {
	t.Helper()
	if !strings.HasPrefix(kind, "application/json") {
		t.Errorf("the error's Content-Type is %q", kind)
	}
	var e struct {
		Type  string
		Error struct {
			Type, Message, Status string
			Code                  json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" {
		t.Errorf("not an error that an SDK reads: %v in %q", err, body)
		return ""
	}
	switch format {
	case core.FormatAnthropic:
		known := []string{"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", "request_too_large",
			"rate_limit_error", "api_error", "overloaded_error", "timeout_error"}
		if e.Type != "error" || !slices.Contains(known, e.Error.Type) {
			t.Errorf("not Anthropic's shape: %s", body)
		}
	case core.FormatGoogle:
		if string(e.Error.Code) != fmt.Sprint(status) || e.Error.Status == "" {
			t.Errorf("not Google's shape for %d: %s", status, body)
		}
	default:
		if e.Error.Type == "" || e.Error.Code == nil || e.Type != "" {
			t.Errorf("not OpenAI's shape: %s", body)
		}
	}
	return e.Error.Message
}

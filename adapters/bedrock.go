package adapters

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"

	"headway/core"
)

// Bedrock speaks Anthropic's Messages as Amazon Bedrock serves them by
// InvokeModel: the model is in the path, the version and the beta flags of
// Anthropic's API are in the body, and a stream comes in AWS's binary messages.
type Bedrock struct{ AWS *AWS }

// Format is bedrock.
func (Bedrock) Format() core.Format { return core.FormatBedrock }

const (
	bedrockVersion = "bedrock-2023-05-31"
	// bedrockTier is Anthropic's own choice of a queue.
	bedrockTier = "service_tier"
)

// bedrockBetas are the beta flags that Bedrock knows, by its own reference and by
// what it was seen to take. Any other makes it refuse the call, and agents send
// many that do without.
var bedrockBetas = []string{
	"compact-2026-01-12", "computer-use-2024-10-22", "computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07",
	"context-management-2025-06-27", "dev-full-thinking-2025-05-14", "effort-2025-11-24", "fine-grained-tool-streaming-2025-05-14",
	"interleaved-thinking-2025-05-14", "output-128k-2025-02-19", "token-efficient-tools-2025-02-19", "tool-examples-2025-10-29",
	"tool-search-tool-2025-10-19",
}

// Build makes the request for a provider of format bedrock. Errors are Internal:
// the provider's settings cannot be used, or no credential was found; Invalid
// where content has what the format cannot say.
func (b Bedrock) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	body, dropped, err := job.Body, []string(nil), error(nil)
	if content != nil {
		if err := dataAlone(content); err != nil {
			return nil, nil, err
		}
		if body, dropped, err = (Anthropic{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
	}
	body, err = bedrockBody(body, betas(head, offer.Provider, &dropped), &dropped)
	if err != nil {
		return nil, nil, err
	}
	action := "invoke"
	switch {
	case job.Operation == core.OpCountTokens:
		action, body = "count-tokens", bedrockCount(body)
	case job.Streamed:
		action = "invoke-with-response-stream"
	}
	req, err := b.AWS.request(ctx, head, offer, action, body)
	return req, dropped, err
}

// dataAlone refuses images and documents by their address, which a Claude takes
// from Anthropic's own servers alone.
func dataAlone(c *core.Content) error {
	for i := range c.Messages {
		m := &c.Messages[i]
		for j := range m.Parts {
			addressed := len(m.Parts[j].Media.URL) > 0
			for k := range m.Parts[j].Parts {
				addressed = addressed || len(m.Parts[j].Parts[k].Media.URL) > 0
			}
			if addressed {
				return cannot(partAt(c, m, j), "takes images and documents by their data, not by an address")
			}
		}
	}
	return nil
}

// betas are the beta flags of a call: the provider's own, as they are, where it
// has the header; else those of the client that Bedrock knows.
func betas(head core.RequestHead, p *core.Provider, dropped *[]string) (flags []string) {
	for name, v := range p.Headers {
		if strings.EqualFold(name, "Anthropic-Beta") {
			return betaFlags(v.Reveal())
		}
	}
	for _, v := range head.Header["Anthropic-Beta"] {
		for _, flag := range betaFlags(v) {
			switch {
			case !slices.Contains(bedrockBetas, flag):
				drop(dropped, "anthropic-beta:"+flag)
			case !slices.Contains(flags, flag):
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

func betaFlags(header string) (flags []string) {
	for flag := range strings.SplitSeq(header, ",") {
		if flag = strings.TrimSpace(flag); flag != "" {
			flags = append(flags, flag)
		}
	}
	return flags
}

// bedrockBody is a body of Messages as Bedrock takes it: with the version and the
// beta flags, also those of the body's own, without the model, the stream's
// switch and what Bedrock refuses and an answer means the same without. All else
// stays as it came.
func bedrockBody(body []byte, flags []string, dropped *[]string) ([]byte, error) {
	c := walk(body)
	if !c.object() {
		return nil, core.Errorf(core.Internal, "the request is not a JSON object")
	}
	open := c.i
	var edits []edit
	joint := "" // before the first member, where it stays
	for {
		from := c.i
		key, ok := c.key()
		if !ok {
			break
		}
		name := string(key)
		switch name {
		case "anthropic_beta":
			flags = append(flags, bedrockFlags(&c)...)
		case "model", "stream", "anthropic_version", bedrockTier:
			c.skip()
			if name == bedrockTier {
				drop(dropped, name)
			}
		default:
			c.skip()
			if from == open {
				joint = ","
			}
			continue
		}
		edits = append(edits, edit{core.Span{From: from, To: c.i}, ""})
	}
	if err := c.end(); err != nil {
		return nil, core.Errorf(core.Internal, "the request is not JSON")
	}
	var t text
	t.open('{')
	t.key("anthropic_version")
	t.str(bedrockVersion)
	if len(flags) > 0 {
		t.member("anthropic_beta", encode(flags))
	}
	t.b = append(t.b, joint...)
	return splice(body, append([]edit{{core.Span{From: open, To: open}, string(t.b[1:])}}, edits...)), nil
}

// bedrockFlags reads the beta flags that a body already has.
func bedrockFlags(c *cursor) (flags []string) {
	if !c.array() {
		c.skip()
		return nil
	}
	for c.element() {
		if flag := c.word(); flag != "" {
			flags = append(flags, flag)
		}
	}
	return flags
}

// bedrockCount is the request for a count of what a body holds, which must be one
// that could be answered.
func bedrockCount(body []byte) []byte {
	if !valueIn(body, "max_tokens").Present() {
		body = splice(body, []edit{{core.Span{From: 1, To: 1}, `"max_tokens":1,`}})
	}
	var t text
	t.open('{')
	t.key("input")
	t.open('{')
	t.key("invokeModel")
	t.open('{')
	t.key("body")
	t.inner(base64.StdEncoding.AppendEncode(nil, body))
	t.b = append(t.b, "}}}"...)
	return t.b
}

// Reader reads an answer of InvokeModel.
func (Bedrock) Reader(job *core.Job, _ *core.Offer) core.Reader {
	return &bedrockReader{messagesReader: messagesReader{op: job.Operation}}
}

// bedrockReader reads Anthropic's events out of AWS's messages. For a client of
// Anthropic's format it makes of each the event that Anthropic would have sent.
type bedrockReader struct {
	messagesReader
	event, sent []byte // of the message under way
}

// Split is AWS's messages.
func (r *bedrockReader) Split() core.Splitting { return core.SplitAWS }

// Read looks at one message. What it holds is a frame of Anthropic's afterwards.
func (r *bedrockReader) Read(f *core.Frame) core.Mark {
	if mark := awsFault(f, &r.answer); mark != 0 {
		return mark
	}
	if f.Name != "chunk" {
		f.Raw, f.Data = nil, nil
		return 0
	}
	if !r.unpack(f.Data) {
		f.Raw, f.Data = nil, nil
		return core.MarkBroken
	}
	f.Name = messagesName(r.event)
	r.sent = r.sent[:0]
	if f.Name != "" {
		r.sent = append(append(append(r.sent, "event: "...), f.Name...), '\n')
	}
	r.sent = append(r.sent, "data: "...)
	from := len(r.sent)
	r.sent = append(append(r.sent, r.event...), "\n\n"...)
	f.Raw, f.Data = r.sent, r.sent[from:len(r.sent)-2]
	return r.messagesReader.Read(f)
}

// unpack reads the event that a message holds in base64.
func (r *bedrockReader) unpack(data []byte) bool {
	var packed []byte
	c := walk(data)
	for key := range c.each {
		if string(key) == "bytes" {
			packed = textOf(&c)
		}
	}
	if c.end() != nil || len(packed) == 0 {
		return false
	}
	var err error
	if r.event, err = base64.StdEncoding.AppendDecode(r.event[:0], unescape(packed)); err != nil {
		return false
	}
	for i, ch := range r.event {
		if ch == '\n' || ch == '\r' { // between the parts of a value; sent so it would end the line
			r.event[i] = ' '
		}
	}
	return true
}

// messagesName is the name of one of Anthropic's events, as it is sent before it:
// its type.
func messagesName(event []byte) string {
	c := walk(event)
	if !c.object() {
		return ""
	}
	for key := range c.rest {
		if string(key) != "type" {
			continue
		}
		switch name := textOf(&c); string(name) {
		case "content_block_delta":
			return "content_block_delta"
		default:
			if bytes.ContainsAny(name, "\\") { // no name of an event
				return ""
			}
			return string(name)
		}
	}
	return ""
}

// ReadWhole looks at an unstreamed message as Anthropic's, or at a count of
// tokens.
func (r *bedrockReader) ReadWhole(body []byte) error {
	if r.op != core.OpCountTokens {
		return r.messagesReader.ReadWhole(body)
	}
	c := walk(body)
	count := core.Opt[int64]{}
	for key := range c.each {
		if string(key) == "inputTokens" {
			count = c.tokens()
		}
	}
	if c.end() != nil || !count.OK {
		return errors.New("the answer holds no count of tokens")
	}
	var t text
	t.open('{')
	t.count("input_tokens", count)
	t.close('}')
	r.answer.Repaired = t.b
	return nil
}

// ReadError reads an error of AWS's.
func (r *bedrockReader) ReadError(status int, body []byte) core.UpstreamError {
	return awsError(status, "", body)
}

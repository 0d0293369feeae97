package adapters

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"headway/core"
)

// Anthropic speaks Anthropic's Messages, and counts tokens by its path.
type Anthropic struct{}

// Format is anthropic.
func (Anthropic) Format() core.Format { return core.FormatAnthropic }

// messagesFields are the top-level fields that Parse looks at; no other may
// differ from one of them in letter case alone, and none may come twice.
var messagesFields = []string{
	"model", "messages", "max_tokens", "stream", "system", "tools", "output_config", "output_format",
	"temperature", "top_p", "top_k", "stop_sequences", "metadata", "thinking", "tool_choice",
	"models", "mcp_servers", "container",
}

// countTokens is the end of the path that counts in place of answering.
const countTokens = "/count_tokens"

// messagesRequest is a body while it is parsed.
type messagesRequest struct{ request }

// Parse reads a request by the rules of Anthropic's reference. What it does not
// know it leaves to the provider: a message may have any role, as agents send
// "system" between turns, and max_tokens may be 0, which fills the provider's
// cache and writes nothing. Errors are Invalid and name the field.
func (Anthropic) Parse(head core.RequestHead, body []byte) (*core.Job, error) {
	job := &core.Job{Format: core.FormatAnthropic, Operation: core.OpGenerate, AskedUsage: true, Body: body}
	if strings.HasSuffix(head.Path, countTokens) {
		job.Operation = core.OpCountTokens
	}
	r := messagesRequest{request{cursor: walk(body), job: job}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return job, nil
}

func (r *messagesRequest) read() *core.Error {
	if err := r.members(messagesFields, r.field); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	required := messagesFields[:3]
	if r.job.Operation == core.OpCountTokens {
		required = messagesFields[:2]
	}
	for i, name := range required {
		if r.seen&(1<<i) == 0 {
			return core.Field(name, "required")
		}
	}
	return nil
}

// field consumes the value of one known field.
func (r *messagesRequest) field(name string) (err *core.Error) {
	switch name {
	case "model":
		return r.name()
	case "messages":
		return r.messages()
	case "max_tokens":
		if r.job.MaxOutput, err = r.count(name, 0); err == nil && !r.job.MaxOutput.OK && r.job.Operation.Generates() {
			return core.Field(name, "required")
		}
	case "stream":
		r.job.Streamed, err = r.flag(name)
		r.job.Streamed = r.job.Streamed && r.job.Operation.Generates()
	case "system":
		if r.null() {
			return nil
		}
		if j, field, must := r.content(); must != "" {
			return r.wrong(blockPath(name, j, field), must)
		}
	case "tools":
		return r.tools(name)
	case "temperature", "top_p", "top_k":
		return r.real(name)
	case "output_config":
		if r.peek() == '{' {
			return r.outputConfig()
		}
		return r.shape(name, '{', "must be an object")
	case "output_format":
		if r.peek() == '{' {
			r.schema()
			return nil
		}
		return r.shape(name, '{', "must be an object")
	case "metadata", "thinking", "tool_choice":
		return r.shape(name, '{', "must be an object")
	case "stop_sequences":
		return r.shape(name, '[', "must be a list of strings")
	case "models":
		return r.oneModel(name)
	case "mcp_servers", "container":
		r.kept()
	}
	return err
}

// shape consumes a value that begins with the bracket given; null is absent.
func (r *request) shape(field string, bracket byte, must string) *core.Error {
	if ch := r.peek(); ch != bracket && ch != 'n' {
		return r.wrong(field, must)
	}
	r.skip()
	return nil
}

// schema consumes the form that the answer is to have, which the model is told.
func (r *request) schema() {
	r.job.Features |= core.FeatureSchema
	r.raw()
}

func (r *messagesRequest) outputConfig() *core.Error {
	for key := range r.each {
		if string(key) == "format" && r.peek() == '{' {
			r.schema()
		}
	}
	return nil
}

// messages consumes the list of messages.
func (r *messagesRequest) messages() *core.Error {
	if !r.array() {
		return r.wrong("messages", "must be a list of messages")
	}
	n := 0
	for ; r.element(); n++ {
		if !r.object() {
			return r.wrong(fmt.Sprintf("messages[%d]", n), "must be an object")
		}
		if err := r.message(n); err != nil {
			return err
		}
	}
	if n == 0 {
		return r.wrong("messages", "must hold at least one message")
	}
	return nil
}

// message consumes one message, whose brace is behind it.
func (r *messagesRequest) message(i int) *core.Error {
	var role, content bool
	for key := range r.rest {
		switch string(key) {
		case "role":
			raw, ok := r.text()
			if !ok || len(raw) == 0 {
				return r.wrong(fmt.Sprintf("messages[%d].role", i), "must be a string that is not empty")
			}
			r.job.PromptBytes += len(raw)
			role = true
		case "content":
			if j, field, must := r.content(); must != "" {
				return r.wrong(blockPath(fmt.Sprintf("messages[%d].content", i), j, field), must)
			}
			content = true
		}
	}
	switch {
	case !role:
		return r.wrong(fmt.Sprintf("messages[%d].role", i), "required")
	case !content:
		return r.wrong(fmt.Sprintf("messages[%d].content", i), "required")
	}
	return nil
}

// blockPath names a field of a content block; j is -1 for the content itself.
func blockPath(path string, j int, field string) string {
	if j >= 0 {
		path = fmt.Sprintf("%s[%d]", path, j)
	}
	if field != "" {
		path += "." + field
	}
	return path
}

// content consumes a text or a list of blocks, and gives the block and field at
// fault.
func (r *messagesRequest) content() (j int, field, must string) {
	if raw, ok := r.text(); ok {
		r.said(raw)
		return 0, "", ""
	}
	if !r.array() {
		return -1, "", "must be a string or a list of blocks"
	}
	for ; r.element(); j++ {
		if r.peek() != '{' {
			return j, "", "must be an object"
		}
		if !r.block() {
			return j, "type", "must be a string that is not empty"
		}
	}
	return 0, "", ""
}

// block consumes one content block and counts what a model reads of it; false
// where it has no type.
func (r *messagesRequest) block() bool {
	var kind []byte
	var file bool
	for key := range r.each {
		switch string(key) {
		case "type":
			kind = r.written()
			switch string(kind) {
			case "image":
				r.job.Features |= core.FeatureImages
			case "document":
				r.job.Features |= core.FeatureDocuments
			}
		case "source":
			file = !r.source()
		case "content":
			r.inner()
		case "text":
			r.words()
		case "id", "tool_use_id", "signature", "cache_control", "citations", "is_error", "caller":
			r.skip() // not for the model to read
		default:
			r.prose()
		}
	}
	r.job.Beyond = r.job.Beyond || file && string(kind) != "image" || string(kind) == "container_upload"
	return len(kind) > 0
}

// words consumes the text of a block. One that is for Anthropic's accounts and
// another one in each call is not noted: no cache of a prompt begins with it.
func (r *messagesRequest) words() {
	switch raw, ok := r.text(); {
	case !ok:
		r.raw()
	case r.lead && bytes.HasPrefix(raw, []byte(billing)):
		r.job.PromptBytes += textLen(raw)
	case bytes.HasPrefix(raw, []byte(markdown+"data:image")): // a picture that a model made
		r.job.PromptBytes += mediaBytes
		r.job.Features |= core.FeatureImages
	default:
		r.said(raw)
	}
}

// inner consumes what is inside of a block, such as what a tool gave back: a
// text, blocks, or something of the block's own.
func (r *messagesRequest) inner() {
	if r.peek() != '[' {
		r.prose()
		return
	}
	for r.array(); r.element(); {
		if r.peek() == '{' {
			r.block()
		} else {
			r.prose()
		}
	}
}

// source consumes where an image or a document is: in place, as base64 or as
// text, or elsewhere. It tells whether it is there as text.
func (r *messagesRequest) source() (text bool) {
	if r.peek() != '{' {
		r.skip()
		return false
	}
	before, noted := r.job.PromptBytes, len(*r.noted())
	for key := range r.each {
		switch string(key) {
		case "type":
			switch string(r.written()) {
			case "text", "content":
				text = true
			}
		case "data":
			r.prose()
		case "content":
			r.inner()
		}
	}
	if !text {
		r.job.PromptBytes = before + mediaBytes
		*r.noted() = (*r.noted())[:noted]
	}
	return text
}

// written consumes a value and gives a string's text; nothing for anything else.
func (r *request) written() []byte {
	if raw, ok := r.text(); ok {
		return unescape(raw)
	}
	r.skip()
	return nil
}

// Build makes the request for a provider of format anthropic. Errors are
// Internal: the provider's address, key or headers cannot be used.
func (Anthropic) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	path := "/v1/messages"
	if job.Operation == core.OpCountTokens {
		path += countTokens
	}
	var body []byte
	var dropped []string
	if content != nil {
		var err error
		if body, dropped, err = (Anthropic{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
	} else {
		body = splice(job.Body, modelEdit(job, offer))
	}
	req, err := outgoing(ctx, head, offer, path, "X-Api-Key", "", body)
	if err != nil {
		return nil, nil, err
	}
	if req.Header.Get("Anthropic-Version") == "" {
		req.Header.Set("Anthropic-Version", "2023-06-01") // the API refuses a call without one
	}
	return req, dropped, nil
}

// Reader reads an answer of Anthropic's, or of a server that speaks its format.
func (Anthropic) Reader(job *core.Job, _ *core.Offer) core.Reader {
	return &messagesReader{op: job.Operation}
}

// Writer writes errors, messages and streams in Anthropic's format.
func (Anthropic) Writer(job *core.Job) core.Writer {
	return &messagesWriter{job: job}
}

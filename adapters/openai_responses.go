package adapters

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"headway/core"
)

// Responses speaks OpenAI's Responses API.
type Responses struct{}

// Format is openai-responses.
func (Responses) Format() core.Format { return core.FormatResponses }

// responsesFields are the top-level fields that Parse looks at, as chatFields.
var responsesFields = []string{
	"model", "input", "instructions", "stream", "stream_options", "max_output_tokens", "tools", "text", "temperature", "top_p", "background",
	"prompt", "previous_response_id", "conversation", "models", "plugins",
}

// responsesRequest is what Parse gathers of a body.
type responsesRequest struct {
	request
	options bool // stream_options holds an object
	context bool // the input is, or goes behind, something kept at the provider
	empty   bool // input is an empty list
}

// Parse reads a request by the rules of OpenAI's reference. What it does not
// know it leaves to the provider. Errors are Invalid and name the field;
// NotFound for a path of another API.
func (Responses) Parse(head core.RequestHead, body []byte) (*core.Job, error) {
	if !strings.HasSuffix(head.Path, "/responses") {
		return nil, core.Errorf(core.NotFound, "path %s: not one of the Responses API served here", head.Path)
	}
	job := &core.Job{Format: core.FormatResponses, Operation: core.OpGenerate, Body: body}
	r := responsesRequest{request: request{cursor: walk(body), job: job}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return job, nil
}

func (r *responsesRequest) read() *core.Error {
	if err := r.members(responsesFields, r.field); err != nil {
		return err
	}
	if err := r.finish(); err != nil {
		return err
	}
	switch {
	case r.seen&1 == 0:
		return core.Field("model", "required")
	case !r.context && r.seen&2 == 0:
		return core.Field("input", "required")
	case !r.context && r.empty:
		return core.Field("input", "must hold at least one item")
	case r.options && !r.job.Streamed:
		return core.Field("stream_options", "only allowed where stream is true")
	}
	return nil
}

// field consumes the value of one known field.
func (r *responsesRequest) field(name string) (err *core.Error) {
	switch name {
	case "model":
		err = r.name()
	case "input":
		err = r.input()
	case "instructions":
		if !r.null() {
			var raw []byte
			if raw, err = r.str(name); err == nil {
				r.said(raw)
			}
		}
	case "stream":
		r.job.Streamed, err = r.flag(name)
	case "stream_options":
		r.options = r.peek() == '{'
		err = r.shape(name, '{', "must be an object")
	case "max_output_tokens":
		r.job.MaxOutput, err = r.count(name, 1)
	case "tools":
		err = r.tools(name)
	case "text":
		err = r.textForm()
	case "temperature", "top_p":
		err = r.real(name)
	case "background":
		var background bool
		if background, err = r.flag(name); background {
			return core.Field(name, "must be false: an answer cannot be fetched later")
		}
	case "models":
		err = r.oneModel(name)
	case "plugins":
		r.kept()
	default: // prompt, previous_response_id, conversation
		if r.peek() != 'n' {
			r.context = true
			r.bind(name)
		}
		r.kept()
	}
	return err
}

// bind notes the first field that ties the call to its own format.
func (r *responsesRequest) bind(field string) {
	if r.job.Bound == "" {
		r.job.Bound = field
	}
}

// textForm consumes text, whose format is what chat calls response_format.
func (r *responsesRequest) textForm() *core.Error {
	if r.null() {
		return nil
	}
	if !r.object() {
		return r.wrong("text", "must be an object")
	}
	for key := range r.rest {
		if string(key) != "format" {
			r.skip()
		} else if err := r.format("text.format"); err != nil {
			return err
		}
	}
	return nil
}

// input consumes a text or a list of items.
func (r *responsesRequest) input() *core.Error {
	if r.null() {
		r.empty = true
		return nil
	}
	if raw, ok := r.text(); ok {
		r.said(raw)
		return nil
	}
	if !r.array() {
		return r.wrong("input", "must be a string or a list of items")
	}
	r.empty = true
	for i := 0; r.element(); i++ {
		r.empty = false
		if !r.object() {
			return r.wrong(fmt.Sprintf("input[%d]", i), "must be an object")
		}
		if err := r.item(i); err != nil {
			return err
		}
	}
	return nil
}

// item consumes one item of the input: a message, or one of many other types of
// which only the size matters.
func (r *responsesRequest) item(i int) *core.Error {
	var kind, role []byte
	var id core.Quoted
	var content, ok bool
	r.fileID = false
	for key := range r.rest {
		switch string(key) {
		case "type":
			if kind, ok = r.text(); !ok {
				return r.wrong(fmt.Sprintf("input[%d].type", i), "must be a string")
			}
		case "role":
			if role, ok = r.text(); !ok {
				return r.wrong(fmt.Sprintf("input[%d].role", i), "must be a string")
			}
			r.job.PromptBytes += len(role)
		case "content", "output", "summary":
			content = content || string(key) == "content" && r.peek() != 'n'
			if at, must := r.parts(); must != "" {
				return r.wrong(fmt.Sprintf("input[%d].%s%s", i, key, at), must)
			}
		case "id":
			id = r.quoted()
		case "call_id", "status":
			r.skip()
		case "result": // of image_generation_call
			if !r.null() {
				r.skip()
				r.job.PromptBytes += mediaBytes
				r.job.Features |= core.FeatureImages
			}
		default:
			r.prose()
		}
	}
	reference := string(kind) == "item_reference" && !reasoningID(id)
	if r.fileID || reference {
		r.bind(fmt.Sprintf("input[%d]", i))
	}
	r.job.Beyond = r.job.Beyond || reference
	switch {
	case len(kind) > 0 && string(kind) != "message":
		return nil
	case len(role) == 0:
		return r.wrong(fmt.Sprintf("input[%d].role", i), "required in a message")
	case !content:
		return r.wrong(fmt.Sprintf("input[%d].content", i), "required in a message")
	}
	return nil
}

// parts consumes a text, a list of parts, or one part (a screenshot), and says
// what is wrong where; must is "" where nothing is.
func (r *responsesRequest) parts() (at, must string) {
	switch r.peek() {
	case '"':
		r.prose()
		return "", ""
	case 'n':
		r.skip()
		return "", ""
	case '{':
		r.object()
		at, must = r.part()
		return "." + at, must
	}
	if !r.array() {
		return "", "must be a string or a list of parts"
	}
	for j := 0; r.element(); j++ {
		if !r.object() {
			return fmt.Sprintf("[%d]", j), "must be an object"
		}
		if field, must := r.part(); must != "" {
			return fmt.Sprintf("[%d].%s", j, field), must
		}
	}
	return "", ""
}

// Build makes the request for a provider of format openai-responses. Errors are
// Internal: the provider's address, key or headers cannot be used.
func (Responses) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	var body []byte
	var dropped []string
	if content != nil {
		var err error
		if body, dropped, err = (Responses{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
	} else {
		body = splice(job.Body, modelEdit(job, offer))
	}
	req, err := outgoing(ctx, head, offer, "/responses", "Authorization", "Bearer ", body)
	return req, dropped, err
}

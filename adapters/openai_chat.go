package adapters

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"headway/core"
)

// Chat speaks OpenAI's chat completions, and by their paths the old completions
// and embeddings. Servers that are compatible with them speak it too: what
// differs is read from their answers, or named by a provider's dialect.
type Chat struct{}

// Format is openai; llama-server's format is the same on the wire.
func (Chat) Format() core.Format { return core.FormatOpenAI }

// Parse reads a request by the rules of OpenAI's reference. What it does not
// know it leaves to the provider. Errors are Invalid and name the field;
// NotFound for a path of another API.
func (Chat) Parse(head core.RequestHead, body []byte) (*core.Job, error) {
	job := &core.Job{Format: core.FormatOpenAI, Operation: chatOperation(head.Path), Body: body}
	if job.Operation == "" {
		return nil, core.Errorf(core.NotFound, "path %s: not one of the OpenAI API served here", head.Path)
	}
	r := chatRequest{request: request{cursor: walk(body), job: job}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return job, nil
}

func chatOperation(path string) core.Operation {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return core.OpGenerate
	case strings.HasSuffix(path, "/completions"):
		return core.OpCompletions
	case strings.HasSuffix(path, "/embeddings"):
		return core.OpEmbeddings
	}
	return ""
}

// Build makes the request for a provider of format openai or llamacpp. Errors
// are Internal: the provider's address, key or headers cannot be used.
func (Chat) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	path := "/chat/completions"
	switch job.Operation {
	case core.OpCompletions:
		path = "/completions"
	case core.OpEmbeddings:
		path = "/embeddings"
	}
	if offer.Provider.Format == core.FormatLlamaCpp {
		path = "/v1" + path // its base_url has no path, and its own /completions is another API
	}
	var body []byte
	var dropped []string
	if content != nil {
		var err error
		if body, dropped, err = (Chat{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
	} else {
		edits := append(modelEdit(job, offer), usageEdit(job, offer)...)
		slices.SortFunc(edits, func(a, b edit) int { return a.From - b.From })
		body = splice(job.Body, edits)
	}
	req, err := outgoing(ctx, head, offer, path, "Authorization", "Bearer ", body)
	return req, dropped, err
}

// unasked are the dialects that report usage on streams without being asked
// (and of which some refuse the field).
var unasked = []string{"mistral", "deepseek", "perplexity"}

// asksUsage tells whether a stream of an offer's is asked for its usage.
func asksUsage(offer *core.Offer) bool {
	return offer.IncludeUsage != core.UsageNever && !slices.Contains(unasked, offer.Provider.Dialect)
}

// usageEdit is the change that makes a stream end with its usage, which the
// receipt needs; a client that did not ask does not see it.
func usageEdit(job *core.Job, offer *core.Offer) []edit {
	if !job.Streamed || job.AskedUsage || !asksUsage(offer) {
		return nil
	}
	const field, object = `"include_usage":true`, `{"include_usage":true}`
	switch at := job.Edits; {
	case at.IncludeUsage.Present():
		return []edit{{at.IncludeUsage, "true"}}
	case !at.StreamOptions.Present():
		return []edit{{core.Span{From: at.Open, To: at.Open}, `"stream_options":` + object + ","}}
	case at.StreamOptions.To-at.StreamOptions.From == len("null") && job.Body[at.StreamOptions.From] == 'n':
		return []edit{{at.StreamOptions, object}}
	default:
		brace := at.StreamOptions.From + 1
		if rest := walk(job.Body[brace:]); rest.peek() == '}' {
			return []edit{{core.Span{From: brace, To: brace}, field}}
		}
		return []edit{{core.Span{From: brace, To: brace}, field + ","}}
	}
}

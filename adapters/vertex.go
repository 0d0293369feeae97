package adapters

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"headway/core"
)

// VertexAnthropic speaks Anthropic's Messages as Google's Vertex AI serves them:
// the model is in the path, the version of the API in the body.
type VertexAnthropic struct{ Tokens *GoogleTokens }

// Format is vertex-anthropic.
func (VertexAnthropic) Format() core.Format { return core.FormatVertexAnthropic }

// vertexVersion is the version of Anthropic's API at Vertex.
const vertexVersion = `"vertex-2023-10-16"`

// Build makes the request for a provider of format vertex-anthropic. Errors are
// Internal: the provider's settings cannot be used, or no credential was found;
// Invalid where content has what the format cannot say.
func (v VertexAnthropic) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	body, dropped, err := job.Body, []string(nil), error(nil)
	if content != nil {
		if err := dataAlone(content); err != nil {
			return nil, nil, err
		}
		if body, dropped, err = (Anthropic{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
	}
	model, method := upstreamModel(offer), ":rawPredict"
	switch {
	case job.Operation == core.OpCountTokens:
		// The count is a model of its own, which is told the one that it counts for.
		if content == nil {
			body = splice(body, modelEdit(job, offer))
		}
		model = "count-tokens"
		body = vertexBody(body, core.Span{})
	case content == nil:
		body = vertexBody(body, job.Edits.Model)
	default:
		body = vertexBody(body, valueIn(body, "model"))
	}
	if job.Streamed {
		method = ":streamRawPredict"
	}
	head.Query = nil // Google's own, who refuses what it does not know (beta=true)
	req, err := v.Tokens.outgoing(ctx, head, offer, vertexModel(offer.Provider, "anthropic", model)+method, body)
	return req, dropped, err
}

// Reader reads an answer as Anthropic's.
func (VertexAnthropic) Reader(job *core.Job, offer *core.Offer) core.Reader {
	return Anthropic{}.Reader(job, offer)
}

// VertexGoogle speaks Gemini's generateContent as Google's Vertex AI serves it.
type VertexGoogle struct{ Tokens *GoogleTokens }

// Format is vertex-google.
func (VertexGoogle) Format() core.Format { return core.FormatVertexGoogle }

// Build makes the request for a provider of format vertex-google. Errors are
// Internal: the provider's settings cannot be used, or no credential was found;
// NotFound for a path that Google's Parse did not read; Invalid where content has
// what the format cannot say.
func (v VertexGoogle) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	body, dropped, method := job.Body, []string(nil), "generateContent"
	if content != nil {
		var err error
		if body, dropped, err = (Google{}).encode(content, offer); err != nil {
			return nil, nil, err
		}
		head.Query = nil
		if job.Streamed {
			method, head.Query = "streamGenerateContent", url.Values{"alt": {"sse"}}
		}
	} else {
		call, ok := readGooglePath(head.Path)
		if !ok {
			return nil, nil, core.Errorf(core.NotFound, "path %s: not one of the Gemini API served here", head.Path)
		}
		method = call.method
		head.Query = withoutTokens(head.Query)
		if !job.SSE {
			head.Query.Del("alt")
		}
		if job.Edits.Model.Present() && valueIn(body, "model").Present() { // Vertex would want its own long name there
			body = splice(body, []edit{{memberOf(body, valueIn(body, "model")), ""}})
		}
	}
	req, err := v.Tokens.outgoing(ctx, head, offer, vertexModel(offer.Provider, "google", upstreamModel(offer))+":"+method, body)
	return req, dropped, err
}

// Reader reads an answer as Gemini's.
func (VertexGoogle) Reader(job *core.Job, offer *core.Offer) core.Reader {
	return Google{}.Reader(job, offer)
}

// vertexModel is the path of a model. A name that is a path already, of another
// publisher's model or of an endpoint (a tuned model), stays one.
func vertexModel(p *core.Provider, publisher, model string) string {
	model = strings.TrimPrefix(model, "models/")
	if !strings.HasPrefix(model, "publishers/") && !strings.HasPrefix(model, "endpoints/") {
		model = "publishers/" + publisher + "/models/" + model
	}
	path := url.URL{Path: "/v1/projects/" + p.Project + "/locations/" + p.Location + "/" + model}
	return path.EscapedPath()
}

// vertexBase is the address of Vertex in a location.
func vertexBase(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu": // several regions at once
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-aiplatform.googleapis.com"
}

// outgoing makes a request to Vertex with a credential: the provider's api_key
// as what it is, an API key by its prefix or else an access token, or a token
// from Google's usual places.
func (t *GoogleTokens) outgoing(ctx context.Context, head core.RequestHead, offer *core.Offer, path string, body []byte) (*http.Request, error) {
	p := *offer.Provider
	if p.BaseURL == "" {
		p.BaseURL = vertexBase(p.Location)
	}
	to := *offer
	to.Provider = &p
	credential, prefix := "Authorization", "Bearer "
	if key := p.APIKey.Reveal(); strings.HasPrefix(key, "AIza") || strings.HasPrefix(key, "AQ.") {
		credential, prefix = "X-Goog-Api-Key", ""
	}
	req, err := outgoing(ctx, head, &to, path, credential, prefix, body)
	if err != nil || !p.APIKey.Empty() || hasCredential(p.Headers) {
		return req, err
	}
	token, project, err := t.token(ctx)
	if err != nil {
		failed := core.Errorf(core.Internal, "provider %s: %v", p.ID, err)
		failed.Hint = "set GOOGLE_APPLICATION_CREDENTIALS where the server runs, run gcloud auth application-default login, or give an api_key"
		if ctx.Err() == nil {
			failed.Code = core.NoCredential
		}
		return nil, failed
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if project != "" && req.Header.Get("X-Goog-User-Project") == "" {
		req.Header.Set("X-Goog-User-Project", project)
	}
	return req, nil
}

// hasCredential tells whether a provider's own headers hold one.
func hasCredential(headers map[string]core.Secret) bool {
	for name := range headers {
		if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "X-Goog-Api-Key") {
			return true
		}
	}
	return false
}

// vertexBody is a body of Messages as Vertex takes it: with the version, without
// the model where model is its place.
func vertexBody(body []byte, model core.Span) []byte {
	c := walk(body)
	if !c.object() {
		return body // Parse saw to it that it is an object
	}
	version := edit{core.Span{From: c.i, To: c.i}, `"anthropic_version":` + vertexVersion + ","}
	if bytes.Contains(body, []byte("anthropic_version")) {
		if had := valueIn(body, "anthropic_version"); had.Present() {
			version = edit{had, vertexVersion}
		}
	}
	edits := []edit{version}
	if model.Present() {
		edits = append(edits, edit{memberOf(body, model), ""})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.From - b.From })
	return splice(body, edits)
}

// valueIn finds the value of a member of a body that is an object; the zero Span
// where there is none.
func valueIn(body []byte, name string) core.Span {
	c := walk(body)
	if !c.object() {
		return core.Span{}
	}
	for key := range c.rest {
		c.peek()
		from := c.i
		c.skip()
		if string(key) == name && c.err == nil {
			return core.Span{From: from, To: c.i}
		}
	}
	return core.Span{}
}

// memberOf is the member of an object whose value is at a place, with one of the
// commas beside it. The body is valid JSON and the name has no quote in it.
func memberOf(body []byte, value core.Span) core.Span {
	from := bytes.LastIndexByte(body[:value.From], '"') // the name's end
	from = bytes.LastIndexByte(body[:from], '"')        // and its beginning
	from = len(bytes.TrimRight(body[:from], " \t\r\n"))
	if body[from-1] == ',' {
		return core.Span{From: from - 1, To: value.To}
	}
	c := walk(body)
	if c.i = value.To; c.peek() == ',' {
		c.i++
	}
	return core.Span{From: from, To: c.i}
}

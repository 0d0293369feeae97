package adapters

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"headway/core"
)

// Google speaks Gemini's generateContent and streamGenerateContent, countTokens,
// embedContent and batchEmbedContents. Model and method are in the path.
type Google struct{}

// Format is google.
func (Google) Format() core.Format { return core.FormatGoogle }

// googleCall is what a path says: /v1beta/models/NAME:METHOD.
type googleCall struct {
	version string // "v1beta"
	model   string // "NAME", or "tunedModels/NAME"
	method  string
}

// readGooglePath reads a path; false where it is none of a model's method. A
// name may hold slashes and colons.
func readGooglePath(path string) (c googleCall, ok bool) {
	c.version, path, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	colon := strings.LastIndexByte(path, ':')
	if !ok || colon < 0 || resource(path) != path {
		return c, false
	}
	switch c.version {
	case "v1", "v1beta", "v1alpha":
	default:
		return c, false
	}
	c.model, c.method = strings.TrimPrefix(path[:colon], "models/"), path[colon+1:]
	return c, c.model != "" && c.method != ""
}

// resource is a model's name as a path has it.
func resource(model string) string {
	if strings.HasPrefix(model, "models/") || strings.HasPrefix(model, "tunedModels/") {
		return model
	}
	return "models/" + model
}

// Parse reads a request by the rules of Google's reference. What it does not
// know it leaves to the provider. A model that the body names too must be the
// path's. Errors are Invalid and name the field; NotFound for another method.
func (Google) Parse(head core.RequestHead, body []byte) (*core.Job, error) {
	job := &core.Job{Format: core.FormatGoogle, AskedUsage: true, Body: body}
	r := googleRequest{request: request{cursor: walk(body), job: job}}
	var ok bool
	if r.call, ok = readGooglePath(head.Path); !ok {
		return nil, core.Errorf(core.NotFound, "path %s: not one of the Gemini API served here", head.Path)
	}
	switch r.call.method {
	case "generateContent", "streamGenerateContent":
		job.Operation = core.OpGenerate
	case "countTokens":
		job.Operation = core.OpCountTokens
	case "embedContent", "batchEmbedContents":
		job.Operation = core.OpEmbeddings
	default:
		return nil, core.Errorf(core.NotFound, "method %s: not one of the Gemini API served here", r.call.method)
	}
	if len(r.call.model) > maxModel {
		return nil, core.Field("model", "must have 1 to %d bytes", maxModel)
	}
	job.Model = core.Model(r.call.model)
	job.Streamed = r.call.method == "streamGenerateContent"
	switch alt := head.Query.Get("alt"); alt {
	case "", "json":
	case "sse":
		job.SSE = job.Streamed
	default:
		return nil, core.Field("alt", "must be sse or json, not %q", alt)
	}
	if err := r.top(); err != nil {
		return nil, err
	}
	return job, nil
}

// Build makes the request for a provider of format google. Errors are Internal:
// the provider's address, key or headers cannot be used; NotFound for a path that
// Parse did not read; Invalid where content has what the format cannot say.
func (Google) Build(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	if content != nil {
		return Google{}.translated(ctx, job, content, head, offer)
	}
	call, ok := readGooglePath(head.Path)
	if !ok {
		return nil, nil, core.Errorf(core.NotFound, "path %s: not one of the Gemini API served here", head.Path)
	}
	model, body := call.model, job.Body
	if name := upstreamModel(offer); name != "" && name != string(job.Model) {
		model = name
		if job.Edits.Model.Present() {
			body = splice(body, modelsIn(body, model))
		}
	}
	path := url.URL{Path: "/" + call.version + "/" + resource(model) + ":" + call.method}
	head.Query = withoutTokens(head.Query)
	if !job.SSE {
		head.Query.Del("alt") // answers that are no stream are JSON
	}
	req, err := outgoing(ctx, head, offer, path.EscapedPath(), "X-Goog-Api-Key", "", body)
	return req, nil, err
}

// translated makes the request from a client's of another format.
func (g Google) translated(ctx context.Context, job *core.Job, content *core.Content, head core.RequestHead, offer *core.Offer) (*http.Request, []string, error) {
	body, dropped, err := g.encode(content, offer)
	if err != nil {
		return nil, nil, err
	}
	method := ":generateContent"
	head.Query = nil
	if job.Streamed {
		method, head.Query = ":streamGenerateContent", url.Values{"alt": {"sse"}}
	}
	path := url.URL{Path: "/v1beta/" + resource(upstreamModel(offer)) + method}
	req, err := outgoing(ctx, head, offer, path.EscapedPath(), "X-Goog-Api-Key", "", body)
	return req, dropped, err
}

// withoutTokens is a client's query without the credentials that Google takes
// there.
func withoutTokens(query url.Values) url.Values {
	out := make(url.Values, len(query))
	for name, values := range query {
		if name != "access_token" && name != "oauth_token" {
			out[name] = values
		}
	}
	return out
}

// modelsIn are the changes of every name of the model in a body that Parse has
// read: its own, those of the requests inside of it.
func modelsIn(body []byte, model string) (edits []edit) {
	c := walk(body)
	var request func()
	request = func() {
		for key := range c.each {
			switch name, _ := googleField(key); {
			case name == "model" && c.peek() == '"':
				from := c.i
				raw, _ := c.text()
				to := model
				if strings.HasPrefix(string(unescape(raw)), "models/") {
					to = resource(model)
				}
				edits = append(edits, edit{core.Span{From: from, To: c.i}, quote(to)})
			case name == "generateContentRequest" && c.peek() == '{':
				request()
			case name == "requests" && c.peek() == '[':
				for c.array(); c.element(); {
					request()
				}
			}
		}
	}
	request()
	return edits
}

// Reader reads an answer of Gemini's.
func (Google) Reader(job *core.Job, _ *core.Offer) core.Reader {
	translated := job.Format != core.FormatGoogle && job.Format != "" // which is asked for as events
	return &googleReader{op: job.Operation, array: job.Streamed && !job.SSE && !translated}
}

// Writer writes errors, answers and streams in Google's format.
func (Google) Writer(job *core.Job) core.Writer {
	return &googleWriter{job: job}
}

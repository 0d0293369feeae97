// Package adapters speaks the wire formats of clients and providers, one file
// for each: it reads a request's facts, makes the request to a provider, says
// what each frame of an answer holds, and writes Headway's own words in the
// format. Client and provider speak the same format: bytes pass as they came,
// with only what must change changed. Adding a format is one file and one line
// in [All].
package adapters

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"

	"headway/core"
)

// All lists the adapters that clients speak too, one for each wire format.
func All() []core.Adapter {
	return []core.Adapter{
		Chat{},
		Responses{},
		Anthropic{},
		Google{},
	}
}

// Providers lists the adapters that providers alone speak.
func Providers(clock core.Clock) []core.ProviderSide {
	tokens := &GoogleTokens{}
	aws := NewAWS(clock)
	return []core.ProviderSide{
		Bedrock{aws},
		Converse{aws},
		Ollama{},
		VertexAnthropic{tokens},
		VertexGoogle{tokens},
	}
}

// edit is a change of a body: text in the place of a span.
type edit struct {
	core.Span
	text string
}

// splice gives body with the edits made, which are in the order of their spans;
// body itself where there are none.
func splice(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	n := len(body)
	for _, e := range edits {
		n += len(e.text) - (e.To - e.From)
	}
	out := make([]byte, 0, n)
	at := 0
	for _, e := range edits {
		out = append(append(out, body[at:e.From]...), e.text...)
		at = e.To
	}
	return append(out, body[at:]...)
}

// modelEdit is the change of a job's model to the name that the offer's provider
// has for it; none where that is the name that came.
func modelEdit(job *core.Job, offer *core.Offer) []edit {
	name := upstreamModel(offer)
	if !job.Edits.Model.Present() || name == "" || name == string(job.Model) {
		return nil
	}
	return []edit{{job.Edits.Model, quote(name)}}
}

// upstreamModel is the name that the offer's provider has for a job's model.
func upstreamModel(offer *core.Offer) string {
	if offer.UpstreamModel != "" {
		return offer.UpstreamModel
	}
	return string(offer.Model)
}

// forwarded are the headers of a client that reach an upstream (SPEC §24).
var forwarded = [...]string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Traceparent"}

// outgoing makes the request that every format shares: POST to the provider's
// base URL with path behind it, the client's query without key, the body, the
// headers that may pass, the credential by the name and with the prefix given,
// and last the provider's own headers, which win (SPEC §24).
func outgoing(ctx context.Context, head core.RequestHead, offer *core.Offer, path, credential, prefix string, body []byte) (*http.Request, error) {
	p := offer.Provider
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Host == "" {
		return nil, core.Errorf(core.Internal, "provider %s: base_url is not an address", p.ID)
	}
	u = u.JoinPath(path)
	if query := upstreamQuery(u.Query(), head.Query); len(query) > 0 {
		u.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, core.Errorf(core.Internal, "provider %s: base_url is not an address", p.ID)
	}

	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept-Encoding", "identity") // the frames of a stream are looked at as they come
	h.Set("User-Agent", "headway")
	for _, name := range forwarded {
		for _, v := range head.Header[name] {
			if sendable(v) {
				h.Add(name, v)
			}
		}
	}
	if !p.APIKey.Empty() {
		if !sendable(p.APIKey.Reveal()) {
			return nil, core.Errorf(core.Internal, "provider %s: api_key holds bytes that no header may have", p.ID)
		}
		h.Set(credential, prefix+p.APIKey.Reveal())
	}
	for name, v := range p.Headers {
		if !sendable(v.Reveal()) {
			return nil, core.Errorf(core.Internal, "provider %s: header %s holds bytes that no header may have", p.ID, name)
		}
		if textproto.CanonicalMIMEHeaderKey(name) == "Host" {
			req.Host = v.Reveal()
			continue
		}
		h.Set(name, v.Reveal())
	}
	return req, nil
}

// upstreamQuery is the provider's own query with the client's over it, but for
// key, which is a credential.
func upstreamQuery(own, client url.Values) url.Values {
	for name, values := range client {
		if name != "key" {
			own[name] = values
		}
	}
	return own
}

// sendable tells whether a text may be a header's value.
func sendable(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
			return false
		}
	}
	return true
}

// madeName makes an id where an upstream gives none.
func madeName(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// quote writes a text as a JSON string.
func quote(s string) string { return string(encode(s)) }

// encode writes a value as JSON without HTML's escapes; v is one that cannot
// fail, made of strings, numbers, maps, lists and what was read from JSON.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// decode reads JSON off the hot path, numbers as they are written.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// errorText is what an error tells a caller: what is wrong, and what to do.
func errorText(e *core.Error) string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

// errorWords are the statuses that providers' words for an error stand for,
// where a stream or body names no status.
var errorWords = map[string]int{
	"invalid_request_error": 400, "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "BadRequestError": 400, "invalid_prompt": 400,
	"exceed_context_size_error": 400, "context_length_exceeded": 400, "tool_use_failed": 400,
	"authentication_error": 401, "invalid_api_key": 401, "UNAUTHENTICATED": 401,
	"billing_error": 402, "insufficient_credits": 402,
	"permission_error": 403, "PERMISSION_DENIED": 403,
	"not_found_error": 404, "model_not_found": 404, "NOT_FOUND": 404, "NotFoundError": 404,
	"request_too_large": 413,
	"rate_limit_error":  429, "rate_limit_exceeded": 429, "insufficient_quota": 429, "RESOURCE_EXHAUSTED": 429, "tokens": 429, "requests": 429,
	"api_error": 500, "server_error": 500, "internal_error": 500, "INTERNAL": 500, "InternalServerError": 500, "internal_server_error": 500,
	"UNAVAILABLE": 503, "unavailable_error": 503, "service_unavailable_error": 503, "ServiceUnavailableError": 503, "engine_overloaded": 503,
	"timeout_error": 504, "DEADLINE_EXCEEDED": 504,
	"overloaded_error": 529,
}

// statusOf gives the status that an error's words stand for, the more exact word
// first; 0 where none is known. A word may be the number itself.
func statusOf(words ...string) int {
	for _, w := range words {
		if n, err := strconv.Atoi(w); err == nil && n >= 400 && n < 600 {
			return n
		}
		if n := errorWords[w]; n != 0 {
			return n
		}
	}
	return 0
}

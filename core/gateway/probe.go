package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"headway/core"
)

// tinyOutput is the output maximum of a tiny call; some providers refuse less.
const tinyOutput = 16

// Try makes one tiny streamed call of Headway's own to one offer, through the
// same path as any other call, and gives its id: the receipt says how it went.
// NotFound: there is no such offer.
func (g *Gateway) Try(ctx context.Context, id core.OfferID, kind core.CallKind) (core.CallID, error) {
	e := g.Setup().Catalogue.Offer(id)
	if e == nil {
		return "", core.Errorf(core.NotFound, "there is no offer %q", shorten(string(id)))
	}
	o := own(e.Offer, "Say ok.", tinyOutput)
	r, err := o.request(ctx)
	if err != nil {
		return "", err
	}
	return g.Own(r, Forced{Offer: id, Kind: kind})
}

// Own makes a call of Headway's own with a request as a client would send it,
// and gives its id once it is over.
func (g *Gateway) Own(r *http.Request, f Forced) (core.CallID, error) {
	format, ok := g.speaks(r)
	if !ok {
		return "", core.Errorf(core.NotFound, "no such path")
	}
	w := &discard{header: http.Header{}}
	g.call(w, r, g.adapters[format], &f)
	if w.header.Get("X-Headway-Offer") == "" {
		return "", core.Errorf(core.NoOffer, "the call to %s could not be made: %s", f.Offer, w.text())
	}
	return core.CallID(w.header.Get("X-Request-Id")), nil
}

// ownCall is a streamed call of Headway's own, as a client would send it.
type ownCall struct {
	path string
	body map[string]any
}

// request is the call as a request.
func (o ownCall) request(ctx context.Context) (*http.Request, error) {
	raw, err := json.Marshal(o.body)
	if err != nil {
		return nil, err
	}
	target, err := url.ParseRequestURI(o.path)
	if err != nil {
		return nil, err
	}
	return (&http.Request{Method: http.MethodPost, URL: target, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw))}).WithContext(ctx), nil
}

// own asks an offer for a text in the offer's own format, or in chat's where no
// client speaks that. most is the output maximum in tokens.
func own(o *core.Offer, ask string, most int64) ownCall {
	user := map[string]any{"role": "user", "content": ask}
	switch o.Provider.Format.Wire() {
	case core.FormatResponses:
		return ownCall{"/v1/responses", map[string]any{"model": o.Model, "input": ask, "max_output_tokens": most, "stream": true}}
	case core.FormatAnthropic:
		return ownCall{"/v1/messages", map[string]any{"model": o.Model, "messages": []any{user}, "max_tokens": most, "stream": true}}
	case core.FormatGoogle:
		return ownCall{"/v1beta/models/" + url.PathEscape(string(o.Model)) + ":streamGenerateContent?alt=sse", map[string]any{
			"contents":         []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": ask}}}},
			"generationConfig": map[string]any{"maxOutputTokens": most}}}
	}
	limit := "max_tokens"
	if strings.Contains(o.Provider.BaseURL, "openai.com") {
		limit = "max_completion_tokens" // its newer models refuse the old name, other servers know no other
	}
	return ownCall{"/v1/chat/completions", map[string]any{"model": o.Model, "messages": []any{user}, limit: most, "stream": true}}
}

// discard is the client of a call of Headway's own.
type discard struct {
	header http.Header
	status int
	first  []byte // the head of the body, for an error
}

func (d *discard) Header() http.Header    { return d.header }
func (d *discard) WriteHeader(status int) { d.status = status }
func (d *discard) Flush()                 {}
func (d *discard) Write(p []byte) (int, error) {
	if room := 2<<10 - len(d.first); room > 0 {
		d.first = append(d.first, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// text is the message of an error answer.
func (d *discard) text() string {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(d.first, &body) != nil || body.Error.Message == "" {
		return http.StatusText(d.status)
	}
	return body.Error.Message
}

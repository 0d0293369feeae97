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
	path, body := tiny(e.Offer)
	raw, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return "", err
	}
	return g.Own((&http.Request{Method: http.MethodPost, URL: target, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw))}).WithContext(ctx), Forced{Offer: id, Kind: kind})
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

// tiny is the smallest call that shows a first output, in the offer's format.
func tiny(o *core.Offer) (path string, body map[string]any) {
	const ask = "Say ok."
	user := map[string]any{"role": "user", "content": ask}
	switch o.Provider.Format.Wire() {
	case core.FormatResponses:
		return "/v1/responses", map[string]any{"model": o.Model, "input": ask, "max_output_tokens": tinyOutput, "stream": true}
	case core.FormatAnthropic:
		return "/v1/messages", map[string]any{"model": o.Model, "messages": []any{user}, "max_tokens": tinyOutput, "stream": true}
	case core.FormatGoogle:
		return "/v1beta/models/" + url.PathEscape(string(o.Model)) + ":streamGenerateContent?alt=sse", map[string]any{
			"contents":         []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": ask}}}},
			"generationConfig": map[string]any{"maxOutputTokens": tinyOutput}}
	}
	limit := "max_tokens"
	if strings.Contains(o.Provider.BaseURL, "openai.com") {
		limit = "max_completion_tokens" // its newer models refuse the old name, other servers know no other
	}
	return "/v1/chat/completions", map[string]any{"model": o.Model, "messages": []any{user}, limit: tinyOutput, "stream": true}
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

package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"headway/core"
)

func isModels(path string) bool {
	for _, root := range [...]string{"/v1/models", "/v1beta/models"} {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// models lists what the caller's key may ask for, in the shape of the caller's
// SDK: Anthropic's where anthropic-version is sent, Google's under /v1beta,
// OpenAI's else. /models/NAME is one of them.
func (g *Gateway) models(w http.ResponseWriter, r *http.Request) {
	w.Header()[core.VersionHeader] = []string{"1"}
	key, err := g.Keys.Admit(secret(r), g.Clock())
	if err != nil {
		g.refuse(w, r, known(err))
		return
	}
	s := g.Setup()
	google := strings.HasPrefix(r.URL.Path, "/v1beta/")
	anthropic := r.Header.Get("Anthropic-Version") != ""
	_, name, one := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1beta"), "/v1"), "/models/")
	if m := core.Model(name); one && s.Catalogue.Serves(m, key, &s.Settings.Routing) {
		g.answer(w, g.model(s, key, m, google, anthropic))
		return
	}
	names := s.Catalogue.Models(key, &s.Settings.Routing)
	items := make([]any, 0, len(names))
	for _, m := range names {
		items = append(items, g.model(s, key, m, google, anthropic))
	}
	switch {
	case one:
		e := core.Errorf(core.NotFound, "model %q is not known", shorten(name))
		e.Code = "model_not_found"
		g.refuse(w, r, e)
	case google:
		g.answer(w, map[string]any{"models": items})
	case anthropic:
		list := map[string]any{"data": items, "has_more": false, "first_id": nil, "last_id": nil}
		if n := len(names); n > 0 {
			list["first_id"], list["last_id"] = names[0], names[n-1]
		}
		g.answer(w, list)
	default:
		g.answer(w, map[string]any{"object": "list", "data": items})
	}
}

// model is one model of a list. What is not known of it is left out.
func (g *Gateway) model(s *Setup, key *core.Key, m core.Model, google, anthropic bool) map[string]any {
	var context, output core.Opt[int64] // the greatest of its offers
	for _, e := range s.Catalogue.Meant(m, &s.Settings.Routing) {
		if !e.Allowed(key, &s.Settings.Routing) {
			continue // of the Auto Router's pool
		}
		if l := e.Offer.Limits.Context; l.OK && l.V > context.V {
			context = l
		}
		if l := e.Offer.Limits.MaxOutput; l.OK && l.V > output.V {
			output = l
		}
	}
	switch {
	case google:
		item := map[string]any{"name": "models/" + string(m), "displayName": m, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
		if context.OK {
			item["inputTokenLimit"] = context.V
		}
		if output.OK {
			item["outputTokenLimit"] = output.V
		}
		return item
	case anthropic:
		return map[string]any{"type": "model", "id": m, "display_name": m, "created_at": "1970-01-01T00:00:00Z"}
	}
	return map[string]any{"id": m, "object": "model", "created": 0, "owned_by": "headway"}
}

func (g *Gateway) answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil { // of maps and strings: cannot fail
		body = []byte("{}")
	}
	w.Header()["X-Request-Id"] = []string{string(core.NewCallID(g.Clock()))}
	writeJSON(w, http.StatusOK, string(body))
}

// shorten keeps a client's text in an error to a readable length.
func shorten(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

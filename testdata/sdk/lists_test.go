package sdktest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"
)

// testLists are the calls that generate nothing.
func (g *rig) testLists(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		t.Parallel()
		client := g.via.openai(&tap{})
		page, err := client.Models.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, m := range page.Data {
			found = found || m.ID == "embed" && m.Object == "model"
		}
		if !found || len(page.Data) < len(g.recordings) {
			t.Errorf("%d models, the one named embed: %v", len(page.Data), found)
		}
		one, err := client.Models.Get(t.Context(), "embed")
		if err != nil || one.ID != "embed" {
			t.Errorf("one model: %v %v", one, err)
		}
		if _, err := client.Models.Get(t.Context(), "nothing"); statusOf(err) != 404 {
			t.Errorf("a model that is not there: %v", err)
		}

		params := openai.EmbeddingNewParams{Model: "embed", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
			EncodingFormat: openai.EmbeddingNewParamsEncodingFormatFloat}
		p := &tap{}
		via, err := g.via.openai(p).Embeddings.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		params.Model = rawModel + "embed"
		raw, err := g.raw.openai(&tap{}).Embeddings.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if via.RawJSON() != raw.RawJSON() || !reflect.DeepEqual(via.Data[0].Embedding, []float64{0.25, -1.5, 3e-05}) {
			t.Errorf("the embedding is %s, straight %s", via.RawJSON(), raw.RawJSON())
		}
		sameRequest(t, g.up.nth(t, viaModel+"embed", 1), g.up.nth(t, rawModel+"embed", 1))
		var h heard
		p.close(&h, nil)
		if r := g.headway.receipt(t, h.id); r.Outcome != "settled" || value(r.Usage.Uncached) != 9 || r.Charge == nil || *r.Charge != "0.000009" {
			t.Errorf("the embedding's receipt is %s", r.raw)
		}

		wrong := side{g.headway.base, "hw-not-a-key-0123456789", "", nil}
		if _, err := wrong.openai(&tap{}).Models.List(t.Context()); statusOf(err) != 401 {
			t.Errorf("models with a wrong key: %v", err)
		}
		// SDKs let a query through to the provider, but for a credential in it.
		params.Model = "embed"
		if _, err := g.via.openai(&tap{}).Embeddings.New(t.Context(), params, option.WithQuery("api-version", "7")); err != nil {
			t.Error(err)
		}
		if q := g.up.nth(t, viaModel+"embed", 2).query; q.Get("api-version") != "7" {
			t.Errorf("the query that reached the upstream is %v", q)
		}
	})
	t.Run("anthropic", func(t *testing.T) {
		t.Parallel()
		names := 0
		pages := g.via.anthropic(&tap{}).Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{})
		for pages.Next() {
			if m := pages.Current(); m.Type != "model" || m.DisplayName == "" {
				t.Errorf("a model is %s", m.RawJSON())
			}
			names++
		}
		if pages.Err() != nil || names < len(g.recordings) {
			t.Errorf("%d models (%v)", names, pages.Err())
		}
		params := anthropic.MessageCountTokensParams{Model: "count-messages",
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("What is a " + secretWord + "?"))}}
		n, err := g.via.anthropic(&tap{}).Messages.CountTokens(t.Context(), params)
		if err != nil || n.InputTokens != 42 {
			t.Errorf("the count is %v (%v)", n, err)
		}
		params.Model = rawModel + "count-messages"
		if _, err := g.raw.anthropic(&tap{}).Messages.CountTokens(t.Context(), params); err != nil {
			t.Error(err)
		}
		sameRequest(t, g.up.nth(t, viaModel+"count-messages", 1), g.up.nth(t, rawModel+"count-messages", 1))
	})
	t.Run("anthropic beta", func(t *testing.T) {
		t.Parallel()
		params := anthropic.BetaMessageNewParams{Model: "beta", MaxTokens: 1000, Betas: []anthropic.AnthropicBeta{"context-management-2025-06-27"},
			Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("What is a " + secretWord + "?"))}}
		// A Bearer token in the place of a key is as good.
		bearer := anthropic.NewClient(anthropicoption.WithBaseURL(g.headway.base), anthropicoption.WithAuthToken(callerKey), anthropicoption.WithMaxRetries(0))
		via, err := bearer.Beta.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		params.Model = rawModel + "beta"
		raw, err := g.raw.anthropic(&tap{}).Beta.Messages.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if via.RawJSON() != raw.RawJSON() {
			t.Errorf("the message is %s, straight %s", via.RawJSON(), raw.RawJSON())
		}
		q := g.up.nth(t, viaModel+"beta", 1)
		sameRequest(t, q, g.up.nth(t, rawModel+"beta", 1))
		if q.query.Get("beta") != "true" || q.header.Get("Anthropic-Beta") == "" {
			t.Errorf("the upstream got the query %v and anthropic-beta %q", q.query, q.header.Get("Anthropic-Beta"))
		}
	})
	t.Run("google", func(t *testing.T) {
		t.Parallel()
		client, err := g.via.genai(t.Context(), &tap{})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for m, err := range client.Models.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names[m.Name] = true
		}
		if !names["models/count-google"] || len(names) < len(g.recordings) {
			t.Errorf("%d models, the one named models/count-google: %v", len(names), names["models/count-google"])
		}
		n, err := client.Models.CountTokens(t.Context(), "count-google", genai.Text("What is a "+secretWord+"?"), nil)
		if err != nil || n.TotalTokens != 42 {
			t.Errorf("the count is %v (%v)", n, err)
		}
		if q := g.up.nth(t, viaModel+"count-google", 1); !bytes.Contains(q.body, []byte(secretWord)) {
			t.Errorf("the request is %s", q.body)
		}
	})
}

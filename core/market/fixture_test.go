package market_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// board is what was measured, written down.
type board struct {
	measures map[core.ProviderID]*core.Measures
	ttft     map[core.OfferID]float64
}

func (b board) Measures(p core.ProviderID, _ core.Model) *core.Measures {
	if m := b.measures[p]; m != nil {
		return m
	}
	return &core.Measures{}
}

func (b board) TTFTAt(id core.OfferID, _ time.Time) core.Opt[float64] {
	v, ok := b.ttft[id]
	return core.Opt[float64]{V: v, OK: ok}
}

// figures are measures of the provider's own.
func figures(base, prefill, output float64) *core.Measures {
	m := func(v float64) core.Measure {
		return core.Measure{Value: core.Some(v), Own: core.Some(v), Jobs: 100, Basis: core.BasisOwn}
	}
	return &core.Measures{BaseLatency: m(base), Prefill: m(prefill), Output: m(output)}
}

func provider(id string) *core.Provider {
	return &core.Provider{ID: core.ProviderID(id), Format: core.FormatOpenAI,
		BaseURL: "http://" + id + ".test/v1", APIKey: core.NewSecret("key of " + id)}
}

// offer is one of a provider, at $1 in and $2 out.
func offer(p *core.Provider, model string) *core.Offer {
	return &core.Offer{ID: core.OfferID(string(p.ID) + "/" + model), Provider: p, Model: core.Model(model),
		Price: core.Price{Rates: core.Rates{Input: 1_000_000, Output: 2_000_000}}}
}

// line is the line before a node's model server, as a test wants it.
type line core.Stand

func (l line) Stand() core.Stand { return core.Stand(l) }

// full is a node with one call ahead that takes a service time of so many ms; 0: of
// a time that is not known.
func full(service float64) line {
	l := line{Up: true, Full: true, Ahead: 1}
	if service > 0 {
		l.Service = core.Some(service)
	}
	return l
}

// catalogue is one of the given offers and their providers.
func catalogue(t testing.TB, previous *market.Catalogue, offers ...*core.Offer) *market.Catalogue {
	t.Helper()
	var providers []*core.Provider
	seen := map[core.ProviderID]bool{}
	for _, o := range offers {
		if !seen[o.Provider.ID] {
			seen[o.Provider.ID] = true
			providers = append(providers, o.Provider)
		}
	}
	c, err := market.NewCatalogue(providers, offers, previous)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask is a question for model "m" of 4,000 bytes that goes through everywhere.
func ask(c *market.Catalogue) market.Query {
	settings := core.DefaultSettings()
	strategy, _ := market.ByName("cheapest")
	return market.Query{
		Job: &core.Job{Format: core.FormatOpenAI, Operation: core.OpGenerate, Model: "m", PromptBytes: 4000},
		Key: &core.Key{}, Settings: &settings, Catalogue: c, Board: board{}, Strategy: strategy, Now: start,
	}
}

func decide(t testing.TB, q market.Query) *market.Choice {
	t.Helper()
	choice, err := market.Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

func picked(c *market.Choice) []core.OfferID {
	ids := []core.OfferID{}
	for _, p := range c.Picks {
		ids = append(ids, p.Offer.ID)
	}
	return ids
}

func vectors(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

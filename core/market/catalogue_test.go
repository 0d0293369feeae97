package market_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

func ids(entries []*market.Entry) []core.OfferID {
	out := []core.OfferID{}
	for _, e := range entries {
		out = append(out, e.Offer.ID)
	}
	return out
}

func TestLookup(t *testing.T) {
	p, q := provider("p"), provider("q")
	aliased := offer(p, "small-2026")
	aliased.Aliases = []core.Model{"small", "small-2026", "s:latest"}
	c := catalogue(t, nil, aliased, offer(q, "small"), offer(p, "both"), offer(p, "both:latest"),
		offer(p, "tagged:7b"), offer(p, "host:5000/m"), offer(p, "pulled:latest"))
	for name, want := range map[core.Model][]core.OfferID{
		"small-2026":          {"p/small-2026"},
		"small":               {"p/small-2026", "q/small"},
		"small:latest":        {"p/small-2026", "q/small"},
		"s":                   {"p/small-2026"},
		"s:latest":            {"p/small-2026"},
		"both":                {"p/both"},
		"both:latest":         {"p/both:latest"},
		"pulled":              {"p/pulled:latest"},
		"pulled:latest":       {"p/pulled:latest"},
		"host:5000/m:latest":  {"p/host:5000/m"},
		"tagged:7b":           {"p/tagged:7b"},
		"tagged:7b:latest":    {},
		"tagged":              {},
		"tagged:latest":       {},
		"Small":               {},
		"small:latest:latest": {},
		"":                    {},
	} {
		if got := ids(c.Lookup(name)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	want := []core.Model{"both", "both:latest", "host:5000/m", "pulled:latest", "s:latest", "small", "small-2026", "tagged:7b"}
	if got := c.Models(nil, nil); !slices.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	key := &core.Key{Models: []core.Model{"small", "both"}}
	want = []core.Model{"both", "s:latest", "small", "small-2026"}
	if got := c.Models(key, &core.Routing{}); !slices.Equal(got, want) {
		t.Errorf("models of a key %v, want %v", got, want)
	}
}

func TestNear(t *testing.T) {
	p := provider("p")
	c := catalogue(t, nil, offer(p, "gpt-4o"), offer(p, "gpt-4o-mini"), offer(p, "claude-sonnet-4-5-20250929"),
		offer(p, "llama3"), offer(p, "llama3.1"), offer(p, "llama3.2"), offer(p, "llama3.3"),
		offer(p, strings.Repeat("n", 300)))
	for name, want := range map[core.Model][]core.Model{
		"gpt-4":                                {"gpt-4o", "gpt-4o-mini"},
		"GPT-4O":                               {"gpt-4o", "gpt-4o-mini"},
		"gpt-4o-mni":                           {"gpt-4o-mini"},
		"claude-sonnet":                        {"claude-sonnet-4-5-20250929"},
		"llama3.9":                             {"llama3.1", "llama3.2", "llama3.3"},
		"mistral":                              nil,
		"":                                     nil,
		core.Model(strings.Repeat("n", 299)):   nil,
		core.Model(strings.Repeat("g", 1<<20)): nil,
		"\xff\x00\xfe":                         nil,
	} {
		if got := c.Near(name, nil, nil); !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, want %v", name, got, want)
		}
	}
	key := &core.Key{BlockModels: []core.Model{"gpt-4o-mini"}}
	if got := c.Near("gpt-4", key, nil); !slices.Equal(got, []core.Model{"gpt-4o"}) {
		t.Errorf("a key was told of %v", got)
	}
}

func TestReloadKeepsHowOffersStand(t *testing.T) {
	p := provider("p")
	before := catalogue(t, nil, offer(p, "m"), offer(p, "removed"), offer(p, "idle"))
	before.Offer("p/m").State.Fail(start, breaker())
	before.Offer("p/m").Account.Refuse()
	release, _ := before.Offer("p/removed").Acquire()

	same := provider("p")
	changed := offer(same, "m")
	changed.Price.Input = 7
	after := catalogue(t, before, changed)
	e := after.Offer("p/m")
	if e.Offer.Price.Input != 7 {
		t.Error("the old offer was kept")
	}
	if st := status(e, start); st.CountedFailures != 1 || st.PausedBy != "auth" {
		t.Errorf("%+v, want its failure and its pause", st)
	}
	if got := ids(after.Entries()); !slices.Equal(got, []core.OfferID{"p/m", "p/removed"}) {
		t.Errorf("entries %v, want the removed one while a call holds it", got)
	}
	if st := status(after.Entries()[1], start); st.State != "gone" || st.InFlight != 1 {
		t.Errorf("%+v, want gone", st)
	}
	if after.Lookup("removed") != nil || after.Offer("p/removed") != nil {
		t.Error("an offer that is gone can be called")
	}
	// It returns with the call that is still in flight …
	if back := catalogue(t, after, offer(same, "removed")); back.Offer("p/removed").State.InFlight() != 1 {
		t.Error("a call in flight was forgotten")
	}
	// … and is forgotten when that has ended.
	release()
	if got := ids(catalogue(t, after, changed).Entries()); !slices.Equal(got, []core.OfferID{"p/m"}) {
		t.Errorf("entries %v after the last call ended", got)
	}
}

func TestNewCredentialEndsThePause(t *testing.T) {
	for name, change := range map[string]func(*core.Provider){
		"key":      func(p *core.Provider) { p.APIKey = core.NewSecret("another") },
		"node key": func(p *core.Provider) { p.NodeCredential = "another" },
		"header":   func(p *core.Provider) { p.Headers = map[string]core.Secret{"x-key": core.NewSecret("another")} },
		"address":  func(p *core.Provider) { p.BaseURL = "http://other.test/v1" },
	} {
		before := catalogue(t, nil, offer(provider("p"), "m"))
		old := before.Offer("p/m")
		old.Account.Refuse()
		old.Account.Exhaust(start, core.Opt[time.Duration]{})
		p := provider("p")
		change(p)
		e := catalogue(t, before, offer(p, "m")).Offer("p/m")
		if st := status(e, start); st.State != "active" {
			t.Errorf("%s: %+v, want active", name, st)
		}
		old.Account.Refuse() // by a call that still had the old one
		if st := status(e, start); st.State != "active" {
			t.Errorf("%s: the old credential's failure paused the new one", name)
		}
	}
	before := catalogue(t, nil, offer(provider("p"), "m"))
	before.Offer("p/m").Account.Refuse()
	p := provider("p")
	p.Region = "eu"
	if st := status(catalogue(t, before, offer(p, "m")).Offer("p/m"), start); st.PausedBy != "auth" {
		t.Errorf("%+v: another change ended the pause", st)
	}
}

func TestCatalogueErrors(t *testing.T) {
	p, q := provider("p"), provider("q")
	twice := offer(q, "n")
	twice.ID = "p/m"
	for name, c := range map[string]struct {
		providers []*core.Provider
		offers    []*core.Offer
		want      string
	}{
		"offer":    {[]*core.Provider{p, q}, []*core.Offer{offer(p, "m"), twice}, `offer "p/m": the id is there twice`},
		"provider": {[]*core.Provider{p, provider("p")}, nil, `provider "p": the id is there twice`},
		"missing":  {[]*core.Provider{p}, []*core.Offer{offer(q, "m")}, `offer "q/m": its provider is not configured`},
		"none":     {nil, []*core.Offer{{ID: "x"}}, `offer "x": its provider is not configured`},
	} {
		if _, err := market.NewCatalogue(c.providers, c.offers, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

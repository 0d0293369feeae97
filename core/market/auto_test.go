package market_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"headway/core"
	"headway/core/market"
)

// pool is a question for the Auto Router over models of four providers: two fast
// enough to be ranked by speed, one measured by others alone, one too new.
func pool(t testing.TB, models ...core.Model) market.Query {
	t.Helper()
	slow, quick, unknown, fresh := provider("slow"), provider("quick"), provider("unknown"), provider("fresh")
	big := offer(quick, "big")
	big.Price.Input, big.Price.Output = 9_000_000, 9_000_000
	big.Aliases = []core.Model{"large"}
	dear := offer(unknown, "mid")
	dear.Price.Input = 5_000_000
	q := ask(catalogue(t, nil, offer(slow, "small"), big, dear, offer(fresh, "small"), offer(slow, "other")))
	young := figures(1, 1, 900)
	young.Output.Jobs = 4
	q.Board = board{measures: map[core.ProviderID]*core.Measures{"slow": figures(1, 1, 20), "quick": figures(900, 9, 80), "fresh": young}}
	q.Job.Model = "auto"
	q.Settings.Routing.Auto = models
	return q
}

func TestAutoRanksThePoolAsFastest(t *testing.T) {
	for _, strategy := range market.Strategies() {
		q := pool(t, "small", "big", "large", "mid")
		q.Strategy, q.Asked = strategy, "a-script"
		q.Script, q.NoScript = brokenScript{t}, errors.New("it was not to be asked")
		c := decide(t, q)
		// By own output speed; the rest by price: the cheaper first.
		if got := picked(c); !slices.Equal(got, []core.OfferID{"quick/big", "slow/small", "fresh/small", "unknown/mid"}) {
			t.Errorf("%s: %v", strategy.Name(), got)
		}
		if d := c.Decision(); d.Strategy != "auto" || d.RankedOn != "output-speed" || d.ScriptError != "" {
			t.Errorf("%s: decision %s on %s, %q", strategy.Name(), d.Strategy, d.RankedOn, d.ScriptError)
		}
	}
}

// brokenScript may not be asked.
type brokenScript struct{ t testing.TB }

func (brokenScript) Name() string { return "a-script" }
func (s brokenScript) Rank(*core.Question, []core.Rank, []bool) error {
	s.t.Error("a script was asked")
	return nil
}

func TestAutoNeedsAPool(t *testing.T) {
	var e *core.Error
	if _, err := market.Decide(pool(t)); !errors.As(err, &e) || e.Kind != core.NotFound || e.Msg != `model "auto": no such model` {
		t.Errorf("without a pool: %v", err)
	}
	_, err := market.Decide(pool(t, "gone"))
	if !errors.As(err, &e) || e.Kind != core.NotFound || e.Code != "model_not_found" || !strings.Contains(e.Msg, "none of the Auto Router's models is served") {
		t.Errorf("with a pool that nothing serves: %v", err)
	}
}

// TestAutoFilters puts the pool through the filters of SPEC §8: some or all of it
// may be out of a call's reach.
func TestAutoFilters(t *testing.T) {
	all := []core.OfferID{"quick/big", "slow/small", "fresh/small", "unknown/mid"}
	without := func(out ...core.OfferID) []core.OfferID {
		return slices.DeleteFunc(slices.Clone(all), func(id core.OfferID) bool { return slices.Contains(out, id) })
	}
	for _, c := range []struct {
		name   string
		change func(*market.Query)
		want   []core.OfferID
		kind   core.Kind // where want is nil
	}{
		{"nothing", func(*market.Query) {}, all, 0},
		{"auto:latest", func(q *market.Query) { q.Job.Model = "auto:latest" }, all, 0},
		{"a key's models", func(q *market.Query) { q.Key.Models = []core.Model{"small"} }, without("quick/big", "unknown/mid"), 0},
		{"an alias in a key's models", func(q *market.Query) { q.Key.Models = []core.Model{"large"} }, []core.OfferID{"quick/big"}, 0},
		{"a model outside of the pool", func(q *market.Query) { q.Key.Models = []core.Model{"other"} }, nil, core.Forbidden},
		{"auto in a key's models is no model", func(q *market.Query) { q.Key.Models = []core.Model{"auto"} }, nil, core.Forbidden},
		{"auto beside a model", func(q *market.Query) { q.Key.AllowModels = []core.Model{"auto", "mid"} }, []core.OfferID{"unknown/mid"}, 0},
		{"auto blocked for a key", func(q *market.Query) { q.Key.BlockModels = []core.Model{"auto"} }, nil, core.Forbidden},
		{"auto blocked for all", func(q *market.Query) { q.Settings.Routing.BlockModels = []core.Model{"auto"} }, nil, core.Forbidden},
		{"a key's blocked model", func(q *market.Query) { q.Key.BlockModels = []core.Model{"big"} }, without("quick/big"), 0},
		{"the routing's models", func(q *market.Query) { q.Settings.Routing.AllowModels = []core.Model{"mid", "other"} }, []core.OfferID{"unknown/mid"}, 0},
		{"a price cap", func(q *market.Query) { q.Key.PriceCap.Input = core.Some(core.Rate(5_000_000)) }, without("quick/big"), 0},
		{"a context", func(q *market.Query) { q.Catalogue.Offer("slow/small").Offer.Limits.Context = core.Some(int64(999)) }, without("slow/small"), 0},
		{"an output limit", func(q *market.Query) {
			q.Job.MaxOutput = core.Some(int64(50))
			q.Catalogue.Offer("quick/big").Offer.Limits.MaxOutput = core.Some(int64(49))
		}, without("quick/big"), 0},
		{"a feature", func(q *market.Query) {
			q.Job.Features = core.FeatureTools
			q.Catalogue.Offer("quick/big").Offer.Features = core.Some(core.FeatureImages)
		}, without("quick/big"), 0},
		{"a pause", func(q *market.Query) { q.Catalogue.Offer("fresh/small").State.Pause() }, without("fresh/small"), 0},
		{"an owner", func(q *market.Query) { q.Key.Owner = "me"; q.Catalogue.Offer("quick/big").Offer.Provider.Owner = "me" }, without("quick/big"), 0},
		{"all paused", func(q *market.Query) {
			for _, e := range q.Catalogue.Entries() {
				e.State.Pause()
			}
		}, nil, core.NoOffer},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := pool(t, "small", "big", "mid")
			c.change(&q)
			choice, err := market.Decide(q)
			var e *core.Error
			switch {
			case c.want == nil && (!errors.As(err, &e) || e.Kind != c.kind):
				t.Errorf("%v, want kind %s", err, core.Kinds[c.kind].Name)
			case c.want != nil && err != nil:
				t.Error(err)
			case c.want != nil && !slices.Equal(picked(choice), c.want):
				t.Errorf("%v, want %v", picked(choice), c.want)
			}
		})
	}
}

func TestAutoIsListed(t *testing.T) {
	q := pool(t, "small", "big")
	c, r := q.Catalogue, &q.Settings.Routing
	for _, x := range []struct {
		key  core.Key
		want []core.Model
	}{
		{core.Key{}, []core.Model{"auto", "big", "large", "mid", "other", "small"}},
		{core.Key{Models: []core.Model{"small", "mid"}}, []core.Model{"auto", "mid", "small"}},
		{core.Key{Models: []core.Model{"mid", "auto"}}, []core.Model{"mid"}},
		{core.Key{BlockModels: []core.Model{"auto", "mid"}}, []core.Model{"big", "large", "other", "small"}},
	} {
		if got := c.Models(&x.key, r); !slices.Equal(got, x.want) {
			t.Errorf("%+v is told of %v, want %v", x.key, got, x.want)
		}
		if listed := slices.Contains(x.want, "auto"); c.Serves("auto", &x.key, r) != listed || c.Serves("auto:latest", &x.key, r) != listed {
			t.Errorf("%+v: auto is served to it: %v", x.key, !listed)
		}
	}
	if got := c.Near("aut", &core.Key{}, r); !slices.Contains(got, "auto") {
		t.Errorf("near aut: %v", got)
	}
	if got := c.Near("aut", &core.Key{Models: []core.Model{"mid"}}, r); slices.Contains(got, "auto") {
		t.Errorf("near aut, for a key that may use none of its models: %v", got)
	}
	if c.Serves("auto", nil, &core.Routing{}) || c.Serves("auto", nil, nil) || slices.Contains(c.Models(nil, nil), "auto") {
		t.Error("auto is served without a pool")
	}
}

func TestRankTakesAuto(t *testing.T) {
	offers := `"offers":[{"id":"a","input_usd_per_mtok":1,"output_usd_per_mtok":1,"own_output_jobs":9,"own_output_tps":10},
		{"id":"b","input_usd_per_mtok":9,"output_usd_per_mtok":9,"own_output_jobs":9,"own_output_tps":20}]}`
	for _, strategy := range []string{"auto", "fastest"} {
		res, err := market.Rank([]byte(`{"strategy":"` + strategy + `",` + offers))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(res.Order, []core.OfferID{"b", "a"}) || res.RankedOn != "output-speed" {
			t.Errorf("%s: %+v", strategy, res)
		}
	}
}

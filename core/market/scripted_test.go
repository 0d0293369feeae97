package market_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

// script is a strategy that may fail.
type script func(q *core.Question, ranks []core.Rank, in []bool) error

func (script) Name() string { return "mine" }

func (s script) Rank(q *core.Question, ranks []core.Rank, in []bool) error { return s(q, ranks, in) }

func TestAScriptRanks(t *testing.T) {
	q := ask(catalogue(t, nil, offer(provider("a"), "m"), offer(provider("b"), "m"), offer(provider("c"), "m")))
	q.Asked, q.Seed = "mine", 9
	q.Script = script(func(q *core.Question, ranks []core.Rank, in []bool) error {
		if q.Seed != 9 || q.Limit != 10*time.Millisecond || !q.At.Equal(start) || len(ranks) != 3 || len(in) != 3 || q.Auction.LowestCharge == 0 {
			t.Errorf("%+v", q)
		}
		for i, c := range q.Candidates {
			in[i] = c.Offer.ID != "b/m"
			ranks[i] = map[core.OfferID]core.Rank{"a/m": {Tier: 1, Cost: -2}, "c/m": {Cost: 0.125}}[c.Offer.ID]
		}
		return nil
	})
	choice := decide(t, q)
	if got := picked(choice); !slices.Equal(got, []core.OfferID{"c/m", "a/m"}) || choice.ScriptError != nil {
		t.Errorf("%v, %v", got, choice.ScriptError)
	}
	d := choice.Decision()
	if d.Strategy != "mine" || d.RankedOn != "script" || d.ScriptError != "" || d.Offers[2].Offer != "b/m" || d.Offers[2].Refused != core.RefusedStrategy {
		t.Errorf("%+v", d)
	}
	first, second, left := d.Offers[0], d.Offers[1], d.Offers[2]
	if first.Tier != core.Some[int64](0) || first.ScriptScore != core.Some(0.125) || second.Tier != core.Some[int64](1) || second.ScriptScore != core.Some(-2.0) ||
		left.Tier.OK || left.ScriptScore.OK {
		t.Errorf("the script's scores: %+v, %+v, %+v", first, second, left)
	}

	q.Script = script(func(_ *core.Question, ranks []core.Rank, in []bool) error {
		ranks[0], in[2] = core.Rank{Cost: -1}, true // nothing of this counts
		return &core.ScriptError{Script: "mine.js", Line: 7, Msg: "no"}
	})
	choice = decide(t, q)
	if got := picked(choice); !slices.Equal(got, []core.OfferID{"a/m", "b/m", "c/m"}) {
		t.Errorf("%v", got)
	}
	if d := choice.Decision(); d.Strategy != "mine" || d.RankedOn != "price" || d.ScriptError != "mine.js:7: no" || d.Offers[0].Tier.OK || d.Offers[0].ScriptScore.OK {
		t.Errorf("%+v", d)
	}
	q.Script, q.NoScript = nil, &core.ScriptError{Script: "mine.js", Msg: "there is no such script"}
	if d := decide(t, q).Decision(); d.Strategy != "mine" || d.ScriptError != "mine.js: there is no such script" || len(d.Offers) != 3 {
		t.Errorf("%+v", d)
	}
}

func TestRankScript(t *testing.T) {
	s := script(func(q *core.Question, ranks []core.Rank, in []bool) error {
		a, b := &q.Candidates[0], &q.Candidates[1]
		if q.Job.Headers["x-a"] != "b" || !q.Job.Streamed || q.Job.Model != "m" || a.Offer.Labels["k"] != "v" || a.Offer.Provider.Region != "eu" || a.Offer.Provider.Node != "rack" || b.Offer.Provider.Node != "" || !a.Full || b.Full {
			return &core.ScriptError{Script: "mine.js", Line: 1, Msg: "something is missing"}
		}
		in[1], ranks[1] = true, core.Rank{Tier: 1, Cost: 2}
		return nil
	})
	const auction = `{"strategy": "mine", "job": {"model": "m", "streamed": true, "headers": {"x-a": "b"}, "fresh_input_tokens": 1000}, "offers": [
		{"id": "a", "region": "eu", "node": "rack", "labels": {"k": "v"}, "full": true, "input_usd_per_mtok": 1, "output_usd_per_mtok": 1},
		{"id": "b", "input_usd_per_mtok": 2, "output_usd_per_mtok": 1}]}`
	res, err := market.RankScript([]byte(auction), s, start, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Order) != 1 || res.Order[0].Offer != "b" || res.Order[0].Tier != 1 || res.Order[0].Score != 2 || res.Order[0].Charge.String() != "0.002" ||
		!slices.Equal(res.LeftOut, []core.OfferID{"a"}) || res.Script != "mine" {
		t.Errorf("%+v", res)
	}
	for in, want := range map[string]string{
		`{"offers": []}`: "offers: there is none to rank",
		`{"offers": [{"id": "a", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "labels": 3}]}`:           "offers[0].labels: must be texts by name",
		`{"offers": [{"id": "a", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "full": "x"}]}`:           "offers[0].full: must be true or false",
		`{"job": {"headers": ["x"]}, "offers": [{"id": "a", "input_usd_per_mtok": 1}]}`:                       "job.headers: must be texts by name",
		`{"offers": [{"id": "a", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "provider_region": ""}]}`: "offers[0].provider_region: is not a field here",
	} {
		var e *core.Error
		if _, err := market.RankScript([]byte(in), s, start, 1, time.Second); !errors.As(err, &e) || e.Msg != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	// What only scripts see is no field of an auction for rank.
	if _, err := market.Rank([]byte(`{"offers": [{"id": "a", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "full": true}]}`)); err == nil {
		t.Error("rank takes full")
	}
}

package market_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"headway/core"
	"headway/core/market"
)

type rankCase struct {
	Name    string                     `json:"name"`
	Auction json.RawMessage            `json:"auction"`
	Want    map[string]json.RawMessage `json:"want"`
}

func TestRankVectors(t *testing.T) {
	var cases []rankCase
	vectors(t, "rank.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	for _, c := range cases {
		res, err := market.Rank(c.Auction)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		data, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(c.Want) {
			t.Errorf("%s: fields of %s, want those of %v", c.Name, data, c.Want)
		}
		for field, want := range c.Want {
			var g, w any
			if err := json.Unmarshal(want, &w); err != nil {
				t.Fatal(err)
			}
			if json.Unmarshal(got[field], &g) != nil || !same(g, w) {
				t.Errorf("%s: %s is %s, want %s", c.Name, field, got[field], want)
			}
		}
	}
}

// same compares JSON values, figures within 1e-9 of each other.
func same(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

// randomAuction has few values each, so that there are many ties.
func randomAuction(r *rand.Rand, strategy string) map[string]any {
	pick := func(vs ...any) any { return vs[r.IntN(len(vs))] }
	var offers []any
	for i := range 1 + r.IntN(12) {
		o := map[string]any{"id": fmt.Sprintf("o%02d", i), "provider": "p",
			"input_usd_per_mtok": pick("1", 2), "output_usd_per_mtok": pick("1", "2")}
		for name, vs := range map[string][]any{
			"ttft_ms": {500, 750, 751}, "base_latency_ms": {200, 300}, "prefill_tps": {4000},
			"output_tps": {50, 100}, "own_output_jobs": {4, 5}, "own_output_tps": {50, 100}} {
			if v := pick(append(vs, nil)...); v != nil || r.IntN(8) > 0 {
				o[name] = v
			}
		}
		offers = append(offers, o)
	}
	return map[string]any{"strategy": strategy, "time_value_usd_per_hour": pick("0", "1", 1000), "offers": offers,
		"job": map[string]any{"fresh_input_tokens": pick(0, 1000), "expected_output_tokens": pick(0, 500), "max_output_tokens": 500}}
}

func TestOrderIsTotalAndFollowsNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rank := func(auction map[string]any) []core.OfferID {
		data, err := json.Marshal(auction)
		if err != nil {
			t.Fatal(err)
		}
		res, err := market.Rank(data)
		if err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		return res.Order
	}
	for _, s := range market.Strategies() {
		for range 200 {
			auction := randomAuction(r, s.Name())
			offers := auction["offers"].([]any)
			first := rank(auction)
			if sorted := slices.Compact(slices.Sorted(slices.Values(first))); len(sorted) != len(offers) {
				t.Fatalf("%s: %d offers, ranked %v", s.Name(), len(offers), first)
			}
			r.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
			if again := rank(auction); !slices.Equal(first, again) {
				data, _ := json.Marshal(auction)
				t.Fatalf("%s: %v, shuffled %v: %s", s.Name(), first, again, data)
			}
			if s.Name() == "cheapest" && len(offers) > 1 {
				// Only an offer's own figures count: without one, the rest stays.
				auction["offers"] = offers[1:]
				gone := core.OfferID(offers[0].(map[string]any)["id"].(string))
				rest := slices.DeleteFunc(slices.Clone(first), func(id core.OfferID) bool { return id == gone })
				if again := rank(auction); !slices.Equal(rest, again) {
					t.Fatalf("cheapest: %v without %s is %v", first, gone, again)
				}
			}
		}
	}
}

// Amounts that a float64 cannot tell apart are still in order.
func TestMoneyIsComparedExactly(t *testing.T) {
	for _, strategy := range []string{"cheapest", "fastest", "fastest-first-token", "balanced", "price-and-wait"} {
		res, err := market.Rank([]byte(`{"strategy": "` + strategy + `", "time_value_usd_per_hour": 0,
			"job": {"fresh_input_tokens": 1, "expected_output_tokens": 0},
			"offers": [
				{"id": "a", "base_latency_ms": 1, "prefill_tps": 1, "input_usd_per_mtok": "90071992547.409933", "output_usd_per_mtok": 0},
				{"id": "b", "base_latency_ms": 1, "prefill_tps": 1, "input_usd_per_mtok": "90071992547.409932", "output_usd_per_mtok": 0}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(res.Order, []core.OfferID{"b", "a"}) {
			t.Errorf("%s: %v, want b before a", strategy, res.Order)
		}
	}
}

func TestUnmeasuredCountsAsTheMedian(t *testing.T) {
	res, err := market.Rank([]byte(`{"strategy": "fastest-first-token", "job": {}, "offers": [
		{"id": "a", "input_usd_per_mtok": 9, "output_usd_per_mtok": 9},
		{"id": "b", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "ttft_ms": 400},
		{"id": "c", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "ttft_ms": 100},
		{"id": "d", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "ttft_ms": 900},
		{"id": "e", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1, "ttft_ms": 200}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []core.OfferID{"c", "e", "a", "b", "d"}; !slices.Equal(res.Order, want) || res.TTFT["a"] != 300 {
		t.Errorf("%v with %v, want %v with 300 for a", res.Order, res.TTFT, want)
	}
	for _, strategy := range []string{"fastest-first-token", "balanced"} {
		res, err = market.Rank([]byte(`{"strategy": "` + strategy + `", "job": {"fresh_input_tokens": 1}, "offers": [
			{"id": "a", "input_usd_per_mtok": 2, "output_usd_per_mtok": 1},
			{"id": "b", "input_usd_per_mtok": 1, "output_usd_per_mtok": 1}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(res.Order, []core.OfferID{"b", "a"}) || res.TTFT != nil || res.Threshold.OK {
			t.Errorf("%s of unmeasured offers: %+v, want by price without figures", strategy, res)
		}
	}
}

// watcher notes what strategies know of all candidates together.
type watcher struct{ seen core.Auction }

func (*watcher) Name() string                  { return "watcher" }
func (*watcher) RankedOn(*core.Auction) string { return "" }
func (w *watcher) Score(_ *core.Job, a *core.Auction, _ *core.Candidate) (core.Rank, bool) {
	w.seen = *a
	return core.Rank{}, true
}

// TestMiddleOfFirstTokens: the lowest and the median are those of the sorted times,
// however many there are and wherever they are equal.
func TestMiddleOfFirstTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 2_000 {
		n := 1 + round%23
		b := board{ttft: map[core.OfferID]float64{}}
		var offers []*core.Offer
		var times []float64
		for i := range n {
			o := offer(provider(fmt.Sprintf("p%d", i)), "m")
			offers = append(offers, o)
			if i%5 == 4 {
				continue // nobody knows
			}
			b.ttft[o.ID] = float64(r.IntN(1 + round%40))
			times = append(times, b.ttft[o.ID])
		}
		w := &watcher{}
		q := ask(catalogue(t, nil, offers...))
		q.Board, q.Strategy = b, w
		decide(t, q)
		slices.Sort(times)
		k := len(times)
		want := core.Auction{LowestTTFT: core.Some(times[0]), MedianTTFT: core.Some((times[(k-1)/2] + times[k/2]) / 2)}
		if w.seen.LowestTTFT != want.LowestTTFT || w.seen.MedianTTFT != want.MedianTTFT {
			t.Fatalf("%v: lowest %v, median %v", times, w.seen.LowestTTFT, w.seen.MedianTTFT)
		}
	}
}

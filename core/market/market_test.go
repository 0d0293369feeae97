package market_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"headway/core"
	"headway/core/estimate"
	"headway/core/market"
)

func TestEstimate(t *testing.T) {
	type limits struct{ asked, own int64 } // 0: not given
	for _, c := range []struct {
		name   string
		bytes  int
		op     core.Operation
		limits limits
		want   core.Estimate
	}{
		{"nothing asked", 4000, core.OpGenerate, limits{}, core.Estimate{Fresh: 1000, Output: 500, MaxOutput: 500}},
		{"less asked", 4000, core.OpGenerate, limits{asked: 20}, core.Estimate{Fresh: 1000, Output: 20, MaxOutput: 20}},
		{"more asked", 4000, core.OpGenerate, limits{asked: 4096}, core.Estimate{Fresh: 1000, Output: 500, MaxOutput: 4096}},
		{"the offer's own", 4000, core.OpGenerate, limits{own: 8192}, core.Estimate{Fresh: 1000, Output: 500, MaxOutput: 8192}},
		{"asked before own", 4000, core.OpGenerate, limits{100, 8192}, core.Estimate{Fresh: 1000, Output: 100, MaxOutput: 100}},
		{"a small offer", 4000, core.OpGenerate, limits{own: 256}, core.Estimate{Fresh: 1000, Output: 256, MaxOutput: 256}},
		{"part of a token", 1, core.OpCompletions, limits{asked: 1}, core.Estimate{Fresh: 1, Output: 1, MaxOutput: 1}},
		{"no prompt", 0, core.OpGenerate, limits{}, core.Estimate{Output: 500, MaxOutput: 500}},
		{"embeddings", 4001, core.OpEmbeddings, limits{own: 8192}, core.Estimate{Fresh: 1001}},
		{"counting", 4000, core.OpCountTokens, limits{100, 8192}, core.Estimate{Fresh: 1000}},
	} {
		o := offer(provider("p"), "m")
		o.Limits.MaxOutput = core.Opt[int64]{V: c.limits.own, OK: c.limits.own != 0}
		job := &core.Job{Operation: c.op, PromptBytes: c.bytes, MaxOutput: core.Opt[int64]{V: c.limits.asked, OK: c.limits.asked != 0}}
		if got := estimate.Plain(job).At(o); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// three offers: "a" is quick and dear, "b" is slow and cheap, "c" in between.
func three(t testing.TB) (*market.Catalogue, board) {
	a, b, c := offer(provider("a"), "m"), offer(provider("b"), "m"), offer(provider("c"), "m")
	a.Price.Rates = core.Rates{Input: 3_000_000, Output: 3_000_000}
	c.Price.Rates = core.Rates{Input: 2_000_000, Output: 2_000_000}
	b.Price.Rates = core.Rates{Input: 1_000_000, Output: 1_000_000}
	return catalogue(t, nil, a, b, c), board{
		measures: map[core.ProviderID]*core.Measures{
			"a": figures(100, 10_000, 500), "b": figures(10_000, 1000, 10), "c": figures(500, 5000, 100)},
		ttft: map[core.OfferID]float64{"a/m": 200, "b/m": 9000, "c/m": 300},
	}
}

func TestDecideByEachStrategy(t *testing.T) {
	for name, want := range map[string][]core.OfferID{
		"cheapest":            {"b/m", "c/m", "a/m"},
		"fastest":             {"a/m", "c/m", "b/m"},
		"fastest-first-token": {"a/m", "c/m", "b/m"},
		"balanced":            {"c/m", "a/m", "b/m"},
		"price-and-wait":      {"c/m", "a/m", "b/m"},
	} {
		c, measured := three(t)
		q := ask(c)
		q.Board = measured
		q.Strategy, _ = market.ByName(name)
		if q.Strategy == nil || q.Strategy.Name() != name {
			t.Fatalf("no strategy %q", name)
		}
		if got := picked(decide(t, q)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for _, p := range decide(t, q).Picks {
			if p.Entry != c.Offer(p.Offer.ID) || p.Entry.Offer != p.Offer {
				t.Errorf("%s: %s has another's entry", name, p.Offer.ID)
			}
		}
	}
	if _, ok := market.ByName("auto"); ok {
		t.Error("there is no strategy auto")
	}
}

func TestOneIncompletePredictionPutsAllOnTheCharge(t *testing.T) {
	c, measured := three(t)
	slow := measured.measures["b"]
	slow.Output.Value = core.Opt[float64]{}
	measured.measures["b"] = slow
	q := ask(c)
	q.Board = measured
	q.Strategy, _ = market.ByName("price-and-wait")
	choice := decide(t, q)
	if got := picked(choice); choice.RankedOn != "price" || !slices.Equal(got, []core.OfferID{"b/m", "c/m", "a/m"}) {
		t.Errorf("%v on %s, want by charge on price", got, choice.RankedOn)
	}
	for _, r := range choice.Decision().Offers {
		if r.Score.OK || r.PredictedWait.OK != (r.Offer != "b/m") {
			t.Errorf("%+v", r)
		}
	}
	// An offer that is not in the running spoils nothing.
	c.Offer("b/m").State.Pause()
	if choice := decide(t, q); choice.RankedOn != "price-and-wait" {
		t.Errorf("ranked on %s by a paused offer's fault", choice.RankedOn)
	}
	// Without output there is no speed of it to need.
	c.Offer("b/m").State.Resume()
	q.Job.Operation = core.OpEmbeddings
	if choice := decide(t, q); choice.RankedOn != "price-and-wait" {
		t.Errorf("embeddings are ranked on %s", choice.RankedOn)
	}
}

func TestFullNodesComeLastWhereTheWaitDoesNotCount(t *testing.T) {
	for _, s := range market.Strategies() {
		c, measured := three(t)
		q := ask(c)
		q.Board, q.Strategy = measured, s
		best := decide(t, q).Picks[0].Entry
		best.State.SetLine(line{Up: true, Full: true})
		got := picked(decide(t, q))
		last := got[len(got)-1] == best.Offer.ID
		if want := s.Name() != "price-and-wait"; last != want {
			t.Errorf("%s: %v with %s full", s.Name(), got, best.Offer.ID)
		}
		best.State.SetLine(nil)
		if again := picked(decide(t, q)); again[0] != best.Offer.ID {
			t.Errorf("%s: %v with a free node", s.Name(), again)
		}
	}
	// On the charge alone the wait does not count either.
	c, _ := three(t)
	q := ask(c)
	q.Strategy, _ = market.ByName("price-and-wait")
	c.Offer("b/m").State.SetLine(full(0))
	if got := picked(decide(t, q)); !slices.Equal(got, []core.OfferID{"c/m", "a/m", "b/m"}) {
		t.Errorf("%v", got)
	}
}

func TestQueueIsATermOfTheWait(t *testing.T) {
	c, measured := three(t)
	q := ask(c)
	q.Board = measured
	q.Strategy, _ = market.ByName("price-and-wait")
	c.Offer("a/m").State.SetLine(full(60_000))
	choice := decide(t, q)
	if got := picked(choice); got[0] != "c/m" {
		t.Errorf("%v with a minute's queue at a", got)
	}
	for _, r := range choice.Decision().Offers {
		if r.Terms.Queue.OK != (r.Offer == "a/m") {
			t.Errorf("%s has the queue %+v", r.Offer, r.Terms.Queue)
		}
		if r.Offer == "a/m" && r.PredictedWait.V != 60_000+100+100+1000 {
			t.Errorf("a is predicted to take %v", r.PredictedWait.V)
		}
	}
}

func TestTimeValue(t *testing.T) {
	c, measured := three(t)
	for _, v := range []struct {
		name      string
		routing   core.Money
		key, call core.Opt[core.Money]
		want      core.Money
	}{
		{"routing", 5 * core.USD, core.Opt[core.Money]{}, core.Opt[core.Money]{}, 5 * core.USD},
		{"key", 5 * core.USD, core.Some(2 * core.USD), core.Opt[core.Money]{}, 2 * core.USD},
		{"key says nothing", 5 * core.USD, core.Some(core.Money(0)), core.Opt[core.Money]{}, 0},
		{"call", 5 * core.USD, core.Some(2 * core.USD), core.Some(core.USD), core.USD},
		{"call says nothing", 5 * core.USD, core.Some(2 * core.USD), core.Some(core.Money(0)), 0},
	} {
		q := ask(c)
		q.Board = measured
		q.Strategy, _ = market.ByName("price-and-wait")
		q.Settings.Routing.TimeValue, q.Key.TimeValue, q.TimeValue = v.routing, v.key, v.call
		choice := decide(t, q)
		if got := choice.Decision().TimeUSD; got != core.Some(v.want) {
			t.Errorf("%s: %v, want %v", v.name, got, v.want)
		}
		if first := picked(choice)[0]; (first == "b/m") != (v.want == 0) {
			t.Errorf("%s: first is %s at %v USD an hour", v.name, first, v.want)
		}
	}
	q := ask(c)
	q.Key = nil
	if got := decide(t, q).Decision().TimeUSD; got != core.Some(core.USD) {
		t.Errorf("without a key: %v", got)
	}
}

func TestMissingMaximumDoesNotMakeAnOfferCheap(t *testing.T) {
	dear, cheap := offer(provider("a"), "m"), offer(provider("b"), "m")
	dear.Price.Output = 9_000_000
	cheap.Limits.MaxOutput = core.Some[int64](8192)
	q := ask(catalogue(t, nil, dear, cheap))
	choice := decide(t, q)
	if got := picked(choice); got[0] != "b/m" {
		t.Errorf("%v: the dear one is first because its maximum is not known", got)
	}
	if got := choice.Picks[1].Price; got != 1000*1_000_000+8192*9_000_000 {
		t.Errorf("price %v", got)
	}
	q.Job.MaxOutput = core.Some[int64](10)
	for _, p := range decide(t, q).Picks {
		if p.Estimate.MaxOutput != 10 {
			t.Errorf("%s: maximum %d, though 10 were asked for", p.Offer.ID, p.Estimate.MaxOutput)
		}
	}
}

func TestCharges(t *testing.T) {
	o := offer(provider("p"), "m")
	o.Price.Above = core.Some(core.PriceAbove{InputTokens: 1000, Rates: core.Rates{Input: 2_000_000, Output: 4_000_000}})
	for _, c := range []struct {
		bytes         int
		op            core.Operation
		charge, price core.Money
	}{
		{4000, core.OpGenerate, 2_000_000_000, 2_000_000_000},
		{4004, core.OpGenerate, 4_002_000_000, 4_002_000_000}, // the whole call at the upper rates
		{4000, core.OpEmbeddings, 1_000_000_000, 1_000_000_000},
		{4000, core.OpCountTokens, 0, 0},
	} {
		q := ask(catalogue(t, nil, o))
		q.Job.PromptBytes, q.Job.Operation = c.bytes, c.op
		p := decide(t, q).Picks[0]
		if p.Charge != c.charge || p.Price != c.price {
			t.Errorf("%d bytes, %s: charge %v, price %v, want %v and %v", c.bytes, c.op, p.Charge, p.Price, c.charge, c.price)
		}
	}
	o = offer(provider("p"), "m")
	o.Price.Output = math.MaxInt64
	choice, err := market.Decide(ask(catalogue(t, nil, o)))
	if err == nil || choice.Refused[0].Reason != core.RefusedPrice {
		t.Errorf("%+v, %v: a charge that cannot be counted was accepted", choice, err)
	}
}

func TestDecision(t *testing.T) {
	c, measured := three(t)
	c.Offer("c/m").State.Pause()
	q := ask(c)
	q.Board = measured
	q.Strategy, _ = market.ByName("price-and-wait")
	q.TimeValue = core.Some(36 * core.USD)
	got, err := json.Marshal(decide(t, q).Decision())
	want := `{"strategy":"price-and-wait","ranked_on":"price-and-wait","offers":[` +
		`{"offer":"a/m","charge_usd":0.0045,"predicted_wait_ms":1200,"score_usd":0.0165,"ttft_ms":200,` +
		`"terms":{"base_ms":100,"prefill_ms":100,"output_ms":1000},` +
		`"fresh_input_tokens":1000,"cached_input_tokens":0,"expected_output_tokens":500,` +
		`"basis":{"input_usd_per_mtok":"3","output_usd_per_mtok":"3","prefill_tps":10000,"output_tps":500,"own_output_jobs":100,"own_output_tps":500}},` +
		`{"offer":"b/m","charge_usd":0.0015,"predicted_wait_ms":61000,"score_usd":0.6115,"ttft_ms":9000,` +
		`"terms":{"base_ms":10000,"prefill_ms":1000,"output_ms":50000},` +
		`"fresh_input_tokens":1000,"cached_input_tokens":0,"expected_output_tokens":500,` +
		`"basis":{"input_usd_per_mtok":"1","output_usd_per_mtok":"1","prefill_tps":1000,"output_tps":10,"own_output_jobs":100,"own_output_tps":10}},` +
		`{"offer":"c/m","refused":"paused"}],"time_value_usd_per_hour":36}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
	q.Board = board{}
	q.Strategy, _ = market.ByName("cheapest")
	got, err = json.Marshal(decide(t, q).Decision().Offers[0])
	want = `{"offer":"b/m","charge_usd":0.0015,"fresh_input_tokens":1000,"cached_input_tokens":0,"expected_output_tokens":500,"basis":{"input_usd_per_mtok":"1","output_usd_per_mtok":"1"}}`
	if err != nil || string(got) != want {
		t.Errorf("unmeasured: got  %s %v\nwant %s", got, err, want)
	}
}

// picky is a strategy as an operator's script may be.
type picky struct{ cost map[core.OfferID]float64 }

func (picky) Name() string                  { return "picky" }
func (picky) RankedOn(*core.Auction) string { return "picky" }
func (p picky) Score(_ *core.Job, _ *core.Auction, c *core.Candidate) (core.Rank, bool) {
	v, ok := p.cost[c.Offer.ID]
	return core.Rank{Cost: v}, ok
}

func TestStrategyMayLeaveOut(t *testing.T) {
	c, _ := three(t)
	q := ask(c)
	q.Strategy = picky{map[core.OfferID]float64{"a/m": math.NaN(), "c/m": 5}}
	choice := decide(t, q)
	if got := picked(choice); !slices.Equal(got, []core.OfferID{"c/m", "a/m"}) {
		t.Errorf("%v, want c before a, which has no number", got)
	}
	if len(choice.Refused) != 1 || choice.Refused[0].Entry.Offer.ID != "b/m" || choice.Refused[0].Reason != core.RefusedStrategy {
		t.Errorf("%+v, want b left out", choice.Refused)
	}
	q.Strategy = picky{}
	if e := refusal(t, func(q *market.Query, _, _ *core.Offer, _ func(core.OfferID) *market.Entry) { q.Strategy = picky{} }); e.Kind != core.NoOffer || e.Msg != `model "m": no offer is available: 2 left_out` || !strings.Contains(e.Hint, "leaves out") {
		t.Errorf("%v %s: %s", e.Kind, e.Msg, e.Hint)
	}
}

func TestDecideFollowsNoOrderOfTheConfiguration(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	// More than the stack has room for.
	var offers []*core.Offer
	b := board{ttft: map[core.OfferID]float64{}}
	for i := range 100 {
		o := offer(provider(fmt.Sprintf("p%03d", i)), "m")
		o.Price.Input = core.Rate(r.IntN(5)) * 1_000_000
		if r.IntN(3) > 0 {
			b.ttft[o.ID] = float64(r.IntN(5) * 100)
		}
		offers = append(offers, o)
	}
	for _, s := range market.Strategies() {
		var first []core.OfferID
		for n := range 20 {
			r.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
			q := ask(catalogue(t, nil, offers...))
			q.Board, q.Strategy = b, s
			got := picked(decide(t, q))
			if n == 0 {
				first = got
			}
			if len(got) != 100 || !slices.Equal(got, first) {
				t.Fatalf("%s: %v, then %v", s.Name(), first, got)
			}
		}
	}
}

func TestDecideAsksForLittleMemory(t *testing.T) {
	q := many(t, 50)
	n := testing.AllocsPerRun(100, func() {
		c, _ := market.Decide(q)
		c.Release()
	})
	if n > 3 {
		t.Errorf("%v allocations, want the reading, the choice and its picks", n)
	}
}

// TestRelease: what a decision's memory was used for before shows in none after it.
func TestRelease(t *testing.T) {
	q := many(t, 50)
	bare := q
	bare.Board = board{} // nothing is measured
	of := func(q market.Query) *core.Decision {
		t.Helper()
		c, err := market.Decide(q)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		return c.Decision()
	}
	known, unknown := of(q), of(bare)
	for range 20 {
		if got := of(bare); !reflect.DeepEqual(got, unknown) {
			t.Fatalf("%+v\nwant\n%+v", got, unknown)
		}
		if got := of(q); !reflect.DeepEqual(got, known) {
			t.Fatalf("%+v\nwant\n%+v", got, known)
		}
	}
	(*market.Choice)(nil).Release()
	c, _ := market.Decide(q)
	c.Release()
	c.Release()
}

// many is a question for a model with n measured offers.
func many(t testing.TB, n int) market.Query {
	r := rand.New(rand.NewPCG(5, 6))
	b := board{measures: map[core.ProviderID]*core.Measures{}, ttft: map[core.OfferID]float64{}}
	var offers []*core.Offer
	for i := range n {
		o := offer(provider(fmt.Sprintf("provider-%d", i)), "m")
		o.Price.Input = core.Rate(1 + r.Int64N(10_000_000))
		o.Capacity = core.Some[int64](64)
		o.Limits = core.OfferLimits{Context: core.Some[int64](128_000), MaxOutput: core.Some[int64](8192)}
		b.measures[o.Provider.ID] = figures(100+float64(r.IntN(1000)), 1000+float64(r.IntN(9000)), 10+float64(r.IntN(200)))
		b.ttft[o.ID] = 100 + float64(r.IntN(1000))
		offers = append(offers, o)
	}
	q := ask(catalogue(t, nil, offers...))
	q.Board = b
	q.Key = &core.Key{Models: []core.Model{"other", "m"}, Owner: "ann"}
	q.Strategy, _ = market.ByName("price-and-wait")
	return q
}

func BenchmarkDecide50(b *testing.B) { benchmarkDecide(b, 50) }

func BenchmarkDecide3(b *testing.B) { benchmarkDecide(b, 3) }

func benchmarkDecide(b *testing.B, n int) {
	q := many(b, n)
	b.ReportAllocs()
	for b.Loop() {
		c, err := market.Decide(q)
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

func BenchmarkDecision50(b *testing.B) {
	choice := decide(b, many(b, 50))
	b.ReportAllocs()
	for b.Loop() {
		choice.Decision()
	}
}

// TestForce: the offer of a forced call is ranked as any other, also where it is
// paused, and is in the decision once.
func TestForce(t *testing.T) {
	c, measured := three(t)
	q := ask(c)
	q.Board = measured
	q.Strategy, _ = market.ByName("price-and-wait")
	free := decide(t, q)
	if !free.Force(q, "a/m") {
		t.Fatal("a free offer cannot be forced")
	}
	c.Offer("a/m").State.Pause()
	paused := decide(t, q)
	if paused.Force(q, "x/m") || len(paused.Picks) != 2 {
		t.Errorf("an offer that is not there was forced: %v", picked(paused))
	}
	if !paused.Force(q, "a/m") {
		t.Fatal("a paused offer cannot be forced")
	}
	want, _ := json.Marshal(free.Decision())
	if got, _ := json.Marshal(paused.Decision()); string(got) != string(want) {
		t.Errorf("paused: %s\nfree: %s", got, want)
	}
	q.Key = &core.Key{Models: []core.Model{"other"}}
	if refused, _ := market.Decide(q); refused.Force(q, "a/m") {
		t.Error("an offer that may not serve the key was forced")
	}
}

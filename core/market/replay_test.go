package market_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
	"headway/embedded/store"
)

// chance makes questions with few values each, so that there are many ties, and
// with every kind of figure absent at times.
type chance struct {
	*rand.Rand
	n int
}

func (r *chance) maybe(values ...float64) core.Opt[float64] {
	if r.IntN(5) == 0 {
		return core.Opt[float64]{}
	}
	if r.IntN(6) == 0 {
		return core.Some(r.Float64() * 1000) // with all its digits
	}
	return core.Some(values[r.IntN(len(values))])
}

func (r *chance) count(values ...int64) core.Opt[int64] {
	if r.IntN(2) == 0 {
		return core.Opt[int64]{}
	}
	return core.Some(values[r.IntN(len(values))])
}

// question is an auction of up to 9 offers; some are paused, some of nodes.
func (r *chance) question(t testing.TB) market.Query {
	b := board{measures: map[core.ProviderID]*core.Measures{}, ttft: map[core.OfferID]float64{}}
	var offers []*core.Offer
	for _, i := range r.Perm(1 + r.IntN(9)) {
		p := provider(fmt.Sprintf("p%d", i))
		p.Region = "eu"
		o := offer(p, "m")
		o.Labels = map[string]string{"n": fmt.Sprint(i)}
		o.Price.Rates = core.Rates{Input: core.Rate(r.IntN(3)) * 500_000, Output: core.Rate(1+r.IntN(2)) * 1_000_000}
		if r.IntN(2) == 0 {
			o.Price.CacheRead = core.Some(core.Rate(r.IntN(200_000)))
		}
		if r.IntN(3) == 0 {
			o.Price.Above = core.Some(core.PriceAbove{InputTokens: 900, Rates: core.Rates{Input: 3_000_000, Output: 3_000_000}})
		}
		o.Limits.MaxOutput = r.count(8192, 9000)
		b.measures[p.ID] = &core.Measures{BaseLatency: core.Measure{Value: r.maybe(100, 200.125)}, Prefill: core.Measure{Value: r.maybe(900, 1000)},
			Output: core.Measure{Value: r.maybe(40, 50.5), Own: r.maybe(40, 60), Jobs: r.Int64N(8)}}
		if v := r.maybe(300, 301, 450, 451.001); v.OK {
			b.ttft[o.ID] = v.V
		}
		offers = append(offers, o)
	}
	c := catalogue(t, nil, offers...)
	for _, e := range c.Entries() {
		switch r.IntN(6) {
		case 0:
			e.State.Pause()
		case 1:
			e.State.SetLine(line{Up: true, Full: r.IntN(2) == 0, Ahead: float64(r.IntN(3)) / 2, Service: r.maybe(700)})
		}
	}
	c.Entries()[0].State.Resume() // at least one is in the running
	q := ask(c)
	q.Board = b
	q.Job.PromptBytes = []int{0, 400, 4000, 3999}[r.IntN(4)]
	q.Job.MaxOutput = r.count(1, 100, 5000)
	q.Job.Operation = []core.Operation{core.OpGenerate, core.OpGenerate, core.OpGenerate, core.OpEmbeddings, core.OpCountTokens}[r.IntN(5)]
	q.Job.Streamed = r.IntN(2) == 0
	q.TimeValue = core.Some(core.Money(r.IntN(3)) * core.USD)
	r.n++
	q.At = start.Add(time.Duration(r.n) * time.Millisecond)
	return q
}

// witness is a script that leaves every third offer out, orders the others by
// chance, as they come, and notes what it saw.
type witness struct{ saw []seen }

type seen struct {
	job        core.Job
	auction    core.Auction
	at         time.Time
	seed       uint64
	limit      time.Duration
	candidates []core.Candidate
	offers     []core.Offer
	measures   []core.Measures
}

func (*witness) Name() string { return "witness" }

func (w *witness) Rank(q *core.Question, ranks []core.Rank, in []bool) error {
	s := seen{job: core.Job{Model: q.Job.Model, Streamed: q.Job.Streamed, MaxOutput: q.Job.MaxOutput, Operation: q.Job.Operation},
		auction: *q.Auction, at: q.At, seed: q.Seed, limit: q.Limit}
	for i, c := range q.Candidates {
		in[i] = (q.Seed+uint64(i))%3 != 0
		ranks[i] = core.Rank{Cost: float64(q.Seed >> i % 3), Price: c.Price}
		rates := *c.Offer.Price.For(c.Estimate.Fresh + c.Estimate.Cached)
		s.offers = append(s.offers, core.Offer{ID: c.Offer.ID, Provider: &core.Provider{ID: c.Offer.Provider.ID, Region: c.Offer.Provider.Region},
			Model: c.Offer.Model, Labels: c.Offer.Labels, Price: core.Price{Rates: core.Rates{Input: rates.Input, Output: rates.Output, CacheRead: rates.CacheRead}}})
		m := c.Measures
		s.measures = append(s.measures, core.Measures{BaseLatency: core.Measure{Value: m.BaseLatency.Value}, Prefill: core.Measure{Value: m.Prefill.Value},
			Output: core.Measure{Value: m.Output.Value, Own: m.Output.Own, Jobs: m.Output.Jobs}})
		c.Offer, c.Measures = nil, nil
		s.candidates = append(s.candidates, c)
	}
	w.saw = append(w.saw, s)
	return nil
}

// shelf is a store that a test keeps receipts in.
func shelf(t *testing.T) *store.Store {
	s, err := store.Open(t.TempDir(), store.Options{Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A decision that was stored and read again is ranked as it was, by every built-in
// strategy and by a script, which sees the same figures.
func TestStoredDecisionsRankAsTheyDid(t *testing.T) {
	seed := rand.Uint64()
	r := &chance{Rand: rand.New(rand.NewPCG(seed, 1))}
	type kept struct {
		query market.Query
		order []core.OfferID
		saw   *seen
	}
	calls := map[core.CallID]kept{}
	book := shelf(t)
	var durable sync.WaitGroup
	for n := range 1200 {
		q := r.question(t)
		var script *witness
		if k := n % (len(market.Strategies()) + 1); k < len(market.Strategies()) {
			q.Strategy = market.Strategies()[k]
		} else {
			script = &witness{}
			q.Script = script
		}
		id := core.NewCallID(q.At)
		q.Seed = id.Seed()
		choice, err := market.Decide(q)
		if err != nil && script == nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		k := kept{query: q, order: picked(choice)}
		if script != nil {
			k.saw = &script.saw[0]
		}
		calls[id] = k
		if err := book.Open(core.Intent{ID: id, Job: core.JobID(id), Kind: core.KindJob, At: q.At}); err != nil {
			t.Fatal(err)
		}
		durable.Add(1)
		book.Append(&core.Receipt{ID: id, Job: core.JobID(id), Kind: core.KindJob, Outcome: core.Settled, At: q.At, SettledAt: q.At, Model: q.Job.Model,
			Annex: core.Annex{Operation: q.Job.Operation, Streamed: q.Job.Streamed, Decision: choice.Decision()}}, durable.Done)
	}
	durable.Wait()

	err := book.Receipts(time.Time{}, time.Time{}, false, func(c *core.Receipt) bool {
		k := calls[c.ID]
		delete(calls, c.ID)
		known := func(id core.OfferID) *core.Offer { return k.query.Catalogue.Offer(id).Offer }
		past, ok := market.Recall(c.Decision, core.Job{Model: c.Model, Operation: c.Operation, Streamed: c.Streamed}, known)
		if !ok {
			t.Fatalf("seed %d: %s cannot be ranked again", seed, c.ID)
		}
		script := &witness{}
		var asked core.Script
		if k.saw != nil {
			asked = script
		}
		places, err := past.Rank(k.query.Strategy, asked, c.At, c.ID.Seed(), k.query.Settings.Limits.Script)
		order := []core.OfferID{}
		for _, p := range places {
			order = append(order, past.Candidates[p].Offer.ID)
		}
		text, _ := json.Marshal(c.Decision)
		if err != nil || !slices.Equal(order, k.order) {
			t.Fatalf("seed %d, %s: decided %v, again %v (%v)\n%s", seed, k.query.Strategy.Name(), k.order, order, err, text)
		}
		if k.saw != nil && !reflect.DeepEqual(script.saw[0], *k.saw) {
			t.Fatalf("seed %d: the script saw\n%+v, again\n%+v\n%s", seed, *k.saw, script.saw[0], text)
		}
		return true
	})
	if err != nil || len(calls) > 0 {
		t.Errorf("seed %d: %v, %d calls were not there", seed, err, len(calls))
	}
}

func TestRecall(t *testing.T) {
	c, measured := three(t)
	c.Offer("c/m").State.Pause()
	q := ask(c)
	q.Board = measured
	d := decide(t, q).Decision()
	gone := func(core.OfferID) *core.Offer { return nil }
	job := core.Job{Model: "m", Operation: core.OpGenerate}
	fast, _ := market.ByName("fastest-first-token")

	past, ok := market.Recall(d, job, gone)
	if !ok || len(past.Candidates) != 2 {
		t.Fatalf("%+v, want both that were in the running", past)
	}
	o := past.Candidates[0].Offer
	if o.ID != "b/m" || o.Provider == nil || o.Provider.ID != "" || o.Model != "" {
		t.Errorf("%+v, want an offer with its id alone", o)
	}
	if places, err := past.Rank(fast, nil, start, 1, time.Second); err != nil || !slices.Equal(places, []int32{1, 0}) {
		t.Errorf("%v %v, want a before b", places, err)
	}
	// A script that fails leaves the ranking to the strategy and says why.
	why := &core.ScriptError{Script: "s.js", Line: 3, Msg: "no"}
	if places, err := past.Rank(fast, failing{why}, start, 1, time.Second); err != error(why) || !slices.Equal(places, []int32{1, 0}) {
		t.Errorf("%v %v, want a before b and the script's error", places, err)
	}
	for i := range d.Offers {
		d.Offers[i].Basis = nil
	}
	if _, ok := market.Recall(d, job, gone); ok {
		t.Error("a decision without its figures was ranked again")
	}
	if _, ok := market.Recall(&core.Decision{Offers: []core.Ranked{{Offer: "a/m", Refused: core.RefusedPaused}}}, job, gone); ok {
		t.Error("a decision without an offer was ranked again")
	}
}

type failing struct{ why error }

func (failing) Name() string                                     { return "s" }
func (f failing) Rank(*core.Question, []core.Rank, []bool) error { return f.why }

package market_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

// TestQueuesOfNodes: between two nodes that cost alike price-and-wait takes the one
// whose whole predicted wait is shorter, queue and all; on a tie the cheaper one. On
// "fast" a call takes 1,200 ms, on "slow" 2,200 ms.
func TestQueuesOfNodes(t *testing.T) {
	const fast, slow = 1200, 2200
	some := func(service float64) core.Opt[float64] { return core.Some(service) }
	for name, x := range map[string]struct {
		fast, slow line
		queues     [2]float64 // in the decision
		want       core.OfferID
	}{
		"both free":                         {line{Up: true}, line{Up: true}, [2]float64{0, 0}, "fast/m"},
		"a short queue is worth it":         {line{Up: true, Full: true, Ahead: 0.25, Service: some(3999)}, line{Up: true}, [2]float64{999.75, 0}, "fast/m"},
		"as long: the cheaper one":          {line{Up: true, Full: true, Ahead: 0.25, Service: some(4000)}, line{Up: true}, [2]float64{1000, 0}, "slow/m"},
		"a longer one is not":               {line{Up: true, Full: true, Ahead: 0.25, Service: some(4001)}, line{Up: true}, [2]float64{1000.25, 0}, "slow/m"},
		"queues at both":                    {line{Up: true, Full: true, Ahead: 2, Service: some(1000)}, line{Up: true, Full: true, Ahead: 0.5, Service: some(2002)}, [2]float64{2000, 1001}, "fast/m"},
		"and longer at the fast one":        {line{Up: true, Full: true, Ahead: 2, Service: some(1000)}, line{Up: true, Full: true, Ahead: 0.5, Service: some(1998)}, [2]float64{2000, 999}, "slow/m"},
		"no service yet: its own call's":    {line{Up: true, Full: true, Ahead: 0.5}, line{Up: true}, [2]float64{600, 0}, "fast/m"},
		"no service yet, one whole ahead":   {line{Up: true, Full: true, Ahead: 1}, line{Up: true}, [2]float64{1200, 0}, "slow/m"},
		"no service yet, two ahead at both": {line{Up: true, Full: true, Ahead: 2}, line{Up: true, Full: true, Ahead: 2}, [2]float64{2400, 4400}, "fast/m"},
	} {
		a, b := offer(provider("fast"), "m"), offer(provider("slow"), "m")
		b.Price.Input -= 1 // a picodollar a token less
		c := catalogue(t, nil, a, b)
		c.Offer("fast/m").State.SetLine(x.fast)
		c.Offer("slow/m").State.SetLine(x.slow)
		q := ask(c)
		q.Strategy, _ = market.ByName("price-and-wait")
		q.Board = board{measures: map[core.ProviderID]*core.Measures{"fast": figures(100, 10_000, 500), "slow": figures(1100, 10_000, 500)}}
		q.TimeValue = core.Some(1000 * core.USD)
		choice := decide(t, q)
		if got := choice.Picks[0].Offer.ID; got != x.want || choice.RankedOn != "price-and-wait" {
			t.Errorf("%s: %s on %s", name, got, choice.RankedOn)
		}
		for _, r := range choice.Decision().Offers {
			i, own := 0, float64(fast)
			if r.Offer == "slow/m" {
				i, own = 1, slow
			}
			if r.Terms.Queue != core.Some(x.queues[i]) || r.PredictedWait.V != own+x.queues[i] {
				t.Errorf("%s: %s is predicted to take %v with the queue %v", name, r.Offer, r.PredictedWait.V, r.Terms.Queue)
			}
		}
	}
}

// TestQueueWithoutPrediction: a node that has served nothing, and of which nothing is
// known, is not guessed at.
func TestQueueWithoutPrediction(t *testing.T) {
	c := catalogue(t, nil, offer(provider("a"), "m"), offer(provider("b"), "m"))
	c.Offer("a/m").State.SetLine(full(0))
	q := ask(c)
	q.Strategy, _ = market.ByName("price-and-wait")
	choice := decide(t, q)
	if got := picked(choice); choice.RankedOn != "price" || !slices.Equal(got, []core.OfferID{"b/m", "a/m"}) {
		t.Errorf("%v on %s", got, choice.RankedOn)
	}
	for _, r := range choice.Decision().Offers {
		if r.Terms.Queue.OK {
			t.Errorf("%+v", r)
		}
	}
}

// TestFullNodesBehindFree: strategies that ignore the wait rank a full node behind
// every free offer, whatever its price, and full ones among themselves as usual.
func TestFullNodesBehindFree(t *testing.T) {
	for _, s := range market.Strategies()[1:] {
		cheap, cheaper, dear := offer(provider("cheap"), "m"), offer(provider("cheaper"), "m"), offer(provider("dear"), "m")
		cheap.Price.Rates, cheaper.Price.Rates = core.Rates{Input: 2, Output: 2}, core.Rates{Input: 1, Output: 1}
		c := catalogue(t, nil, cheap, cheaper, dear)
		c.Offer("cheap/m").State.SetLine(full(1))
		c.Offer("cheaper/m").State.SetLine(full(1))
		q := ask(c)
		q.Strategy = s
		if got := picked(decide(t, q)); !slices.Equal(got, []core.OfferID{"dear/m", "cheaper/m", "cheap/m"}) {
			t.Errorf("%s: %v", s.Name(), got)
		}
	}
}

// TestLostNodes: the error where nodes are lost, and when to come again.
func TestLostNodes(t *testing.T) {
	lost := func(e *market.Entry) { e.State.SetLine(line{}) }
	out := func(d time.Duration) func(*market.Entry) {
		return func(e *market.Entry) { e.State.RetryAfter(start, d, breaker()) }
	}
	for _, x := range []struct {
		a, b  func(*market.Entry)
		msg   string
		after time.Duration
	}{
		{lost, lost, `model "m": no offer is available: 2 node_lost`, 5 * time.Second},
		{lost, out(30 * time.Second), `model "m": no offer is available: 1 breaker_open, 1 node_lost`, 5 * time.Second},
		{lost, out(2 * time.Second), `model "m": no offer is available: 1 breaker_open, 1 node_lost`, 2 * time.Second},
		{lost, func(e *market.Entry) { e.State.Pause() }, `model "m": no offer is available: 1 paused, 1 node_lost`, 5 * time.Second},
	} {
		c := catalogue(t, nil, offer(provider("a"), "m"), offer(provider("b"), "m"))
		x.a(c.Offer("a/m"))
		x.b(c.Offer("b/m"))
		_, err := market.Decide(ask(c))
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.NoOffer || e.Msg != x.msg || e.RetryAfter != x.after || e.Status() != 503 {
			t.Errorf("%v, %+v", err, e)
		}
		c.Offer("a/m").State.SetLine(line{Up: true})
		if choice := decide(t, ask(c)); picked(choice)[0] != "a/m" {
			t.Errorf("back: %v", picked(choice))
		}
	}
}

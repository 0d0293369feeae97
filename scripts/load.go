package scripts

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"

	"headway/core"
)

// loadLimit is how long each dry run may take. No call waits for it, and a file must
// not be refused because the machine was busy when it was read.
const loadLimit = 500 * time.Millisecond

// Load checks a source and tries it on two sample auctions, one where everything was
// measured and one where nothing was. file is what errors call it; name what
// decisions do. The error is a *core.ScriptError.
func Load(name, file string, source []byte) (core.Script, error) {
	s, err := load(name, file, source, newTurns(), &atomic.Int32{}, &atomic.Int32{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func load(name, file string, source []byte, turns chan struct{}, hung, left *atomic.Int32) (*script, *core.ScriptError) {
	ok, wrong := check(file, source)
	if wrong != nil {
		wrong.Msg = plain(wrong.Msg)
		return nil, wrong
	}
	find, err := goja.Compile(file, `typeof score === "undefined" ? undefined : score`, true)
	if err != nil {
		return nil, &core.ScriptError{Script: file, Msg: err.Error()}
	}
	s := &script{checked: ok, name: name, file: file, find: find, turns: turns, hung: hung, left: left}
	// A dry run takes no turn of a call's, and one that hangs is not held against the
	// calls of this script.
	dry := *s
	dry.turns, dry.hung = make(chan struct{}, 1), &atomic.Int32{}
	for _, q := range [...]*core.Question{sample(true), sample(false)} {
		n := len(q.Candidates)
		if err := dry.Rank(q, make([]core.Rank, n), make([]bool, n)); err != nil {
			var e *core.ScriptError
			errors.As(err, &e)
			return nil, e
		}
	}
	return s, nil
}

// sample is an auction for a dry run. What may be unknown in a real one is known in
// one of them and unknown in the other.
func sample(known bool) *core.Question {
	at := time.Date(2026, 1, 7, 9, 0, 0, 0, time.UTC)
	q := &core.Question{Job: &core.Job{Operation: core.OpGenerate, Model: "sample", Streamed: known}, At: at, Seed: 1, Limit: loadLimit}
	q.Auction = &core.Auction{TimeValue: core.USD, Complete: known, LowestCharge: core.USD / 1000, LowestPrice: core.USD / 100}
	opt := func(v float64) core.Opt[float64] { return core.Opt[float64]{V: v, OK: known} }
	if known {
		q.Job.MaxOutput = core.Some[int64](1000)
		q.Auction.LowestTTFT, q.Auction.MedianTTFT = opt(200), opt(300)
	}
	for i, provider := range [...]*core.Provider{{ID: "one"}, {ID: "two"}} {
		x := float64(i + 1)
		o := &core.Offer{ID: core.OfferID(provider.ID) + "/sample", Provider: provider, Model: "sample",
			Price: core.Price{Rates: core.Rates{Input: 1_000_000, Output: 2_000_000}}}
		c := core.Candidate{Offer: o, Estimate: core.Estimate{Fresh: 1000, Output: 500, MaxOutput: 1000},
			Charge: core.USD / 1000, Price: core.USD / 100, TTFT: opt(200 * x),
			Measures: &core.Measures{BaseLatency: core.Measure{Value: opt(200 * x)}, Prefill: core.Measure{Value: opt(4000)},
				Output: core.Measure{Value: opt(50), Own: opt(50)}}}
		if known {
			c.Measures.Output.Jobs = 10
			c.Prediction = core.Prediction{Base: opt(200 * x), Prefill: opt(250), Output: opt(10_000), Queue: opt(0), Complete: true}
		}
		q.Candidates = append(q.Candidates, c)
	}
	return q
}

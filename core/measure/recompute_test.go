package measure_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headway/core"
	"headway/core/measure"
)

// varied is one of many kinds of receipts, settled at a time.
func varied(rnd *rand.Rand, at time.Time) *core.Receipt {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	ms := func(most float64) core.Opt[float64] { return core.Some(core.Micro(rnd.Float64() * most)) }
	tokens := func(most int64) core.Opt[int64] { return core.Some(rnd.Int64N(most)) }
	r := &core.Receipt{
		ID: core.NewCallID(at.Add(-time.Second)), Kind: core.CallKind(pick("job", "job", "job", "probe", "bench", "test")), At: at.Add(-time.Second), SettledAt: at,
		Outcome:  core.Outcome(pick("settled", "settled", "settled", "settled", "failed", "truncated")),
		Provider: core.ProviderID(pick("fast", "slow", "ünï/code", "")), Model: core.Model(pick("small", "large:1%", "a/b c")), UsageFrom: core.UsageFrom(pick("provider", "provider", "estimate", "mixed")),
		Usage: core.Usage{UncachedInput: tokens(3000), Output: tokens(900)},
	}
	r.Offer = core.OfferID(string(r.Provider) + "/" + string(r.Model))
	r.Operation = core.Operation(pick("generate", "generate", "", "completions", "embeddings"))
	r.Streamed = true
	r.Timing.DispatchToFirstToken, r.Timing.FirstTokenToEnd, r.Timing.FirstToken = ms(3000), ms(9000), ms(3000)
	if rnd.IntN(3) == 0 {
		r.Usage.UncachedInput, r.Usage.CacheWrite, r.Usage.CacheRead = tokens(60_000), tokens(60_000), tokens(1000)
	}
	if rnd.IntN(3) == 0 {
		r.Timing.Arrivals = tokens(9)
	}
	if rnd.IntN(9) == 0 {
		r.Timing.FreshInputTokens, r.Timing.StreamedOutputTokens = tokens(2000), tokens(50)
	}
	if rnd.IntN(5) == 0 {
		r.Node = "attic"
		if rnd.IntN(3) > 0 {
			r.NodeTiming = &core.NodeTiming{SlotWait: core.Some(float64(rnd.IntN(2)) * 12.5)}
		}
	}
	r.PredictedWait, r.ActualWait = ms(5000), ms(5000)
	r.Decision = &core.Decision{Offers: []core.Ranked{{Offer: "other/x"}, {Offer: r.Offer, Fresh: tokens(3000), Cached: tokens(500), Output: tokens(500)}}}
	return r
}

// exported is a receipt as it comes out of an export: through JSON, without its
// decision.
func exported(t *testing.T, r *core.Receipt) *core.Receipt {
	t.Helper()
	c := *r
	c.Expected, c.Decision = r.ExpectedThere(), nil
	text, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	back := &core.Receipt{}
	if err := json.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	return back
}

// A week of a Board, with receipts that come too late and a restart, is rebuilt from
// what is exported of its receipts, in any order, to the byte.
func TestRebuilt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	now := date(2, 0, 0)
	v := newVault()
	b := newBoard(t, func() time.Time { return now }, v)
	var list []*core.Receipt
	for i := range 4000 {
		now = now.Add(time.Duration(rnd.IntN(300)) * time.Second)
		at := now
		if rnd.IntN(20) == 0 { // it waited for the disk
			at = now.Add(-time.Duration(rnd.IntN(40)) * time.Hour)
		}
		r := varied(rnd, at)
		b.Record(r)
		list = append(list, exported(t, r))
		if i%10 == 0 || i == 3999 {
			for _, c := range b.Changed() {
				if err := v.Put(c.Kind, c.Name, c.Value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i == 2000 {
			b = newBoard(t, func() time.Time { return now }, v)
		}
	}
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	rebuilt := rebuild(t, list)
	stored := storedOf(t, b)
	late := 0
	for _, r := range list {
		if r.CountedOn != "" {
			late++
		}
	}
	if late < 20 || len(stored) < 200 {
		t.Fatalf("%d receipts were late, %d sketches: too few", late, len(stored))
	}
	checks, err := rebuilt.Compare(stored)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if c.Equal != c.Sketches || c.Stored != c.Rebuilt || len(c.Different) > 0 {
			t.Errorf("%+v", c)
		}
	}
	var all []measure.DaySketch
	_ = rebuilt.All(func(s measure.DaySketch) error { all = append(all, s); return nil })
	if fmt.Sprint(byName(all)) != fmt.Sprint(byName(stored)) {
		t.Error("the sketches are not the same")
	}
	pairs := []measure.Pair{{Provider: "fast", Model: "small"}, {Provider: "none", Model: "small"}, {Provider: "none", Model: "none"}}
	var want []measure.Row
	for _, r := range b.Rows(pairs) {
		if slices.Contains(pairs, measure.Pair{Provider: r.Provider, Model: r.Model}) {
			want = append(want, r)
		}
	}
	if got, err := rebuilt.Rows(b.Window(), now, pairs); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}

	// One receipt less is a difference that is named; for a part of a day it is none.
	i := slices.IndexFunc(list, func(r *core.Receipt) bool { return len(measure.Values(r)) == 1 && r.Provider != "" })
	gone := list[i]
	list = slices.Delete(list, i, i+1)
	if checks, err = rebuild(t, list).Compare(stored); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range checks {
		for _, d := range c.Different {
			found = found || c.Day == measure.CountedOn(gone) && d.Provider == gone.Provider && d.Model == gone.Model && d.Stored == d.Rebuilt+1 && d.Within
		}
	}
	if !found {
		t.Errorf("that a receipt of %s is missing is not told: %+v", measure.CountedOn(gone), checks)
	}
	// One that was not there is told too, and is none of a part.
	list = append(list, gone, gone)
	if checks, err = rebuild(t, list).Compare(stored); err != nil {
		t.Fatal(err)
	}
	found = false
	for _, c := range checks {
		for _, d := range c.Different {
			found = found || c.Day == measure.CountedOn(gone) && d.Stored == d.Rebuilt-1 && !d.Within
		}
	}
	if !found {
		t.Error("a receipt that is there twice is not told")
	}
}

func byName(list []measure.DaySketch) map[string][]byte {
	out := map[string][]byte{}
	for _, s := range list {
		out[fmt.Sprintf("%s %s %q %q %q %d", s.Day, s.Measure, s.Provider, s.Model, s.Offer, s.Jobs)] = s.Sketch
	}
	return out
}

func rebuild(t *testing.T, list []*core.Receipt) *measure.Rebuilt {
	t.Helper()
	b, err := measure.NewRebuilt("")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		b.Add(r)
	}
	return b
}

func storedOf(t *testing.T, b *measure.Board) (list []measure.DaySketch) {
	t.Helper()
	if err := b.Stored(func(s measure.DaySketch) error { list = append(list, s); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// What is no sketch, or of nothing, is refused, with what it is of.
func TestCompareRefuses(t *testing.T) {
	good := measure.DaySketch{Day: "2026-03-02", Measure: measure.BaseLatency, Provider: "p", Model: "m", Jobs: 1, Sketch: []byte{1, 1, 5, 1}}
	for name, change := range map[string]func(*measure.DaySketch){
		"bytes":    func(s *measure.DaySketch) { s.Sketch = []byte{1, 1, 5} },
		"jobs":     func(s *measure.DaySketch) { s.Jobs = 2 },
		"day":      func(s *measure.DaySketch) { s.Day = "2026-03-42" },
		"measure":  func(s *measure.DaySketch) { s.Measure = "beauty" },
		"no model": func(s *measure.DaySketch) { s.Model = "" },
		"no offer": func(s *measure.DaySketch) { s.Measure = "prediction_error" },
	} {
		bad := good
		change(&bad)
		if _, err := rebuild(t, nil).Compare([]measure.DaySketch{bad}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := rebuild(t, nil).Compare([]measure.DaySketch{good, good}); err == nil {
		t.Error("twice: taken")
	}
	if checks, err := rebuild(t, nil).Compare([]measure.DaySketch{good}); err != nil || len(checks) != 1 || len(checks[0].Different) != 1 || checks[0].Different[0].Rebuilt != 0 {
		t.Errorf("%+v %v", checks, err)
	}
}

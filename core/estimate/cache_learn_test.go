package estimate_test

import (
	"fmt"
	"testing"
	"time"

	"headway/core"
	"headway/core/estimate"
)

// long is a conversation of one offer that grows by 4,000 bytes, 1,000 tokens as its
// provider counts them, at each turn.
type long struct {
	t     *testing.T
	e     *estimate.Estimator
	clock *clockAt
	offer *core.Offer
	texts []string
	seed  int
}

func newLong(t *testing.T, o *core.Offer) *long {
	e, clock := newAt(t)
	return &long{t: t, e: e, clock: clock, offer: o}
}

// other begins another conversation with the offer.
func (c *long) other() { c.seed, c.texts = c.seed+1000, nil }

// turn is the next turn, of which read(known) tokens are read from the cache where
// known were in the turn before; it gives what was expected.
func (c *long) turn(after time.Duration, bytes int, read func(known int64) int64) int64 {
	c.t.Helper()
	c.clock.now = c.clock.now.Add(after)
	known := int64(0)
	for _, text := range c.texts {
		known += int64(len(text)) / 4
	}
	c.texts = append(c.texts, words(c.seed+len(c.texts), bytes))
	r := c.e.Read(said(c.texts...), "")
	est := r.At(c.offer)
	all := known + int64(bytes)/4
	got := read(known)
	c.e.Answered(r, c.offer, core.Usage{UncachedInput: core.Some(all - got), CacheRead: core.Some(got)})
	return est.Cached
}

func hit(known int64) int64 { return known }
func miss(int64) int64      { return 0 }

// TestOneAnswerOutOfLine: it changes nothing, and a second one all.
func TestOneAnswerOutOfLine(t *testing.T) {
	o := cacheOffer("a", core.FormatGoogle)
	c := newLong(t, o)
	for i, x := range []struct {
		read func(int64) int64
		want int64 // thousands
	}{
		{miss, 0}, {hit, 1}, {hit, 2}, {hit, 3}, {miss, 4}, {hit, 5}, {hit, 6}, {miss, 7}, {miss, 8}, {miss, 0}, {hit, 0}, {hit, 0}, {hit, 12},
		{func(n int64) int64 { return n / 2 }, 13}, {func(n int64) int64 { return n / 2 }, 14}, {func(n int64) int64 { return n / 2 }, 7},
	} {
		want := x.want * 1000
		if i == 1 {
			want = 0 // 1,000 are too few for it
		}
		if got := c.turn(time.Second, 4000, x.read); got/1000*1000 != want {
			t.Errorf("turn %d: %d expected, want about %d", i+1, got, want)
		}
	}
}

// TestFirstAnswerTells: a server that caches nothing is not believed to after its
// first answer that could have come from the cache, be it that it reports nothing.
func TestFirstAnswerTells(t *testing.T) {
	for _, f := range []core.Format{core.FormatOpenAI, core.FormatGoogle, core.FormatLlamaCpp} {
		c := newLong(t, cacheOffer("a", f))
		c.turn(time.Second, 8000, miss)
		if got := c.turn(time.Second, 8000, miss); got == 0 {
			t.Errorf("%s: nothing is expected before there is history", f)
		}
		for range 3 {
			if got := c.turn(time.Second, 8000, miss); got != 0 {
				t.Errorf("%s: %d expected of a cache that is not there", f, got)
			}
		}
	}
	e, _ := newAt(t)
	o := cacheOffer("a", core.FormatOpenAI)
	for i := range 3 {
		r := e.Read(said(words(1, 8000*(i+1))), "")
		if got := r.At(o).Cached; i == 2 && got != 0 {
			t.Errorf("%d expected of one that reports none", got)
		}
		e.Answered(r, o, core.Usage{UncachedInput: core.Some(int64(2000 * (i + 1)))})
	}
}

// TestLearntLimits: the shortest prefix that is cached, and the step of reads.
func TestLearntLimits(t *testing.T) {
	c := newLong(t, cacheOffer("a", core.FormatOpenAI))
	least := func(n int64) func(int64) int64 {
		return func(known int64) int64 {
			if known < n {
				return 0
			}
			return known
		}
	}
	for _, x := range []struct {
		name  string
		other bool
		want  int64
	}{
		{"first", false, 0}, {"1,000 are less than usual", false, 0}, {"as of its kind", false, 1920}, {"2,000 were not read", false, 0}, {"nor 3,000", false, 0},
		{"5,000 were", false, 5000},
		{"another", true, 0}, {"", false, 0}, {"2,000 are too few", false, 0}, {"3,000 too", false, 0}, {"4,000 are not", false, 4000},
	} {
		if x.other {
			c.other()
		}
		if got := c.turn(time.Second, 4000, least(3500)); x.name != "" && got != x.want {
			t.Errorf("%s: %d expected, want %d", x.name, got, x.want)
		}
	}
	// A server of another kind caches less than OpenAI does, and to the token.
	c = newLong(t, cacheOffer("b", core.FormatOpenAI))
	c.turn(time.Second, 800, miss)
	for i := range 3 {
		if got := c.turn(time.Second, 804, hit); i > 0 && got != int64(200+201*i) {
			t.Errorf("%d expected, want %d", got, 200+201*i)
		}
	}
}

// TestLearntAges: a cache that holds longer than it is believed to, and one that
// holds shorter.
func TestLearntAges(t *testing.T) {
	c := newLong(t, cacheOffer("a", core.FormatGoogle))
	c.turn(0, 8000, miss)
	for _, x := range []struct {
		after time.Duration
		read  func(int64) int64
		want  int64
	}{
		{time.Second, hit, 2000}, {8 * time.Minute, hit, 0}, {8 * time.Minute, hit, 6000}, {7 * time.Minute, hit, 8000},
		{20 * time.Minute, miss, 0}, {40 * time.Minute, miss, 0}, {8 * time.Minute, hit, 14000},
		{3 * time.Hour, miss, 0}, {25 * time.Hour, miss, 0}, {time.Second, hit, 20000},
	} {
		if got := c.turn(x.after, 8000, x.read); got != x.want {
			t.Errorf("after %v: %d expected, want %d", x.after, got, x.want)
		}
	}
	// It forgets within a minute or so.
	c = newLong(t, cacheOffer("b", core.FormatGoogle))
	c.turn(0, 8000, miss)
	for _, x := range []struct {
		after time.Duration
		read  func(int64) int64
		want  int64
	}{
		{time.Second, hit, 2000}, {2 * time.Minute, miss, 4000}, {3 * time.Minute, miss, 0}, {time.Second, hit, 8000}, {2 * time.Minute, miss, 0}, {time.Second, hit, 12000},
	} {
		if got := c.turn(x.after, 8000, x.read); got != x.want {
			t.Errorf("after %v: %d expected, want %d", x.after, got, x.want)
		}
	}
}

// TestWhatOperatorsKnow: cache_min_tokens and cache_lifetime.
func TestWhatOperatorsKnow(t *testing.T) {
	o := cacheOffer("a", core.FormatLlamaCpp)
	o.Cache = core.OfferCache{MinTokens: core.Some[int64](3000), Lifetime: core.Some(20 * time.Minute)}
	c := newLong(t, o)
	for _, x := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {time.Second, 0}, {19 * time.Minute, 4000}, {20 * time.Minute, 0}, {time.Second, 8000}} {
		if got := c.turn(x.after, 8000, hit); got != x.want {
			t.Errorf("after %v: %d expected, want %d", x.after, got, x.want)
		}
	}
}

// TestLifetimesBesideEachOther: what is cached for an hour outlives what is behind
// it, and what many conversations begin with is kept by each of them.
func TestLifetimesBesideEachOther(t *testing.T) {
	n := core.Some[int64]
	e, clock := newAt(t)
	o := cacheOffer("a", core.FormatAnthropic)
	expect := func(name string, job *core.Job, low, high int64) *estimate.Reading {
		t.Helper()
		r := e.Read(job, "")
		if got := r.At(o).Cached; got < low || got > high {
			t.Errorf("%s: %d expected, want %d to %d", name, got, low, high)
		}
		return r
	}
	system, one := words(1, 8000), words(2, 4000)
	e.Answered(expect("first", said(system, one), 0, 0), o, core.Usage{UncachedInput: n(0), CacheWrite: n(3000), CacheWrite1h: n(2000)})
	clock.now = clock.now.Add(time.Minute)
	e.Answered(expect("next", said(system, one, words(3, 4000)), 3000, 3000), o, core.Usage{UncachedInput: n(0), CacheRead: n(3000), CacheWrite: n(1000)})
	clock.now = clock.now.Add(30 * time.Minute)
	again := said(system, one, words(3, 4000), words(4, 400))
	expect("the hour's", again, 2000, 2000)
	clock.now = clock.now.Add(20 * time.Minute)
	e.Answered(expect("in another conversation", said(system, words(5, 4000)), 1940, 2060), o,
		core.Usage{UncachedInput: n(0), CacheRead: n(2000), CacheWrite: n(1000)})
	// The first one's hour is over, but the other has read the system text since.
	clock.now = clock.now.Add(15 * time.Minute)
	expect("renewed by the other", again, 1940, 2060)
	clock.now = clock.now.Add(50 * time.Minute)
	expect("over", again, 0, 0)
}

// TestForksAreApart: an offer that reads nothing of prompts that branch off is
// still believed to read those that go on, and the other way round.
func TestForksAreApart(t *testing.T) {
	c := newLong(t, cacheOffer("a", core.FormatGoogle))
	for i := range 4 {
		c.other()
		c.texts = []string{words(1, 8000)} // all have it in common
		c.seed++
		if got := c.turn(time.Second, 8000, miss); i > 1 && got != 0 {
			t.Errorf("%d expected of a prompt that branches off", got)
		}
		if got := c.turn(time.Second, 8000, hit); got != 4000 {
			t.Errorf("%d expected of a prompt that goes on, want 4000", got)
		}
	}
}

// TestReadsByManyOffers: more offers than a block is remembered for.
func TestReadsByManyOffers(t *testing.T) {
	e, _ := newAt(t)
	job := said(words(1, 8000))
	use := core.Usage{UncachedInput: core.Some[int64](2000), CacheRead: core.Some[int64](0)}
	for i := range 20 {
		e.Answered(e.Read(job, ""), cacheOffer(fmt.Sprint(i), core.FormatLlamaCpp), use)
	}
	r, known := e.Read(job, ""), 0
	for i := range 20 {
		if got := r.At(cacheOffer(fmt.Sprint(i), core.FormatLlamaCpp)).Cached; got == 1999 {
			known++
		} else if got != 0 || i >= 12 {
			t.Errorf("offer %d: %d expected", i, got)
		}
	}
	if known != 8 {
		t.Errorf("%d offers are known, want the last 8", known)
	}
	// More offers than there can be numbers for: all begins anew, and goes on.
	for i := range 5000 {
		e.Answered(e.Read(job, ""), cacheOffer(fmt.Sprint("o", i), core.FormatLlamaCpp), use)
	}
	if got := e.Read(job, "").At(cacheOffer("o4999", core.FormatLlamaCpp)).Cached; got != 1999 {
		t.Errorf("%d expected of the latest", got)
	}
}

// BenchmarkKnown: reading a conversation that five offers know, and asking about
// each; noting its answer.
func BenchmarkKnown(b *testing.B) {
	e, err := estimate.New(time.Now, core.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	job := said(words(1, 100_000))
	use := core.Usage{UncachedInput: core.Some[int64](25_000), CacheRead: core.Some[int64](0)}
	var offers []*core.Offer
	for i := range 5 {
		offers = append(offers, cacheOffer(fmt.Sprint("provider-", i), core.FormatLlamaCpp))
		e.Answered(e.Read(job, ""), offers[i], use)
	}
	r := e.Read(job, "")
	for _, x := range []struct {
		name string
		do   func()
	}{
		{"Read", func() { e.Read(job, "") }},
		{"At", func() { r.At(offers[4]) }},
		{"AtAnother", func() { r.At(&core.Offer{ID: "provider-x"}) }},
		{"Answered", func() { e.Answered(r, offers[4], use) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.do()
			}
		})
	}
}

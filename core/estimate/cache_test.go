package estimate_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/estimate"
)

// said is a job whose prompt are these texts, one after another.
func said(texts ...string) *core.Job {
	job := &core.Job{Operation: core.OpGenerate, Model: "m", Body: []byte(`"`)}
	for _, text := range texts {
		from := len(job.Body)
		job.Body = append(job.Body, text...)
		job.Turns = append(job.Turns, core.Span{From: from, To: len(job.Body)})
		job.Body = append(job.Body, `","`...)
		job.PromptBytes += len(text)
	}
	return job
}

// words are n bytes of text that no other seed has.
func words(seed, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "w%d-%d ", seed, i)
	}
	return b.String()[:n]
}

func cacheOffer(id string, f core.Format) *core.Offer {
	return &core.Offer{ID: core.OfferID(id), Provider: &core.Provider{ID: core.ProviderID(id), Format: f}, Model: "m"}
}

// clockAt is a clock that a test sets.
type clockAt struct{ now time.Time }

func (c *clockAt) Now() time.Time { return c.now }

func newAt(t testing.TB) (*estimate.Estimator, *clockAt) {
	t.Helper()
	c := &clockAt{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	e, err := estimate.New(c.Now, core.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return e, c
}

// TestCachedByWhatWasWritten: a provider that says what it wrote is believed to the
// token, and for as long as it said.
func TestCachedByWhatWasWritten(t *testing.T) {
	n := core.Some[int64]
	for _, c := range []struct {
		name  string
		usage core.Usage
		after time.Duration
		want  int64
	}{
		{"nothing was to be cached", core.Usage{UncachedInput: n(2000), CacheRead: n(0), CacheWrite: n(0)}, time.Second, 0},
		{"all of it", core.Usage{UncachedInput: n(0), CacheRead: n(0), CacheWrite: n(2000)}, 4 * time.Minute, 1999},
		{"a part of it", core.Usage{UncachedInput: n(500), CacheRead: n(600), CacheWrite: n(900)}, time.Second, 1500},
		{"five minutes are over", core.Usage{UncachedInput: n(0), CacheRead: n(0), CacheWrite: n(2000)}, 5 * time.Minute, 0},
		{"an hour is not", core.Usage{UncachedInput: n(0), CacheWrite: n(2000), CacheWrite1h: n(2000)}, 59 * time.Minute, 1999},
		{"an hour is over", core.Usage{UncachedInput: n(0), CacheWrite: n(2000), CacheWrite1h: n(2000)}, time.Hour, 0},
	} {
		e, clock := newAt(t)
		o, other := cacheOffer("a", core.FormatAnthropic), cacheOffer("b", core.FormatAnthropic)
		job := said(words(1, 8000))
		e.Answered(e.Read(job, ""), o, c.usage)
		clock.now = clock.now.Add(c.after)
		est := e.Read(job, "").At(o)
		if est.Cached != c.want || est.Fresh+est.Cached != 2000 {
			t.Errorf("%s: %+v, want %d cached", c.name, est, c.want)
		}
		if est := e.Read(job, "").At(other); est.Cached != 0 {
			t.Errorf("%s: another offer is believed to have %d", c.name, est.Cached)
		}
	}
}

// TestPrefixesThatDiffer: what is expected ends where the texts part.
func TestPrefixesThatDiffer(t *testing.T) {
	e, _ := newAt(t)
	o := cacheOffer("a", core.FormatLlamaCpp)
	first := said(words(1, 4000), words(2, 4000))
	e.Answered(e.Read(first, ""), o, core.Usage{UncachedInput: core.Some[int64](2000), CacheRead: core.Some[int64](0)})
	for name, c := range map[string]struct {
		job      *core.Job
		from, to int64
	}{
		"longer":             {said(words(1, 4000), words(2, 4000), words(3, 4000)), 2000, 2000},
		"cut otherwise":      {said(words(1, 4000)[:100], words(1, 4000)[100:]+words(2, 4000), words(3, 4000)), 2000, 2000},
		"another second":     {said(words(1, 4000), words(4, 4000)), 970, 1030},
		"the first is other": {said(words(4, 4000), words(2, 4000)), 0, 0},
		"shorter":            {said(words(1, 4000)), 970, 999},
		"one byte changed":   {said("x"+words(1, 4000)[1:], words(2, 4000)), 0, 0},
		"very short":         {said("w1-0"), 0, 0},
	} {
		if got := e.Read(c.job, "").At(o).Cached; got < c.from || got > c.to {
			t.Errorf("%s: %d are expected from the cache, want %d to %d", name, got, c.from, c.to)
		}
	}
}

// TestPrefixesAreBounded: more than the table holds makes it forget the oldest, not
// grow.
func TestPrefixesAreBounded(t *testing.T) {
	e, _ := newAt(t)
	o := cacheOffer("a", core.FormatLlamaCpp)
	use := core.Usage{UncachedInput: core.Some[int64](1), CacheRead: core.Some[int64](99_999)}
	tell := func(job *core.Job) *core.Job {
		e.Answered(e.Read(job, ""), o, use)
		return job
	}
	old := tell(said(words(0, 400_000)))
	kept := tell(said(words(-1, 400_000)))
	text := strings.Repeat("0123456789abcdef", 64)
	var last *core.Job
	for i := range 10_000 { // 27 blocks each
		last = tell(said(fmt.Sprint(i), text))
		if i%1000 == 0 {
			tell(kept)
		}
	}
	for _, c := range []struct {
		name     string
		job      *core.Job
		from, to int64
	}{{"the oldest", old, 0, 0}, {"the latest", last, 99_999, 99_999}, {"one that is used", kept, 99_999, 99_999}} {
		if got := e.Read(c.job, "").At(o).Cached; got < c.from || got > c.to {
			t.Errorf("%s: %d are expected", c.name, got)
		}
	}
}

func TestPrefixesConcurrently(t *testing.T) {
	e, _ := newAt(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			o := cacheOffer(fmt.Sprint("o", i%4), core.FormatLlamaCpp)
			for n := range 50 {
				job := said(words(1, 4000), words(i, 2000), words(n, 2000))
				r := e.Read(job, "")
				_ = r.At(o)
				e.Answered(r, o, core.Usage{UncachedInput: core.Some[int64](500), CacheRead: core.Some[int64](1500)})
			}
		})
	}
	all.Wait()
	if got := e.Read(said(words(1, 4000), words(0, 2000)), "").At(cacheOffer("o0", core.FormatLlamaCpp)).Cached; got == 0 {
		t.Error("nothing is known")
	}
}

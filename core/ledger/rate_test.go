package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// TestRequestsPerMinute: no 60 seconds hold more calls than the limit, a refusal
// says truly when there is room again, and what was refused or never dispatched
// uses up nothing. It is held against a plain list of what was taken when.
func TestRequestsPerMinute(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + r.Int64N(40)
		k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{RequestsPerMinute: core.Some(limit)}}
		a := load(t, core.NewMemory())
		now := noon
		var taken []time.Time
		refused := 0
		for n := range 800 {
			h, err := a.Enter(k, now)
			if err != nil {
				refused++
				e := err.(*core.Error)
				if code(err) != "429 rate_limit_exceeded" || e.RetryAfter < time.Second || e.RetryAfter > time.Minute || !strings.Contains(e.Msg, "requests_per_minute") {
					t.Fatalf("seed %d: %#v", seed, e)
				}
				// A bucket is a second wide: what is that much older may still count.
				if held := within(taken, now, time.Minute+time.Second); int64(held) < limit {
					t.Fatalf("seed %d: refused with %d of %d calls in the last minute", seed, held, limit)
				}
				now = now.Add(e.RetryAfter)
				if h, err = a.Enter(k, now); err != nil {
					t.Fatalf("seed %d: refused again after Retry-After: %v", seed, err)
				}
			}
			if r.IntN(5) == 0 {
				h.Leave(nil) // it was never dispatched
			} else {
				taken = append(taken, now)
				h.Leave(&core.Receipt{ID: core.CallID(fmt.Sprint(n)), Key: "k"})
			}
			if held := within(taken, now, time.Minute); int64(held) > limit {
				t.Fatalf("seed %d: %d calls in a minute, the limit is %d", seed, held, limit)
			}
			now = now.Add(time.Duration(r.ExpFloat64() * float64(time.Minute) / float64(limit) / 1.5))
		}
		if refused == 0 {
			t.Errorf("seed %d: nothing was refused, nothing tested", seed)
		}
	}
}

// within counts the times less than d before now.
func within(times []time.Time, now time.Time, d time.Duration) (n int) {
	for _, x := range times {
		if now.Sub(x) < d {
			n++
		}
	}
	return n
}

// TestRequestsGivenBack: a call that was not dispatched takes no request, however
// often it comes.
func TestRequestsGivenBack(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{RequestsPerMinute: core.Some[int64](2)}}
	for range 100 {
		enter(t, a, k, noon).Leave(nil)
	}
	for range 2 {
		enter(t, a, k, noon).Leave(&core.Receipt{Key: "k"})
	}
	for i, after := range []time.Duration{0, time.Second, 59 * time.Second, time.Minute - 1} {
		_, err := a.Enter(k, noon.Add(after))
		if code(err) != "429 rate_limit_exceeded" {
			t.Errorf("%d: after %v: %v", i, after, err)
		} else if e := err.(*core.Error); e.RetryAfter != max(time.Minute-after, time.Second) {
			t.Errorf("%d: after %v to come again after %v", i, after, e.RetryAfter)
		}
	}
	enter(t, a, k, noon.Add(time.Minute)).Leave(nil)
}

// TestMaxParallel: a call over it is refused at once and takes nothing, not even
// of the rate.
func TestMaxParallel(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{MaxParallel: core.Some[int64](2), RequestsPerMinute: core.Some[int64](3)}}
	one, two := enter(t, a, k, noon), enter(t, a, k, noon)
	for range 10 {
		_, err := a.Enter(k, noon)
		if e, ok := err.(*core.Error); !ok || code(err) != "429 too_many_parallel_calls" || e.RetryAfter != time.Second {
			t.Fatalf("%#v", err)
		}
	}
	one.Ended() // its client has the answer
	three := enter(t, a, k, noon)
	if _, err := a.Enter(k, noon); code(err) != "429 too_many_parallel_calls" {
		t.Errorf("a call that ended is counted off twice: %v", err)
	}
	one.Leave(&core.Receipt{Key: "k"})
	if _, err := a.Enter(k, noon); code(err) != "429 too_many_parallel_calls" {
		t.Errorf("a call that ended and left is counted off twice: %v", err)
	}
	two.Leave(&core.Receipt{Key: "k"})
	if _, err := a.Enter(k, noon); code(err) != "429 rate_limit_exceeded" {
		t.Errorf("the rate: %v", err)
	}
	three.Leave(nil)
	enter(t, a, k, noon).Leave(nil)
}

// TestTokensPerMinute: what a call is likely to need is taken, and corrected to
// what it needed.
func TestTokensPerMinute(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{TokensPerMinute: core.Some[int64](1000)}}
	reserve := func(id core.CallID, tokens int64, after time.Duration) (string, error) {
		h := enter(t, a, k, noon)
		err := h.Reserve(id, 0, tokens, noon.Add(after))
		if err != nil {
			h.Leave(nil)
			return code(err), err
		}
		return "", nil
	}
	used := func(id core.CallID, input, output int64, after time.Duration) {
		r := &core.Receipt{ID: id, Key: "k", SettledAt: noon.Add(after)}
		r.Usage.UncachedInput, r.Usage.Output = core.Some(input), core.Some(output)
		a.Record(r)
	}
	got, err := reserve("too much", 1001, 0)
	if e := err.(*core.Error); got != "429 rate_limit_exceeded" || !strings.Contains(e.Msg, "this call alone needs about 1001") || e.RetryAfter <= 0 {
		t.Errorf("a call that can never fit: %#v", err)
	}
	for _, s := range []struct {
		id     core.CallID
		tokens int64
		after  time.Duration
		want   string
		used   int64 // of this call, a second later; -1: it goes on
	}{
		{"a", 600, 0, "", -1},
		{"b", 500, 0, "429 rate_limit_exceeded", 0},
		{"c", 400, 0, "", 100},                                    // gives 300 back
		{"d", 301, 2 * time.Second, "429 rate_limit_exceeded", 0}, // 700 are taken
		{"e", 300, 2 * time.Second, "", 350},                      // 50 more, at its end
		{"f", 1, 50 * time.Second, "429 rate_limit_exceeded", 0},
		{"g", 600, 60 * time.Second, "", 600}, // a and c have left the window
		{"h", 51, 60500 * time.Millisecond, "429 rate_limit_exceeded", 0},
		{"i", 300, 62 * time.Second, "", 0}, // e's first 300 have left, its last 50 not
		{"j", 351, 62 * time.Second, "429 rate_limit_exceeded", 0},
		{"k", 350, 62 * time.Second, "", 350},
	} {
		if got, err := reserve(s.id, s.tokens, s.after); got != s.want {
			t.Fatalf("%s: %d tokens after %v: %v", s.id, s.tokens, s.after, err)
		}
		if s.want == "" && s.used >= 0 {
			used(s.id, s.used/2, s.used-s.used/2, s.after+time.Second)
		}
	}
}

// TestTokensRaised: an offer that needs more raises what is taken, once.
func TestTokensRaised(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{TokensPerMinute: core.Some[int64](1000), BudgetDay: core.Some(core.Money(10))}}
	h := enter(t, a, k, noon)
	for _, c := range []struct {
		tokens int64
		most   core.Money
		after  time.Duration
		want   string
	}{
		{600, 1, 0, ""}, {900, 1, 5 * time.Second, ""}, {1001, 1, 6 * time.Second, "429 rate_limit_exceeded"},
		{1000, 11, 6 * time.Second, "402 budget_exceeded"}, // and takes no tokens
	} {
		if err := h.Reserve("c", c.most, c.tokens, noon.Add(c.after)); code(err) != c.want {
			t.Errorf("%d tokens: %v", c.tokens, err)
		}
	}
	other := enter(t, a, k, noon)
	if err := other.Reserve("o", 1, 101, noon.Add(7*time.Second)); code(err) != "429 rate_limit_exceeded" {
		t.Errorf("beyond 900 taken: %v", err)
	}
	if s := a.Standing(k, noon); s.Reserved != 1 {
		t.Errorf("a refused call has set %d aside", s.Reserved-1)
	}
	if err := other.Reserve("o", 1, 100, noon.Add(7*time.Second)); err != nil {
		t.Error(err)
	}
	other.Leave(nil)
	h.Leave(nil)
	h = enter(t, a, k, noon)
	if err := h.Reserve("all", 1, 1000, noon.Add(8*time.Second)); err != nil {
		t.Errorf("after all was given back: %v", err)
	}
	h.Leave(nil)
}

// TestClockSetBack: the rates go by how much time passed, not by what the clock
// says.
func TestClockSetBack(t *testing.T) {
	a := load(t, core.NewMemory())
	k := &core.Key{ID: "k", KeyLimits: core.KeyLimits{RequestsPerMinute: core.Some[int64](1)}}
	enter(t, a, k, noon).Leave(&core.Receipt{Key: "k"})
	if _, err := a.Enter(k, noon.Add(-time.Hour)); code(err) != "429 rate_limit_exceeded" {
		t.Errorf("a caller whose look at the clock is old: %v", err)
	}
	enter(t, a, k, noon.Add(time.Minute)).Leave(nil)
}

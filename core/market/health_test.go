package market_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/market"
)

func breaker() core.Breaker { return core.DefaultSettings().Breaker }

func one(t *testing.T) *market.Entry {
	t.Helper()
	return catalogue(t, nil, offer(provider("p"), "m")).Offer("p/m")
}

func status(e *market.Entry, at time.Time) market.Status {
	return e.Status(at, breaker(), core.Opt[float64]{})
}

func TestBreakerVectors(t *testing.T) {
	var cases []struct {
		Events [][2]any `json:"events"`
		Want   []int64  `json:"want"`
	}
	vectors(t, "breaker.json", &cases)
	if len(cases) == 0 {
		t.Fatal("no vectors")
	}
	for i, c := range cases {
		e := one(t)
		for n, ev := range c.Events {
			at := start.Add(time.Duration(ev[0].(float64)) * time.Millisecond)
			if ev[1] == "fail" {
				e.State.Fail(at, breaker())
			}
			until := start.Add(time.Duration(c.Want[n]) * time.Millisecond)
			st := status(e, at)
			if c.Want[n] >= 0 && at.Before(until) {
				if st.State != "out" || !st.OutUntil.V.Equal(until) {
					t.Fatalf("case %d event %d: %+v, want out until %v", i, n, st, until)
				}
			} else if st.State != "active" || st.OutUntil.OK {
				t.Fatalf("case %d event %d: %+v, want active", i, n, st)
			}
		}
	}
}

func TestBreakerWithShortPause(t *testing.T) {
	// An offer that comes back before the failures are out of each other's reach
	// goes at its next failure: two are less than Within apart.
	b := core.Breaker{Within: time.Minute, Out: 400 * time.Millisecond}
	e := one(t)
	e.State.Fail(start, b)
	e.State.Fail(start.Add(150*time.Millisecond), b)
	e.State.Fail(start.Add(300*time.Millisecond), b) // while it is out
	st := e.Status(start.Add(549*time.Millisecond), b, core.Opt[float64]{})
	if st.State != "out" || st.CountedFailures != 3 {
		t.Errorf("at 549 ms: %+v", st)
	}
	if st := e.Status(start.Add(550*time.Millisecond), b, core.Opt[float64]{}); st.State != "active" {
		t.Errorf("at 550 ms: %+v", st)
	}
	e.State.Fail(start.Add(700*time.Millisecond), b)
	if st := e.Status(start.Add(time.Second), b, core.Opt[float64]{}); st.State != "out" {
		t.Errorf("after a third failure: %+v", st)
	}
}

func TestFailuresReportedOutOfOrder(t *testing.T) {
	e := one(t)
	e.State.Fail(start.Add(50*time.Second), breaker())
	e.State.Fail(start.Add(49*time.Second), breaker()) // another goroutine was faster
	if st := status(e, start.Add(50*time.Second)); st.State != "out" {
		t.Errorf("%+v, want out", st)
	}
}

func TestCountedFailures(t *testing.T) {
	e := one(t)
	check := func(after time.Duration, want int) {
		t.Helper()
		if st := status(e, start.Add(after)); st.CountedFailures != want {
			t.Errorf("after %v: %d counted, want %d", after, st.CountedFailures, want)
		}
	}
	check(0, 0)
	e.State.RetryAfter(start, time.Second, breaker())
	check(0, 0)
	e.State.Fail(start.Add(2*time.Second), breaker())
	check(61*time.Second, 1)
	check(62*time.Second, 0)
	e.State.Fail(start.Add(60*time.Second), breaker())
	check(119*time.Second, 2)
	check(120*time.Second, 0)
}

func TestRetryAfter(t *testing.T) {
	e := one(t)
	e.State.RetryAfter(start, 30*time.Second, breaker())
	if st := status(e, start.Add(29*time.Second)); st.State != "out" || !st.OutUntil.V.Equal(start.Add(30*time.Second)) {
		t.Errorf("%+v, want out for 30 s", st)
	}
	e.State.RetryAfter(start.Add(time.Second), time.Second, breaker())
	if st := status(e, start.Add(29*time.Second)); st.State != "out" {
		t.Error("a shorter one brought the offer back")
	}
	// A failure while it is out prolongs nothing.
	e.State.Fail(start.Add(2*time.Second), breaker())
	e.State.Fail(start.Add(3*time.Second), breaker())
	if st := status(e, start.Add(30*time.Second)); st.State != "active" {
		t.Errorf("%+v, want active after 30 s", st)
	}
	e.State.RetryAfter(start, 5*365*24*time.Hour, breaker())
	if st := status(e, start.Add(10*time.Minute)); st.State != "active" {
		t.Errorf("%+v: longer than max_retry_after", st)
	}
	if st := status(e, start.Add(10*time.Minute-1)); st.State != "out" {
		t.Errorf("%+v, want out for max_retry_after", st)
	}
}

func TestParseRetryAfter(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for value, want := range map[string]time.Duration{
		"0":                              0,
		"30":                             30 * time.Second,
		" 7 ":                            7 * time.Second,
		"1.5":                            1500 * time.Millisecond,
		".25":                            250 * time.Millisecond,
		"99999999999":                    year,
		strings.Repeat("9", 400):         year,
		"Sun, 01 Mar 2026 12:00:30 GMT":  30 * time.Second,
		"Sunday, 01-Mar-26 12:01:00 GMT": time.Minute,
		"Sun Mar  1 12:00:05 2026":       5 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  year,
	} {
		if got, ok := market.ParseRetryAfter(value, start); !ok || got != want {
			t.Errorf("%.40q: %v, %v, want %v", value, got, ok, want)
		}
	}
	for _, value := range []string{"", " ", "soon", "-5", "+5", "1e3", "0x10", "inf", "NaN", ".", "1.2.3", "1,5", "30s",
		"Sun, 01 Mar 2026", "5 5", strings.Repeat(".", 1000)} {
		if got, ok := market.ParseRetryAfter(value, start); ok {
			t.Errorf("%.40q was read as %v", value, got)
		}
	}
}

func TestAcquire(t *testing.T) {
	o := offer(provider("p"), "m")
	o.Capacity = core.Some[int64](3)
	e := catalogue(t, nil, o).Offer("p/m")
	var wg sync.WaitGroup
	got := make(chan func(), 50)
	for range 50 {
		wg.Go(func() {
			if release, ok := e.Acquire(); ok {
				got <- release
			}
		})
	}
	wg.Wait()
	close(got)
	if len(got) != 3 || e.State.InFlight() != 3 {
		t.Fatalf("%d got a place of 3, %d in flight", len(got), e.State.InFlight())
	}
	for release := range got {
		release()
		release() // does nothing
	}
	if n := e.State.InFlight(); n != 0 {
		t.Fatalf("%d in flight after all were released", n)
	}
}

func TestNodeAlwaysTakesACall(t *testing.T) {
	o := offer(provider("p"), "m")
	o.Capacity = core.Some[int64](1)
	e := catalogue(t, nil, o).Offer("p/m")
	e.State.SetLine(full(0))
	for range 3 {
		if _, ok := e.Acquire(); !ok {
			t.Fatal("a node's queue refused a call")
		}
	}
}

func TestPauses(t *testing.T) {
	p := provider("p")
	both := catalogue(t, nil, offer(p, "m"), offer(p, "n"))
	m, n := both.Offer("p/m"), both.Offer("p/n")
	check := func(when string, e *market.Entry, at time.Time, state, by string) {
		t.Helper()
		if st := status(e, at); st.State != state || st.PausedBy != by {
			t.Errorf("%s: %s is %s by %q, want %s by %q", when, st.ID, st.State, st.PausedBy, state, by)
		}
	}
	m.State.Pause()
	check("operator", m, start, "paused", "operator")
	check("operator", n, start, "active", "")
	m.Resume()
	check("resumed", m, start, "active", "")

	m.Account.Refuse()
	check("auth", n, start.Add(24*time.Hour), "paused", "auth")
	n.Resume()
	check("auth resumed", m, start, "active", "")

	for _, c := range []struct {
		asked core.Opt[time.Duration]
		want  time.Duration
	}{
		{core.Opt[time.Duration]{}, 15 * time.Minute},
		{core.Some(time.Minute), time.Minute},
		{core.Some(time.Hour), 15 * time.Minute},
		{core.Some(time.Duration(0)), 15 * time.Minute},
	} {
		m.Account.Exhaust(start, c.asked)
		check("quota", n, start.Add(c.want-1), "paused", "quota")
		check("quota over", n, start.Add(c.want), "active", "")
	}
}

func TestResumeBringsBackWhatIsOut(t *testing.T) {
	e := one(t)
	e.State.Fail(start, breaker())
	e.State.Fail(start, breaker())
	e.Resume()
	if st := status(e, start); st.State != "active" || st.CountedFailures != 0 {
		t.Errorf("%+v", st)
	}
	e.State.Fail(start, breaker())
	if st := status(e, start); st.State != "active" {
		t.Error("one failure after a resume took it out")
	}
}

func TestStatusJSON(t *testing.T) {
	o := offer(provider("p"), "m")
	o.Capacity = core.Some[int64](64)
	e := catalogue(t, nil, o).Offer("p/m")
	release, _ := e.Acquire()
	defer release()
	e.State.RetryAfter(start, 90*time.Second, breaker())
	got, err := json.Marshal(e.Status(start, breaker(), core.Some(412.5)))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"p/m","provider":"p","model":"m","state":"out","out_until":"2026-03-01T12:01:30Z",` +
		`"counted_failures":0,"in_flight":1,"capacity":64,"ttft_ms":412.5}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	lost := one(t)
	lost.State.SetLine(line{})
	if st := status(lost, start); st.State != "out" || st.OutBy != "node" || st.OutUntil.OK {
		t.Errorf("an offer of a lost node is %+v", st)
	}
	lost.State.Pause()
	if st := status(lost, start); st.State != "paused" || st.OutBy != "" {
		t.Errorf("a paused one is %+v", st)
	}
	got, _ = json.Marshal(status(one(t), start))
	want = `{"id":"p/m","provider":"p","model":"m","state":"active","counted_failures":0,"in_flight":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Everything at once, for the race detector.
func TestStateIsRaceFree(t *testing.T) {
	c := catalogue(t, nil, offer(provider("p"), "m"))
	e := c.Offer("p/m")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				at := start.Add(time.Duration(n) * time.Second)
				switch i {
				case 0:
					e.State.Fail(at, breaker())
				case 1:
					e.State.RetryAfter(at, time.Second, breaker())
				case 2:
					e.Account.Exhaust(at, core.Some(time.Second))
				case 3:
					e.Resume()
				case 4:
					e.State.SetLine(line{Up: true, Full: n%2 == 0})
				case 5:
					e.State.Pause()
					e.Account.Refuse()
				case 6:
					q := ask(c)
					q.Now = at
					_, _ = market.Decide(q)
				default:
					status(e, at)
					if release, ok := e.Acquire(); ok {
						release()
					}
				}
			}
		})
	}
	wg.Wait()
	if e.State.InFlight() != 0 {
		t.Error("places were lost")
	}
}

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/embedded/sim"
)

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// formula is what the package promises, written down again.
func formula(n int, tps float64) time.Duration {
	return time.Duration(math.Round(float64(n) * 1e9 / tps))
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Nanosecond }

// checkSchedule plays answers of every format and compares their times with the
// formulas.
func checkSchedule(t *testing.T, perEvent int, player func(sim.Config) (http.RoundTripper, func() time.Time)) {
	c := exact(func(c *sim.Config) { c.TokensPerEvent = perEvent; c.Speed = map[string]float64{"half": 0.5} })
	for _, f := range formats {
		for _, x := range []struct {
			model                  string
			prompt, cached, output int
			speed                  float64
		}{
			{"m", 240, 0, 100, 1}, {"m", 18_000, 0, 31, 1}, {"m", 18_000, 17_001, 7, 1}, {"m", 0, 0, 1, 1}, {"half", 900, 0, 40, 0.5},
		} {
			model := fmt.Sprintf("%s@prompt=%d,cached=%d,output=%d", x.model, x.prompt, x.cached, x.output)
			first := c.Base + formula(x.prompt-x.cached, c.PrefillTPS*x.speed)
			all := formula(x.output, c.OutputTPS*x.speed)
			rt, now := player(c)
			h := f.ask(t, rt, now, model, "Hello.", true, 0, "")
			events := (x.output + perEvent - 1) / perEvent
			name := fmt.Sprintf("%s, %s", f.name, model)
			if h.err != nil || h.status != 200 || h.outputs != events {
				t.Errorf("%s: status %d, %d events of output, error %v; want 200, %d, none", name, h.status, h.outputs, h.err, events)
				continue
			}
			if h.headers != c.Base || !near(h.first, first) || !near(h.end, first+all) {
				t.Errorf("%s: headers, first output and end at %v, %v, %v; want %v, %v, %v", name, h.headers, h.first, h.end, c.Base, first, first+all)
			}
			if tps := float64(x.output) / (h.last - h.first).Seconds(); events > 1 && math.Abs(tps/(c.OutputTPS*x.speed)-1) > 1e-6 {
				t.Errorf("%s: %d tokens in %v are %v/s, want %v", name, x.output, h.last-h.first, tps, c.OutputTPS*x.speed)
			}
			h = f.ask(t, rt, now, model, "Hello.", false, 0, "")
			if h.err != nil || !near(h.headers, first+all) || !near(h.end, first+all) {
				t.Errorf("%s, unstreamed: headers and end at %v, %v, error %v; want %v", name, h.headers, h.end, h.err, first+all)
			}
		}
	}
}

func TestScheduleSimulated(t *testing.T) {
	for _, perEvent := range []int{1, 3} {
		checkSchedule(t, perEvent, func(c sim.Config) (http.RoundTripper, func() time.Time) {
			clock := sim.NewClock(start)
			return build(t, c).Transport(clock), clock.Now
		})
	}
}

func TestScheduleRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open []*http.Transport
		checkSchedule(t, 2, func(c sim.Config) (http.RoundTripper, func() time.Time) {
			open = append(open, served(t, build(t, c).Handler(time.Now)))
			return open[len(open)-1], time.Now
		})
	})
}

// TestOneEventARead: a gateway stamps each read, so two events in one would
// share a time.
func TestOneEventARead(t *testing.T) {
	clock := sim.NewClock(start)
	p := build(t, exact(nil))
	r, _ := http.NewRequest("POST", "http://sim.test/v1/messages",
		strings.NewReader(`{"model":"m@prompt=9,output=4","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`))
	res, err := p.Transport(clock).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	buf, reads, deltas, before := make([]byte, 64<<10), 0, 0, clock.Now()
	for {
		n, err := res.Body.Read(buf)
		if err == io.EOF {
			break
		}
		if err != nil || strings.Count(string(buf[:n]), "data: ") != 1 || !strings.HasSuffix(string(buf[:n]), "\n\n") {
			t.Fatalf("read %d gave %q, %v; want one whole event", reads, buf[:n], err)
		}
		if strings.Contains(string(buf[:n]), "text_delta") {
			if deltas++; deltas > 1 && !clock.Now().After(before) {
				t.Errorf("the clock stood still before %q", buf[:n])
			}
		}
		before = clock.Now()
		reads++
	}
	if reads != 2+1+4+3 {
		t.Errorf("%d reads, want 10", reads)
	}

	// A small buffer gets the same bytes, and no time passes inside an event.
	clock = sim.NewClock(start)
	r.Body = io.NopCloser(strings.NewReader(`{"model":"m@output=2","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`))
	res, err = p.Transport(clock).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	end, all := clock.Now(), ""
	for {
		n, err := res.Body.Read(buf[:3])
		all += string(buf[:n])
		if err != nil {
			break
		}
	}
	if !strings.HasPrefix(all, "{") || !strings.HasSuffix(all, "}") || int64(len(all)) != res.ContentLength || !clock.Now().Equal(end) {
		t.Errorf("read in threes: %q of %d bytes, %v after the headers", all, res.ContentLength, clock.Now().Sub(end))
	}
}

func TestJitter(t *testing.T) {
	c := exact(func(c *sim.Config) { c.Jitter = 0.2; c.Seed = 7 })
	p, again := build(t, c), build(t, c)
	clock := sim.NewClock(start)
	f := formats[0]
	least, most := time.Hour, time.Duration(0)
	for range 80 {
		h := f.ask(t, p.Transport(clock), clock.Now, "m@prompt=3000,output=70", "Hi", true, 0, "")
		least, most = min(least, h.headers), max(most, h.headers)
		for _, v := range []struct{ is, want time.Duration }{
			{h.headers, c.Base}, {h.first - h.headers, time.Second}, {h.last - h.first, time.Second},
		} {
			if off := math.Abs(float64(v.is)/float64(v.want) - 1); off > 0.2+1e-9 {
				t.Fatalf("%v instead of %v is off by %v, more than the jitter", v.is, v.want, off)
			}
		}
		if h2 := f.ask(t, again.Transport(clock), clock.Now, "m@prompt=3000,output=70", "Hi", true, 0, ""); !near(h2.end, h.end) {
			t.Fatalf("the same seed gave %v and %v", h.end, h2.end)
		}
	}
	if least > 210*time.Millisecond || most < 290*time.Millisecond {
		t.Errorf("base was between %v and %v in 80 calls: hardly any jitter", least, most)
	}
}

func TestClientLeaves(t *testing.T) {
	t.Run("real time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			left := make(chan time.Time, 1)
			inner := build(t, exact(nil)).Handler(time.Now)
			tr := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { left <- time.Now() }()
				inner.ServeHTTP(w, r)
			}))
			for _, after := range []time.Duration{100 * time.Millisecond, 3 * time.Second} { // before the headers, in the stream
				ctx, cancel := context.WithCancel(t.Context())
				r, _ := http.NewRequestWithContext(ctx, "POST", "http://sim.test/v1/chat/completions",
					strings.NewReader(formats[0].body("m@output=2000", "Hi", true, 0, "")))
				began := time.Now()
				time.AfterFunc(after, cancel)
				res, err := tr.RoundTrip(r)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the client got %v", err)
				}
				if took := (<-left).Sub(began); took != after {
					t.Errorf("the client left after %v, the work stopped after %v", after, took)
				}
				cancel()
			}
		})
	})
	t.Run("simulated", func(t *testing.T) {
		clock := sim.NewClock(start)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func() (*http.Response, error) {
			r, _ := http.NewRequestWithContext(ctx, "POST", "http://sim.test/v1/chat/completions",
				strings.NewReader(formats[0].body("m", "Hi", true, 0, "")))
			return build(t, exact(nil)).Transport(clock).RoundTrip(r)
		}
		res, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for range 5 {
			if _, err := res.Body.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		before := clock.Now()
		if _, err := res.Body.Read(buf); !errors.Is(err, context.Canceled) {
			t.Errorf("a read after the client left gave %v", err)
		}
		if _, err := ask(); !errors.Is(err, context.Canceled) {
			t.Errorf("a call of a client that had left gave %v", err)
		}
		if !clock.Now().Equal(before) {
			t.Errorf("the clock moved by %v after the client left", clock.Now().Sub(before))
		}
	})
}

func TestClock(t *testing.T) {
	now := time.Now()
	c := sim.NewClock(now)
	if s := c.Now().String(); strings.Contains(s, "m=") {
		t.Errorf("%s has a monotonic reading", s)
	}
	c.Advance(time.Hour)
	c.Advance(-time.Minute)
	c.AdvanceTo(now)
	if got := c.Now().Sub(now.Round(0)); got != time.Hour {
		t.Errorf("the clock is %v on, want 1h: it never goes back", got)
	}
	c.AdvanceTo(now.Add(2 * time.Hour))
	if got := c.Now().Sub(now.Round(0)); got != 2*time.Hour {
		t.Errorf("the clock is %v on, want 2h", got)
	}
}

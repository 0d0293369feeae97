package sim_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headway/core"
	"headway/embedded/sim"
)

// outcomes plays n calls and writes one letter for each.
func outcomes(t *testing.T, c sim.Config, n int, stream bool) (all string, took []time.Duration) {
	t.Helper()
	p, clock := build(t, c), sim.NewClock(start)
	for range n {
		h := formats[0].ask(t, p.Transport(clock), clock.Now, "m@output=12", "Hi", stream, 0, "")
		took = append(took, h.end)
		switch {
		case h.status == c.ErrorStatus:
			all += "e"
		case errors.Is(h.err, io.ErrUnexpectedEOF) && h.end > c.StallFor:
			all += "s"
		case errors.Is(h.err, io.ErrUnexpectedEOF):
			all += "c"
		case h.err == nil && h.status == 200 && h.finish != nil:
			all += "."
		default:
			t.Fatalf("status %d, error %v, finish %v", h.status, h.err, h.finish)
		}
	}
	return all, took
}

func TestFaultRates(t *testing.T) {
	c := exact(func(c *sim.Config) { c.ErrorRate, c.CutRate, c.StallRate, c.Seed = 0.2, 0.1, 0.05, 3 })
	const n = 700
	for _, stream := range []bool{true, false} {
		all, _ := outcomes(t, c, n, stream)
		for letter, rate := range map[string]float64{"e": 0.2, "c": 0.1, "s": 0.05, ".": 0.65} {
			got := float64(strings.Count(all, letter)) / n
			if sigma := math.Sqrt(rate * (1 - rate) / n); math.Abs(got-rate) > 4*sigma {
				t.Errorf("stream %v: %v of the calls end in %q, want %v", stream, got, letter, rate)
			}
		}
		if again, _ := outcomes(t, c, n, stream); again != all {
			t.Error("the same seed gave other faults")
		}
		other := c
		other.Seed = 4
		if again, _ := outcomes(t, other, n, stream); again == all {
			t.Error("another seed gave the same faults")
		}
	}
	c.CutRate, c.StallRate, c.ErrorRate = 0, 0, 0
	if all, _ := outcomes(t, c, 50, true); strings.Trim(all, ".") != "" {
		t.Errorf("without rates: %s", all)
	}
}

func TestErrorAnswers(t *testing.T) {
	for _, f := range formats {
		c := exact(func(c *sim.Config) { c.ErrorRate, c.ErrorStatus, c.RetryAfter = 1, 429, 1500*time.Millisecond })
		clock := sim.NewClock(start)
		h := f.ask(t, build(t, c).Transport(clock), clock.Now, "m", "Hi", false, 0, "")
		if h.status != 429 || h.headers != c.Base || h.header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d at %v, Retry-After %q; want 429 at %v, 2", f.name, h.status, h.headers, h.header.Get("Retry-After"), c.Base)
		}
		if !strings.Contains(string(h.body), "simulated error rate") {
			t.Errorf("%s: %s", f.name, h.body)
		}
		c.RetryAfter = 0
		if h = f.ask(t, build(t, c).Transport(clock), clock.Now, "m", "Hi", false, 0, ""); h.header.Get("Retry-After") != "" {
			t.Errorf("%s: Retry-After %q without any", f.name, h.header.Get("Retry-After"))
		}
	}
	// Lists and counts are no calls: they do not fail.
	p := build(t, exact(func(c *sim.Config) { c.ErrorRate = 1 }))
	if status, _, _ := do(t, p, "GET", "/v1/models", ""); status != 200 {
		t.Errorf("the list of models: %d", status)
	}
	if status, _, _ := do(t, p, "POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`); status != 200 {
		t.Errorf("count_tokens: %d", status)
	}
}

// TestBrokenInRealTime: a cut or stalled answer ends as a broken connection, not
// as an answer that is over.
func TestBrokenInRealTime(t *testing.T) {
	for _, stream := range []bool{true, false} {
		for name, change := range map[string]func(*sim.Config){
			"cut":   func(c *sim.Config) { c.CutRate = 1 },
			"stall": func(c *sim.Config) { c.StallRate, c.StallFor = 1, 7*time.Minute },
		} {
			synctest.Test(t, func(t *testing.T) {
				c := exact(change)
				tr := served(t, build(t, c).Handler(time.Now))
				clock := sim.NewClock(start)
				simulated := build(t, c)
				for range 5 {
					h := formats[0].ask(t, tr, time.Now, "m@output=30", "Hi", stream, 0, "")
					s := formats[0].ask(t, simulated.Transport(clock), clock.Now, "m@output=30", "Hi", stream, 0, "")
					if !errors.Is(h.err, io.ErrUnexpectedEOF) || h.finish != nil {
						t.Errorf("%s, stream %v: error %v, finish %v", name, stream, h.err, h.finish)
					}
					if !near(h.end, s.end) || h.output != s.output || (name == "stall") != (h.end > 7*time.Minute) {
						t.Errorf("%s, stream %v: ended at %v with %q; on the simulated clock at %v with %q", name, stream, h.end, h.output, s.end, s.output)
					}
				}
			})
		}
	}
}

func TestTooLarge(t *testing.T) {
	p := build(t, exact(nil))
	ask := func() *http.Request {
		return httptest.NewRequest("POST", "http://sim.test/v1/messages", io.LimitReader(zeros{}, 32<<20+1))
	}
	real := httptest.NewRecorder()
	p.Handler(time.Now).ServeHTTP(real, ask())
	res, err := p.Transport(sim.NewClock(start)).RoundTrip(ask())
	if err != nil {
		t.Fatal(err)
	}
	simulated, _ := io.ReadAll(res.Body)
	if real.Code != 413 || res.StatusCode != 413 || real.Body.String() != string(simulated) ||
		!strings.Contains(string(simulated), "request_too_large") {
		t.Errorf("%d %s, and on the simulated clock %d %s; want 413", real.Code, real.Body, res.StatusCode, simulated)
	}
}

// TestBrokenUpload: a body that ends too early is no empty 200.
func TestBrokenUpload(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://sim.test/v1/messages", io.MultiReader(strings.NewReader(`{"model"`), broken{}))
	build(t, exact(nil)).Handler(time.Now).ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "could not be read") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestValidate(t *testing.T) {
	if err := sim.Default().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for field, change := range map[string]func(*sim.Config){
		"base":             func(c *sim.Config) { c.Base = -1 },
		"prefill_tps":      func(c *sim.Config) { c.PrefillTPS = 0 },
		"output_tps":       func(c *sim.Config) { c.OutputTPS = math.NaN() },
		"jitter":           func(c *sim.Config) { c.Jitter = 1 },
		"output_tokens":    func(c *sim.Config) { c.OutputTokens = 0 },
		"tokens_per_event": func(c *sim.Config) { c.TokensPerEvent = 0 },
		"cached":           func(c *sim.Config) { c.Cached = 1.1 },
		"error_rate":       func(c *sim.Config) { c.ErrorRate, c.CutRate = 0.6, 0.5 },
		"cut_rate":         func(c *sim.Config) { c.CutRate = -0.1 },
		"stall_rate":       func(c *sim.Config) { c.StallRate = math.Inf(1) },
		"stall_for":        func(c *sim.Config) { c.StallRate, c.StallFor = 0.1, 0 },
		"error_status":     func(c *sim.Config) { c.ErrorRate, c.ErrorStatus = 0.1, 200 },
		"retry_after":      func(c *sim.Config) { c.RetryAfter = -time.Second },
		"models":           func(c *sim.Config) { c.Models = []string{"a", ""} },
		"speed.m":          func(c *sim.Config) { c.Speed = map[string]float64{"a": 1, "m": 0} },
	} {
		c := sim.Default()
		change(&c)
		_, err := sim.New(c)
		var e *core.Error
		if !errors.As(err, &e) || e.Kind != core.Invalid || e.Param != field || !strings.HasPrefix(e.Msg, field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

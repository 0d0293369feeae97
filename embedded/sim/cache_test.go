package sim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"headway/embedded/sim"
)

// caching is a provider with a cache on a clock of its own.
type caching struct {
	t     *testing.T
	p     *sim.Provider
	clock *sim.Clock
}

func newCaching(t *testing.T, c sim.Cache) *caching {
	t.Helper()
	cfg := sim.Default()
	cfg.Base, cfg.PrefillTPS, cfg.OutputTPS, cfg.OutputTokens, cfg.Cache = 0, 1000, 1e9, 20, &c
	p, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &caching{t, p, sim.NewClock(start)}
}

// ask gives an answer, decoded, and how long it took.
func (c *caching) ask(path, body string) (map[string]any, time.Duration) {
	c.t.Helper()
	r, err := http.NewRequest("POST", "http://sim.test"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	before := c.clock.Now()
	res, err := c.p.Transport(c.clock).RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != 200 {
		c.t.Fatalf("status %d: %v %v", res.StatusCode, v, err)
	}
	return v, c.clock.Now().Sub(before)
}

func chatAsk(texts ...string) string {
	var messages []string
	for i, text := range texts {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text))
	}
	return `{"model":"m","max_tokens":100,"messages":[` + strings.Join(messages, ",") + `]}`
}

// TestCache: what is read again, by the text, the length, the step and the time.
func TestCache(t *testing.T) {
	four := func(c string, n int) string { return strings.Repeat(c, 4*n) }
	c := newCaching(t, sim.Cache{Least: 1024, Step: 128, Life: 5 * time.Minute})
	for _, x := range []struct {
		name  string
		pause time.Duration
		texts []string
		want  float64
	}{
		{"the first", 0, []string{four("a", 1000)}, 0},
		{"too short before", 0, []string{four("a", 1000), four("b", 500)}, 0},
		{"in steps", 0, []string{four("a", 1000), four("b", 500), four("c", 500)}, 1408},
		{"another from the middle", 0, []string{four("a", 1000), four("b", 300), four("d", 500)}, 1280},
		{"too little in common", 0, []string{four("a", 1000), four("d", 800)}, 0},
		{"kept by reads", 4 * time.Minute, []string{four("a", 1000), four("b", 500), four("c", 500)}, 1920},
		{"still", 4 * time.Minute, []string{four("a", 1000), four("b", 500), four("c", 500)}, 1920},
		{"forgotten", 5 * time.Minute, []string{four("a", 1000), four("b", 500), four("c", 500)}, 0},
	} {
		c.clock.Advance(x.pause)
		v, took := c.ask("/v1/chat/completions", chatAsk(x.texts...))
		prompt := at(v, "usage", "prompt_tokens").(float64)
		if got := at(v, "usage", "prompt_tokens_details", "cached_tokens"); got != x.want || took.Round(time.Millisecond) != time.Duration(prompt-x.want)*time.Millisecond {
			t.Errorf("%s: %v tokens from the cache in %v, want %v of %v", x.name, got, took, x.want, prompt)
		}
	}
}

// TestCacheKeepsAnswers: what the provider said is in the cache too where it keeps
// it, in every format.
func TestCacheKeepsAnswers(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		c := newCaching(t, sim.Cache{Life: time.Minute, Answers: keeps})
		v, _ := c.ask("/v1/responses", `{"model":"m","instructions":"be brief, and be kind","input":"what is new?"}`)
		said := at(v, "output", 0, "content", 0, "text").(string)
		first := at(v, "usage", "input_tokens").(float64)
		v, _ = c.ask("/v1beta/models/m:generateContent", fmt.Sprintf(`{"systemInstruction":{"parts":[{"text":"be brief, and be kind"}]},
			"contents":[{"role":"user","parts":[{"text":"what is new?"}]},{"role":"model","parts":[{"text":%q}]},{"role":"user","parts":[{"text":"and what else is?"}]}]}`, said))
		cached, all := at(v, "usageMetadata", "cachedContentTokenCount").(float64), at(v, "usageMetadata", "promptTokenCount").(float64)
		if more := cached > first; more != keeps || cached < first-1 || cached >= all {
			t.Errorf("answers kept %v: %v of %v tokens are from the cache, %v were in the first prompt", keeps, cached, all, first)
		}
	}
}

// TestCacheByMarks: only what a request marks is cached, for as long as it says.
func TestCacheByMarks(t *testing.T) {
	const hour, short = `"cache_control":{"type":"ephemeral","ttl":"1h"}`, `"cache_control":{"type":"ephemeral"}`
	block := func(c string, tokens int, mark string) string {
		if mark != "" {
			mark = "," + mark
		}
		return `{"type":"text","text":"` + strings.Repeat(c, 4*tokens) + `"` + mark + `}`
	}
	ask := func(system string, turns ...string) string {
		var messages []string
		for i, turn := range turns {
			messages = append(messages, fmt.Sprintf(`{"role":%q,"content":[%s]}`, []string{"user", "assistant"}[i%2], turn))
		}
		return `{"model":"m","max_tokens":100,"system":[` + system + `],"messages":[` + strings.Join(messages, ",") + `]}`
	}
	c := newCaching(t, sim.Cache{Least: 1024, Life: 5 * time.Minute, Marks: true})
	for _, x := range []struct {
		name              string
		pause             time.Duration
		body              string
		fresh, read, s, h float64
	}{
		{"nothing is marked", 0, ask(block("s", 2000, ""), block("a", 500, "")), 2500, 0, 0, 0},
		{"so nothing was cached", 0, ask(block("s", 2000, hour), block("a", 500, short)), 0, 0, 500, 2000},
		{"the mark moves on", time.Minute, ask(block("s", 2000, hour), block("a", 500, ""), block("b", 100, ""), block("c", 50, short)), 0, 2500, 150, 0},
		{"another conversation", time.Minute, ask(block("s", 2000, hour), block("x", 50, "")), 50, 2000, 0, 0},
		{"the hour outlives the rest", 20 * time.Minute, ask(block("s", 2000, hour), block("a", 500, short)), 0, 2000, 500, 0},
		{"a prefix of what is marked is none", time.Minute, ask(block("s", 1900, short), block("x", 50, "")), 50, 0, 1900, 0},
		{"too short", 0, ask(block("y", 1000, short), block("x", 500, "")), 1500, 0, 0, 0},
	} {
		c.clock.Advance(x.pause)
		v, _ := c.ask("/v1/messages", x.body)
		u := at(v, "usage")
		got := [...]any{at(u, "input_tokens"), at(u, "cache_read_input_tokens"), at(u, "cache_creation", "ephemeral_5m_input_tokens"), at(u, "cache_creation", "ephemeral_1h_input_tokens")}
		if want := [...]any{x.fresh, x.read, x.s, x.h}; got != want {
			t.Errorf("%s: fresh, read, written for 5 m and 1 h are %v, want %v", x.name, got, want)
		}
	}
}

// Package sim holds simulated providers: servers that speak the wire formats of
// real ones, cost nothing, and take exactly as long as their [Config] says. They
// are what `headway serve --demo` and `headway simulate` run, and what tests
// measure against.
//
// A call to one takes
//
//	base + fresh input tokens ÷ prefill speed + output tokens ÷ output speed
//
// (SPEC §6). Headers come at base, the first output at base + prefill, and the
// last output when all of it is over: the events of a stream are spread evenly
// from the first to the last, so that output tokens ÷ (first output → last
// output), which is how SPEC §5 measures a speed, is the configured speed to the
// nanosecond. An answer that fits into one event ends that much later too, but
// has no output speed that anyone could measure.
//
// What it answers follows from the request: text of the usual length, at most
// the output maximum, or one tool call where tools are offered and the last
// message, a user's, has the word "tool" in it (or the tool choice asks for it).
// A prompt has a token for every four bytes of its texts and of its tools'
// definitions. A model name such as small@prompt=40000,cached=100,output=200, or
// the header X-Sim-Prompt-Tokens, says otherwise.
//
// One schedule has two players: [Provider.Handler] keeps it in real time, and
// [Provider.Transport] on a simulated [Clock], where a week takes seconds.
package sim

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"headway/core"
)

// Config is how a simulated provider behaves. The zero value is not valid:
// start from [Default].
type Config struct {
	Base           time.Duration // the wait before anything else, 0 to 24 h
	PrefillTPS     float64       // fresh input tokens per second
	OutputTPS      float64       // output tokens per second
	Jitter         float64       // each of the three times is off by at most this share of it; 0: exact
	OutputTokens   int           // the usual length of an answer: each has half to one and a half of it, by its request
	TokensPerEvent int           // of a stream
	Cached         float64       // the share of each prompt that is read from the cache …
	Cache          *Cache        // … or a cache that remembers what was sent; nil: none
	ErrorRate      float64       // the share of calls that are answered with ErrorStatus, after Base
	ErrorStatus    int           // 400 to 599
	RetryAfter     time.Duration // said in those answers, in whole seconds; 0: not said
	CutRate        float64       // the share of answers whose connection breaks on the way
	StallRate      float64       // the share of answers that fall silent on the way …
	StallFor       time.Duration // … for this long, after which their connection breaks
	Models         []string      // the models that are served; empty: any
	// Speed is the share of PrefillTPS and OutputTPS that a model runs at; 1
	// where it is not named.
	Speed map[string]float64
	Seed  uint64 // of everything that is left to chance
}

// Default is a quick, exact provider without faults.
func Default() Config {
	return Config{
		Base: 200 * time.Millisecond, PrefillTPS: 5000, OutputTPS: 80,
		OutputTokens: 200, TokensPerEvent: 1,
		ErrorStatus: http.StatusServiceUnavailable, StallFor: 5 * time.Minute,
	}
}

const (
	longestTime  = 24 * time.Hour
	slowestTPS   = 0.1 // slower, and the time of the largest prompt would not fit into a Duration
	fastestTPS   = 1e9
	mostOutput   = 100_000    // tokens of one answer
	mostPrompt   = 10_000_000 // tokens that a request may claim for its prompt
	mostJitter   = 0.99
	mostPerEvent = 10_000
)

// Validate returns the first fault as an Invalid *core.Error that names the
// field, or nil.
func (c Config) Validate() error {
	for _, f := range []struct {
		name     string
		v        time.Duration
		lo, hi   time.Duration
		needless bool // the field is of no account
	}{
		{"base", c.Base, 0, longestTime, false},
		{"retry_after", c.RetryAfter, 0, longestTime, false},
		{"stall_for", c.StallFor, time.Millisecond, longestTime, c.StallRate == 0},
	} {
		if !f.needless && (f.v < f.lo || f.v > f.hi) {
			return core.Field(f.name, "%v is not between %v and %v", f.v, f.lo, f.hi)
		}
	}
	type number struct {
		name      string
		v, lo, hi float64
		hint      string
	}
	const share = "shares are written as 0.25 for a quarter"
	const tps = "speeds are tokens per second"
	numbers := []number{
		{"prefill_tps", c.PrefillTPS, slowestTPS, fastestTPS, tps},
		{"output_tps", c.OutputTPS, slowestTPS, fastestTPS, tps},
		{"jitter", c.Jitter, 0, mostJitter, share},
		{"output_tokens", float64(c.OutputTokens), 1, mostOutput, ""},
		{"tokens_per_event", float64(c.TokensPerEvent), 1, mostPerEvent, ""},
		{"cached", c.Cached, 0, 1, share},
		{"error_rate", c.ErrorRate, 0, 1, share},
		{"cut_rate", c.CutRate, 0, 1, share},
		{"stall_rate", c.StallRate, 0, 1, share},
	}
	if c.ErrorRate > 0 {
		numbers = append(numbers, number{"error_status", float64(c.ErrorStatus), 400, 599, ""})
	}
	if c.Cache != nil {
		if c.Cached > 0 {
			return core.Field("cached", "is a share of its own, and there is a cache too")
		}
		if c.Cache.Life <= 0 || c.Cache.Life > longestTime {
			return core.Field("cache_lifetime", "%v is not above 0 and at most %v", c.Cache.Life, longestTime)
		}
		numbers = append(numbers, number{"cache_min_tokens", float64(c.Cache.Least), 0, mostPrompt, ""}, number{"cache_step", float64(c.Cache.Step), 0, 1 << 20, ""})
	}
	for _, model := range slices.Sorted(maps.Keys(c.Speed)) {
		numbers = append(numbers, number{"speed." + model, c.Speed[model], 0.1, 10, "1 is the provider's own speed"})
	}
	for _, n := range numbers {
		if !(n.v >= n.lo && n.v <= n.hi) { // not a number is neither
			err := core.Field(n.name, "%v is not between %v and %v", n.v, n.lo, n.hi)
			err.Hint = n.hint
			return err
		}
	}
	if sum := c.ErrorRate + c.CutRate + c.StallRate; sum > 1 {
		err := core.Field("error_rate", "with cut_rate and stall_rate it is %v, more than 1", sum)
		err.Hint = share
		return err
	}
	for _, m := range c.Models {
		if m == "" || strings.TrimSpace(m) != m {
			return core.Field("models", "%q is not a name", m)
		}
	}
	return nil
}

// Provider is one simulated provider. Its methods may be called concurrently.
type Provider struct {
	cfg   Config
	words []string // of the filler text
	heads []int    // where its sentences begin
	calls atomic.Uint64
	cache cache
}

// New makes a provider, or says what is wrong with its configuration
// (Config.Validate).
func New(c Config) (*Provider, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Models, c.Speed = slices.Clone(c.Models), maps.Clone(c.Speed)
	p := &Provider{cfg: c, words: strings.Fields(filler), heads: []int{0}}
	for i, w := range p.words[:len(p.words)-1] {
		if strings.HasSuffix(w, ".") {
			p.heads = append(p.heads, i+1)
		}
	}
	return p, nil
}

// luck is what chance decides about one call. It depends on the seed and on how
// many calls came before, so that a repeated request need not fail again.
type luck struct {
	fault                 fault
	base, prefill, output float64 // what the three times are multiplied by
	at                    float64 // where on the way a fault happens, 0 to 1
	id                    uint64
}

type fault uint8

const (
	noFault fault = iota
	failed        // an error status instead of an answer
	cut           // the connection breaks
	stalled       // silence, then the connection breaks
)

func (p *Provider) draw() luck {
	r := rand.New(rand.NewPCG(p.cfg.Seed, p.calls.Add(1)))
	l := luck{}
	switch u := r.Float64(); {
	case u < p.cfg.ErrorRate:
		l.fault = failed
	case u < p.cfg.ErrorRate+p.cfg.CutRate:
		l.fault = cut
	case u < p.cfg.ErrorRate+p.cfg.CutRate+p.cfg.StallRate:
		l.fault = stalled
	}
	jitter := func() float64 { return 1 + p.cfg.Jitter*(2*r.Float64()-1) }
	l.base, l.prefill, l.output = jitter(), jitter(), jitter()
	l.at, l.id = r.Float64(), r.Uint64()
	return l
}

// speed is the share of the provider's speeds that a model runs at.
func (p *Provider) speed(model string) float64 {
	if s, ok := p.cfg.Speed[model]; ok {
		return s
	}
	return 1
}

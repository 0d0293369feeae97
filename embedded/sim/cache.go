package sim

import (
	"strings"
	"sync"
	"time"

	"headway/core"
)

// Cache is the prompt cache of a simulated provider: the longest start of a prompt
// that it has read before it does not process again, as long as it remembers.
type Cache struct {
	Least   int           // tokens of the shortest prefix that is cached
	Life    time.Duration // since it was last read or written
	Step    int           // tokens that reads are rounded down to; 0: none
	Answers bool          // answers are cached with their prompts, as servers do that keep what they wrote
	Writes  bool          // usage says what was written; Google's cannot
	// Marks caches only up to the marks of a request (cache_control), and by their
	// own lifetime, as Anthropic does. It implies Writes.
	Marks bool
}

// mark is a place in a prompt's text that is to be cached to.
type mark struct {
	at   int
	hour bool
}

const (
	mostPrefixes    = 512      // that a provider remembers
	mostPrefixBytes = 32 << 20 // in all; then it forgets the oldest
)

// cache is what a provider remembers.
type cache struct {
	mu    sync.Mutex
	known []prefix // the oldest first
	bytes int
}

// prefix is a start of a prompt.
type prefix struct {
	model, text string
	life        time.Duration
	end         time.Time // when it is forgotten
}

// read fills in what of a request's prompt is read from the cache and what is
// written to it.
func (c *cache) read(cfg *Cache, q *request, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := string(q.text)
	tokens := func(bytes int) int { return int(float64(q.prompt) * float64(bytes) / float64(max(len(text), 1))) }
	last := mark{at: len(text), hour: cfg.Life >= time.Hour}
	if cfg.Marks {
		last = mark{}
		if len(q.marks) > 0 {
			last = q.marks[len(q.marks)-1]
		}
	}
	longest, at := 0, -1
	for i, p := range c.known {
		n := common(p.text, text[:last.at])
		if p.model == q.model && now.Before(p.end) && n > longest && (!cfg.Marks || n == len(p.text)) {
			longest, at = n, i
		}
	}
	cached := min(tokens(longest), q.prompt-1) // one is processed at least
	if cfg.Step > 0 {
		cached -= cached % cfg.Step
	}
	if cached < max(cfg.Least, 1) {
		cached, at = 0, -1
	}
	q.cached = core.Some(cached)
	if at >= 0 {
		c.known[at].end = now.Add(c.known[at].life)
	}
	places := []mark{last}
	if cfg.Marks {
		places = q.marks
	}
	wrote := 0
	for _, m := range places {
		n := tokens(m.at)
		if n < cfg.Least {
			continue
		}
		life := cfg.Life
		if m.hour {
			life = max(life, time.Hour)
			q.hour = max(n-cached, 0)
		}
		wrote = max(n-cached, 0)
		c.put(prefix{q.model, text[:m.at], life, now.Add(life)}, cfg.Marks)
	}
	if cfg.Writes || cfg.Marks {
		q.wrote = core.Some(wrote)
	}
}

// put remembers a prefix, in the place of those that are a part of it and do not
// outlive it; of marked ones, only in the place of itself.
func (c *cache) put(p prefix, marked bool) {
	kept := c.known[:0]
	c.bytes = len(p.text)
	for _, k := range c.known {
		if k.model == p.model && strings.HasPrefix(p.text, k.text) && !k.end.After(p.end) && (!marked || len(k.text) == len(p.text)) {
			continue
		}
		kept = append(kept, k)
		c.bytes += len(k.text)
	}
	clear(c.known[len(kept):])
	c.known = append(kept, p)
	for len(c.known) > mostPrefixes || c.bytes > mostPrefixBytes && len(c.known) > 1 {
		c.bytes -= len(c.known[0].text)
		c.known = append(c.known[:0], c.known[1:]...)
	}
}

// answered adds an answer to its prompt.
func (c *cache) answered(cfg *Cache, a *answer, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(prefix{a.model, string(a.text) + a.joined(), cfg.Life, now.Add(cfg.Life)}, false)
}

// common is how many bytes two texts share at their start.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

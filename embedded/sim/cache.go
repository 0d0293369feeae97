package sim

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"
)

// Cache is the prompt cache of a simulated provider: what it has read of a
// conversation it reads again without processing it, as long as it remembers.
// Prefixes are known at the borders of messages, as a conversation grows by them.
type Cache struct {
	Least  int           // tokens of the shortest prefix that is cached
	Life   time.Duration // since it was last read or written
	Step   int           // tokens that reads are rounded down to; 0: none
	Writes bool          // usage says what was written (Messages alone can)
}

// mostPrefixes bounds what a provider remembers; then it forgets all.
const mostPrefixes = 100_000

// cache is what a provider remembers.
type cache struct {
	seed maphash.Seed
	mu   sync.Mutex
	ends map[uint64]time.Time // when a prefix is forgotten
}

// read gives the tokens of a prompt that are in the cache, and puts all of it
// there.
func (c *cache) read(cfg *Cache, parts []string, prompt int, now time.Time) (cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ends) > mostPrefixes || c.ends == nil {
		c.ends = map[uint64]time.Time{}
	}
	total := 0
	for _, p := range parts {
		total += len(p)
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	bytes := 0
	for _, p := range parts {
		_, _ = h.WriteString(p) // never fails
		bytes += len(p)
		n := int(float64(prompt) * float64(bytes) / float64(max(total, 1)))
		if n < cfg.Least {
			continue
		}
		key := h.Sum64()
		if now.Before(c.ends[key]) {
			cached = n
		}
		c.ends[key] = now.Add(cfg.Life)
	}
	if cfg.Step > 0 {
		cached -= cached % cfg.Step
	}
	return min(cached, prompt)
}

// words are the texts of a part of a request that a model would read (textBytes),
// in an order that is always the same.
func words(v any) (all string) {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			all += words(e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch name {
			case "text", "content", "parts", "thinking", "reasoning_content", "refusal", "arguments", "output", "summary",
				"tool_calls", "function", "functionCall", "functionResponse":
				all += words(v[name])
			case "input", "args", "response":
				free, _ := json.Marshal(v[name]) // it was JSON before
				all += string(free)
			}
		}
	}
	return all
}

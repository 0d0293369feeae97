package estimate

import (
	"sync"
	"time"

	"headway/core"
)

const (
	shortLife  = 5 * time.Minute // how long a prefix stays, before there is history
	hourLife   = time.Hour       // and where the provider said that it stays for an hour
	usualLeast = 1024            // tokens of the shortest prefix that hosted providers cache
	mostCaches = 10_000          // offers of which it is known what they cache, 0.2 KiB each
	// quick is how much the latest answer counts for what the next will read.
	quick = 0.7
)

// A provider's cache is known by what came back of what was expected to. Before
// there is history a prefix stays for five minutes, hosted providers cache from
// 1,024 tokens, and one that reports no cached tokens at all reads none.

// caching is what was learnt of one offer's cache.
type caching struct {
	share   float64       // of what was expected, how much was read
	zeros   int           // answers in a row that read nothing of what was expected
	reports bool          // it reports cached tokens, be it 0
	read    bool          // it has read some
	missed  int64         // the longest young prefix that was too short to be read …
	least   int64         // … and the shortest of which something was; 0: none
	hit     time.Duration // the oldest prefix of which something was read
	expired time.Duration // the youngest that was read before and was not then; 0: none
	step    int64         // tokens that reads are a multiple of; 0: nothing was read
}

// caches are those of all offers. They are in memory alone: a prefix of before a
// restart is likely to be gone from the providers' caches as well.
type caches struct {
	mu sync.RWMutex
	of map[core.OfferID]caching
}

func newCaches() *caches { return &caches{of: map[core.OfferID]caching{}} }

func (c *caches) get(id core.OfferID) caching {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.of[id]
	if !ok {
		k.share = 1
	}
	return k
}

// explicit tells whether a format caches only what it is asked to, and says what
// it wrote.
func explicit(f core.Format) bool {
	switch f {
	case core.FormatAnthropic, core.FormatBedrock, core.FormatConverse, core.FormatVertexAnthropic:
		return true
	}
	return false
}

// leastTokens is the shortest prefix that an offer caches, before there is history:
// servers of one's own cache any.
func leastTokens(f core.Format) int64 {
	if f == core.FormatLlamaCpp || f == core.FormatOllama {
		return 0
	}
	return usualLeast
}

// believed is how many tokens of a prompt an offer has had before, at most limit,
// and how long ago: without what was learnt of its cache.
func (m match) believed(r *Reading, limit int64) (tokens int64, age time.Duration) {
	v := m.visit
	if v == nil || v.bytes == 0 {
		return 0, 0
	}
	bytes := m.blocks * blockBytes
	if rest := v.bytes - bytes; rest > 0 && rest < blockBytes && r.chain.bytes >= v.bytes && tail(r.from.prefixes.seed, r.job, m.blocks, rest) == v.tail {
		bytes = v.bytes
	}
	tokens = int64(float64(v.tokens) * float64(bytes) / float64(v.bytes))
	if v.exact {
		tokens = min(tokens, v.cached)
	}
	return max(min(tokens, limit-1), 0), r.came.Sub(v.at)
}

// life is how long a visit's prefix is believed to stay.
func (k *caching) life(v *visit) time.Duration {
	if v.exact {
		if v.hour {
			return hourLife
		}
		return shortLife
	}
	life := max(shortLife, k.hit)
	if k.expired > 0 {
		life = min(life, k.expired)
	}
	return life
}

// expect is what is read of so many believed tokens.
func (k *caching) expect(tokens int64, v *visit, f core.Format) int64 {
	if !v.exact {
		if !k.reports {
			return 0
		}
		least := leastTokens(f)
		if k.least > 0 {
			least = min(least, k.least)
		}
		if k.missed > 0 && (k.least == 0 || k.missed < k.least) {
			least = max(least, k.missed+1)
		}
		if tokens < least {
			return 0
		}
		if k.step > 1 {
			tokens -= tokens % k.step
		}
	}
	return min(int64(float64(tokens)*k.share+0.5), tokens)
}

// cached is what a job is likely to read from an offer's cache.
func (r *Reading) cached(offer *core.Offer, prompt int64) int64 {
	for i := range r.seen {
		m := &r.seen[i]
		if m.longest.visit.offer != offer.ID {
			continue
		}
		k := r.from.caches.get(offer.ID)
		var most int64
		for _, x := range [...]match{m.longest, m.later} {
			if tokens, age := x.believed(r, prompt); tokens > 0 && age < k.life(x.visit) {
				most = max(most, k.expect(tokens, x.visit, offer.Provider.Format))
			}
		}
		return most
	}
	return 0
}

// Answered notes that an offer has read the prompt, so that it may be in that
// provider's cache from now on, and learns from what was read from there.
func (e *Estimator) Answered(r *Reading, offer *core.Offer, usage core.Usage) {
	total := usage.Input()
	if r.from != e || !r.job.Operation.Generates() || total <= 0 {
		return
	}
	var before matches
	for i := range r.seen {
		if r.seen[i].longest.visit.offer == offer.ID {
			before = r.seen[i]
		}
	}
	e.caches.learn(r, offer, before, usage)
	if len(r.chain.hashes) == 0 {
		return
	}
	v := &visit{offer: offer.ID, at: e.clock(), bytes: r.chain.bytes, tokens: total}
	if explicit(offer.Provider.Format) || usage.CacheWrite.V > 0 {
		v.exact, v.cached = true, usage.CacheRead.V+usage.CacheWrite.V
		// A read renews what is there for as long as it was to stay.
		v.hour = usage.CacheWrite1h.V > 0 || usage.CacheRead.V > 0 && before.longest.visit != nil && before.longest.visit.hour
	}
	n := len(r.chain.hashes)
	v.tail = tail(e.prefixes.seed, r.job, n, r.chain.bytes-n*blockBytes)
	e.prefixes.add(&r.chain, v)
}

// learn takes what an offer read of what it was believed to have.
func (c *caches) learn(r *Reading, offer *core.Offer, before matches, usage core.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.of[offer.ID]
	if !ok {
		if len(c.of) >= mostCaches {
			for id := range c.of { // any: each is learnt again within two answers
				delete(c.of, id)
				break
			}
		}
		k.share = 1
	}
	read := usage.CacheRead.V
	k.reports = k.reports || usage.CacheRead.OK
	if read > 0 {
		k.step = gcd(read, k.step)
	}
	if m := before.longest; m.visit != nil {
		tokens, age := m.believed(r, usage.Input())
		if other, sooner := before.later.believed(r, usage.Input()); other > 0 && age >= k.life(m.visit) && read <= other {
			tokens, age = other, sooner // the longer one was gone, or is not told from it
			m = before.later
		}
		k.compare(tokens, age, read, m.visit, offer.Provider.Format)
	}
	if read > 0 {
		k.read, k.zeros = true, 0
	}
	c.of[offer.ID] = k
}

// compare learns from one answer to a prompt of whose tokens so many were believed
// to be in the cache for so long.
func (k *caching) compare(tokens int64, age time.Duration, read int64, v *visit, f core.Format) {
	young := age < k.life(v)
	switch {
	case tokens == 0:
	case read > 0:
		if k.least == 0 || tokens < k.least {
			k.least = tokens
		}
		if k.missed >= k.least {
			k.missed = 0 // it was not for its length
		}
		if !v.exact {
			k.hit = max(k.hit, age+age/4)
			if k.expired <= k.hit {
				k.expired = 0
			}
		}
		believed := tokens
		if k.step > 1 && !v.exact {
			believed -= tokens % k.step
		}
		if is := min(float64(read)/float64(max(believed, 1)), 1); k.read && k.share > 0 {
			k.share += quick * (is - k.share)
		} else { // the first that comes back says more than what did not
			k.share = is
		}
	case !young: // as believed
	case k.read && !v.exact && age > time.Minute && tokens >= k.least:
		// It had caches and has none of this any more: it was gone by then.
		if k.expired == 0 || age < k.expired {
			k.expired = age
		}
		k.hit = min(k.hit, age)
	case !v.exact && tokens < leastTokens(f), k.least > 0 && tokens < k.least:
		k.missed = max(k.missed, tokens)
	default:
		if k.zeros++; k.zeros > 1 {
			k.share = 0
			return
		}
		k.share *= 1 - quick
	}
}

// gcd is the greatest number that divides both, at most 128: the step in which
// providers count their reads.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	for _, step := range [...]int64{128, 64, 32, 16} {
		if a%step == 0 {
			return step
		}
	}
	return 1
}

package estimate

import (
	"math"
	"sync"
	"time"

	"headway/core"
)

// mostCaches is how many offers' caches are learnt, 0.2 KiB each.
const mostCaches = 10_000

// caching is what was learnt of one offer's cache: by what came back of what was
// expected to.
type caching struct {
	shares  [courses][ages]votes // of what can be read, how much is
	answers votes                // of an answer's tokens, how much is cached
	reports bool                 // it has said how much it read, be it nothing
	writes  bool                 // … and that it wrote something
	stepped bool                 // a read was no multiple of the step that was expected
	least   int64                // tokens of the shortest prefix that is cached; 0: not learnt
	came    int64                // of the shortest that can be read and was; 0: none was
	missed  int64                // of the longest that was not, before any was
}

// course is how a prompt goes on from what an offer has seen.
type course uint8

const (
	continued course = iota // all of an earlier prompt is the start of this one
	forked                  // only a part of one is
	gone                    // either, for longer than a cache is believed to hold it
	courses
)

// ages are the buckets of how long ago an offer had a prompt.
const ages = 8

// ageOf is the bucket of an age.
func ageOf(age time.Duration) (bucket int) {
	for _, limit := range [ages - 1]time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour} {
		if age < limit {
			break
		}
		bucket++
	}
	return bucket
}

// votes are the last three shares that were seen. The middle one counts, so that
// one answer out of line changes nothing, and two of them change all.
type votes struct {
	last [3]uint8 // in 200ths
	n    uint8    // of them there are
}

const voteUnit = 200

func (v *votes) add(share float64) {
	v.last[2], v.last[1] = v.last[1], v.last[0]
	v.last[0] = uint8(math.Round(min(max(share, 0), 1) * voteUnit))
	v.n = min(v.n+1, 3)
}

// share is what the votes say; before there are any that is usual, which is the
// third where there are two.
func (v *votes) share(usual float64) float64 {
	a, b, c := float64(v.last[0])/voteUnit, float64(v.last[1])/voteUnit, float64(v.last[2])/voteUnit
	switch v.n {
	case 0:
		return usual
	case 1:
		return a
	case 2:
		c = usual
	}
	return max(min(a, b), min(max(a, b), c))
}

// share is how much of what can be read is, at an age. An age without votes goes by
// the next ones that have some: an older prefix is read no more than a younger one.
func (k *caching) share(b *belief, usual float64) float64 {
	if b.course == gone {
		usual = 0
	}
	all, at := &k.shares[b.course], ageOf(b.age)
	if all[at].n > 0 {
		return all[at].share(usual)
	}
	younger, older := 1.0, 0.0
	known := false
	for i := at - 1; i >= 0 && !known; i-- {
		if known = all[i].n > 0; known {
			younger = all[i].share(usual)
		}
	}
	for i := at + 1; i < ages; i++ {
		if all[i].n > 0 {
			older = all[i].share(usual)
			break
		}
	}
	switch {
	case b.course == gone:
		return min(younger, older)
	case known:
		return max(younger, older)
	}
	return max(usual, older)
}

// expect is how many tokens are likely to be read. One that says how much it reads
// has a cache.
func (k *caching) expect(b *belief, u *rules) int64 {
	usual := u.share
	if k.reports {
		usual = 1
	}
	return int64(math.Round(float64(b.reads) * k.share(b, usual)))
}

// limits are the shortest prefix that is read and the step that reads come in.
func (k *caching) limits(u *rules) (least, step int64) {
	least, step = u.least, max(u.step, 1)
	if k.least > 0 && !u.fixed {
		least = k.least
	}
	if k.stepped {
		step = 1
	}
	return least, step
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
	return c.of[id]
}

// learn takes what an offer read of a prompt. It tells whether the offer says what
// it writes.
func (c *caches) learn(r *Reading, offer *core.Offer, u *rules, ms *matches, usage core.Usage) (reports bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.of[offer.ID]
	if !ok && len(c.of) >= mostCaches {
		for id := range c.of { // any: each is learnt again within two answers
			delete(c.of, id)
			break
		}
	}
	k.reports = k.reports || usage.CacheRead.OK
	k.writes = k.writes || usage.CacheWrite.V > 0
	read := usage.CacheRead.V
	if ms.longest.serial != 0 {
		k.compare(r, u, ms, read, usage.Input())
	}
	if least, step := k.limits(u); read > 0 {
		k.stepped = k.stepped || read%step != 0
		if read < least && !u.fixed {
			k.least = read
		}
	}
	c.of[offer.ID] = k
	return k.writes && usage.CacheWrite.OK
}

// compare learns from what was read where something was believed to be there.
func (k *caching) compare(r *Reading, u *rules, ms *matches, read, input int64) {
	by, _ := ms.best(r, u, k, input)
	m := &ms.longest
	if long := m.believe(r, u, k, input); by != long {
		// A shorter prefix is expected, as the longer one is gone: or is it?
		if read > by.reads+by.reads/8 {
			by = long
		} else {
			k.vote(&long, 0)
			m = &ms.later
		}
	}
	if by.reads == 0 {
		return
	}
	is := float64(read) / float64(by.reads)
	if m.whole && !m.exact && m.answer > 0 && read >= by.known-by.known/8 {
		// What an answer adds is told apart from what was read of the prompt, where it
		// is not so short that the step of reads hides it.
		if m.answer >= 128 || m.answer >= 8 && m.answer >= by.known/16 {
			k.answers.add(float64(read-by.known) / float64(m.answer))
		}
		is = float64(read) / float64(min(by.reads, by.known))
	}
	if m.exact || by.course != continued || u.fixed || k.length(by.known, is >= 0.5) {
		k.vote(&by, is)
	}
}

// length learns from which length on prefixes are read; false: it explains what
// happened, which then says nothing of the share.
func (k *caching) length(tokens int64, came bool) bool {
	switch {
	case came:
		if k.missed > 0 && k.missed < tokens {
			// What was not read before was too short.
			k.least, k.shares = max(k.least, k.missed+1), [courses][ages]votes{}
		}
		k.missed = 0
		if k.came == 0 || tokens < k.came {
			k.came = tokens
		}
	case k.came == 0:
		k.missed = max(k.missed, tokens)
	case tokens < k.came:
		k.least = max(k.least, tokens+1)
		return false
	}
	return true
}

// vote notes a share.
func (k *caching) vote(b *belief, share float64) {
	if b.reads > 0 {
		k.shares[b.course][ageOf(b.age)].add(share)
	}
}

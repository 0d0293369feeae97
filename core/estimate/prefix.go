package estimate

import (
	"hash/maphash"
	"sync"
	"time"

	"headway/core"
)

const (
	// blockBytes is how finely prefixes are known, about 128 tokens; where a
	// prompt ended is known to the byte.
	blockBytes = 512
	// mostBlocks is how many are remembered, in each of two generations: the text
	// of 32 MiB, in about 20 MiB of memory at most.
	mostBlocks = 1 << 16 / 2
	// mostOffers is how many offers a block is remembered for, the latest.
	mostOffers = 8
	// longestKept is how old a prefix may be that is still looked at.
	longestKept = 24 * time.Hour
)

// A prefix of a prompt is known by a hash of all its text from the start, block by
// block: equal prefixes have equal hashes, whatever follows them. The hashes are
// salted with a seed of the process and are nowhere but in its memory.

// chain are the hashes of a prompt's prefixes that end with each whole block.
type chain struct {
	hashes []uint64
	room   [8]uint64 // for hashes: most prompts are short
	bytes  int       // of all of the text
}

// link hashes a job's text.
func (c *chain) link(seed maphash.Seed, job *core.Job) {
	for _, part := range [...][]core.Span{job.Lead, job.Turns} {
		for _, s := range part {
			c.bytes += s.To - s.From
		}
	}
	if c.bytes < blockBytes {
		return
	}
	c.hashes = c.room[:0]
	if n := c.bytes / blockBytes; n > len(c.room) {
		c.hashes = make([]uint64, 0, n)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	left := blockBytes // of the block under way
	for _, part := range [...][]core.Span{job.Lead, job.Turns} {
		for _, s := range part {
			for text := job.Body[s.From:s.To]; len(text) > 0; {
				n := min(left, len(text))
				_, _ = h.Write(text[:n]) // never fails
				text, left = text[n:], left-n
				if left == 0 {
					c.hashes, left = append(c.hashes, h.Sum64()), blockBytes
				}
			}
		}
	}
}

// textAt copies a job's text from a place into dst and tells how much there was.
func textAt(job *core.Job, from int, dst []byte) (n int) {
	for _, part := range [...][]core.Span{job.Lead, job.Turns} {
		for _, s := range part {
			text := job.Body[s.From:s.To]
			if from >= len(text) {
				from -= len(text)
				continue
			}
			n += copy(dst[n:], text[from:])
			if from = 0; n == len(dst) {
				return n
			}
		}
	}
	return n
}

// tail is the hash of what is behind the last whole block, of n bytes.
func tail(seed maphash.Seed, job *core.Job, blocks, n int) uint64 {
	var room [blockBytes]byte
	got := textAt(job, blocks*blockBytes, room[:n])
	return maphash.Bytes(seed, room[:got])
}

// visit is one answer of an offer to a prompt, which its provider may have cached.
type visit struct {
	offer  core.OfferID
	at     time.Time
	bytes  int    // of the prompt's text
	tail   uint64 // the hash of the text behind its last whole block
	tokens int64  // of the prompt, as the provider counted
	// exact: the provider said how much of it is in its cache, which is cached
	// tokens; else it may be all of it.
	exact  bool
	cached int64
	hour   bool // and that it stays for an hour
}

// visits are the latest of each offer that a block of text was sent to.
type visits []*visit

// prefixes remembers which prefixes were sent where. Blocks that nobody asked for
// since the table was last full are forgotten.
type prefixes struct {
	seed maphash.Seed

	mu       sync.RWMutex
	now, old map[uint64]visits
}

func newPrefixes() *prefixes {
	return &prefixes{seed: maphash.MakeSeed(), now: map[uint64]visits{}}
}

// add notes a visit under each of its prompt's prefixes, in the place of an
// earlier one of that offer.
func (p *prefixes) add(c *chain, v *visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range c.hashes {
		before, ok := p.now[h]
		if !ok {
			if len(p.now) >= mostBlocks {
				p.now, p.old = make(map[uint64]visits, mostBlocks/4), p.now
			}
			before = p.old[h]
		}
		// Made anew: a reader may hold the list that is there.
		list := make(visits, 0, min(len(before)+1, mostOffers))
		list = append(list, v)
		for _, o := range before {
			if o.offer != v.offer && len(list) < mostOffers && v.at.Sub(o.at) < longestKept {
				list = append(list, o)
			}
		}
		p.now[h] = list
	}
}

// match is what of a prompt an offer has seen before: the longest prefix, and
// where a shorter one was seen later, that too.
type match struct {
	visit  *visit
	blocks int
}

type matches struct{ longest, later match }

// find walks a prompt's prefixes as far as anybody has seen them.
func (p *prefixes) find(c *chain) (found []matches) {
	if len(c.hashes) == 0 {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i, h := range c.hashes {
		list, ok := p.now[h]
		if !ok {
			if list, ok = p.old[h]; !ok {
				break
			}
		}
	next:
		for _, v := range list {
			is := match{v, i + 1}
			for k := range found {
				if m := &found[k]; m.longest.visit.offer == v.offer {
					if m.longest.visit != v && m.longest.visit.at.After(v.at) {
						m.later = m.longest
					} else if m.later.visit != nil && !m.later.visit.at.After(v.at) {
						m.later = match{}
					}
					m.longest = is
					continue next
				}
			}
			found = append(found, matches{longest: is})
		}
	}
	return found
}

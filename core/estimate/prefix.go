package estimate

import (
	"hash/maphash"
	"math/bits"

	"headway/core"
)

// A prefix of a prompt is known by a hash of all its text from the start, block by
// block: equal prefixes have equal hashes, whatever follows them. The hashes are
// salted with a seed of the process and are nowhere but in its memory.
//
// The text is that of the client's request, still escaped: a provider of another
// format gets the same conversation in other bytes, in the same order.

// blockBytes is the size of the first blocks, about 8 tokens.
const blockBytes = 32

// blockAt is the size of the block that begins at a place of the text: a 16th of
// what is before it, so that a prefix is known to about 3% of its length and a
// prompt of 100 KB has a hundred blocks.
func blockAt(from int) int { return max(blockBytes, from/16&^(blockBytes-1)) }

// chain are the hashes of a prompt's prefixes that end with each whole block.
type chain struct {
	hashes []uint64
	room   [32]uint64 // for hashes: many prompts are short
	bytes  int        // of all of the text
}

// link hashes a job's text.
func (c *chain) link(seed maphash.Seed, job *core.Job) {
	for _, part := range [...][]core.Span{job.Lead, job.Turns} {
		for _, s := range part {
			c.bytes += s.To - s.From
		}
	}
	n := 0
	for from := 0; from+blockAt(from) <= c.bytes; n++ {
		from += blockAt(from)
	}
	if c.hashes = c.room[:0]; n > len(c.room) {
		c.hashes = make([]uint64, 0, n)
	}
	t := textsOf(job)
	var sum uint64
	for from := 0; len(c.hashes) < n; {
		size := blockAt(from)
		sum = fold(sum, t.hash(seed, size))
		c.hashes = append(c.hashes, sum)
		from += size
	}
}

// fold makes one hash of two, whose order counts.
func fold(before, next uint64) uint64 {
	hi, lo := bits.Mul64(before^0x9e3779b97f4a7c15, next^0xbf58476d1ce4e5b9)
	return hi ^ lo
}

// endOf is where the first so many blocks end.
func endOf(blocks int) (end int) {
	for range blocks {
		end += blockAt(end)
	}
	return end
}

// behind is the hash of n bytes of a job's text from a place on; false: there are
// not so many.
func behind(seed maphash.Seed, job *core.Job, from, n int) (uint64, bool) {
	t := textsOf(job)
	if !t.skip(from) {
		return 0, false
	}
	h := t.hash(seed, n)
	return h, !t.short
}

// texts reads the texts of a prompt one after another, as if they were one.
type texts struct {
	job   *core.Job
	next  int    // the span after the one that rest is of
	rest  []byte // what is left of that
	short bool   // more was asked for than there is
}

func textsOf(job *core.Job) texts { return texts{job: job} }

// load goes to the next span; false: there is none.
func (t *texts) load() bool {
	lead, turns := t.job.Lead, t.job.Turns
	var s core.Span
	switch i := t.next - len(lead); {
	case i < 0:
		s = lead[t.next]
	case i < len(turns):
		s = turns[i]
	default:
		return false
	}
	t.next++
	t.rest = t.job.Body[s.From:s.To]
	return true
}

// skip goes past n bytes; false: there are not so many.
func (t *texts) skip(n int) bool {
	for n > len(t.rest) {
		n -= len(t.rest)
		if !t.load() {
			return false
		}
	}
	t.rest = t.rest[n:]
	return true
}

// hash goes past n bytes. Their hash does not depend on where spans end.
func (t *texts) hash(seed maphash.Seed, n int) uint64 {
	if n <= len(t.rest) {
		b := t.rest[:n]
		t.rest = t.rest[n:]
		return maphash.Bytes(seed, b)
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for n > 0 {
		if len(t.rest) == 0 && !t.load() {
			t.short = true
			break
		}
		k := min(n, len(t.rest))
		_, _ = h.Write(t.rest[:k]) // never fails
		t.rest, n = t.rest[k:], n-k
	}
	return h.Sum64()
}

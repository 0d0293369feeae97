package estimate

import (
	"hash/maphash"
	"sync"
	"time"

	"headway/core"
)

const (
	// mostNodes is how many blocks are remembered: the text of about 2,000 long
	// conversations, or of 10,000 short ones. The least recently answered go.
	mostNodes = 200_000
	// mostVisits is how many answers are remembered, the latest.
	mostVisits = 1 << 16
	// mostMarks is for how many offers a block is remembered, the latest.
	mostMarks = 8
	// mostNames is how many offers there may be; with one more all is forgotten.
	mostNames = 4096
	// longestKept is how old a prefix may be that is still looked at.
	longestKept = 24 * time.Hour

	// The table grows with what it is told, in pieces, to 25 MiB at most: 10 of
	// nodes, 9 of visits, the index.
	pieceBits = 12
	piece     = 1 << pieceBits
)

// visit is one answer of an offer to a prompt, which its provider may have cached.
type visit struct {
	serial uint32 // 0: there is none
	offer  uint32 // its number
	blocks int32  // of the prompt's text
	bytes  int    // of the prompt's text …
	prompt int    // … and of the prompt, media included
	tail   uint64 // the hash of the text behind its last whole block
	at     time.Time
	tokens int64 // of the prompt, as the provider counted
	answer int64 // tokens of the answer that a next prompt may repeat; 0: unknown
	// exact: the provider said how much of it is in its cache, which is cached
	// tokens, hour of them for an hour; else it may be all of it.
	exact        bool
	cached, hour int64
}

// node is a block at the end of a prefix that was sent somewhere.
type node struct {
	hash         uint64
	newer, older int32             // in the order of use; nobody: the end of it
	marks        [mostMarks]uint32 // serials of the last visit of each offer; 0: none
}

const nobody = -1

// prefixes remembers which prefixes were sent where. Adding takes about 10 µs for
// 100 KB of text and looking for it as long, under one lock that lookups share.
type prefixes struct {
	seed maphash.Seed

	mu             sync.RWMutex
	index          map[uint64]int32
	nodes          [][]node
	count          int32
	newest, oldest int32
	visits         [][]visit // a ring: the place of each is its serial's
	serial         uint32    // of the last visit
	numbers        map[core.OfferID]uint32
	names          []core.OfferID
}

func newPrefixes() *prefixes {
	p := &prefixes{seed: maphash.MakeSeed()}
	p.forget()
	return p
}

// forget empties the table.
func (p *prefixes) forget() {
	p.index, p.numbers = map[uint64]int32{}, map[core.OfferID]uint32{}
	p.nodes, p.visits, p.names = nil, nil, nil
	p.count, p.newest, p.oldest, p.serial = 0, nobody, nobody, 0
}

func (p *prefixes) node(i int32) *node { return &p.nodes[i>>pieceBits][i&(piece-1)] }

// visit is that of a serial; nil: it was forgotten.
func (p *prefixes) visit(serial uint32) *visit {
	if serial == 0 {
		return nil
	}
	v := &p.visits[serial%mostVisits>>pieceBits][serial%piece]
	if v.serial != serial {
		return nil
	}
	return v
}

// number is an offer's in this table.
func (p *prefixes) number(id core.OfferID) uint32 {
	n, ok := p.numbers[id]
	if !ok {
		if len(p.names) == mostNames {
			p.forget()
		}
		n = uint32(len(p.names))
		p.names = append(p.names, id)
		p.numbers[id] = n
	}
	return n
}

// add notes a visit of an offer under each of its prompt's prefixes, in the place
// of an earlier one of that offer.
func (p *prefixes) add(c *chain, offer core.OfferID, v visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v.offer = p.number(offer)
	if p.serial++; p.serial == 0 {
		p.serial = 1
	}
	v.serial = p.serial
	for at := int(v.serial % mostVisits >> pieceBits); at >= len(p.visits); {
		p.visits = append(p.visits, make([]visit, piece))
	}
	p.visits[v.serial%mostVisits>>pieceBits][v.serial%piece] = v
	// From the end, so that the start of a prefix is forgotten after it.
	for i := len(c.hashes) - 1; i >= 0; i-- {
		p.mark(p.touch(c.hashes[i]), &v)
	}
}

// touch finds the node of a hash, or makes it, and puts it first.
func (p *prefixes) touch(hash uint64) *node {
	i, known := p.index[hash]
	switch {
	case known:
		p.unlink(i)
	case p.count < mostNodes:
		if i = p.count; int(i>>pieceBits) == len(p.nodes) {
			p.nodes = append(p.nodes, make([]node, piece))
		}
		p.count++
	default:
		i = p.oldest
		p.unlink(i)
		delete(p.index, p.node(i).hash)
	}
	n := p.node(i)
	if !known {
		*n = node{hash: hash}
		p.index[hash] = i
	}
	n.newer, n.older = nobody, p.newest
	if p.newest != nobody {
		p.node(p.newest).newer = i
	} else {
		p.oldest = i
	}
	p.newest = i
	return n
}

func (p *prefixes) unlink(i int32) {
	n := p.node(i)
	if n.newer != nobody {
		p.node(n.newer).older = n.older
	} else {
		p.newest = n.older
	}
	if n.older != nobody {
		p.node(n.older).newer = n.newer
	} else {
		p.oldest = n.newer
	}
}

// mark puts a visit in the place of the one that the offer had at a node, else of
// one that was forgotten, else of the oldest.
func (p *prefixes) mark(n *node, v *visit) {
	least, at := p.serial, 0
	for i, serial := range n.marks {
		was := p.visit(serial)
		if was == nil {
			serial = 0
		} else if was.offer == v.offer {
			n.marks[i] = v.serial
			return
		}
		if serial < least {
			least, at = serial, i
		}
	}
	n.marks[at] = v.serial
}

// match is what of a prompt an offer has seen before.
type match struct {
	visit
	seen  int  // whole blocks of it
	bytes int  // of text
	whole bool // all of the visit's prompt
}

// matches are those of one offer: the longest prefix, and where a shorter one was
// seen later, that too (its visit is the zero one where not).
type matches struct {
	offer          core.OfferID
	longest, later match
}

// find walks a prompt's prefixes as far as anybody has seen them.
func (p *prefixes) find(c *chain, now time.Time) (found []matches) {
	if len(c.hashes) == 0 {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	var marks [mostMarks]uint32
	run := 0 // blocks since marks changed: each of found has been seen that much more
	settle := func(blocks int) {
		for _, serial := range marks {
			if v := p.visit(serial); v != nil && now.Sub(v.at) < longestKept {
				found = see(found, p.names[v.offer], v, blocks)
			}
		}
	}
	for i, h := range c.hashes {
		at, ok := p.index[h]
		if !ok {
			break
		}
		if n := p.node(at); n.marks != marks {
			if run > 0 {
				settle(i)
			}
			marks = n.marks
		}
		run = i + 1
	}
	settle(run)
	return found
}

// see notes that an offer's visit shares so many blocks. Visits come by the length
// of what they share, shorter ones first: a longer one that is not later does not
// take the place of what the shorter one says.
func see(found []matches, offer core.OfferID, v *visit, blocks int) []matches {
	for i := range found {
		if m := &found[i]; m.offer == offer {
			if m.longest.serial != v.serial && m.later.serial == 0 {
				m.later = m.longest
			}
			m.longest = match{visit: *v, seen: blocks}
			return found
		}
	}
	if found == nil {
		found = make([]matches, 0, 4)
	}
	return append(found, matches{offer: offer, longest: match{visit: *v, seen: blocks}})
}

// measure finds out how much of the text a match shares: to the byte where that is
// all of the visit's prompt, else to half a block.
func (m *match) measure(seed maphash.Seed, job *core.Job, c *chain) {
	if m.serial == 0 {
		return
	}
	m.bytes = endOf(m.seen)
	if rest := m.visit.bytes - m.bytes; int(m.blocks) == m.seen && rest >= 0 && c.bytes-m.bytes >= rest {
		if rest == 0 {
			m.whole = true
		} else if h, ok := behind(seed, job, m.bytes, rest); ok && h == m.tail {
			m.bytes, m.whole = m.visit.bytes, true
		}
	}
	if !m.whole {
		m.bytes = min(m.bytes+blockAt(m.bytes)/2, m.visit.bytes, c.bytes)
	}
}

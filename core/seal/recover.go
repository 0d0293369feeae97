package seal

import (
	"bytes"
	"fmt"

	"headway/core"
)

// Verdict is what a look at a stored log comes to.
type Verdict string

const (
	Whole   Verdict = "whole"   // everything that was signed is there
	Short   Verdict = "short"   // the end of what was signed is gone
	Damaged Verdict = "damaged" // what is there is not what was signed, or cannot be read
)

// Recovery is how a stored log was found.
type Recovery struct {
	Verdict Verdict `json:"verdict"`
	Have    Tree    `json:"have"`             // what is stored, up to the first bad leaf
	Signed  *Tree   `json:"signed,omitempty"` // what was signed; nil: nothing
	// First and Last bound where the first bad leaf is, where Damaged: they are the
	// same for one that is missing or is not a leaf; for one that was changed they
	// are those of its tile, as only a tile's hash is kept.
	First uint64 `json:"first_bad,omitempty"`
	Last  uint64 `json:"last_bad,omitempty"`
	Err   error  `json:"-"` // nil where Whole

	log *Log // as it is stored
}

// Recover reads all leaves of a log, about a million in two seconds, rebuilds its
// state and holds it against the hashes that were kept and against the newest
// checkpoint (nil: it was never signed). It answers also for damage; Err says it
// in words.
func Recover(src Source, origin string, head *Checkpoint) Recovery {
	_, m, _ := splitOrigin(origin)
	log := NewLog(origin)
	r := Recovery{Verdict: Whole, log: log}
	if head != nil {
		r.Signed = &head.Tree
	}
	bad := func(first, last uint64, err error) bool {
		r.Verdict, r.First, r.Last, r.Err = Damaged, first, last, err
		return false
	}
	var kept error // a hash that differs from what was kept
	whole := func(level int, n uint64, h Hash) {
		list, err := src.Subtrees(m, level, n, n+1)
		if err == nil && (len(list) != 1 || list[0] != h) {
			err = core.Errorf(core.Unavailable, "the leaves %d to %d of %s do not give the hash that was kept of them", n<<(level*tileHeight), (n+1)<<(level*tileHeight)-1, logNamed(m))
		}
		if err != nil && kept == nil {
			kept = err
			bad(n<<(level*tileHeight), (n+1)<<(level*tileHeight)-1, err)
		}
	}
	var leaf Leaf
	err := src.Leaves(m, 0, maxSize, func(index uint64, text []byte) bool {
		if next := log.Size(); index != next {
			return bad(next, next, core.Errorf(core.Unavailable, "leaf %d of %s is missing", next, logNamed(m)))
		}
		if err := leaf.parse(text); err != nil {
			return bad(index, index, core.Errorf(core.Unavailable, "leaf %d of %s is none: %v", index, logNamed(m), err))
		}
		log.Append(text, whole)
		if kept == nil && head != nil && log.Size() == head.Size && log.edge.root() != head.Root {
			from := (head.Size - 1) &^ (tileWidth - 1)
			return bad(from, head.Size-1, core.Errorf(core.Unavailable, "the first %d leaves of %s do not give the root that was signed", head.Size, logNamed(m)))
		}
		return kept == nil
	})
	if err != nil && r.Err == nil {
		bad(log.Size(), log.Size(), err)
	}
	r.Have = log.Tree()
	if r.Err == nil && head != nil && log.Size() < head.Size {
		r.Verdict, r.Err = Short, shortError(m, log.Size(), head.Size)
	}
	return r
}

func shortError(m Month, have, signed uint64) error {
	return core.Errorf(core.Unavailable, "%s has %d leaves, and %d were signed", logNamed(m), have, signed)
}

// look is Recover in the time of a start: it trusts the kept hashes, and reads the
// leaves of the last tile and of the one in which the checkpoint ended.
func look(src Source, log *Log, head *Checkpoint) Recovery {
	_, m, _ := splitOrigin(log.origin)
	r := Recovery{Verdict: Whole, Have: log.Tree(), log: log}
	t := newTree(src, m, log.Size())
	differs := func(size uint64, is Hash) {
		root, err := t.root(size)
		if err == nil && root != is {
			err = core.Errorf(core.Unavailable, "the first %d leaves of %s do not give the root that they should", size, logNamed(m))
		}
		if err != nil && r.Err == nil {
			r.Verdict, r.First, r.Last, r.Err = Damaged, (size-1)&^(tileWidth-1), size-1, err
		}
	}
	if log.Size() > 0 {
		differs(log.Size(), r.Have.Root)
	}
	if head == nil {
		return r
	}
	r.Signed = &head.Tree
	if head.Size > log.Size() {
		if r.Err == nil {
			r.Verdict, r.Err = Short, shortError(m, log.Size(), head.Size)
		}
		return r
	}
	if head.Size > 0 {
		differs(head.Size, head.Root)
	}
	return r
}

// Find looks for a receipt's leaf, from the month in which its call came on. It looks
// first where calls of that time are, which takes some milliseconds, then in all of
// each log. NotFound: there is none.
func Find(vault core.Vault, id core.CallID) (Position, error) {
	at, ok := id.Time()
	if !ok {
		return Position{}, core.Errorf(core.NotFound, "there is no call %s", id)
	}
	src := records{vault}
	var months []Month
	var sizes []uint64
	err := src.states(func(m Month, state []byte) bool {
		log, _, err := parseState("-/"+string(m), state)
		if err != nil {
			return true // it is told where the log is opened
		}
		months, sizes = append(months, m), append(sizes, log.Size())
		return m.calendar() >= monthOf(at) // one before is read too: it may have been open still
	})
	if err != nil {
		return Position{}, err
	}
	search := search{src: src, mark: fmt.Appendf(nil, `"id":"%s",`, id)}
	var starts []uint64
	for i, m := range months {
		start := search.near(m, sizes[i], at.UnixMilli())
		starts = append(starts, start)
		if p, ok, err := search.in(m, start, min(start+nearly, sizes[i])); ok || err != nil {
			return p, err
		}
	}
	for i := len(months) - 1; i >= 0; i-- {
		for _, part := range [2][2]uint64{{0, starts[i]}, {min(starts[i]+nearly, sizes[i]), sizes[i]}} {
			if p, ok, err := search.in(months[i], part[0], part[1]); ok || err != nil {
				return p, err
			}
		}
	}
	return Position{}, core.Errorf(core.NotFound, "the receipt log has no leaf of call %s", id)
}

// nearly is how many leaves are looked at where a call's leaf is likely to be.
const nearly = 16 << 10

// search looks for one receipt.
type search struct {
	src  records
	mark []byte // what its leaf has, and no other
}

// near is where the leaves of calls that came at a time begin, about: they are in the
// order in which calls ended.
func (s *search) near(m Month, size uint64, at int64) uint64 {
	var leaf Leaf
	lo, hi := uint64(0), size
	for lo < hi {
		mid := lo + (hi-lo)/2
		r, ok, err := s.src.find(m, mid)
		if err != nil || !ok {
			return 0
		}
		later := false
		r.each(func(_ int, _, text []byte) bool { // the first receipt of the run speaks for it
			if leaf.parse(text) != nil || leaf.Type != typeReceipt {
				return true
			}
			later = leaf.Time >= at
			return false
		})
		if later {
			hi = min(mid, r.first)
		} else {
			lo = max(mid+1, r.first+uint64(r.count))
		}
	}
	const before = 512 // others that came later may have ended sooner
	return lo - min(lo, before)
}

// in looks through a part of a log.
func (s *search) in(m Month, from, to uint64) (p Position, found bool, err error) {
	if from >= to {
		return p, false, nil
	}
	err = s.src.Leaves(m, from, to, func(index uint64, leaf []byte) bool {
		if found = bytes.Contains(leaf, s.mark); found {
			p = Position{m, index}
		}
		return !found
	})
	return p, found, err
}

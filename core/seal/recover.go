package seal

import "headway/core"

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
	// Restored: it came with a backup, and nothing else is wrong with it.
	Restored bool `json:"restored,omitempty"`

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

package seal

import (
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"headway/core"
)

// Source is where the leaves of logs are read from.
type Source interface {
	// Leaves reads the leaves from from (included) to to (excluded) in their order,
	// until yield returns false; the leaf is yield's only until it returns. A leaf
	// that is missing or cannot be read ends it with an error (Unavailable).
	Leaves(m Month, from, to uint64, yield func(index uint64, leaf []byte) bool) error
	// Subtrees gives the hashes of the subtrees of 256^level leaves (level 1 and up)
	// from from (included) to to (excluded), as Log.Append told them. One that is
	// missing is an error (Unavailable).
	Subtrees(m Month, level int, from, to uint64) ([]Hash, error)
}

// tree reads the hashes of a log of a size: it is tlog's HashReader, for a store
// that keeps one hash in 256.
type tree struct {
	src   Source
	month Month
	size  uint64
	// leaves are the hashes of the tile of leaves that was read last.
	leaves []Hash
	tile   uint64
}

func newTree(src Source, m Month, size uint64) *tree { return &tree{src: src, month: m, size: size} }

// ReadHashes gives hashes by their place in tlog's order.
func (t *tree) ReadHashes(indexes []int64) ([]Hash, error) {
	list := make([]Hash, len(indexes))
	for i, index := range indexes {
		height, n := tlog.SplitStoredHashIndex(index)
		h, err := t.subtree(height, uint64(n))
		if err != nil {
			return nil, err
		}
		list[i] = h
	}
	return list, nil
}

// subtree is the hash of the n-th subtree of 2^height leaves, all of which the tree has.
func (t *tree) subtree(height int, n uint64) (Hash, error) {
	level, inner := height/tileHeight, height%tileHeight
	from := n << inner
	list, err := t.level(level, from, from+1<<inner)
	if err != nil {
		return Hash{}, err
	}
	return fold(list), nil
}

// fold is the hash over a power of two of neighbours. It uses up the list.
func fold(list []Hash) Hash {
	for ; len(list) > 1; list = list[:len(list)/2] {
		for i := range len(list) / 2 {
			list[i] = tlog.NodeHash(list[2*i], list[2*i+1])
		}
	}
	return list[0]
}

// level gives hashes of subtrees of 256^level leaves; of a level 0 at most those
// of one tile. The list is the caller's.
func (t *tree) level(level int, from, to uint64) ([]Hash, error) {
	if level > 0 {
		list, err := t.src.Subtrees(t.month, level, from, to)
		if err == nil && uint64(len(list)) != to-from {
			err = core.Errorf(core.Unavailable, "hashes of log %s are missing", t.month)
		}
		return list, err
	}
	tile := from / tileWidth
	if t.leaves == nil || t.tile != tile {
		first := tile * tileWidth
		list := make([]Hash, 0, tileWidth)
		var buffer []byte
		err := readLeaves(t.src, t.month, first, min(first+tileWidth, t.size), func(_ uint64, leaf []byte) bool {
			if cap(buffer) <= len(leaf) {
				buffer = make([]byte, 2*len(leaf)+1)
			}
			list = append(list, leafHash(buffer, leaf))
			return true
		})
		if err != nil {
			return nil, err
		}
		t.leaves, t.tile = list, tile
	}
	first := tile * tileWidth
	if to-first > uint64(len(t.leaves)) {
		return nil, core.Errorf(core.Unavailable, "leaf %d of log %s is beyond its end", to-1, t.month)
	}
	return append([]Hash(nil), t.leaves[from-first:to-first]...), nil
}

// root is that of the tree as it was at a size.
func (t *tree) root(size uint64) (Hash, error) { return tlog.TreeHash(int64(size), t) }

// readLeaves reads a range and holds the source to its word: each leaf once, in
// order, to the last.
func readLeaves(src Source, m Month, from, to uint64, yield func(index uint64, leaf []byte) bool) error {
	next, stopped := from, false
	var bad error
	err := src.Leaves(m, from, to, func(index uint64, leaf []byte) bool {
		if index != next || index >= to {
			bad = core.Errorf(core.Unavailable, "leaf %d of log %s is missing", next, m)
			return false
		}
		next++
		stopped = !yield(index, leaf)
		return !stopped
	})
	if bad != nil {
		return bad
	}
	if err != nil {
		return err
	}
	if next != to && !stopped {
		return core.Errorf(core.Unavailable, "leaf %d of log %s is missing", next, m)
	}
	return nil
}

// firstLeaf is a log's opening.
func firstLeaf(src Source, m Month) (leaf *Leaf, err error) {
	var bad error
	err = readLeaves(src, m, 0, 1, func(_ uint64, text []byte) bool {
		leaf, bad = ParseLeaf(text)
		return true
	})
	return leaf, errors.Join(err, bad)
}

// Lost are the trees that a log's first leaf says were signed and are gone.
func Lost(src Source, m Month) ([]Tree, error) {
	first, err := firstLeaf(src, m)
	if err != nil {
		return nil, err
	}
	return first.Lost, nil
}

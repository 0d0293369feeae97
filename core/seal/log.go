package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"headway/core"
)

// Tree is a state of a log: what a checkpoint signs.
type Tree struct {
	Origin string    `json:"origin"` // EDGE/MONTH
	Size   uint64    `json:"size"`   // leaves
	Root   tlog.Hash `json:"root"`   // the Merkle tree hash of RFC 6962
}

// Hash is a hash of a tree; its text is base64.
type Hash = tlog.Hash

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight // leaves, or hashes, of a tile
)

// maxSize is far above what a month has, and low enough that a size fits every
// integer on the way.
const maxSize = 1 << 40

// leafHash is a leaf's hash in the tree. buffer is used where it is large enough.
func leafHash(buffer, leaf []byte) Hash {
	return sha256.Sum256(append(append(buffer[:0], 0), leaf...))
}

// edge is the right edge of a tree: the hashes of its largest whole subtrees, from
// the left. It is all that appending needs.
type edge struct {
	size   uint64
	hashes []Hash
}

// push adds a subtree of 2^height leaves; all that is there must be a multiple of
// it. whole, where not nil, is told of each subtree of 256^level leaves that it
// completes, with its place among those of its level.
func (e *edge) push(h Hash, height int, whole func(level int, n uint64, h Hash)) {
	e.size += 1 << height
	for full := (e.size - 1) >> height; full&1 == 1; full >>= 1 {
		last := len(e.hashes) - 1
		h = tlog.NodeHash(e.hashes[last], h)
		e.hashes = e.hashes[:last]
		if height++; whole != nil && height%tileHeight == 0 {
			whole(height/tileHeight, e.size>>height-1, h)
		}
	}
	e.hashes = append(e.hashes, h)
}

// root is the tree's; that of an empty one is the hash of nothing.
func (e *edge) root() Hash {
	last := len(e.hashes) - 1
	if last < 0 {
		return sha256.Sum256(nil)
	}
	h := e.hashes[last]
	for i := last - 1; i >= 0; i-- {
		h = tlog.NodeHash(e.hashes[i], h)
	}
	return h
}

// Log appends to one log. It keeps the right edge of the tree alone: at most 41
// hashes, 1.3 KB.
type Log struct {
	origin string
	edge   edge
	buffer []byte
}

// NewLog makes an empty log of an origin (EDGE/MONTH).
func NewLog(origin string) *Log { return &Log{origin: origin} }

// Append adds a leaf and gives its index. whole, where not nil, is told of each
// subtree of 256^level leaves, level 1 and up, that the leaf completes: those
// hashes are kept, so that proofs need not read the whole log.
func (l *Log) Append(leaf []byte, whole func(level int, n uint64, h Hash)) (index uint64) {
	if need := 1 + len(leaf); cap(l.buffer) < need {
		l.buffer = make([]byte, 0, 2*need)
	}
	index = l.edge.size
	l.edge.push(leafHash(l.buffer, leaf), 0, whole)
	return index
}

// Size is how many leaves it has.
func (l *Log) Size() uint64 { return l.edge.size }

// Tree is its state now.
func (l *Log) Tree() Tree { return Tree{l.origin, l.edge.size, l.edge.root()} }

// stateVersion is the first byte of a stored state.
const stateVersion = 1

// AppendBinary writes the log's state to be kept beside its leaves: a byte, the
// size as 8 bytes, the hashes of the right edge.
func (l *Log) AppendBinary(dst []byte) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(append(dst, stateVersion), l.edge.size)
	for i := range l.edge.hashes {
		dst = append(dst, l.edge.hashes[i][:]...)
	}
	return dst, nil
}

// ParseLog reads the state of a log of that origin. Unavailable: it is none.
func ParseLog(origin string, state []byte) (*Log, error) {
	const head = 1 + 8
	if len(state) < head || state[0] != stateVersion {
		return nil, core.Errorf(core.Unavailable, "the state of log %s is damaged, or of a newer version", origin)
	}
	l := &Log{origin: origin, edge: edge{size: binary.BigEndian.Uint64(state[1:])}}
	count := bits.OnesCount64(l.edge.size)
	if l.edge.size > maxSize || len(state) != head+count*len(Hash{}) {
		return nil, core.Errorf(core.Unavailable, "the state of log %s is damaged", origin)
	}
	for rest := state[head:]; len(rest) > 0; rest = rest[len(Hash{}):] {
		l.edge.hashes = append(l.edge.hashes, Hash(rest[:len(Hash{})]))
	}
	return l, nil
}

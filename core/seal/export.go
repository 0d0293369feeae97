package seal

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"headway/core"
)

// Part is what an export holds of one log.
type Part struct {
	Checkpoint *Checkpoint
	// From and To bound the leaves, To excluded; both 0: all of them.
	From, To uint64
	// Since, where not nil, is an older checkpoint: a part of a log then carries the
	// proof that the log only grew since. All of a log needs none.
	Since *Tree
}

// ExportOptions are what an export has beside what is signed.
type ExportOptions struct {
	// Measurements, where not nil, gives the unsigned part of a receipt as one JSON
	// object without a line end; nil: there is none. It stands beside the leaf.
	Measurements func(core.CallID) ([]byte, error)
	// Progress, where not nil, is told now and then how many leaves were written.
	Progress func(leaves uint64)
}

// maxLine bounds a line of an export, without its end.
const maxLine = 1 << 20

// progressEvery is how many lines pass between two calls of a Progress.
const progressEvery = 4096

// Export writes logs as JSON lines that Verify checks (RECEIPT.md §5). It reads
// each log once, with the hashes that were kept, holds one tile of leaves in
// memory, and refuses (Unavailable) to write what does not give the root that was
// signed.
func Export(w io.Writer, src Source, parts []Part, o ExportOptions) error {
	e := &exporter{w: bufio.NewWriterSize(w, 64<<10), src: src, o: o}
	origins := make([]string, len(parts))
	for i, p := range parts {
		if p.Checkpoint == nil {
			return core.Errorf(core.Internal, "part %d of an export has no checkpoint", i)
		}
		origins[i] = p.Checkpoint.Origin
	}
	if err := e.write(appendHeader(nil, origins)); err != nil {
		return err
	}
	for i := range parts {
		if err := e.part(&parts[i]); err != nil {
			return err
		}
	}
	return e.w.Flush()
}

// appendHeader writes an export's first line: the logs that follow, in their order.
func appendHeader(dst []byte, origins []string) []byte {
	dst = append(dst, `{"format":"`+formatName+`","logs":`...)
	return append(appendStrings(dst, origins), '}')
}

// logLine is the line that a log begins with.
type logLine struct {
	note     []byte
	frontier [][]Hash // of each level, 0 first, the hashes that no tile above has
	part     bool     // from and to are said
	from, to uint64
	since    *since
	keys     []string
}

// since is the proof that a log grew out of an older state.
type since struct {
	size  uint64
	root  Hash
	proof tlog.TreeProof
}

func (l *logLine) append(dst []byte) []byte {
	dst = appendString(append(dst, `{"checkpoint":`...), l.note)
	dst = append(dst, `,"frontier":[`...)
	for i, hashes := range l.frontier {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHashes(dst, hashes)
	}
	dst = append(dst, ']')
	if l.part {
		dst = strconv.AppendUint(append(dst, `,"part":{"count":`...), l.to-l.from, 10)
		dst = strconv.AppendUint(append(dst, `,"from":`...), l.from, 10)
		dst = strconv.AppendUint(append(dst, `,"to":`...), l.to, 10)
		dst = append(dst, '}')
	}
	if s := l.since; s != nil {
		dst = append(dst, `,"since":{"proof":`...)
		dst = appendHashes(dst, s.proof)
		dst = append(append(append(dst, `,"root":"`...), s.root.String()...), `","size":`...)
		dst = append(strconv.AppendUint(dst, s.size, 10), '}')
	}
	dst = append(dst, `,"vkeys":`...)
	return append(appendStrings(dst, l.keys), '}')
}

// appendHashes writes hashes as one string, the base64 of all of them.
func appendHashes(dst []byte, list []Hash) []byte {
	raw := make([]byte, 0, len(list)*len(Hash{}))
	for i := range list {
		raw = append(raw, list[i][:]...)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, '"'), raw)
	return append(dst, '"')
}

// appendTile writes the line of a tile: 256 hashes of subtrees of 256^level leaves.
func appendTile(dst []byte, level int, n uint64, list []Hash) []byte {
	dst = appendHashes(append(dst, `{"hashes":`...), list)
	dst = strconv.AppendInt(append(dst, `,"level":`...), int64(level), 10)
	dst = strconv.AppendUint(append(dst, `,"tile":`...), n, 10)
	return append(dst, '}')
}

const (
	leafFront = `{"index":`
	leafInner = `,"leaf":`
	tileFront = `{"hashes":"`
	logFront  = `{"checkpoint":"`
	headFront = `{"format":"`
	sideFront = `{"id":"`
	sideInner = `,"measurements":`
)

// appendLeafFront writes a leaf's line up to the leaf itself; "}" ends it.
func appendLeafFront(dst []byte, index uint64) []byte {
	return append(strconv.AppendUint(append(dst, leafFront...), index, 10), leafInner...)
}

type exporter struct {
	w      *bufio.Writer
	src    Source
	o      ExportOptions
	line   []byte
	buffer []byte // a leaf that is hashed
	leaves uint64

	month    Month
	tree     *tree
	from, to uint64
}

func (e *exporter) write(line []byte) error {
	_, err := e.w.Write(append(line, '\n'))
	if err != nil {
		return &core.Error{Kind: core.Unavailable, Msg: "the export cannot be written", Err: err}
	}
	return nil
}

// part writes one log: its own line, then tile by tile what is below it, each tile
// before what it has the hashes of.
func (e *exporter) part(p *Part) error {
	c := p.Checkpoint
	_, month, ok := splitOrigin(c.Origin)
	from, to := p.From, p.To
	if from == 0 && to == 0 {
		to = c.Size
	}
	if !ok || from >= to || to > c.Size {
		return core.Field("from", "%d to %d is no part of log %s, which has %d leaves", from, to, c.Origin, c.Size)
	}
	e.month, e.from, e.to = month, from, to
	e.tree = newTree(e.src, month, c.Size)
	l := logLine{note: c.Note, part: from != 0 || to != c.Size, from: from, to: to}
	for _, k := range c.Signed {
		l.keys = append(l.keys, k.String())
	}
	if len(l.keys) == 0 {
		return core.Errorf(core.Internal, "the checkpoint of %s was not read with its keys", c.Origin)
	}
	var err error
	if l.frontier, err = e.tree.frontier(); err != nil {
		return err
	}
	if frontierRoot(l.frontier) != c.Root {
		return damaged(month, nil)
	}
	if p.Since != nil && l.part {
		proof, err := tlog.ProveTree(int64(c.Size), int64(p.Since.Size), e.tree)
		if err != nil {
			return damaged(month, err)
		}
		if p.Since.Origin != c.Origin || tlog.CheckTree(proof, int64(c.Size), c.Root, int64(p.Since.Size), p.Since.Root) != nil {
			return core.Field("since", "log %s did not grow out of this checkpoint of %s", c.Origin, p.Since.Origin)
		}
		l.since = &since{p.Since.Size, p.Since.Root, proof}
	}
	if err := e.write(l.append(nil)); err != nil {
		return err
	}
	return walkFrontier(c.Size, l.frontier, e.tile, func(first uint64, hashes []Hash) error { return e.leafLines(first, hashes) })
}

// frontier gives, level by level, the hashes of the subtrees that are in no whole
// tile of their level. Together they are the whole tree.
func (t *tree) frontier() (list [][]Hash, err error) {
	for level := 0; t.size>>(level*tileHeight) > 0; level++ {
		count := t.size >> (level * tileHeight)
		from := count &^ (tileWidth - 1)
		hashes := []Hash{}
		if from < count {
			if hashes, err = t.level(level, from, count); err != nil {
				return nil, err
			}
		}
		list = append(list, hashes)
	}
	return list, nil
}

// frontierRoot is the root of the tree that a frontier is of.
func frontierRoot(list [][]Hash) Hash {
	var e edge
	for level := len(list) - 1; level >= 0; level-- {
		for _, h := range list[level] {
			e.push(h, level*tileHeight, nil)
		}
	}
	return e.root()
}

// walkFrontier goes through a tree from the left: tile for each whole tile right
// below the frontier, and leaves for the leaves that are in none.
func walkFrontier(size uint64, list [][]Hash, tile func(level int, n uint64, h Hash) error, leaves func(first uint64, hashes []Hash) error) error {
	for level := len(list) - 1; level > 0; level-- {
		first := size >> (level * tileHeight) &^ (tileWidth - 1)
		for i, h := range list[level] {
			if err := tile(level-1, first+uint64(i), h); err != nil {
				return err
			}
		}
	}
	return leaves(size&^(tileWidth-1), list[0])
}

// overlaps tells whether a whole tile has leaves of a range.
func overlaps(level int, n, from, to uint64) bool {
	shift := (level + 1) * tileHeight
	return n<<shift < to && (n+1)<<shift > from
}

// tile writes a whole tile and what is below it; h is the hash over it.
func (e *exporter) tile(level int, n uint64, h Hash) error {
	if !overlaps(level, n, e.from, e.to) {
		return nil
	}
	if level == 0 {
		return e.leafTile(n, h)
	}
	list, err := e.tree.level(level, n*tileWidth, (n+1)*tileWidth)
	if err != nil {
		return err
	}
	if over(list) != h {
		return damaged(e.month, nil)
	}
	e.line = appendTile(e.line[:0], level, n, list)
	if err := e.write(e.line); err != nil {
		return err
	}
	for i, h := range list {
		if err := e.tile(level-1, n*tileWidth+uint64(i), h); err != nil {
			return err
		}
	}
	return nil
}

// over is the hash over a tile's hashes, which it leaves as they are.
func over(list []Hash) Hash { return fold(append([]Hash(nil), list...)) }

// leafTile writes a whole tile of leaves. They are read once: their lines wait
// behind that of the tile.
func (e *exporter) leafTile(n uint64, h Hash) error {
	first := n * tileWidth
	list := make([]Hash, 0, tileWidth)
	lines := e.line[:0]
	var failed error
	err := readLeaves(e.src, e.month, first, first+tileWidth, func(index uint64, leaf []byte) bool {
		list = append(list, e.hash(leaf))
		if index >= e.from && index < e.to {
			lines, failed = e.appendLeaf(lines, index, leaf)
		}
		return failed == nil
	})
	e.line = lines
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if over(list) != h {
		return damaged(e.month, nil)
	}
	if err := e.write(appendTile(nil, 0, n, list)); err != nil {
		return err
	}
	return e.lines(lines, min(e.to, first+tileWidth)-max(e.from, first))
}

func (e *exporter) hash(leaf []byte) Hash {
	if need := 1 + len(leaf); cap(e.buffer) < need {
		e.buffer = make([]byte, 0, 2*need)
	}
	return leafHash(e.buffer, leaf)
}

// lines writes the lines of leaves.
func (e *exporter) lines(text []byte, leaves uint64) error {
	if _, err := e.w.Write(text); err != nil {
		return &core.Error{Kind: core.Unavailable, Msg: "the export cannot be written", Err: err}
	}
	before := e.leaves
	e.leaves += leaves
	if e.o.Progress != nil && e.leaves/progressEvery != before/progressEvery {
		e.o.Progress(e.leaves)
	}
	return nil
}

// leafLines writes the leaves that are in no whole tile.
func (e *exporter) leafLines(first uint64, hashes []Hash) error {
	from, to := max(e.from, first), min(e.to, first+uint64(len(hashes)))
	if from >= to {
		return nil
	}
	lines := e.line[:0]
	var failed error
	err := readLeaves(e.src, e.month, from, to, func(index uint64, leaf []byte) bool {
		if e.hash(leaf) != hashes[index-first] {
			failed = damaged(e.month, nil)
			return false
		}
		lines, failed = e.appendLeaf(lines, index, leaf)
		return failed == nil
	})
	e.line = lines
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	return e.lines(lines, to-from)
}

// appendLeaf writes a leaf's line, and that of its measurements.
func (e *exporter) appendLeaf(dst []byte, index uint64, leaf []byte) ([]byte, error) {
	dst = append(append(appendLeafFront(dst, index), leaf...), "}\n"...)
	if e.o.Measurements == nil {
		return dst, nil
	}
	l, err := ParseLeaf(leaf)
	if err != nil {
		return dst, damaged(e.month, err)
	}
	if l.Type != typeReceipt {
		return dst, nil
	}
	side, err := e.o.Measurements(l.ID)
	if err != nil || side == nil {
		return dst, err
	}
	if len(side) > maxLine/2 || len(side) < 2 || side[0] != '{' || side[len(side)-1] != '}' || bytes.ContainsAny(side, "\r\n") {
		return dst, core.Errorf(core.Internal, "the measurements of call %s are not one object on a line", l.ID)
	}
	dst = appendString(append(dst, sideFront[:len(sideFront)-1]...), string(l.ID))
	return append(append(append(dst, sideInner...), side...), "}\n"...), nil
}

// Span gives the part of a log that holds every receipt whose call came from from
// (included) to to (excluded), ms since 1970: what is between the first and the last of
// them, so perhaps some others too, as a log is in the order in which calls ended.
// NotFound: there is none.
func Span(src Source, c *Checkpoint, from, to int64) (first, end uint64, err error) {
	_, m, _ := splitOrigin(c.Origin)
	var leaf Leaf
	var bad error
	found := false
	err = readLeaves(src, m, 0, c.Size, func(index uint64, text []byte) bool {
		if bad = leaf.parse(text); bad != nil {
			bad = damaged(m, bad)
			return false
		}
		if leaf.Type == typeReceipt && leaf.Time >= from && leaf.Time < to {
			if !found {
				first, found = index, true
			}
			end = index + 1
		}
		return true
	})
	if err == nil {
		err = bad
	}
	if err == nil && !found {
		err = core.Errorf(core.NotFound, "log %s has no receipt of that time", m)
	}
	return first, end, err
}

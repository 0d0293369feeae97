package seal

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

func (v *checker) rewritten() error {
	return v.wrongAt(v.at, WrongRewritten, "the first %d leaves of log %s are not those that the saved checkpoint was over: two logs were signed by one name", v.saved.Size, v.log.Origin)
}

// tree checks that a log's first hashes are those of its root.
func (v *checker) tree(l *logLine, c *Checkpoint) error {
	for level := range max(len(l.frontier), 1) {
		if level < len(l.frontier) && c.Size>>(level*tileHeight) > 0 && uint64(len(l.frontier[level])) == c.Size>>(level*tileHeight)%tileWidth {
			continue
		}
		return v.wrong(WrongEdited, "the hashes of log %s were edited: they are not as many as it has", c.Origin)
	}
	if c.Size>>(len(l.frontier)*tileHeight) > 0 || frontierRoot(l.frontier) != c.Root {
		return v.wrong(WrongEdited, "the hashes of log %s were edited: they do not give the root that was signed", c.Origin)
	}
	s := l.since
	if s != nil && (s.size < 1 || s.size > c.Size || !l.part || tlog.CheckTree(s.proof, int64(c.Size), c.Root, int64(s.size), s.root) != nil) {
		return v.wrong(WrongEdited, "the proof that log %s has grown was edited", c.Origin)
	}
	if v.log.Saved == "" || !l.part {
		return nil
	}
	if s == nil || s.size != v.saved.Size {
		return v.wrong(WrongCutShort, "this part of log %s cannot be held against the saved checkpoint: export all of it, or the part with that checkpoint", c.Origin)
	}
	if s.root != v.saved.Root {
		return v.rewritten()
	}
	if l.from > s.size || l.to < c.Size {
		return v.wrong(WrongCutShort, "this part of log %s has the leaves %d to %d of %d: not all that came after the saved checkpoint, which was over %d", c.Origin, l.from, l.to-1, c.Size, s.size)
	}
	return nil
}

// tile reads a tile, whose hash is known, and what is below it.
func (v *checker) tile(level int, n uint64, h Hash) error {
	if !overlaps(level, n, v.log.From, v.log.To) {
		return nil
	}
	want := fmt.Sprintf("the hashes of tile %d of level %d", n, level)
	line, err := v.expect(want)
	if err != nil {
		return err
	}
	v.id = "" // measurements stand right behind their receipt
	v.tell(nil)
	list, ok := parseTile(line, level, n)
	if !ok || over(list) != h {
		return v.notTile(line, level, n)
	}
	if level == 0 {
		return v.leaves(n*tileWidth, list)
	}
	for i, h := range list {
		if err := v.tile(level-1, n*tileWidth+uint64(i), h); err != nil {
			return err
		}
	}
	return nil
}

func parseTile(line []byte, level int, n uint64) (list []Hash, ok bool) {
	if !bytes.HasPrefix(line, []byte(tileFront)) {
		return nil, false
	}
	gotLevel, gotN := int64(-1), int64(-1)
	r := reader{text: line}
	r.object(func(key []byte) {
		switch string(key) {
		case "hashes":
			list = r.hashes()
		case "level":
			gotLevel = r.integer()
		case "tile":
			gotN = r.integer()
		default:
			r.fail("an unknown field")
		}
	})
	return list, r.end() == nil && len(list) == tileWidth && gotLevel == int64(level) && gotN == int64(n)
}

// notTile says what is wrong with a line that should be a tile's.
func (v *checker) notTile(line []byte, level int, n uint64) error {
	mark := fmt.Appendf(nil, `,"level":%d,"tile":%d}`, level, n)
	if bytes.HasPrefix(line, []byte(tileFront)) && bytes.HasSuffix(line, mark) || v.stray(line) == WrongEdited {
		return v.wrong(WrongEdited, "this line was edited: it is not the hashes of tile %d of level %d that were signed", n, level)
	}
	if v.again(line, n<<((level+1)*tileHeight), level) {
		return v.twice()
	}
	at := v.line
	later, found := v.later(func(line []byte) bool {
		return bytes.HasPrefix(line, []byte(tileFront)) && bytes.HasSuffix(line, mark)
	})
	if found {
		return v.wrongAt(at, WrongOrder, "the hashes of tile %d of level %d should stand here, and stand in line %d", n, level, later)
	}
	return v.wrongAt(at, WrongMissing, "the hashes of tile %d of level %d are missing here", n, level)
}

// later looks through the rest of the export for a line.
func (v *checker) later(is func(line []byte) bool) (at int64, found bool) {
	for v.report.Problem == nil {
		line, err := v.read("any")
		if err != nil || line == nil {
			v.report.Problem, v.report.OK = nil, true // the first problem is another
			return 0, false
		}
		if is(line) {
			return v.line, true
		}
	}
	return 0, false
}

// splitLeaf takes a leaf's line apart.
func splitLeaf(line []byte) (index uint64, leaf []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(leafFront))
	digits, leaf, inner := bytes.Cut(rest, []byte(leafInner))
	index, err := strconv.ParseUint(string(digits), 10, 64)
	leaf, ended := bytes.CutSuffix(leaf, []byte("}"))
	return index, leaf, ok && inner && err == nil && ended && strconv.FormatUint(index, 10) == string(digits)
}

// leaves reads the leaves whose hashes are known, as far as the export has them.
func (v *checker) leaves(first uint64, hashes []Hash) error {
	for i, h := range hashes {
		index := first + uint64(i)
		if index < v.log.From || index >= v.log.To {
			continue
		}
		line, err := v.expect("leaf " + strconv.FormatUint(index, 10) + " of log " + v.log.Origin)
		if err != nil {
			return err
		}
		got, leaf, ok := splitLeaf(line)
		if !ok || got != index || v.hash(leaf) != h {
			return v.notLeaf(line, first, hashes, index)
		}
		if err := v.take(index, leaf); err != nil {
			return err
		}
	}
	return nil
}

func (v *checker) hash(leaf []byte) Hash {
	if need := 1 + len(leaf); cap(v.buffer) < need {
		v.buffer = make([]byte, 0, 2*need)
	}
	return leafHash(v.buffer, leaf)
}

// notLeaf says what is wrong with a line that should be a leaf's.
func (v *checker) notLeaf(line []byte, first uint64, hashes []Hash, index uint64) error {
	origin := v.log.Origin
	got, leaf, ok := splitLeaf(line)
	if v.stray(line) == WrongEdited || !ok && bytes.HasPrefix(line, []byte(leafFront)) {
		return v.wrong(WrongEdited, "this line was edited: it is not leaf %d of log %s", index, origin)
	}
	if ok && got == index {
		if i := slices.Index(hashes, v.hash(leaf)); i >= 0 {
			return v.wrong(WrongOrder, "this is leaf %d of log %s, numbered as %d", first+uint64(i), origin, index)
		}
		return v.wrong(WrongEdited, "leaf %d of log %s was edited: it is not the one that was signed", index, origin)
	}
	if v.again(line, index, -1) {
		return v.twice()
	}
	at := v.line
	want := appendLeafFront(nil, index)
	if later, found := v.later(func(line []byte) bool { return bytes.HasPrefix(line, want) }); found {
		return v.wrongAt(at, WrongOrder, "leaf %d of log %s should stand here, and stands in line %d", index, origin, later)
	}
	return v.wrongAt(at, WrongMissing, "leaf %d of log %s is missing here", index, origin)
}

// take takes a leaf that is the signed one into the report.
func (v *checker) take(index uint64, text []byte) error {
	l, log := &v.leaf, v.log
	v.id = ""
	v.tell(nil)
	if err := l.parse(text); err != nil {
		return v.wrong(WrongFormat, "leaf %d of log %s was signed and is not of this format: %v", index, log.Origin, err)
	}
	if log.From == 0 {
		v.edge.push(v.hash(text), 0, nil)
		if log.Saved == "grown" && v.edge.size == v.saved.Size && v.edge.root() != v.saved.Root {
			return v.rewritten()
		}
	}
	if (index == 0) != (l.Type == typeOpen) {
		return v.wrong(WrongFormat, "leaf %d of log %s is of type %q, and %q is the first one's type alone", index, log.Origin, l.Type, typeOpen)
	}
	switch l.Type {
	case typeReceipt:
		v.id, v.index, v.held = l.ID, index, v.each != nil
		if log.Receipts == 0 {
			log.FirstTime, log.LastTime = l.Time, l.Time
		}
		log.FirstTime, log.LastTime = min(log.FirstTime, l.Time), max(log.LastTime, l.Time)
		log.add(l)
	case typeErase:
		log.Erased++
	case typeClose:
		if log.Closed = true; index != log.Size-1 {
			return v.wrong(WrongFormat, "log %s goes on behind leaf %d, which closes it", log.Origin, index)
		}
	case typeOpen:
		if err := v.follows(l); err != nil {
			return err
		}
	}
	for _, text := range l.Keys {
		k, ok := writtenKey(text)
		if edge, _, _ := splitOrigin(log.Origin); !ok || k.Name != edge {
			return v.wrong(WrongFormat, "leaf %d of log %s names a key that is none of its edge", index, log.Origin)
		}
		if v.learn(k) {
			log.NewKeys = append(log.NewKeys, k)
		}
		if len(v.keys) > mostKeys {
			return v.wrong(WrongFormat, "leaf %d of log %s names one key too many: %d are known already", index, log.Origin, mostKeys)
		}
	}
	return nil
}

// follows holds a log's first leaf against the edge's log before it in the export.
func (v *checker) follows(l *Leaf) error {
	v.log.Lost = l.Lost
	if l.Prev == nil {
		return nil
	}
	v.log.Follows = l.Prev.Origin
	before := v.before
	if before == nil || before.Origin != l.Prev.Origin {
		return nil // the report says what it follows
	}
	_, month, _ := splitOrigin(v.log.Origin)
	anew := month != month.calendar() || len(l.Lost) > 0 // what was stored then is not what was signed
	if !anew && *l.Prev != *before {
		return v.wrong(WrongCutShort, "log %s ends at %d leaves, and this leaf says that it has %d and another root", before.Origin, before.Size, l.Prev.Size)
	}
	return nil
}

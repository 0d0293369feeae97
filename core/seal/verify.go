package seal

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"headway/core"
)

// Check is what a verification goes by.
type Check struct {
	// Keys are known to be the edge's. Without any the export's own are believed.
	Keys []Key
	// Saved, where not nil, is a checkpoint that was kept from earlier: the export
	// must hold at least what it was over, unchanged.
	Saved []byte
	// Witnesses, where there are any, are those of whom one at least must have signed
	// each checkpoint too.
	Witnesses []WitnessKey
	// Progress, where not nil, is told now and then how many lines were read.
	Progress func(lines int64)
	// Receipt, where not nil, is told of each receipt in order, with what stands behind
	// it unsigned (nil: nothing), while the export is read: it is good only once the
	// report is. What it is given is valid until it returns.
	Receipt func(origin string, index uint64, l *Leaf, measurements []byte)
}

// Verify checks an export: that what it holds is what was signed, all of it, in
// order and once. It needs nothing but the export and reads it once, in bounded
// memory; what it finds wrong first is in the report. An error says that the
// export cannot be read, or that the saved checkpoint is none.
func Verify(r io.Reader, c Check) (*Report, error) {
	v := &checker{in: bufio.NewReaderSize(r, 64<<10), progress: c.Progress, each: c.Receipt}
	if err := v.start(c); err != nil {
		return nil, err
	}
	v.export()
	if v.failed != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the export cannot be read", Err: v.failed}
	}
	v.report.Lines = v.line
	return v.finish(), nil
}

// stop ends a verification: there is a problem, or the export cannot be read.
var errStop = errors.New("stop")

// checker is one verification, of an export or of a tree.
type checker struct {
	in       *bufio.Reader
	line     int64  // of the one that was read last
	file     string // of a tree, instead
	long     []byte
	failed   error
	progress func(int64)

	report Report
	given  bool
	keys   []Key // that are believed
	saved  *Checkpoint
	others []WitnessKey // of whom one must have signed

	log    *LogReport      // the one that is read
	before *Tree           // of its edge's log before it; nil: there is none
	ends   map[string]Tree // the last log of each edge
	at     int64           // the line that it began with
	edge   edge            // of what was read of a whole log, until it has the saved size
	leaf   Leaf
	buffer []byte
	id     core.CallID // of the receipt that was read last, until its measurements are

	each  func(origin string, index uint64, l *Leaf, measurements []byte) // nil: nobody is told
	index uint64                                                          // of the leaf that was read last
	held  bool                                                            // it is a receipt that each was not told of yet
}

func (v *checker) start(c Check) error {
	v.keys, v.given, v.others = slices.Clone(c.Keys), len(c.Keys) > 0, c.Witnesses
	v.report.KeysFrom = "export"
	if v.given {
		v.report.KeysFrom = "given"
	}
	v.report.OK = true
	v.ends = map[string]Tree{}
	if c.Saved == nil {
		return nil
	}
	t, ok := parseTree(noteText(c.Saved))
	if !ok {
		return core.Field("checkpoint", "it is not a checkpoint of a receipt log")
	}
	v.saved = &Checkpoint{Tree: t, Note: c.Saved}
	return nil
}

func (v *checker) finish() *Report {
	for i := range v.report.Logs {
		v.report.Total.join(&v.report.Logs[i].Sums)
	}
	return &v.report
}

// wrong notes the first problem, which is in the line that was read last.
func (v *checker) wrong(word, format string, args ...any) error {
	return v.wrongAt(v.line, word, format, args...)
}

// wrongAt notes it of another line; 0: it is in none.
func (v *checker) wrongAt(line int64, word, format string, args ...any) error {
	if v.report.Problem == nil {
		v.report.OK = false
		v.report.Problem = &Problem{Line: line, File: v.file, Word: word, Text: fmt.Sprintf(format, args...)}
	}
	return errStop
}

// read reads a line; nil, nil: there is none. want is what stands there in an
// export that is whole.
func (v *checker) read(want string) ([]byte, error) {
	v.long = v.long[:0]
	for {
		part, err := v.in.ReadSlice('\n')
		switch {
		case err == nil && len(v.long) == 0:
			v.count()
			return part[:len(part)-1], nil
		case err == nil:
			v.count()
			v.long = append(v.long, part[:len(part)-1]...)
			if len(v.long) > maxLine {
				return nil, v.wrong(WrongFormat, "a line has more than %d bytes", maxLine)
			}
			return v.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if v.long = append(v.long, part...); len(v.long) > maxLine {
				v.count()
				return nil, v.wrong(WrongFormat, "a line has more than %d bytes", maxLine)
			}
		case errors.Is(err, io.EOF):
			if len(v.long)+len(part) > 0 {
				v.count()
				return nil, v.wrong(WrongCutShort, "the export is cut short: the line has no end, and should be %s", want)
			}
			return nil, nil
		default:
			v.failed = err
			return nil, errStop
		}
	}
}

func (v *checker) count() {
	v.line++
	if v.progress != nil && v.line%progressEvery == 0 {
		v.progress(v.line)
	}
}

// expect reads the next line of what is signed, past measurements; its absence is
// a problem.
func (v *checker) expect(want string) ([]byte, error) {
	for {
		line, err := v.read(want)
		if err != nil {
			return nil, err
		}
		if line == nil {
			return nil, v.wrongAt(v.line+1, WrongCutShort, "the export is cut short: it ends before %s", want)
		}
		if !bytes.HasPrefix(line, []byte(sideFront)) {
			return line, nil
		}
		if err := v.side(line); err != nil {
			return nil, err
		}
	}
}

// side reads measurements. They are not signed: they must be an object, and of the
// receipt that they stand right behind.
func (v *checker) side(line []byte) error {
	front := append(appendString([]byte(`{"id":`), string(v.id)), sideInner...)
	rest, ok := bytes.CutPrefix(line, front)
	switch {
	case v.id == "":
		return v.wrong(WrongFormat, "these measurements follow no receipt")
	case !ok:
		return v.wrong(WrongFormat, "these measurements are not those of the receipt before them, %s", v.id)
	case !bytes.HasPrefix(rest, []byte("{")) || !bytes.HasSuffix(rest, []byte("}")) || !json.Valid(rest[:len(rest)-1]) || !utf8.Valid(rest):
		return v.wrong(WrongFormat, "the measurements of receipt %s are not a JSON object", v.id)
	}
	v.id = ""
	v.log.Measured++
	v.tell(rest[:len(rest)-1])
	return nil
}

// tell gives away the receipt that was read last, once it is known what stands behind
// it.
func (v *checker) tell(measurements []byte) {
	if v.held {
		v.held = false
		v.each(v.log.Origin, v.index, &v.leaf, measurements)
	}
}

// export reads all of it.
func (v *checker) export() {
	line, err := v.expect("the line that an export begins with")
	if err != nil {
		return
	}
	origins, ok := parseHeader(line)
	if !ok {
		_ = v.wrong(WrongFormat, "this is not an export of a receipt log: it does not begin with the line that one has")
		return
	}
	for i := range origins {
		if v.logOf(origins, i) != nil {
			return
		}
	}
	if v.end() != nil {
		return
	}
	v.tell(nil)
	if v.saved != nil && !slices.ContainsFunc(v.report.Logs, func(l LogReport) bool { return l.Origin == v.saved.Origin }) {
		_ = v.wrongAt(0, WrongCutShort, "the saved checkpoint is of log %s, which the export does not hold", v.saved.Origin)
	}
}

// end reads what may stand behind the last leaf: its measurements.
func (v *checker) end() error {
	for {
		line, err := v.read("nothing")
		if err != nil || line == nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte(sideFront)):
			if err := v.side(line); err != nil {
				return err
			}
		case v.again(line, v.log.To, -1):
			return v.twice()
		default:
			return v.wrong(WrongFormat, "the export goes on behind its end")
		}
	}
}

func parseHeader(line []byte) (origins []string, ok bool) {
	r := reader{text: line}
	format := ""
	r.object(func(key []byte) {
		switch string(key) {
		case "format":
			format = string(r.string())
		case "logs":
			r.list(func() { origins = append(origins, string(r.string())) })
		default:
			r.fail("an unknown field")
		}
	})
	for _, o := range origins {
		if _, _, named := splitOrigin(o); !named {
			return nil, false
		}
	}
	return origins, r.end() == nil && format == formatName && len(origins) > 0
}

// parse reads the line that a log begins with, which has one spelling.
func (l *logLine) parse(line []byte) error {
	r := reader{text: line}
	r.object(func(key []byte) {
		switch string(key) {
		case "checkpoint":
			l.note = r.string()
		case "frontier":
			r.list(func() { l.frontier = append(l.frontier, r.hashes()) })
		case "part":
			l.part = true
			l.parsePart(&r)
		case "since":
			l.since = &since{}
			r.object(func(key []byte) {
				switch string(key) {
				case "proof":
					l.since.proof = r.hashes()
				case "root":
					l.since.root = r.hash()
				case "size":
					l.since.size = r.count()
				default:
					r.fail("an unknown field")
				}
			})
		case "vkeys":
			r.list(func() { l.keys = append(l.keys, string(r.string())) })
		default:
			r.fail("an unknown field")
		}
	})
	if r.bad == nil && !bytes.Equal(l.append(nil), line) {
		r.fail("a field is missing")
	}
	return r.end()
}

func (l *logLine) parsePart(r *reader) {
	count := uint64(0)
	r.object(func(key []byte) {
		switch string(key) {
		case "count":
			count = r.count()
		case "from":
			l.from = r.count()
		case "to":
			l.to = r.count()
		default:
			r.fail("an unknown field")
		}
	})
	if count == 0 || l.to-l.from != count || l.from > l.to {
		r.fail("a part whose count is not that from its from to its to")
	}
}

// hashes reads the base64 of hashes, in its one spelling.
func (r *reader) hashes() []Hash {
	text := r.string()
	if r.bad != nil {
		return nil
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%len(Hash{}) != 0 || len(raw) > tileWidth*len(Hash{}) ||
		!bytes.Equal(base64.StdEncoding.AppendEncode(nil, raw), text) {
		r.fail("not the base64 of hashes")
		return nil
	}
	list := make([]Hash, 0, len(raw)/len(Hash{}))
	for ; len(raw) > 0; raw = raw[len(Hash{}):] {
		list = append(list, Hash(raw[:len(Hash{})]))
	}
	return list
}

// logOf reads the i-th log of the export.
func (v *checker) logOf(origins []string, i int) error {
	line, err := v.expect("the line of log " + origins[i])
	if err != nil {
		return err
	}
	v.id = ""
	v.tell(nil)
	if i > 0 && v.again(line, v.log.To, -1) || i == 0 && v.again(line, 0, -1) {
		return v.twice()
	}
	if !bytes.HasPrefix(line, []byte(logFront)) {
		return v.wrong(v.stray(line), "the line that log %s begins with is missing here", origins[i])
	}
	var l logLine
	if err := l.parse(line); err != nil {
		return v.wrong(WrongEdited, "the line that log %s begins with was edited: %v", origins[i], err)
	}
	c, err := v.believe(&l)
	if err != nil {
		return err
	}
	if c.Origin != origins[i] {
		switch {
		case slices.Contains(origins[i:], c.Origin):
			return v.wrong(WrongMissing, "log %s is missing: %s stands where it should", origins[i], c.Origin)
		}
		return v.wrongAt(1, WrongEdited, "the export's first line was edited: it names log %s, and line %d has %s", origins[i], v.line, c.Origin)
	}
	if err := v.begin(c); err != nil {
		return err
	}
	if !l.part {
		l.to = c.Size
	}
	if l.from >= l.to || l.to > c.Size || l.part && l.to-l.from == c.Size {
		return v.wrong(WrongEdited, "leaves %d to %d are no part of log %s, which has %d", l.from, l.to, c.Origin, c.Size)
	}
	v.log.From, v.log.To = l.from, l.to
	if err := v.tree(&l, c); err != nil {
		return err
	}
	return walkFrontier(c.Size, l.frontier, v.tile, v.leaves)
}

// again tells whether a line stood in the export already, where what is expected
// is the leaf at an index, or the tile of a level that begins there.
func (v *checker) again(line []byte, at uint64, level int) bool {
	if v.log == nil {
		return bytes.HasPrefix(line, []byte(headFront))
	}
	switch {
	case bytes.HasPrefix(line, []byte(headFront)):
		return true
	case bytes.HasPrefix(line, []byte(logFront)):
		var l logLine
		if l.parse(line) != nil {
			return false
		}
		t, _ := parseTree(noteText(l.note))
		return slices.ContainsFunc(v.report.Logs, func(r LogReport) bool { return r.Origin == t.Origin })
	case bytes.HasPrefix(line, []byte(leafFront)):
		index, _, ok := splitLeaf(line)
		return ok && index >= v.log.From && index < at
	}
	var gotLevel int
	var n uint64
	mark := bytes.LastIndex(line, []byte(`,"level":`))
	if !bytes.HasPrefix(line, []byte(tileFront)) || mark < 0 {
		return false
	}
	if got, err := fmt.Sscanf(string(line[mark:]), `,"level":%d,"tile":%d}`, &gotLevel, &n); err != nil || got != 2 || gotLevel < 0 || gotLevel > 7 || n > maxSize {
		return false
	}
	first := n << ((gotLevel + 1) * tileHeight) // may overflow in nonsense alone
	return first < at || first == at && gotLevel > level
}

func (v *checker) twice() error {
	return v.wrong(WrongTwice, "this line stood in the export already")
}

// stray is the word for a line that stands where another should.
func (v *checker) stray(line []byte) string {
	for _, front := range []string{leafFront, tileFront, logFront, headFront} {
		if bytes.HasPrefix(line, []byte(front)) {
			return WrongMissing
		}
	}
	return WrongEdited
}

// believe checks the signatures of a log's checkpoint. The keys that its line names
// must be those that have signed it, each of them.
func (v *checker) believe(l *logLine) (*Checkpoint, error) {
	t, ok := parseTree(noteText(l.note))
	if !ok {
		return nil, v.wrong(WrongEdited, "the checkpoint was edited: it is not one of a receipt log")
	}
	var named []Key
	for _, text := range l.keys {
		k, ok := writtenKey(text)
		if !ok || k.Name != t.Origin || slices.Contains(named, k) {
			return nil, v.wrong(WrongEdited, "the keys that are named for log %s were edited", t.Origin)
		}
		named = append(named, k)
	}
	if len(named) > mostKeys || len(v.keys) > mostKeys {
		return nil, v.wrong(WrongFormat, "log %s names too many keys", t.Origin)
	}
	if !v.given { // they are all there is
		for _, k := range named {
			v.learn(k)
		}
	}
	c, err := openNote(l.note, v.keys)
	switch {
	case errors.Is(err, errUnknownKey):
		return nil, v.wrong(WrongUnknownKey, "the checkpoint of log %s is signed by none of the known keys", t.Origin)
	case errors.Is(err, errSignature):
		return nil, v.wrong(WrongSignature, "the checkpoint of log %s was edited: its signature is not that of its key", t.Origin)
	case err != nil:
		return nil, v.wrong(WrongEdited, "the checkpoint was edited: it is not one of a receipt log")
	}
	all, err := openNote(l.note, named)
	if err != nil || !slices.Equal(all.Signed, named) || len(named) == 0 || len(named) != linesBy(l.note, t.Origin) {
		return nil, v.wrong(WrongEdited, "the keys that are named for log %s are not those that have signed it", t.Origin)
	}
	c.Cosignatures = all.Cosignatures
	for _, k := range c.Signed {
		if k = k.forEdge(); !slices.Contains(v.report.Keys, k) {
			v.report.Keys = append(v.report.Keys, k)
		}
	}
	return c, nil
}

// linesBy counts the lines of a note that are an edge's own: by the log's name, as long
// as those of its keys. A later kind of key may have longer ones.
func linesBy(note []byte, origin string) (n int) {
	front := []byte("— " + origin + " ")
	for line := range bytes.Lines(note[len(noteText(note)):]) {
		value, own := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), front)
		raw, err := base64.StdEncoding.DecodeString(string(value))
		if own && err == nil && len(raw) == 4+ed25519.SignatureSize {
			n++
		}
	}
	return n
}

// learn adds a key to those that are believed; true: it was not among them.
func (v *checker) learn(k Key) bool {
	k = k.forEdge()
	if slices.Contains(v.keys, k) {
		return false
	}
	v.keys = append(v.keys, k)
	return true
}

// begin makes room for a log in the report, and holds its checkpoint against that of
// the edge's log before it, which need not stand right before it, and against the
// saved one.
func (v *checker) begin(c *Checkpoint) error {
	name, month, _ := splitOrigin(c.Origin)
	v.before = nil
	if before, ok := v.ends[name]; ok {
		if _, last, _ := splitOrigin(before.Origin); month <= last {
			return v.wrong(WrongOrder, "log %s stands behind %s", c.Origin, before.Origin)
		}
		v.before = &before
	}
	v.ends[name] = c.Tree
	v.report.Logs = append(v.report.Logs, LogReport{Tree: c.Tree, Cosignatures: c.Cosignatures})
	v.log, v.at = &v.report.Logs[len(v.report.Logs)-1], v.line
	v.edge = edge{}
	if err := v.witnessed(c); err != nil {
		return err
	}
	if v.saved == nil || v.saved.Origin != c.Origin {
		return nil
	}
	if s, err := openNote(v.saved.Note, v.keys); err != nil || s.Tree != v.saved.Tree {
		return v.wrong(WrongUnknownKey, "the saved checkpoint of log %s is signed by none of the known keys, or not as it should be", c.Origin)
	}
	switch {
	case c.Size < v.saved.Size:
		return v.wrong(WrongCutShort, "log %s is cut short: it has %d leaves, and the saved checkpoint was over %d", c.Origin, c.Size, v.saved.Size)
	case c.Size > v.saved.Size:
		v.log.Saved = "grown"
	case c.Root == v.saved.Root:
		v.log.Saved = "same"
	default:
		return v.rewritten()
	}
	return nil
}

// witnessed looks for the line of a witness where one is asked for.
func (v *checker) witnessed(c *Checkpoint) error {
	if len(v.others) == 0 {
		return nil
	}
	name, at, err := cosignedBy(v.others, c.Note)
	switch {
	case errors.Is(err, errSignature):
		return v.wrong(WrongSignature, "the line of the witness %s under the checkpoint of log %s is not its signature", name, c.Origin)
	case err != nil:
		return v.wrong(WrongUnwitnessed, "the checkpoint of log %s is signed by no witness that was asked for", c.Origin)
	}
	v.log.Witness, v.log.WitnessedAt = name, &at
	return nil
}

// mostKeys bounds the keys that an export makes known: an edge has a new one now and
// then.
const mostKeys = 256

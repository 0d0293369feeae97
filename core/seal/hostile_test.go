package seal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"headway/core"
)

// forger signs whatever leaves it is given: what an edge's key could sign that this
// program never does.
type forger struct {
	t    testing.TB
	ring *ring
}

func newForger(t testing.TB, edge string) *forger {
	t.Helper()
	ring, err := newRing(edge)
	if err != nil {
		t.Fatal(err)
	}
	return &forger{t, ring}
}

// forgedLog is a log of fewer than 256 leaves, and their Source.
type forgedLog struct {
	*Checkpoint
	leaves []string
}

func (l *forgedLog) Leaves(_ Month, from, to uint64, yield func(uint64, []byte) bool) error {
	for i := from; i < min(to, uint64(len(l.leaves))); i++ {
		if !yield(i, []byte(l.leaves[i])) {
			break
		}
	}
	return nil
}

func (l *forgedLog) Subtrees(Month, int, uint64, uint64) ([]Hash, error) { return nil, nil }

func (f *forger) log(month Month, leaves ...string) *forgedLog {
	f.t.Helper()
	log := NewLog(originOf(f.ring.edge, month))
	for _, leaf := range leaves {
		log.Append([]byte(leaf), nil)
	}
	c, err := f.ring.sign(log.Tree())
	if err != nil {
		f.t.Fatal(err)
	}
	return &forgedLog{c, leaves}
}

// open is the first leaf of a log behind others.
func (f *forger) open(prev *Tree, lost ...Tree) string {
	return string(openLeaf{prev: prev, lost: lost, keys: f.ring.names("2026-11")}.append(nil))
}

func (f *forger) receipts(n int) (list []string) {
	for i := range n {
		leaf, err := appendReceipt(nil, receipt(i, time.Date(2026, 11, 1, 0, 0, i, 0, time.UTC)), &sealed{})
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, string(leaf))
	}
	return list
}

func (f *forger) whole(month Month, prev *Tree, n int) *forgedLog {
	f.t.Helper()
	return f.log(month, append([]string{f.open(prev)}, f.receipts(n)...)...)
}

// together is one export of several forged logs.
func together(t testing.TB, logs ...*forgedLog) []byte {
	t.Helper()
	var origins []string
	var body []byte
	for _, l := range logs {
		var out bytes.Buffer
		if err := Export(&out, l, []Part{{Checkpoint: l.Checkpoint}}, ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		origins = append(origins, l.Origin)
		body = append(body, out.Bytes()[bytes.IndexByte(out.Bytes(), '\n')+1:]...)
	}
	return append(append(appendHeader(nil, origins), '\n'), body...)
}

// TestLogsOfTwoEdges holds each log against its own edge's log before it, whatever
// stands between them.
func TestLogsOfTwoEdges(t *testing.T) {
	a, b := newForger(t, "a.example/1"), newForger(t, "b.example/1")
	october := a.whole("2026-10", nil, 5)
	short := a.log("2026-10", october.leaves[:3]...)
	november := a.whole("2026-11", &october.Tree, 3)
	other := b.whole("2026-11", nil, 2)
	for _, check := range []Check{{}, {Keys: append(a.ring.Keys(), b.ring.Keys()...)}} {
		good(t, together(t, october, november), check)
		good(t, together(t, october, other, november), check)
		good(t, together(t, other, october, november), check)
		good(t, together(t, october, other), check)
		bad(t, together(t, short, november), check, WrongCutShort, 7)
		bad(t, together(t, short, other, november), check, WrongCutShort, 11)
		bad(t, together(t, november, other, october), check, WrongOrder, 11)
		bad(t, together(t, october, other, october), check, WrongTwice, 13)
	}
	bad(t, together(t, october, other), Check{Keys: a.ring.Keys()}, WrongUnknownKey, 9)
}

// TestBegunAnew is a log behind one whose end is not what it was signed with.
func TestBegunAnew(t *testing.T) {
	f := newForger(t, testEdge)
	october := f.whole("2026-10", nil, 5)
	found := october.Tree
	found.Root[3] ^= 1
	less := found
	less.Size = 4
	for _, prev := range []Tree{found, less} {
		for _, month := range []Month{"2026-10.2", "2026-11.2"} {
			good(t, together(t, october, f.whole(month, &prev, 2)), Check{})
		}
		november := f.log("2026-11", f.open(&prev, october.Tree))
		if l := good(t, together(t, october, november), Check{}).Logs[1]; l.Follows != october.Origin || len(l.Lost) != 1 {
			t.Errorf("%+v", l)
		}
		bad(t, together(t, october, f.whole("2026-11", &prev, 2)), Check{}, WrongCutShort, 10)
	}
}

// TestLinesHaveOneSpelling edits what is not signed of a log's line.
func TestLinesHaveOneSpelling(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	c := r.checkpoint("2026-11")
	whole := r.export(ExportOptions{})
	first := r.exportParts(ExportOptions{}, Part{Checkpoint: c, From: 0, To: 20})
	last := r.exportParts(ExportOptions{}, Part{Checkpoint: c, From: 300, To: 301, Since: &c.Tree})
	key := `"vkeys":["`
	for _, x := range []struct {
		export  []byte
		is, was string
	}{
		{first, `"from":-3`, `"from":0`}, {first, ``, `"from":0,`}, {first, ``, `"count":20,`}, {first, `"part":{"count":20,"from":0}`, `"part":{"count":20,"from":0,"to":20}`},
		{last, ``, `"proof":"",`}, {last, fmt.Sprintf(`"root":"%s"}`, c.Root), fmt.Sprintf(`"root":"%s","size":301}`, c.Root)},
		{last, `"size":-301`, `"size":301`}, {last, ``, fmt.Sprintf(`,"root":"%s"`, c.Root)}, {whole, key + " ", key}, {whole, `"part":{},"vkeys"`, `"vkeys"`},
		{whole, `"since":{},"vkeys"`, `"vkeys"`},
	} {
		good(t, x.export, Check{})
		edited := bytes.Replace(x.export, []byte(x.was), []byte(x.is), 1)
		if bytes.Equal(edited, x.export) {
			t.Fatalf("there is no %s", x.was)
		}
		bad(t, edited, Check{Keys: r.seal.Keys()}, WrongEdited, 2)
	}
}

// TestKeysAreAllNamed: a line names each key of the edge that has signed.
func TestKeysAreAllNamed(t *testing.T) {
	f := newForger(t, testEdge)
	f.ring.rotate("2026-11")
	l := f.whole("2026-11", nil, 2)
	good(t, together(t, l), Check{})
	for i := range l.Signed {
		rest := *l.Checkpoint
		rest.Signed = []Key{l.Signed[1-i]}
		export := together(t, &forgedLog{&rest, l.leaves})
		for _, keys := range [][]Key{nil, f.ring.Keys(), {rest.Signed[0].forEdge()}} {
			bad(t, export, Check{Keys: keys}, WrongEdited, 2)
		}
	}
	// Lines of others, and of what a later kind of key may have, are not its own.
	more := *l.Checkpoint
	more.Note = append(bytes.Clone(l.Note), "— "+l.Origin+" "+strings.Repeat("A", 400)+"\n— else.example/1 "+strings.Repeat("A", 4*17+23)+"=\n"...)
	good(t, together(t, &forgedLog{&more, l.leaves}), Check{})
}

// TestSignedAndNoLeaf are leaves that were signed and that RECEIPT.md §2 does not have.
func TestSignedAndNoLeaf(t *testing.T) {
	f := newForger(t, testEdge)
	one := f.receipts(1)[0]
	with := func(was, is string) string {
		changed := strings.Replace(one, was, is, 1)
		if changed == one {
			t.Fatalf("%s is not in %s", was, one)
		}
		return changed
	}
	id := one[strings.Index(one, `"id":"`):strings.Index(one, `,"kind":`)]
	charge := `"charge_picousd":"1234567"`
	private := one[strings.Index(one, `,"private":`):strings.Index(one, `,"provider":`)]
	at := one[strings.Index(one, `,"time":`):strings.Index(one, `,"type":`)]
	origin := originOf(testEdge, "2026-11")
	for _, leaf := range []string{
		with(charge, `"charge_picousd":"-5"`), with(charge, `"charge_picousd":"-0"`), with(charge, `"charge_picousd":5`), with(charge, `"charge_picousd":"9223372036854775808"`),
		with(`"input":"3000000"`, `"input":"-1"`), with(`"output_tokens":0`, `"output_tokens":-5`), with(`"attempts":1`, `"attempts":-1`),
		with(`"model":"demo-large"`, `"model":"`+strings.Repeat("x", maxName+1)+`"`), with(`"outcome":"settled"`, `"outcome":"`+strings.Repeat("x", 2000)+`"`),
		with(id+",", ""), with(id, `"id":""`), with(private, ""), with(at, ""), with(at, `,"time":-1`),
		`{"type":"receipt"}`, `{"type":"key"}`, `{"type":"erase"}`, `{"type":"close"}`, `{"x":1}`,
		`{"index":-1,"origin":"` + origin + `","type":"erase"}`, `{"origin":"` + origin + `","type":"erase"}`, `{"index":1,"type":"erase"}`,
		`{"type":"key","vkey":" ` + f.ring.current().String() + `"}`,
	} {
		bad(t, together(t, f.log("2026-11", f.open(nil), leaf)), Check{}, WrongFormat, 4)
	}
	good(t, together(t, f.log("2026-11", f.open(nil), with(`"model":"demo-large"`, `"model":"`+strings.Repeat(`\"`, maxName)+`"`), `{"type":"later","unknown":[-1,null]}`,
		`{"index":0,"origin":"`+origin+`","type":"erase"}`, `{"keys":[],"type":"close"}`)), Check{})
	prev := Tree{originOf(testEdge, "2026-10"), 3, Hash{}}
	first := f.open(&prev)
	for _, x := range [][2]string{{`"format":"` + formatName + `",`, ""}, {`"prev_size":3`, `"prev_size":-3`}, {`"prev_size":3,`, ""}, {formatName, "another"},
		{`"prev_`, `"lost":[{"origin":"` + prev.Origin + `","size":3}],"prev_`}, {`"prev_`, `"lost":[{}],"prev_`}} {
		changed := strings.Replace(first, x[0], x[1], 1)
		if changed == first {
			t.Fatalf("%s is not in %s", x[0], first)
		}
		bad(t, together(t, f.log("2026-11", changed)), Check{}, WrongFormat, 3)
	}
	bad(t, together(t, f.log("2026-11", `{"format":"`+formatName+`","type":"open"}`)), Check{}, WrongFormat, 3)
}

// TestLongestEdge: an edge of the longest name that is taken is verified.
func TestLongestEdge(t *testing.T) {
	f := newForger(t, strings.Repeat("x", 200))
	good(t, together(t, f.whole("2026-11.9", nil, 2)), Check{})
	good(t, together(t, f.whole("2026-11", nil, 2)), Check{Keys: f.ring.Keys()})
	if _, err := newRing(strings.Repeat("x", 201)); err == nil {
		t.Error("a longer one is taken")
	}
}

// TestNoCheckpointOfNothing: no log has a size of 0.
func TestNoCheckpointOfNothing(t *testing.T) {
	f := newForger(t, testEdge)
	l := f.whole("2026-11", nil, 2)
	nothing := f.log("2026-11")
	_, err := Verify(bytes.NewReader(together(t, l)), Check{Saved: nothing.Note})
	if e, ok := err.(*core.Error); !ok || e.Param != "checkpoint" {
		t.Error(err)
	}
	if _, err := ParseCheckpoint(nothing.Note, f.ring.Keys()); err == nil {
		t.Error("a checkpoint over nothing is read")
	}
}

package seal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
)

var writeSample = flag.Bool("write-sample", false, "write testdata/receipts anew")

// block gives the one block of RECEIPT.md of a kind.
func block(t *testing.T, kind string) []byte {
	t.Helper()
	doc, err := os.ReadFile("RECEIPT.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```"+kind+"\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(found) != 1 {
		t.Fatalf("RECEIPT.md has %d blocks of %s", len(found), kind)
	}
	return found[0][1]
}

// python runs the verifier of RECEIPT.md, and says whether it accepts an export.
func python(t *testing.T, export []byte, keys ...Key) (accepted bool, said string) {
	t.Helper()
	program := needs(t, "python3")
	needs(t, "openssl")
	dir := t.TempDir()
	script, path := filepath.Join(dir, "verify.py"), filepath.Join(dir, "export.jsonl")
	for name, text := range map[string][]byte{script: block(t, "python"), path: export} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{script, path}
	for _, k := range keys {
		args = append(args, k.String())
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	return err == nil, string(out)
}

// pythons runs the document's verifier over many exports in one process.
type pythons struct {
	t   *testing.T
	dir string
	in  io.WriteCloser
	out *bufio.Scanner
}

const manyInPython = `import contextlib, io, json, sys
source = compile(open(sys.argv[1]).read(), "verify.py", "exec")
for line in sys.stdin:
    sys.argv, out, code = json.loads(line), io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            exec(source, {"__name__": "__main__"})
        except SystemExit as e:
            code = 1
            print(e.code, file=out)
    print(json.dumps([code, out.getvalue()]), flush=True)
`

func newPythons(t *testing.T) *pythons {
	program := needs(t, "python3")
	needs(t, "openssl")
	p := &pythons{t: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(p.dir, "verify.py"), block(t, "python"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", manyInPython, filepath.Join(p.dir, "verify.py"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	t.Cleanup(func() { _, _ = p.in.Close(), cmd.Wait() })
	return p
}

func (p *pythons) verify(export []byte, keys []Key) (accepted bool, said string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "export.jsonl")
	if err := os.WriteFile(path, export, 0o600); err != nil {
		p.t.Fatal(err)
	}
	args := []string{"verify.py", path}
	for _, k := range keys {
		args = append(args, k.String())
	}
	line, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatal("the document's verifier died")
	}
	var code int
	if err := json.Unmarshal(p.out.Bytes(), &[]any{&code, &said}); err != nil {
		p.t.Fatal(err)
	}
	return code == 0, strings.TrimSpace(said)
}

func (p *pythons) accepts(export []byte, keys ...Key) (said string) {
	p.t.Helper()
	ok, said := p.verify(export, keys)
	if !ok || !strings.HasSuffix(said, "good") {
		p.t.Fatalf("the document's verifier refuses: %s", said)
	}
	return said
}

func (p *pythons) refuses(what string, export []byte, keys ...Key) {
	p.t.Helper()
	ok, said := p.verify(export, keys)
	if last := said[strings.LastIndexByte(said, '\n')+1:]; ok || !strings.HasPrefix(last, "line ") {
		p.t.Errorf("%s: the document's verifier says %s", what, said)
	}
}

func TestDocumentInPython(t *testing.T) {
	if slowly {
		t.Skip("it is Python that is tested")
	}
	r := newRig(t)
	r.now = time.Date(2026, 11, 30, 23, 59, 59, 200e6, time.UTC)
	r.add(700, 64)
	r.seal.Rotate()
	r.add(700, 100)
	r.now = time.Date(2027, 2, 3, 0, 0, 0, 0, time.UTC)
	r.add(10, 5)
	keys := r.seal.Keys()
	o := ExportOptions{Measurements: func(core.CallID) ([]byte, error) { return []byte(`{"timing":{"first_token_ms":1e2}}`), nil }}
	export := r.export(o)
	report := good(t, export, Check{Keys: keys})
	p := newPythons(t)
	said := p.accepts(export, keys...)
	for _, l := range report.Logs {
		contains(t, said, l.Origin)
	}
	contains(t, p.accepts(export), "no key was given")
	p.accepts(export, keys[0]) // the older key leads to the newer one
	month := keys[1]
	month.Name = originOf(testEdge, "2027-02")
	p.accepts(r.export(o, "2027-02"), month)
	c := r.checkpoint("2026-12")
	p.accepts(r.exportParts(o, Part{Checkpoint: c, From: 255, To: 580}), keys...)
	p.accepts(r.exportParts(o, Part{Checkpoint: c, From: 300, To: 301, Since: &c.Tree}, Part{Checkpoint: r.checkpoint("2027-02")}), keys...)

	p.refuses("a strange key", export, newTestRing(t).Keys()...)
	export = r.exportParts(o, Part{Checkpoint: c, From: 250, To: 262}, Part{Checkpoint: r.checkpoint("2027-02")})
	p.accepts(export, keys...)
	all := lines(export)
	for i := range all {
		if bytes.HasPrefix(all[i], []byte(sideFront)) || i > 6 && i%4 != 0 {
			continue
		}
		gone := joined(slices.Concat(all[:i], all[i+1:]))
		twice := joined(slices.Concat(all[:i+1], all[i:]))
		changed := bytes.Clone(export)
		changed[len(joined(all[:i]))+len(all[i])/2] ^= 1
		p.refuses("a line less", gone, keys...)
		p.refuses("a line twice", twice, keys...)
		p.refuses("the end is gone", joined(all[:i]), keys...)
		p.refuses("a flipped bit", changed, keys...)
	}
	whole := lines(r.export(ExportOptions{}, "2027-02"))
	p.accepts(joined(whole), keys...)
	origin := `"` + originOf(testEdge, "2027-02") + `"`
	head := []byte(strings.Replace(string(whole[0]), origin, origin+","+origin, 1))
	p.refuses("no logs", []byte(strings.Replace(string(whole[0]), origin, "", 1)), keys...)
	p.refuses("a log twice", slices.Concat(head, joined(whole[1:]), joined(whole[1:])), keys...)
	p.refuses("measurements of nothing", slices.Concat([]byte(`{"id":"x","measurements":{}}`+"\n"), joined(whole)), keys...)
	more := bytes.Replace(whole[1], []byte(`{"checkpoint"`), []byte(`{"a":1,"checkpoint"`), 1)
	p.refuses("a field more", slices.Concat(whole[0], more, joined(whole[2:])), keys...)
}

// TestDocumentsLeaf reads the leaf that RECEIPT.md shows.
func TestDocumentsLeaf(t *testing.T) {
	text := bytes.TrimSpace(block(t, "json leaf"))
	l, err := ParseLeaf(text)
	if err != nil || l.Type != typeReceipt || l.Charge.V != 2_234_570 {
		t.Fatal(l, err)
	}
	// Every field of a leaf is in the document.
	doc, err := os.ReadFile("RECEIPT.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		leaf, err := appendReceipt(nil, receipt(i, time.Now()), &sealed{key: "k", owner: "o"})
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(leaf, &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			contains(t, string(doc), "`"+name+"`")
			if inner, ok := value.(map[string]any); ok {
				for name := range inner {
					contains(t, string(doc), "`"+name+"`")
				}
			}
		}
	}
	for _, word := range []string{WrongFormat, WrongEdited, WrongMissing, WrongOrder, WrongTwice, WrongCutShort, WrongSignature, WrongUnknownKey, WrongRewritten} {
		contains(t, string(doc), "`"+word+"`")
	}
}

var treesFor = flag.String("trees", "", "a folder that TestTreesForOthers writes logs into")

// TestTreesForOthers writes logs as files for a verifier that is not ours
// (testdata/fsck).
func TestTreesForOthers(t *testing.T) {
	if *treesFor == "" {
		t.Skip("no -trees")
	}
	for name, n := range map[string]int{"small": 1, "middle": 600, "large": 1600} {
		r := newRig(t)
		r.now = time.Date(2026, 11, 30, 23, 59, 59, 500e6, time.UTC) // a part goes into the next month
		r.add(n/3, 64)
		if name == "large" {
			r.seal.Rotate()
		}
		r.add(n-n/3, 64)
		for _, m := range r.months() {
			if err := WriteTree(filepath.Join(*treesFor, name, string(m)), r.seal.Source(), r.checkpoint(m), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const sampleDir = "../../testdata/receipts"

// TestSample holds an export of the first version of the format: it must be
// accepted for ever, by this verifier and by the document's.
func TestSample(t *testing.T) {
	if *writeSample {
		sample(t)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(sampleDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	export := read("v1.jsonl")
	key, err := ParseKey(string(read("v1.vkey")))
	if err != nil {
		t.Fatal(err)
	}
	report := good(t, export, Check{Keys: []Key{key}, Saved: read("v1.checkpoint")})
	got, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.TrimSpace(read("v1.report.json")); !bytes.Equal(got, want) {
		t.Errorf("the report is\n%s\nand was\n%s", got, want)
	}
	if p, err := VerifyProof(read("v1.tlog-proof"), []Key{key}); err != nil || p.Leaf.Type != typeReceipt {
		t.Error(p, err)
	}
	if ok, said := python(t, export, key); !ok {
		t.Error(said)
	}
	damaged := read("damaged.jsonl")
	problem := bad(t, damaged, Check{Keys: []Key{key}}, WrongEdited, 30)
	if ok, said := python(t, damaged, key); ok || !strings.HasPrefix(said, "line 30:") {
		t.Error(said, problem)
	}
}

// sample makes the files of testdata/receipts: two months, a new key, a part.
func sample(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 10, 31, 23, 59, 59, 975e6, time.UTC)
	r.add(20, 8)
	saved := r.checkpoint("2026-10").Note
	first := r.seal.Keys()[0]
	r.seal.Rotate()
	r.add(30, 8)
	o := ExportOptions{Measurements: func(core.CallID) ([]byte, error) { return []byte(`{"timing":{"first_token_ms":123.5}}`), nil }}
	export := r.export(o)
	list := lines(export)
	list[29] = bytes.Replace(bytes.Replace(list[29], []byte(`"time":17`), []byte(`"time":18`), 1), []byte(`:123.5`), []byte(`:1`), 1)
	proof, err := r.seal.Prove(Position{"2026-10", 5})
	if err != nil {
		t.Fatal(err)
	}
	report, err := json.MarshalIndent(verify(t, export, Check{Keys: []Key{first}, Saved: saved}), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(sampleDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"v1.jsonl": export, "v1.vkey": []byte(first.String() + "\n"), "v1.checkpoint": saved, "v1.report.json": append(report, '\n'),
		"v1.tlog-proof": proof, "damaged.jsonl": joined(list)} {
		if err := os.WriteFile(filepath.Join(sampleDir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

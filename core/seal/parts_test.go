package seal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headway/core"
)

func TestPartOfAMonth(t *testing.T) {
	r := newRig(t)
	r.add(100, 64)
	old := r.checkpoint("2026-11")
	r.add(900, 64)
	c := r.checkpoint("2026-11")
	for _, bounds := range [][2]uint64{{0, 1}, {0, 256}, {1, 2}, {255, 257}, {300, 310}, {512, 768}, {700, 1001}, {768, 1001}, {1000, 1001}, {5, 1000}, {0, 1000},
		{1, 1001}, {101, 1001}, {102, 1001}, {101, 1000}} {
		p := Part{Checkpoint: c, From: bounds[0], To: bounds[1]}
		export := r.exportParts(ExportOptions{}, p)
		l := good(t, export, Check{Keys: r.seal.Keys()}).Logs[0]
		if l.From != p.From || l.To != p.To || l.Size != c.Size {
			t.Fatalf("%+v", l)
		}
		// It holds its range and the hashes that bind it, no leaf more.
		if n := bytes.Count(export, []byte(leafFront)); uint64(n) != p.To-p.From {
			t.Fatalf("%d leaves of %d to %d", n, p.From, p.To)
		}
		all := lines(export)
		for i := range all {
			if i > 4 && i < len(all)-2 && i%(len(all)/few(40)+1) != 0 {
				continue
			}
			gone := joined(append(append([][]byte{}, all[:i]...), all[i+1:]...))
			if report := verify(t, gone, Check{}); report.OK || report.Problem.Line != int64(i+1) {
				t.Fatalf("%d to %d without line %d: %v", p.From, p.To, i+1, report.Problem)
			}
			if i > 0 {
				bad(t, joined(all[:i]), Check{}, WrongCutShort, int64(i+1))
			}
		}
		// Held against an older checkpoint it needs the proof that the log only grew, and
		// all that came since.
		check := Check{Keys: r.seal.Keys(), Saved: old.Note}
		bad(t, export, check, WrongCutShort, 2)
		p.Since = &old.Tree
		grown := r.exportParts(ExportOptions{}, p)
		good(t, grown, Check{})
		if p.From > old.Size || p.To < c.Size {
			bad(t, grown, check, WrongCutShort, 2)
			continue
		}
		if l := good(t, grown, check).Logs[0]; l.Saved != "grown" {
			t.Fatalf("%+v", l)
		}
		// The line that binds it is not open to changes either.
		front := bytes.IndexByte(grown, '\n') + 1
		end := front + bytes.IndexByte(grown[front:], '\n')
		for at := end - 700; at < end && p.From == old.Size; at += 700 / few(700) {
			flipped := bytes.Clone(grown)
			flipped[at] ^= 1 << (at % 8)
			if report := verify(t, flipped, check); report.OK || report.Problem.Line > 3 && !strings.Contains(string(grown[at-9:at+9]), `"part"`) {
				t.Fatalf("byte %d, %q: %v", at, grown[at-5:at+5], report.Problem)
			}
		}
	}
	// Against the checkpoint that it has itself, too.
	same := Check{Keys: r.seal.Keys(), Saved: c.Note}
	for _, bounds := range [][2]uint64{{1000, 1001}, {5, 1001}, {5, 1000}, {0, 1000}} {
		p := Part{Checkpoint: c, From: bounds[0], To: bounds[1]}
		bad(t, r.exportParts(ExportOptions{}, p), same, WrongCutShort, 2)
		p.Since = &old.Tree
		bad(t, r.exportParts(ExportOptions{}, p), same, WrongCutShort, 2)
		p.Since = &c.Tree
		export := r.exportParts(ExportOptions{}, p)
		if p.To < c.Size {
			bad(t, export, same, WrongCutShort, 2)
		} else if l := good(t, export, same).Logs[0]; l.Saved != "same" {
			t.Fatalf("%+v", l)
		}
	}
	for _, p := range []Part{{Checkpoint: c, From: 5, To: 5}, {Checkpoint: c, From: 6, To: 5}, {Checkpoint: c, From: 0, To: 1002}, {Checkpoint: c, From: 1001, To: 1002}} {
		if Export(discard{}, r.seal.Source(), []Part{p}, ExportOptions{}) == nil {
			t.Errorf("%d to %d is exported", p.From, p.To)
		}
	}
	// A proof that it grew out of something else is not made.
	wrong := old.Tree
	wrong.Root[0] ^= 1
	if Export(discard{}, r.seal.Source(), []Part{{Checkpoint: c, From: 5, To: 9, Since: &wrong}}, ExportOptions{}) == nil {
		t.Error("a log is said to have grown out of what it never was")
	}
}

func TestSpan(t *testing.T) {
	r := newRig(t)
	start := r.now
	r.add(600, 64)
	c := r.checkpoint("2026-11")
	first, end, err := Span(r.seal.Source(), c, start.Add(100*time.Millisecond).UnixMilli(), start.Add(200*time.Millisecond).UnixMilli())
	if err != nil || first != 101 || end != 201 {
		t.Fatal(first, end, err)
	}
	l := good(t, r.exportParts(ExportOptions{}, Part{Checkpoint: c, From: first, To: end}), Check{}).Logs[0]
	if l.Receipts != 100 || l.FirstTime != start.Add(100*time.Millisecond).UnixMilli() || l.LastTime != start.Add(199*time.Millisecond).UnixMilli() {
		t.Fatalf("%+v", l)
	}
	if _, _, err := Span(r.seal.Source(), c, 5, 9); err == nil {
		t.Error("a time without a receipt has a part")
	}
}

// TestSavedCheckpoint holds a log against every older state of it.
func TestSavedCheckpoint(t *testing.T) {
	r := newRig(t)
	var saved []*Checkpoint
	for range 14 {
		r.add(23, 23)
		saved = append(saved, r.checkpoint("2026-11"))
	}
	export := r.export(ExportOptions{})
	for i, c := range saved {
		l := good(t, export, Check{Keys: r.seal.Keys(), Saved: c.Note}).Logs[0]
		if want := map[bool]string{true: "same", false: "grown"}[i == len(saved)-1]; l.Saved != want {
			t.Fatal(l.Saved, want)
		}
		// Another log of the same name, signed with the same key.
		other := c.Tree
		other.Root[3] ^= 1
		forged, err := r.seal.ring.Load().sign(other)
		if err != nil {
			t.Fatal(err)
		}
		bad(t, export, Check{Keys: r.seal.Keys(), Saved: forged.Note}, WrongRewritten, 2)
	}
	longer := saved[3].Tree
	longer.Size = 5000
	ahead, err := r.seal.ring.Load().sign(longer)
	if err != nil {
		t.Fatal(err)
	}
	bad(t, export, Check{Saved: ahead.Note}, WrongCutShort, 2)
	// An export that is as it was signed once, and shorter than what was seen since.
	early := r.exportParts(ExportOptions{}, Part{Checkpoint: saved[3]})
	good(t, early, Check{Keys: r.seal.Keys()})
	bad(t, early, Check{Keys: r.seal.Keys(), Saved: saved[4].Note}, WrongCutShort, 2)
	// One that others have signed.
	stranger, err := newTestRing(t).sign(saved[3].Tree)
	if err != nil {
		t.Fatal(err)
	}
	bad(t, export, Check{Saved: stranger.Note}, WrongUnknownKey, 2)
	if _, err := Verify(bytes.NewReader(export), Check{Saved: []byte("nonsense")}); err == nil {
		t.Error("nonsense is taken for a checkpoint")
	}
}

func TestMeasurementsAreNotSigned(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	o := ExportOptions{Measurements: func(id core.CallID) ([]byte, error) {
		if strings.HasSuffix(string(id), "0") {
			return nil, nil // of some there are none any more
		}
		return fmt.Appendf(nil, `{"timing":{"first_token_ms":123.5},"of":%q}`, id), nil
	}}
	export := r.export(o)
	report := good(t, export, Check{Keys: r.seal.Keys()})
	if n := report.Logs[0].Measured; n < 200 || n > 300 || int64(bytes.Count(export, []byte("\n"+sideFront))) != n {
		t.Fatal(n)
	}
	good(t, bytes.ReplaceAll(export, []byte("123.5"), []byte("7")), Check{Keys: r.seal.Keys()})
	good(t, bytes.ReplaceAll(export, []byte(`{"first_token_ms":123.5}`), []byte(`{"other":[1,null,"x"]}`)), Check{Keys: r.seal.Keys()})
	all := lines(export)
	for i, line := range all {
		if !bytes.HasPrefix(line, []byte(sideFront)) {
			continue
		}
		gone := joined(append(append([][]byte{}, all[:i]...), all[i+1:]...)) // they may be left out
		if i%40 == 0 {
			good(t, gone, Check{})
			twice := joined(append(append(append([][]byte{}, all[:i+1]...), line), all[i+1:]...))
			bad(t, twice, Check{}, WrongFormat, int64(i+2))
			for _, other := range []string{`{"id":"01k5xyz","measurements":{}}`, strings.Replace(string(line[:len(line)-1]), `{"timing"`, `{timing`, 1), string(line[:len(line)-2])} {
				changed := append([][]byte{}, all...)
				changed[i] = []byte(other + "\n")
				bad(t, joined(changed), Check{}, WrongFormat, int64(i+1))
			}
		}
	}
	// They must stand behind their receipt.
	for i := range all {
		if i > 20 && bytes.HasPrefix(all[i], []byte(sideFront)) {
			swapped := append([][]byte{}, all...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			bad(t, joined(swapped), Check{}, WrongFormat, int64(i))
			break
		}
	}
	bad(t, joined(append([][]byte{[]byte(`{"id":"x","measurements":{}}` + "\n")}, all...)), Check{}, WrongFormat, 1)
	bad(t, bytes.Replace(export, []byte(`{"first_token_ms"`), []byte("{\"\xff\""), 1), Check{}, WrongFormat, int64(1+bytes.Count(export[:bytes.Index(export, []byte(`{"first_token_ms"`))], []byte("\n"))))
	from := bytes.Index(export, []byte(sideInner)) + len(sideInner)
	end := from + bytes.IndexByte(export[from:], '\n')
	bad(t, slices.Concat(export[:from], []byte("7}"), export[end:]), Check{}, WrongFormat, int64(1+bytes.Count(export[:from], []byte("\n"))))
	// Right behind it: the line of a tile between them is one too many.
	r.add(300, 64)
	all = lines(r.export(o))
	moved := 0
	for i := 3; i < len(all); i++ {
		if bytes.HasPrefix(all[i], []byte(tileFront)) && bytes.HasPrefix(all[i-1], []byte(sideFront)) {
			all[i-1], all[i] = all[i], all[i-1]
			bad(t, joined(all), Check{}, WrongFormat, int64(i+1))
			all[i-1], all[i] = all[i], all[i-1]
			moved++
		}
	}
	if moved == 0 {
		t.Error("no tile stands behind measurements")
	}
}

func TestProof(t *testing.T) {
	r := newRig(t)
	r.add(700, 64)
	keys := r.seal.Keys()
	c := r.checkpoint("2026-11")
	for index := uint64(0); index < c.Size; index += 23 {
		text, err := r.seal.Prove(Position{"2026-11", index})
		if err != nil {
			t.Fatal(err)
		}
		if index == 0 { // its log's first leaf, which is of no receipt
			if p, err := VerifyProof(text, keys); err == nil {
				t.Fatalf("%+v", p)
			}
			continue
		}
		p, err := VerifyProof(text, keys)
		if err != nil || p.Index != index || p.Checkpoint.Tree != c.Tree {
			t.Fatal(p, err)
		}
		if p.Leaf.ID != receipt(int(index-1), time.Date(2026, 11, 29, 10, 0, 0, int(index-1)*1e6, time.UTC)).ID {
			t.Fatal(p.Leaf.ID)
		}
		if _, err := VerifyProof(text, newTestRing(t).Keys()); err == nil {
			t.Fatal("a proof is taken from a stranger")
		}
		if index > 100 {
			continue
		}
		for at := 0; at < len(text); at += len(text) / few(len(text)) {
			flipped := bytes.Clone(text)
			flipped[at] ^= 1 << (at % 8)
			if p, err := VerifyProof(flipped, keys); err == nil {
				t.Fatalf("byte %d, %q: %+v", at, text[max(0, at-5):min(len(text), at+5)], p)
			}
			if _, err := VerifyProof(text[:at], keys); err == nil {
				t.Fatalf("%d bytes are a proof", at)
			}
		}
		t.Logf("a proof in %d leaves has %d bytes", c.Size, len(text))
	}
	if _, err := r.seal.Prove(Position{"2026-11", c.Size}); err == nil {
		t.Error("a leaf that is not there is proven")
	}
	if _, err := r.seal.Prove(Position{"2026-10", 1}); err == nil {
		t.Error("a leaf of no log is proven")
	}
	// A leaf that no checkpoint covers yet.
	r.seal.Record(receipt(r.made, r.now))
	if err := r.vault.Write(r.seal.Changed(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.seal.Prove(Position{"2026-11", c.Size}); err == nil {
		t.Error("a leaf is proven before it was signed")
	}
}

func TestTree(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 600} {
		r := newRig(t)
		r.add(n, 64)
		if n == 0 {
			r.seal.Rotate()
			r.commit()
		}
		c := r.checkpoint("2026-11")
		dir := filepath.Join(t.TempDir(), "log")
		if err := WriteTree(dir, r.seal.Source(), c, nil); err != nil {
			t.Fatal(err)
		}
		if !IsTree(dir) || IsTree(t.TempDir()) {
			t.Error("it does not look like a tree")
		}
		for _, check := range []Check{{}, {Keys: r.seal.Keys()}, {Saved: c.Note}} {
			report, err := VerifyTree(dir, check)
			if err != nil || !report.OK || report.Total.Receipts != int64(n) {
				t.Fatal(report, err)
			}
		}
		if report, err := VerifyTree(dir, Check{Keys: newTestRing(t).Keys()}); err != nil || report.OK || report.Problem.Word != WrongUnknownKey {
			t.Fatal(report, err)
		}
		if err := WriteTree(dir, r.seal.Source(), c, nil); err == nil {
			t.Error("a folder that is not empty is written into")
		}
		var files []string
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "README" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			flipped := bytes.Clone(text)
			flipped[min(len(flipped)/2, 40)] ^= 2 // of a checkpoint what is signed: the line of another key is not looked at
			for name, changed := range map[string][]byte{"a flipped bit": flipped, "cut short": text[:len(text)-2], "longer": append(bytes.Clone(text), 'x'), "empty": {}} {
				if err := os.WriteFile(path, changed, 0o600); err != nil {
					t.Fatal(err)
				}
				report, err := VerifyTree(dir, Check{})
				if err != nil || report.OK {
					t.Fatalf("%s with %s: %v %v", rel, name, report, err)
				}
				if got := report.Problem.File; got != filepath.ToSlash(rel) && rel != "log.vkey" {
					t.Errorf("%s with %s: %v", rel, name, report.Problem)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if report, err := VerifyTree(dir, Check{}); err != nil || report.OK || report.Problem.Word != WrongMissing || report.Problem.File != filepath.ToSlash(rel) {
				t.Fatalf("%s is gone: %v %v", rel, report, err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTilePath(t *testing.T) {
	for want, got := range map[string]string{
		"tile/0/000":                    tilePath(0, 0, 256),
		"tile/entries/x001/x234/067":    tilePath(-1, 1234067, 256),
		"tile/1/x001/000.p/17":          tilePath(1, 1000, 17),
		"tile/entries/255.p/1":          tilePath(-1, 255, 1),
		"tile/2/x123/x000/x000/000.p/9": tilePath(2, 123_000_000_000, 9),
	} {
		if got != want {
			t.Errorf("%s should be %s", got, want)
		}
	}
}

// TestCosignatures keeps a witness's line with a checkpoint, and asks nothing of it.
func TestCosignatures(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	c := r.checkpoint("2026-11")
	// A line as c2sp.org/tlog-cosignature has it: another name, 4 + 8 + 64 bytes.
	line := "— witness.example/w1 mJirIkljYXNlNjQgb2YgYSBjb3NpZ25hdHVyZTogNCBieXRlcyBvZiBhIGtleSBpZCwgOCBvZiBhIHRpbWUgYW5kIDY0IG9mIGVkMjU1MTkhISEhIQ==\n"
	other := append([]byte(c.text()+"\n"), line...)
	joint, err := Cosign(c.Note, other)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Cosign(joint, other)
	if err != nil || !bytes.Equal(again, joint) {
		t.Fatal("a line that is there is added again", err)
	}
	cosigned, err := ParseCheckpoint(joint, r.seal.Keys())
	if err != nil || cosigned.Cosignatures != 1 || len(cosigned.Signed) != 1 {
		t.Fatal(cosigned, err)
	}
	export := r.exportParts(ExportOptions{}, Part{Checkpoint: cosigned})
	if l := good(t, export, Check{Keys: r.seal.Keys(), Saved: c.Note}).Logs[0]; l.Cosignatures != 1 || l.Saved != "same" {
		t.Fatalf("%+v", l)
	}
	good(t, export, Check{})
	if _, err := Cosign(c.Note, []byte("another text\n\n"+line)); err == nil {
		t.Error("the signature of another text is added")
	}
}

func TestVerifyRefusesNonsense(t *testing.T) {
	r := newRig(t)
	r.add(20, 64)
	export := r.export(ExportOptions{})
	for _, text := range []string{"", "\n", "{}\n", "[]\n", "null\n", `{"format":"headway receipt log v2","logs":["a/2026-11"]}` + "\n", `{"format":"headway receipt log v1","logs":[]}` + "\n",
		strings.Repeat("x", 3<<20), strings.Repeat("\n", 100), "\x00\xff", string(export) + "\n", string(export) + "{}\n", "\n" + string(export), string(export) + string(export),
		strings.ReplaceAll(string(export), "\n", "\r\n"), "\ufeff" + string(export)} {
		report := verify(t, []byte(text), Check{})
		if report.OK || report.Problem == nil || report.Problem.Line < 1 {
			t.Errorf("%q: %v", text[:min(len(text), 60)], report.Problem)
		}
	}
	if _, err := Verify(failing{}, Check{}); err == nil {
		t.Error("an export that cannot be read is verified")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, os.ErrPermission }

func TestKeyText(t *testing.T) {
	k := newTestRing(t).current()
	got, err := ParseKey(" " + k.String() + "\n")
	if err != nil || got != k {
		t.Fatal(got, err)
	}
	text := k.String()
	for at := range text {
		for bit := range 8 {
			flipped := []byte(text)
			flipped[at] ^= 1 << bit
			if got, err := ParseKey(string(flipped)); err == nil && strings.TrimSpace(string(flipped)) != text {
				t.Errorf("%q is read as %v", flipped, got)
			}
		}
	}
	for _, bad := range []string{"", "a", "a+b", "a+b+c", "a+00000000+AAAA", text + "+x"} {
		if _, err := ParseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}

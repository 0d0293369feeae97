package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzVerify gives the verifier anything: it must answer, and accept nothing that
// is not, byte for byte, one of the exports that were signed.
func FuzzVerify(f *testing.F) {
	r := newRig(f)
	r.add(20, 8)
	export := r.export(ExportOptions{})
	c := r.checkpoint("2026-11")
	part := r.exportParts(ExportOptions{}, Part{Checkpoint: c, From: 3, To: 9, Since: &c.Tree})
	key := r.seal.Keys()
	for _, seed := range [][]byte{export, part, nil, []byte("\n"), export[:len(export)/2], bytes.ReplaceAll(export, []byte("a"), []byte("b"))} {
		f.Add(seed)
	}
	if sample, err := os.ReadFile(filepath.Join(sampleDir, "v1.jsonl")); err == nil {
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, check := range []Check{{Keys: key}, {Keys: key, Saved: c.Note}} {
			report, err := Verify(bytes.NewReader(text), check)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK != (report.Problem == nil) || !report.OK && report.Problem.Line < 1 {
				t.Fatalf("%+v", report)
			}
			if report.OK && report.Logs[0].Measured == 0 && !bytes.Equal(text, export) && report.Logs[0].From == 0 && report.Logs[0].To == report.Logs[0].Size {
				t.Fatalf("accepted: %q", text)
			}
		}
		// Whatever it is, it may be signed by itself.
		if _, err := Verify(bytes.NewReader(text), Check{}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzProof(f *testing.F) {
	r := newRig(f)
	r.add(20, 8)
	for _, index := range []uint64{0, 5, 20} {
		text, err := r.seal.Prove(Position{"2026-11", index})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	keys := r.seal.Keys()
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := VerifyProof(text, keys)
		if err != nil {
			return
		}
		again, err := r.seal.Prove(Position{"2026-11", p.Index})
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("accepted: %q", text)
		}
	})
}

// FuzzLeaf holds the reader of canonical JSON to its word: what it takes is written
// as encoding/json's own values are.
func FuzzLeaf(f *testing.F) {
	src := newMadeUp(20)
	for i := range uint64(20) {
		f.Add(src.leaf(nil, i))
	}
	f.Add(openLeaf{prev: &Tree{Origin: "a/2026-11"}, lost: []Tree{{}}, keys: []string{"k"}}.append(nil))
	f.Add([]byte(`{"id":"\u0001\"\\é","list":[1,-2,true,null,{"a":{}}],"type":"later"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := ParseLeaf(text); err != nil {
			return
		}
		if again := canonical(t, text); !bytes.Equal(again, text) && asciiKeys(text) {
			t.Fatalf("%q is canonical as %q", text, again)
		}
	})
}

// asciiKeys: the order of other keys is that of UTF-16 in RFC 8785, and that of
// bytes here and in encoding/json; no leaf has such a key.
func asciiKeys(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func FuzzRecords(f *testing.F) {
	r := new(run)
	r.add(noNonce[:], []byte("leaf"))
	f.Add(r.record(nil))
	state, _ := NewLog("a/2026-11").AppendBinary(nil)
	f.Add(state)
	f.Fuzz(func(t *testing.T, value []byte) {
		if r, ok := parseRun(7, value); ok {
			n := 0
			r.each(func(int, []byte, []byte) bool { n++; return true })
			if n != r.count {
				t.Fatal(n, r.count)
			}
		}
		if l, err := ParseLog("a/2026-11", value); err == nil {
			again, _ := l.AppendBinary(nil)
			if !bytes.Equal(again, value) {
				t.Fatal("another state is written than was read")
			}
			l.Tree()
		}
		if _, err := parseRing(value); err == nil {
			t.Log("a ring")
		}
		if places := placesOf(value); len(places[0]) > placeSize {
			t.Fatal("a place is too long")
		}
	})
}

package seal

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"time"
)

// goesOnAnew checks that the log that was found broken is left alone, and that what
// comes is sealed in another one that says so.
func (r *rig) goesOnAnew(verdict Verdict, lost uint64) {
	r.t.Helper()
	before, err := os.ReadFile(headPath(r.parts.Dir, "2026-11"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	r.open()
	st := r.seal.Status()
	if len(st.Broken) != 1 || st.Broken[0].Verdict != verdict || st.Broken[0].Problem == "" {
		r.t.Fatalf("%+v; it should be %s", st, verdict)
	}
	contains(r.t, r.log.String(), "another is begun")
	if err := r.seal.Durable(); err != nil {
		r.t.Fatal(err)
	}
	r.add(10, 5)
	r.open() // and again
	if got := r.months(); len(got) != 2 || r.seal.Status().Log.Origin != originOf(testEdge, "2026-11.2") {
		r.t.Fatal(got)
	}
	r.add(10, 5)
	report := good(r.t, r.export(ExportOptions{}, "2026-11.2"), Check{Keys: r.seal.Keys()})
	l := report.Logs[0]
	if l.Receipts != 20 || lost > 0 != (l.Lost != nil) || lost > 0 && l.Lost[0].Size != lost {
		r.t.Fatalf("%+v", l)
	}
	after, err := os.ReadFile(headPath(r.parts.Dir, "2026-11"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	if string(before) != string(after) {
		r.t.Fatal("the log that is broken was signed again")
	}
}

// TestStoreLosesItsEnd puts an older state of the store beside the checkpoint.
func TestStoreLosesItsEnd(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	back := r.snapshot()
	r.add(100, 64)
	back()
	r.goesOnAnew(Short, 401)
}

func TestStoreLosesAllOfTheMonth(t *testing.T) {
	r := newRig(t)
	r.now = time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC)
	r.add(30, 64)
	back := r.snapshot()
	r.now = time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	r.add(30, 64)
	back()
	r.open()
	if err := r.seal.Durable(); err != nil {
		t.Fatal(err)
	}
	r.add(10, 10)
	if got := r.months(); !slices.Equal(got, []Month{"2026-10", "2026-11.2"}) {
		t.Fatal(got)
	}
	l := good(t, r.export(ExportOptions{}, "2026-11.2"), Check{}).Logs[0]
	if len(l.Lost) != 2 || l.Lost[0].Size != 32 || l.Lost[1].Origin != originOf(testEdge, "2026-11") || l.Lost[1].Size != 31 || l.Follows != originOf(testEdge, "2026-10") {
		t.Fatalf("%+v", l)
	}
}

func TestStoreIsDamaged(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(value []byte) []byte { value[at] ^= 4; return value }
	}
	for name, damage := range map[string]func(*rig){
		"a leaf of the last tile": func(r *rig) { r.change(KindRun, runName("2026-11", 257), changeCharge) },
		"a leaf is gone":          func(r *rig) { r.drop(KindRun, runName("2026-11", 257)) },
		"a run is cut": func(r *rig) {
			r.change(KindRun, runName("2026-11", 257), func(v []byte) []byte { return v[:len(v)-9] })
		},
		"a hash":                   func(r *rig) { r.change(KindTree, treeName("2026-11", 1, 0), flip(3)) },
		"a hash is gone":           func(r *rig) { r.drop(KindTree, treeName("2026-11", 1, 0)) },
		"a hash of the state":      func(r *rig) { r.change(KindLog, "2026-11", flip(30)) },
		"the last hash of the log": func(r *rig) { r.change(KindLog, "2026-11", func(v []byte) []byte { return flip(len(v) - 1)(v) }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(300, 64)
			damage(r)
			r.goesOnAnew(Damaged, 301)
		})
	}
	for name, damage := range map[string]func(*rig){
		"the state is cut": func(r *rig) { r.change(KindLog, "2026-11", func(v []byte) []byte { return v[:len(v)-1] }) },
		"the state's size": func(r *rig) { r.change(KindLog, "2026-11", flip(15)) },
		"an empty state":   func(r *rig) { r.change(KindLog, "2026-11", func(v []byte) []byte { return []byte{} }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(300, 64)
			damage(r)
			r.goesOnAnew(Damaged, 301)
		})
	}
}

func TestHeadFails(t *testing.T) {
	other := newRig(t)
	other.add(20, 5)
	foreign, err := os.ReadFile(headPath(other.parts.Dir, "2026-11"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  func(r *rig, text []byte) []byte
		verdict Verdict // "": it goes on
	}{
		"gone":                  {func(*rig, []byte) []byte { return nil }, Short},
		"empty":                 {func(*rig, []byte) []byte { return []byte{} }, Short},
		"of zeros":              {func(_ *rig, text []byte) []byte { return make([]byte, len(text)) }, Short},
		"short":                 {func(_ *rig, text []byte) []byte { return text[:100] }, Damaged},
		"of another edge's key": {func(*rig, []byte) []byte { return foreign }, Damaged},
		"of another month": {func(r *rig, _ []byte) []byte {
			c, err := r.seal.ring.Load().sign(Tree{originOf(testEdge, "2026-10"), 301, Hash{}})
			if err != nil {
				t.Fatal(err)
			}
			return c.Note
		}, Damaged},
		"torn in the older place": {func(r *rig, text []byte) []byte {
			h := r.seal.cur.head
			copy(text[h.next*placeSize+40:], "torn torn torn")
			return text
		}, ""},
		"torn in both places": {func(_ *rig, text []byte) []byte {
			copy(text[40:], "torn torn torn")
			copy(text[placeSize+40:], "torn torn torn")
			return text
		}, Damaged},
		"larger than the store's": {func(r *rig, _ []byte) []byte {
			c, err := r.seal.ring.Load().sign(Tree{originOf(testEdge, "2026-11"), 5000, Hash{7}})
			if err != nil {
				t.Fatal(err)
			}
			return c.Note
		}, Short},
		"of another root": {func(r *rig, _ []byte) []byte {
			c, err := r.seal.ring.Load().sign(Tree{originOf(testEdge, "2026-11"), 301, Hash{7}})
			if err != nil {
				t.Fatal(err)
			}
			return c.Note
		}, Damaged},
		"two roots for one size": {func(r *rig, text []byte) []byte {
			h := r.seal.cur.head
			c, err := r.seal.ring.Load().sign(Tree{originOf(testEdge, "2026-11"), 301, Hash{7}})
			if err != nil {
				t.Fatal(err)
			}
			copy(text[h.next*placeSize:(h.next+1)*placeSize], append(c.Note, make([]byte, placeSize)...))
			return text
		}, Damaged},
		"an old one": {func(r *rig, _ []byte) []byte {
			c, err := r.seal.ring.Load().sign(Tree{originOf(testEdge, "2026-11"), 65, Hash{}})
			if err != nil {
				t.Fatal(err)
			}
			tr := newTree(r.seal.src, "2026-11", 301)
			root, err := tr.root(65)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = r.seal.ring.Load().sign(Tree{c.Origin, 65, root}); err != nil {
				t.Fatal(err)
			}
			return c.Note
		}, Short},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(300, 64)
			path := headPath(r.parts.Dir, "2026-11")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text = c.change(r, text); text == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.verdict == "" {
				r.open()
				if st := r.seal.Status(); len(st.Broken) > 0 {
					t.Fatalf("%+v", st)
				}
				r.add(20, 5)
				good(t, r.export(ExportOptions{}), Check{})
				return
			}
			r.open()
			st := r.seal.Status()
			if len(st.Broken) != 1 || st.Broken[0].Verdict != c.verdict {
				t.Fatalf("%+v; it should be %s", st, c.verdict)
			}
			r.add(10, 5)
			last := r.months()[len(r.months())-1]
			if last != "2026-11.2" {
				t.Fatal(r.months())
			}
			good(t, r.export(ExportOptions{}, last), Check{})
		})
	}
}

// TestTornWrite is a power cut while a checkpoint was written: the leaves were
// committed, and the place that was written is neither the old nor the new.
func TestTornWrite(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	path := headPath(r.parts.Dir, "2026-11")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := r.seal.cur.head.next
	r.add(5, 5)
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 60, 200} { // bytes that got there
		text := slices.Clone(before)
		copy(text[place*placeSize:], after[place*placeSize:place*placeSize+n])
		if n > 1 {
			copy(text[place*placeSize+n:], "\x00\x00\x00\x00\x00\x00\x00\x00")
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r.open()
		if st := r.seal.Status(); len(st.Broken) > 0 {
			t.Fatalf("%d bytes: %+v", n, st)
		}
		if err := r.seal.Durable(); err != nil {
			t.Fatal(err)
		}
		if st := r.seal.Status(); st.Signed.Size != 306 {
			t.Fatalf("%+v", st)
		}
	}
}

func TestHeadSwap(t *testing.T) {
	dir := t.TempDir()
	ring := newTestRing(t)
	sign := func(m Month, size uint64, root byte) *Checkpoint {
		c, err := ring.sign(Tree{originOf(testEdge, m), size, Hash{root}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	open := func() *Head {
		h, err := OpenHead(dir, testEdge, "2026-11", ring.Keys())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open()
	for size := uint64(1); size < 6; size++ {
		if err := h.Swap(sign("2026-11", size, byte(size))); err != nil {
			t.Fatal(err)
		}
		if got := open().Last(); got.Size != size {
			t.Fatal(got)
		}
	}
	if err := h.Swap(sign("2026-11", 5, 5)); err != nil {
		t.Errorf("the same again: %v", err)
	}
	for name, c := range map[string]*Checkpoint{"another root": sign("2026-11", 5, 9), "smaller": sign("2026-11", 4, 4), "another log": sign("2026-12", 7, 7)} {
		if h.Swap(c) == nil {
			t.Errorf("%s is signed", name)
		}
	}
	// Another process has signed in between.
	other := open()
	if err := other.Swap(sign("2026-11", 8, 8)); err != nil {
		t.Fatal(err)
	}
	if h.Swap(sign("2026-11", 9, 9)) == nil {
		t.Error("what another process has signed is written over")
	}
	if err := other.Swap(sign("2026-11", 9, 9)); err != nil {
		t.Error(err)
	}
	// The folder is gone: nothing is signed, and it goes on once it is there again.
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if other.Swap(sign("2026-11", 10, 10)) == nil {
		t.Error("a checkpoint is signed without its file")
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	if err := other.Swap(sign("2026-11", 11, 11)); err != nil {
		t.Error(err)
	}
}

// TestDurableFails has receipts that are committed and cannot be signed for a while.
func TestDurableFails(t *testing.T) {
	r := newRig(t)
	r.add(30, 10)
	signed := r.checkpoint("2026-11").Size
	away := r.parts.Dir + ".away"
	if err := os.Rename(r.parts.Dir, away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.seal.Record(receipt(r.made, r.now))
		r.made++
		if err := r.vault.Write(r.seal.Changed(), nil); err != nil {
			t.Fatal(err)
		}
		if r.seal.Durable() == nil {
			t.Fatal("it was signed")
		}
		if st := r.seal.Status(); st.Error == "" || st.Signed.Size != signed {
			t.Fatalf("%+v", st)
		}
	}
	if err := os.Rename(away, r.parts.Dir); err != nil {
		t.Fatal(err)
	}
	if err := r.seal.Durable(); err != nil {
		t.Fatal(err)
	}
	if st := r.seal.Status(); st.Error != "" || st.Signed.Size != signed+3 {
		t.Fatalf("%+v", st)
	}
	good(t, r.export(ExportOptions{}), Check{})
}

func TestRecover(t *testing.T) {
	fresh := func(t *testing.T) (*rig, *Checkpoint) {
		r := newRig(t)
		r.add(700, 64)
		return r, r.checkpoint("2026-11")
	}
	r, head := fresh(t)
	if got := Recover(r.seal.Source(), head.Origin, head); got.Verdict != Whole || got.Have != head.Tree || got.Err != nil {
		t.Fatalf("%+v", got)
	}
	if got := Recover(r.seal.Source(), head.Origin, nil); got.Verdict != Whole || got.Have.Size != 701 {
		t.Fatalf("%+v", got)
	}
	for name, c := range map[string]struct {
		damage      func(r *rig)
		verdict     Verdict
		first, last uint64
	}{
		"the end is gone":     {func(r *rig) { names := r.all(KindRun); r.drop(KindRun, names[len(names)-1]) }, Short, 0, 0},
		"a run is gone":       {func(r *rig) { r.drop(KindRun, runName("2026-11", 129)) }, Damaged, 129, 129},
		"the beginning":       {func(r *rig) { r.drop(KindRun, runName("2026-11", 0)) }, Damaged, 0, 0},
		"a leaf that is none": {func(r *rig) { r.change(KindRun, runName("2026-11", 257), breakJSON) }, Damaged, 257, 257},
		"a changed leaf":      {func(r *rig) { r.change(KindRun, runName("2026-11", 257), changeCharge) }, Damaged, 256, 511},
		"a changed last leaf": {func(r *rig) { r.change(KindRun, runName("2026-11", 641), changeCharge) }, Damaged, 512, 700},
		"a changed hash": {func(r *rig) {
			r.change(KindTree, treeName("2026-11", 1, 1), func(v []byte) []byte { v[9] ^= 1; return v })
		}, Damaged, 256, 511},
		"a hash that is gone": {func(r *rig) { r.drop(KindTree, treeName("2026-11", 1, 0)) }, Damaged, 0, 255},
		"a run of another log": {func(r *rig) {
			r.change(KindRun, runName("2026-11", 641), func([]byte) []byte { return []byte{0, 1, 5} })
		}, Damaged, 641, 641},
	} {
		t.Run(name, func(t *testing.T) {
			r, head := fresh(t)
			c.damage(r)
			got := Recover(r.seal.Source(), head.Origin, head)
			if got.Verdict != c.verdict || got.First != c.first || got.Last != c.last || got.Err == nil {
				t.Fatalf("%s, %d to %d: %v; it should be %s, %d to %d", got.Verdict, got.First, got.Last, got.Err, c.verdict, c.first, c.last)
			}
			// What is damaged is not exported either.
			var out discard
			if err := Export(&out, r.seal.Source(), []Part{{Checkpoint: head}}, ExportOptions{}); err == nil {
				t.Error("it is exported")
			}
			if err := WriteTree(t.TempDir(), r.seal.Source(), head, nil); err == nil {
				t.Error("it is exported as files")
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// changeFirst changes the first leaf of a run in its place.
func changeFirst(value []byte, change func(leaf []byte)) []byte {
	r, _ := parseRun(0, value)
	r.each(func(_ int, _, leaf []byte) bool {
		change(leaf)
		return false
	})
	return r.record(nil)
}

// changeCharge changes an amount, and leaves the form as it is.
func changeCharge(value []byte) []byte {
	const name = `picousd":"`
	return changeFirst(value, func(leaf []byte) { leaf[bytes.Index(leaf, []byte(name))+len(name)] ^= 1 })
}

func breakJSON(value []byte) []byte {
	return changeFirst(value, func(leaf []byte) { leaf[0] = 'x' })
}

func TestParseRunRefuses(t *testing.T) {
	r := &run{first: 5}
	r.add(noNonce[:], []byte("one"))
	r.add(noNonce[:], []byte("two"))
	value := r.record(nil)
	if got, ok := parseRun(5, value); !ok || got.count != 2 {
		t.Fatal(got, ok)
	}
	for n := range value {
		if _, ok := parseRun(5, value[:n]); ok {
			t.Errorf("%d bytes of %d are read", n, len(value))
		}
	}
	longer := append(slices.Clone(value), 0)
	if _, ok := parseRun(5, longer); ok {
		t.Error("a byte too many is read")
	}
	for _, count := range []uint16{0, 1, 3, mostRun + 1} {
		other := slices.Clone(value)
		binary.BigEndian.PutUint16(other[1:], count)
		if _, ok := parseRun(5, other); ok {
			t.Errorf("two leaves are read as %d", count)
		}
	}
	value[0]++
	if _, ok := parseRun(5, value); ok {
		t.Error("a run of another dictionary is read")
	}
}

// TestRestore is a store of a backup without its checkpoint files: the log that it
// has may have been signed further than that, so another is begun. What the backup
// had signed can be shown still.
func TestRestore(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	back := r.snapshot()
	backup := r.checkpoint("2026-11").Note
	r.add(100, 64)
	back()
	if err := os.Remove(headPath(r.parts.Dir, "2026-11")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(restoredPath(r.parts.Dir, "2026-11"), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	if st := r.seal.Status(); len(st.Broken) != 1 || !st.Broken[0].Restored {
		t.Fatalf("%+v", st)
	}
	r.add(20, 5)
	report := good(t, r.export(ExportOptions{}), Check{Saved: backup})
	if report.Total.Receipts != 320 || report.Logs[1].Follows != originOf(testEdge, "2026-11") {
		t.Fatalf("%+v", report)
	}
}

// TestRestoreBeforeTheNextMonth is such a store, of which more leaves were committed
// than the backup's checkpoint is over, and whose next receipt comes in the month after.
func TestRestoreBeforeTheNextMonth(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	backup := r.checkpoint("2026-11")
	r.add(5, 5)
	if err := os.Remove(headPath(r.parts.Dir, "2026-11")); err != nil {
		t.Fatal(err)
	}
	if err := WriteRestored(r.parts.Dir, "2026-11", backup.Note); err != nil {
		t.Fatal(err)
	}
	r.now = time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)
	r.open()
	r.add(20, 5)
	report := good(t, r.export(ExportOptions{}), Check{Saved: backup.Note})
	if l := report.Logs; l[0].Size != backup.Size || l[1].Follows != backup.Origin || l[1].Receipts != 20 {
		t.Fatalf("%+v", report)
	}
	r.open()
	r.add(20, 5)
	good(t, r.export(ExportOptions{}), Check{Saved: backup.Note})
}

// TestRestoreBesideItsOwnHead is such a store beside the checkpoint file of the server
// that was: the next log says how much is gone, and what the backup has can be shown.
func TestRestoreBesideItsOwnHead(t *testing.T) {
	r := newRig(t)
	r.add(300, 64)
	back := r.snapshot()
	backup := r.checkpoint("2026-11").Note
	r.add(100, 64)
	back()
	if err := WriteRestored(r.parts.Dir, "2026-11", backup); err != nil {
		t.Fatal(err)
	}
	r.parts.Hold = true // whoever restored it need not be asked
	r.goesOnAnew(Short, 401)
	good(t, r.export(ExportOptions{}, "2026-11", "2026-11.2"), Check{Saved: backup, Keys: r.seal.Keys()})
}

// TestRestoreNamesTaken is a store of a backup in which nothing says yet that the log
// was signed, and a month that began after the backup was made: the server of before
// may have signed both, so neither name is signed again.
func TestRestoreNamesTaken(t *testing.T) {
	r := newRig(t)
	r.add(5, 64) // one group: its state says that nothing was signed before it
	if err := os.Remove(headPath(r.parts.Dir, "2026-11")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Month{"2026-11", "2026-12"} {
		if err := WriteRestored(r.parts.Dir, m, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if st := r.seal.Status(); len(st.Broken) != 1 || st.Broken[0].Verdict != Short {
		t.Fatalf("%+v", st)
	}
	if _, err := r.seal.Checkpoint("2026-11"); err == nil {
		t.Error("there is a checkpoint")
	}
	r.add(5, 5)
	r.now = time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)
	r.add(5, 5)
	r.now = time.Date(2027, 1, 3, 0, 0, 0, 0, time.UTC)
	r.add(5, 5)
	if got := r.months(); !slices.Equal(got, []Month{"2026-11", "2026-11.2", "2026-12.2", "2027-01"}) {
		t.Fatal(got)
	}
	good(t, r.export(ExportOptions{}, "2026-11.2", "2026-12.2", "2027-01"), Check{Keys: r.seal.Keys()})
	for _, m := range []Month{"2026-11", "2026-11.2"} { // its time is over though nobody has closed it
		if err := r.seal.Drop(m); err != nil {
			t.Error(err)
		}
	}
	if got := r.months(); len(got) != 2 {
		t.Error(got)
	}
	if err := WriteRestored(r.parts.Dir, "../x", nil); err == nil {
		t.Error("a name that is none is written")
	}
}

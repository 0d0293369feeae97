package seal

import (
	"slices"
	"testing"

	"headway/core"
)

// TestHeldUntilRenewed: behind a damaged log nothing is signed, whatever comes and
// however often it is opened, until somebody says so; what came meanwhile is sealed
// first then, each receipt once.
func TestHeldUntilRenewed(t *testing.T) {
	r := newRig(t)
	r.parts.Hold, r.parts.Book = true, r.vault
	r.open()
	if r.seal.Held() != nil || r.seal.Renew() == nil {
		t.Fatal("a log that is whole is held, or renewed")
	}
	r.add(300, 64)
	r.change(KindRun, runName("2026-11", 257), changeCharge)
	before := r.checkpoint("2026-11")

	var ids []core.CallID
	for range 3 {
		r.open()
		if held := r.seal.Held(); held == nil || r.seal.Due() {
			t.Fatal(held, "it goes on behind a damaged log")
		}
		for range 50 {
			x := receipt(r.made, r.now)
			r.made++
			if err := r.vault.Open(core.Intent{ID: x.ID}); err != nil {
				t.Fatal(err)
			}
			r.vault.Append(x, nil)
			r.seal.Record(x)
			ids = append(ids, x.ID)
		}
		r.commit()
		r.seal.Rotate()
		r.commit()
	}
	if got := r.months(); !slices.Equal(got, []Month{"2026-11"}) || r.checkpoint("2026-11").Size != before.Size {
		t.Fatalf("%v were begun", got)
	}
	if st := r.seal.Status(); st.Unsealed != 0 || len(st.Broken) != 1 {
		t.Fatalf("%+v", st)
	}

	r.open() // and once more: who is owed a leaf is known
	if err := r.seal.Renew(); err != nil {
		t.Fatal(err)
	}
	for n := 0; r.seal.Due(); n++ {
		if n > 10 {
			t.Fatal("it is due for ever")
		}
		r.commit()
	}
	r.add(5, 5)
	report := good(t, r.export(ExportOptions{}, "2026-11.2"), Check{Keys: r.seal.Keys()})
	if l := report.Logs[0]; l.Receipts != 155 || l.Lost == nil || l.Lost[0].Size != 301 {
		t.Fatalf("%+v", l)
	}
	var sealed []core.CallID
	_ = r.seal.Source().Leaves("2026-11.2", 1, 151, func(_ uint64, text []byte) bool {
		leaf, err := ParseLeaf(text)
		if err != nil {
			t.Fatal(err)
		}
		sealed = append(sealed, leaf.ID)
		return true
	})
	if !slices.Equal(sealed, ids) {
		t.Error("the first leaves of the new log are not those that were owed")
	}
	r.open()
	if r.seal.Held() != nil || r.seal.Due() {
		t.Error("what was renewed is held again, or owed")
	}
}

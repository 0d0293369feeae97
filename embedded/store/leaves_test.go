package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"headway/core"
	"headway/embedded/store"
)

// Leaves are kept in another order than other records, which nobody is to see.
func TestLeavesAreScannedAsOthers(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	memory := core.NewMemory()
	bounds := []string{"", "0", "~"}
	for _, month := range []string{"2025-12", "2026-01", "2026-01.2", "2026-01.10", "2026-11"} {
		bounds = append(bounds, month+"/", month+"0")
		for _, n := range []int{0, 1, 255, 256, 9999, 1 << 20} {
			name := fmt.Sprintf("%s/%010d", month, n)
			bounds = append(bounds, name, name[:len(name)-3])
			if err := errors.Join(s.Put(core.KindLeaves, name, []byte(name)), memory.Put(core.KindLeaves, name, []byte(name))); err != nil {
				t.Fatal(whole(err))
			}
		}
	}
	for _, other := range []string{"seal-rum", "seal-ruo", "seal-run2"} {
		if err := s.Put(other, "2026-01/0000000001", []byte("another kind")); err != nil {
			t.Fatal(whole(err))
		}
	}
	some := false
	for _, from := range bounds {
		for _, to := range bounds {
			for _, newest := range []bool{false, true} {
				got, want := scanned(t, s, from, to, newest), scanned(t, memory, from, to, newest)
				if !slices.Equal(got, want) {
					t.Errorf("from %q to %q, newest %v: %q instead of %q", from, to, newest, got, want)
				}
				some = some || len(want) > 7
			}
		}
	}
	if !some {
		t.Error("nothing was scanned")
	}
	if err := s.Delete(core.KindLeaves, "2026-01/0000000001"); err != nil {
		t.Fatal(whole(err))
	}
	if value, err := s.Get(core.KindLeaves, "2026-01/0000000001"); value != nil || err != nil {
		t.Errorf("deleted leaves are there: %q, %v", value, err)
	}
}

func scanned(t *testing.T, v core.Vault, from, to string, newest bool) (names []string) {
	t.Helper()
	err := v.Scan(core.KindLeaves, from, to, newest, func(name string, value []byte) bool {
		if string(value) != name {
			t.Errorf("%q has the value of %q", name, value)
		}
		names = append(names, name)
		return true
	})
	if err != nil {
		t.Fatal(whole(err))
	}
	return names
}

// A copy that version 1 has made has its leaves where they were then, and so has each
// that is made now.
func TestCopyOfVersionOne(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	want := map[string][]byte{}
	for i := range 90 {
		name := fmt.Sprintf("2026-11/%010d", 90-i)
		want[name] = noise(20_000)
		if err := s.PutOld(core.KindLeaves, name, want[name]); err != nil {
			t.Fatal(whole(err))
		}
	}
	chunks := copied(t, s)
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := load(t, dir, chunks); err != nil {
		t.Fatal(whole(err))
	}
	s = mustOpen(t, dir, options(t))
	for name, value := range want {
		got, err := s.Get(core.KindLeaves, name)
		if err != nil {
			t.Fatal(whole(err))
		}
		if !bytes.Equal(got, value) {
			t.Fatalf("%q has %d other bytes", name, len(got))
		}
	}
	if again := copied(t, s); !bytes.Equal(bytes.Join(again, nil), bytes.Join(chunks, nil)) {
		t.Error("a copy of it is another one than version 1 made")
	}
}

// What a compaction rewrites must not grow with what is kept, or a store gets slower for
// ever: receipts and leaves of before stay in the tables that they are in.
func TestCompactionLeavesTheOldAlone(t *testing.T) {
	s := mustOpen(t, filepath.Join(fastDir(t, 256<<20), "store"), crashOptions(options(t)))
	run(t, s)
	n := 0
	fill := func() {
		var list []*core.Receipt
		for range 8000 {
			r := receiptAt(n)
			r.Region = hex.EncodeToString(noise(3000))
			list = append(list, r)
			if n++; n%20 == 0 {
				if err := s.Put(core.KindLeaves, fmt.Sprintf("2026-11/%010d", n), noise(60_000)); err != nil {
					t.Fatal(whole(err))
				}
			}
		}
		for some := range slices.Chunk(list, 2000) {
			put(t, s, some...)
		}
		if err := s.Clean(context.Background()); err != nil {
			t.Fatal(whole(err))
		}
	}
	// inner are the tables of nothing but receipts, or leaves, without the newest.
	inner := func(prefix string) (ids []uint64) {
		tables := s.Tables()
		slices.SortFunc(tables, func(a, b store.TableInfo) int { return bytes.Compare(a.Left, b.Left) })
		for _, x := range tables {
			if bytes.HasPrefix(x.Left, []byte(prefix)) && bytes.HasPrefix(x.Right, []byte(prefix)) {
				ids = append(ids, x.ID)
			}
		}
		switch {
		case len(ids) < 2:
			t.Fatalf("%d tables of %s", len(ids), prefix)
		case prefix == "r/":
			return ids[:len(ids)-1]
		}
		return ids[1:]
	}
	fill()
	receipts, leaves := inner("r/"), inner("z/")
	fill()
	for _, id := range receipts {
		if !slices.Contains(inner("r/"), id) {
			t.Errorf("table %d of receipts was rewritten", id)
		}
	}
	for _, id := range leaves {
		if !slices.Contains(inner("z/"), id) {
			t.Errorf("table %d of leaves was rewritten", id)
		}
	}
}

// noise cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// filled writes receipts and records into tables, and gives the folder, what is
// in it, and its tables' names.
func filled(t *testing.T) (dir string, receipts []*core.Receipt, tables []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, options(t))
	run(t, s)
	for i := range 120 {
		r := receiptAt(i)
		r.Job = "job"
		receipts = append(receipts, r)
		if i%4 == 0 {
			if err := s.Put("key", strconv.Itoa(i), []byte("value "+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, s, receipts...)
	mustClose(t, s)
	tables, err := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v: %v", tables, err)
	}
	return dir, receipts, tables
}

// One flipped bit anywhere in a table is an error of Open or of the read, or
// changes nothing: no record is missing and none is another.
func TestFlippedBit(t *testing.T) {
	dir, receipts, tables := filled(t)
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	refused, unavailable := 0, 0
	for range 40 {
		bit := rng.IntN(len(table) * 8)
		bad := bytes.Clone(table)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(tables[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(dir, quietly(t))
		if err != nil {
			e := isKind(t, err, core.Unavailable)
			equal(t, "message", e.Msg, dir+" cannot be opened: the store is damaged")
			refused++
			continue
		}
		unavailable += readAll(t, s, receipts)
		_ = s.Close()
		if t.Failed() {
			t.Fatalf("seed %d, bit %d of %d", seed, bit, len(table)*8)
		}
	}
	t.Logf("%d refused at the start, %d reads refused", refused, unavailable)
	if refused == 0 {
		t.Error("no damage was seen")
	}
}

// A table beyond what Open reads is found out by the reads.
func TestFlippedBitThatOpenDoesNotSee(t *testing.T) {
	dir, receipts, tables := filled(t)
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 3))
	unavailable := 0
	for range 15 {
		// In the blocks; the index behind them is read at each start.
		bit := rng.IntN(len(table) * 8 * 9 / 10)
		bad := bytes.Clone(table)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(tables[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.OpenUnverified(dir, quietly(t))
		if err != nil {
			isKind(t, err, core.Unavailable)
			continue
		}
		unavailable += readAll(t, s, receipts)
		_ = s.Close()
		if t.Failed() {
			t.Fatalf("seed %d, bit %d of %d", seed, bit, len(table)*8)
		}
	}
	t.Logf("%d reads refused", unavailable)
	if unavailable == 0 {
		t.Error("no damage was seen")
	}
}

// A compaction would leave out what cannot be read: it is refused, and what is
// there can still be read.
func TestDamagedTableIsNotCompacted(t *testing.T) {
	dir, receipts, tables := filled(t)
	table, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	table[0] ^= 1 // the first block is then no block
	if err := os.WriteFile(tables[0], table, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenUnverified(dir, quietly(t))
	if err != nil {
		t.Fatal(whole(err))
	}
	defer s.Close()
	run(t, s)
	was := readAll(t, s, receipts)
	e := isKind(t, s.Clean(t.Context()), core.Unavailable)
	equal(t, "message", e.Msg, dir+" has a damaged table: its space is no longer freed")
	put(t, s, receiptAt(10_000)) // it goes on
	if now := readAll(t, s, receipts); was == 0 || now < was {
		t.Errorf("%d reads were refused before and %d after", was, now)
	}
}

// A record that is there without its witness, or the other way round, or of
// another version, is one that cannot be read: Badger leaves out what it cannot.
func TestRecordAndWitnessDisagree(t *testing.T) {
	for _, c := range []struct {
		name, key string
		value     []byte
	}{
		{"record gone", "%s", nil},
		{"witness gone", "w/%s", nil},
		{"record of another version", "%s", []byte("{}")},
		{"witness of another version", "w/%s", []byte("1234")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir(), options(t))
			run(t, s)
			r := receiptAt(0)
			r.Job = "job"
			put(t, s, receiptAt(-1), r, receiptAt(1))
			for _, name := range []string{"a", "b", "c"} {
				if err := s.Put("key", name, []byte(name)); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range []string{"r/2026-03/" + string(r.ID), "v/key/b", "rj/job\x00" + string(r.ID)} {
				if err := s.Raw(fmt.Sprintf(c.key, key), c.value); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(s.Put("key", "empty", nil), s.Raw("v/key/empty", nil)); err != nil {
				t.Fatal(err)
			}
			unavailable := func(err error) { t.Helper(); isKind(t, err, core.Unavailable) }
			_, err := s.Receipt(r.ID)
			unavailable(err)
			_, err = s.Get("key", "b")
			unavailable(err)
			_, err = s.Get("key", "empty")
			unavailable(err)
			_, err = s.JobCalls("job")
			unavailable(err)
			none := time.Time{}
			unavailable(s.Receipts(none, none, false, func(*core.Receipt) bool { return true }))
			unavailable(s.Receipts(none, none, true, func(*core.Receipt) bool { return true }))
			unavailable(s.All("key", func(string, []byte) bool { return true }))
			if v, err := s.Get("key", "c"); err != nil || string(v) != "c" {
				t.Errorf("another record: %q, %v", v, err)
			}
			if list := ids(t, s, at(1), none, false); len(list) != 1 {
				t.Errorf("receipts behind it: %v", list)
			}
		})
	}
}

// readAll reads everything in every way; what is not Unavailable must be right.
// It counts the reads that were.
func readAll(t *testing.T, s *store.Store, receipts []*core.Receipt) (unavailable int) {
	t.Helper()
	failed := func(err error) bool {
		if err != nil {
			isKind(t, err, core.Unavailable)
			unavailable++
		}
		return err != nil
	}
	for i, want := range receipts {
		if got, err := s.Receipt(want.ID); !failed(err) {
			sameReceipt(t, got, want)
		}
		if i%4 != 0 {
			continue
		}
		if got, err := s.Get("key", strconv.Itoa(i)); !failed(err) {
			equal(t, "record", string(got), "value "+strconv.Itoa(i))
		}
	}
	for _, newest := range []bool{false, true} {
		n := 0
		err := s.Receipts(time.Time{}, at(9000), newest, func(r *core.Receipt) bool {
			want := receipts[n]
			if newest {
				want = receipts[len(receipts)-1-n]
			}
			sameReceipt(t, r, want)
			n++
			return !t.Failed()
		})
		if !failed(err) {
			equal(t, "receipts", n, len(receipts))
		}
	}
	n := 0
	if !failed(s.All("key", func(string, []byte) bool { n++; return true })) {
		equal(t, "records", n, len(receipts)/4)
	}
	if calls, err := s.JobCalls("job"); !failed(err) {
		equal(t, "calls of the job", len(calls), len(receipts))
	}
	return unavailable
}

func TestDamagedManifest(t *testing.T) {
	dir, _, tables := filled(t)
	manifest := filepath.Join(dir, "db", "MANIFEST")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(dir, quietly(t))
	isKind(t, err, core.Unavailable)
	text[len(text)/2] ^= 4
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tables[0]); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(dir, quietly(t))
	isKind(t, err, core.Unavailable)
}

// What a process leaves that was killed in the middle of something else.
func TestLeftovers(t *testing.T) {
	dir, receipts, _ := filled(t)
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, "db", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), []byte("half made"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "db"), filepath.Join(dir, "db.away")); err != nil { // on a full disk
		t.Fatal(err)
	}
	s := mustOpen(t, dir, options(t))
	equal(t, "reads that failed", readAll(t, s, receipts), 0)
	if st, err := os.Stat(filepath.Join(dir, "ballast")); err != nil || st.Size() < 1<<20 {
		t.Errorf("the ballast was not made again: %v", err)
	}
}

// A database that is gone, or has lost its manifest, is refused as damaged, with
// nothing made or removed: it would begin anew, as if nothing had ever been there. One
// that was being made when its process was killed begins anew.
func TestMissingDatabase(t *testing.T) {
	used := func() (dir, db string) {
		dir = t.TempDir()
		s := mustOpen(t, dir, options(t))
		run(t, s)
		put(t, s, receiptAt(0))
		mustClose(t, s)
		return dir, filepath.Join(dir, "db")
	}
	for name, damage := range map[string]func(db string) error{
		"no folder":   os.RemoveAll,
		"nothing":     func(db string) error { return errors.Join(os.RemoveAll(db), os.Mkdir(db, 0o700)) },
		"no manifest": func(db string) error { return os.Remove(filepath.Join(db, "MANIFEST")) },
		"an older folder without a manifest": func(db string) error {
			return errors.Join(os.Remove(filepath.Join(db, "MANIFEST")), os.Remove(filepath.Join(filepath.Dir(db), "db.made")))
		},
	} {
		dir, db := used()
		if err := damage(db); err != nil {
			t.Fatal(err)
		}
		before, _ := filepath.Glob(filepath.Join(db, "*"))
		for range 2 {
			_, err := store.Open(dir, options(t))
			if e := isKind(t, err, core.Unavailable); !strings.Contains(e.Msg, "damaged") || e.Hint == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after, _ := filepath.Glob(filepath.Join(db, "*")); !slices.Equal(before, after) {
			t.Errorf("%s: %v became %v", name, before, after)
		}
	}
	dir, db := used()
	if err := errors.Join(os.RemoveAll(db), os.Remove(filepath.Join(dir, "db.made"))); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir, options(t)))
}

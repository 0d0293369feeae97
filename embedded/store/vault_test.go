package store_test

import (
	"errors"
	"strings"
	"testing"

	"headway/core"
)

func TestVault(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	get := func(kind, name string) []byte {
		t.Helper()
		v, err := s.Get(kind, name)
		if err != nil {
			t.Fatal(whole(err))
		}
		return v
	}
	set := func(kind, name string, v []byte) {
		t.Helper()
		if err := s.Put(kind, name, v); err != nil {
			t.Fatal(whole(err))
		}
	}
	all := func(kind string) (list []string) {
		t.Helper()
		if err := s.All(kind, func(name string, v []byte) bool {
			list = append(list, name+"="+string(v))
			return true
		}); err != nil {
			t.Fatal(whole(err))
		}
		return list
	}
	equal(t, "none", get("key", "a"), nil)
	value := []byte("1")
	set("key", "a", value)
	value[0] = 'x' // the store has its own
	set("key", "b/c", []byte("2"))
	set("key", "b", []byte("3"))
	set("keys", "a", []byte("of another kind"))
	set("key", "a", []byte("4"))
	set("key", "gone", []byte("5"))
	set("key", "empty", []byte{})
	set("key", "nil", nil)
	for _, name := range []string{"gone", "never"} {
		if err := s.Delete("key", name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		equal(t, "value", string(get("key", "a")), "4")
		equal(t, "gone", get("key", "gone"), nil)
		equal(t, "an empty value is there", get("key", "empty"), []byte{})
		equal(t, "nil is an empty one", get("key", "nil"), []byte{})
		equal(t, "all", all("key"), []string{"a=4", "b=3", "b/c=2", "empty=", "nil="})
		equal(t, "all of a kind without any", all("other"), nil)
		mustClose(t, s) // and again from the tables
		s = mustOpen(t, dir, options(t))
	}
}

func TestVaultBounds(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	if err := s.Put("key", "a", make([]byte, 256<<10)); err != nil {
		t.Fatal(whole(err))
	}
	isKind(t, s.Put("key", "b", make([]byte, 256<<10+1)), core.TooLarge)
	isKind(t, s.Put("key", "", nil), core.Invalid)
	isKind(t, s.Put("key", strings.Repeat("n", 1025), nil), core.Invalid)
	isKind(t, s.Put("", "a", nil), core.Internal)
	isKind(t, s.Put("a/b", "a", nil), core.Internal)
	isKind(t, s.Delete("a/b", "a"), core.Internal)
	_, err := s.Get("a/b", "a")
	isKind(t, err, core.Internal)
	isKind(t, s.All("a/b", nil), core.Internal)
}

func TestVaultSaysWhenItCannotWrite(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	s.WrapCommit(func(func() error) error { return errors.New("no space left on device") })
	e := isKind(t, s.Put("key", "a", nil), core.Unavailable)
	equal(t, "message", e.Msg, "the record cannot be written")
	isKind(t, s.Delete("key", "a"), core.Unavailable)
}

// TestVaultWrite: all of it or nothing, and whole again from the tables.
func TestVaultWrite(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, options(t))
	record := func(name, value string) core.Record { return core.Record{Kind: "k", Name: name, Value: []byte(value)} }
	all := func(from, to string, newest bool, most int) (list []string) {
		t.Helper()
		err := s.Scan("k", from, to, newest, func(name string, v []byte) bool {
			list = append(list, name+"="+string(v))
			return len(list) < most
		})
		if err != nil {
			t.Fatal(whole(err))
		}
		return list
	}
	write := func(puts []core.Record, deletes ...core.Record) {
		t.Helper()
		if err := s.Write(puts, deletes); err != nil {
			t.Fatal(whole(err))
		}
	}
	write(nil)
	write([]core.Record{record("a", "1"), record("b", "2"), record("c", ""), record("d", "4")})
	write([]core.Record{record("e", "5"), record("b", "3")}, record("d", ""), record("never", ""))
	if err := s.Put("kk", "x", nil); err != nil { // beside the kind, and no part of it
		t.Fatal(whole(err))
	}
	for range 2 {
		equal(t, "all", all("", "", false, 9), []string{"a=1", "b=3", "c=", "e=5"})
		equal(t, "the newest first", all("", "", true, 9), []string{"e=5", "c=", "b=3", "a=1"})
		equal(t, "between", all("b", "e", false, 9), []string{"b=3", "c="})
		equal(t, "between, the newest first", all("b", "e", true, 9), []string{"c=", "b=3"})
		equal(t, "some", all("", "d", true, 2), []string{"c=", "b=3"})
		equal(t, "none", all("f", "", true, 9), nil)
		mustClose(t, s)
		s = mustOpen(t, dir, options(t))
	}
	isKind(t, s.Write([]core.Record{record("f", "6"), record("", "")}, nil), core.Invalid)
	isKind(t, s.Write([]core.Record{record("f", "6"), record("g", strings.Repeat("x", 256<<10+1))}, nil), core.TooLarge)
	isKind(t, s.Write([]core.Record{record("f", strings.Repeat("x", 256<<10)), record("g", strings.Repeat("x", 256<<10))}, nil), core.TooLarge)
	isKind(t, s.Write([]core.Record{record("f", "6")}, make([]core.Record, 1)), core.Internal)
	many := make([]core.Record, 1001)
	for i := range many {
		many[i] = record("f"+strings.Repeat("x", i), "")
	}
	isKind(t, s.Write(many, nil), core.TooLarge)
	commits := 0
	s.WrapCommit(func(commit func() error) error { commits++; return errors.New("no space left on device") })
	isKind(t, s.Write([]core.Record{record("f", "6")}, []core.Record{record("a", "")}), core.Unavailable)
	equal(t, "commits", commits, 1)
	equal(t, "after what was refused", all("", "", false, 9), []string{"a=1", "b=3", "c=", "e=5"})
}

// TestVaultWriteIsOneTransaction: the most that is taken fits into one, with the
// smallest log files too.
func TestVaultWriteIsOneTransaction(t *testing.T) {
	o := options(t)
	o.LogFileBytes = 1 << 20
	s := mustOpen(t, t.TempDir(), o)
	if err := s.Put("k", "first", nil); err != nil {
		t.Fatal(whole(err))
	}
	before := s.Version()
	var puts, deletes []core.Record
	for i := range 500 {
		name := strings.Repeat("n", 20) + string(rune('a'+i%26)) + strings.Repeat("m", i/26)
		puts = append(puts, core.Record{Kind: "k", Name: name, Value: make([]byte, 400)})
		deletes = append(deletes, core.Record{Kind: "other", Name: name})
	}
	puts[0].Value = make([]byte, 235<<10)
	if err := s.Write(puts, deletes); err != nil {
		t.Fatal(whole(err))
	}
	equal(t, "transactions", s.Version()-before, uint64(1))
}

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

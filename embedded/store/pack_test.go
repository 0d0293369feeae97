package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

func TestPack(t *testing.T) {
	pack, unpack := store.Packer()
	var before []byte
	for _, r := range []*core.Receipt{{}, sample("01kn35dz0rpyt47kyykg2qhyhz", time.Unix(1e9, 0)), {ID: core.CallID(strings.Repeat("é\x00", 9000))}} {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		value := pack(append([]byte(nil), before...), text)
		if !bytes.HasPrefix(value, before) {
			t.Fatal("what was there before is changed")
		}
		got, err := unpack(value[len(before):])
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("unpacked %.80q, %v; want %.80q", got, err, text)
		}
		before = []byte("before")
	}
	text, err := json.Marshal(sample("01kn35dz0rpyt47kyykg2qhyhz", time.Unix(1e9, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(pack(nil, text)); n > len(text)/3 {
		t.Errorf("%d bytes are packed into %d", len(text), n)
	}
}

// What was kept with an older dictionary is read.
func TestUnpackOlder(t *testing.T) {
	_, unpack := store.Packer()
	text, err := json.Marshal(sample("01kn35dz0rpyt47kyykg2qhyhz", time.Unix(1e9, 0)))
	if err != nil {
		t.Fatal(err)
	}
	old := store.PackedBefore(1, text)
	for _, old := range [][]byte{old, store.PackedBefore(2, text)} {
		if got, err := unpack(old); err != nil || !bytes.Equal(got, text) {
			t.Errorf("unpacked %.80q, %v; want %.80q", got, err, text)
		}
	}
	for _, number := range []byte{0, 4, 255} {
		if _, err := unpack(append([]byte{number}, old[1:]...)); err == nil {
			t.Errorf("dictionary %d, which there is none of, was read", number)
		}
	}
	// Each as it was when receipts were first kept with it.
	for number, want := range map[byte]string{1: "f391a6c0", 2: "2edabd0b", 3: "98ca01de"} {
		if got := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(store.Dictionaries[number]))); got != want {
			t.Errorf("dictionary %d has changed: %s, want %s; receipts are kept with it, make another one", number, got, want)
		}
	}
}

// TestDictionary holds the dictionary to what a receipt's JSON is: a field that
// got another name would pack badly.
func TestDictionary(t *testing.T) {
	fields := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != "headway/core" {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fields[name] = true
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[core.Receipt]())
	delete(fields, "counted_on") // hardly a receipt has it
	delete(fields, "expected")
	for name := range fields {
		if !strings.Contains(store.Dictionaries[3], `"`+name+`":`) {
			t.Errorf("the dictionary does not know %q", name)
		}
	}
	if len(fields) < 60 {
		t.Errorf("only %d fields were found", len(fields))
	}
}

func FuzzUnpack(f *testing.F) {
	pack, unpack := store.Packer()
	f.Add(pack(nil, []byte(`{"id":"x"}`)))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		text, err := unpack(value)
		if err == nil && len(text) > 256<<10 {
			t.Errorf("%d bytes of %d", len(text), len(value))
		}
	})
}

func BenchmarkPack(b *testing.B) {
	pack, _ := store.Packer()
	text, err := json.Marshal(sample("01kn35dz0rpyt47kyykg2qhyhz", time.Unix(1e9, 0)))
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = pack(dst[:0], text)
	}
}

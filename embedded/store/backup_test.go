package store_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// copied takes a copy into memory.
func copied(t *testing.T, s *store.Store) (chunks [][]byte) {
	t.Helper()
	if err := s.Copy(context.Background(), func(chunk []byte) error {
		chunks = append(chunks, bytes.Clone(chunk))
		return nil
	}); err != nil {
		t.Fatal(whole(err))
	}
	return chunks
}

func load(t *testing.T, dir string, chunks [][]byte) (int64, error) {
	t.Helper()
	return store.Load(context.Background(), dir, options(t), func() (chunk []byte, err error) {
		if len(chunks) > 0 {
			chunk, chunks = chunks[0], chunks[1:]
		}
		return chunk, nil
	})
}

// A copy under load is the store as it was at one moment: two records that are always
// written together agree in it, and a receipt is there with what was derived of it.
func TestCopyUnderLoad(t *testing.T) {
	s := mustOpen(t, filepath.Join(fastDir(t, 256<<20), "store"), options(t))
	s.SetRecorder(&tape{})
	s.Group(time.Millisecond)
	run(t, s)
	var first []*core.Receipt
	for n := range 1000 {
		first = append(first, receiptAt(n))
	}
	put(t, s, first...)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var written atomic.Int64
	writers.Go(func() {
		for n := len(first); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			put(t, s, receiptAt(n))
			value := []byte(itoa(n))
			if err := s.Write([]core.Record{{Kind: "a", Name: "x", Value: value}, {Kind: "z", Name: "x", Value: value}}, nil); err != nil {
				t.Error(whole(err))
			}
			written.Add(1)
		}
	})
	for round := range 2 {
		was := written.Load()
		await(t, "a write", func() bool { return written.Load() > was })
		chunks := copied(t, s)
		dir := filepath.Join(t.TempDir(), "restored")
		records, err := load(t, dir, chunks)
		if err != nil || records == 0 {
			t.Fatal(records, err)
		}
		r := mustOpen(t, dir, options(t))
		a, err1 := r.Get("a", "x")
		z, err2 := r.Get("z", "x")
		if err1 != nil || err2 != nil || a == nil || !bytes.Equal(a, z) {
			t.Errorf("round %d: %q and %q, %v %v", round, a, z, err1, err2)
		}
		n := len(ids(t, r, time.Time{}, time.Time{}, false))
		if n < len(first) || counted(t, r) != n {
			t.Errorf("round %d: %d receipts, %d were counted", round, n, counted(t, r))
		}
		want, err := s.Receipt(first[7].ID)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Receipt(first[7].ID)
		if err != nil {
			t.Fatal(whole(err))
		}
		sameReceipt(t, got, want)
		mustClose(t, r)
	}
	close(stop)
	writers.Wait()
}

// What has expired is in no copy.
func TestCopyLeavesOutWhatHasExpired(t *testing.T) {
	o := options(t)
	o.Clock = clockAt(in(6, 0)).now
	s := mustOpen(t, t.TempDir(), o)
	run(t, s)
	put(t, s, of(4, 1), of(4, 2), of(5, 3))
	s.Keep(core.Retention{Receipts: core.Some(1)})
	dir := filepath.Join(t.TempDir(), "restored")
	if n, err := load(t, dir, copied(t, s)); n != 2 || err != nil { // a receipt and its place in its job
		t.Fatal(n, err)
	}
	r := mustOpen(t, dir, o)
	equal(t, "receipts", len(ids(t, r, time.Time{}, time.Time{}, false)), 1)
	if calls, err := r.JobCalls("job-1"); len(calls) > 0 || err != nil {
		t.Error(calls, err)
	}
}

// A store that is damaged has no whole copy, and says so.
func TestCopyOfADamagedStore(t *testing.T) {
	for name, damage := range map[string]func(s *store.Store, key string) error{
		"another value": func(s *store.Store, key string) error { return s.Raw(key, []byte("x")) },
		"no witness":    func(s *store.Store, key string) error { return s.Raw("w/"+key, nil) },
		"no record":     func(s *store.Store, key string) error { return s.Raw(key, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir(), options(t))
			run(t, s)
			if err := s.Put("key", "a", []byte("one")); err != nil {
				t.Fatal(err)
			}
			if err := damage(s, "v/key/a"); err != nil {
				t.Fatal(err)
			}
			isKind(t, s.Copy(context.Background(), func([]byte) error { return nil }), core.Unavailable)
		})
	}
}

func TestCopyEnds(t *testing.T) {
	s := mustOpen(t, t.TempDir(), options(t))
	run(t, s)
	for n := range 40 {
		if err := s.Put("blob", itoa(n), make([]byte, 200<<10)); err != nil {
			t.Fatal(whole(err))
		}
	}
	full := errors.New("full")
	n := 0
	if err := s.Copy(context.Background(), func([]byte) error { n++; return full }); !errors.Is(err, full) || n != 1 {
		t.Errorf("%v after %d chunks", err, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.Copy(ctx, func([]byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	chunks := copied(t, s)
	for _, c := range chunks {
		if len(c) > 2<<20 {
			t.Errorf("a chunk of %d bytes", len(c))
		}
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := store.Load(ctx, dir, options(t), func() ([]byte, error) { return chunks[0], nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Whatever is in a chunk, Load ends with a word.
	for i := range 200 {
		bad := bytes.Clone(chunks[0])
		bad[i*len(bad)/200] ^= 0x55
		_, _ = load(t, filepath.Join(t.TempDir(), "x"), [][]byte{bad[:len(bad)-i%7]})
		if i >= 20 {
			break
		}
	}
	for _, bad := range [][]byte{{}, {0xff}, bytes.Repeat([]byte{0xff}, 20), chunks[0][:len(chunks[0])/2]} {
		_, err := load(t, filepath.Join(t.TempDir(), "x"), [][]byte{bad})
		if e := isKind(t, err, core.Invalid); e.Msg == "" {
			t.Error(err)
		}
	}
	mustClose(t, s)
	isKind(t, s.Copy(context.Background(), func([]byte) error { return nil }), core.Unavailable)
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	if store.InUse(dir) {
		t.Error("an empty folder is in use")
	}
	s := mustOpen(t, dir, options(t))
	if !store.InUse(dir) {
		t.Error("an open one is not")
	}
	mustClose(t, s)
	if store.InUse(dir) {
		t.Error("a closed one is")
	}
}

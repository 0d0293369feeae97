package store_test

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"headway/core"
)

// used is what a folder takes on the disk, as du tells it: Badger's logs are
// longer than what is in them.
func used(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err == nil { // gone since: nothing
			bytes += st.Blocks * 512
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Case 059: after many overwrites and a clean-up the folder is smaller than four
// times the live data and one log file.
func TestSpaceOfOverwrittenValuesIsFreed(t *testing.T) {
	const keys, size, rounds, logFile = 100, 20_000, 200, 16 << 20
	dir := filepath.Join(fastDir(t, 512<<20), "store")
	o := options(t)
	o.LogFileBytes = logFile
	s := mustOpen(t, dir, o)
	run(t, s)
	last := make([][]byte, keys)
	var writers sync.WaitGroup
	for k := range keys {
		writers.Go(func() {
			rng := rand.NewChaCha8([32]byte{byte(k)})
			value := make([]byte, size)
			for range rounds {
				_, _ = rng.Read(value)
				if err := s.Put("blob", itoa(k), value); err != nil {
					t.Error(whole(err))
					return
				}
			}
			last[k] = value
		})
	}
	writers.Wait()
	was := used(t, dir)
	const most = 4*keys*size + logFile
	got := was
	await(t, "the space is freed", func() bool { // a log may be about to become a table, which then is another one to clean
		if err := s.Clean(context.Background()); err != nil {
			t.Fatal(whole(err))
		}
		got = used(t, dir)
		return got < most
	})
	t.Logf("%d bytes, %d before the clean-up, of at most %d", got, was, most)
	for k, want := range last {
		v, err := s.Get("blob", itoa(k))
		if err != nil {
			t.Fatal(whole(err))
		}
		if string(v) != string(want) {
			t.Errorf("record %d is not the last that was put", k)
		}
	}
	if err := s.Delete("blob", "0"); err != nil {
		t.Fatal(whole(err))
	}
	mustClose(t, s)
	isKind(t, s.Clean(context.Background()), core.Unavailable)
}

package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// madeUpDisk is a disk of which the store is told that it is full.
func madeUpDisk(size int64) (disk func(*store.Store), fill func(pause time.Duration), free func()) {
	var full atomic.Bool
	return func(s *store.Store) {
		s.FakeDisk(func() (int64, int64) {
			if full.Load() {
				return 0, size
			}
			return size / 2, size
		})
	}, func(time.Duration) { full.Store(true) }, func() { full.Store(false) }
}

// Case 060: while the disk is full the store takes nothing new, says so in words
// of its own and keeps what it was handed; when space is back it goes on.
func TestFullDisk(t *testing.T) {
	dir, disk, fill, free := smallDisk(t, 128<<20)
	o := options(t)
	o.LogFileBytes = 0
	dir = filepath.Join(dir, "store")
	s := mustOpen(t, dir, o)
	disk(s)
	var commits atomic.Int64
	s.WrapCommit(func(commit func() error) error { commits.Add(1); return commit() })
	badgers := func() bool { _, err := os.Stat(filepath.Join(dir, "db", "MANIFEST")); return err == nil }
	run(t, s)
	before, during, after := receiptAt(0), receiptAt(1), receiptAt(2)
	put(t, s, before)
	if err := s.Open(intent(during)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fill(0)
		await(t, "the full disk to be seen", func() bool { return s.Healthy() != nil })
		for what, err := range map[string]error{
			"health": s.Healthy(), "call": s.Open(intent(receiptAt(3))), "record": s.Put("key", "a", []byte("x")),
			"removal": s.Delete("key", "a"),
		} {
			e := isKind(t, err, core.Unavailable)
			if e.RetryAfter <= 0 || e.Hint == "" || !strings.HasPrefix(e.Msg, "receipts cannot be kept: the disk of the data folder is full (") {
				t.Errorf("%s: %s", what, whole(err))
			}
		}
		if badgers() {
			t.Error("Badger can make files")
		}
		var done sync.WaitGroup
		if during != nil {
			was := commits.Load()
			done.Add(1)
			s.Append(during, done.Done)
			pauseFor(300 * time.Millisecond)
			equal(t, "commits on a full disk", commits.Load(), was)
			_, err := s.Receipt(during.ID)
			isKind(t, err, core.NotFound)
		}
		if _, err := s.Receipt(before.ID); err != nil {
			t.Errorf("a receipt of before cannot be read: %s", whole(err))
		}
		free()
		done.Wait()
		await(t, "health", func() bool { return s.Healthy() == nil })
		if _, err := os.Stat(filepath.Join(dir, "ballast")); err != nil {
			t.Errorf("the ballast is not back: %v", err)
		}
		if !badgers() {
			t.Error("Badger's folder is not back")
		}
		during = nil
	}
	put(t, s, after)
	equal(t, "receipts", len(ids(t, s, time.Time{}, time.Time{}, false)), 3)
}

// The disk fills while some thousand receipts a second are written, so that
// flushes and compactions are under way: the process must live, and no receipt
// that was taken may be lost. (A write through a map on a full disk would kill it.)
func TestFullDiskUnderLoad(t *testing.T) {
	dir, disk, fill, free := smallDisk(t, 256<<20)
	s := mustOpen(t, filepath.Join(dir, "store"), options(t))
	disk(s)
	run(t, s)
	stop := make(chan struct{})
	var writers, durable sync.WaitGroup
	var taken, refused, written atomic.Int64
	for w := range 8 {
		writers.Go(func() {
			for n := w; ; n += 8 {
				select {
				case <-stop:
					return
				default:
				}
				r := receiptAt(n)
				if err := s.Open(intent(r)); err != nil {
					refused.Add(1)
					if strings.Contains(err.Error(), "no space left") {
						t.Errorf("raw text: %v", err)
					}
					pauseFor(5 * time.Millisecond)
					continue
				}
				taken.Add(1)
				durable.Add(1)
				s.Append(r, func() { written.Add(1); durable.Done() })
				pauseFor(time.Millisecond)
			}
		})
	}
	for range 2 {
		was := written.Load()
		await(t, "receipts to be written", func() bool { return written.Load() > was+2500 })
		fill(4 * time.Millisecond) // 250 MB/s, and no more than a disk can: see the package's words on the last moment
		await(t, "the full disk to be seen", func() bool { return s.Healthy() != nil })
		pauseFor(300 * time.Millisecond) // what was under way goes on
		free()
		await(t, "health", func() bool { return s.Healthy() == nil })
	}
	close(stop)
	writers.Wait()
	durable.Wait()
	equal(t, "receipts", int64(len(ids(t, s, time.Time{}, time.Time{}, false))), taken.Load())
	t.Logf("%d taken, %d refused", taken.Load(), refused.Load())
}

func pauseFor(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// The space that the ballast sets free is not taken for the end of the shortage.
func TestBallastIsNotSpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, options(t))
	var left atomic.Int64
	left.Store(1 << 40)
	var looks atomic.Int64
	s.FakeDisk(func() (int64, int64) {
		looks.Add(1)
		if st, err := os.Stat(filepath.Join(dir, "ballast")); err == nil {
			return left.Load() - st.Size(), 1 << 40
		}
		return left.Load(), 1 << 40
	})
	run(t, s)
	left.Store(70 << 20) // the floor is 64 MiB, the ballast 8
	await(t, "the full disk to be seen", func() bool { return s.Healthy() != nil })
	was := looks.Load()
	await(t, "some more looks", func() bool { return looks.Load() > was+5 })
	if s.Healthy() == nil {
		t.Error("healthy with the ballast's own space")
	}
	left.Store(90 << 20)
	await(t, "health", func() bool { return s.Healthy() == nil })
}

// A store cannot be opened where there is no room for it, and says so.
func TestOpenOnAFullDisk(t *testing.T) {
	dir, _, fill, free := smallDisk(t, 64<<20)
	fill(0)
	if _, err := os.Stat(filepath.Join(dir, "hog")); err != nil {
		return // a made-up disk: Open asks the real one
	}
	dir = filepath.Join(dir, "store")
	_, err := store.Open(dir, options(t))
	e := isKind(t, err, core.Unavailable)
	if !strings.Contains(e.Msg, "disk of the data folder is full") && !strings.HasPrefix(e.Msg, dir) {
		t.Errorf("message %q", e.Msg)
	}
	free()
	mustOpen(t, dir, options(t))
}

// A stop on a full disk writes what is waiting where the ballast leaves room, and
// else leaves the folder as it is: nothing that was acknowledged is lost.
func TestCloseOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		left    int64 // free bytes once the ballast is gone
		outcome core.Outcome
	}{
		{"with the ballast's room", 32 << 20, core.Settled},
		{"without any", 0, core.Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			o := options(t)
			s := mustOpen(t, dir, o)
			var full atomic.Bool
			s.FakeDisk(func() (int64, int64) {
				if !full.Load() {
					return 1 << 40, 1 << 40
				}
				if _, err := os.Stat(filepath.Join(dir, "ballast")); err == nil {
					return 0, 1 << 40
				}
				return c.left, 1 << 40
			})
			run(t, s)
			before, waiting := receiptAt(0), receiptAt(1)
			put(t, s, before)
			if err := s.Open(intent(waiting)); err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			await(t, "the full disk to be seen", func() bool { return s.Healthy() != nil })
			s.Append(waiting, nil)
			err := s.Close()
			if got, want := err == nil, c.outcome == core.Settled; got != want {
				t.Errorf("close: %v", err)
			}
			s = mustOpen(t, copyOf(t, dir), options(t)) // the lock may be held still
			for id, want := range map[core.CallID]core.Outcome{before.ID: core.Settled, waiting.ID: c.outcome} {
				got, err := s.Receipt(id)
				if err != nil {
					t.Fatal(whole(err))
				}
				equal(t, "outcome", got.Outcome, want)
			}
		})
	}
}

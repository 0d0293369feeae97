package store_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Badger ends the process where it cannot make its next log, so its folder is not taken
// away from under a commit.
func TestDiskFillsDuringCommits(t *testing.T) {
	s := mustOpen(t, filepath.Join(fastDir(t, 512<<20), "store"), crashOptions(options(t)))
	run(t, s)
	var full atomic.Bool
	s.FakeDisk(func() (free, total int64) {
		if full.Load() {
			return 0, 1 << 40
		}
		return 1 << 39, 1 << 40
	})
	var writers sync.WaitGroup
	var written, refused atomic.Int64
	end := time.Now().Add(3 * time.Second)
	for w := range 4 {
		writers.Go(func() {
			value := noise(200_000)
			for n := 0; time.Now().Before(end); n++ {
				if w == 0 {
					full.Store(n%3 == 0)
				}
				if s.Put("blob", itoa(w), value) == nil {
					written.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	writers.Wait()
	full.Store(false)
	await(t, "it writes again", func() bool { return s.Put("blob", "last", nil) == nil })
	if written.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d were written and %d refused", written.Load(), refused.Load())
	}
}

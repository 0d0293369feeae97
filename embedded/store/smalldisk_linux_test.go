package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"headway/embedded/store"
)

// fastDir is a folder in memory where one can be mounted, for tests that write
// much, else a usual one.
func fastDir(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	_ = mount(t, dir, size)
	return dir
}

func mount(t *testing.T, dir string, size int) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+itoa(size))
	if err == nil {
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	}
	return err
}

// smallDisk mounts a disk of that size, which needs root. Without it a run that
// must be complete (CI) fails, and another tells the store a made-up size, under
// which everything but the kernel's own answer is tested. fill takes all of the
// disk's space, with a pause after each MiB; free gives it back.
func smallDisk(t *testing.T, size int64) (dir string, disk func(*store.Store), fill func(pause time.Duration), free func()) {
	t.Helper()
	dir = t.TempDir()
	err := mount(t, dir, int(size))
	if err == nil {
		hog := filepath.Join(dir, "hog")
		fill = func(pause time.Duration) {
			f, err := os.Create(hog)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			// Down to the last page.
			for block := make([]byte, 1<<20); len(block) >= 4096; {
				if _, err := f.Write(block); err != nil {
					if !errors.Is(err, syscall.ENOSPC) {
						t.Fatal(err)
					}
					block = block[:len(block)/2]
				}
				pauseFor(pause)
			}
		}
		free = func() {
			if err := os.Remove(hog); err != nil {
				t.Fatal(err)
			}
		}
		return dir, func(*store.Store) {}, fill, free
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("a small disk cannot be mounted: %v", err)
	}
	t.Logf("a small disk cannot be mounted (%v): a made-up one is used", err)
	disk, fill, free = madeUpDisk(size)
	return dir, disk, fill, free
}

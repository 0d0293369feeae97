//go:build !linux

package store_test

import (
	"testing"
	"time"

	"headway/embedded/store"
)

func fastDir(t *testing.T, _ int) string { return t.TempDir() }

// smallDisk is a made-up one: mounting a real one is not known here.
func smallDisk(t *testing.T, size int64) (dir string, disk func(*store.Store), fill func(pause time.Duration), free func()) {
	t.Helper()
	disk, fill, free = madeUpDisk(size)
	return t.TempDir(), disk, fill, free
}

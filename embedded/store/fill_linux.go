package store

import (
	"errors"
	"os"
	"syscall"
)

// fill gives an empty file n bytes of real disk space.
func fill(f *os.File, n int64) error {
	err := fallocate(f, 0, n)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return write(f, n)
	}
	return err
}

// reserve gives the first n bytes of a sparse file their disk space, where the
// disk can, and leaves the file's length and content.
func reserve(f *os.File, n int64) {
	const keepSize = 1
	_ = fallocate(f, keepSize, n)
}

func fallocate(f *os.File, mode uint32, n int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), mode, 0, n)
		if !errors.Is(err, syscall.EINTR) { // by a signal of the runtime's own
			return err
		}
	}
}

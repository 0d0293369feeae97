//go:build linux || darwin || freebsd

package store

import (
	"errors"
	"os"
	"syscall"
)

// diskSpace is what the disk of dir has.
func diskSpace(dir string) (space, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return space{}, err
	}
	return space{free: int64(st.Bavail) * int64(st.Bsize), total: int64(st.Blocks) * int64(st.Bsize)}, nil
}

// tryLock takes the file's lock; false: another holds it. It goes with the file's
// last descriptor, so a killed process leaves none.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

package store

import (
	"os"
	"syscall"
)

// mapped is the memory of a new file, whose disk space is taken first: without
// it a full disk would kill the process at a write. nil: the file, of no length,
// is to be appended to.
func mapped(f *os.File, n int64) []byte {
	if fallocate(f, 0, n) != nil {
		_ = f.Truncate(0)
		return nil
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		_ = f.Truncate(0)
		return nil
	}
	return memory
}

func unmap(memory []byte) {
	if memory != nil {
		_ = syscall.Munmap(memory)
	}
}

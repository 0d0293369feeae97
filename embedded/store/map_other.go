//go:build !linux

package store

import "os"

// mapped is nil: the file is appended to.
func mapped(*os.File, int64) []byte { return nil }

func unmap([]byte) {}

//go:build unix

package scripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headway/scripts"
)

// A pipe that nobody writes to would keep who opens it for ever.
func TestReadsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.js")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{path, os.DevNull, filepath.Dir(path)} {
		if _, err := scripts.Read(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

package control

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A folder that may not be entered is not one that nobody serves: the hint would have
// its user start a second server.
func TestAFolderThatMayNotBeUsed(t *testing.T) {
	err := noServer("data", &os.PathError{Op: "lstat", Path: "data/x", Err: fs.ErrPermission})
	if errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Hint, "start one") {
		t.Errorf("%v (%s)", err, err.Hint)
	}
	if err := noServer("data", fs.ErrNotExist); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "no headway serves") {
		t.Error(err)
	}
}

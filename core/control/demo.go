package control

import (
	"os"
	"path/filepath"
	"strings"
)

// MarkDemo leaves word of a running demo's data folder, so that commands find it
// without being told; unmark takes it back.
func MarkDemo(dataDir string) (unmark func() error, err error) {
	mark, err := demoMark()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(mark, []byte(dir+"\n"), 0o600); err != nil {
		return nil, err
	}
	return func() error {
		if now, ok := Demo(); ok && now != dir {
			return nil // another demo has started since
		}
		return os.Remove(mark)
	}, nil
}

// Demo is the data folder of the demo that was started last.
func Demo() (dataDir string, ok bool) {
	mark, err := demoMark()
	if err != nil {
		return "", false
	}
	text, err := os.ReadFile(mark)
	dir := strings.TrimSpace(string(text))
	return dir, err == nil && filepath.IsAbs(dir)
}

// demoMark is in a folder of this user's, which nobody else can write.
func demoMark() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "headway", "demo"), err
}

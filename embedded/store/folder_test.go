package store_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"headway/core"
	"headway/embedded/store"
)

func TestOpenMakesAPrivateFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "store")
	s := mustOpen(t, dir, options(t))
	st, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode", st.Mode().Perm(), os.FileMode(0o700))
	mustClose(t, s)
	mustClose(t, s) // twice is once

	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, options(t))
	st, _ = os.Stat(dir)
	equal(t, "mode of a folder that was open to others", st.Mode().Perm(), os.FileMode(0o700))
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file, text, says string
	}{
		{"a folder of somebody else's", "thesis.tex", "x", "is not a store of headway: it holds thesis.tex"},
		{"an older version", "version", "headway store 1\n", "is of store version 1, and this headway writes 2"},
		{"a newer version", "version", "headway store 3\n", "is of store version 3, and this headway knows 2"},
		{"a damaged version record", "version", "headway stor", "cannot be opened: the store is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(dir, options(t))
			e := isKind(t, err, core.Unavailable)
			equal(t, "message", e.Msg, dir+" "+c.says)
			if e.Hint == "" {
				t.Error("no hint")
			}
			names, _ := os.ReadDir(dir)
			equal(t, "files in the folder", len(names), 1)
		})
	}
}

func TestOpenRefusesLogFileBytes(t *testing.T) {
	for _, n := range []int64{-1, 4096, 1 << 40} {
		o := options(t)
		o.LogFileBytes = n
		_, err := store.Open(t.TempDir(), o)
		equal(t, "field", isKind(t, err, core.Invalid).Param, "store.log_file_bytes")
	}
	o := options(t)
	o.LogFileBytes = 0
	mustOpen(t, t.TempDir(), o)
}

// A second store on the folder is refused, in this process and in another one;
// a process that is killed leaves no lock behind.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "HEADWAY_STORE_CHILD=hold", "HEADWAY_STORE_DIR="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = t.Output()
	in, err := child.StdinPipe() // it holds the store as long as this is open
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	_, err = store.Open(dir, options(t))
	e := isKind(t, err, core.Unavailable)
	equal(t, "message", e.Msg, dir+" is in use by another process of headway")
	if pid := child.Process.Pid; !strings.Contains(e.Hint, "process "+itoa(pid)+",") {
		t.Errorf("hint %q does not name process %d", e.Hint, pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	mustOpen(t, dir, options(t))
	_, err = store.Open(dir, options(t))
	isKind(t, err, core.Unavailable)
}

// hold opens the store, says so, and keeps it until it is killed.
func hold(dir string) error {
	s, err := store.Open(dir, store.Options{Clock: clock, Log: silent})
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

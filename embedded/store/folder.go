package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headway/core"
)

const (
	layout      = 2 // of the folder and the keys; another is refused
	layoutWords = "headway store "
)

// claim makes dir a store's folder where it is empty, and takes its lock. The
// file that it returns holds the lock until it is closed or the process ends.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, asError(err, "%s cannot be made", dir)
	}
	if err := checkLayout(dir); err != nil {
		return nil, err // before anything of ours is put into it
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, asError(err, "%s cannot be used", dir)
	}
	if err := claimLocked(dir, lock); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func claimLocked(dir string, lock *os.File) error {
	held, err := tryLock(lock)
	if err != nil {
		return asError(err, "%s cannot be locked", dir)
	}
	if !held {
		pid, _ := io.ReadAll(io.LimitReader(lock, 20))
		return &core.Error{
			Kind: core.Unavailable, Msg: dir + " is in use by another process of headway",
			Hint: "stop process " + strings.TrimSpace(string(pid)) + ", or use another folder",
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return asError(err, "%s cannot be made private", dir)
	}
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if err := errors.Join(lock.Truncate(0), writeAt0(lock, pid)); err != nil {
		return asError(err, "%s cannot be written", dir)
	}
	if err := checkLayout(dir); err != nil {
		return err
	}
	return asError(writeLayout(dir), "%s cannot be written", dir)
}

func writeAt0(f *os.File, b []byte) error {
	_, err := f.WriteAt(b, 0)
	return err
}

// versionName is of the file that says what a folder is.
const versionName = "version"

// Is tells whether a folder is that of a store.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, versionName))
	return err == nil
}

// checkLayout refuses a folder of somebody else's and one of another version.
func checkLayout(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, versionName))
	if errors.Is(err, os.ErrNotExist) {
		names, err := os.ReadDir(dir)
		if err != nil {
			return asError(err, "%s cannot be read", dir)
		}
		for _, n := range names {
			if n.Name() != "lock" && n.Name() != versionName+".new" && n.Name() != "lost+found" {
				return &core.Error{
					Kind: core.Unavailable, Msg: fmt.Sprintf("%s is not a store of headway: it holds %s", dir, n.Name()),
					Hint: "use a folder that is empty or does not exist",
				}
			}
		}
		return nil
	}
	if err != nil {
		return asError(err, "%s cannot be read", dir)
	}
	number, ours := strings.CutPrefix(strings.TrimSpace(string(text)), layoutWords)
	v, err := strconv.Atoi(number)
	switch {
	case !ours || err != nil || v < 1:
		return damagedFolder(dir, errors.New("unreadable version record"))
	case v > layout:
		return &core.Error{
			Kind: core.Unavailable, Msg: fmt.Sprintf("%s is of store version %d, and this headway knows %d", dir, v, layout),
			Hint: "use the headway that wrote it, or a newer one",
		}
	case v < layout:
		return &core.Error{
			Kind: core.Unavailable, Msg: fmt.Sprintf("%s is of store version %d, and this headway writes %d", dir, v, layout),
			Hint: "make a backup with the headway that wrote it, and restore that with this one (headway restore FILE --data NEW --log " + filepath.Join(dir, "log") + ")",
		}
	}
	return nil
}

// writeLayout writes the version record where there is none, whole or not at all.
func writeLayout(dir string) error {
	name := filepath.Join(dir, versionName)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s%d\n", layoutWords, layout)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

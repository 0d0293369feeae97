// Package fscktest holds the log of receipts against somebody else's verifier, which
// is a module of its own for what it needs.
package fscktest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
)

// timeout is how long the other verifier gets; longOnDamage is enough to see that it
// does not accept a damaged file, which it may try again and again.
const (
	timeout      = 30 * time.Second
	longOnDamage = 3 * time.Second
)

// written has Headway's own tests write logs, and gives their folders.
func written(t *testing.T) (dirs []string) {
	t.Helper()
	root := t.TempDir()
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestTreesForOthers$", "./core/seal", "-trees", root)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil || len(dirs) < 5 {
		t.Fatal(dirs, err)
	}
	return dirs
}

// check runs Tessera's fsck over a folder, as its command does.
func check(t *testing.T, dir string, timeout time.Duration) error {
	t.Helper()
	vkey, err := os.ReadFile(filepath.Join(dir, "log.vkey"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := fnote.NewVerifier(string(vkey))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- fsck.New(v.Name(), v, &client.FileFetcher{Root: dir}, leafHashes, fsck.Opts{N: 1}).Check(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func leafHashes(bundle []byte) (list [][]byte, err error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	for _, e := range b.Entries {
		list = append(list, rfc6962.DefaultHasher.HashLeaf(e))
	}
	return list, nil
}

func TestFsck(t *testing.T) {
	var largest string
	for _, dir := range written(t) {
		if err := check(t, dir, timeout); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "tile", "entries", "003")); err == nil {
			largest = dir
		}
	}
	if largest == "" {
		t.Fatal("no log has four tiles")
	}
	// It does not accept what Headway's own tests refuse (TestTree).
	for _, file := range []string{"tile/entries/001", "tile/0/002", "checkpoint"} {
		path := filepath.Join(largest, filepath.FromSlash(file))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[40] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(t, largest, longOnDamage); err == nil {
			t.Errorf("fsck accepts a damaged %s", file)
		}
		text[40] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

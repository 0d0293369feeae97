// Package fscktest holds the log of receipts against somebody else's verifier, which
// is a module of its own for what it needs.
package fscktest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

// timeout is how long the other verifier gets; longOnDamage is enough to see that it
// does not accept a damaged file, which it may try again and again.
const (
	timeout      = 30 * time.Second
	longOnDamage = 3 * time.Second
)

// written makes logs with that many receipts, and gives the folders that they are
// exported to.
func written(t *testing.T, receipts int, rotate bool) (dirs []string, keys []seal.Key) {
	t.Helper()
	now := time.Date(2026, 11, 30, 23, 59, 59, 500e6, time.UTC) // the last half goes into the next month
	vault, pepper := core.NewMemory(), ledger.NewPepper()
	s, err := seal.Open(seal.Parts{Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Vault: vault, Secrets: pepper.Sealer(),
		Dir: t.TempDir(), Edge: "headway.example/k3f9"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range receipts {
		s.Record(&core.Receipt{ID: core.NewCallID(now), Kind: core.KindJob, Outcome: core.Settled, At: now, Key: "key", Model: "model", Offer: "offer",
			Charge: core.Some(core.Money(i))})
		now = now.Add(time.Millisecond)
		if rotate && i == receipts/3 {
			s.Rotate()
		}
		if i%64 == 0 || i == receipts-1 {
			if err := errors.Join(vault.Write(s.Changed(), nil), s.Durable()); err != nil {
				t.Fatal(err)
			}
		}
	}
	months, err := s.Months()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range months {
		c, err := s.Checkpoint(m)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), string(m))
		if err := seal.WriteTree(dir, s.Source(), c, nil); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs, s.Keys()
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

func TestFsckAccepts(t *testing.T) {
	for _, receipts := range []int{1, 600, 1600} {
		dirs, keys := written(t, receipts, receipts == 1600)
		for _, dir := range dirs {
			if err := check(t, dir, timeout); err != nil {
				t.Errorf("%d receipts, %s: %v", receipts, filepath.Base(dir), err)
			}
			if report, err := seal.VerifyTree(dir, seal.Check{Keys: keys}); err != nil || !report.OK {
				t.Errorf("%d receipts, %s: %v %v", receipts, filepath.Base(dir), report.Problem, err)
			}
		}
	}
}

// TestDamaged damages one file of each kind: ours names it, the other does not
// accept it either.
func TestDamaged(t *testing.T) {
	dirs, keys := written(t, 1600, false)
	dir := dirs[1]
	if err := check(t, dir, timeout); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tile/entries/001", "tile/0/002", "checkpoint"} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[40] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := seal.VerifyTree(dir, seal.Check{Keys: keys})
		if err != nil || report.OK || report.Problem.File != file {
			t.Errorf("%s: %v %v", file, report.Problem, err)
		}
		if err := check(t, dir, longOnDamage); err == nil {
			t.Errorf("fsck accepts a damaged %s", file)
		}
		text[40] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

package seal_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
	"headway/embedded/store"
)

// killedIn, where it is set, makes the test binary the process that is killed.
const killedIn = "HEADWAY_SEAL_KILLED_IN"

// TestKilled kills a process that seals, again and again in one folder, and holds
// the log against the last checkpoint that each of them showed to anybody.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(killedIn); dir != "" {
		sealUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	pepper := ledger.NewPepper()
	if err := os.WriteFile(filepath.Join(dir, "pepper"), pepper[:], 0o600); err != nil {
		t.Fatal(err)
	}
	var last []byte
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killedIn+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		shown := 0
		lines := bufio.NewScanner(out)
		for lines.Scan() { // each is a checkpoint
			note, err := base64.StdEncoding.DecodeString(lines.Text())
			if err != nil {
				t.Errorf("%s", lines.Text())
				break
			}
			last = note
			if shown++; shown == 5+3*round {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it showed until then counts too
			if note, err := base64.StdEncoding.DecodeString(lines.Text()); err == nil && len(note) > 0 {
				last = note
			}
		}
		_ = cmd.Wait() // killed
		st, s := openIn(t, dir)
		if err := s.Durable(); err != nil {
			t.Fatal(err)
		}
		if b := s.Status().Broken; len(b) > 0 {
			t.Fatal(b[0].Problem)
		}
		months, err := s.Months()
		if err != nil {
			t.Fatal(err)
		}
		var parts []seal.Part
		for _, m := range months {
			c, err := s.Checkpoint(m)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, seal.Part{Checkpoint: c})
		}
		var export bytes.Buffer
		if err := seal.Export(&export, s.Source(), parts, seal.ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		report, err := seal.Verify(&export, seal.Check{Keys: s.Keys(), Saved: last})
		if err != nil || !report.OK {
			t.Fatalf("after %d checkpoints: %v %v", shown, report.Problem, err)
		}
		t.Logf("killed after %d checkpoints: %d receipts in the log", shown, report.Total.Receipts)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func openIn(t *testing.T, dir string) (*store.Store, *seal.Sealer) {
	t.Helper()
	clock := func() time.Time { return time.Now().UTC() }
	st, err := store.Open(filepath.Join(dir, "store"), store.Options{Clock: clock, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pepper"))
	if err != nil {
		t.Fatal(err)
	}
	pepper := ledger.Pepper(text)
	s, err := seal.Open(seal.Parts{Clock: clock, Log: slog.New(slog.DiscardHandler), Vault: st, Secrets: pepper.Sealer(),
		Dir: filepath.Join(dir, "receipts"), Edge: "headway.example/k3f9"})
	if err != nil {
		t.Fatal(err)
	}
	st.SetRecorder(s)
	return st, s
}

func sealUntilKilled(t *testing.T, dir string) {
	st, s := openIn(t, dir)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = st.Run(ctx) })
	for ctx.Err() == nil {
		var group sync.WaitGroup
		for range 70 {
			at := time.Now().UTC()
			r := &core.Receipt{ID: core.NewCallID(at), Kind: core.KindJob, Outcome: core.Settled, At: at, SettledAt: at, Key: "key-1", Model: "m", Offer: "o"}
			if st.Open(core.Intent{ID: r.ID, Kind: r.Kind, At: at, Model: r.Model}) != nil {
				return
			}
			group.Add(1)
			st.Append(r, func() {
				if s.Durable() == nil {
					group.Done()
				}
			})
		}
		group.Wait()
		months, err := s.Months()
		if err != nil {
			return
		}
		c, err := s.Checkpoint(months[len(months)-1])
		if err != nil {
			return
		}
		fmt.Println(base64.StdEncoding.EncodeToString(c.Note))
	}
	running.Wait()
}

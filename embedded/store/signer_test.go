package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
	"headway/embedded/store"
)

var sealKills = flag.Int("sealkills", 12, "how often TestKilledWhileSealing kills the process")

// openSealed opens a store in dir/store and a sealer over it.
func openSealed(dir string, o store.Options) (*store.Store, *seal.Sealer, error) {
	s, err := store.Open(filepath.Join(dir, "store"), o)
	if err != nil {
		return nil, nil, err
	}
	pepper := ledger.Pepper{7}
	sealer, err := seal.Open(seal.Parts{Clock: o.Clock, Log: o.Log, Vault: s, Secrets: pepper.Sealer(), Dir: filepath.Join(dir, "log"), Edge: "headway.example/k3f9q9r5"})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, sealer, nil
}

func mustOpenSealed(t *testing.T, dir string, o store.Options) (*store.Store, *seal.Sealer) {
	t.Helper()
	s, sealer, err := openSealed(dir, crashOptions(o))
	if err != nil {
		t.Fatal(whole(err))
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, sealer
}

// leaves counts the leaves of each receipt, over all logs.
func leaves(t *testing.T, s *seal.Sealer) map[core.CallID]int {
	t.Helper()
	months, err := s.Months()
	if err != nil {
		t.Fatal(whole(err))
	}
	found := map[core.CallID]int{}
	for _, m := range months {
		c, err := s.Checkpoint(m)
		if err != nil {
			t.Fatal(whole(err))
		}
		err = s.Source().Leaves(m, 0, c.Size, func(_ uint64, text []byte) bool {
			l, err := seal.ParseLeaf(text)
			if err != nil {
				t.Error(whole(err))
			} else if l.Type == "receipt" {
				found[l.ID]++
			}
			return true
		})
		if err != nil {
			t.Fatal(whole(err))
		}
	}
	return found
}

// verify exports all logs and holds them against a checkpoint from earlier.
func verify(t *testing.T, s *seal.Sealer, saved []byte) *seal.Report {
	t.Helper()
	months, err := s.Months()
	if err != nil {
		t.Fatal(whole(err))
	}
	var parts []seal.Part
	for _, m := range months {
		c, err := s.Checkpoint(m)
		if err != nil {
			t.Fatal(whole(err))
		}
		parts = append(parts, seal.Part{Checkpoint: c})
	}
	var out bytes.Buffer
	if err := seal.Export(&out, s.Source(), parts, seal.ExportOptions{}); err != nil {
		t.Fatal(whole(err))
	}
	report, err := seal.Verify(&out, seal.Check{Keys: s.Keys(), Saved: saved})
	if err != nil || !report.OK {
		t.Fatalf("%v %v", report, err)
	}
	return report
}

// signed tells whether all that is stored is signed.
func signed(s *seal.Sealer) bool {
	st := s.Status()
	return st.Error == "" && st.Log.Size > 0 && st.Signed != nil && *st.Signed == st.Log
}

// A process that is killed at any moment leaves a log in which each receipt has one
// leaf, that goes on where it was, and that was never signed in two ways.
func TestKilledWhileSealing(t *testing.T) {
	dir := fastDir(t, 1<<30)
	acknowledged := map[core.CallID]bool{}
	roots := map[string]string{} // of each origin and size that was shown
	var last []byte
	for kill := range *sealKills {
		killChild(t, "seal", dir, kill%4 == 2, time.Duration(rand.Int64N(int64(300*time.Millisecond))), func(line string) {
			what, rest, ok := strings.Cut(line, " ")
			switch {
			case ok && what == "durable" && len(rest) == 26:
				acknowledged[core.CallID(rest)] = true
			case ok && what == "head":
				note, err := base64.StdEncoding.DecodeString(rest)
				if err != nil || !bytes.HasSuffix(note, []byte("\n")) {
					return // the kill cut it off
				}
				last = note
				text, _, _ := strings.Cut(string(note), "\n\n")
				at := text[:strings.LastIndex(text, "\n")]
				if was, ok := roots[at]; ok && was != text {
					t.Errorf("signed twice: %q and %q", was, text)
				}
				roots[at] = text
			}
		})
		if kill%3 != 2 && kill != *sealKills-1 {
			continue // the next child finds the folder as this one left it
		}
		s, sealer := mustOpenSealed(t, dir, options(t))
		s.SetRecorder(sealer)
		run(t, s)
		await(t, "all to be signed", func() bool { return signed(sealer) })
		if b := sealer.Status().Broken; len(b) > 0 {
			t.Fatal(b[0].Problem)
		}
		found := leaves(t, sealer)
		receipts := 0
		err := s.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
			receipts++
			if n := found[r.ID]; n != 1 {
				t.Errorf("kill %d: receipt %s (%s) has %d leaves", kill, r.ID, r.Outcome, n)
			}
			return !t.Failed()
		})
		if err != nil {
			t.Fatal(whole(err))
		}
		for id := range acknowledged {
			if found[id] != 1 {
				t.Errorf("kill %d: %s was acknowledged and has %d leaves", kill, id, found[id])
			}
		}
		if receipts != len(found) {
			t.Errorf("kill %d: %d receipts, %d with leaves", kill, receipts, len(found))
		}
		report := verify(t, sealer, last)
		mustClose(t, s)
		if t.Failed() {
			return
		}
		t.Logf("after %d kills: %d receipts, %d checkpoints shown, %d logs", kill+1, report.Total.Receipts, len(roots), len(report.Logs))
	}
	if len(roots) == 0 {
		t.Error("no checkpoint was shown: the test shows little")
	}
}

// sealing writes receipts from many goroutines, and shows each checkpoint, until it
// is killed.
func sealing(dir string) error {
	s, sealer, err := openSealed(dir, crashOptions(store.Options{Clock: time.Now, Log: silent}))
	if err != nil {
		return err
	}
	s.SetRecorder(sealer)
	s.Group(time.Millisecond)
	var all sync.WaitGroup
	all.Go(func() { _ = s.Run(context.Background()) })
	for range 24 {
		all.Go(func() {
			for {
				r := sample(core.NewCallID(time.Now()), time.Now())
				if err := s.Open(intent(r)); err != nil {
					fmt.Fprintln(os.Stderr, whole(err))
					os.Exit(1)
				}
				if rand.IntN(50) == 0 {
					continue // lost
				}
				var durable sync.WaitGroup
				durable.Add(1)
				s.Append(r, durable.Done)
				durable.Wait()
				say("durable", r.ID)
				months, err := sealer.Months()
				if err != nil || len(months) == 0 {
					continue
				}
				if c, err := sealer.Checkpoint(months[len(months)-1]); err == nil {
					_, _ = os.Stdout.WriteString("head " + base64.StdEncoding.EncodeToString(c.Note) + "\n")
				}
			}
		})
	}
	all.Wait()
	return nil
}

// Nothing waits for a signature: where the checkpoint cannot be written receipts
// are durable, it is said once, and all is signed once it can be.
func TestReceiptsDoNotWaitForSignatures(t *testing.T) {
	dir := t.TempDir()
	said := &counting{Handler: slog.NewTextHandler(t.Output(), nil)}
	o := options(t)
	o.Log = slog.New(said)
	s, sealer := mustOpenSealed(t, dir, o)
	s.SetRecorder(core.Recorders{&tape{}, sealer})
	run(t, s)
	putAll(t, s, []int{0})
	await(t, "the first to be signed", func() bool { return signed(sealer) })
	log := filepath.Join(dir, "log")
	if err := os.Rename(log, log+".away"); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 6; i++ {
		putAll(t, s, []int{i})
	}
	await(t, "the failure to be told", func() bool { return sealer.Status().Error != "" })
	if n := said.errors(); n != 1 {
		t.Errorf("%d errors were logged", n)
	}
	if err := os.Rename(log+".away", log); err != nil {
		t.Fatal(err)
	}
	await(t, "an idle writer to sign them", func() bool { return signed(sealer) })
	if report := verify(t, sealer, nil); report.Total.Receipts != 6 {
		t.Errorf("%d receipts", report.Total.Receipts)
	}
}

// A batch whose commit fails is signed once it is durable, and not before; its
// receipts have one leaf each.
func TestSignsWhatIsDurable(t *testing.T) {
	s, sealer := mustOpenSealed(t, t.TempDir(), quietly(t))
	fails := 3
	s.WrapCommit(func(commit func() error) error {
		before := sealer.Status().Signed
		if fails--; fails >= 0 && fails != 2 { // the first goes through
			return errors.New("the disk is gone")
		}
		err := commit()
		if after := sealer.Status().Signed; before != nil && (after == nil || *after != *before) {
			t.Error("something was signed during a commit")
		}
		return err
	})
	s.SetRecorder(sealer)
	run(t, s)
	putAll(t, s, []int{0})
	putAll(t, s, []int{1, 2, 3})
	await(t, "all to be signed", func() bool { return signed(sealer) })
	verify(t, sealer, nil)
	for id, n := range leaves(t, sealer) {
		if n != 1 {
			t.Errorf("%s has %d leaves", id, n)
		}
	}
	if fails >= 0 {
		t.Errorf("%d failures are left", fails)
	}
}

// What is due without a receipt is committed by an idle writer: a new key, an
// erasure, a month that ended.
func TestIdleWriterCommitsWhatIsDue(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	o := options(t)
	o.Clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s, sealer := mustOpenSealed(t, t.TempDir(), o)
	s.SetRecorder(core.Recorders{sealer})
	run(t, s)
	putAll(t, s, []int{0})
	await(t, "the first to be signed", func() bool { return signed(sealer) })
	sealer.Rotate()
	await(t, "the new key", func() bool { return len(sealer.Keys()) == 2 && signed(sealer) })
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	await(t, "the next month's log", func() bool {
		months, err := sealer.Months()
		return err == nil && len(months) == 2 && signed(sealer)
	})
	report := verify(t, sealer, nil)
	if !report.Logs[0].Closed || report.Logs[1].Follows != report.Logs[0].Origin {
		t.Errorf("%+v", report.Logs)
	}
	version := s.Version()
	<-time.After(1500 * time.Millisecond) // a writer that commits over and over has by then
	if s.Version() != version {
		t.Error("something is committed though nothing is due")
	}
}

// A stop writes and signs what is waiting, and so does the next start what a
// process had committed and not signed.
func TestStopSigns(t *testing.T) {
	dir := t.TempDir()
	s, sealer := mustOpenSealed(t, dir, options(t))
	s.SetRecorder(sealer)
	s.Group(time.Hour)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	for i := range 10 {
		r := receiptAt(i)
		if err := s.Open(intent(r)); err != nil {
			t.Fatal(whole(err))
		}
		s.Append(r, nil)
	}
	stop()
	running.Wait()
	if !signed(sealer) || sealer.Status().Log.Size != 11 {
		t.Errorf("%+v", sealer.Status())
	}
	mustClose(t, s)

	// Calls that are lost with this process are sealed by the next.
	s, _ = mustOpenSealed(t, dir, options(t))
	r := receiptAt(100)
	if err := s.Open(intent(r)); err != nil {
		t.Fatal(whole(err))
	}
	mustClose(t, s)
	s, sealer = mustOpenSealed(t, dir, options(t))
	s.SetRecorder(sealer)
	if !signed(sealer) || sealer.Status().Log.Size != 12 {
		t.Errorf("%+v", sealer.Status())
	}
	verify(t, sealer, nil)
}

// counting counts lines of error level.
type counting struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (c *counting) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
	return c.Handler.Handle(ctx, r)
}

func (c *counting) errors() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

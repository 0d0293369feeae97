package seal_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"headway/core"
	"headway/core/ledger"
	"headway/core/seal"
)

var million = flag.Bool("seal.million", false, "export, verify and prove from a store of a million receipts; else of a few thousand")

// TestFromAStore makes receipts durable in a store with the log on, then exports all of
// them from it, verifies the export, and proves some: it says how long each took, how
// much memory the process had at most, and holds them to what a million may take.
func TestFromAStore(t *testing.T) {
	n := 4000
	if *million {
		n = 1_000_000
	}
	dir := t.TempDir()
	pepper := ledger.NewPepper()
	if err := os.WriteFile(filepath.Join(dir, "pepper"), pepper[:], 0o600); err != nil {
		t.Fatal(err)
	}
	st, s := openIn(t, dir)
	st.SetRecorder(s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		if err := st.Run(ctx); err != nil {
			t.Error(err)
		}
	})

	const group = 2000 // that wait at once
	var some []core.CallID
	cpu, start := processor(), time.Now()
	for done := 0; done < n; done += group {
		var durable sync.WaitGroup
		for i := range min(group, n-done) {
			at := time.Now().UTC()
			r := &core.Receipt{ID: core.NewCallID(at), Kind: core.KindJob, Outcome: core.Settled, At: at, SettledAt: at, Key: core.KeyID(fmt.Sprintf("key-%d", i%50)), Owner: "team",
				Model: "demo-large", Offer: "fast/demo-large", Provider: "fast", UsageFrom: core.FromProvider, Charge: core.Some(core.Money(i + done)),
				Prices: &core.Rates{Input: 3_000_000, Output: 15_000_000}}
			r.Usage.UncachedInput, r.Usage.Output = core.Some(int64(i)), core.Some(int64(i%900))
			r.Job = core.JobID(r.ID)
			if i%(group/4) == 7 {
				some = append(some, r.ID)
			}
			if err := st.Open(core.Intent{ID: r.ID, Job: r.Job, Kind: r.Kind, At: at, Model: r.Model}); err != nil {
				t.Fatal(err)
			}
			durable.Add(1)
			st.Append(r, durable.Done)
		}
		durable.Wait()
	}
	took := time.Since(start)
	t.Logf("%d receipts made durable and sealed: %.0f a second, %.1f µs of a processor each", n, float64(n)/took.Seconds(), float64((processor()-cpu).Microseconds())/float64(n))
	for end := time.Now().Add(time.Minute); ; {
		if status := s.Status(); status.Signed != nil && *status.Signed == status.Log && status.Log.Size >= uint64(n) {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v", status)
		}
		time.Sleep(5 * time.Millisecond)
	}

	// As another process, without what was needed to make them.
	stop()
	running.Wait()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st, s = openIn(t, dir)
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
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
	path := filepath.Join(t.TempDir(), "export.jsonl")
	hold(t, n, "export", func() {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		if err := seal.Export(w, s.Source(), parts, seal.ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
	hold(t, n, "verification", func() {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := seal.Verify(f, seal.Check{Keys: s.Keys()})
		if err != nil || !report.OK || report.Total.Receipts != int64(n) {
			t.Fatal(report, err)
		}
	})
	var slowest, sum time.Duration
	some = some[:min(len(some), 400)]
	for _, id := range some {
		start := time.Now()
		r, err := st.Receipt(id)
		if err != nil {
			t.Fatal(err)
		}
		at, err := seal.Find(st, id, r.SettledAt.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		proof, err := s.Prove(at)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		slowest, sum = max(slowest, took), sum+took
		if p, err := seal.VerifyProof(proof, s.Keys()); err != nil || p.Leaf.ID != id {
			t.Fatal(p, err)
		}
	}
	mean := sum / time.Duration(len(some))
	t.Logf("proof of one of %d: %.2f ms, %.2f ms at most of %d", n, float64(mean.Microseconds())/1000, float64(slowest.Microseconds())/1000, len(some))
	most := 100 * time.Millisecond
	if seal.Slowly {
		most = 2 * time.Second
	}
	if mean > most {
		t.Errorf("a proof took %v", mean)
	}
}

// hold does something and holds it to what a million receipts may take: 30 s of a
// processor, 200 MiB. Pages of the store's files, which the system takes back when it
// wants to, are not counted.
func hold(t *testing.T, n int, what string, do func()) {
	t.Helper()
	debug.FreeOSMemory()
	before := memory()
	cpu, start := processor(), time.Now()
	done := make(chan struct{})
	var peak int64
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, memory())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	do()
	used, took := processor()-cpu, time.Since(start)
	close(done)
	watching.Wait()
	t.Logf("%s of %d receipts: %.2f s (%.2f s of a processor), %d MiB at most, %d before", what, n, took.Seconds(), used.Seconds(), peak>>20, before>>20)
	if most := 30 * time.Second * time.Duration(max(n, 100_000)) / 1_000_000; used > most {
		t.Errorf("the %s took %v of a processor, more than %v", what, used, most)
	}
	if peak > 200<<20 {
		t.Errorf("the %s took %d MiB", what, peak>>20)
	}
}

func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what the process has for itself, by the kernel; 0: it does not say.
func memory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb << 10
}

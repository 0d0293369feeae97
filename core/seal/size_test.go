package seal

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"headway/core"
)

// TestSize exports and verifies many receipts and says how long it took and how
// much memory; -receipts 1000000 is what the limits are about (30 s, 200 MiB).
func TestSize(t *testing.T) {
	n := *receiptCount
	if slowly {
		n = min(n, 3000)
	}
	src := newMadeUp(uint64(n) + 1)
	c := src.build(t, newTestRing(t))
	path := filepath.Join(t.TempDir(), "export.jsonl")

	used, took, memory := measured(t, func() {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		if err := Export(w, src, []Part{{Checkpoint: c}}, ExportOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("export of %d receipts: %.2f s (%.2f s of a processor), %d MiB at most, %d MiB written", n, took.Seconds(), used.Seconds(), memory>>20, info.Size()>>20)
	limit(t, n, "export", used, memory)

	used, took, memory = measured(t, func() {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		report, err := Verify(f, Check{})
		if err != nil || !report.OK || report.Total.Receipts != int64(n) {
			t.Fatal(report.Problem, err)
		}
	})
	t.Logf("verification: %.2f s (%.2f s of a processor), %d MiB at most", took.Seconds(), used.Seconds(), memory>>20)
	limit(t, n, "verification", used, memory)

	dir := filepath.Join(t.TempDir(), "tree")
	used, took, memory = measured(t, func() {
		if err := WriteTree(dir, src, c, nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("export as files: %.2f s (%.2f s of a processor), %d MiB at most", took.Seconds(), used.Seconds(), memory>>20)
	limit(t, n, "export as files", used, memory)
	used, took, memory = measured(t, func() {
		report, err := VerifyTree(dir, Check{})
		if err != nil || !report.OK || report.Total.Receipts != int64(n) {
			t.Fatal(report.Problem, err)
		}
	})
	t.Logf("verification of the files: %.2f s (%.2f s of a processor), %d MiB at most", took.Seconds(), used.Seconds(), memory>>20)
	limit(t, n, "verification of the files", used, memory)

	used, took, _ = measured(t, func() {
		if r := Recover(src, c.Origin, c); r.Verdict != Whole {
			t.Fatal(r.Err)
		}
	})
	t.Logf("recovery from the leaves: %.2f s (%.2f s of a processor)", took.Seconds(), used.Seconds())
	used, took, _ = measured(t, func() {
		if _, err := Prove(src, c, c.Size/2); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("proof of one: %.2f ms (%.2f ms of a processor)", float64(took.Microseconds())/1000, float64(used.Microseconds())/1000)
}

// limit holds processor time, of which a busy machine does not make more, to what a
// million may take.
func limit(t *testing.T, n int, what string, used time.Duration, memory uint64) {
	t.Helper()
	if most := 30 * time.Second * time.Duration(max(n, 100_000)) / 1_000_000; used > most {
		t.Errorf("the %s of %d receipts took %v, more than %v", what, n, used, most)
	}
	if memory > 200<<20 {
		t.Errorf("the %s took %d MiB", what, memory>>20)
	}
}

// measured says how much processor time something took and how long, and how much
// memory the process had at most meanwhile.
func measured(t *testing.T, do func()) (used, took time.Duration, memory uint64) {
	t.Helper()
	debug.FreeOSMemory()
	resetPeak()
	cpu, start := processorTime(), time.Now()
	do()
	used, took = processorTime()-cpu, time.Since(start)
	if memory = peakMemory(); memory == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		memory = m.Sys
	}
	return used, took, memory
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportProcessor adds the processor time of each operation to a benchmark.
func reportProcessor(b *testing.B, from time.Duration) {
	b.ReportMetric(float64(processorTime()-from)/float64(b.N), "cpu-ns/op")
}

// resetPeak makes the kernel forget how much memory the process had at most, where
// it can be made to.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakMemory is how much memory the process had at most; 0: the system does not say.
func peakMemory() uint64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseUint(string(m[1]), 10, 64)
	return kb << 10
}

// BenchmarkSeal is the cost of a receipt in groups of 64: its leaf, its place in the
// tree, the records of the group. The signature of the group is apart.
func BenchmarkSeal(b *testing.B) {
	r := newRig(b)
	group := make([]*core.Receipt, 64)
	for i := range group {
		group[i] = receipt(i, r.now)
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer reportProcessor(b, processorTime())
	for i := 0; i < b.N; i += len(group) {
		for _, x := range group {
			r.seal.Record(x)
		}
		r.seal.Changed()
	}
}

// BenchmarkDurable is the signature of a group of 64 with its file, for each receipt.
func BenchmarkDurable(b *testing.B) {
	r := newRig(b)
	x := receipt(1, r.now)
	b.ReportAllocs()
	defer reportProcessor(b, processorTime())
	for i := 0; i < b.N; i += 64 {
		r.seal.Record(x)
		r.seal.Changed()
		if err := r.seal.Durable(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	ring := newTestRing(b)
	t := Tree{Origin: originOf(testEdge, "2026-11"), Size: 12345}
	defer reportProcessor(b, processorTime())
	for b.Loop() {
		if _, err := ring.sign(t); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyLeaf(b *testing.B) {
	src := newMadeUp(2000)
	var text []byte
	var l Leaf
	text = src.leaf(text, 8)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	defer reportProcessor(b, processorTime())
	for b.Loop() {
		if err := l.parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

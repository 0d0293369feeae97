package bus

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"headway/core"
)

const memoryChild = "HEADWAY_BUS_MEMORY"

// TestMemory prints what an open server without nodes costs, and holds it to 6 MiB of
// resident memory: the difference, in a process of its own, between before Open and
// after, each time after a collection that gives back what is free. What is resident
// of the program's own text is part of it.
func TestMemory(t *testing.T) {
	if os.Getenv(memoryChild) != "" {
		memory(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
	child.Env = append(os.Environ(), memoryChild+"="+t.TempDir())
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "memory: "); ok {
			t.Log(strings.TrimSpace(rest))
			var rss, heap, goroutines int64
			if _, err := fmt.Sscanf(rest, "an open server costs %d KiB resident, %d KiB of heap, %d goroutines", &rss, &heap, &goroutines); err != nil {
				t.Fatal(err)
			}
			if rss > 6<<10 && !raceEnabled {
				t.Errorf("%d KiB, at most 6144 are right", rss)
			}
			return
		}
	}
	t.Fatal(string(out))
}

func memory(t *testing.T) {
	settle := func() (rss, heap, goroutines int64) {
		time.Sleep(200 * time.Millisecond)
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		text, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		if _, err := fmt.Sscan(string(text), &size, &rss); err != nil {
			t.Fatal(err)
		}
		return rss * int64(os.Getpagesize()) / 1024, int64(m.HeapAlloc) / 1024, int64(runtime.NumGoroutine())
	}
	s := New(Options{Folder: os.Getenv(memoryChild), Listen: "127.0.0.1:0", Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Admit:  func(string, string) (core.NodeID, error) { return "", core.Errorf(core.Forbidden, "nobody") },
		Joined: func(core.NodeID, uint64) {}, Left: func(core.NodeID, uint64) {}})
	r0, h0, g0 := settle()
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	r1, h1, g1 := settle()
	fmt.Printf("memory: an open server costs %d KiB resident, %d KiB of heap, %d goroutines\n", r1-r0, h1-h0, g1-g0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

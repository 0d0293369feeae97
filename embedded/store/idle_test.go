package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/embedded/store"
)

// An open store that does nothing takes at most 30 MiB, its process and the test
// binary's own weight included.
func TestIdleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("not measured: there is no /proc")
		return
	}
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, options(t))
	run(t, s)
	for n := range 20 {
		rs := make([]int, 250)
		for i := range rs {
			rs[i] = n*len(rs) + i
		}
		putAll(t, s, rs)
	}
	mustClose(t, s)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "HEADWAY_STORE_CHILD=idle", "HEADWAY_STORE_DIR="+dir)
	child.Stderr = t.Output()
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "open\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, ":"); ok {
			var kib int
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				got[name] = kib
			}
		}
	}
	t.Logf("resident %d KiB, of it anonymous %d KiB", got["VmRSS"], got["RssAnon"])
	if raceEnabled {
		return // its shadow memory is no memory of the store's
	}
	if rss := got["VmRSS"]; rss == 0 || rss > 30<<10 {
		t.Errorf("resident %d KiB, of it anonymous %d KiB: more than 30 MiB", rss, got["RssAnon"])
	}
}

// idle opens the store, runs it, and does nothing until its input ends.
func idle(dir string) error {
	s, err := store.Open(dir, store.Options{Clock: time.Now, Log: silent})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	stop()
	wg.Wait()
	return s.Close()
}

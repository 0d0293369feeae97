package store_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// A process that is killed at any moment under load loses no receipt that it
// acknowledged, has none twice, and leaves exactly one for each intent; what the
// Recorder derived is of exactly the receipts that are there.
func TestKilled(t *testing.T) {
	dir := filepath.Join(fastDir(t, 1<<30), "store")
	intents, acknowledged := map[core.CallID]bool{}, map[core.CallID]bool{}
	for cycle := range 20 {
		// One in four is killed while it opens the store, or soon after.
		killAfter(t, dir, cycle%4 == 2, time.Duration(rand.Int64N(int64(200*time.Millisecond))), func(line string) {
			what, id, ok := strings.Cut(line, " ")
			switch {
			case ok && what == "intent" && len(id) == 26:
				intents[core.CallID(id)] = true
			case ok && what == "durable" && len(id) == 26:
				acknowledged[core.CallID(id)] = true
			}
		})
		if cycle%4 != 3 {
			continue // the next child finds the folder as this one left it
		}
		s := mustOpen(t, dir, crashOptions(options(t)))
		found := map[core.CallID]core.Outcome{}
		if err := s.Receipts(time.Time{}, time.Time{}, false, func(r *core.Receipt) bool {
			if found[r.ID] != "" {
				t.Errorf("cycle %d: %s is there twice", cycle, r.ID)
			}
			found[r.ID] = r.Outcome
			return true
		}); err != nil {
			t.Fatalf("cycle %d: %s", cycle, whole(err))
		}
		for id := range acknowledged {
			if found[id] != core.Settled {
				t.Errorf("cycle %d: %s was acknowledged and is %q", cycle, id, found[id])
			}
		}
		for id := range intents {
			if found[id] == "" {
				t.Errorf("cycle %d: %s was dispatched and has no receipt", cycle, id)
			}
		}
		s.SetRecorder(&tape{count: counted(t, s)})
		run(t, s)
		await(t, "the count to be that of the receipts", func() bool { return counted(t, s) == len(found) })
		mustClose(t, s)
		if t.Failed() {
			return
		}
	}
	if len(acknowledged) < 20*10 {
		t.Errorf("only %d receipts in 20 cycles: the test shows little", len(acknowledged))
	}
	t.Logf("%d intents, %d acknowledged", len(intents), len(acknowledged))
}

// killAfter starts the crash child, kills it some time after its first line or
// after its start, and hands over every line that it printed.
func killAfter(t *testing.T, dir string, early bool, wait time.Duration, line func(string)) {
	t.Helper()
	killChild(t, "crash", dir, early, wait, line)
}

// killChild is killAfter for a child of that name.
func killChild(t *testing.T, name, dir string, early bool, wait time.Duration, line func(string)) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "HEADWAY_STORE_CHILD="+name, "HEADWAY_STORE_DIR="+dir)
	child.Stderr = t.Output()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	if early {
		timer = time.AfterFunc(wait, func() { _ = child.Process.Kill() })
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if timer == nil {
			timer = time.AfterFunc(wait, func() { _ = child.Process.Kill() })
		}
		line(lines.Text())
	}
	if timer == nil {
		t.Error("the child printed nothing")
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed: %v", err)
	}
}

// crashOptions make small files, so that flushes are many.
func crashOptions(o store.Options) store.Options {
	o.LogFileBytes = 1 << 20
	return o
}

// crash writes receipts from many goroutines until it is killed. It prints each
// intent once it is noted and each receipt once it is durable.
func crash(dir string) error {
	s, err := store.Open(dir, crashOptions(store.Options{Clock: time.Now, Log: silent}))
	if err != nil {
		return err
	}
	counted, err := s.Get("count", "all")
	if err != nil {
		return err
	}
	had := &tape{}
	_, _ = fmt.Sscan(string(counted), &had.count)
	s.SetRecorder(had)
	s.Group(time.Millisecond) // its writers wait for each receipt
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
				say("intent", r.ID)
				if rand.IntN(50) == 0 {
					continue // still under way when the end comes
				}
				var durable sync.WaitGroup
				durable.Add(1)
				s.Append(r, durable.Done)
				durable.Wait()
				say("durable", r.ID)
			}
		})
	}
	all.Wait()
	return nil
}

func say(what string, id core.CallID) { _, _ = os.Stdout.WriteString(what + " " + string(id) + "\n") }

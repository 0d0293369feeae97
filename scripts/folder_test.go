package scripts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headway/core"
	"headway/scripts"
)

// desk is a folder of scripts and a clock that is set by hand.
type desk struct {
	t   *testing.T
	dir string
	*scripts.Folder
	mu    sync.Mutex
	now   time.Time
	files int
	log   bytes.Buffer
}

func newDesk(t *testing.T, files map[string]string) *desk {
	d := &desk{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	for name, source := range files {
		d.write(name, source)
	}
	d.Folder = scripts.Open(d.dir, func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }, slog.New(slog.NewTextHandler(&d.log, nil)))
	return d
}

// write gives each file a time of its own, as a slower hand would.
func (d *desk) write(name, source string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	d.files++
	at := time.Date(2026, 1, 1, 0, 0, d.files, 0, time.UTC)
	if err := errors.Join(os.WriteFile(path, []byte(source), 0o600), os.Chtimes(path, at, at)); err != nil {
		d.t.Fatal(err)
	}
}

// rank asks a script for the cost of one offer.
func (d *desk) rank(name string) (float64, error) {
	d.t.Helper()
	s, err := d.Find(name)
	if err != nil {
		return 0, err
	}
	if s.Name() != name {
		d.t.Errorf("%s is called %s", name, s.Name())
	}
	q := patient(1)
	ranks := make([]core.Rank, 1)
	err = s.Rank(q, ranks, make([]bool, 1))
	return ranks[0].Cost, err
}

func (d *desk) want(name string, cost float64, fault string) {
	d.t.Helper()
	got, err := d.rank(name)
	switch {
	case fault == "" && (err != nil || got != cost):
		d.t.Errorf("%s: %v, %v, want %v", name, got, err, cost)
	case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
		d.t.Errorf("%s: %v, %v, want %q", name, got, err, fault)
	}
}

func (d *desk) state(name string) core.ScriptState {
	for _, s := range d.List() {
		if s.Name == name {
			return s
		}
	}
	return core.ScriptState{}
}

const one, two = "function score() { return 1; }", "function score() { return 2; }"

func TestFolder(t *testing.T) {
	d := newDesk(t, map[string]string{"one.js": one, "bad.js": "\nfunction score() { return nope; }", "cheapest.js": one, "Big.js": one,
		".hidden.js": one, "notes.txt": "x", "headway.d.ts": "x", "-x.js": one, "large.js": "//" + strings.Repeat("x", 256<<10)})
	if err := os.Mkdir(filepath.Join(d.dir, "dir.js"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.want("one", 1, "")
	d.want("bad", 0, "bad.js:2: ReferenceError: nope is not defined")
	d.want("cheapest", 0, "cheapest is the name of a built-in strategy")
	d.want("Big", 0, "no name of a script")
	d.want("large", 0, "larger than 256 KiB")
	d.want("none", 0, "none.js: there is no such script")
	d.want("dir", 0, "there is no such script")
	if got := d.Names(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("names %v", got)
	}
	var states []string
	for _, s := range d.List() {
		states = append(states, fmt.Sprint(s.Name, " ", s.State, " ", s.InForce, " ", s.Error != nil && s.Error.Line > 0))
	}
	if want := []string{"-x refused false false", "Big refused false false", "bad refused false true", "cheapest refused false false", "large refused false false",
		"one active true false"}; !slices.Equal(states, want) {
		t.Errorf("states %v", states)
	}
}

func TestReload(t *testing.T) {
	d := newDesk(t, map[string]string{"a.js": one})
	d.want("a", 1, "")
	d.write("a.js", two)
	d.want("a", 1, "")
	d.Look()
	d.want("a", 2, "")

	// Half of a file is no outage: the last good one stays.
	d.write("a.js", "function score() { return")
	d.Look()
	d.want("a", 2, "")
	if s := d.state("a"); s.State != core.ScriptRefused || !s.InForce || s.Error == nil || s.Error.Line != 1 {
		t.Errorf("%+v %+v", s, s.Error)
	}
	d.write("a.js", "function score() { return 3; }")
	d.Look()
	d.want("a", 3, "")
	if s := d.state("a"); s.State != core.ScriptActive || s.Error != nil || s.Decisions != 5 {
		t.Errorf("%+v", s)
	}

	// One that is gone for one look, as an editor saves, is still in force.
	if err := os.Remove(filepath.Join(d.dir, "a.js")); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.want("a", 3, "")
	d.write("a.js", one)
	d.Look()
	d.want("a", 1, "")
	if err := os.Remove(filepath.Join(d.dir, "a.js")); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.Look()
	d.want("a", 0, "there is no such script")

	// A mount that is gone changes nothing.
	d.write("a.js", two)
	d.Look()
	if err := os.Rename(d.dir, d.dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.Look()
	d.want("a", 2, "")
}

func TestRunReadsWhatChanges(t *testing.T) {
	d := newDesk(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.write("late.js", one)
	deadline := time.Now().Add(20 * time.Second)
	for !slices.Equal(d.Names(), []string{"late"}) {
		if time.Now().After(deadline) {
			t.Fatalf("names %v", d.Names())
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestThroughALink(t *testing.T) {
	d := newDesk(t, nil)
	target := filepath.Join(t.TempDir(), "x")
	if err := errors.Join(os.WriteFile(target, []byte(one), 0o600), os.Symlink(target, filepath.Join(d.dir, "linked.js"))); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.want("linked", 1, "")
}

func TestSetAside(t *testing.T) {
	fails := "function score(job, offer) {\n  if (job.model !== 'sample') throw new Error('no'); return 0; }"
	d := newDesk(t, map[string]string{"a.js": fails, "b.js": one})
	later := func(by time.Duration) { d.mu.Lock(); defer d.mu.Unlock(); d.now = d.now.Add(by) }
	for range 5 { // slowly: never three in a minute
		d.want("a", 0, "a.js:2: Error: no")
		later(31 * time.Second)
	}
	d.want("a", 0, "a.js:2: Error: no")
	d.want("a", 0, "a.js:2: Error: no")
	d.want("a", 0, "a.js:2: set aside until the file changes, as it failed 3 times within a minute, last: Error: no")
	later(time.Hour)
	d.Look()
	d.want("a", 0, "set aside")
	d.want("b", 1, "")
	if s := d.state("a"); s.State != core.ScriptAside || s.InForce || s.Failures != 7 || s.Decisions != 7 || s.Error.Line != 2 {
		t.Errorf("%+v %+v", s, s.Error)
	}
	d.write("a.js", "function score() { return")
	d.Look()
	d.want("a", 0, "set aside") // what it is now is no better
	d.write("a.js", two)
	d.Look()
	d.want("a", 2, "")
	if s := d.state("a"); s.State != core.ScriptActive || s.Error != nil {
		t.Errorf("%+v", s)
	}
}

func TestBounds(t *testing.T) {
	files := map[string]string{}
	for i := range 70 {
		files[fmt.Sprintf("s%02d.js", i)] = one
	}
	d := newDesk(t, files)
	if n := len(d.List()); n != 64 {
		t.Errorf("%d scripts", n)
	}
	d.want("s63", 1, "")
	d.want("s64", 0, "there is no such script")
	none := scripts.Open("", time.Now, slog.New(slog.DiscardHandler))
	if _, err := none.Find("x"); err == nil || len(none.List()) != 0 {
		t.Error("a folder that is none has scripts")
	}
	missing := scripts.Open(filepath.Join(t.TempDir(), "none"), time.Now, slog.New(slog.DiscardHandler))
	if _, err := missing.Find("x"); err == nil {
		t.Error("a folder that is not there has scripts")
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "a-b_c9": true, "9": true, "": false, "-a": false, "_a": false, "A": false, "a.b": false,
		"../a": false, "ü": false, "auto": false, "fastest": false} {
		if err := scripts.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A file that the system makes up as it is read has no size and perhaps no end.
func TestFileWithoutSize(t *testing.T) {
	d := newDesk(t, map[string]string{"good.js": one, "empty.js": ""})
	if _, err := os.Stat("/proc/self/pagemap"); err == nil {
		if err := os.Symlink("/proc/self/pagemap", filepath.Join(d.dir, "made.js")); err != nil {
			t.Fatal(err)
		}
		d.Look()
		d.want("made", 0, "made.js: the file is empty")
	}
	d.want("empty", 0, "empty.js: the file is empty")
	d.want("good", 1, "")
}

// Tools that copy a file with its times put another one in its place.
func TestReplacedWithItsTimes(t *testing.T) {
	d := newDesk(t, map[string]string{"a.js": one})
	d.want("a", 1, "")
	path := filepath.Join(d.dir, "a.js")
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(d.dir, ".a.next")
	if err := errors.Join(os.WriteFile(next, []byte(two), 0o600), os.Chtimes(next, was.ModTime(), was.ModTime()), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
	d.Look()
	d.want("a", 2, "")
}

func TestMoreScriptsThanAreRead(t *testing.T) {
	files := map[string]string{}
	for i := range 66 {
		files[fmt.Sprintf("s%02d.js", i)] = one
	}
	d := newDesk(t, files)
	if got := len(d.Names()); got != 64 {
		t.Errorf("%d scripts are in force", got)
	}
	if log := d.log.String(); !strings.Contains(log, "left_out=2") {
		t.Errorf("the log does not tell: %s", log)
	}
}

// A call must not wait for a dry run, also where there is one processor.
func TestDryRunTakesNoTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := newDesk(t, map[string]string{"good.js": one})
	d.write("bad.js", "function score() { for (;;) {} }")
	good, err := d.Find("good")
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{})
	go func() { d.Look(); close(looked) }()
	for calls := 0; ; calls++ {
		select {
		case <-looked:
			d.want("bad", 0, "longer than")
			if calls == 0 {
				t.Error("no call was ranked meanwhile")
			}
			return
		default:
		}
		q := auction(1) // within the limit of a call
		if err := good.Rank(q, make([]core.Rank, 1), make([]bool, 1)); err != nil && strings.Contains(err.Error(), "as many rankings") {
			t.Fatal(err)
		}
	}
}

// Rankings that do not stop take processors, so there is an end to how many there are;
// it is held against no script.
func TestTooManyLeftBehind(t *testing.T) {
	d := newDesk(t, map[string]string{"a.js": one})
	d.LeaveBehind(8)
	for range 5 {
		d.want("a", 0, "a.js:1: as many rankings as may be left behind do not stop")
	}
	d.write("b.js", two)
	d.Look()
	d.want("b", 0, "b.js:1: as many rankings as may be left behind do not stop")
	d.LeaveBehind(-1)
	d.want("a", 1, "")
}

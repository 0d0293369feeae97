// Package scripts runs the operators' own strategies: files of JavaScript with
// one function, score(job, offer, auction) (SPEC §15). A script sees figures and
// never a prompt, has no way out to files or the network, and has a time limit.
//
// What goja cannot interrupt or bound is kept from a script in three ways: check
// refuses it in the text, or puts a guard around it; install bounds the built-ins
// that the text can reach; and a ranking that still does not end in time is left
// behind by the call. It is the operator's own code all the same, not a tenant's.
package scripts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"headway/core"
)

const (
	mostScripts = 64
	lookEvery   = 500 * time.Millisecond
	// A script that fails this often within that time is set aside until it changes.
	mostFailures = 3
	within       = time.Minute
)

// builtIn are the strategies that a file cannot have the name of.
var builtIn = []string{"price-and-wait", "cheapest", "fastest", "fastest-first-token", "balanced", "auto"}

// Folder is a folder of scripts, each chosen as a strategy by the name of its file
// without .js. Its methods may be called concurrently.
type Folder struct {
	dir     string
	clock   core.Clock
	log     *slog.Logger
	turns   chan struct{}
	behind  atomic.Int32                      // rankings that were left behind
	entries atomic.Pointer[map[string]*entry] // by name; replaced as a whole by look

	mu   sync.Mutex // one look at a time; guards what follows
	left int        // files that the last look left out, beyond mostScripts
}

// entry is one file as it was last read.
type entry struct {
	name      string
	info      fs.FileInfo
	sum       string // SHA-256 in hex
	missing   bool   // in the last look
	script    *script
	refused   *core.ScriptError // why the file as it is now is not in force
	decisions atomic.Int64
	failures  atomic.Int64
	hung      atomic.Int32
	aside     atomic.Bool

	mu     sync.Mutex  // guards what follows; only failures take it
	recent []time.Time // of failures since the file changed
	last   *core.ScriptError
}

// Open reads the scripts of a folder; "" is a folder without any. A file that is
// refused does not keep the others out: Find says why it is not there.
func Open(dir string, clock core.Clock, log *slog.Logger) *Folder {
	f := &Folder{dir: dir, clock: clock, log: log, turns: newTurns()}
	f.entries.Store(&map[string]*entry{})
	f.look()
	return f
}

// Run reads files again as they change, until ctx ends.
func (f *Folder) Run(ctx context.Context) error {
	if f.dir == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.look()
		}
	}
}

// look reads what has changed. It asks for sizes and times alone, which works on
// every file system.
func (f *Folder) look() {
	if f.dir == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	was := *f.entries.Load()
	files, err := os.ReadDir(f.dir)
	if err != nil && len(was) > 0 {
		return // the last ones stay in force
	}
	now := map[string]*entry{}
	changed, left := false, 0
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), ".js")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(f.dir, file.Name())) // through a link, as Kubernetes mounts files
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if len(now) == mostScripts && was[name] == nil {
			left++
			continue
		}
		e := was[name]
		if e == nil || e.info.Size() != info.Size() || !e.info.ModTime().Equal(info.ModTime()) || !os.SameFile(e.info, info) {
			e, changed = f.read(name, info, e), true
		}
		e.missing = false
		now[name] = e
	}
	for name, e := range was {
		if now[name] != nil {
			continue
		}
		if changed = true; !e.missing { // it may be on its way back, as some editors save
			e.missing = true
			now[name] = e
			continue
		}
		f.log.Info("a script is gone", "script", name)
	}
	if left != f.left {
		if f.left = left; left > 0 {
			f.log.Warn("a folder has more scripts than are read", "folder", f.dir, "read", mostScripts, "left_out", left)
		}
	}
	if changed {
		f.entries.Store(&now)
	}
}

// read makes the entry of a file that is new or has changed. A file that is refused
// leaves the last good one in force.
func (f *Folder) read(name string, info fs.FileInfo, was *entry) *entry {
	file := name + ".js"
	e := &entry{name: name, info: info}
	if was != nil {
		e.decisions.Store(was.decisions.Load())
		e.failures.Store(was.failures.Load())
	}
	var err *core.ScriptError
	switch wrong := CheckName(name); {
	case wrong != nil:
		err = &core.ScriptError{Script: file, Msg: wrong.Error()}
	case info.Size() == 0: // also what the system makes up as it is read, without an end perhaps
		err = &core.ScriptError{Script: file, Msg: "the file is empty"}
	default:
		source, wrong := Read(filepath.Join(f.dir, file))
		if wrong != nil {
			err = &core.ScriptError{Script: file, Msg: "it cannot be read"}
		} else {
			sum := sha256.Sum256(source)
			e.sum = hex.EncodeToString(sum[:])
			e.script, err = load(name, file, source, f.turns, &e.hung, &f.behind)
		}
	}
	if err == nil {
		f.log.Info("a script is in force", "script", name)
		return e
	}
	e.refused, e.last = err, err
	if was != nil && was.script != nil {
		e.script = was.script
		e.aside.Store(was.aside.Load())
		e.recent = was.failuresSince()
	}
	f.log.Warn("a script was refused", "script", name, "error", err.Error(), "in_force", e.script != nil)
	return e
}

// Read reads a script's file, and no more of it than tells that it is too long. What
// is no file, as a pipe, might never be read to its end, nor be opened.
func Read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no regular file")}
	}
	return io.ReadAll(io.LimitReader(file, longestSource+1))
}

func (e *entry) failuresSince() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.recent)
}

// CheckName says what is wrong with a script's name; nil: nothing.
func CheckName(name string) error {
	switch {
	case name == "" || name[0] == '-' || name[0] == '_' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return fmt.Errorf("%q is no name of a script: it has a-z, 0-9, - and _, and begins with a letter or a digit", plain(name))
	case slices.Contains(builtIn, name):
		return fmt.Errorf("%s is the name of a built-in strategy", name)
	}
	return nil
}

// Find gives the script of a name (core.Scripts).
func (f *Folder) Find(name string) (core.Script, error) {
	e := (*f.entries.Load())[name]
	switch {
	case e == nil:
		return nil, &core.ScriptError{Script: name + ".js", Msg: "there is no such script"}
	case e.aside.Load():
		e.mu.Lock()
		defer e.mu.Unlock()
		return nil, &core.ScriptError{Script: e.last.Script, Line: e.last.Line,
			Msg: fmt.Sprintf("set aside until the file changes, as it failed %d times within a minute, last: %s", mostFailures, e.last.Msg)}
	case e.script == nil:
		return nil, e.refused
	}
	return &live{e, f}, nil
}

// Names are those of the scripts in force, sorted.
func (f *Folder) Names() []string {
	var names []string
	for name, e := range *f.entries.Load() {
		if e.script != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// List is how each file stands, sorted by name (core.ScriptList).
func (f *Folder) List() []core.ScriptState {
	entries := *f.entries.Load()
	list := make([]core.ScriptState, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		s := core.ScriptState{Name: name, State: core.ScriptActive, InForce: e.script != nil, Decisions: e.decisions.Load(), Failures: e.failures.Load(), Sum: e.sum}
		switch {
		case e.refused != nil:
			s.State = core.ScriptRefused
		case e.aside.Load():
			s.State = core.ScriptAside
		}
		if e.aside.Load() {
			s.InForce = false
		}
		e.mu.Lock()
		last := e.last
		e.mu.Unlock()
		if e.refused != nil {
			last = e.refused
		}
		if last != nil {
			s.Error = &core.ScriptFault{Message: last.Msg, Line: last.Line}
		}
		list = append(list, s)
	}
	return list
}

// live is a script whose failures are counted.
type live struct {
	e *entry
	f *Folder
}

// Name is the file's without .js.
func (l *live) Name() string { return l.e.name }

// Rank asks the script, and sets it aside where it keeps failing.
func (l *live) Rank(q *core.Question, ranks []core.Rank, in []bool) error {
	err := l.e.script.Rank(q, ranks, in)
	l.e.decisions.Add(1)
	switch err := err.(type) {
	case nil:
		return nil
	case *busy:
		return err.ScriptError // no fault of the script
	case *core.ScriptError:
		l.failed(err)
	}
	return err
}

func (l *live) failed(err *core.ScriptError) {
	e, now := l.e, l.f.clock()
	e.failures.Add(1)
	e.mu.Lock()
	e.last = err
	e.recent = slices.DeleteFunc(append(e.recent, now), func(t time.Time) bool { return now.Sub(t) >= within })
	aside := len(e.recent) >= mostFailures
	e.mu.Unlock()
	if aside && e.aside.CompareAndSwap(false, true) {
		l.f.log.Warn("a script is set aside until its file changes", "script", e.name, "error", err.Error())
	}
}

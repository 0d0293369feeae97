package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"headway/core"
)

const (
	// queueLimit is how many receipts may wait for the disk before new calls are
	// refused.
	queueLimit = 4096
	// intentsFile is the size at which a new file of intents is begun.
	intentsFile = 1 << 20
	// spareName is of a file of intents that is done with and emptied: the next one. Its
	// pages are there, and each page that is touched for the first time costs more
	// than the twelve intents that fit it.
	spareName = "intents.spare"
)

// generation is one file of intents. Store.mu guards open and size. Where the
// system can, its disk space is taken at once and it is written through memory:
// a system call for each call served costs more than ranking its offers, and
// what a killed process has written there is kept all the same.
type generation struct {
	number int
	path   string
	file   *os.File
	memory []byte // of the whole file; nil: it is appended to
	size   int64  // of the intents in it
	open   int    // intents in it whose receipt is not durable
}

// write puts an intent's line at its place.
func (g *generation) write(line []byte, at int64) error {
	if g.memory != nil {
		copy(g.memory[at:], line)
		return nil
	}
	_, err := g.file.Write(line)
	return err
}

func intentsName(dir string, number int) string {
	return filepath.Join(dir, "intents-"+strconv.Itoa(number)+".log")
}

// newGeneration begins a file of intents. Store.mu is held.
func (s *Store) newGeneration(number int) (*generation, error) {
	path := intentsName(s.dir, number)
	if g := s.spare; g != nil {
		s.spare = nil
		if os.Rename(g.path, path) == nil {
			g.path, g.number, g.size = path, number, 0
			return g, nil
		}
		g.end()
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &generation{number: number, path: path, file: f, memory: mapped(f, intentsFile)}, nil
}

// retire is done with a file: it becomes the spare one, or ends. Store.mu is held.
func (s *Store) retire(g *generation) {
	if spare := filepath.Join(s.dir, spareName); s.spare == nil && !s.closed && g.memory != nil && g.open == 0 {
		clear(g.memory[:g.size])
		if os.Rename(g.path, spare) == nil {
			g.path, s.spare = spare, g
			return
		}
	}
	g.end()
}

// end closes the file, and removes it where every intent in it has its receipt.
func (g *generation) end() {
	unmap(g.memory)
	_ = g.file.Close()
	if g.open == 0 {
		_ = os.Remove(g.path) // what stays is read, and found settled, at the next start
	}
}

// note is an intent and its line; they are used again, so that Open allocates
// nothing.
type note struct {
	intent core.Intent
	line   []byte
}

// Open notes a call that is about to be dispatched (core.Book). It costs one
// small write and no sync. It refuses while receipts cannot be written, or while
// 4,096 of them wait to be: so what Append adds beyond is bounded by the calls
// that are open then.
func (s *Store) Open(in core.Intent) error {
	if len(in.ID) != callIDLen {
		return core.Errorf(core.Internal, "%q is not the id of a call", string(in.ID[:min(len(in.ID), 64)]))
	}
	if err := s.Healthy(); err != nil {
		return err
	}
	n := s.notes.Get().(*note)
	defer s.notes.Put(n)
	n.intent = in
	// The line end in front keeps a line apart from one that was cut short.
	n.line = append(s.encodeIntent(append(n.line[:0], '\n'), reflect.ValueOf(&n.intent).Elem()), '\n')
	g, at, err := s.reserve(in.ID, len(n.line))
	if err != nil {
		return err
	}
	if err := g.write(n.line, at); err != nil {
		s.mu.Lock()
		delete(s.open, in.ID)
		g.open--
		s.mu.Unlock()
		e := core.Errorf(core.Unavailable, "the call cannot be noted")
		e.RetryAfter, e.Err = 5*time.Second, err
		return e
	}
	return nil
}

// reserve notes in memory that a call is open, and gives its place in which file.
func (s *Store) reserve(id core.CallID, size int) (*generation, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, errClosed()
	}
	if s.queued >= queueLimit {
		e := core.Errorf(core.Unavailable, "%d receipts wait for the disk", s.queued)
		e.RetryAfter = time.Second
		return nil, 0, e
	}
	if _, twice := s.open[id]; twice {
		return nil, 0, core.Errorf(core.Internal, "call %s is open already", id)
	}
	if s.current.size+int64(size) > intentsFile {
		// A file that cannot be made now is tried again at the next call.
		if next, err := s.newGeneration(s.current.number + 1); err == nil {
			if s.current.open == 0 {
				s.retire(s.current)
			}
			s.current = next
		}
	}
	g := s.current
	if g.memory != nil && g.size+int64(size) > intentsFile {
		e := core.Errorf(core.Unavailable, "the call cannot be noted")
		e.RetryAfter = 5 * time.Second
		return nil, 0, e
	}
	at := g.size
	g.size += int64(size)
	g.open++
	s.open[id] = g
	return g, at, nil
}

// settled notes that a call's receipt is durable. A file that holds no other open
// intent is returned. Store.mu is held.
func (s *Store) settled(id core.CallID) *generation {
	g := s.open[id]
	if g == nil {
		return nil
	}
	delete(s.open, id)
	g.open--
	if g.open > 0 || g == s.current {
		return nil
	}
	return g
}

// repair makes a receipt of each intent that has none, and begins a new file.
func (s *Store) repair() error {
	files, err := filepath.Glob(filepath.Join(escapeGlob(s.dir), "intents-*.log"))
	if err != nil {
		return asError(err, "%s cannot be read", s.dir)
	}
	last := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			err = s.recoverFile(text)
		}
		if err != nil {
			return asError(err, "%s cannot be read", name)
		}
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "intents-"), ".log"))
		last = max(last, n)
	}
	if s.current, err = s.newGeneration(last + 1); err != nil {
		return asError(err, "%s cannot be written", s.dir)
	}
	for _, name := range files {
		err = errors.Join(err, os.Remove(name))
	}
	if e := os.Remove(filepath.Join(s.dir, spareName)); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return asError(err, "%s cannot be written", s.dir)
}

// escapeGlob makes a path match itself only.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// recoverFile writes the lost receipts of one file. A line that is no intent is
// the torn end of a process that was killed while it wrote; its call was not
// dispatched.
func (s *Store) recoverFile(text []byte) error {
	var list []entry
	seen := map[core.CallID]bool{}
	lost := 0
	for line := range bytes.Lines(text) {
		var in core.Intent
		if json.Unmarshal(line, &in) != nil {
			continue
		}
		if _, ok := in.ID.Time(); !ok || seen[in.ID] {
			continue
		}
		seen[in.ID] = true
		stored, err := s.get(receiptKey(in.ID))
		if stored != nil || err != nil {
			continue // there is one, even if it cannot be read
		}
		r := in.Lost(s.clock())
		list = s.receiptEntries(list, r, s.encode(nil, r))
		list = set(list, []byte(lostPrefix+string(r.ID)), []byte{1})
		if lost++; lost%256 == 0 {
			if err := s.commit(list); err != nil {
				return err
			}
			list = nil
		}
	}
	if lost > 0 {
		s.log.Info("store: calls of an earlier process have no outcome", "calls", lost)
	}
	if len(list) == 0 {
		return nil
	}
	return s.commit(list)
}

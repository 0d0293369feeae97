package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"headway/core"
)

// space is what a disk has, in bytes.
type space struct{ free, total int64 }

// room watches the disk, keeps the ballast, and keeps Badger from making files
// while the disk is full.
//
// Badger writes a table by making a file of its length and copying into its
// memory map, which kills the process where the disk has no block to give; and a
// compaction loses a table whose file it could not make, unless it then also
// fails to sync the folder. So the folder is renamed while the disk is full: what
// is open stays in use, and new files fail at once and cleanly. A flush is tried
// again every second, a compaction is given up with its inputs in place. The
// name comes back only when no compaction is under way.
type room struct {
	path, away string // of Badger's folder, and what it is renamed to
	ballastAt  string
	max        int64                  // the most that the ballast takes
	space      func() (space, error)  // of the disk; a field so that tests can fill it
	short      atomic.Pointer[string] // how much is free, where that is too little
	compacting atomic.Bool            // set before look is asked whether a compaction may begin

	hurry chan struct{} // Badger is about to write a table

	// commits is held for reading by each commit, and not while the folder is renamed: one
	// that cannot make Badger's next log has Badger end the process.
	commits *sync.RWMutex

	mu       sync.Mutex // guards what follows, and the files' names
	held     int64      // bytes of ballast on the disk
	gone     bool       // the folder is renamed
	logFile  int        // the number of Badger's newest write-ahead log
	logBytes int64      // the most that it writes into one
}

// floor is the free space below which nothing is written: room for a memory
// table's log, its flush and the compactions that follow, or an eighth of a
// small disk.
func floor(total int64) int64 { return min(64<<20, total/8) }

// ballast is how much is kept aside on a disk of that size.
func (r *room) ballast(total int64) int64 { return min(r.max, total/16) }

// open takes over what an earlier process left.
func (r *room) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := os.Stat(r.path); errors.Is(err, os.ErrNotExist) {
		if err := os.Rename(r.away, r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	st, err := os.Stat(r.ballastAt)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	sp, err := r.space()
	if err != nil {
		return err
	}
	if st.Size() == r.ballast(sp.total) {
		r.held = st.Size()
		return nil
	}
	return os.Remove(r.ballastAt) // of other settings, or half made
}

func mib(n int64) string { return strconv.FormatInt(n>>20, 10) + " MiB" }

// look takes the measure of the disk; an error says that nothing may be written
// now. It gives the ballast up below the floor and takes it again when there is
// room for it and some to spare, so that the space which the ballast itself set
// free is not taken for the end of the shortage. changed: it was not so before.
func (r *room) look() (changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.short.Load()
	sp, err := r.space()
	if err != nil {
		return false, r.refusal() // a disk that cannot be measured is as it was
	}
	least := floor(sp.total)
	enough := least + r.ballast(sp.total) + least/8
	ok := r.held > 0 && sp.free >= least
	switch {
	case sp.free < least:
		r.drop()
	case r.held == 0 && sp.free >= enough:
		ok = r.take(r.ballast(sp.total)) == nil
	}
	if ok && r.back() {
		r.short.Store(nil)
		return was != nil, nil
	}
	if !r.gone && r.commits.TryLock() { // else with a later look
		r.gone = os.Rename(r.path, r.away) == nil
		r.commits.Unlock()
	}
	text := mib(sp.free) + " free, " + mib(enough) + " needed"
	r.short.Store(&text)
	return was == nil, fullError(text)
}

// there is an error where the folder is renamed; r.commits is held.
func (r *room) there() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return r.refusal()
	}
	return nil
}

// back gives Badger its folder back; false: not now.
func (r *room) back() bool {
	if r.gone && !r.compacting.Load() {
		r.gone = os.Rename(r.away, r.path) != nil
	}
	return !r.gone
}

// logs gives each new write-ahead log of Badger's its blocks, so that a commit
// into it finds them whatever becomes of the disk. It is asked after each commit,
// which may have begun one; the old one is then about to become a table.
func (r *room) logs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Commits at the same time can have begun several.
	for n := r.logFile + 1; n <= r.logFile+3 && !r.gone; n++ {
		f, err := os.OpenFile(filepath.Join(r.path, fmt.Sprintf("%05d.mem", n)), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		reserve(f, r.logBytes) // without the space, look finds the disk full
		_ = f.Close()
		r.logFile = n
		select {
		case r.hurry <- struct{}{}:
		default:
		}
	}
}

// drop gives the ballast up. What that does not free, the next look shows.
func (r *room) drop() {
	if r.held > 0 {
		_ = os.Remove(r.ballastAt)
		r.held = 0
	}
}

func (r *room) take(n int64) error {
	f, err := os.OpenFile(r.ballastAt, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f, n), f.Close()); err != nil {
		return errors.Join(err, os.Remove(r.ballastAt))
	}
	r.held = n
	return nil
}

// fits tells whether the disk has that much, the ballast given up where needed,
// and gives Badger its folder back: for the last writes before a stop.
func (r *room) fits(need int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		sp, err := r.space()
		if err != nil || sp.free >= min(need, floor(sp.total)) {
			return r.back()
		}
		if r.held == 0 {
			return false
		}
		r.drop()
	}
}

// refusal is nil while there is room.
func (r *room) refusal() error {
	if text := r.short.Load(); text != nil {
		return fullError(*text)
	}
	return nil
}

func fullError(text string) error {
	return &core.Error{
		Kind: core.Unavailable, Msg: "receipts cannot be kept: the disk of the data folder is full (" + text + ")",
		Hint: "free some space; a server that runs then goes on by itself", RetryAfter: 5 * time.Second,
	}
}

// look is room.look with a word in the log where the state changes.
func (s *Store) look() error {
	changed, err := s.room.look()
	switch {
	case changed && err != nil:
		s.log.Warn("store: the disk is full, receipts wait in memory", "err", err)
	case changed:
		s.log.Info("store: the disk has room again")
	}
	return err
}

// write fills a file where the disk cannot be asked to reserve it. The bytes are
// random, since some disks keep zeros for nothing.
func write(f *os.File, n int64) error {
	var block [64 << 10]byte
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	for ; n > 0; n -= int64(len(block)) {
		if _, err := f.Write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}

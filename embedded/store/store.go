// Package store keeps receipts and small named records in Badger: it is the
// [core.Book] and the [core.Vault] of a running Headway.
//
// # What is durable when
//
// A call is opened before it is dispatched: its intent goes to an append-only
// file without a sync, so it survives the process but not the power. Its receipt
// goes through a queue to one writer, which commits what is waiting in groups;
// each commit is synced. What [Store.Receipt] answers has been synced (SPEC §11).
// An intent that has no receipt when the store is opened becomes a receipt with
// outcome lost, so every dispatched call has exactly one.
//
// # Layout of the folder
//
//	version        "headway store 2"
//	lock           held with flock by the one process that uses the folder
//	intents.spare  an empty one of the next
//	intents-N.log  what was dispatched: one JSON object a line, on each side a line end
//	ballast        disk space that is given up when the disk is full
//	db/            Badger's own files; db.away/ while the disk is full
//
// # Layout of the keys
//
//	r/<YYYY-MM>/<call id>       a receipt as JSON, packed (pack.go); the month is that of the id's own time
//	rj/<job>\x00<call id>       calls of a job, where the job is not the call itself
//	rl/<call id>                a lost receipt that the Recorder has not been told of yet
//	v/<kind>/<name>             a record of the Vault
//	z/<name, mirrored>          one of the kind [core.KindLeaves]
//	w/<any key of the above>    its witness: the CRC-32C of that key's value
//	x/purge                     nothing; Purge sets and drops it (erase.go)
//
// Months come first so that old receipts (and w/r/<YYYY-MM>/) lie side by side when
// they are dropped (retention.go). A job name of more than 256 bytes is kept as its
// SHA-256.
//
// A compaction rewrites all that lies between a new table's first and last key. So what
// grows for ever stays outside: new receipts come behind the older ones, which sort
// before everything else, and new leaves before the older ones, which sort behind it.
// What is rewritten each time is the rest: the witnesses, 25 bytes of a receipt.
//
// # Damage
//
// Badger answers "no such key" for a key in a block that it cannot read, and
// leaves out what follows such a block when it compacts. So each key has its
// witness in another part of the key space: a record without its witness, a
// witness without its record or a wrong sum is reported as Unavailable, never as
// missing (SPEC §23). Open refuses a store whose tables' indexes or manifest are
// damaged, or one of whose newest tables is; a store with another damaged table
// works on, but is not compacted any more. What is not seen here is damage to the write-ahead log
// of a process that was killed: Badger cannot tell it from a torn end. The signed
// log of receipts shows that.
//
// # A full disk
//
// Badger writes through memory maps, where a full disk kills the process instead
// of failing a write. The store therefore looks at the free space before each
// commit and several times a second. Below a floor it stops committing, refuses
// new calls, keeps in memory what waits, takes Badger's folder out of its way so
// that it makes no files, and gives up the ballast so that what it has in hand can
// end; it goes on by itself once space is back. Compactions are begun by the store
// alone, never by Badger, so that none begins on a full disk. What is left is the
// moment in which another process takes the last block while Badger copies a table
// of a few hundred KiB: that kills the process, and loses nothing acknowledged.
package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"

	"headway/core"
)

const (
	defaultLogFile = 64 << 20
	minLogFile     = 1 << 20
	maxLogFile     = 1 << 30
)

// Options are how a store is opened.
type Options struct {
	// LogFileBytes bounds a log file of the store (store.log_file_bytes, SPEC
	// §24): 1 MiB to 1 GiB, 0 means 64 MiB. The sizes of the write-ahead log and
	// of the ballast follow from it.
	LogFileBytes int64
	Clock        core.Clock
	Log          *slog.Logger
	// Recorder, where there is one, is told of each receipt; see SetRecorder.
	Recorder core.Recorder
}

// Store is one opened folder. All methods may be called concurrently.
type Store struct {
	dir      string
	clock    core.Clock
	log      *slog.Logger
	lock     *os.File
	db       *badger.DB
	maxBatch int // bytes of receipts in one commit
	recorder core.Recorder
	group    time.Duration // how long the writer waits for more receipts
	notes    sync.Pool     // of *note
	// The encoders give what encoding/json does.
	encodeReceipt, encodeIntent encoder
	packer                      packer
	commit                      func([]entry) error // apply, but for tests that make it fail
	room                        room
	wake                        chan struct{} // tells the writer that there is something to do
	awaited                     chan struct{} // and that somebody waits for it
	closing                     chan struct{}
	tables                      *verifier     // used by the one compaction that is under way
	damaged                     atomic.Bool   // a table is: nothing is compacted any more
	running                     chan struct{} // a place for one: taken by Run, and by Close once Run has returned
	users                       sync.WaitGroup

	keep      atomic.Pointer[core.Retention] // nil: all is kept
	rewriting sync.Mutex                     // held while kept receipts are written anew or dropped, from the first read on

	dropping sync.RWMutex // held for reading by each commit, as Badger refuses some while it flushes for Purge; room.commits

	sick atomic.Pointer[core.Error] // why the last commit failed; nil: it did not

	// mu guards what follows.
	mu      sync.Mutex
	closed  bool
	queue   []waiting
	queued  int           // handed over and not yet durable; the queue is a part of them
	durable uint64        // of those that were handed over since Open
	caught  chan struct{} // closed, and made anew, whenever some have become durable
	open    map[core.CallID]*generation
	current *generation
	spare   *generation // nil: none

	// pending and batch belong to the writer (or to Close after it).
	pending []waiting
	batch   *batch
	signing string // why what is durable is not signed; "": it is, or nobody signs
	text    []byte // the receipts of the batch, packed
	plain   []byte // one of them before
}

var (
	_ core.Book  = (*Store)(nil)
	_ core.Vault = (*Store)(nil)
)

// Open opens the store in dir, which it makes (mode 0700) where there is none.
// Calls that an earlier process dispatched and did not account for have a durable
// receipt with outcome lost when it returns. It refuses, with a sentence that
// names the folder: a folder in use, one that is not a store, one of a newer
// version, a damaged one, a disk without room.
func Open(dir string, o Options) (*Store, error) { return open(dir, o, verifyBytes) }

func open(dir string, o Options, verify int64) (*Store, error) {
	logFile := o.LogFileBytes
	if logFile == 0 {
		logFile = defaultLogFile
	}
	if logFile < minLogFile || logFile > maxLogFile {
		return nil, core.Field("store.log_file_bytes", "%d is not between %d and %d", logFile, minLogFile, maxLogFile)
	}
	lock, err := claim(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: dir, clock: o.Clock, log: o.Log, lock: lock, recorder: o.Recorder, group: gatherFor, notes: sync.Pool{New: func() any { return new(note) }},
		encodeReceipt: encoderOf(reflect.TypeFor[core.Receipt]()), encodeIntent: encoderOf(reflect.TypeFor[core.Intent]()), packer: newPacker(),
		wake: make(chan struct{}, 1), awaited: make(chan struct{}, 1), caught: make(chan struct{}), closing: make(chan struct{}), running: make(chan struct{}, 1), open: map[core.CallID]*generation{},
	}
	s.commit = s.apply
	s.room.path, s.room.away = filepath.Join(dir, "db"), filepath.Join(dir, "db.away")
	s.room.ballastAt, s.room.max = filepath.Join(dir, "ballast"), min(logFile/2, 32<<20)
	s.room.hurry, s.room.commits = make(chan struct{}, 1), &s.dropping
	s.room.space = func() (space, error) { return diskSpace(dir) }
	if err := s.start(logFile, verify); err != nil {
		_ = lock.Close()
		return nil, err
	}
	debug.FreeOSMemory() // what was read for the checks would stay for minutes, half of an idle process
	return s, nil
}

func (s *Store) start(logFile, verify int64) error {
	if err := s.room.open(); err != nil {
		return asError(err, "%s cannot be used", s.dir)
	}
	if err := s.look(); err != nil {
		return err
	}
	memTable := min(max(logFile/4, 4<<20), 8<<20)
	s.maxBatch = int(memTable * 15 / 100 / 2) // half of what Badger takes in one transaction
	path := s.room.path
	if err := sweep(path); err != nil {
		return asError(err, "%s cannot be read", path)
	}
	made := filepath.Join(s.dir, madeName)
	if err := whole(path, made); err != nil {
		return damagedFolder(s.dir, err)
	}
	db, err := openBadger(settings(path, memTable).WithLogger(quiet{s.log, &s.room}))
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return asError(err, "%s cannot be opened", s.dir)
	}
	if err != nil {
		return damagedFolder(s.dir, err)
	}
	s.db = db
	if err := mark(made); err != nil {
		_ = closeBadger(db)
		return asError(err, "%s cannot be written", s.dir)
	}
	if err := s.prove(memTable, verify); err != nil {
		_ = closeBadger(db) // the first error is the one to tell
		return err
	}
	return nil
}

// prove makes a Badger that has just been opened fit for use.
func (s *Store) prove(memTable, verify int64) error {
	newest, err := newestLog(s.room.path)
	if err != nil {
		return asError(err, "%s cannot be read", s.room.path)
	}
	s.room.logFile = newest - 1
	s.room.logBytes = memTable * 5 / 4 // it is full at memTable, and then takes one more batch
	s.room.logs()
	s.tables = newVerifier(s.db, s.room.path)
	if err := s.tables.check(s.db, verify, func() bool { return true }); err != nil {
		return damagedFolder(s.dir, err)
	}
	return s.repair()
}

// SetRecorder sets who is told of each receipt, and tells it of those that Open
// made: what a key has spent is known before its next call comes. It must be called
// before Run, which does what the disk does not take now.
func (s *Store) SetRecorder(r core.Recorder) {
	s.recorder = r
	s.tellLost(func() bool {
		if s.look() != nil {
			return false
		}
		if err := s.commit(s.batch.entries); err != nil {
			s.failed(err)
			return false
		}
		s.committed()
		return true
	})
}

// Healthy is nil while receipts can be made durable, else an Unavailable error
// that is fit to be shown.
func (s *Store) Healthy() error {
	if err := s.room.refusal(); err != nil {
		return err
	}
	if err := s.sick.Load(); err != nil {
		return err
	}
	return nil
}

// Close ends Run, writes what is waiting, and gives the folder up. Receipts that
// cannot be written even now are told in the error; the next Open makes lost
// ones of them.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.closing)
	s.running <- struct{}{}
	defer func() { <-s.running }()
	s.users.Wait()
	err := s.flush()
	if !s.room.fits(2 * s.db.Opts().MemTableSize) {
		// Badger would write its last table through a memory map and kill the
		// process. Everything is in its synced log; the lock goes with the process.
		s.log.Warn("store left open: its disk is full")
		return err
	}
	s.mu.Lock()
	s.retire(s.current)
	if s.spare != nil {
		s.spare.end()
	}
	s.mu.Unlock()
	if e := errors.Join(closeBadger(s.db), s.lock.Close()); err == nil {
		err = asError(e, "%s cannot be closed", s.dir)
	}
	return err
}

// enter counts a user of the database, so that Close does not take it away
// underneath; leave is called where it returned nil.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	s.users.Add(1)
	return nil
}

func (s *Store) leave() { s.users.Done() }

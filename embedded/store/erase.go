package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"headway/core"
)

// Erase takes out of durable receipts whose they were (core.Book), in one transaction
// with what changes in the vault. The old values are in the store's files still: Purge
// drops them.
func (s *Store) Erase(ids []core.CallID, puts, deletes []core.Record) error {
	list, err := vaultEntries(puts, deletes)
	if err != nil {
		return err
	}
	pack := newPacker() // the store's own is the writer's
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	for _, id := range ids {
		value, err := s.get(receiptKey(id))
		if err != nil {
			return readError("receipt "+string(id), err)
		}
		if value == nil {
			continue
		}
		r, err := s.decode(id, value)
		if err != nil {
			return err
		}
		if r.Job != "" && string(r.Job) != string(r.ID) {
			list = unset(list, []byte(jobKeys(r.Job)+string(r.ID)))
		}
		list = set(list, receiptKey(id), pack.pack(nil, s.encodeReceipt(nil, reflect.ValueOf(r.Erased()).Elem())))
	}
	size := 0
	for _, e := range list {
		size += len(e.key) + len(e.value) + 64
	}
	if size > s.maxBatch && len(ids) > 1 || len(list) > 2*mostRecords+8*len(ids) {
		return core.Errorf(core.TooLarge, "%d receipts are too many to be erased at once", len(ids))
	}
	if len(list) == 0 {
		return nil
	}
	return s.change(list)
}

// purgeKey is written and dropped so that Badger flushes what it has in memory. Nothing
// else is behind it.
const purgeKey = "x/purge"

// mostRounds bounds how often Purge compacts: once is enough but where somebody was
// reading meanwhile.
const mostRounds = 200

// Purge drops what was overwritten or deleted from all files of the store (core.Book).
//
// Badger keeps older values in its write-ahead log until its table in memory is
// written, and in its tables until a compaction comes by; one that comes by while
// somebody reads keeps what that reader may ask for. So it is done until a look at every
// version of every key says that it is done. Commits wait while the table in memory is
// written.
func (s *Store) Purge(ctx context.Context, progress func(string)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	say := func(format string, args ...any) {
		if progress != nil {
			progress(fmt.Sprintf(format, args...))
		}
	}
	say("waiting for the calls that are under way")
	if err := s.purgeIntents(ctx); err != nil {
		return err
	}
	until, oldest := s.now(), 0
	for round := 0; ; round++ {
		say("rewriting the store's files")
		var err error
		if oldest, err = s.rewrite(ctx); err != nil {
			return err
		}
		say("looking for what is left")
		left, err := s.superseded(ctx, until)
		if err != nil {
			return asError(err, "the store cannot be looked through")
		}
		if len(left) == 0 {
			break
		}
		if round == mostRounds {
			return core.Errorf(core.Busy, "old values are read all the time, so they cannot be dropped")
		}
		// A table that nothing lies over is not compacted: what is there now is written
		// over it once more.
		if err := s.touch(left); err != nil {
			return asError(err, "the store cannot be rewritten")
		}
		if round > 0 {
			pause(ctx, firstWait)
		}
	}
	say("waiting for whoever still reads")
	return s.await(ctx, func() (bool, error) { return s.onlyLive(oldest) })
}

// now is the version of the last commit.
func (s *Store) now() uint64 {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	return txn.ReadTs()
}

// await asks until it is so.
func (s *Store) await(ctx context.Context, is func() (bool, error)) error {
	for {
		done, err := is()
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-s.closing:
			return errClosed()
		default:
			pause(ctx, firstWait)
		}
	}
}

// purgeIntents begins a new file of intents and waits until the older ones are gone,
// which each is once its calls have receipts.
func (s *Store) purgeIntents(ctx context.Context) error {
	s.mu.Lock()
	next, err := s.newGeneration(s.current.number + 1)
	if err == nil {
		if s.current.open == 0 {
			s.retire(s.current)
		}
		s.current = next
	}
	s.mu.Unlock()
	if err != nil {
		return asError(err, "a file of calls cannot be begun")
	}
	return s.await(ctx, func() (bool, error) {
		files, err := filepath.Glob(filepath.Join(escapeGlob(s.dir), "intents-*.log"))
		if err != nil {
			return false, err
		}
		for _, name := range files {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "intents-"), ".log"))
			if n < next.number {
				return false, nil
			}
		}
		return true, nil
	})
}

// rewrite writes the table in memory out, and compacts; the write-ahead logs before log
// are done with then.
func (s *Store) rewrite(ctx context.Context) (log int, err error) {
	err = s.await(ctx, func() (bool, error) {
		done, err := s.compacting(func() (err error) {
			if log, err = s.flushMemory(); err != nil {
				return err
			}
			return s.db.Flatten(1)
		})
		return done, asError(err, "the store cannot be rewritten")
	})
	return log, err
}

// flushMemory makes Badger write its table in memory, and merge the newest tables into
// the older ones. Only its dropping of a prefix does that, which refuses commits
// meanwhile: here they wait. log is the write-ahead log that is begun.
func (s *Store) flushMemory() (log int, err error) {
	defer caught(&err)
	s.dropping.Lock()
	defer s.dropping.Unlock()
	if err := s.room.there(); err != nil {
		return 0, err
	}
	if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set([]byte(purgeKey), []byte{1}) }); err != nil {
		return 0, err
	}
	if err := s.db.DropPrefix([]byte(purgeKey)); err != nil {
		return 0, err
	}
	log, err = newestLog(s.room.path)
	s.room.logs()
	return log, err
}

// stale is a key of which there is an older version than the newest.
type stale struct {
	key     []byte
	deleted bool
}

// mostStale bounds how many of these are gone after at once.
const mostStale = 1000

// superseded gives keys of which an older version is in a file though the newer one was
// written before a time, or that were deleted before it and are there still.
func (s *Store) superseded(ctx context.Context, until uint64) (left []stale, err error) {
	defer caught(&err)
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	o := badger.DefaultIteratorOptions
	o.AllVersions, o.PrefetchValues = true, false
	it := txn.NewIterator(o)
	defer it.Close()
	var last []byte // the key of which a version was seen that was written in time
	var deleted bool
	for n := 0; len(left) < mostStale; it.Next() {
		if n == 0 {
			it.Rewind()
		}
		if n++; n%4096 == 0 {
			select {
			case <-s.closing:
				return nil, errClosed()
			default:
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if !it.Valid() {
			break
		}
		item := it.Item()
		key := item.Key()
		switch {
		case string(key) == purgeKey || bytes.HasPrefix(key, []byte("!badger!")):
		case last != nil && bytes.Equal(key, last):
			left = append(left, stale{bytes.Clone(key), deleted})
			last = nil
		case item.Version() <= until:
			if last, deleted = append(last[:0], key...), item.IsDeletedOrExpired(); deleted {
				left = append(left, stale{bytes.Clone(key), true})
				last = nil
			}
		}
	}
	return left, nil
}

// touch writes the values of keys again as they are.
func (s *Store) touch(left []stale) error {
	s.dropping.Lock() // nobody writes meanwhile
	defer s.dropping.Unlock()
	for _, x := range left {
		err := s.db.Update(func(txn *badger.Txn) error {
			if x.deleted {
				return txn.Delete(x.key)
			}
			value, err := read(txn, x.key)
			if err != nil {
				return err
			}
			if value == nil {
				return txn.Delete(x.key)
			}
			return txn.Set(x.key, value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// onlyLive tells whether Badger's folder has no table that is done with, and no
// write-ahead log before one: what somebody was reading is there until then.
func (s *Store) onlyLive(log int) (bool, error) {
	live := map[uint64]bool{}
	newest := uint64(0)
	for _, t := range s.db.Tables() {
		live[t.ID] = true
		newest = max(newest, t.ID)
	}
	names, err := os.ReadDir(s.room.path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // the disk is full: the folder is out of the way
	}
	if err != nil {
		return false, asError(err, "%s cannot be read", s.room.path)
	}
	for _, n := range names {
		if id, ok := table.ParseFileID(n.Name()); ok && id <= newest && !live[id] {
			return false, nil
		}
		text, is := strings.CutSuffix(n.Name(), ".mem")
		if id, err := strconv.Atoi(text); is && err == nil && id < log {
			return false, nil
		}
	}
	return true, nil
}

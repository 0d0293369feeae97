package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4"
)

// entry is one change: a value set, or a key deleted where value is nil.
type entry struct{ key, value []byte }

const witnessPrefix = "w/"

func witnessOf(key []byte) []byte { return append([]byte(witnessPrefix), key...) }

func sum(value []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)))
}

// set adds a value and its witness; value must not be nil.
func set(list []entry, key, value []byte) []entry {
	return append(list, entry{key, value}, entry{witnessOf(key), sum(value)})
}

// unset adds the removal of a value and its witness.
func unset(list []entry, key []byte) []entry {
	return append(list, entry{key, nil}, entry{witnessOf(key), nil})
}

// apply writes the entries in one synced transaction. More than Badger takes in
// one (a tenth of a memory table's size) goes in several, in order.
func (s *Store) apply(list []entry) error {
	s.dropping.RLock()
	defer s.dropping.RUnlock()
	if err := s.room.there(); err != nil {
		return err
	}
	defer s.room.logs()
	txn := s.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	put := func(e entry) error {
		if e.value == nil {
			return txn.Delete(e.key)
		}
		return txn.Set(e.key, e.value)
	}
	for _, e := range list {
		err := put(e)
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err := txn.Commit(); err != nil {
				return err
			}
			txn = s.db.NewTransaction(true)
			err = put(e)
		}
		if err != nil {
			return err
		}
	}
	return txn.Commit()
}

// errWrong is the cause where a record and its witness do not agree.
var errWrong = errors.New("a record and its sum do not agree")

// get reads a value; nil, nil: there is none. What is there and cannot be read is
// an error, for which the caller finds the words.
func (s *Store) get(key []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.fetch(key)
}

// fetch is get for the writer, which works while the store is being closed.
func (s *Store) fetch(key []byte) (value []byte, err error) {
	defer caught(&err)
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	value, err = read(txn, key)
	if err != nil {
		return nil, err
	}
	want, err := read(txn, witnessOf(key))
	if err != nil {
		return nil, err
	}
	if value == nil && want == nil {
		return nil, nil
	}
	if value == nil || !bytes.Equal(want, sum(value)) {
		return nil, errWrong
	}
	return value, nil
}

func read(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy([]byte{})
}

// scan reads the values of the keys from lo (included) to hi (excluded), in
// reverse from the last to the first, until yield returns false. Keys and values
// are valid until yield returns. It ends with an error at the first one that
// cannot be read, and when the store is closed.
func (s *Store) scan(lo, hi []byte, reverse bool, yield func(key, value []byte) bool) error {
	return s.scanAll([]span{{lo, hi, reverse}}, yield)
}

// span are the keys from lo (included) to hi (excluded), in reverse from the last to the
// first.
type span struct {
	lo, hi  []byte
	reverse bool
}

// scanAll is scan of several spans, one after another, as they are at one moment.
func (s *Store) scanAll(spans []span, yield func(key, value []byte) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	closed := false
	err := s.walk(spans, func(key, value []byte) bool {
		select {
		case <-s.closing:
			closed = true
			return false
		default:
			return yield(key, value)
		}
	})
	if closed {
		return errClosed()
	}
	return err
}

// walk is scanAll for the writer, which works while the store is being closed.
func (s *Store) walk(spans []span, yield func(key, value []byte) bool) (err error) {
	yielding := false // a panic of the caller's is none of Badger's
	defer func() {
		if !yielding {
			if p := recover(); p != nil {
				err = panicError(p)
			}
		}
	}()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	for _, sp := range spans {
		more, err := walkIn(txn, sp, func(key, value []byte) bool {
			yielding = true
			more := yield(key, value)
			yielding = false
			return more
		})
		if !more || err != nil {
			return err
		}
	}
	return nil
}

// walkIn walks one span; false: yield wants no more.
func walkIn(txn *badger.Txn, sp span, yield func(key, value []byte) bool) (more bool, err error) {
	records := newCursor(txn, sp)
	defer records.it.Close()
	witnesses := newCursor(txn, span{witnessOf(sp.lo), witnessOf(sp.hi), sp.reverse})
	defer witnesses.it.Close()
	var value, want []byte
	for {
		key, ok := records.key()
		witness, also := witnesses.key()
		if !ok && !also {
			return true, nil
		}
		if ok != also || !bytes.Equal(key, witness[len(witnessPrefix):]) {
			return false, errWrong
		}
		if value, err = records.it.Item().ValueCopy(value); err != nil {
			return false, err
		}
		if want, err = witnesses.it.Item().ValueCopy(want); err != nil {
			return false, err
		}
		if !bytes.Equal(want, sum(value)) {
			return false, errWrong
		}
		if !yield(key, value) {
			return false, nil
		}
		records.it.Next()
		witnesses.it.Next()
	}
}

// cursor walks the keys of a span.
type cursor struct {
	it *badger.Iterator
	span
}

func newCursor(txn *badger.Txn, sp span) cursor {
	o := badger.DefaultIteratorOptions
	o.Reverse = sp.reverse
	o.PrefetchValues = false // they are beside their keys
	c := cursor{txn.NewIterator(o), sp}
	if !sp.reverse {
		c.it.Seek(sp.lo)
		return c
	}
	c.it.Seek(sp.hi) // the last key that is not above hi
	if c.it.Valid() && bytes.Equal(c.it.Item().Key(), sp.hi) {
		c.it.Next()
	}
	return c
}

func (c cursor) key() ([]byte, bool) {
	if !c.it.Valid() {
		return nil, false
	}
	key := c.it.Item().Key()
	return key, bytes.Compare(key, c.lo) >= 0 && bytes.Compare(key, c.hi) < 0
}

// after is the first key behind every key with the prefix.
func after(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

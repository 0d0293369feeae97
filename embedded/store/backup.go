package store

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/s2"

	"headway/core"
)

// A copy of the store is a row of chunks. Each is s2 (the block format) of records,
// one behind the other:
//
//	uvarint  the key's length, then the key, as it was in version 1 of the store
//	uvarint  the value's length, then the value
//
// There are no witnesses in it: they are made anew. It is not Badger's own backup,
// which leaves out without a word what is in a block that cannot be read, and takes
// tens of MiB of memory for each of its goroutines.
const (
	chunkSize    = 1 << 20 // of the records in a chunk, before they are packed; one record may come on top
	longestChunk = chunkSize + maxValue + 64<<10
)

// Copy hands out all that is kept, as it is at one moment, in chunks until yield
// returns an error; a chunk is yield's only until it returns. What has expired is left
// out. The writer goes on meanwhile. Unavailable: something cannot be read, so that
// there is no whole copy.
func (s *Store) Copy(ctx context.Context, yield func(chunk []byte) error) error {
	receipts, _ := s.kept()
	var plain, packed []byte
	var bad error
	flush := func() bool {
		if bad = ctx.Err(); bad == nil && len(plain) > 0 {
			packed = s2.Encode(packed[:cap(packed)], plain)
			bad, plain = yield(packed), plain[:0]
		}
		return bad == nil
	}
	all := []span{{lo: []byte(receiptPrefix), hi: after(vaultPrefix)}, {lo: []byte(leavesPrefix), hi: after(leavesPrefix), reverse: true}}
	err := s.scanAll(all, func(key, value []byte) bool {
		if key[0] == receiptPrefix[0] && expiredKey(receiptPrefix, key, receipts) {
			return true
		}
		key = keyOfOne(key)
		plain = append(binary.AppendUvarint(plain, uint64(len(key))), key...)
		plain = append(binary.AppendUvarint(plain, uint64(len(value))), value...)
		return len(plain) < chunkSize || flush()
	})
	switch {
	case bad != nil:
		return bad
	case err != nil:
		return readError("a record", err)
	}
	flush()
	return bad
}

// Load makes a store in dir, which must be empty or not there, of the chunks of a copy,
// which next gives until it gives none. It is durable and closed when Load returns;
// where that is with an error it is not whole, and to be removed.
func Load(ctx context.Context, dir string, o Options, next func() (chunk []byte, err error)) (records int64, err error) {
	s, err := Open(dir, o)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return records, err
		}
		chunk, err := next()
		if err != nil || chunk == nil {
			return records, err
		}
		list, err := unpackChunk(chunk)
		if err != nil {
			return records, err
		}
		if err := s.change(list); err != nil {
			return records, err
		}
		records += int64(len(list) / 2)
		s.compactIfDue(ctx)
	}
}

// unpackChunk gives the records of a chunk and their witnesses.
func unpackChunk(chunk []byte) (list []entry, err error) {
	broken := core.Errorf(core.Invalid, "this is no part of a store")
	if n, err := s2.DecodedLen(chunk); err != nil || n > longestChunk {
		return nil, broken
	}
	plain, err := s2.Decode(nil, chunk)
	if err != nil {
		return nil, broken
	}
	take := func() []byte {
		n, width := binary.Uvarint(plain)
		if width <= 0 || n > uint64(len(plain)-width) {
			err = broken
			return nil
		}
		part := plain[width : width+int(n) : width+int(n)]
		plain = plain[width+int(n):]
		return part
	}
	for len(plain) > 0 {
		key, value := take(), take()
		if err != nil || len(key) == 0 || value == nil {
			return nil, broken
		}
		list = set(list, keyNow(key), value)
	}
	return list, nil
}

// InUse tells whether a process has the store of a folder open.
func InUse(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	free, err := tryLock(lock)
	return errors.Join(err, lock.Close()) == nil && !free
}

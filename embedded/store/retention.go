package store

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"headway/core"
)

// What has expired (core.Kept) is never read, from the moment on at which it does,
// and is deleted later, in batches: not with Badger's DropPrefix, which makes every
// write fail that comes meanwhile, writes its tables whatever the disk has, and cannot
// take a receipt and its witness at once, so that a kill in between would leave
// damage. A batch is a commit like any other. What it deletes gives its space back
// when it is compacted: in the course of time, or by Purge at once.
const (
	dropAtOnce  = 512 // keys of one batch
	stripAtOnce = 256 // receipts of one batch, which are written anew
)

// Keep sets for how long receipts and their measurements are kept. What has expired by
// the store's clock is not read any more.
func (s *Store) Keep(r core.Retention) { s.keep.Store(&r) }

// kept are the times since when receipts and measurements are kept now.
func (s *Store) kept() (receipts, measurements time.Time) {
	r := s.keep.Load()
	if r == nil || !r.Receipts.OK && !r.Measurements.OK {
		return time.Time{}, time.Time{}
	}
	now := s.clock()
	return core.Kept(r.Receipts, now), core.Kept(r.Measurements, now)
}

// DropReceipts deletes the receipts of calls of before a time, with what the store
// itself has under their ids, and tells how many; Purge then takes them out of the files. Where
// it ends with an error (Unavailable on a full disk) the rest is there still, and the
// next one goes on. It reads keys alone, so that damage keeps nothing alive.
func (s *Store) DropReceipts(ctx context.Context, before time.Time) (dropped int, err error) {
	ids := func(prefix string) func(key []byte) bool {
		return func(key []byte) bool { return expiredKey(prefix, key, before) }
	}
	// The index first: it is gone through only while there are receipts to drop.
	some, err := s.keysOf([]byte(receiptPrefix), receiptsFrom(before), 1, ids(receiptPrefix))
	if err != nil {
		return 0, err
	}
	witnesses, err := s.keysOf(witnessOf([]byte(receiptPrefix)), witnessOf(receiptsFrom(before)), 1, ids(witnessPrefix+receiptPrefix))
	if err != nil || len(some)+len(witnesses) == 0 {
		return 0, err
	}
	for _, prefix := range []string{jobPrefix, lostPrefix} {
		if _, err := s.drop(ctx, []byte(prefix), after(prefix), ids(prefix)); err != nil {
			return 0, err
		}
	}
	dropped, err = s.drop(ctx, []byte(receiptPrefix), receiptsFrom(before), ids(receiptPrefix))
	if err == nil { // of receipts that are damaged or gone
		lo, hi := witnessOf([]byte(receiptPrefix)), witnessOf(receiptsFrom(before))
		_, err = s.drop(ctx, lo, hi, ids(witnessPrefix+receiptPrefix))
	}
	return dropped, err
}

// expiredKey tells whether a key ends with the id of a call of before a time.
func expiredKey(prefix string, key []byte, before time.Time) bool {
	n := len(key) - callIDLen
	return n >= len(prefix) && core.CallID(key[n:]).Expired(before)
}

// drop deletes the keys from lo to hi that are meant, each with its witness.
func (s *Store) drop(ctx context.Context, lo, hi []byte, meant func(key []byte) bool) (dropped int, err error) {
	for lo != nil {
		n, next, err := s.dropSome(ctx, lo, hi, meant)
		dropped += n
		if err != nil {
			return dropped, err
		}
		lo = next
	}
	return dropped, nil
}

// dropSome is one batch of drop; next is where the one after it begins, nil: nowhere.
func (s *Store) dropSome(ctx context.Context, lo, hi []byte, meant func(key []byte) bool) (n int, next []byte, err error) {
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	keys, err := s.keysOf(lo, hi, dropAtOnce, meant)
	if err != nil || len(keys) == 0 {
		return 0, nil, err
	}
	var list []entry
	for _, key := range keys {
		if record, found := cutWitness(key); found {
			key = record
		}
		list = unset(list, key)
	}
	if err := s.forget(ctx, list); err != nil {
		return 0, nil, err
	}
	return len(keys), behind(keys), nil
}

// behind is the first key behind the last of some.
func behind(keys [][]byte) []byte { return append(slices.Clone(keys[len(keys)-1]), 0) }

func cutWitness(key []byte) ([]byte, bool) {
	if len(key) > len(witnessPrefix) && string(key[:len(witnessPrefix)]) == witnessPrefix {
		return key[len(witnessPrefix):], true
	}
	return key, false
}

// forget commits one batch, if the disk has room for it.
func (s *Store) forget(ctx context.Context, list []entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.change(list)
}

// keysOf gives the first keys that are meant, most of them at most.
func (s *Store) keysOf(lo, hi []byte, most int, meant func(key []byte) bool) (keys [][]byte, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	defer func() {
		if err != nil {
			err = asError(err, "what has expired cannot be found")
		}
	}()
	defer caught(&err)
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	c := newCursor(txn, span{lo: lo, hi: hi})
	defer c.it.Close()
	for ; len(keys) < most; c.it.Next() {
		key, ok := c.key()
		if !ok {
			break
		}
		select {
		case <-s.closing:
			return nil, errClosed()
		default:
		}
		if meant(key) {
			keys = append(keys, slices.Clone(key))
		}
	}
	return keys, nil
}

// stripped is the record that says since when measurements are kept: receipts of before
// have none any more.
const (
	retentionKind = "retention"
	stripped      = "measurements"
)

// DropMeasurements takes what is not charged (core.Annex) out of the receipts of calls
// of before a time, and tells of how many; Purge then takes them out of the files. Where it ends
// with an error the next one goes on. A receipt that cannot be read stays as it is.
func (s *Store) DropMeasurements(ctx context.Context, before time.Time) (dropped int, err error) {
	done, err := s.Get(retentionKind, stripped)
	if err != nil {
		return 0, err
	}
	mark := before.UTC().Format(time.RFC3339)
	if string(done) >= mark {
		return 0, nil
	}
	lo := []byte(receiptPrefix)
	if at, e := time.Parse(time.RFC3339, string(done)); e == nil {
		lo = receiptsFrom(at)
	}
	pack := newPacker() // the store's own is the writer's
	for {
		n, next, err := s.strip(ctx, pack, lo, receiptsFrom(before))
		dropped += n
		if err != nil {
			return dropped, err
		}
		if next == nil {
			break
		}
		lo = next
	}
	return dropped, s.Put(retentionKind, stripped, []byte(mark))
}

// strip is one batch of DropMeasurements, as dropSome is of drop.
func (s *Store) strip(ctx context.Context, pack packer, lo, hi []byte) (n int, next []byte, err error) {
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	some, next, err := s.some(lo, hi)
	if err != nil || next == nil {
		return 0, nil, err
	}
	var list []entry
	for _, e := range some {
		r, err := s.decode(idOf(e.key), e.value)
		if err != nil || reflect.ValueOf(r.Annex).IsZero() {
			continue // reading a damaged one says so
		}
		short := *r
		short.Annex = core.Annex{}
		list = set(list, e.key, pack.pack(nil, s.encodeReceipt(nil, reflect.ValueOf(&short).Elem())))
		n++
	}
	if len(list) == 0 {
		return 0, next, ctx.Err()
	}
	if err := s.forget(ctx, list); err != nil {
		return 0, nil, err
	}
	return n, next, nil
}

// some gives the first receipts from lo to hi that can be read, and the first key behind
// them; nil: there are no more.
func (s *Store) some(lo, hi []byte) (list []entry, next []byte, err error) {
	err = s.scan(lo, hi, false, func(key, value []byte) bool {
		list = append(list, entry{slices.Clone(key), slices.Clone(value)})
		return len(list) < stripAtOnce
	})
	if closed := (*core.Error)(nil); err == nil || errors.As(err, &closed) {
		if len(list) > 0 {
			next = append(slices.Clone(list[len(list)-1].key), 0)
		}
		return list, next, err
	}
	list = nil // something is damaged: one by one
	keys, err := s.keysOf(lo, hi, stripAtOnce, func([]byte) bool { return true })
	if err != nil || len(keys) == 0 {
		return nil, nil, err
	}
	for _, key := range keys {
		value, err := s.get(key)
		if closed := (*core.Error)(nil); errors.As(err, &closed) {
			return nil, nil, err
		}
		if err == nil && value != nil {
			list = append(list, entry{key, value})
		}
	}
	return list, behind(keys), nil
}

// idOf is the id in a receipt's key.
func idOf(key []byte) core.CallID { return core.CallID(key[len(receiptPrefix)+len("0000-00/"):]) }

package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"headway/core"
)

// Receipt reads one durable receipt (core.Book).
func (s *Store) Receipt(id core.CallID) (*core.Receipt, error) {
	receipts, measurements := s.kept()
	if id.Expired(receipts) {
		return nil, core.Errorf(core.NotFound, "there is no call %s", id)
	}
	value, err := s.get(receiptKey(id))
	if err == nil && value == nil {
		s.awaitReceipt(id)
		value, err = s.get(receiptKey(id))
	}
	if err != nil {
		return nil, readError("receipt "+string(id), err)
	}
	if value == nil {
		return nil, core.Errorf(core.NotFound, "there is no call %s", id)
	}
	r, err := s.decode(id, value)
	return hide(r, measurements), err
}

// awaitReceipt waits for the receipt of a call that is open, for as long as one takes
// that has just ended: its receipt is handed over behind the answer, and then gathered.
func (s *Store) awaitReceipt(id core.CallID) {
	late := time.NewTimer(3 * s.group)
	defer late.Stop()
	for {
		s.mu.Lock()
		_, open := s.open[id]
		caught := s.caught
		s.mu.Unlock()
		if !open {
			return
		}
		select {
		case <-caught:
		case <-late.C:
			return
		case <-s.closing:
			return
		}
	}
}

func (s *Store) decode(id core.CallID, value []byte) (*core.Receipt, error) {
	var r core.Receipt
	text, err := s.packer.unpack(value)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return nil, damagedRecord("receipt "+string(id), err)
	}
	return &r, nil
}

// hide takes out of a receipt what is kept no longer than it.
func hide(r *core.Receipt, measurements time.Time) *core.Receipt {
	if r != nil && r.ID.Expired(measurements) {
		r.Annex = core.Annex{}
	}
	return r
}

// Receipts reads durable receipts in the order of their ids (core.Book). It holds
// one receipt in memory and sees the store as it was when it began.
func (s *Store) Receipts(from, to time.Time, newest bool, yield func(*core.Receipt) bool) error {
	lo, hi := []byte(receiptPrefix), after(receiptPrefix)
	if !from.IsZero() {
		lo = receiptsFrom(from)
	}
	if !to.IsZero() {
		hi = receiptsFrom(to)
	}
	receipts, measurements := s.kept()
	if !receipts.IsZero() && from.Before(receipts) {
		lo = receiptsFrom(receipts)
	}
	if bytes.Compare(lo, hi) >= 0 {
		return nil
	}
	var bad error
	err := s.scan(lo, hi, newest, func(key, value []byte) bool {
		var r *core.Receipt
		if r, bad = s.decode(idOf(key), value); bad != nil {
			return false
		}
		return yield(hide(r, measurements))
	})
	if err != nil {
		return readError("a receipt", err)
	}
	return bad
}

// JobCalls gives the ids of a job's calls, oldest first (core.Book); none for a
// job that is not known.
func (s *Store) JobCalls(job core.JobID) ([]core.CallID, error) {
	var ids []core.CallID
	receipts, _ := s.kept()
	prefix := jobKeys(job)
	err := s.scan([]byte(prefix), after(prefix), false, func(key, _ []byte) bool {
		if len(key) == len(prefix)+callIDLen && !core.CallID(key[len(prefix):]).Expired(receipts) {
			ids = append(ids, core.CallID(key[len(prefix):]))
		}
		return true
	})
	if err != nil {
		return nil, readError("a job's calls", err)
	}
	// A call that named no job is its own, and has no entry in the index.
	if id := core.CallID(job); len(id) == callIDLen && !id.Expired(receipts) {
		own, err := s.get(receiptKey(id))
		if err != nil {
			return nil, readError("receipt "+string(id), err)
		}
		if own != nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// readError gives a failed read its words; one that has them keeps them.
func readError(what string, err error) error {
	if e, ok := err.(*core.Error); ok {
		return e
	}
	return damagedRecord(what, err)
}

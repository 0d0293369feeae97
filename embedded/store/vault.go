package store

import "headway/core"

// Get reads a record (core.Vault); nil, nil: there is none. One that is there and
// cannot be read is Unavailable.
func (s *Store) Get(kind, name string) ([]byte, error) {
	key, err := vaultKey(kind, name)
	if err != nil {
		return nil, err
	}
	value, err := s.get(key)
	if err != nil {
		return nil, readError("a "+kind+" record", err)
	}
	return value, nil
}

// Put keeps a record; it is durable when Put returns (core.Vault). A value has
// at most 256 KiB (TooLarge); nil is kept as an empty one. Unavailable: the disk
// is full, or the store cannot write.
func (s *Store) Put(kind, name string, value []byte) error {
	key, err := vaultKey(kind, name)
	if err != nil {
		return err
	}
	if len(value) > maxValue {
		return core.Errorf(core.TooLarge, "a %s record has at most %d bytes, not %d", kind, maxValue, len(value))
	}
	// Badger keeps the slices until its transaction is done, and never nil.
	return s.change(set(nil, key, append([]byte{}, value...)))
}

// Delete removes a record, durably; one that is not there is no error.
func (s *Store) Delete(kind, name string) error {
	key, err := vaultKey(kind, name)
	if err != nil {
		return err
	}
	return s.change(unset(nil, key))
}

const (
	// mostRecords and mostBytes of one Write fit into the smallest of Badger's
	// transactions, so that it is one.
	mostRecords = 1000
	mostBytes   = 512 << 10
)

// Write puts and deletes records in one transaction (core.Vault).
func (s *Store) Write(puts []core.Record, deletes []core.Record) error {
	list, err := vaultEntries(puts, deletes)
	if err != nil || len(list) == 0 {
		return err
	}
	return s.change(list)
}

// vaultEntries are the entries of a Write, within its bounds.
func vaultEntries(puts, deletes []core.Record) ([]entry, error) {
	var list []entry
	size := 0
	for _, r := range puts {
		key, err := vaultKey(r.Kind, r.Name)
		if err != nil {
			return nil, err
		}
		if len(r.Value) > maxValue {
			return nil, core.Errorf(core.TooLarge, "a %s record has at most %d bytes, not %d", r.Kind, maxValue, len(r.Value))
		}
		size += len(key) + len(r.Value)
		list = set(list, key, append([]byte{}, r.Value...))
	}
	for _, r := range deletes {
		key, err := vaultKey(r.Kind, r.Name)
		if err != nil {
			return nil, err
		}
		size += len(key)
		list = unset(list, key)
	}
	if n := len(puts) + len(deletes); n > mostRecords || size > mostBytes {
		return nil, core.Errorf(core.TooLarge, "one change has at most %d records and %d bytes, not %d and %d", mostRecords, mostBytes, n, size)
	}
	return list, nil
}

func (s *Store) change(list []entry) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.look(); err != nil {
		return err
	}
	return asError(s.commit(list), "the record cannot be written")
}

// All reads the records of a kind in the order of their names until yield
// returns false (core.Vault). The value is the caller's.
func (s *Store) All(kind string, yield func(name string, value []byte) bool) error {
	return s.Scan(kind, "", "", false, yield)
}

// Scan reads the records of a kind between two names, either way (core.Vault).
func (s *Store) Scan(kind, from, to string, newest bool, yield func(name string, value []byte) bool) error {
	if _, err := vaultKey(kind, "-"); err != nil {
		return err
	}
	if kind == core.KindLeaves {
		return s.scanLeaves(from, to, newest, yield)
	}
	prefix := vaultPrefix + kind + "/"
	end := after(prefix)
	if to != "" {
		end = []byte(prefix + to)
	}
	err := s.scan([]byte(prefix+from), end, newest, func(key, value []byte) bool {
		return yield(string(key[len(prefix):]), append([]byte{}, value...))
	})
	if err != nil {
		return readError("a "+kind+" record", err)
	}
	return nil
}

// scanLeaves is Scan where the order of keys is not that of names.
func (s *Store) scanLeaves(from, to string, newest bool, yield func(name string, value []byte) bool) error {
	lo, hi := []byte(leavesPrefix), after(leavesPrefix)
	if to != "" { // what begins with it is left out as well
		lo = after(string(leavesKey(to)))
	}
	if from != "" {
		hi = after(string(leavesKey(from)))
	}
	err := s.scan(lo, hi, !newest, func(key, value []byte) bool {
		return yield(mirrored(string(key[len(leavesPrefix):])), append([]byte{}, value...))
	})
	if err != nil {
		return readError("a "+core.KindLeaves+" record", err)
	}
	return nil
}

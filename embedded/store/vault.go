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
	if _, err := vaultKey(kind, "-"); err != nil {
		return err
	}
	prefix := vaultPrefix + kind + "/"
	err := s.scan([]byte(prefix), after(prefix), false, func(key, value []byte) bool {
		return yield(string(key[len(prefix):]), append([]byte{}, value...))
	})
	if err != nil {
		return readError("a "+kind+" record", err)
	}
	return nil
}

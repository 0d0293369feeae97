package seal

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"headway/core"
)

// The kinds of the records that the log is kept as. Names begin with the month, so
// that all of an old one can be dropped at once.
const (
	// KindRun are the leaves of one group: MONTH/INDEX, the index of the first with
	// ten digits. The value is run's.
	KindRun = "seal-run"
	// KindTree are hashes of subtrees: MONTH/LEVEL/N with ten digits, 32 bytes.
	KindTree = "seal-tree"
	// KindLog is how a log stands: MONTH. The value is Log's AppendBinary.
	KindLog = "seal-log"
	// KindSecret is what a log's pseudonyms and salts are derived from: MONTH,
	// sealed. Once it is deleted nobody can tell whose a leaf is.
	KindSecret = "seal-secret"
	// KindKeys are the signing keys, sealed, by the name "ring".
	KindKeys = "seal-keys"
)

const ringName = "ring"

func runName(m Month, first uint64) string { return indexed(string(m)+"/", first) }

func treeName(m Month, level int, n uint64) string {
	return indexed(string(m)+"/"+strconv.Itoa(level)+"/", n)
}

// indexed appends a number of ten digits, so that the order of names is that of numbers.
func indexed(prefix string, n uint64) string {
	digits := strconv.FormatUint(n, 10)
	return prefix + "0000000000"[min(len(digits), 10):] + digits
}

// run is a group of leaves that are kept together: its record's value.
//
//	2 bytes   how many leaves
//	of each:  32 bytes   the nonce that its salt is made of; all 0: it has none, or it was erased
//	          2 bytes    its length
//	          the leaf
type run struct {
	first uint64
	value []byte
	count int
}

// A run has at most 256 leaves, and so many bytes that a record holds it.
const (
	mostRun  = 256
	mostText = 128 << 10
)

func newRun(first uint64, size int) *run { return &run{first: first, value: make([]byte, 2, size)} }

// full tells whether another leaf of a length needs another run.
func (r *run) full(leaf int) bool {
	return r.count == mostRun || r.count > 0 && len(r.value)+saltSize+2+leaf > mostText
}

func (r *run) add(nonce, leaf []byte) {
	r.value = append(r.value, nonce...)
	r.value = append(binary.BigEndian.AppendUint16(r.value, uint16(len(leaf))), leaf...)
	r.count++
	binary.BigEndian.PutUint16(r.value, uint16(r.count))
}

// parseRun reads a record of leaves; false: it is none.
func parseRun(first uint64, value []byte) (r run, ok bool) {
	if len(value) < 2 {
		return r, false
	}
	r = run{first, value, int(binary.BigEndian.Uint16(value))}
	return r, r.count > 0 && r.count <= mostRun && r.each(func(int, []byte, []byte) bool { return true })
}

// each reads the leaves of a run until yield returns false; false: they are damaged.
func (r *run) each(yield func(i int, nonce, leaf []byte) bool) bool {
	const head = saltSize + 2
	rest := r.value[2:]
	for i := range r.count {
		if len(rest) < head {
			return false
		}
		n := head + int(binary.BigEndian.Uint16(rest[saltSize:]))
		if len(rest) < n {
			return false
		}
		if !yield(i, rest[:saltSize], rest[head:n]) {
			return true
		}
		rest = rest[n:]
	}
	return len(rest) == 0
}

// find gives a leaf and its nonce, as parts of the run.
func (r *run) find(index uint64) (nonce, leaf []byte) {
	r.each(func(i int, n, l []byte) bool {
		if r.first+uint64(i) == index {
			nonce, leaf = n, l
		}
		return leaf == nil
	})
	return nonce, leaf
}

// records reads the logs that a vault keeps; it is their Source.
type records struct{ vault core.Vault }

// NewSource reads the logs that a Sealer has left in a vault.
func NewSource(vault core.Vault) Source { return records{vault} }

// find gives the run that holds a leaf, false where there is none.
func (s records) find(m Month, index uint64) (found run, ok bool, err error) {
	var bad error
	err = s.vault.Scan(KindRun, string(m)+"/", runName(m, index+1), true, func(name string, value []byte) bool {
		found, bad = runOf(m, name, value)
		return false
	})
	if err == nil {
		err = bad
	}
	ok = err == nil && found.count > 0 && index-found.first < uint64(found.count)
	return found, ok, err
}

func runOf(m Month, name string, value []byte) (run, error) {
	first, err := strconv.ParseUint(strings.TrimPrefix(name, string(m)+"/"), 10, 64)
	r, ok := parseRun(first, value)
	if err != nil || !ok {
		return r, core.Errorf(core.Unavailable, "the leaves %s of the receipt log are damaged", name)
	}
	return r, nil
}

func (s records) Leaves(m Month, from, to uint64, yield func(index uint64, leaf []byte) bool) error {
	if from >= to {
		return nil
	}
	start, ok, err := s.find(m, from)
	if err != nil {
		return err
	}
	if !ok {
		return core.Errorf(core.Unavailable, "leaf %d of log %s is missing", from, m)
	}
	var bad error
	err = s.vault.Scan(KindRun, runName(m, start.first), runName(m, to), false, func(name string, value []byte) bool {
		var r run
		if r, bad = runOf(m, name, value); bad != nil {
			return false
		}
		more := true
		r.each(func(i int, _, leaf []byte) bool {
			if index := r.first + uint64(i); index >= from && index < to {
				more = yield(index, leaf)
			}
			return more
		})
		return more
	})
	if bad != nil {
		return bad
	}
	return err
}

func (s records) Subtrees(m Month, level int, from, to uint64) (list []Hash, err error) {
	if to == from+1 {
		value, err := s.vault.Get(KindTree, treeName(m, level, from))
		if err == nil && len(value) != len(Hash{}) {
			err = core.Errorf(core.Unavailable, "a hash of log %s is missing: level %d, %d", m, level, from)
		}
		if err != nil {
			return nil, err
		}
		return []Hash{Hash(value)}, nil
	}
	var bad error
	err = s.vault.Scan(KindTree, treeName(m, level, from), treeName(m, level, to), false, func(name string, value []byte) bool {
		if next := from + uint64(len(list)); name != treeName(m, level, next) || len(value) != len(Hash{}) {
			bad = core.Errorf(core.Unavailable, "a hash of log %s is missing: level %d, %d", m, level, next)
			return false
		}
		list = append(list, Hash(value))
		return true
	})
	if err == nil {
		err = bad
	}
	return list, err
}

// states gives the names and states of the logs that are there, the newest first.
func (s records) states(yield func(m Month, state []byte) bool) error {
	return s.vault.Scan(KindLog, "", "", true, func(name string, value []byte) bool { return yield(Month(name), value) })
}

// logNamed is an error's name for a log.
func logNamed(m Month) string { return fmt.Sprintf("log %s", m) }

package seal

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"

	"headway/core"
)

// The kinds of the records that the log is kept as. Names begin with the month, so
// that all of an old one can be dropped at once.
const (
	// KindRun are the leaves of one group: MONTH/INDEX, the index of the first with
	// ten digits. The value is run's.
	KindRun = core.KindLeaves
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

// run is a group of leaves that are kept together. Its record:
//
//	1 byte    the number of its dictionary
//	2 bytes   how many leaves
//	of each:  32 bytes   the nonce that its salt is made of; all 0: it has none, or it was erased
//	packed, of each: 2 bytes its length, the leaf
//
// A leaf of 600 bytes takes some 150 so, most of which are random. Nonces are not
// packed: erasing one changes nothing else.
type run struct {
	first  uint64
	count  int
	nonces []byte
	leaves []byte
}

// A run has at most 256 leaves, and so many bytes that a record holds it.
const (
	mostRun  = 256
	mostText = 128 << 10
)

// packedLeaves is the first byte of a run's record. A dictionary never changes once runs
// were kept with it; a better one gets another number.
const packedLeaves = 1

// leafDictionary is a receipt's leaf with what most have, and what others have in its
// place before it.
const leafDictionary = `"outcome":"failed","outcome":"truncated","outcome":"timeout","outcome":"client_gone","outcome":"lost","kind":"probe","kind":"test","usage_from":"estimate","usage_from":"mixed","cache_write_1h":"0000000","node":"","owner":"","cache_read_tokens":1,"cache_write_1h_tokens":1,"cache_write_tokens":1,"reasoning_tokens":1,` +
	`{"attempts":1,"charge_picousd":"1000000","id":"01kbkx3q00rdxhvqqk3f9q9r5w","key":"4n1v0y6d4q2w8x3b7c9f5h0k","kind":"job","model":"","offer":"","outcome":"settled","prices_picousd_per_token":{"cache_read":"100000","cache_write":"1250000","input":"1000000","output":"2000000"},"private":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","provider":"","time":1764400000000,"type":"receipt","usage":{"output_tokens":1,"uncached_input_tokens":1},"usage_from":"provider"}`

var leafPacker = sync.OnceValue(func() *s2.Dict { return s2.MakeDict([]byte(leafDictionary), []byte(`{"attempts"`)) })

// begin makes it a run without leaves.
func (r *run) begin(first uint64) {
	r.first, r.count, r.nonces, r.leaves = first, 0, r.nonces[:0], r.leaves[:0]
}

// full tells whether another leaf of a length needs another run.
func (r *run) full(leaf int) bool {
	return r.count == mostRun || r.count > 0 && r.size()+saltSize+2+leaf > mostText
}

// size is how many bytes it has, unpacked.
func (r *run) size() int { return 3 + len(r.nonces) + len(r.leaves) }

func (r *run) add(nonce, leaf []byte) {
	r.nonces = append(r.nonces, nonce...)
	r.leaves = append(binary.BigEndian.AppendUint16(r.leaves, uint16(len(leaf))), leaf...)
	r.count++
}

// record appends what it is kept as.
func (r *run) record(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, packedLeaves), uint16(r.count))
	dst = append(dst, r.nonces...)
	at := len(dst)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(r.leaves)))
	return dst[:at+len(leafPacker().Encode(dst[at:at:cap(dst)], r.leaves))]
}

// parseRun reads a record of leaves; false: it is none.
func parseRun(first uint64, value []byte) (r run, ok bool) {
	if len(value) < 3 || value[0] != packedLeaves {
		return r, false
	}
	r = run{first: first, count: int(binary.BigEndian.Uint16(value[1:]))}
	head := 3 + r.count*saltSize
	if r.count == 0 || r.count > mostRun || len(value) < head {
		return r, false
	}
	r.nonces = value[3:head:head]
	if n, err := s2.DecodedLen(value[head:]); err != nil || n > 2*mostText {
		return r, false
	}
	var err error
	r.leaves, err = leafPacker().Decode(nil, value[head:])
	return r, err == nil && r.each(func(int, []byte, []byte) bool { return true })
}

// each reads the leaves of a run until yield returns false; false: they are damaged.
func (r *run) each(yield func(i int, nonce, leaf []byte) bool) bool {
	rest := r.leaves
	for i := range r.count {
		if len(rest) < 2 {
			return false
		}
		n := 2 + int(binary.BigEndian.Uint16(rest))
		if len(rest) < n {
			return false
		}
		if !yield(i, r.nonces[i*saltSize:(i+1)*saltSize], rest[2:n]) {
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

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
)

// verifyBytes bounds what Open reads of the tables, so that a start stays short;
// the tables that no compaction has seen yet are within it.
const verifyBytes = 4 << 20

// verifier checks tables that an earlier process wrote, each once. A compaction
// leaves out what follows a damaged block without a word, or panics, so none
// begins before all tables have been read.
type verifier struct {
	path string
	last uint64 // the newest table that there was when the store was opened
	seen map[uint64]bool
}

func newVerifier(db *badger.DB, path string) *verifier {
	v := &verifier{path: path, seen: map[uint64]bool{}}
	for _, t := range db.Tables() {
		v.last = max(v.last, t.ID)
	}
	return v
}

// check reads the tables that it has not read, the newest first, as long as they
// have no more bytes than that together and more says so.
func (v *verifier) check(db *badger.DB, bytes int64, more func() bool) error {
	tables := db.Tables()
	slices.SortFunc(tables, func(a, b badger.TableInfo) int { return int(int64(b.ID) - int64(a.ID)) })
	for _, t := range tables {
		if t.ID > v.last || v.seen[t.ID] {
			continue
		}
		if bytes -= int64(t.OnDiskSize); bytes < 0 || !more() {
			return nil
		}
		if err := verifyTable(filepath.Join(v.path, table.IDToFilename(t.ID)), t.ID); err != nil {
			return fmt.Errorf("table %d: %w", t.ID, err)
		}
		v.seen[t.ID] = true
	}
	return nil
}

// verifyTable reads a table past Badger, so that nothing of it stays in memory.
func verifyTable(name string, id uint64) (err error) {
	defer caught(&err)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // compacted since
	}
	if err != nil {
		return err
	}
	t, err := table.OpenInMemoryTable(data, id, &table.Options{
		Compression: options.ZSTD, BlockSize: blockSize, ChkMode: options.OnBlockRead,
	})
	if err != nil {
		return err
	}
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	keys := uint32(0)
	for it.Rewind(); it.Valid(); it.Next() { // ends early at a block that cannot be read
		keys++
	}
	if keys != t.KeyCount() {
		return fmt.Errorf("%d keys of %d can be read", keys, t.KeyCount())
	}
	return nil
}

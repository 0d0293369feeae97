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

// verifyBytes bounds what Open reads of the tables, so that a start stays short.
const verifyBytes = 32 << 20

// verifyTables reads the newest tables of the store and checks every block of
// them. They are the next to be compacted, which Badger does without noticing a
// block that it cannot read, or by a panic.
func verifyTables(db *badger.DB, path string) error {
	tables := db.Tables()
	slices.SortFunc(tables, func(a, b badger.TableInfo) int {
		return int(int64(b.ID) - int64(a.ID))
	})
	left := int64(verifyBytes)
	for _, t := range tables {
		if left -= int64(t.OnDiskSize); left < 0 {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(path, table.IDToFilename(t.ID)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // compacted since
		}
		if err != nil {
			return err
		}
		if err := verifyTable(data, t.ID); err != nil {
			return fmt.Errorf("table %d: %w", t.ID, err)
		}
	}
	return nil
}

func verifyTable(data []byte, id uint64) (err error) {
	defer caught(&err)
	t, err := table.OpenInMemoryTable(data, id, &table.Options{
		Compression: options.ZSTD, BlockSize: blockSize, ChkMode: options.OnBlockRead,
	})
	if err != nil {
		return err
	}
	return t.VerifyChecksum()
}

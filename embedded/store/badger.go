package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	// maxValue keeps every value below valueThreshold, so that none is in
	// Badger's value log and compaction alone frees space.
	maxValue       = 256 << 10
	valueThreshold = 512 << 10
	// blockSize holds several receipts, which compresses them better and costs
	// a third less than Badger's 4 KiB.
	blockSize = 16 << 10
	// levelZero is how many new tables are compacted at once. Fewer cost more:
	// each time a part of the older ones is rewritten.
	levelZero = 12
)

// settings are those of FOUNDATIONS B2, apart from the value log: it stays
// empty, so its file (twice its size, sparse) is as small as Badger allows.
func settings(path string, memTable int64) badger.Options {
	return badger.DefaultOptions(path).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one committer, and the Vault writes blindly
		WithNumVersionsToKeep(1).
		WithMetricsEnabled(false).
		WithMemTableSize(memTable).
		WithNumMemtables(2).
		WithNumCompactors(0). // see compact
		WithNumLevelZeroTables(levelZero).
		WithNumLevelZeroTablesStall(1 << 20). // never: nobody would end it
		// One level under the new tables, however large it grows: each more would be
		// rewritten too.
		WithBaseLevelSize(1 << 40).
		WithBaseTableSize(4 << 20).
		WithBlockCacheSize(8 << 20).
		WithIndexCacheSize(8 << 20).
		WithCompression(options.ZSTD).
		WithZSTDCompressionLevel(1).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithValueLogFileSize(1 << 20).
		WithValueThreshold(valueThreshold).
		WithBlockSize(blockSize).
		WithBypassLockGuard(true) // the folder has its own lock
}

// madeName is of the file that says that the database was made: without its manifest it
// would begin anew where it is gone, as if nothing had ever been there, and remove the
// tables that no manifest names.
const madeName = "db.made"

// whole refuses a database whose manifest is gone.
func whole(path, made string) error {
	if _, err := os.Stat(filepath.Join(path, badger.ManifestFilename)); !errors.Is(err, os.ErrNotExist) {
		return nil // Badger says what else there is
	}
	tables, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.sst"))
	_, err := os.Stat(made)
	if err == nil || len(tables) > 0 {
		return errors.New("its database is gone, or the manifest of it")
	}
	return nil
}

// mark leaves word that the database is there.
func mark(made string) error {
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sweep removes logs of no length. A process that was killed while it made or
// removed one leaves such a file, which Badger then refuses to open.
func sweep(path string) error {
	names, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, n := range names {
		if ext := filepath.Ext(n.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		if info, e := n.Info(); e == nil && info.Size() == 0 {
			err = errors.Join(err, os.Remove(filepath.Join(path, n.Name())))
		}
	}
	return err
}

// newestLog is the number of the newest write-ahead log, which an open Badger has.
func newestLog(path string) (int, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(path), "*.mem"))
	newest := 0
	for _, name := range names {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".mem"))
		newest = max(newest, n)
	}
	return newest, err
}

// openBadger opens Badger, which panics on some kinds of damage.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer caught(&err)
	return badger.Open(o)
}

func closeBadger(db *badger.DB) (err error) {
	defer caught(&err)
	return db.Close()
}

// quiet takes Badger's log: its own words without the data in them. What it says
// on a full disk is known already.
type quiet struct {
	log  *slog.Logger
	room *room
}

func (q quiet) Errorf(format string, _ ...any) {
	if q.room.refusal() == nil {
		q.log.Warn("badger", "message", format)
	}
}
func (q quiet) Warningf(format string, _ ...any) { q.log.Debug("badger", "message", format) }
func (q quiet) Infof(string, ...any)             {}
func (q quiet) Debugf(string, ...any)            {}

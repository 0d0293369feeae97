package store

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"headway/core"
)

// WrapCommit lets a test stand between the writer and Badger. Before Run.
func (s *Store) WrapCommit(wrap func(commit func() error) error) {
	real := s.commit
	s.commit = func(list []entry) error { return wrap(func() error { return real(list) }) }
}

// FakeDisk lets a test say what the disk has. Before Run.
func (s *Store) FakeDisk(space func() (free, total int64)) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.space = func() (sp spaceT, err error) {
		sp.free, sp.total = space()
		return sp, nil
	}
}

type (
	spaceT    = space
	TableInfo = badger.TableInfo
)

// EncodeReceipt is the receipt as it is stored.
func EncodeReceipt(r *core.Receipt) []byte {
	return encoderOf(reflect.TypeFor[core.Receipt]())(nil, reflect.ValueOf(r).Elem())
}

// Encoder is the encoder of receipts, made once.
func Encoder() func(dst []byte, r *core.Receipt) []byte {
	e := encoderOf(reflect.TypeFor[core.Receipt]())
	return func(dst []byte, r *core.Receipt) []byte { return e(dst, reflect.ValueOf(r).Elem()) }
}

// EncodeIntent is the intent as it is noted.
func EncodeIntent(in *core.Intent) []byte {
	return encoderOf(reflect.TypeFor[core.Intent]())(nil, reflect.ValueOf(in).Elem())
}

// QueueLimit is the number of waiting receipts at which calls are refused.
const QueueLimit = queueLimit

// OpenUnverified is Open without the check of the newest tables: as it is for a
// table beyond those.
func OpenUnverified(dir string, o Options) (*Store, error) { return open(dir, o, 0) }

// Raw sets a key as it is, or removes it, without its witness.
func (s *Store) Raw(key string, value []byte) error {
	return s.apply([]entry{{[]byte(key), value}})
}

// AppendFloat is how a number is written.
func AppendFloat(f float64) []byte { return appendFloat(nil, f) }

// Dictionaries are what receipts are and were packed with, by their numbers.
var Dictionaries = [...]string{1: dictionary1, 2: dictionary2, 3: dictionary3}

// Packer packs and unpacks receipts.
func Packer() (pack func(dst, text []byte) []byte, unpack func([]byte) ([]byte, error)) {
	p := newPacker()
	return p.pack, p.unpack
}

// PackedBefore is a receipt's JSON as it was packed with an older dictionary.
func PackedBefore(dictionary byte, text []byte) []byte {
	return append([]byte{dictionary}, newPacker().dictionaries[dictionary].Encode(nil, text)...)
}

// Version grows by one with each transaction.
func (s *Store) Version() uint64 { return s.db.MaxVersion() }

// Group sets how long the writer waits for more receipts; before Run.
func (s *Store) Group(d time.Duration) { s.group = d }

// Everything gives what the files of a folder hold, every version of it, as nobody but
// one who reads the disk sees it: of tables the keys and values, receipts unpacked too.
func Everything(dir string) (all []byte, err error) {
	pack := newPacker()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(append(all, text...), '\n')
		id, ok := table.ParseFileID(path)
		if !ok {
			return nil
		}
		t, err := table.OpenInMemoryTable(text, id, &table.Options{Compression: options.ZSTD, BlockSize: blockSize, ChkMode: options.OnBlockRead})
		if err != nil {
			return err
		}
		it := t.NewIterator(table.NOCACHE)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value := it.Value().Value
			all = append(append(append(all, it.Key()...), value...), '\n')
			if bytes.HasPrefix(it.Key(), []byte(receiptPrefix)) {
				if plain, err := pack.unpack(value); err == nil {
					all = append(all, plain...)
				}
			}
		}
		return nil
	})
	return all, err
}

// Tables are those of the store, in no order.
func (s *Store) Tables() []badger.TableInfo { return s.db.Tables() }

// PutOld keeps a record as version 1 did.
func (s *Store) PutOld(kind, name string, value []byte) error {
	return s.apply(set(nil, []byte(vaultPrefix+kind+"/"+name), value))
}

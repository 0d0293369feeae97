package seal

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"headway/core"
)

// A log as files is the layout of C2SP tlog-tiles, which public tools read.

// tilePath is the path of a tile, or of an entry bundle (level -1), of a width.
func tilePath(level int, n uint64, width int) string {
	kind := "entries"
	if level >= 0 {
		kind = strconv.Itoa(level)
	}
	number := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		number = fmt.Sprintf("x%03d/%s", n%1000, number)
	}
	path := "tile/" + kind + "/" + number
	if width < tileWidth {
		path += ".p/" + strconv.Itoa(width)
	}
	return path
}

const treeReadme = `This folder is the log %[1]s of signed receipts, as C2SP tlog-tiles
(https://c2sp.org/tlog-tiles).

checkpoint        the size and root of the log, signed (https://c2sp.org/signed-note)
log.vkey          the public key that it is signed with. Compare it with one that you have
                  from elsewhere: this one came with what it is to prove.
tile/entries/     the receipts, 256 in a file, each after its length in two bytes
tile/0/, 1/, ...  the hashes of the Merkle tree

"headway receipts verify FOLDER" checks it; so does fsck of
github.com/transparency-dev/tessera:

    go run github.com/transparency-dev/tessera/cmd/fsck@v1.0.4 --ui=false \
      --storage_url=file://$PWD --public_key=log.vkey
`

// WriteTree writes a log as files into dir, which it makes, and which must be empty.
// It refuses (Unavailable) what does not give the root that was signed. progress,
// where not nil, is told now and then how many leaves were written.
func WriteTree(dir string, src Source, c *Checkpoint, progress func(leaves uint64)) error {
	_, month, ok := splitOrigin(c.Origin)
	if !ok || len(c.Signed) == 0 {
		return core.Errorf(core.Internal, "the checkpoint of %s was not read with its keys", c.Origin)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return unwritten(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return unwritten(err)
	}
	if len(names) > 0 {
		return core.Field("out", "the folder %s is not empty", dir)
	}
	return writeTree(src, month, c, progress, func(path string, text []byte) error {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return unwritten(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return unwritten(err)
		}
		return nil
	})
}

// TarTree writes to w, as a tar file, what WriteTree writes into a folder. The
// checkpoint comes last: without it what came is no log.
func TarTree(w io.Writer, src Source, c *Checkpoint) error {
	_, month, ok := splitOrigin(c.Origin)
	if !ok || len(c.Signed) == 0 {
		return core.Errorf(core.Internal, "the checkpoint of %s was not read with its keys", c.Origin)
	}
	out := tar.NewWriter(w)
	err := writeTree(src, month, c, nil, func(path string, text []byte) error {
		err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(text)), Mode: 0o644})
		if err == nil {
			_, err = out.Write(text)
		}
		if err != nil {
			return unwritten(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return unwritten(err)
	}
	return nil
}

// writeTree gives the files of a log away, one by one.
func writeTree(src Source, month Month, c *Checkpoint, progress func(leaves uint64), file func(path string, text []byte) error) error {
	w := &treeWriter{file: file, src: src, month: month, tree: newTree(src, month, c.Size), size: c.Size, progress: progress}
	frontier, err := w.tree.frontier()
	if err != nil {
		return err
	}
	if frontierRoot(frontier) != c.Root {
		return damaged(month, nil)
	}
	for level, hashes := range frontier {
		if len(hashes) > 0 {
			n := c.Size >> ((level + 1) * tileHeight)
			if err := w.hashes(tilePath(level, n, len(hashes)), hashes); err != nil {
				return err
			}
		}
	}
	if err := walkFrontier(c.Size, frontier, w.tile, w.leaves); err != nil {
		return err
	}
	if err := w.file("README", fmt.Appendf(nil, treeReadme, c.Origin)); err != nil {
		return err
	}
	if err := w.file("log.vkey", []byte(c.Signed[len(c.Signed)-1].String()+"\n")); err != nil {
		return err
	}
	return w.file("checkpoint", c.Note)
}

func unwritten(err error) error {
	return &core.Error{Kind: core.Unavailable, Msg: "the log cannot be written as files", Err: err}
}

type treeWriter struct {
	file     func(path string, text []byte) error
	src      Source
	month    Month
	tree     *tree
	size     uint64
	done     uint64
	bundle   []byte
	buffer   []byte
	progress func(uint64)
}

func (w *treeWriter) hashes(path string, list []Hash) error {
	raw := make([]byte, 0, len(list)*len(Hash{}))
	for i := range list {
		raw = append(raw, list[i][:]...)
	}
	return w.file(path, raw)
}

// tile writes a whole tile and what is below it.
func (w *treeWriter) tile(level int, n uint64, h Hash) error {
	list, err := w.tree.level(level, n*tileWidth, (n+1)*tileWidth)
	if err != nil {
		return err
	}
	if over(list) != h {
		return damaged(w.month, nil)
	}
	if err := w.hashes(tilePath(level, n, tileWidth), list); err != nil {
		return err
	}
	if level == 0 {
		return w.leaves(n*tileWidth, list)
	}
	for i, h := range list {
		if err := w.tile(level-1, n*tileWidth+uint64(i), h); err != nil {
			return err
		}
	}
	return nil
}

// leaves writes an entry bundle.
func (w *treeWriter) leaves(first uint64, hashes []Hash) error {
	if len(hashes) == 0 {
		return nil
	}
	bundle, good := w.bundle[:0], true
	err := readLeaves(w.src, w.month, first, first+uint64(len(hashes)), func(index uint64, leaf []byte) bool {
		if cap(w.buffer) <= len(leaf) {
			w.buffer = make([]byte, 0, 2*len(leaf)+1)
		}
		good = leafHash(w.buffer, leaf) == hashes[index-first]
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(leaf))), leaf...)
		return good
	})
	w.bundle = bundle
	if err != nil {
		return err
	}
	if !good {
		return damaged(w.month, nil)
	}
	w.done += uint64(len(hashes))
	if w.progress != nil && w.done%progressEvery < tileWidth {
		w.progress(w.done)
	}
	return w.file(tilePath(-1, first/tileWidth, len(hashes)), bundle)
}

// VerifyTree checks a log that is there as files: a folder that WriteTree wrote, or
// another log of receipts in the layout of tlog-tiles. Without given keys that of
// the folder is believed. What it finds wrong first is in the report, with its
// file.
func VerifyTree(dir string, c Check) (*Report, error) {
	v := &checker{progress: c.Progress}
	if err := v.start(c); err != nil {
		return nil, err
	}
	t := &treeChecker{checker: v, root: dir}
	_ = t.check()
	if v.failed != nil {
		return nil, &core.Error{Kind: core.Unavailable, Msg: "the folder " + dir + " cannot be read", Err: v.failed}
	}
	v.report.Lines = 0
	return v.finish(), nil
}

type treeChecker struct {
	*checker
	root string
}

// open reads one file of at most most bytes; one that is longer is wrong.
func (t *treeChecker) open(path string, most int) ([]byte, error) {
	t.file = path
	text, err := readBounded(filepath.Join(t.root, filepath.FromSlash(path)), int64(most))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, t.wrong(WrongMissing, "the file is missing")
	case err != nil:
		t.failed = err
		return nil, errStop
	case len(text) > most:
		return nil, t.wrong(WrongEdited, "the file is longer than one can be")
	}
	return text, nil
}

func (t *treeChecker) check() error {
	if !t.given {
		text, err := t.open("log.vkey", mostNote)
		if err != nil {
			return err
		}
		k, err := ParseKey(string(text))
		if err != nil {
			return t.wrong(WrongFormat, "%v", err)
		}
		t.keys = append(t.keys, k)
	}
	text, err := t.open("checkpoint", mostNote)
	if err != nil {
		return err
	}
	c, err := openNote(text, t.keys)
	switch {
	case errors.Is(err, errUnknownKey):
		return t.wrong(WrongUnknownKey, "the checkpoint is signed by none of the known keys")
	case errors.Is(err, errSignature):
		return t.wrong(WrongSignature, "the checkpoint was edited: its signature is not that of its key")
	case err != nil:
		return t.wrong(WrongFormat, "%v", err)
	}
	for _, k := range c.Signed {
		t.report.Keys = append(t.report.Keys, k.forEdge())
	}
	if err := t.begin(c); err != nil {
		return err
	}
	t.log.To = c.Size
	var frontier [][]Hash
	for level := 0; c.Size>>(level*tileHeight) > 0; level++ {
		width := int(c.Size >> (level * tileHeight) % tileWidth)
		var list []Hash
		if width > 0 {
			if list, err = t.hashes(level, c.Size>>((level+1)*tileHeight), width); err != nil {
				return err
			}
		}
		frontier = append(frontier, list)
	}
	if frontierRoot(frontier) != c.Root {
		return t.partial(c, frontier)
	}
	if err := walkFrontier(c.Size, frontier, t.tile, t.leaves); err != nil {
		return err
	}
	if t.saved != nil && t.saved.Origin != c.Origin {
		return t.wrong(WrongCutShort, "the saved checkpoint is of log %s, and this is %s", t.saved.Origin, c.Origin)
	}
	return nil
}

// partial finds which of the partial tiles is not the one that was signed: the one
// that does not go with the files below it.
func (t *treeChecker) partial(c *Checkpoint, frontier [][]Hash) error {
	differs := func(level int, n uint64, h Hash) error {
		list, err := t.hashes(level, n, tileWidth)
		if err == nil && over(list) != h {
			t.file = tilePath(level+1, n/tileWidth, len(frontier[level+1]))
			return t.wrong(WrongEdited, "the tile was edited: it does not go with the tiles below it and the root that was signed")
		}
		return err
	}
	err := walkFrontier(c.Size, frontier, differs, func(uint64, []Hash) error { return nil })
	if err != nil {
		return err
	}
	for level, list := range frontier {
		if len(list) > 0 {
			t.file = tilePath(level, c.Size>>((level+1)*tileHeight), len(list))
			break
		}
	}
	return t.wrong(WrongEdited, "the tile was edited, or what is below it: it does not give the root that was signed")
}

func (t *treeChecker) hashes(level int, n uint64, width int) ([]Hash, error) {
	raw, err := t.open(tilePath(level, n, width), width*len(Hash{}))
	if err != nil {
		return nil, err
	}
	if len(raw) != width*len(Hash{}) {
		return nil, t.wrong(WrongCutShort, "the tile is cut short")
	}
	list := make([]Hash, 0, width)
	for ; len(raw) > 0; raw = raw[len(Hash{}):] {
		list = append(list, Hash(raw[:len(Hash{})]))
	}
	return list, nil
}

func (t *treeChecker) tile(level int, n uint64, h Hash) error {
	list, err := t.hashes(level, n, tileWidth)
	if err != nil {
		return err
	}
	if over(list) != h {
		return t.wrong(WrongEdited, "the tile was edited: it does not give the hash that was signed")
	}
	if level == 0 {
		return t.leaves(n*tileWidth, list)
	}
	for i, h := range list {
		if err := t.tile(level-1, n*tileWidth+uint64(i), h); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeChecker) leaves(first uint64, hashes []Hash) error {
	if len(hashes) == 0 {
		return nil
	}
	bundle, err := t.open(tilePath(-1, first/tileWidth, len(hashes)), len(hashes)*(2+maxLeaf))
	if err != nil {
		return err
	}
	for i, h := range hashes {
		index := first + uint64(i)
		if len(bundle) < 2 || len(bundle)-2 < int(binary.BigEndian.Uint16(bundle)) {
			return t.wrong(WrongCutShort, "the entries are cut short before leaf %d", index)
		}
		n := int(binary.BigEndian.Uint16(bundle))
		leaf := bundle[2 : 2+n]
		if is := t.hash(leaf); is != h {
			if j := slices.Index(hashes, is); j >= 0 {
				return t.wrong(WrongOrder, "leaf %d stands where leaf %d should", first+uint64(j), index)
			}
			return t.wrong(WrongEdited, "leaf %d was edited: it is not the one that was signed", index)
		}
		if err := t.take(index, leaf); err != nil {
			return err
		}
		bundle = bundle[2+n:]
	}
	if len(bundle) > 0 {
		return t.wrong(WrongTwice, "the entries go on behind leaf %d", first+uint64(len(hashes))-1)
	}
	if t.progress != nil {
		t.progress(int64(first) + int64(len(hashes)))
	}
	return nil
}

// IsTree tells whether a folder is a log as files.
func IsTree(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "checkpoint"))
	return err == nil && info.Mode().IsRegular()
}

package seal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"headway/core"
)

// Head is the file that holds the newest checkpoint of one log, outside the store
// of the leaves: DIR/MONTH.checkpoint. A signature leaves the process only once
// its checkpoint is durable there, so whatever happens to the store, a size that
// was signed is never signed with another root.
//
// The file has two places of 4 KiB. A new checkpoint is written over the older of
// the two and synced, so that one that was torn leaves the other; its signature
// tells whether it is whole. What a place has behind the checkpoint is 0.
type Head struct {
	path   string
	origin string
	last   *Checkpoint // nil: nothing was signed
	places [2][]byte   // what is in the file
	next   int         // the place that is written next
	made   bool        // the file is there, as long as it will be
	torn   bool        // a write failed: what the place has that is written next is not known
}

const placeSize = 4 << 10

func headPath(dir string, m Month) string { return filepath.Join(dir, string(m)+".checkpoint") }

// restoredPath is the file that a restore leaves for each log which may have been signed
// further than the backup knows: it holds the backup's checkpoint, or nothing. Where
// the log has no head, it is never signed again.
func restoredPath(dir string, m Month) string { return filepath.Join(dir, string(m)+".restored") }

// WriteRestored leaves that file in dir for the log of a name; note is the backup's
// checkpoint of it, nil where it has none.
func WriteRestored(dir string, m Month, note []byte) error {
	if !m.valid() {
		return core.Errorf(core.Invalid, "%q is not the name of a log", string(m[:min(len(m), 32)]))
	}
	f, err := os.OpenFile(restoredPath(dir, m), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(note)
	return errors.Join(err, f.Sync(), f.Close())
}

// What a head's error is about.
const (
	HeadDamaged = "head_damaged"
	HeadForeign = "head_foreign"
)

// OpenHead reads the head of a log; keys are all that its edge has signed with. No
// file, or one with nothing in it, is a log that was not signed yet. Unavailable:
// neither place has a checkpoint, or there is one of another log, which the Code
// says ([HeadDamaged], [HeadForeign]), or the file cannot be read.
func OpenHead(dir, edge string, m Month, keys []Key) (*Head, error) {
	h := &Head{path: headPath(dir, m), origin: originOf(edge, m)}
	text, err := readBounded(h.path, 2*placeSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, h.error("cannot be read", "", err)
	}
	h.made = len(text) == 2*placeSize
	h.places = placesOf(text)
	empty := true
	var why error
	for i, place := range h.places {
		if len(place) == 0 {
			continue
		}
		empty = false
		c, err := openNote(place, keys)
		if err != nil {
			why = err
			continue
		}
		if c.Origin != h.origin {
			return nil, h.error("is of another log, "+c.Origin, HeadForeign, nil)
		}
		if l := h.last; l != nil && l.Size == c.Size && l.Root != c.Root {
			return nil, h.error("has two roots for one size", HeadDamaged, nil)
		}
		if h.last == nil || c.Size >= h.last.Size {
			h.last, h.next = c, 1-i
		}
	}
	if h.last == nil && !empty {
		return nil, h.error("is damaged: "+why.Error(), HeadDamaged, nil)
	}
	return h, nil
}

// placesOf takes a file apart.
func placesOf(text []byte) (places [2][]byte) {
	for i := range places {
		from, to := min(i*placeSize, len(text)), min((i+1)*placeSize, len(text))
		places[i] = bytes.TrimRight(text[from:to], "\x00")
	}
	return places
}

// HeadSays is the largest tree that the content of a head's file names, whatever its
// signatures are worth; false: it names none.
func HeadSays(content []byte) (t Tree, ok bool) {
	for _, place := range placesOf(content) {
		if named, is := parseTree(noteText(place)); is && (!ok || named.Size > t.Size) {
			t, ok = named, true
		}
	}
	return t, ok
}

func (h *Head) error(what, code string, err error) error {
	return &core.Error{Kind: core.Unavailable, Code: code, Msg: "the checkpoint file " + h.path + " " + what,
		Hint: "put the file of a backup there; without one a new log is begun, which says so", Err: err}
}

// Last is the newest checkpoint, nil where nothing was signed.
func (h *Head) Last() *Checkpoint { return h.last }

// Swap puts a checkpoint in the place of the last one; the file must still hold
// what it held. It refuses (Unavailable) a smaller size, another root for the same
// size, another log, and a file that somebody else has changed. The checkpoint is
// durable when it returns.
func (h *Head) Swap(c *Checkpoint) error {
	if c.Origin != h.origin {
		return h.error("is of another log than "+c.Origin, HeadForeign, nil)
	}
	if len(c.Note) > placeSize {
		return h.error("has no room for so many signatures", "", nil)
	}
	if l := h.last; l != nil {
		if c.Size < l.Size {
			return h.error("has signed a larger log already", "", nil)
		}
		if c.Size == l.Size && c.Root != l.Root {
			return h.error("has signed another root for this size", "", nil)
		}
	}
	if !h.made {
		if err := h.make(); err != nil {
			return h.error("cannot be made", "", err)
		}
	}
	if err := h.swap(c.Note); err != nil {
		return err
	}
	h.places[h.next], h.torn = c.Note, false
	h.next, h.last = 1-h.next, c
	return nil
}

// make makes the file as long as it will be, so that a checkpoint is written over
// what is there.
func (h *Head) make() error {
	text, err := readBounded(h.path, 2*placeSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if is := placesOf(text); !bytes.Equal(is[0], h.places[0]) || !bytes.Equal(is[1], h.places[1]) {
		return errors.New("somebody else has made it")
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 2*placeSize-len(text)), int64(len(text)))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return err
	}
	h.made = true
	return nil
}

func (h *Head) swap(text []byte) error {
	f, err := os.OpenFile(h.path, os.O_RDWR|syncWrites, 0)
	if err != nil {
		return h.error("cannot be opened", "", err)
	}
	var is [2*placeSize + 1]byte
	n, err := f.ReadAt(is[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		_ = f.Close()
		return h.error("cannot be read", "", err)
	}
	now := placesOf(is[:n])
	if h.torn {
		h.places[h.next] = now[h.next]
	}
	if n != 2*placeSize || !bytes.Equal(now[0], h.places[0]) || !bytes.Equal(now[1], h.places[1]) {
		_ = f.Close()
		return h.error("was changed by somebody else", "", nil)
	}
	var place [placeSize]byte
	copy(place[:], text)
	_, err = f.WriteAt(place[:], int64(h.next*placeSize))
	if err := errors.Join(err, f.Close()); err != nil {
		h.torn = true
		return h.error("cannot be written", "", err)
	}
	return nil
}

// readBounded reads a file of at most most bytes, and no more of a longer one than
// shows that it is.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	return text, errors.Join(err, f.Close())
}

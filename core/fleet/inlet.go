package fleet

import (
	"errors"
	"io"
	"sync"
)

var (
	errInletClosed = errors.New("the request's body is not read any more")
	errInletFull   = errors.New("more of a request's body came than there was credit for")
	errInletLength = errors.New("a request's body is not as long as it said")
)

// keptBytes is how much of a request's body is kept once it was read, so that it can
// be sent again.
const keptBytes = 256 << 10

// inlet is a request's body as it comes from the edge and as the model server reads
// it. It keeps the pieces as they came, no more than its room of unread bytes, and
// what was read for as long as that is little, so that a request that a closed
// connection swallowed can be sent again.
type inlet struct {
	mu     sync.Mutex // guards all
	more   sync.Cond
	pieces [][]byte
	from   int64 // where in the body pieces[0] begins
	got    int64 // how much came
	length int64 // how long the body is; −1: not known
	whole  bool  // all of it came
	err    error // why nothing more may be read
	reader *inletReader
	room   int64

	// Credit, which the piece that comes with the start uses up too.
	taken   int64 // how much was read at most
	given   int64 // of it, for how much credit was given back
	frames  int64 // body frames so far
	granted int64 // of these, those for which credit was given back
	step    int64 // so much is given back at once
	give    func(credit)
}

// open begins with what came with the start.
func (i *inlet) open(first []byte, last bool, length, room int64, give func(credit)) error {
	i.more.L = &i.mu
	i.length, i.room, i.give = length, room, give
	i.step = max(room/4, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.put(first, last)
}

// push takes a body frame. An error ends the job.
func (i *inlet) push(piece []byte, last bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.frames++
	return i.put(piece, last)
}

func (i *inlet) put(piece []byte, last bool) error {
	switch {
	case i.err != nil:
		return nil // nobody reads it
	case i.whole && len(piece) > 0:
		return errInletLength
	case i.whole:
		return nil
	}
	if len(piece) > 0 {
		i.pieces = append(i.pieces, piece)
		i.got += int64(len(piece))
	}
	i.whole = last || i.length == i.got
	switch {
	case i.length >= 0 && (i.got > i.length || i.whole && i.got < i.length):
		return errInletLength
	case i.got-max(i.taken, i.from) > i.room:
		return errInletFull
	}
	i.more.Broadcast()
	return nil
}

// body is a reader of the whole body, from its beginning; the one before it reads
// nothing any more. false: the beginning is not there any more.
func (i *inlet) body() (io.ReadCloser, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.from > 0 {
		return nil, false
	}
	i.reader = &inletReader{inlet: i}
	i.more.Broadcast()
	return i.reader, true
}

// close ends all reading and lets go of what is there.
func (i *inlet) close(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = err
		i.pieces = nil
		i.more.Broadcast()
	}
}

// inletReader reads an inlet's body; only the newest one does.
type inletReader struct {
	inlet  *inlet
	at     int64
	closed bool
}

// Read waits for the next piece.
func (r *inletReader) Read(p []byte) (n int, err error) {
	i := r.inlet
	i.mu.Lock()
	for i.err == nil && i.reader == r && !r.closed && r.at == i.got && !i.whole {
		i.more.Wait()
	}
	switch {
	case i.err != nil:
		err = i.err
	case i.reader != r || r.closed:
		err = errInletClosed
	case r.at == i.got:
		err = io.EOF
	default:
		n = i.read(p, r.at)
		r.at += int64(n)
	}
	back := i.back()
	i.mu.Unlock()
	if back != (credit{}) {
		i.give(back) // it may wait for the network
	}
	return n, err
}

// Close ends this reader alone.
func (r *inletReader) Close() error {
	r.inlet.mu.Lock()
	defer r.inlet.mu.Unlock()
	r.closed = true
	r.inlet.more.Broadcast()
	return nil
}

// read copies what is there at a place of the body, and lets go of pieces that are
// too far behind it to be read again.
func (i *inlet) read(p []byte, at int64) (n int) {
	from := i.from
	for k, piece := range i.pieces {
		if end := from + int64(len(piece)); at < end {
			n = copy(p, piece[at-from:])
			at += int64(n)
			if at > keptBytes {
				if at == end {
					k++
					from = end
				}
				clear(i.pieces[:k])
				i.pieces, i.from = i.pieces[k:], from
			}
			break
		} else {
			from = end
		}
	}
	i.taken = max(i.taken, at)
	return n
}

// back is the credit to give back now: for a part of the room, or for all where the
// edge may be waiting for it.
func (i *inlet) back() (c credit) {
	if i.err != nil || i.whole {
		return c
	}
	if due := i.taken - i.given; due >= i.step || due > 0 && i.taken == i.got {
		c = credit{frames: uint32(i.frames - i.granted), bytes: uint32(due)}
		i.given, i.granted = i.taken, i.frames
	}
	return c
}

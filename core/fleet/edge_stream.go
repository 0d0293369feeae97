package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"headway/core"
)

const (
	mostHead   = 256 << 10 // bytes of a JSON head, as of HTTP's
	pooledMost = 512 << 10 // bytes of a buffer that is kept
	// bodyPiece is how much of a request's body goes in one frame behind the start: a
	// slow network has room for other jobs' frames in between.
	bodyPiece = 64<<10 - headerBytes
)

var errClosed = errors.New("the answer was closed")

// piece is what a stream's reader is given: a part of the answer, or kindCredit (the
// request's body may go on), or kindCancel (stream.err says why it was given up).
type piece struct {
	payload []byte
	kind    kind
}

// stream is one round trip to a node: an io.ReadCloser, the answer's body. Its reader
// gets everything by one channel, which has room for all that the node has credit
// for, so that the subscription's goroutine never waits. Read and Close are for one
// goroutine, that of RoundTrip.
type stream struct {
	server  *server
	session *edgeSession
	id      uint64
	ch      chan piece

	over     atomic.Bool // it has ended or was given up
	accepted atomic.Bool
	heard    atomic.Bool   // a frame of it came since the node's last beat
	dropped  atomic.Bool   // the caller's context has ended
	given    atomic.Uint64 // credit given back: data frames << 40 | bytes
	room     atomic.Int64  // bytes of the request's body that may be sent
	poked    atomic.Bool   // a kindCredit lies in ch
	sending  atomic.Bool   // there is more of the request's body
	err      error         // why it was given up: written before its kindCancel is sent
	cause    error         // of the context: written before dropped

	looks  int // of Run's since it began; session.mu
	missed int // beats of the node in a row without it; session.mu

	// The subscription's goroutine alone:
	next   uint32 // sequence number
	begun  bool   // headers came
	waits  bool   // for a slot
	frames uint64 // of data
	bytes  uint64

	// The reader's alone:
	req      *http.Request
	resp     *http.Response
	stop     func() bool // ends the watch of the context
	unsent   int64       // bytes of the request's body; -1: not known
	seq      uint32
	rest     []byte // of the data frame under way
	taken    credit // what was read and not given back
	timing   core.NodeTiming
	final    error // what Read gives from now on
	closed   bool
	bare     bool // its status has no body
	scratch  [headerBytes + 8]byte
	bodyDone bool // the request's body was closed
}

// counted packs sums of frames and bytes, which wrap around as those do that they are
// held against.
func counted(frames, bytes uint64) uint64 { return frames<<40 | bytes&(1<<40-1) }

// RoundTrip sends a request to the node's model server.
func (u *server) RoundTrip(req *http.Request) (*http.Response, error) {
	st := &stream{server: u, session: u.session.Load(), id: u.edge.streams.Add(1), req: req, next: 1,
		ch: make(chan piece, windowFrames+4), // data, and once each: headers, end or refused, kindCredit, kindCancel
	}
	st.room.Store(uploadBytes)
	if err := req.Context().Err(); err != nil {
		st.closeBody()
		return nil, context.Cause(req.Context())
	}
	switch {
	case st.session == nil:
		st.closeBody()
		return nil, &core.NodeError{Word: core.NodeGone, Unsent: true}
	case st.session.stops.Load():
		st.closeBody()
		return nil, &core.NodeError{Word: core.NodeStopping, Unsent: true}
	}
	u.held.Add(1)
	if ok, full := st.session.add(st); !ok {
		u.held.Add(-1)
		st.closeBody()
		if full {
			return nil, &core.NodeError{Word: core.NodeBusy}
		}
		return nil, &core.NodeError{Word: core.NodeGone, Unsent: true}
	}
	resp, err := st.roundTrip()
	if err != nil {
		st.final = err
		_ = st.Close()
	}
	return resp, err
}

func (st *stream) roundTrip() (*http.Response, error) {
	ctx := st.req.Context()
	st.stop = context.AfterFunc(ctx, func() {
		st.cause = context.Cause(ctx)
		st.dropped.Store(true)
		st.drop(st.cause)
	})
	if err := st.start(ctx); err != nil {
		return nil, err
	}
	if err := st.upload(); err != nil {
		return nil, err
	}
	for {
		p := <-st.ch
		if st.dropped.Load() {
			return nil, st.cause
		}
		switch p.kind {
		case kindHeaders:
			return st.answer(p.payload)
		case kindCredit:
			st.poked.Store(false)
			if err := st.upload(); err != nil {
				return nil, err
			}
		case kindRefused:
			return nil, refusal(p.payload)
		case kindEnd:
			return nil, st.unanswered(p.payload)
		case kindCancel:
			return nil, st.err
		}
	}
}

// answer makes the response of a headers frame.
func (st *stream) answer(payload []byte) (*http.Response, error) {
	var h headers
	if len(payload) > mostHead || json.Unmarshal(payload, &h) != nil || h.Status < 100 || h.Status > 999 || h.ContentLength < -1 {
		st.session.breach("malformed headers")
		return nil, &core.NodeError{Word: core.NodeFault}
	}
	st.timing.SlotWait = core.Some(h.SlotWaitMS)
	if d := core.DispatchOf(st.req.Context()); d != nil {
		st.timing.Queued = core.Some(core.Ms(d.Admission) + h.SlotWaitMS)
	}
	st.timing = st.timing.Sound()
	st.bare = h.Status < 200 || h.Status == http.StatusNoContent || h.Status == http.StatusNotModified
	st.resp = &http.Response{StatusCode: h.Status, Status: fmt.Sprintf("%d %s", h.Status, http.StatusText(h.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: canonical(h.Header), ContentLength: h.ContentLength,
		Trailer: http.Header{core.NodeTimingTrailer: nil}, Body: st, Request: st.req}
	return st.resp, nil
}

// refusal is the error of a refused frame.
func refusal(payload []byte) error {
	var r refused
	_ = json.Unmarshal(payload, &r)
	switch r.Reason {
	case reasonBusy:
		e := &core.NodeError{Word: core.NodeBusy}
		if r.RetryAfterMS > 0 {
			e.RetryAfter = core.Some(time.Duration(min(r.RetryAfterMS, time.Hour.Milliseconds())) * time.Millisecond)
		}
		return e
	case reasonStopping:
		return &core.NodeError{Word: core.NodeStopping}
	}
	return &core.NodeError{Word: core.NodeRefused}
}

// unanswered is the error of an end that came before headers.
func (st *stream) unanswered(payload []byte) error {
	var e end
	_ = json.Unmarshal(payload, &e)
	words := map[string]string{endRefused: endRefused, endDNS: endDNS, endTLS: endTLS, endConnect: endConnect, endCut: endConnect,
		endCancelled: core.NodeStopping, endTooSlow: core.NodeTooSlow}
	if word := words[e.Error]; word != "" {
		timing := e.Timing.Sound()
		return &core.NodeError{Word: word, Timing: &timing}
	}
	st.session.breach("an end before headers")
	return &core.NodeError{Word: core.NodeFault}
}

// Read gives what came of the answer. What an earlier Read gave has been handed on by
// now: the node may send as much again.
func (st *stream) Read(p []byte) (n int, err error) {
	if st.final != nil {
		return 0, st.final
	}
	if st.dropped.Load() {
		return 0, st.ended(st.cause)
	}
	st.giveBack()
	for n < len(p) {
		if len(st.rest) > 0 {
			k := copy(p[n:], st.rest)
			n += k
			st.rest = st.rest[k:]
			st.taken.bytes += uint32(k)
			if len(st.rest) == 0 {
				st.taken.frames++
			}
			continue
		}
		var next piece
		if n == 0 {
			next = <-st.ch
		} else {
			select {
			case next = <-st.ch:
			default:
				return n, nil
			}
		}
		if err := st.handle(next); err != nil {
			if st.ended(err); n > 0 {
				return n, nil
			}
			return 0, err
		}
	}
	return n, nil
}

// handle takes a piece of the answer; an error ends it.
func (st *stream) handle(p piece) error {
	switch p.kind {
	case kindData:
		if st.bare {
			st.session.breach("data came of a status without a body")
			return &core.NodeError{Word: core.NodeFault}
		}
		if st.rest = p.payload; len(st.rest) == 0 {
			st.taken.frames++
		}
		return nil
	case kindCredit:
		st.poked.Store(false)
		return st.upload()
	case kindEnd:
		return st.last(p.payload)
	}
	if st.dropped.Load() {
		return st.cause
	}
	return st.err
}

// giveBack gives credit back once half of the window was handed on.
func (st *stream) giveBack() {
	c := st.taken
	if c.frames < windowFrames/2 && c.bytes < windowBytes/2 || st.over.Load() {
		return
	}
	st.taken = credit{}
	given := st.given.Load()
	st.given.Store(counted(given>>40+uint64(c.frames), given+uint64(c.bytes)))
	f := frame{kind: kindCredit, stream: st.id}
	_ = st.server.edge.Bus.Publish(st.session.jobs, c.append(f.append(st.scratch[:0])))
}

// last takes the end of an answer.
func (st *stream) last(payload []byte) error {
	var e end
	if len(payload) > mostHead || json.Unmarshal(payload, &e) != nil {
		st.session.breach("a malformed end")
		return &core.NodeError{Word: core.NodeFault}
	}
	st.timing = e.Timing.Sound()
	for name, v := range canonical(e.Trailer) {
		st.resp.Trailer[name] = v
	}
	switch e.Error {
	case "":
		st.server.served(st.timing.Service)
		return io.EOF
	case endTooSlow:
		return &core.NodeError{Word: core.NodeTooSlow}
	case endCancelled:
		return &core.NodeError{Word: core.NodeStopping}
	}
	return io.ErrUnexpectedEOF
}

// ended leaves nothing to read but err.
func (st *stream) ended(err error) error {
	st.final, st.rest = err, nil
	st.release()
	return err
}

// release lets go of what the round trip holds, and gives the trailer what is known
// of the node's figures.
func (st *stream) release() {
	if st.stop != nil {
		st.stop()
	}
	if st.finish(errClosed) {
		st.session.cancel(st.id)
	}
	st.closeBody()
	if st.resp != nil {
		if text, err := json.Marshal(&st.timing); err == nil {
			st.resp.Trailer[core.NodeTimingTrailer] = []string{string(text)}
		}
	}
}

// Close ends the round trip, at the node too.
func (st *stream) Close() error {
	if st.closed {
		return nil
	}
	st.closed = true
	if st.final != nil && st.resp != nil {
		return nil // it was read to its end
	}
	// The end may be here though nobody has read as far.
	for st.resp != nil && st.over.Load() {
		select {
		case p := <-st.ch:
			if p.kind == kindEnd {
				_ = st.last(p.payload)
			}
			continue
		default:
		}
		break
	}
	st.release()
	if st.final == nil {
		st.final = http.ErrBodyReadAfterClose
	}
	return nil
}

func (st *stream) closeBody() {
	if !st.bodyDone && st.req.Body != nil {
		st.bodyDone = true
		_ = st.req.Body.Close()
	}
}

// finish ends the stream, once: with an error it is given up, and its reader told.
func (st *stream) finish(err error) bool {
	if !st.over.CompareAndSwap(false, true) {
		return false
	}
	st.session.remove(st.id)
	st.server.held.Add(-1)
	if err != nil {
		st.err = err
		st.ch <- piece{kind: kindCancel} // there is always room for this one
	}
	return true
}

// drop gives the stream up, and tells the node.
func (st *stream) drop(err error) {
	if st.finish(err) {
		st.session.cancel(st.id)
	}
}

// broken gives the stream up for a fault of the node's. Its caller must not wait.
func (st *stream) broken(what string) {
	if st.finish(&core.NodeError{Word: core.NodeFault}) {
		st.server.edge.later(func() { st.session.cancel(st.id) })
	}
	st.session.breach(what)
}

// take handles a frame, in the subscription's goroutine.
func (st *stream) take(f *frame) {
	if st.over.Load() {
		return
	}
	if !st.heard.Load() {
		st.heard.Store(true)
	}
	if f.kind == kindCredit {
		st.more(parseCredit(f.payload))
		return
	}
	if f.seq != st.next {
		if st.finish(&core.NodeError{Word: core.NodeGap}) {
			st.server.edge.note(slog.LevelWarn, st.session.name, "a message of an answer was lost", "want", st.next, "got", f.seq)
			st.server.edge.later(func() { st.session.cancel(st.id) })
		}
		return
	}
	st.next++
	switch f.kind {
	case kindAccepted:
		if f.seq != 1 {
			st.broken("accepted is not its first word")
			return
		}
		st.accepted.Store(true)
		st.waits = len(f.payload) > 0 && f.payload[0] == acceptedWaits
		st.placed(st.waits)
		return
	case kindRunning:
		if !st.waits || st.begun {
			st.broken("running came of a call that did not wait")
			return
		}
		st.waits = false
		st.placed(false)
		return
	case kindHeaders:
		if st.begun {
			st.broken("headers came twice")
			return
		}
		st.begun = true
		st.accepted.Store(true)
	case kindData:
		if !st.begun {
			st.broken("data came before headers")
			return
		}
		st.frames++
		st.bytes += uint64(len(f.payload))
		given := st.given.Load()
		if (st.frames-given>>40)&(1<<24-1) > windowFrames || (st.bytes-given)&(1<<40-1) > windowBytes {
			st.broken("it sent more than it had credit for")
			return
		}
	case kindRefused:
		if f.seq != 1 {
			st.broken("refused is not its first word")
			return
		}
	}
	select {
	case st.ch <- piece{f.payload, f.kind}:
	default:
		st.broken("it sent more than it had credit for")
		return
	}
	if f.kind == kindEnd || f.kind == kindRefused {
		st.finish(nil)
	}
}

// placed tells the call that the node has it.
func (st *stream) placed(waits bool) {
	if d := core.DispatchOf(st.req.Context()); d != nil && d.Placed != nil {
		d.Placed(waits)
	}
}

// more takes credit for the request's body.
func (st *stream) more(c credit) {
	for {
		old := st.room.Load()
		if st.room.CompareAndSwap(old, min(old+int64(c.bytes), uploadBytes)) {
			break
		}
	}
	if st.sending.Load() && st.poked.CompareAndSwap(false, true) {
		st.ch <- piece{kind: kindCredit} // there is always room for this one
	}
}

func (e *Edge) buffer() *[]byte { return e.buffers.Get().(*[]byte) }

func (e *Edge) free(b *[]byte) {
	if cap(*b) <= pooledMost {
		e.buffers.Put(b)
	}
}

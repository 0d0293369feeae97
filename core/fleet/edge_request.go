package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"headway/core"
)

// start sends the start frame with as much of the body as goes with it.
func (st *stream) start(ctx context.Context) error {
	e, req := st.server.edge, st.req
	s := start{Upstream: st.server.name, Method: req.Method, Path: req.URL.EscapedPath(), Query: withoutKey(req.URL.RawQuery),
		Header: sentHeader(req.Header), ContentLength: req.ContentLength}
	if d := core.DispatchOf(ctx); d != nil {
		s.Call, s.Attempt, s.Model, s.Operation, s.Streamed, s.AdmissionMS = d.Call, d.Attempt, d.Model, d.Operation, d.Streamed, core.Ms(d.Admission)
	}
	if st.unsent = req.ContentLength; req.Body == nil || req.Body == http.NoBody {
		st.unsent, s.ContentLength = 0, 0
	} else if st.unsent <= 0 {
		st.unsent, s.ContentLength = -1, -1
	}
	buf := e.buffer()
	defer e.free(buf)
	msg, err := appendStart(append((*buf)[:0], st.scratch[:headerBytes]...), &s, nil)
	if err != nil {
		return err
	}
	if len(msg) > mostHead {
		return fmt.Errorf("the request's head is larger than %d KiB", mostHead>>10)
	}
	most := min(pieceBytes, e.Bus.MaxPayload()-len(msg))
	return st.send(buf, msg, kindStart, most)
}

// send reads at most most bytes of the request's body behind the head of a message,
// which has room for a frame's header, and sends it.
func (st *stream) send(buf *[]byte, msg []byte, k kind, most int) error {
	head := len(msg)
	msg, err := st.fill(msg, most)
	*buf = msg
	if err != nil {
		return err
	}
	st.room.Add(int64(head - len(msg)))
	st.seq++
	f := frame{kind: k, last: st.unsent == 0, seq: st.seq, stream: st.id}
	f.append(msg[:0]) // over the room at its beginning
	st.sending.Store(st.unsent != 0)
	if st.unsent == 0 {
		st.closeBody()
	}
	if err := st.server.edge.Bus.Publish(st.session.jobs, msg); err != nil {
		return &core.NodeError{Word: core.NodeGone, Unsent: k == kindStart}
	}
	return nil
}

// fill appends at most most bytes of the request's body.
func (st *stream) fill(msg []byte, most int) ([]byte, error) {
	known := st.unsent >= 0
	if known {
		most = int(min(int64(most), st.unsent))
	}
	for most > 0 {
		if len(msg) == cap(msg) {
			msg = append(msg, make([]byte, min(most, max(len(msg), 4<<10)))...)[:len(msg)]
		}
		n, err := st.req.Body.Read(msg[len(msg):min(cap(msg), len(msg)+most)])
		msg = msg[:len(msg)+n]
		most -= n
		if known {
			st.unsent -= int64(n)
		}
		switch {
		case err == io.EOF && known && st.unsent > 0:
			return msg, io.ErrUnexpectedEOF
		case err == io.EOF:
			st.unsent = 0
			return msg, nil
		case err != nil:
			return msg, err
		}
	}
	return msg, nil
}

// upload sends on what the node has room for of the request's body.
func (st *stream) upload() error {
	e := st.server.edge
	for st.unsent != 0 && !st.over.Load() {
		most := min(bodyPiece, st.room.Load(), int64(e.Bus.MaxPayload()-headerBytes))
		if most <= 0 {
			return nil
		}
		buf := e.buffer()
		err := st.send(buf, append((*buf)[:0], st.scratch[:headerBytes]...), kindBody, int(most))
		e.free(buf)
		if err != nil {
			return err
		}
	}
	return nil
}

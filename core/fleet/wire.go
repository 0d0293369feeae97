package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"headway/core"
)

// The subjects of FLEET.md; NODE is put in the place of the %s.
const (
	subjectHello    = "hw.v1.n.%s.hello"
	subjectBeat     = "hw.v1.n.%s.beat"
	subjectCalls    = "hw.v1.n.%s.calls"
	subjectFrames   = "hw.v1.n.%s.f"
	subjectJobs     = "hw.v1.j.%s.f"
	subjectEdgeBeat = "hw.v1.j.%s.beat"
	subjectOusted   = "hw.v1.j.%s.ousted"
)

func subject(of string, node core.NodeID) string { return fmt.Sprintf(of, string(node)) }

// kind is what a frame is.
type kind uint8

// The kinds of FLEET.md §3.
const (
	kindStart    kind = 1
	kindBody     kind = 2
	kindCredit   kind = 3
	kindCancel   kind = 4
	kindAccepted kind = 16
	kindRefused  kind = 17
	kindHeaders  kind = 18
	kindData     kind = 19
	kindEnd      kind = 20
	kindRunning  kind = 21
)

// acceptedWaits is the payload of an accepted frame of a call that waits for a slot.
const acceptedWaits = 1

// numbered tells whether a lost frame of the kind would be missed.
func (k kind) numbered() bool { return k != kindCredit && k != kindCancel }

const (
	wireVersion = 1
	headerBytes = 24
	flagLast    = 1
)

// The limits of FLEET.md §4.
const (
	windowFrames = 64
	windowBytes  = 256 << 10
	uploadBytes  = 1 << 20
	pieceBytes   = 256 << 10 // of a request's body: the most in one message
	joinedBytes  = 32 << 10  // the most that is joined into one data frame
	aheadBytes   = 64 << 10  // what a node reads ahead of its credit
	mostCalls    = 100       // of one message
)

// frame is a message of FLEET.md §3. Its payload is a part of the message.
type frame struct {
	kind    kind
	last    bool
	seq     uint32
	stream  uint64
	micros  uint64
	payload []byte
}

// append writes the frame's header and payload behind dst.
func (f *frame) append(dst []byte) []byte {
	var flags uint16
	if f.last {
		flags = flagLast
	}
	dst = append(dst, wireVersion, byte(f.kind))
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, f.seq)
	dst = binary.BigEndian.AppendUint64(dst, f.stream)
	dst = binary.BigEndian.AppendUint64(dst, f.micros)
	return append(dst, f.payload...)
}

var errFrame = errors.New("not a frame of this version")

// parseFrame reads a message; the payload is a part of it.
func parseFrame(b []byte) (f frame, err error) {
	if len(b) < headerBytes || b[0] != wireVersion {
		return f, errFrame
	}
	f = frame{kind: kind(b[1]), last: binary.BigEndian.Uint16(b[2:])&flagLast != 0, seq: binary.BigEndian.Uint32(b[4:]),
		stream: binary.BigEndian.Uint64(b[8:]), micros: binary.BigEndian.Uint64(b[16:]), payload: b[headerBytes:]}
	switch f.kind {
	case kindStart, kindBody, kindCredit, kindCancel, kindAccepted, kindRefused, kindHeaders, kindData, kindEnd, kindRunning:
	default:
		return f, errFrame
	}
	if f.kind.numbered() != (f.seq > 0) || f.stream == 0 || f.kind == kindCredit && len(f.payload) != 8 {
		return f, errFrame
	}
	return f, nil
}

// credit is what a receiver has taken in.
type credit struct{ frames, bytes uint32 }

func (c credit) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, c.frames), c.bytes)
}

// parseCredit reads the payload of a credit frame that parseFrame took.
func parseCredit(b []byte) credit {
	return credit{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// Words of a refused frame.
const (
	reasonBusy     = "busy"
	reasonUnknown  = "unknown"
	reasonBad      = "bad"
	reasonStopping = "stopping"
)

type refused struct {
	Reason       string `json:"reason"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

type headers struct {
	Status        int         `json:"status"`
	Header        http.Header `json:"header"`
	SlotWaitMS    float64     `json:"slot_wait_ms"`
	ContentLength int64       `json:"content_length"`
}

// Words of an end's error.
const (
	endRefused   = "refused"
	endDNS       = "dns"
	endTLS       = "tls"
	endConnect   = "connect"
	endCut       = "cut"
	endCancelled = "cancelled"
	endTooSlow   = "too_slow"
)

type end struct {
	Error   string          `json:"error,omitempty"`
	Timing  core.NodeTiming `json:"timing"`
	Trailer http.Header     `json:"trailer,omitempty"`
}

// streamID is a stream in JSON, which has no whole numbers of 64 bits.
type streamID uint64

// MarshalText writes it in decimal.
func (s streamID) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(s), 10), nil }

// UnmarshalText reads it.
func (s *streamID) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 10, 64)
	*s = streamID(v)
	return err
}

// beat is what both sides send every heartbeat.
type beat struct {
	Upstreams []upstreamBeat `json:"upstreams,omitempty"` // a node's alone
	Jobs      []streamID     `json:"jobs"`
	Stopping  bool           `json:"stopping,omitempty"` // a node's alone: it lets no more jobs in
}

type upstreamBeat struct {
	Name    string `json:"name,omitempty"`
	Busy    int64  `json:"busy"`
	Waiting int64  `json:"waiting"`
	Others  int64  `json:"others"`
}

// welcome is the answer to a hello.
type welcome struct {
	HeartbeatMS  int64  `json:"heartbeat_ms"`
	Misses       int    `json:"misses"`
	WindowFrames uint32 `json:"window_frames"`
	WindowBytes  uint32 `json:"window_bytes"`
	UploadBytes  uint32 `json:"upload_bytes"`
	InlineBytes  uint32 `json:"inline_bytes"`
	Error        string `json:"error,omitempty"`
}

// kept is the answer to calls.
type kept struct {
	Kept []string `json:"kept"`
}

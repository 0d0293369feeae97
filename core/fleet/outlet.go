package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"headway/core"
)

// creditTime is the longest time that a job waits for the edge to take any of what
// lies there.
const creditTime = 2 * time.Minute

// mostCredit bounds what an edge may give.
const mostCredit = 1 << 40

// errSlow says that the edge has not taken what lies there.
var errSlow = errors.New("the edge's credit did not come back in time")

// outlet is what a job sends to the edge: numbered frames in their order, data as
// credit allows. What comes while there is no credit is joined, and sent by the
// session's sender once there is some.
//
// The subscription's goroutine takes mu alone, which nobody holds while a message is
// published, so that a network which takes no more never holds up what comes.
type outlet struct {
	publish func(msg []byte) error
	late    func(*outlet) // has the sender call flush
	clock   core.Clock
	stream  uint64

	send   sync.Mutex // held while publishing, so that frames go out in their order; guards what follows
	seq    uint32
	sent   time.Time // the upstream send, zero before it
	joined []byte    // room for a header, then what waits for credit, from head on
	head   int
	err    error // errSession: a frame could not be published, so the stream has a hole

	mu      sync.Mutex // guards what follows
	frames  int64
	bytes   int64
	starved bool // something waits, and the next credit is to be told to the sender

	room chan struct{} // of one: less waits than did
}

// newOutlet begins with a stream's window.
func newOutlet(stream uint64, frames, bytes uint32, clock core.Clock, publish func([]byte) error, late func(*outlet)) *outlet {
	return &outlet{stream: stream, frames: int64(frames), bytes: int64(bytes), clock: clock, publish: publish, late: late, room: make(chan struct{}, 1)}
}

// begun notes the upstream send, which frames count their time from.
func (o *outlet) begun(at time.Time) {
	o.send.Lock()
	defer o.send.Unlock()
	o.sent = at
}

// frame sends one that needs no credit, behind all that was sent before.
func (o *outlet) frame(k kind, payload []byte) error {
	o.send.Lock()
	defer o.send.Unlock()
	msg := make([]byte, headerBytes+len(payload))
	copy(msg[headerBytes:], payload)
	return o.put(msg, k, o.clock())
}

// accept tells the edge that the job is here and has its slot, where nothing that was
// sent has told it.
func (o *outlet) accept() {
	o.send.Lock()
	defer o.send.Unlock()
	if o.seq == 0 {
		_ = o.put(make([]byte, headerBytes), kindAccepted, o.clock()) // where it is lost, so is what follows
	}
}

// data sends what was read at a time: msg has room for a header in front, which is
// overwritten. It tells how many bytes wait for credit; errSession ends the stream.
func (o *outlet) data(msg []byte, at time.Time) (waiting int, err error) {
	o.send.Lock()
	defer o.send.Unlock()
	payload := msg[headerBytes:]
	if len(o.joined) == o.head { // nothing is before it
		n := o.take(len(payload))
		if n > 0 {
			if err := o.put(msg[:headerBytes+n], kindData, at); err != nil {
				return 0, err
			}
		}
		if n == len(payload) {
			return 0, nil
		}
		payload = payload[n:]
		if o.joined == nil {
			o.joined = make([]byte, headerBytes, headerBytes+aheadBytes)
		}
		o.joined, o.head = o.joined[:headerBytes], headerBytes
	}
	o.joined = append(o.joined, payload...)
	return len(o.joined) - o.head, o.err
}

// put makes a message a frame and sends it.
func (o *outlet) put(msg []byte, k kind, at time.Time) error {
	if o.err != nil {
		return o.err
	}
	o.seq++
	f := frame{kind: k, seq: o.seq, stream: o.stream}
	if !o.sent.IsZero() {
		f.micros = uint64(max(at.Sub(o.sent).Microseconds(), 0))
	}
	f.append(msg[:0])
	if o.publish(msg) != nil { // it may be known here before the session knows
		o.err = errSession
	}
	return o.err
}

// take uses up credit for one frame of at most that many bytes, and tells for how
// many there is. Where it is not for all, the next credit is told to the sender.
func (o *outlet) take(most int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.frames == 0 || o.bytes == 0 {
		o.starved = true
		return 0
	}
	n := int(min(int64(most), o.bytes))
	o.frames--
	o.bytes -= int64(n)
	o.starved = n < most
	return n
}

// credit takes what the edge gives back.
func (o *outlet) credit(c credit) {
	o.mu.Lock()
	o.frames = min(o.frames+int64(c.frames), mostCredit)
	o.bytes = min(o.bytes+int64(c.bytes), mostCredit)
	wake := o.starved && o.frames > 0 && o.bytes > 0
	if wake {
		o.starved = false
	}
	o.mu.Unlock()
	if wake {
		o.late(o)
	}
}

// flush sends what waits, as far as there is credit, in frames of at most
// joinedBytes.
func (o *outlet) flush() {
	o.send.Lock()
	defer o.send.Unlock()
	was := o.head
	for o.err == nil && o.head < len(o.joined) {
		n := o.take(min(len(o.joined)-o.head, joinedBytes))
		if n == 0 {
			break
		}
		// The header goes where bytes were that have been sent.
		msg := o.joined[o.head-headerBytes : o.head+n]
		o.head += n
		_ = o.put(msg, kindData, o.clock())
	}
	if o.head == was && o.err == nil {
		return
	}
	if o.head == len(o.joined) {
		o.joined, o.head = o.joined[:headerBytes], headerBytes
	} else {
		o.joined = o.joined[:headerBytes+copy(o.joined[headerBytes:], o.joined[o.head:])]
		o.head = headerBytes
	}
	select {
	case o.room <- struct{}{}:
	default:
	}
}

// waiting is how many bytes wait for credit.
func (o *outlet) waiting() (int, error) {
	o.send.Lock()
	defer o.send.Unlock()
	return len(o.joined) - o.head, o.err
}

// wait waits until at most that many bytes wait for credit, and tells how many do.
func (o *outlet) wait(ctx context.Context, most int) (int, error) {
	n, err := o.waiting()
	for ; err == nil && n > most; n, err = o.waiting() {
		timer := time.NewTimer(creditTime)
		select {
		case <-o.room:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C:
			err = errSlow
		}
		timer.Stop()
		if err != nil {
			return n, err
		}
	}
	return n, err
}

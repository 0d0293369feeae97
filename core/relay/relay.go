package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"headway/core"
)

// ErrNoAnswer says that a stream ended before any output and without its
// format's finish.
var ErrNoAnswer = errors.New("the stream ended before any output")

// ErrCut says that a stream ended after output without its format's finish.
var ErrCut = errors.New("the stream ended without its finish")

// ErrBroken says that a stream held what is not of its format.
var ErrBroken = errors.New("the stream held an event that is not of its format")

// ErrClient wraps what went wrong while writing to the client.
var ErrClient = errors.New("the client could not be written to")

// What may come behind a format's end marker, or behind an error: nothing more
// belongs to the answer.
const (
	afterEnd  = 2 * time.Second
	behindEnd = 64 << 10 // bytes
)

// mostComments is what may be held back before further comments are dropped;
// events are held back up to the size that one of them may have.
const mostComments = 64 << 10

// Sink is the client's side. The first Write sends the status and headers; at is
// about now.
type Sink interface {
	Write(p []byte, at time.Time) error
	Flush() error
}

// Pump relays the stream of one attempt: it reads, lets the Reader classify,
// stamps the marks, and writes what came to the client, one flush for each
// read. Frames before the first output are held back (SPEC §9), so that an
// attempt that fails before it has said anything has sent nothing.
type Pump struct {
	Body   io.Reader
	Split  *Splitter
	Reader core.Reader
	Sink   Sink
	Clock  core.Clock

	// What each event touches lies side by side and is small: between two events of
	// a stream those of many others pass through the processor's cache. Times in it
	// are since alive.since.
	alive    pulse
	mu       sync.Mutex    // guards the fields below against the hold timer
	now      time.Duration // when this read was
	last     time.Duration // when the last one with output was (TL)
	released bool          // what was held has gone out
	sent     bool          // bytes have been written to the client
	output   bool          // there was output (T4)
	fresh    bool          // there was in this read
	finished bool          // the format's finish was seen
	ended    bool          // its end marker was
	failed   bool          // an error was, in the stream
	over     bool          // the end marker or an error was
	arrivals Arrivals
	events   int64      // frames with data
	texts    int64      // frames with visible text
	run      []byte     // what goes out at the end of this read
	Withhold bool       // keep usage-only frames from the client
	brokenUp bool       // what is not of the format was seen
	bare     bool       // an error was, and the client has not been given it
	gone     bool       // the client could not be written to
	frame    core.Frame // the one under way

	Watch *Watch
	Hold  time.Duration // longest hold-back, from the first frame that is no comment
	// Tail, where set, appends what the client gets once the stream has ended well,
	// behind what the Reader made of its frames; only the first time.
	Tail func(dst []byte) []byte
	// Over, where set, is called before the client gets the last of the stream: an
	// end marker, an error, or what Tail appends.
	Over func()
	// Settle, where set, is called once the answer is complete, before the client gets
	// the end of it: its finish and what comes behind. An error leaves the end out.
	Settle func() error
	// Clean, where set, takes out of an error what the client must not see.
	Clean func([]byte) []byte
	Line  *core.Timeline

	broken  error     // why the client is gone
	overAt  time.Time // when the end marker or an error was seen
	behind  int       // bytes read since
	held    []byte
	holding *time.Timer
	waiting []byte // what waits for Settle
}

// Counts are the frames with data, those with visible text, and the separate times
// at which output came (SPEC §4).
func (p *Pump) Counts() (events, texts, arrivals int64) {
	return p.events, p.texts, p.arrivals.Count()
}

// End is how a stream ended.
type End struct {
	Outcome core.Outcome
	Err     error // why, where Outcome is not Settled; else why its end was left out
	Sent    bool  // bytes have reached the client
	// Untold: bytes have reached the client but it has not been told of the
	// error: an error event must follow.
	Untold bool
}

// Run relays until the body ends. ctx is the attempt's: its cause tells a time
// limit from a client that left.
func (p *Pump) Run(ctx context.Context) (end End) {
	defer func() { // also where a reader panics
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.holding != nil {
			p.holding.Stop()
		}
		p.released = true // a hold timer that fires now finds nothing to do
		if p.output {
			p.Line.TL = p.alive.since.Add(p.last)
		}
		end.Sent = p.sent
		end.Untold = p.sent && end.Outcome != core.Settled && (!p.failed || p.bare) && !p.gone
	}()
	p.Watch.follow(&p.alive, p.Clock())
	end = p.pump(ctx)
	if end.Outcome != core.Settled {
		return end
	}
	if p.Settle != nil {
		if err := p.Settle(); err != nil {
			end.Err = err
			return end
		}
	}
	if len(p.waiting) > 0 || p.Tail != nil {
		if err := p.tail(); err != nil {
			return p.clientEnd(err)
		}
	}
	return end
}

// tail sends the end: what waited for Settle, and what comes behind the last frame.
func (p *Pump) tail() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.Clock().Sub(p.alive.since)
	if !p.released {
		p.release()
	}
	if len(p.waiting) > 0 {
		p.write(p.waiting)
	}
	if p.Tail != nil {
		p.write(p.Tail(nil))
		p.ending()
	}
	p.flush()
	return p.broken
}

func (p *Pump) pump(ctx context.Context) End {
	for {
		room, err := p.Split.Room()
		if err != nil {
			return p.end(ctx, err)
		}
		n, err := p.Body.Read(room)
		at := p.Clock()
		if n > 0 {
			p.alive.beat(at)
			p.Split.Filled(n)
			if p.over {
				p.behind += n
			}
			if werr := p.take(at); werr != nil {
				return p.clientEnd(werr)
			}
			if p.enough(at) {
				p.Line.T6 = at
				return p.end(ctx, io.EOF)
			}
		}
		if err != nil {
			p.Line.T6 = at
			if err == io.EOF || p.finished {
				if werr := p.rest(at); werr != nil {
					return p.clientEnd(werr)
				}
			}
			return p.end(ctx, err)
		}
	}
}

// enough tells whether nothing that could still come matters.
func (p *Pump) enough(at time.Time) bool {
	if !p.over {
		return p.brokenUp
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed && !p.sent || at.Sub(p.overAt) > afterEnd || p.behind > behindEnd
}

// take handles the frames of one read.
func (p *Pump) take(at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.frame
	p.now, p.fresh = at.Sub(p.alive.since), false
	for !p.brokenUp && p.Split.Next(f) {
		mark := p.stamp(f, at, true)
		p.letGo()
		p.pass(f, mark)
	}
	return p.settleRead(at)
}

// rest handles what is left behind the last complete frame.
func (p *Pump) rest(at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.frame
	p.now, p.fresh = at.Sub(p.alive.since), false
	some := p.Split.Rest(f)
	switch {
	case p.Split.kind == core.SplitArray && p.finished && !p.failed && p.Tail == nil:
		// The answer is complete: a client must be able to read it, also where its
		// upstream left the array open.
		if string(bytes.Trim(f.Raw, " \t\r\n")) != "]" {
			f.Raw = []byte("\n]")
		}
		p.send(f, f.Raw)
		return p.settleRead(at)
	case !some:
		return nil
	}
	mark := p.stamp(f, at, false)
	// Half an event, cut off, is not passed on: an error event will follow it.
	if mark != 0 && mark != core.MarkBroken || (p.finished || p.ended) && !p.failed {
		// Without its blank line an event is none to most readers, and what follows
		// would be a part of it.
		if len(f.Data) > 0 && len(f.Raw) > 0 && p.Tail == nil {
			f.Raw = append(bytes.TrimRight(f.Raw, "\r\n"), "\n\n"...)
		}
		p.pass(f, mark)
	}
	return p.settleRead(at)
}

// stamp lets the reader classify a frame and sets the marks of the timeline. A
// frame that is not whole may well be broken: it was cut off.
func (p *Pump) stamp(f *core.Frame, at time.Time, whole bool) core.Mark {
	if len(f.Data) > 0 {
		if p.events++; p.events == 1 {
			p.Line.T3 = at
		}
	}
	came := f.Raw
	mark := p.Reader.Read(f)
	if len(f.Raw) > 0 && (len(came) == 0 || &f.Raw[0] != &came[0]) {
		f.Raw = bytes.Clone(f.Raw) // a repaired form is the reader's until the next frame, this one goes out with its read
	}
	if mark.Has(core.MarkBroken) && !p.finished && !p.ended && !p.failed {
		p.brokenUp = whole
	}
	if mark.Output() {
		if !p.output {
			p.output = true
			p.Line.T4 = at
			p.Watch.Fix(time.Time{}, nil)
		}
		p.last, p.fresh = p.now, true
	}
	if mark.Has(core.MarkText) {
		if p.texts++; p.texts == 1 {
			p.Line.T5 = at
		}
	}
	p.finished = p.finished || mark.Has(core.MarkFinish)
	if mark.Has(core.MarkError) {
		p.failed = true
	}
	p.ended = p.ended || mark.Has(core.MarkEnd)
	if mark.Has(core.MarkEnd|core.MarkError) && !p.over {
		p.over, p.overAt = true, at
		p.Watch.Idle(at, afterEnd)
		if !p.failed || p.sent { // else another attempt may follow
			p.ending()
		}
	}
	return mark
}

func (p *Pump) ending() {
	if p.Over != nil {
		p.Over()
	}
}

// pass sends a frame towards the client.
func (p *Pump) pass(f *core.Frame, mark core.Mark) {
	switch {
	case p.Withhold && mark.Has(core.MarkUsageOnly):
	case mark.Has(core.MarkBroken):
	case p.failed && !mark.Has(core.MarkError): // an error is the last word
	case mark.Has(core.MarkError) && (len(f.Raw) == 0 || bytes.Equal(bytes.TrimSpace(f.Raw), f.Data)):
		p.bare = true // a client reads events; this is none
	case mark.Has(core.MarkError) && p.Clean != nil:
		p.send(f, p.Clean(f.Raw))
	default:
		p.send(f, f.Raw)
	}
}

// send writes a frame or holds it back.
func (p *Pump) send(f *core.Frame, raw []byte) {
	if len(raw) == 0 {
		return
	}
	if p.Settle != nil && (p.finished || p.ended) && !p.failed && len(p.waiting)+len(raw) <= p.Split.max {
		p.waiting = append(p.waiting, raw...)
		return
	}
	if !p.released && !p.failed {
		room := p.Split.max - len(p.held) - len(raw)
		switch {
		case len(f.Data) == 0 && len(p.held) > mostComments && !p.finished:
			return
		case room < 0:
			p.release()
		}
	}
	if p.released {
		p.write(raw)
	} else {
		p.held = append(p.held, raw...)
	}
}

// settleRead decides at the end of a read whether what is held may go out, and
// flushes.
func (p *Pump) settleRead(at time.Time) error {
	p.letGo()
	if p.fresh {
		p.arrivals.Add(p.now)
	}
	if !p.released && p.holding == nil && p.events > 0 {
		p.holding = time.AfterFunc(p.Hold-at.Sub(p.Line.T3), p.holdOver)
	}
	if p.released {
		p.flush()
	}
	if p.gone {
		return p.broken
	}
	return nil
}

// letGo ends the hold-back once there is output, or a finish without any.
func (p *Pump) letGo() {
	if !p.released && (p.output || (p.finished || p.ended) && !p.failed) {
		p.release()
	}
}

// holdOver runs when the longest hold-back is over.
func (p *Pump) holdOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released || p.failed {
		return
	}
	p.now = p.Clock().Sub(p.alive.since)
	p.release()
	p.flush()
}

func (p *Pump) release() {
	p.released = true
	p.Watch.Fix(time.Time{}, nil) // something was sent: no other offer can answer
	if len(p.held) > 0 {
		p.write(p.held)
		p.held = nil
	}
}

// write puts bytes behind those that go out at the end of this read. Frames lie
// side by side in the splitter's buffer: as long as none is left out, all of a
// read goes out in one piece.
func (p *Pump) write(b []byte) {
	p.sent = true
	if n := len(p.run); n > 0 && n < cap(p.run) && len(b) > 0 && &p.run[:n+1][n] == &b[0] {
		p.run = p.run[:n+len(b)]
		return
	}
	p.writeRun()
	p.run = b
}

func (p *Pump) writeRun() {
	if len(p.run) > 0 && !p.gone {
		p.lost(p.Sink.Write(p.run, p.alive.since.Add(p.now)))
	}
	p.run = nil
}

func (p *Pump) flush() {
	p.writeRun()
	if !p.gone && p.sent { // output need not be bytes for this client
		p.lost(p.Sink.Flush())
	}
}

// lost notes that the client could not be written to.
func (p *Pump) lost(err error) {
	if err != nil {
		p.gone, p.broken = true, err
	}
}

// end decides how a stream ended that stopped with err.
func (p *Pump) end(ctx context.Context, err error) End {
	if p.Line.T6.IsZero() {
		p.Line.T6 = p.Clock()
	}
	cause := context.Cause(ctx)
	switch {
	case p.failed:
		return End{Outcome: core.Failed, Err: p.streamError()}
	case p.brokenUp:
		return End{Outcome: core.Failed, Err: ErrBroken}
	case p.ended || p.finished:
		return End{Outcome: core.Settled}
	case cause != nil && TimeLimit(cause):
		return End{Outcome: core.TimedOut, Err: cause}
	case cause != nil:
		return End{Outcome: core.ClientGone, Err: cause}
	case err != io.EOF && err != io.ErrUnexpectedEOF && !p.output:
		return End{Outcome: core.Failed, Err: err}
	case p.output && err == ErrEventTooLarge:
		return End{Outcome: core.Truncated, Err: err}
	case p.output && err != io.EOF:
		return End{Outcome: core.Truncated, Err: fmt.Errorf("%w: %w", ErrCut, err)}
	case p.output:
		return End{Outcome: core.Truncated, Err: ErrCut}
	}
	return End{Outcome: core.Failed, Err: ErrNoAnswer}
}

// streamError is the error that the stream reported.
func (p *Pump) streamError() error {
	if e := p.Reader.Answer().Err; e != nil {
		return &StreamError{*e}
	}
	return ErrNoAnswer
}

// StreamError is an error that came inside a stream.
type StreamError struct{ core.UpstreamError }

// Error names the kind alone: the text is the caller's.
func (e *StreamError) Error() string { return "the upstream reported an error in its stream" }

// clientEnd decides how a stream ended that could not be written on.
func (p *Pump) clientEnd(err error) End {
	p.Line.T6 = p.Clock()
	return End{Outcome: ClientOutcome(err), Err: ErrClient}
}

// ClientOutcome is how a call ends whose answer could not be written.
func ClientOutcome(err error) core.Outcome {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return core.ClientStalled
	}
	return core.ClientGone
}

// Package relay carries an upstream's answer to the client: it cuts the stream
// into frames, lets the format's Reader say what each one is, stamps the marks
// of the timeline, and writes the bytes on as they came (SPEC §2, §3, §9).
package relay

import (
	"bytes"
	"errors"
	"sync"

	"headway/core"
)

// ErrEventTooLarge says that one event of a stream is over limits.event_mib.
var ErrEventTooLarge = errors.New("an event of the stream is larger than limits.event_mib allows")

const (
	firstBuffer = 8 << 10 // most events are a few hundred bytes
	leastRoom   = 2 << 10
)

var buffers = sync.Pool{New: func() any { b := make([]byte, firstBuffer); return &b }}

// Splitter cuts a stream into frames. Bytes are read straight into its buffer
// (Room, Filled), frames are slices of it (Next), valid until the next Room.
// It may be cut at any byte: the frames are the same.
type Splitter struct {
	// What each read touches comes first.
	kind     core.Splitting
	tooLarge bool // an AWS message says that it is longer than max
	broken   bool // there was what is no AWS message
	skipLF   bool // the last line ended with CR: a LF next belongs to it
	crlf     bool // this stream ends lines with CR LF
	begun    bool // the byte order mark, if any, is behind us
	max      int
	buf      []byte
	start    int // of the frame under way
	scan     int // what was looked at already
	end      int // of what was read

	// The SSE block under way; offsets into buf.
	line   int // start of the line under way
	lf     int // no LF is between scan and here
	name   span
	data   span
	fields int    // data lines so far
	value  int    // start of a JSON element's text, -1 before it
	joined []byte // the data of a block with several data lines

	// The JSON array under way.
	depth  int
	quoted bool
	escape bool
	opened bool // inside the outer bracket

	pooled *[]byte
}

type span struct{ from, to int }

// NewSplitter makes a splitter for one stream whose events may be max bytes
// long. Release gives its buffer back.
func NewSplitter(kind core.Splitting, max int) *Splitter {
	s := new(Splitter)
	s.Begin(kind, max)
	return s
}

// Begin is NewSplitter for one that lies in memory of the caller's.
func (s *Splitter) Begin(kind core.Splitting, max int) {
	p := buffers.Get().(*[]byte)
	*s = Splitter{kind: kind, max: max, pooled: p, buf: *p, value: -1}
}

// Release gives the buffer back; the splitter and its frames are done with.
func (s *Splitter) Release() {
	buffers.Put(s.pooled)
	s.buf, s.pooled = nil, nil
}

// Room gives the part of the buffer to read into next. It moves what is left of
// an unfinished frame to the front; frames given before are no longer valid.
func (s *Splitter) Room() ([]byte, error) {
	if s.tooLarge || s.end-s.start > s.max {
		return nil, ErrEventTooLarge
	}
	if s.start > 0 {
		n := copy(s.buf, s.buf[s.start:s.end])
		s.shift(s.start)
		s.start, s.end = 0, n
	}
	if len(s.buf)-s.end < leastRoom {
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf[:s.end])
		s.buf = grown
	}
	return s.buf[s.end:], nil
}

func (s *Splitter) shift(by int) {
	s.scan -= by
	s.line -= by
	s.lf -= by
	s.data.from, s.data.to = s.data.from-by, s.data.to-by
	s.name.from, s.name.to = s.name.from-by, s.name.to-by
	if s.value >= 0 {
		s.value -= by
	}
}

// Filled says that n bytes were read into Room.
func (s *Splitter) Filled(n int) { s.end += n }

// Next gives the next complete frame; false where more must be read first.
// Raw of all frames, joined with Rest's, is the stream byte for byte.
func (s *Splitter) Next(f *core.Frame) bool {
	switch s.kind {
	case core.SplitArray:
		return s.nextElement(f)
	case core.SplitLines:
		return s.nextLine(f)
	case core.SplitAWS:
		return s.nextMessage(f)
	}
	if !s.begun {
		if s.end-s.start < 3 && bytes.HasPrefix([]byte("\xef\xbb\xbf"), s.buf[s.start:s.end]) {
			return false
		}
		s.begun = true
		if bytes.HasPrefix(s.buf[s.start:s.end], []byte("\xef\xbb\xbf")) {
			s.scan, s.line = s.start+3, s.start+3
		}
	}
	for s.scan < s.end {
		if s.skipLF {
			s.skipLF = false
			if s.buf[s.scan] == '\n' {
				s.crlf = true
				s.scan++
				s.line = s.scan
				continue
			}
		}
		// The next LF is looked for once, not for each line that a CR ends.
		s.lf = max(s.lf, s.scan)
		eol := bytes.IndexByte(s.buf[s.lf:s.end], '\n')
		if eol < 0 {
			s.lf = s.end
		} else {
			s.lf += eol
			eol = s.lf - s.scan
		}
		rest := s.buf[s.scan:s.lf]
		if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
			if s.crlf && s.scan+cr+1 == s.end {
				s.scan += cr
				return false // its LF is on the way
			}
			eol = cr
			s.skipLF = true
		}
		if eol < 0 {
			s.scan = s.end
			return false
		}
		from, to := s.line, s.scan+eol
		s.scan = to + 1
		if s.skipLF && s.scan < s.end && s.buf[s.scan] == '\n' {
			s.scan++
			s.skipLF, s.crlf = false, true
		}
		s.line = s.scan
		if from < to {
			s.field(from, to)
			continue
		}
		s.emit(f, s.scan)
		return true
	}
	return false
}

// field takes one line of a block.
func (s *Splitter) field(from, to int) {
	line := s.buf[from:to]
	colon := bytes.IndexByte(line, ':')
	name := line
	value := span{to, to}
	if colon >= 0 {
		name = line[:colon]
		value.from = from + colon + 1
		if value.from < to && s.buf[value.from] == ' ' {
			value.from++
		}
	}
	switch string(name) {
	case "data":
		switch s.fields++; s.fields {
		case 1:
			s.data = value
		case 2:
			s.joined = append(append(s.joined[:0], s.buf[s.data.from:s.data.to]...), '\n')
			s.joined = append(s.joined, s.buf[value.from:value.to]...)
		default:
			s.joined = append(append(s.joined, '\n'), s.buf[value.from:value.to]...)
		}
	case "event":
		s.name = value
	}
}

// emit ends the block under way at end.
func (s *Splitter) emit(f *core.Frame, end int) {
	f.Raw = s.buf[s.start:end]
	f.Name, f.Data = "", nil
	switch {
	case s.fields == 1:
		f.Data = s.buf[s.data.from:s.data.to]
	case s.fields > 1:
		f.Data = s.joined
	default:
		// A bare JSON text in place of an event: some servers report an error so.
		if t := bytes.TrimSpace(f.Raw); len(t) > 0 && t[0] == '{' {
			f.Data = t
		}
	}
	if s.name.to > s.name.from {
		f.Name = eventName(s.buf[s.name.from:s.name.to])
	}
	s.start, s.fields, s.name, s.data = end, 0, span{}, span{}
}

// eventName gives the text of an event's name, without allocating for those
// that come with every delta.
func eventName(b []byte) string {
	switch string(b) {
	case "content_block_delta":
		return "content_block_delta"
	case "response.output_text.delta":
		return "response.output_text.delta"
	}
	return string(b)
}

// Rest gives what is left at the end of the body as a last frame; false where
// nothing is. An event without its blank line is one, if it is whole.
func (s *Splitter) Rest(f *core.Frame) bool {
	if s.start >= s.end {
		return false
	}
	switch s.kind {
	case core.SplitArray:
		f.Raw, f.Name, f.Data = s.buf[s.start:s.end], "", nil
		s.start = s.end
		return true
	case core.SplitLines:
		s.lastLine(f)
		return true
	case core.SplitAWS:
		s.brokenMessage(f)
		return true
	}
	if s.line < s.end {
		s.field(s.line, s.end)
	}
	s.emit(f, s.end)
	return true
}

// nextElement gives the next element of a JSON array; its Raw holds the comma
// or bracket before it.
func (s *Splitter) nextElement(f *core.Frame) bool {
	for ; s.scan < s.end; s.scan++ {
		ch := s.buf[s.scan]
		switch {
		case s.quoted:
			switch {
			case s.escape:
				s.escape = false
			case ch == '\\':
				s.escape = true
			case ch == '"':
				s.quoted = false
			}
		case ch == '"':
			s.quoted = true
		case ch == '[' && !s.opened:
			s.opened = true
		case ch == '{' || ch == '[':
			if s.depth++; s.value < 0 {
				s.value = s.scan
			}
		case (ch == '}' || ch == ']') && s.depth > 0:
			if s.depth--; s.depth == 0 {
				s.scan++
				f.Raw, f.Name, f.Data = s.buf[s.start:s.scan], "", s.buf[s.value:s.scan]
				s.start, s.value = s.scan, -1
				return true
			}
		}
	}
	return false
}

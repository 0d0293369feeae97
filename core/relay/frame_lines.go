package relay

import (
	"bytes"

	"headway/core"
)

// nextLine gives the next line that is not blank; blank ones before it belong
// to its Raw.
func (s *Splitter) nextLine(f *core.Frame) bool {
	for s.scan < s.end {
		n := bytes.IndexByte(s.buf[s.scan:s.end], '\n')
		if n < 0 {
			s.scan = s.end
			return false
		}
		line := bytes.TrimSpace(s.buf[s.line : s.scan+n])
		s.scan += n + 1
		s.line = s.scan
		if len(line) > 0 {
			f.Raw, f.Name, f.Data = s.buf[s.start:s.scan], "", line
			s.start = s.scan
			return true
		}
	}
	return false
}

// lastLine gives what is left at the end, a line that nothing ends.
func (s *Splitter) lastLine(f *core.Frame) {
	f.Raw, f.Name, f.Data = s.buf[s.start:s.end], "", bytes.TrimSpace(s.buf[s.line:s.end])
	s.start = s.end
}

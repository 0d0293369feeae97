package relay

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"

	"headway/core"
)

// An AWS event stream is a row of messages: total length and length of the
// headers, four bytes each, the CRC of these, the headers, the payload, and the
// CRC of all before it.
const (
	awsPrelude = 12
	awsLeast   = awsPrelude + 4
	awsText    = 7 // the type of a header that is a text
)

// awsHeaders are those headers of a message that say what it is.
type awsHeaders struct{ kind, event, exception, code, message []byte }

// nextMessage gives the next message: its payload as Data, its event type as
// Name. What is broken, and all that follows it, has the Name [core.BrokenFrame].
func (s *Splitter) nextMessage(f *core.Frame) bool {
	have := s.buf[s.start:s.end]
	if s.broken && len(have) > 0 {
		s.brokenMessage(f)
		return true
	}
	if len(have) < awsPrelude {
		return false
	}
	total, size := binary.BigEndian.Uint32(have), binary.BigEndian.Uint32(have[4:])
	switch {
	case crc32.ChecksumIEEE(have[:8]) != binary.BigEndian.Uint32(have[8:]) || total < awsLeast || size > total-awsLeast:
		s.brokenMessage(f)
		return true
	case int64(total) > int64(s.max):
		s.tooLarge = true
		return false
	case len(have) < int(total):
		return false
	}
	m := have[:total]
	var h awsHeaders
	if !h.read(m[awsPrelude:awsPrelude+size]) || crc32.ChecksumIEEE(m[:total-4]) != binary.BigEndian.Uint32(m[total-4:]) {
		s.brokenMessage(f)
		return true
	}
	f.Raw, f.Data = m, m[awsPrelude+size:total-4]
	switch string(h.kind) {
	case "exception":
		f.Name = core.ExceptionFrame + string(h.exception)
	case "error": // one that the service's model does not have: all of it is in the headers
		f.Name = core.ExceptionFrame + string(h.code)
		f.Data, _ = json.Marshal(map[string]string{"message": string(h.message)})
	default:
		f.Name = awsEvent(h.event)
	}
	s.start += int(total)
	return true
}

// brokenMessage gives all that is there: where the next message begins is not
// known.
func (s *Splitter) brokenMessage(f *core.Frame) {
	f.Raw, f.Name, f.Data = s.buf[s.start:s.end], core.BrokenFrame, nil
	s.start, s.broken = s.end, true
}

// read reads a message's headers; false where they are not well formed.
func (h *awsHeaders) read(b []byte) bool {
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 {
			return false
		}
		key, form, rest := b[1:n], b[n], b[n+1:]
		size, ok := awsSize(form, rest)
		if !ok || len(rest) < size {
			return false
		}
		if form == awsText {
			text := rest[2:size]
			switch string(key) {
			case ":message-type":
				h.kind = text
			case ":event-type":
				h.event = text
			case ":exception-type":
				h.exception = text
			case ":error-code":
				h.code = text
			case ":error-message":
				h.message = text
			}
		}
		b = rest[size:]
	}
	return true
}

// awsSize is how many bytes a header's value takes, by its type.
func awsSize(form byte, rest []byte) (int, bool) {
	switch form {
	case 0, 1: // true, false
		return 0, true
	case 2:
		return 1, true
	case 3:
		return 2, true
	case 4:
		return 4, true
	case 5, 8: // a long, a time
		return 8, true
	case 9: // a UUID
		return 16, true
	case 6, awsText:
		if len(rest) < 2 {
			return 0, false
		}
		return 2 + int(binary.BigEndian.Uint16(rest)), true
	}
	return 0, false
}

// awsEvent gives the text of an event's type, without allocating for those that
// come with every delta.
func awsEvent(b []byte) string {
	switch string(b) {
	case "chunk":
		return "chunk"
	case "contentBlockDelta":
		return "contentBlockDelta"
	}
	return string(b)
}

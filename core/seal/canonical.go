package seal

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"headway/core"
)

// Leaves are canonical JSON (RFC 8785) of a small kind: objects whose keys are
// sorted, strings, booleans, null, lists, and integers of at most 2^53−1 either
// way. There are no fractions, so that every language writes the same bytes.

const maxInteger = 1<<53 - 1

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string as RFC 8785 §3.2.2.2 does. Bytes that are not
// UTF-8 become U+FFFD, as encoding/json has them.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				dst = append(dst, "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		i++
		from = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// appendStrings writes a list of strings.
func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// reader reads canonical JSON of the kind above. What it gives is a part of the
// text, or made anew where a string has escapes. After the first fault nothing
// more is read, and every method gives nothing.
type reader struct {
	text  []byte
	at    int
	depth int
	bad   error
}

const mostDepth = 16 // objects and lists inside one another

func (r *reader) fail(what string) {
	if r.bad == nil {
		r.bad = core.Errorf(core.Invalid, "byte %d: %s", r.at, what)
	}
}

func (r *reader) peek() byte {
	if r.bad != nil || r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *reader) take(c byte) {
	if r.peek() != c {
		r.fail("a " + strconv.QuoteRune(rune(c)) + " is missing")
		return
	}
	r.at++
}

// end says whether all of the text was read, and what was wrong with it.
func (r *reader) end() error {
	if r.bad == nil && r.at != len(r.text) {
		r.fail("something follows the object")
	}
	return r.bad
}

// object reads an object; field reads the value of each key. Keys must be sorted
// and differ.
func (r *reader) object(field func(key []byte)) {
	r.nested('{', '}', func(first bool, last *[]byte) {
		key := r.string()
		if !first && bytes.Compare(*last, key) >= 0 { // our keys are ASCII: the order of bytes is that of UTF-16
			r.fail("a key that is not in its order")
		}
		*last = key
		r.take(':')
		if r.bad == nil {
			field(key)
		}
	})
}

func (r *reader) list(item func()) {
	r.nested('[', ']', func(bool, *[]byte) { item() })
}

func (r *reader) nested(open, end byte, item func(first bool, last *[]byte)) {
	r.take(open)
	if r.depth++; r.depth > mostDepth {
		r.fail("it is nested too deep")
	}
	var last []byte
	for first := true; r.bad == nil; first = false {
		if first && r.peek() == end {
			break
		}
		if !first {
			if r.peek() == end {
				break
			}
			r.take(',')
		}
		if r.bad == nil {
			item(first, &last)
		}
	}
	r.take(end)
	r.depth--
}

// string reads a string in its one canonical spelling.
func (r *reader) string() []byte {
	from := r.at
	r.take('"')
	if r.bad != nil {
		return nil
	}
	plain := true // no escapes
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			raw := r.text[from+1 : r.at]
			r.at++
			if !utf8.Valid(raw) {
				r.fail("a string that is not UTF-8")
				return nil
			}
			if plain {
				return raw
			}
			return r.unescape(r.text[from:r.at])
		case c < ' ':
			r.fail("a control character in a string")
			return nil
		case c == '\\':
			plain = false
			r.at++
		}
		r.at++
	}
	r.at = len(r.text)
	r.fail("a string that does not end")
	return nil
}

func (r *reader) unescape(quoted []byte) []byte {
	var out []byte
	for i := 1; i < len(quoted)-1; i++ {
		c := quoted[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		switch quoted[i] {
		case '"', '\\':
			out = append(out, quoted[i])
		case 'b':
			out = append(out, '\b')
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'f':
			out = append(out, '\f')
		case 'r':
			out = append(out, '\r')
		case 'u':
			if i+4 >= len(quoted)-1 {
				break
			}
			n, err := strconv.ParseUint(string(quoted[i+1:i+5]), 16, 8)
			if err != nil {
				break
			}
			out = append(out, byte(n))
			i += 4
		}
	}
	if !bytes.Equal(appendString(nil, out), quoted) { // whatever else stood there
		r.fail("a string that is not written as RFC 8785 has it")
		return nil
	}
	return out
}

// integer reads an integer of at most 2^53−1 either way.
func (r *reader) integer() int64 {
	from := r.at
	for r.at < len(r.text) && (r.text[r.at] >= '0' && r.text[r.at] <= '9' || r.text[r.at] == '-') {
		r.at++
	}
	if r.bad != nil {
		return 0
	}
	raw := r.text[from:r.at]
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n > maxInteger || n < -maxInteger || !bytes.Equal(strconv.AppendInt(nil, n, 10), raw) {
		r.at = from
		r.fail("not an integer of at most 2^53-1")
		return 0
	}
	return n
}

// count reads an integer from 0 to 2^53−1.
func (r *reader) count() uint64 {
	from := r.at
	n := r.integer()
	if n < 0 {
		r.at = from
		r.fail("a number that is negative")
		return 0
	}
	return uint64(n)
}

// skip reads any value.
func (r *reader) skip() {
	switch c := r.peek(); {
	case c == '"':
		r.string()
	case c == '{':
		r.object(func([]byte) { r.skip() })
	case c == '[':
		r.list(r.skip)
	case c == '-' || c >= '0' && c <= '9':
		r.integer()
	default:
		for _, word := range []string{"true", "false", "null"} {
			if bytes.HasPrefix(r.text[min(r.at, len(r.text)):], []byte(word)) {
				r.at += len(word)
				return
			}
		}
		r.fail("not a value")
	}
}

package adapters

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep the JSON of a request or an event may nest.
const maxDepth = 128

// cursor walks JSON text in one pass, without allocating, and checks the
// grammar of all it passes. Each value must be consumed, by a typed method or
// by skip, before the next is asked for. After the first mistake every method
// answers false and err stays set.
type cursor struct {
	b     []byte
	i     int
	depth int
	first bool // the next member or element is the first of its container
	err   error
}

func walk(b []byte) cursor { return cursor{b: b} }

func (c *cursor) fail(what string) bool {
	if c.err == nil {
		c.err = fmt.Errorf("not valid JSON: %s at byte %d", what, c.i)
	}
	return false
}

// peek skips white space and gives the next byte, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\n', '\r', '\t':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// open consumes the opening brace or bracket of a container; false where the
// next value is something else, which is then still there.
func (c *cursor) open(bracket byte) bool {
	if c.err != nil || c.peek() != bracket {
		return false
	}
	if c.depth++; c.depth > maxDepth {
		return c.fail("nested deeper than " + strconv.Itoa(maxDepth))
	}
	c.i++
	c.first = true
	return true
}

func (c *cursor) object() bool { return c.open('{') }
func (c *cursor) array() bool  { return c.open('[') }

// next steps to the next member or element; false behind the last one, whose
// closing bracket it consumes.
func (c *cursor) next(closing byte) bool {
	if c.err != nil {
		return false
	}
	ch := c.peek()
	if ch == closing {
		c.i++
		c.depth--
		c.first = false
		return false
	}
	if !c.first {
		if ch != ',' {
			return c.fail("expected a comma")
		}
		c.i++
		if c.peek() == closing {
			return c.fail("a comma before the end")
		}
	}
	c.first = false
	return true
}

// key gives the next member's name, unescaped; false behind the last member.
func (c *cursor) key() ([]byte, bool) {
	if !c.next('}') {
		return nil, false
	}
	name, plain := c.plain()
	if !plain {
		raw, ok := c.text()
		if !ok {
			return nil, c.fail("expected a member name")
		}
		name = unescape(raw)
	}
	if c.peek() != ':' {
		return nil, c.fail("expected a colon")
	}
	c.i++
	return name, true
}

// plain consumes a string that has no escapes, as nearly all names; false where
// there is none, which is then still there.
func (c *cursor) plain() ([]byte, bool) {
	if c.i >= len(c.b) || c.b[c.i] != '"' {
		return nil, false
	}
	rest := c.b[c.i+1:]
	for n, ch := range rest {
		if ch == '"' {
			c.i += n + 2
			return rest[:n], true
		}
		if ch == '\\' || ch < ' ' {
			break
		}
	}
	return nil, false
}

// each gives the names of an object's members. A value that the loop leaves
// unread is passed over, and so is a value that is no object.
func (c *cursor) each(yield func(name []byte) bool) {
	if !c.object() {
		c.skip()
		return
	}
	c.rest(yield)
}

// rest is each of an object whose brace is behind the cursor.
func (c *cursor) rest(yield func(name []byte) bool) {
	for {
		name, ok := c.key()
		if !ok {
			return
		}
		c.peek()
		at := c.i
		if !yield(name) {
			return
		}
		if c.i == at {
			c.skip()
		}
	}
}

// given is each without the members that are null.
func (c *cursor) given(yield func(name []byte) bool) {
	for name := range c.each {
		if !c.null() && !yield(name) {
			return
		}
	}
}

// element tells whether another element follows.
func (c *cursor) element() bool { return c.next(']') }

// text consumes a string and gives what is between its quotes, still escaped;
// false where the next value is something else, which is then still there.
func (c *cursor) text() ([]byte, bool) {
	if c.err != nil || c.peek() != '"' {
		return nil, false
	}
	from := c.i + 1
	end := stringEnd(c.b, from)
	if end < 0 {
		return nil, c.fail("a string that does not end or holds a control character or a bad escape")
	}
	c.i = end + 1
	return c.b[from:end], true
}

// number consumes a number and gives its text; false as text.
func (c *cursor) number() ([]byte, bool) {
	if c.err != nil {
		return nil, false
	}
	if ch := c.peek(); ch != '-' && (ch < '0' || ch > '9') {
		return nil, false
	}
	from := c.i
	if c.b[c.i] == '-' {
		c.i++
	}
	digits := func() int {
		n := c.i
		for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
			c.i++
		}
		return c.i - n
	}
	lead := c.i
	if n := digits(); n == 0 || n > 1 && c.b[lead] == '0' {
		return nil, c.fail("a malformed number")
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if digits() == 0 {
			return nil, c.fail("a malformed number")
		}
	}
	if c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		if digits() == 0 {
			return nil, c.fail("a malformed number")
		}
	}
	return c.b[from:c.i], true
}

// integer consumes a number that is whole; anything else is consumed too and
// gives false.
func (c *cursor) integer() (int64, bool) {
	raw, ok := c.number()
	if !ok {
		c.skip()
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(raw), 64) // 12.0 and 1e3 are whole too
		if n = int64(f); err != nil || float64(n) != f || f > 1<<53 || f < -1<<53 {
			return 0, false
		}
	}
	return n, true
}

// float consumes a number; anything else is consumed too and gives false.
func (c *cursor) float() (float64, bool) {
	raw, ok := c.number()
	if !ok {
		c.skip()
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// boolean consumes true or false; false as text for anything else.
func (c *cursor) boolean() (value, ok bool) {
	switch {
	case c.literal("true"):
		return true, true
	case c.literal("false"):
		return false, true
	}
	return false, false
}

// null consumes null; false as text for anything else.
func (c *cursor) null() bool { return c.literal("null") }

func (c *cursor) literal(word string) bool {
	if c.err != nil || c.peek() != word[0] || len(c.b)-c.i < len(word) || string(c.b[c.i:c.i+len(word)]) != word {
		return false
	}
	c.i += len(word)
	return true
}

// skip consumes any value.
func (c *cursor) skip() {
	if c.err != nil {
		return
	}
	switch c.peek() {
	case '"':
		c.text()
	case '{':
		for c.object(); ; {
			if _, ok := c.key(); !ok {
				return
			}
			c.skip()
		}
	case '[':
		for c.array(); c.element(); {
			c.skip()
		}
	case 't', 'f', 'n':
		if _, ok := c.boolean(); !ok && !c.null() {
			c.fail("a malformed literal")
		}
	case 0:
		c.fail("it ends too early")
	default:
		if _, ok := c.number(); !ok {
			c.fail("an unexpected character")
		}
	}
}

// value consumes any value and gives its text.
func (c *cursor) value() []byte {
	c.peek()
	from := c.i
	c.skip()
	return c.b[from:c.i]
}

// end says that nothing may follow.
func (c *cursor) end() error {
	if c.err == nil && c.peek() != 0 || c.err == nil && c.i < len(c.b) {
		c.fail("data after the JSON value")
	}
	return c.err
}

// word consumes a value and gives a string's text, unescaped, else "".
func (c *cursor) word() string {
	if s, ok := c.text(); ok {
		return string(unescape(s))
	}
	c.skip()
	return ""
}

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stringEnd gives the index of the closing quote of a string whose text begins
// at i, or -1 where it does not end, or holds a control character or an escape
// that JSON does not have. Eight bytes are looked at in one step, as most of a
// large request is one string.
func stringEnd(b []byte, i int) int {
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(lows*'"'), w^(lows*'\\')
			stop := ((quote-lows)&^quote | (slash-lows)&^slash | (w-lows*0x20)&^w) & highs
			if stop != 0 {
				i += bits.TrailingZeros64(stop) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return -1
		}
		switch ch := b[i]; {
		case ch == '"':
			return i
		case ch == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return -1
			}
			i += n
		case ch < 0x20:
			return -1
		default: // only in the last eight bytes of the text
			i++
		}
	}
}

// escapeLen is the length of the escape that b begins with, 0 for none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, ch := range b[2:6] {
			if !('0' <= ch && ch <= '9' || 'a' <= ch|0x20 && ch|0x20 <= 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// unescape gives a string's text; raw itself where nothing is escaped. Half a
// character becomes U+FFFD, as in encoding/json, and so does what is not UTF-8.
func unescape(raw []byte) []byte {
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for next >= 0 {
		out, raw = append(out, raw[:next]...), raw[next:]
		n := escapeLen(raw)
		switch {
		case n == 0:
			return append(out, raw...)
		case n == 2:
			if i := strings.IndexByte("bfnrt", raw[1]); i >= 0 {
				out = append(out, "\b\f\n\r\t"[i])
			} else {
				out = append(out, raw[1])
			}
		default:
			r := rune(hex4(raw[2:]))
			if utf16.IsSurrogate(r) {
				if r = utf8.RuneError; len(raw) > 6 && raw[6] == '\\' && escapeLen(raw[6:]) == 6 {
					if r = utf16.DecodeRune(rune(hex4(raw[2:])), rune(hex4(raw[8:]))); r != utf8.RuneError {
						n = 12
					}
				}
			}
			out = utf8.AppendRune(out, r)
		}
		raw = raw[n:]
		next = bytes.IndexByte(raw, '\\')
	}
	out = append(out, raw...)
	if !utf8.Valid(out) {
		return bytes.ToValidUTF8(out, []byte("\ufffd"))
	}
	return out
}

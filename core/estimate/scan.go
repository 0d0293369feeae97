package estimate

import (
	"bytes"

	"headway/core"
)

// kind is what a byte of UTF-8 says of the character that it begins or goes on
// with.
type kind uint8

const (
	kindLower kind = iota // and Latin letters beyond ASCII
	kindUpper
	kindDigit
	kindMark  // ASCII punctuation
	kindQuote // marks that JSON and markup are full of: quotes, angle brackets
	kindSpace
	kindBreak  // an end of line; also what comes before a text
	kindCJK    // the first byte of a Chinese, Japanese or Korean character
	kindOther2 // the first of two bytes of another script's character
	kindOther3 // the first of three bytes or four, also of a symbol
	kindGoesOn // a later byte of a character
	kindEscape // a backslash
	kindCount
)

// kinds is filled once and never changes.
var kinds = newKinds()

func newKinds() (t [256]kind) {
	for b := range t {
		switch {
		case 'a' <= b && b <= 'z', 0xC2 <= b && b < 0xC6: // to U+017F
			t[b] = kindLower
		case 'A' <= b && b <= 'Z':
			t[b] = kindUpper
		case '0' <= b && b <= '9':
			t[b] = kindDigit
		case b == '"' || b == '<' || b == '>':
			t[b] = kindQuote
		case b == ' ' || b == '\t':
			t[b] = kindSpace
		case b < ' ':
			t[b] = kindBreak
		case b == '\\':
			t[b] = kindEscape
		case b < 0x80:
			t[b] = kindMark
		case b < 0xC0:
			t[b] = kindGoesOn
		case 0xE3 <= b && b <= 0xED, b == 0xEF: // U+3000 to U+DFFF; full width forms
			t[b] = kindCJK
		case b < 0xE0:
			t[b] = kindOther2
		default:
			t[b] = kindOther3
		}
	}
	return t
}

// A byte adds to a few counters, by its kind and that of the byte before. They lie
// side by side in two words, eight bits each, so that a byte costs two additions;
// they are emptied before one can be full.
const (
	inLetters = 8 * iota // of step.chars
	inDigits
	inMarks
	inQuotes // of the marks
	inBlanks
	inCJK
	inOther // in bytes
	inBytes // what it stands for: an escape sequence stands for less than it is long
)

const (
	inWords = 8 * iota // of step.runs
	inNumbers
	inMarkRuns
	inGaps
	inBreaks
)

// emptyEvery is after how many bytes the counters are emptied: no byte of UTF-8
// adds more than its share.
const emptyEvery = 255

type step struct{ chars, runs uint64 }

// steps is filled once and never changes.
var steps = newSteps()

func newSteps() (t [256]step) {
	word := func(k kind) bool {
		return k <= kindUpper || k == kindOther2 || k == kindOther3 || k == kindGoesOn
	}
	mark := func(k kind) bool { return k == kindMark || k == kindQuote || k == kindEscape }
	blank := func(k kind) bool { return k == kindSpace || k == kindBreak }
	for i := range t {
		was, is := kind(i>>4), kind(i&15)
		s := &t[i]
		s.chars = 1 << inBytes
		switch {
		case is <= kindUpper:
			s.chars |= 1 << inLetters
		case is == kindDigit:
			s.chars |= 1 << inDigits
			if was != kindDigit {
				s.runs |= 1 << inNumbers
			}
		case mark(is):
			s.chars |= 1 << inMarks
			if !mark(was) {
				s.runs |= 1 << inMarkRuns
			}
		case blank(is):
			s.chars |= 1 << inBlanks
			if !blank(was) {
				s.runs |= 1 << inGaps
			}
		case is == kindCJK:
			s.chars |= 1 << inCJK
		case is == kindOther2:
			s.chars |= 2 << inOther
		case is == kindOther3:
			s.chars |= 3 << inOther
		}
		if is == kindQuote {
			s.chars |= 1 << inQuotes
		}
		if word(is) && is != kindGoesOn && (!word(was) || was == kindLower && is == kindUpper) {
			s.runs |= 1 << inWords
		}
		if is == kindBreak && was != kindBreak || is == kindSpace && was == kindBreak {
			s.runs |= 1 << inBreaks
		}
	}
	return t
}

// counts are the sums over all that was looked at.
type counts struct {
	letters, digits, marks, quotes, blanks, cjk, other, bytes int
	words, numbers, markRuns, gaps, breaks                    int
	raw                                                       int // bytes as they are in the body
}

// add counts a piece of a JSON string's inside, or of JSON itself. was is the kind
// of what comes before it.
func (c *counts) add(text []byte, was kind) {
	c.raw += len(text)
	for len(text) > 0 {
		plain := bytes.IndexByte(text, '\\')
		if plain < 0 {
			plain = len(text)
		}
		for run := text[:plain]; len(run) > 0; {
			n := min(len(run), emptyEvery)
			var sum step
			for _, b := range run[:n] {
				is := kinds[b]
				s := &steps[was<<4|is]
				sum.chars += s.chars
				sum.runs += s.runs
				was = is
			}
			c.take(sum)
			run = run[n:]
		}
		if text = text[plain:]; len(text) > 0 {
			e := escape(text)
			s := steps[was<<4|e.kind]
			s.chars += uint64(e.stands-1) << inBytes
			c.take(s)
			was = e.kind
			text = text[e.size:]
		}
	}
}

func (c *counts) take(s step) {
	of := func(word uint64, at int) int { return int(word >> at & 0xFF) }
	c.letters += of(s.chars, inLetters)
	c.digits += of(s.chars, inDigits)
	c.marks += of(s.chars, inMarks)
	c.quotes += of(s.chars, inQuotes)
	c.blanks += of(s.chars, inBlanks)
	c.cjk += of(s.chars, inCJK)
	c.other += of(s.chars, inOther)
	c.bytes += of(s.chars, inBytes)
	c.words += of(s.runs, inWords)
	c.numbers += of(s.runs, inNumbers)
	c.markRuns += of(s.runs, inMarkRuns)
	c.gaps += of(s.runs, inGaps)
	c.breaks += of(s.runs, inBreaks)
}

// escaped is an escape sequence: the character that it stands for, in how many
// bytes of UTF-8, and its own size.
type escaped struct {
	kind         kind
	stands, size int
}

// escape reads the sequence that text begins with; a backslash that begins none
// is a mark.
func escape(text []byte) escaped {
	if len(text) < 2 {
		return escaped{kindEscape, 1, 1}
	}
	switch b := text[1]; b {
	case 'n', 'r', 'b', 'f':
		return escaped{kindBreak, 1, 2}
	case 't':
		return escaped{kindSpace, 1, 2}
	case '"', '/':
		return escaped{kinds[b], 1, 2}
	case '\\':
		return escaped{kindMark, 1, 2}
	case 'u':
		if len(text) >= 6 {
			return escaped6(text[2:6])
		}
	}
	return escaped{kindEscape, 1, 1}
}

// escaped6 reads the four digits of a \uXXXX.
func escaped6(digits []byte) escaped {
	r := 0
	for _, d := range digits {
		r <<= 4
		switch {
		case '0' <= d && d <= '9':
			r |= int(d - '0')
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			r |= int(d|0x20-'a') + 10
		default:
			return escaped{kindEscape, 1, 1}
		}
	}
	switch {
	case r < 0x80:
		return escaped{kinds[r], 1, 6}
	case r < 0x800:
		return escaped{kinds[0xC0|r>>6], 2, 6}
	case r >= 0xD800 && r < 0xDC00: // a pair stands for four bytes, half of it for two
		return escaped{kindOther3, 2, 6}
	case r >= 0xDC00 && r < 0xE000:
		return escaped{kindGoesOn, 2, 6}
	}
	return escaped{kinds[0xE0|r>>12], 3, 6}
}

// windows are evenly spread pieces of texts that are taken as one.
type windows struct {
	every float64 // bytes from the beginning of one to the beginning of the next
	at    int     // where in the whole the next text begins
	count int     // windows that have begun
	left  int     // bytes that the last one still wants
}

// over counts the windows that lie in some texts, and goes on where it was with
// the next ones.
func (w *windows) over(c *counts, body []byte, texts []core.Span) {
	for _, s := range texts {
		from, size := 0, s.To-s.From
		for from < size {
			if w.left == 0 {
				from = max(int(float64(w.count)*w.every)-w.at, from)
				if from >= size {
					break
				}
				w.count++
				w.left = windowBytes
			}
			to := min(from+w.left, size)
			w.left -= to - from
			was := kindBreak
			begin := s.From + from
			if from > 0 {
				begin, was = before(body[s.From:s.To], from)
				begin += s.From
			}
			c.add(body[begin:s.From+to], was)
			from = to
		}
		w.at += size
	}
}

// before finds where to begin near from: not inside an escape sequence, and after
// which kind.
func before(text []byte, from int) (int, kind) {
	for i := from - 1; i >= max(from-longestEscape, 0); i-- {
		if text[i] == '\\' {
			from = i
		}
	}
	if from == 0 {
		return 0, kindBreak
	}
	return from, kinds[text[from-1]]
}

// longestEscape is the size of \uXXXX, but for its last byte.
const longestEscape = 5

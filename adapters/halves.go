package adapters

import (
	"bytes"
	"unicode/utf8"

	"headway/core"
)

// half names one of the texts of an answer that come in pieces.
type half struct {
	choice, index int
	kind          core.EventKind
}

// halves joins characters that a server has cut in two: the escape of half a
// character, or some of the bytes of one, waits for the piece that follows.
type halves struct{ held map[half][]byte }

func (h *halves) any() bool { return len(h.held) > 0 }

// whole gives a piece, still escaped, with the half before it in front and
// without one at its end. A half that finds no other is U+FFFD.
func (h *halves) whole(of half, piece []byte) []byte {
	if len(piece) == 0 {
		return piece
	}
	held, low := h.held[of], isLowHalf(piece)
	n := cutShort(piece)
	if held == nil && !low && n == 0 {
		return piece
	}
	delete(h.held, of)
	switch escaped := len(held) > 0 && held[0] == '\\'; {
	case escaped && low:
		piece = append(held, piece...)
	case escaped:
		piece = append([]byte(lost), piece...)
	case low:
		piece = append([]byte(lost), piece[6:]...)
	case held != nil:
		piece = append(held, piece...)
		n = cutShort(piece)
		piece = append(bytes.ToValidUTF8(piece[:len(piece)-n], []byte(lost)), piece[len(piece)-n:]...)
	}
	if n == 0 {
		return piece
	}
	if h.held == nil {
		h.held = map[half][]byte{}
	}
	at := len(piece) - n
	h.held[of] = bytes.Clone(piece[at:])
	return piece[:at]
}

// lost stands for a character that cannot be known.
const lost = "\ufffd"

// cutShort is how many bytes at the end of a piece are half a character.
func cutShort(piece []byte) int {
	n := len(piece)
	if n == 0 {
		return 0
	}
	if piece[n-1] >= utf8.RuneSelf {
		for i := 1; i <= min(n, utf8.UTFMax-1); i++ {
			if utf8.RuneStart(piece[n-i]) {
				if !utf8.FullRune(piece[n-i:]) {
					return i
				}
				return 0
			}
		}
		return 0
	}
	if n < 6 || piece[n-6] != '\\' || piece[n-5] != 'u' || escapeLen(piece[n-6:]) != 6 {
		return 0
	}
	if escapes(piece[:n-6])%2 != 0 || hex4(piece[n-4:])&^0x3FF != 0xD800 {
		return 0
	}
	return 6
}

// isLowHalf tells whether a piece begins with the second half of a character.
func isLowHalf(piece []byte) bool {
	return len(piece) >= 6 && piece[0] == '\\' && piece[1] == 'u' && escapeLen(piece) == 6 && hex4(piece[2:])&^0x3FF == 0xDC00
}

// escapes counts the backslashes that a text ends in.
func escapes(text []byte) (n int) {
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n
}

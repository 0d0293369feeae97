package adapters

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"headway/core"
)

// What a provider gave with its reasoning travels through a client of another
// format inside the place that this format has for such things, wrapped with its
// origin, and comes back with the client's next turn:
//
//	hw1:ORIGIN:s|e:LENGTH OF ID:ID TEXT
//
// s is a signature, e the reasoning itself, encrypted. ID and text stand there as
// in their JSON strings.
const sealMark = "hw1:"

// sealMark64 is how any wrapped seal begins in base64, which Google's clients need.
const sealMark64 = "aHcxO"

// wrapSeal gives a seal as text to stand between the quotes of a JSON string.
func wrapSeal(s core.Seal) []byte {
	id, kind := inner(s.ID), byte('s')
	if s.Encrypted {
		kind = 'e'
	}
	b := append(make([]byte, 0, len(sealMark)+len(s.Origin)+len(id)+len(s.Text)+8), sealMark...)
	b = append(append(b, s.Origin...), ':', kind, ':')
	b = append(strconv.AppendInt(b, int64(len(id)), 10), ':')
	return append(append(b, id...), inner(s.Text)...)
}

// wrapSeal64 is wrapSeal in base64.
func wrapSeal64(s core.Seal) []byte {
	return base64.StdEncoding.AppendEncode(nil, wrapSeal(s))
}

// openSeal reads what a client of a format sent in a seal's place, with its
// quotes: a wrapped seal, in base64 or not, or one of the format's own, which is
// encrypted and has an id as given.
func openSeal(text core.Quoted, own core.Format, encrypted bool, id core.Quoted) core.Seal {
	raw := inner(text)
	if len(raw) == 0 {
		return core.Seal{}
	}
	if s, ok := unwrapSeal(raw); ok {
		return s
	}
	return core.Seal{Origin: own, Text: text, Encrypted: encrypted, ID: id}
}

// unwrapSeal is the seal that was wrapped in a text, false where none was.
func unwrapSeal(raw []byte) (s core.Seal, ok bool) {
	wrapped := raw
	if bytes.HasPrefix(raw, []byte(sealMark64)) {
		// SDKs write it again, in either alphabet.
		if b, err := base64.RawStdEncoding.AppendDecode(nil, bytes.TrimRight(standard64(unescape(raw)), "=")); err == nil {
			wrapped = b
		}
	}
	rest, ok := bytes.CutPrefix(wrapped, []byte(sealMark))
	if !ok {
		return s, false
	}
	origin, rest, ok1 := bytes.Cut(rest, []byte(":"))
	kind, rest, ok2 := bytes.Cut(rest, []byte(":"))
	length, rest, ok3 := bytes.Cut(rest, []byte(":"))
	n, err := strconv.Atoi(string(length))
	if !ok1 || !ok2 || !ok3 || len(kind) != 1 || err != nil || n < 0 || n > len(rest) || !isInner(rest[:n]) || !isInner(rest[n:]) {
		return s, false
	}
	s = core.Seal{Origin: core.Format(origin), Text: requote(rest[n:]), Encrypted: kind[0] == 'e'}
	if n > 0 {
		s.ID = requote(rest[:n])
	}
	return s, true
}

// isInner tells whether bytes may stand between the quotes of a JSON string: what
// was in base64 was not looked at as a part of the body, and a length may cut an
// escape in two.
func isInner(b []byte) bool {
	return stringEnd(requote(b), 1) == len(b)+1 && checkText(b) == nil
}

// inner is what stands between the quotes of a JSON string.
func inner(q core.Quoted) []byte {
	if len(q) < 2 {
		return nil
	}
	return q[1 : len(q)-1]
}

// requote puts quotes around what stood between some.
func requote(inner []byte) core.Quoted {
	return append(append(append(make(core.Quoted, 0, len(inner)+2), '"'), inner...), '"')
}

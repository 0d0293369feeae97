package adapters

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"headway/core"
)

// FuzzUnescape: a string's text is what encoding/json takes it for.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{`plain`, `\"\\\/\b\f\n\r\t`, `\u00e9\u20ac x`, `\ud83c\udf75`, `\ud83c`, `\udf75\ud83c`, `\ud83c\ud83c\udf75`, `a\ud83c\n`, `\\ud83c`, `\ud83cnudf75`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want string
		raw = raw[:len(raw):len(raw)]
		if end := stringEnd(append(raw, '"'), 0); !utf8.Valid(raw) || end != len(raw) || json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &want) != nil {
			return
		}
		got := unescape(raw)
		if escaped := len(got) != len(raw) || string(got) != string(raw); escaped && string(got) != want {
			t.Errorf("%q is %q, want %q", raw, got, want)
		}
	})
}

// FuzzHalves: however a text is cut into strings, the pieces that are given on
// are strings of whole characters that make the same text.
func FuzzHalves(f *testing.F) {
	f.Add([]byte(`a\ud83c\udf75b`), 7)
	f.Add([]byte(`\\ud83c\\\ud83c\udf75`), 15)
	f.Add([]byte("caf\u00e9 \u20ac \U0001f375"), 4)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		quotedText := append(append([]byte{'"'}, text...), '"')
		if at < 0 || at > len(text) || stringEnd(append(text[:len(text):len(text)], '"'), 0) != len(text) || !json.Valid(quotedText) || checkText(quotedText) != nil ||
			stringEnd(append(text[:at:at], '"'), 0) != at || stringEnd(append(text[at:len(text):len(text)], '"'), 0) != len(text)-at {
			return
		}
		var h halves
		of := half{kind: core.EventText}
		a := string(h.whole(of, text[:at:at]))
		b := string(h.whole(of, text[at:]))
		if a+b != string(text) || h.any() || checkText([]byte(`"`+a+`"`)) != nil || checkText([]byte(`"`+b+`"`)) != nil {
			t.Errorf("%q cut at %d gives %q and %q", text, at, a, b)
		}
	})
}

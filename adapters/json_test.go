package adapters

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCursor holds the cursor's grammar against encoding/json's.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, ` {"a":[1,2.5e-3,"x\u00e9\n",true,false,null]} `, `{"a":1,}`, `[1,]`, `{"a"}`, `01`, `-`, `1.`, `"\x"`, `"a`, "\"a\nb\"",
		`{"a":1}{}`, `nul`, `"\ud800"`, `[[[[]]]]`, `{"aaaaaaaaaaaaaaaaaaaaaaaa":"bbbbbbbbbbbbbbbbbbbbbbbbbbbb\\\"bbbbbbbb"}`, "\"aaaaaaa\x1f\"", ``, ` `, "1\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := walk(b)
		c.skip()
		err := c.end()
		if want := json.Valid(b); (err == nil) != want && !strings.Contains(string(b), strings.Repeat("[", maxDepth/8)) && !deep(b) {
			t.Fatalf("%q: valid %v, cursor says %v", b, want, err)
		}
	})
}

// deep tells whether b may nest deeper than the cursor allows.
func deep(b []byte) bool {
	n := 0
	for _, ch := range b {
		if ch == '[' || ch == '{' {
			n++
		}
	}
	return n > maxDepth
}

func TestCursorWalks(t *testing.T) {
	c := walk([]byte(`{"m\u006fdel":"a\"b","list":[{"x":1},{"x":2}],"n":12.0,"last":null}`))
	var got []string
	var sum int64
	for c.object(); ; {
		k, ok := c.key()
		if !ok {
			break
		}
		got = append(got, string(k))
		switch string(k) {
		case "model":
			if w := c.word(); w != `a"b` {
				t.Errorf("model is %q", w)
			}
		case "list":
			for c.array(); c.element(); {
				for c.object(); ; {
					if _, ok := c.key(); !ok {
						break
					}
					n, _ := c.integer()
					sum += n
				}
			}
		case "n":
			if n, ok := c.integer(); !ok || n != 12 {
				t.Errorf("12.0 gives %d %v", n, ok)
			}
		default:
			c.skip()
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "model list n last" || sum != 3 {
		t.Errorf("walked %q, sum %d", s, sum)
	}
}

// What a loop over members leaves unread is passed over.
func TestCursorMembers(t *testing.T) {
	c := walk([]byte(`[{"a":[1,{"b":2}],"\u0063":null, "d" : "x","e":{"f":{},"g":1},"h":{}},7,{}]`))
	var got []string
	for c.array(); c.element(); {
		for name := range c.given {
			got = append(got, string(name))
			if string(name) != "e" {
				continue
			}
			c.object()
			for name := range c.rest {
				got = append(got, string(name))
			}
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "a d e f g h" {
		t.Errorf("walked %q", s)
	}
	c = walk([]byte(`{"a":1 "b":2}`))
	for range c.each {
	}
	if c.end() == nil {
		t.Error("members without a comma between them are taken")
	}
}

func TestCursorDepth(t *testing.T) {
	c := walk([]byte(strings.Repeat("[", 1<<20)))
	c.skip()
	if c.err == nil || !strings.Contains(c.err.Error(), "nested deeper") {
		t.Errorf("a million brackets: %v", c.err)
	}
}

func BenchmarkCursorSkip400KB(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum dolor sit amet ", 15000) + `"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		c := walk(body)
		c.skip()
		if c.end() != nil || !utf8.Valid(body) {
			b.Fatal("not valid")
		}
	}
}

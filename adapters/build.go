package adapters

import (
	"strconv"

	"headway/core"
)

// text is JSON while it is written: members and elements are appended, with the
// commas that they need.
type text struct{ b []byte }

// open begins an object or a list: '{' or '['.
func (t *text) open(bracket byte) { t.b = append(t.b, bracket) }

// close ends it: '}' or ']'.
func (t *text) close(bracket byte) { t.b = append(t.b, bracket) }

// item begins the next element of a list.
func (t *text) item() {
	if n := len(t.b); n > 0 && t.b[n-1] != '[' {
		t.b = append(t.b, ',')
	}
}

// key begins the next member of an object. The name needs no escapes.
func (t *text) key(name string) {
	if n := len(t.b); n > 0 && t.b[n-1] != '{' {
		t.b = append(t.b, ',')
	}
	t.b = append(append(append(t.b, '"'), name...), '"', ':')
}

// raw appends a value that is JSON already.
func (t *text) raw(v []byte) { t.b = append(t.b, v...) }

// str appends a text as a JSON string.
func (t *text) str(s string) { t.b = append(t.b, quote(s)...) }

// inner appends what is escaped already, with quotes around it.
func (t *text) inner(escaped []byte) {
	t.b = append(append(append(t.b, '"'), escaped...), '"')
}

func (t *text) int(n int64) { t.b = strconv.AppendInt(t.b, n, 10) }

func (t *text) bool(v bool) { t.b = strconv.AppendBool(t.b, v) }

// member writes a member whose value is JSON already; nothing where it is absent.
func (t *text) member(name string, v []byte) {
	if len(v) > 0 {
		t.key(name)
		t.raw(v)
	}
}

// count writes a member that is a whole number; nothing where it is absent.
func (t *text) count(name string, v core.Opt[int64]) {
	if v.OK {
		t.key(name)
		t.int(v.V)
	}
}

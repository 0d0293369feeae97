package adapters

import (
	"bytes"

	"headway/core"
)

// bodyField is a top-level member of a request, its value as it stands.
type bodyField struct {
	name  string
	value []byte
}

// bodyFields are the members of a body in their order; it is one that Parse has
// read.
func bodyFields(body []byte) (fields []bodyField) {
	c := walk(body)
	for key := range c.each {
		fields = append(fields, bodyField{string(key), c.pass()})
	}
	return fields
}

// pass consumes a value of a text that is known to be JSON and gives its text. It
// looks for quotes and brackets alone, as most of a request is one string.
func (c *cursor) pass() []byte {
	c.peek()
	from, depth := c.i, 0
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			c.i = quoteEnd(c.b, c.i+1)
			if depth == 0 {
				return c.b[from:c.i]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth <= 1 {
				c.i += depth // the bracket of another value ends a number or a word
				return c.b[from:c.i]
			}
			depth--
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return c.b[from:c.i]
			}
		}
		c.i++
	}
	return c.b[from:c.i]
}

// quoteEnd gives the place behind the quote that ends the string whose text
// begins at i.
func quoteEnd(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		if i += n + 1; escapes(b[:i-1])%2 == 0 {
			return i
		}
	}
}

// quoted consumes a value and gives a string with its quotes, nil for anything else.
func (c *cursor) quoted() core.Quoted {
	c.peek()
	from := c.i
	if _, ok := c.text(); !ok {
		c.skip()
		return nil
	}
	return c.b[from:c.i]
}

// optional consumes a value and gives a boolean, absent for anything else.
func (c *cursor) optional() core.Opt[bool] {
	v, ok := c.boolean()
	if !ok {
		c.skip()
		return core.Opt[bool]{}
	}
	return core.Some(v)
}

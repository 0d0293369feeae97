package adapters

import (
	"bytes"
	"slices"

	"headway/core"
)

// inputSchema is the schema of a tool's arguments in the form that the API wants:
// there, and with a type.
func inputSchema(schema core.JSON) core.JSON {
	c := walk(schema)
	if !c.object() {
		return core.JSON(`{"type":"object","properties":{}}`)
	}
	empty := true
	for key := range c.rest {
		if string(key) == "type" {
			return schema
		}
		empty = false
	}
	if empty {
		return core.JSON(`{"type":"object"}`)
	}
	at := bytes.IndexByte(schema, '{') + 1
	return slices.Concat(schema[:at], []byte(`"type":"object",`), schema[at:])
}

// closedWriter rewrites a JSON schema as Anthropic's structured outputs take it.
type closedWriter struct {
	text
	loose bool // it allows what the API has no form for
}

// closedSchema is a schema as Anthropic's own SDKs send it: every object closed,
// and each rule that the API does not enforce written into the description for
// the model to read. false where it allows what the API has no form for: objects
// with members of any name.
func closedSchema(schema core.JSON) (core.JSON, bool) {
	w := closedWriter{text: text{make([]byte, 0, len(schema)+256)}}
	c := walk(schema)
	w.schema(&c)
	return w.b, c.err == nil && !w.loose
}

// schemaFormats are the forms of strings that the API enforces.
var schemaFormats = []string{`"date-time"`, `"time"`, `"date"`, `"duration"`, `"email"`, `"hostname"`, `"uri"`, `"ipv4"`, `"ipv6"`, `"uuid"`}

// schema writes one schema; true and false, which are schemas too, stay.
func (w *closedWriter) schema(c *cursor) {
	if !c.object() {
		w.raw(c.value())
		return
	}
	w.open('{')
	var description core.Quoted
	var unenforced []byte
	object, choice := false, false
	for key := range c.rest {
		switch name := string(key); name {
		case "type":
			v := c.value()
			object = object || bytes.Contains(v, []byte(`"object"`))
			w.member(name, v)
		case "title", "enum", "const", "$ref", "required", "default":
			w.member(name, c.value())
		case "properties", "$defs", "definitions":
			object = object || name == "properties"
			w.key(name)
			w.named(c)
		case "items":
			w.key(name)
			w.schema(c)
		case "allOf":
			w.key(name)
			w.list(c)
		case "anyOf", "oneOf":
			if choice { // one of each: the API has no form for both
				w.loose = true
				continue
			}
			choice = true
			w.key("anyOf")
			w.list(c)
		case "additionalProperties":
			object = true
			w.loose = c.peek() == '{' || w.loose
			c.skip()
		case "description":
			description = c.value()
		case "$schema", "$id", "$comment", "strict":
			c.skip() // they bind nothing
		default:
			v := c.value()
			switch {
			case name == "format" && slices.Contains(schemaFormats, string(v)), name == "minItems" && (string(v) == "0" || string(v) == "1"):
				w.member(name, v)
			default:
				if unenforced != nil {
					unenforced = append(unenforced, ", "...)
				}
				unenforced = append(append(append(unenforced, name...), ": "...), v...)
			}
		}
	}
	w.described(description, unenforced)
	if object {
		w.key("additionalProperties")
		w.bool(false)
	}
	w.close('}')
}

// described writes the description, and behind it the rules that are not
// enforced.
func (w *closedWriter) described(description core.Quoted, rules []byte) {
	if rules == nil {
		w.member("description", description)
		return
	}
	w.key("description")
	told := encode("{" + string(rules) + "}")
	if before := inner(description); len(before) > 0 && description[0] == '"' {
		told = slices.Concat([]byte{'"'}, before, []byte(`\n\n`), told[1:])
	}
	w.raw(told)
}

// named writes the schemas of an object's members.
func (w *closedWriter) named(c *cursor) {
	if !c.object() {
		w.raw(c.value())
		return
	}
	w.open('{')
	for key := range c.rest {
		if n := len(w.b); w.b[n-1] != '{' {
			w.b = append(w.b, ',')
		}
		w.str(string(key))
		w.b = append(w.b, ':')
		w.schema(c)
	}
	w.close('}')
}

// list writes a list of schemas.
func (w *closedWriter) list(c *cursor) {
	if !c.array() {
		w.raw(c.value())
		return
	}
	w.open('[')
	for c.element() {
		w.item()
		w.schema(c)
	}
	w.close(']')
}

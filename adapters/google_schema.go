package adapters

import (
	"bytes"
	"slices"

	"headway/core"
)

// jsonSchema is a schema in Google's words (a subset of OpenAPI 3.0) as JSON
// Schema: types in lower case, nullable among the types, whole numbers that come
// as text as numbers. What is not there to be translated stays as it is.
func jsonSchema(schema []byte) core.JSON {
	g := schemaWriter{in: walk(schema), out: text{b: make([]byte, 0, len(schema))}}
	g.schema()
	if g.in.err != nil {
		return schema
	}
	return g.out.b
}

type schemaWriter struct {
	in  cursor
	out text
}

// schema writes one schema. What nullable changes is written last, as it may
// stand before or behind what it changes.
func (g *schemaWriter) schema() {
	if !g.in.object() {
		g.out.raw(g.in.value())
		return
	}
	var kind, enum []byte
	nullable, anyOf := false, 0
	g.out.open('{')
	for key := range g.in.rest {
		switch name := camel(key); name {
		case "type":
			kind = bytes.ToLower(g.in.value())
		case "nullable":
			nullable, _ = g.in.boolean()
		case "enum":
			enum = g.in.value()
		case "format":
			if v := g.in.value(); string(v) != `"enum"` {
				g.out.member(name, v)
			}
		case "example":
			g.out.key("examples")
			g.out.raw([]byte{'['})
			g.out.raw(g.in.value())
			g.out.raw([]byte{']'})
		case "propertyOrdering":
			g.in.skip() // no word of JSON Schema's, and some servers refuse what they do not know
		case "items":
			g.out.key(name)
			g.schema()
		case "anyOf":
			g.out.key(name)
			g.list()
			anyOf = len(g.out.b) - 1 // its closing bracket
		case "properties":
			g.out.key(name)
			g.properties()
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minimum", "maximum":
			v := g.in.value()
			if n := bytes.Trim(v, `"`); isNumber(n) {
				v = n
			}
			g.out.member(name, v)
		default:
			g.out.key(string(inner(core.Quoted(quote(string(key))))))
			g.out.raw(g.in.value())
		}
	}
	g.kind(kind, enum, nullable, anyOf)
	g.out.close('}')
}

// kind writes what nullable changes.
func (g *schemaWriter) kind(kind, enum []byte, nullable bool, anyOf int) {
	if nullable && anyOf > 0 {
		null := `{"type":"null"}`
		if g.out.b[anyOf-1] != '[' {
			null = "," + null
		}
		g.out.b = slices.Insert(g.out.b, anyOf, []byte(null)...)
	}
	if len(kind) > 0 && string(kind) != `"type_unspecified"` {
		g.out.key("type")
		if nullable && kind[0] == '"' {
			kind = slices.Concat([]byte{'['}, kind, []byte(`,"null"]`))
		}
		g.out.raw(kind)
	}
	if len(enum) > 0 {
		if end := len(enum) - 1; nullable && enum[end] == ']' && len(bytes.TrimSpace(enum[1:end])) > 0 {
			enum = append(slices.Clone(enum[:end]), ",null]"...)
		}
		g.out.member("enum", enum)
	}
}

// isNumber tells whether a text is a number as JSON writes it.
func isNumber(b []byte) bool {
	c := walk(b)
	_, ok := c.number()
	return ok && c.end() == nil
}

func (g *schemaWriter) list() {
	g.out.open('[')
	for g.in.array(); g.in.element(); {
		g.out.item()
		g.schema()
	}
	g.out.close(']')
}

func (g *schemaWriter) properties() {
	if !g.in.object() {
		g.out.raw(g.in.value())
		return
	}
	g.out.open('{')
	for key := range g.in.rest {
		g.out.key(string(inner(core.Quoted(quote(string(key))))))
		g.schema()
	}
	g.out.close('}')
}

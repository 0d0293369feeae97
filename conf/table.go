package conf

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// One table says what a file may hold: a record of fields, each of a value that
// knows its schema, how to read it and how to show it. The binder, the JSON
// Schema and Show all walk that table, so they cannot disagree.

// object is a JSON Schema.
type object = map[string]any

// value is one kind of value.
type value[V any] struct {
	// schema is its JSON Schema, with the default where def is not nil.
	schema func(def *V) object
	// read sets *to from a node. What is wrong goes to the binder, and then it
	// returns false.
	read func(b *binder, at place, to *V) bool
	// show is the opposite of read, with secrets masked; nil leaves it out.
	show func(v *V) *yaml.Node
}

// field is one key of a record that is read into a T.
type field[T any] struct {
	name, doc string
	must      bool // has to be there
	schema    func(def *T) object
	read      func(b *binder, at place, to *T) bool
	show      func(v *T) *yaml.Node
}

// key is a field of the value that in finds.
func key[T, V any](name, doc string, v value[V], in func(*T) *V) field[T] {
	return field[T]{
		name: name, doc: doc,
		schema: func(def *T) object {
			if def == nil {
				return v.schema(nil)
			}
			return v.schema(in(def))
		},
		read: func(b *binder, at place, to *T) bool { return v.read(b, at, in(to)) },
		show: func(from *T) *yaml.Node { return v.show(in(from)) },
	}
}

// required makes a field one that has to be there.
func (f field[T]) required() field[T] {
	f.must = true
	return f
}

// record is a mapping with a fixed set of keys. check, where not nil, looks at
// the whole once every field was read, also where some of them failed.
func record[T any](fields []field[T], check func(*binder, place, *T)) value[T] {
	return value[T]{
		schema: func(def *T) object {
			properties, must := object{}, []string{}
			for _, f := range fields {
				s := f.schema(def)
				s["description"] = f.doc
				properties[f.name] = s
				if f.must {
					must = append(must, f.name)
				}
			}
			s := object{"type": "object", "additionalProperties": false, "properties": properties}
			if len(must) > 0 {
				s["required"] = must
			}
			return s
		},
		read: func(b *binder, at place, to *T) bool {
			ok := readRecord(b, at, to, fields)
			if check != nil && at.node.Kind == yaml.MappingNode {
				before := len(b.problems)
				check(b, at, to)
				ok = ok && len(b.problems) == before
			}
			return ok
		},
		show: func(from *T) *yaml.Node {
			node := &yaml.Node{Kind: yaml.MappingNode}
			for _, f := range fields {
				if v := f.show(from); v != nil {
					node.Content = append(node.Content, plainNode(f.name), v)
				}
			}
			if len(node.Content) == 0 {
				return nil
			}
			return node
		},
	}
}

func readRecord[T any](b *binder, at place, to *T, fields []field[T]) bool {
	if at.node.Kind != yaml.MappingNode {
		return b.unlike(at, "a mapping of keys")
	}
	ok := true
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(at.node.Content); i += 2 {
		name, node := at.node.Content[i], at.node.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			ok = b.fail(place{name, at.path}, "", "want a name as the key, not %s", called(name))
			continue
		}
		under := place{node, at.path}.named(name.Value)
		here := place{name, under.path}
		if first, twice := seen[name.Value]; twice {
			ok = b.fail(here, "merge the two into one, or take one away", "stands twice in one mapping%s", onLine(first))
			continue
		}
		seen[name.Value] = name
		n := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == name.Value })
		switch {
		case n < 0:
			ok = unknown(b, here, name.Value, fields)
		case b.api && node.Tag == "!!null": // "left out" in JSON
			delete(seen, name.Value)
		default:
			ok = fields[n].read(b, under, to) && ok
		}
	}
	for _, f := range fields {
		if f.must && seen[f.name] == nil {
			ok = b.fail(at.named(f.name), asHint(f.doc), "is missing")
		}
	}
	return ok
}

// asHint is a field's documentation in the voice of a message.
func asHint(doc string) string {
	doc = strings.TrimSuffix(doc, ".")
	if len(doc) > 1 && 'a' <= doc[1] && doc[1] <= 'z' {
		return strings.ToLower(doc[:1]) + doc[1:]
	}
	return doc
}

func unknown[T any](b *binder, at place, name string, fields []field[T]) bool {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	near := DidYouMean(name, names)
	hint := ""
	if near == "" {
		hint = "known here: " + strings.Join(names, ", ")
	}
	return b.fail(at, hint, "is no known key%s", near)
}

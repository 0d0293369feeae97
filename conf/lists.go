package conf

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"headway/core"
)

// list is a sequence of values, at least least of them.
func list[V any](v value[V], least int) value[[]V] {
	return value[[]V]{
		schema: func(*[]V) object {
			s := object{"type": "array", "items": v.schema(nil)}
			if least > 0 {
				s["minItems"] = least
			}
			return s
		},
		read: func(b *binder, at place, to *[]V) bool {
			if at.node.Kind != yaml.SequenceNode {
				return b.unlike(at, "a list")
			}
			if len(at.node.Content) < least {
				return b.fail(at, "name one, or leave the key out", "is an empty list")
			}
			ok := true
			*to = make([]V, len(at.node.Content))
			for i := range *to {
				ok = v.read(b, at.item(i), &(*to)[i]) && ok
			}
			return ok
		},
		show: func(from *[]V) *yaml.Node {
			if len(*from) == 0 {
				return nil
			}
			node := &yaml.Node{Kind: yaml.SequenceNode}
			for i := range *from {
				if item := v.show(&(*from)[i]); item != nil {
					node.Content = append(node.Content, item)
				}
			}
			return node
		},
	}
}

// names is a list of words without repetitions.
func names[V ~string](v value[V], least int) value[[]V] {
	l := list(v, least)
	read, schema := l.read, l.schema
	l.schema = func(def *[]V) object {
		s := schema(def)
		s["uniqueItems"] = true
		return s
	}
	l.read = func(b *binder, at place, to *[]V) bool {
		if !read(b, at, to) {
			return false
		}
		ok := true
		for i, name := range *to {
			if slices.Index(*to, name) < i {
				ok = b.fail(at.item(i), "", "stands twice in the list")
			}
		}
		return ok
	}
	return l
}

// dict is a mapping with free keys; keyFault says what is wrong with one, and
// same, where not nil, gives the form in which keys are compared.
func dict[V any](v value[V], keyFault func(string) string, same func(string) string) value[map[string]V] {
	return value[map[string]V]{
		schema: func(*map[string]V) object {
			return object{"type": "object", "additionalProperties": v.schema(nil)}
		},
		read: func(b *binder, at place, to *map[string]V) bool {
			if at.node.Kind != yaml.MappingNode {
				return b.unlike(at, "a mapping of names to values")
			}
			ok := true
			seen := map[string]*yaml.Node{}
			*to = map[string]V{}
			for i := 0; i+1 < len(at.node.Content); i += 2 {
				name, node := at.node.Content[i], at.node.Content[i+1]
				if name.Kind != yaml.ScalarNode {
					ok = b.fail(place{name, at.path}, "", "want a name as the key, not %s", called(name))
					continue
				}
				under := place{node, at.path}.named(name.Value)
				here := place{name, under.path}
				id := same(name.Value)
				if first, twice := seen[id]; twice {
					ok = b.fail(here, "", "stands twice in one mapping%s", onLine(first))
					continue
				}
				seen[id] = name
				if fault := keyFault(name.Value); fault != "" {
					ok = b.fail(here, "", "%s", fault)
					continue
				}
				var one V
				if !v.read(b, under, &one) {
					ok = false
					continue
				}
				(*to)[name.Value] = one
			}
			return ok
		},
		show: func(from *map[string]V) *yaml.Node {
			if len(*from) == 0 {
				return nil
			}
			node := &yaml.Node{Kind: yaml.MappingNode}
			for _, name := range slices.Sorted(maps.Keys(*from)) {
				one := (*from)[name]
				node.Content = append(node.Content, textNode(name), v.show(&one))
			}
			return node
		},
	}
}

// maybe is a value that may be left out.
func maybe[V any](v value[V]) value[core.Opt[V]] {
	return value[core.Opt[V]]{
		schema: func(def *core.Opt[V]) object {
			if def == nil || !def.OK {
				return v.schema(nil)
			}
			return v.schema(&def.V)
		},
		read: func(b *binder, at place, to *core.Opt[V]) bool {
			var one V
			if !v.read(b, at, &one) {
				return false
			}
			*to = core.Some(one)
			return true
		},
		show: func(from *core.Opt[V]) *yaml.Node {
			if !from.OK {
				return nil
			}
			return v.show(&from.V)
		},
	}
}

package conf

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// text is a scalar as it stands and as it reads once expanded.
type text struct {
	val      string
	raw      string // before expansion: what a message may show
	tag      string // what YAML takes it for; "" where it was expanded
	expanded bool
}

// shown is the text for a message: never what a variable or a file holds.
func (t text) shown() string {
	switch {
	case t.expanded:
		return shorten(t.raw)
	case t.tag == "!!str":
		return strconv.Quote(shorten(t.raw))
	}
	return shorten(t.raw)
}

func shorten(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// fault is what is wrong with a text: "is negative".
type fault struct{ is, hint string }

// scalar is a value that one word holds. want names it in messages; tags are
// what YAML may take an unexpanded one for; parse reads its text.
type scalar[V any] struct {
	want   string
	tags   string
	schema object
	parse  func(string) (V, fault)
	show   func(V) *yaml.Node
}

func (s scalar[V]) value() value[V] {
	return value[V]{
		schema: func(def *V) object {
			out := object{}
			for k, v := range s.schema {
				out[k] = v
			}
			if def != nil {
				if d := plainValue(s.show(*def)); d != nil {
					out["default"] = d
				}
			}
			return out
		},
		read: func(b *binder, at place, to *V) bool {
			t, ok := b.text(at, s.want, s.tags)
			if !ok {
				return false
			}
			v, wrong := s.parse(t.val)
			switch {
			case wrong.is != "" && t.raw == "":
				return b.fail(at, wrong.hint, "is empty")
			case wrong.is != "":
				return b.fail(at, wrong.hint, "%s %s", t.shown(), wrong.is)
			}
			*to = v
			return true
		},
		show: func(v *V) *yaml.Node { return s.show(*v) },
	}
}

// text reads a scalar of one of the tags, or one with a reference in it.
func (b *binder) text(at place, want, tags string) (text, bool) {
	n := at.node
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return text{}, b.unlike(at, want)
	}
	t := text{val: n.Value, raw: n.Value, tag: n.Tag}
	if n.Tag == "!!str" && !b.api && strings.Contains(n.Value, "$") {
		val, wrong := expand(n.Value, b.dir, b.env)
		if wrong != nil {
			return t, b.fail(at, wrong.hint, "%s", wrong.reason)
		}
		t.val, t.expanded, t.tag = val, true, ""
	}
	if t.tag != "" && !strings.Contains(tags, t.tag) {
		hint := ""
		if strings.Contains(tags, "!!str") {
			hint = "put it in quotes" // and not which: it may be a secret
		}
		return t, b.fail(at, hint, "want %s, not %s", want, called(n))
	}
	return t, true
}

// referencePattern is of a text that the schema cannot judge.
const referencePattern = `\$\{`

// either lets a schema's value also be a text with a reference in it.
func either(s object) object {
	return object{"anyOf": []any{s, object{"type": "string", "pattern": referencePattern}}}
}

// word is text of a kind that wrong judges.
func word[V ~string](want string, s object, wrong func(string) fault) value[V] {
	return scalar[V]{
		want: want, tags: "!!str", schema: s,
		parse: func(t string) (V, fault) { return V(t), wrong(t) },
		show: func(v V) *yaml.Node {
			if v == "" {
				return nil
			}
			return textNode(string(v))
		},
	}.value()
}

// label is a short text without control characters.
func label[V ~string](want string) value[V] {
	return word[V](want, object{"type": "string", "minLength": 1}, func(s string) fault {
		switch {
		case s == "":
			return fault{is: "is empty"}
		case len(s) > 256:
			return fault{is: "is longer than 256 bytes"}
		case strings.ContainsFunc(s, unicode.IsControl) || !utf8.ValidString(s):
			return fault{is: "has a control character in it"}
		case strings.TrimSpace(s) != s:
			return fault{is: "begins or ends with a space"}
		}
		return fault{}
	})
}

// choice is one of a fixed set of words.
func choice[V ~string](want string, words []string) value[V] {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return word[V](want, either(object{"enum": all}), func(s string) fault {
		for _, w := range words {
			if s == w {
				return fault{}
			}
		}
		return fault{is: "is no " + want + DidYouMean(s, words), hint: "one of " + strings.Join(words, ", ")}
	})
}

// plainNode is a key of the table.
func plainNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

// textNode is text that reads back as itself: dollars are doubled.
func textNode(s string) *yaml.Node { return plainNode(strings.ReplaceAll(s, "$", "$$")) }

package conf

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// place is a node and the path that leads to it.
type place struct {
	node *yaml.Node
	path string
}

// child is the value of a key, or the mapping itself where the key is missing.
func (p place) child(name string) place {
	path := name
	if p.path != "" {
		path = p.path + "." + name
	}
	if p.node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(p.node.Content); i += 2 {
			if p.node.Content[i].Value == name {
				return place{p.node.Content[i+1], path}
			}
		}
	}
	return place{p.node, path}
}

// item is an element of a list, or the list itself where there is none.
func (p place) item(i int) place {
	path := fmt.Sprintf("%s[%d]", p.path, i)
	if p.node.Kind == yaml.SequenceNode && i < len(p.node.Content) {
		return place{p.node.Content[i], path}
	}
	return place{p.node, path}
}

// binder is the state of reading one file or one body.
type binder struct {
	file     string
	dir      string                      // what paths of the file are relative to
	env      func(string) (string, bool) // never nil
	api      bool                        // the body of an admin call: nothing is expanded, null is "left out"
	problems []Problem
	notes    []Problem
}

// fail notes a mistake; it returns false so that a reader can return it.
func (b *binder) fail(at place, hint, format string, args ...any) bool {
	b.problems = append(b.problems, b.problem(at, hint, format, args...))
	return false
}

// note keeps advice that does not stop the file.
func (b *binder) note(at place, hint, format string, args ...any) {
	b.notes = append(b.notes, b.problem(at, hint, format, args...))
}

func (b *binder) problem(at place, hint, format string, args ...any) Problem {
	return Problem{File: b.file, Line: at.node.Line, Column: at.node.Column, Path: at.path,
		Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// called is what a node is called in a message.
func called(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!bool":
		return "true or false"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "a number"
	case n.Tag == "!!timestamp":
		return "a date"
	}
	return "text"
}

// unlike says that a node is of another kind than what is wanted.
func (b *binder) unlike(at place, want string) bool {
	if at.node.Tag == "!!null" {
		return b.fail(at, "give it a value, or leave the key out", "is empty, want %s", want)
	}
	return b.fail(at, "", "want %s, not %s", want, called(at.node))
}

// named is the path of a key below p, at p's own node.
func (p place) named(name string) place {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name == "" {
		return place{p.node, p.path + "[" + strconv.Quote(shorten(name)) + "]"}
	}
	if p.path == "" {
		return place{p.node, shorten(name)}
	}
	return place{p.node, p.path + "." + shorten(name)}
}

func onLine(n *yaml.Node) string {
	if n.Line == 0 {
		return ""
	}
	return fmt.Sprintf(", first on line %d", n.Line)
}

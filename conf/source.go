package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

const (
	maxFile  = 16 << 20 // bytes of a file
	maxDepth = 50       // nested lists and mappings; the deepest of the table are six
)

// readYAML reads one document as nodes. What a strict reader of one file has no
// use for is refused: anchors and aliases (so that nothing can grow), tags, and
// a second document.
func readYAML(data []byte) (*yaml.Node, []Problem) {
	if len(data) > maxFile {
		return nil, []Problem{{Reason: "is over 16 MiB"}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if p, ok := unreadable(data); ok {
		return nil, []Problem{p}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, []Problem{syntax(data, err)}
	}
	var doc, second yaml.Node
	switch err = loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, []Problem{{Line: 1, Column: 1, Reason: "is empty", Hint: "headway init writes a file to start from"}}
	case err != nil:
		return nil, []Problem{syntax(data, err)}
	}
	switch err = loader.Load(&second); {
	case err == nil:
		return nil, []Problem{{Line: second.Line, Column: second.Column,
			Reason: "a second document begins here", Hint: "one file is one document: take out the --- line"}}
	case !errors.Is(err, io.EOF):
		return nil, []Problem{syntax(data, err)}
	}
	if len(doc.Content) != 1 {
		return nil, []Problem{{Line: 1, Column: 1, Reason: "is not one YAML document"}}
	}
	root := doc.Content[0]
	return root, plain(root, 0, nil)
}

// plain collects what readYAML refuses, without following an alias.
func plain(n *yaml.Node, depth int, found []Problem) []Problem {
	refuse := func(reason, hint string) {
		found = append(found, Problem{Line: n.Line, Column: n.Column, Reason: reason, Hint: hint})
	}
	switch {
	case depth > maxDepth:
		refuse("is nested too deeply", "")
		return found
	case n.Kind == yaml.AliasNode:
		refuse("aliases (*name) are not read", "write the value out")
	case n.Anchor != "":
		refuse("anchors (&name) are not read", "write the value out where it is needed")
	case n.Style&yaml.TaggedStyle != 0:
		refuse("tags (!name) are not read", "write the value alone")
	case n.Tag == "!!merge":
		refuse("merge keys (<<) are not read", "write the keys out")
	}
	for _, c := range n.Content {
		found = plain(c, depth+1, found)
	}
	return found
}

// unreadable finds the first byte that no YAML file has.
func unreadable(data []byte) (Problem, bool) {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		reason := ""
		switch {
		case r == utf8.RuneError && size <= 1:
			reason = "is not UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			reason = "has a control character"
		}
		if reason != "" {
			line, column := position(data, i)
			return Problem{Line: line, Column: column, Reason: reason}, true
		}
		i += size
	}
	return Problem{}, false
}

func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// syntax says where and why data is not YAML. The parser's texts name what it
// expected and hold nothing of the file.
func syntax(data []byte, err error) Problem {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return Problem{Reason: "is not YAML"}
	}
	p := Problem{Line: at.Mark.Line, Column: at.Mark.Column, Reason: "is not YAML: " + strings.TrimPrefix(at.Message, "yaml: ")}
	if at.ContextMsg != "" {
		p.Reason += " " + at.ContextMsg
		if line := at.ContextMark.Line; line > 0 && line != p.Line {
			p.Reason += fmt.Sprintf(" that began on line %d", line)
		}
	}
	if lines := bytes.Split(data, []byte("\n")); p.Line > 0 && p.Line <= len(lines) {
		indent := lines[p.Line-1][:len(lines[p.Line-1])-len(bytes.TrimLeft(lines[p.Line-1], " \t"))]
		if bytes.ContainsRune(indent, '\t') {
			p.Reason, p.Hint = "is not YAML: a tab indents this line", "indent with spaces"
		}
	}
	return p
}

// readJSON reads the body of an admin call as the nodes that YAML would give,
// so that one binder serves both. It is JSON and nothing more: YAML reads
// neither all of JSON's escapes nor only JSON.
func readJSON(data []byte) (*yaml.Node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	node, err := jsonNode(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has data behind the JSON")
	}
	return node, nil
}

func jsonNode(dec *json.Decoder, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errors.New("is nested too deeply")
	}
	token, err := jsonToken(dec)
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := token.(type) {
	case nil:
		node.Tag = "!!null"
	case bool:
		node.Tag, node.Value = "!!bool", fmt.Sprint(v)
	case string:
		node.Tag, node.Value = "!!str", v
	case json.Number:
		node.Tag, node.Value = "!!float", v.String()
		if strings.Trim(node.Value, "-0123456789") == "" {
			node.Tag = "!!int"
		}
	case json.Delim:
		node.Kind = yaml.MappingNode
		if v == '[' {
			node.Kind = yaml.SequenceNode
		}
		for dec.More() {
			child, err := jsonNode(dec, depth+1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if _, err := jsonToken(dec); err != nil { // the closing bracket
			return nil, err
		}
	}
	return node, nil
}

// jsonToken is the next token; its errors hold nothing of the body.
func jsonToken(dec *json.Decoder) (json.Token, error) {
	token, err := dec.Token()
	var bad *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("is not JSON: it ends too early")
	case errors.As(err, &bad):
		return nil, fmt.Errorf("is not JSON at byte %d", bad.Offset)
	case err != nil:
		return nil, errors.New("is not JSON")
	}
	return token, nil
}

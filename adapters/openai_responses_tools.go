package adapters

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

// responsesTool is a function that a client offers, as other formats know it. A
// function in a namespace goes with the namespace before its name. A tool that
// takes plain text (custom) goes as a function with that text as its one
// argument.
type responsesTool struct {
	core.Tool
	kind            string // function, custom, or another type, which has no name
	namespace, name core.Quoted
	left            []string // members that other formats have no place for
}

// custom tells whether the tool takes plain text.
func (t *responsesTool) custom() bool { return t.kind == "custom" }

// runs tells whether the client runs the tool by its name.
func (t *responsesTool) runs() bool { return t.kind == "function" || t.kind == "custom" }

// responsesTools reads the tools of a request.
func responsesTools(v []byte) (tools []responsesTool) {
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	c := walk(v)
	c.array()
	for i := 0; c.element(); i++ {
		tools = readResponsesTool(tools, &c, fmt.Sprintf("tools[%d]", i), nil)
	}
	taken := map[string]bool{}
	for i := range tools {
		t := &tools[i]
		if t.Name = t.name; t.namespace != nil {
			t.Name = within(t.namespace, t.name)
		}
		for taken[string(t.Name)] && t.namespace != nil {
			t.Name = requote(append(slices.Clone(inner(t.Name)), '_'))
		}
		taken[string(t.Name)] = true
	}
	return tools
}

// maxToolName is the longest name of a function at most providers.
const maxToolName = 64

// within is the name of a function of a namespace: its own alone where both
// together are too long.
func within(namespace, name core.Quoted) core.Quoted {
	space := bytes.TrimRight(inner(namespace), "_")
	if len(space)+len("__")+len(inner(name)) > maxToolName {
		return name
	}
	return requote(concat(nil, string(space), "__", string(inner(name))))
}

// readResponsesTool reads one tool, or each of those of a namespace.
func readResponsesTool(tools []responsesTool, c *cursor, at string, namespace core.Quoted) []responsesTool {
	if !c.object() {
		c.skip()
		return tools
	}
	t := responsesTool{Tool: core.Tool{At: at}, namespace: namespace}
	var nested, format []byte
	for key := range c.rest {
		switch {
		case c.null():
		case string(key) == "type":
			t.kind = c.word()
		case string(key) == "name":
			t.name = c.quoted()
		case string(key) == "description":
			t.Description = c.quoted()
		case string(key) == "parameters":
			t.Schema = objectOf(c)
		case string(key) == "strict":
			t.Strict = c.optional()
		case string(key) == "tools":
			nested = c.value()
		case string(key) == "format":
			format = objectOf(c)
		case c.literal("false"):
		default:
			t.left = append(t.left, string(key))
			c.skip()
		}
	}
	if t.kind == "namespace" && namespace == nil && len(nested) > 0 {
		list := walk(nested)
		if !list.array() {
			return tools
		}
		first := len(tools)
		for i := 0; list.element(); i++ {
			tools = readResponsesTool(tools, &list, fmt.Sprintf("%s.tools[%d]", at, i), t.name)
		}
		if len(tools) > first && t.Description != nil {
			tools[first].left = append(tools[first].left, "description")
		}
		return tools
	}
	if t.custom() {
		t.Schema, t.Strict = textSchema(format), core.Opt[bool]{}
	}
	return append(tools, t)
}

// textSchema is the schema of a tool that takes plain text. The grammar that the
// text must follow is told in words.
func textSchema(format []byte) core.JSON {
	var syntax, grammar []byte
	if len(format) > 0 {
		c := walk(format)
		for key := range c.each {
			switch string(key) {
			case "syntax":
				syntax = textOf(&c)
			case "definition":
				grammar = textOf(&c)
			}
		}
	}
	var t text
	t.b = concat(t.b, `{"type":"object","properties":{"input":{"type":"string"`)
	if len(grammar) > 0 {
		t.b = concat(t.b, `,"description":"Plain text that follows this grammar (`, string(syntax), `):\n`, string(grammar), `"`)
	}
	t.b = concat(t.b, `}},"required":["input"],"additionalProperties":false}`)
	return t.b
}

// kindAt names a type within a field, or its place where the type is no word that
// may stand in a header.
func kindAt(field, kind, place string) string {
	if kind == "" || len(kind) > 64 || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return place
	}
	return field + "." + kind
}

// readTools takes the tools. Those that the provider runs the model can do
// without.
func (d *responsesDecoder) readTools(v []byte) error {
	d.tools = responsesTools(v)
	for i := range d.tools {
		t := &d.tools[i]
		switch {
		case !t.runs():
			d.other(kindAt("tools", t.kind, t.At), false)
		case len(t.name) <= 2:
			return core.Field(t.At+".name", "required")
		default:
			d.Tools = append(d.Tools, t.Tool)
			d.Fields[core.AskTools] = "tools"
			for _, name := range t.left {
				d.other("tools."+name, false)
			}
		}
	}
	return nil
}

// known gives the name that other formats know a tool by.
func (d *responsesDecoder) known(namespace, name core.Quoted) core.Quoted {
	for i := range d.tools {
		if t := &d.tools[i]; string(t.name) == string(name) && string(t.namespace) == string(namespace) {
			return t.Name
		}
	}
	return name
}

// toolChoice takes a mode's name, one tool, or the tools that are allowed.
func (d *responsesDecoder) toolChoice(v []byte) error {
	mode := string(inner(v))
	if v[0] != '"' {
		kind, name, tools := chosen(v)
		switch kind {
		case "function", "custom":
			if len(name.name) <= 2 {
				return core.Field("tool_choice.name", "required")
			}
			d.ToolChoice = core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{d.known(name.namespace, name.name)}}
			d.Fields[core.AskToolChoice] = "tool_choice"
			return nil
		case "allowed_tools":
			d.allow(tools)
			mode = name.kind
		default:
			return cannot("tool_choice", "has no tool of this type")
		}
	}
	switch mode {
	case "auto":
		d.ToolChoice.Mode = core.ChoiceAuto
		return nil // as without it
	case "none":
		d.ToolChoice.Mode = core.ChoiceNone
	case "required":
		if len(d.Tools) == 0 && len(d.tools) > 0 {
			return cannot("tool_choice", "has none of these tools")
		}
		d.ToolChoice.Mode = core.ChoiceRequired
	default:
		return core.Field("tool_choice", "must be none, auto, required or an object")
	}
	d.Fields[core.AskToolChoice] = "tool_choice"
	return nil
}

// chosen reads a choice that is an object. Its mode is in the name's kind.
func chosen(v []byte) (kind string, name responsesTool, tools []responsesTool) {
	c := walk(v)
	for key := range c.each {
		switch string(key) {
		case "type":
			kind = c.word()
		case "mode":
			name.kind = c.word()
		case "name":
			name.name = c.quoted()
		case "namespace":
			name.namespace = c.quoted()
		case "tools":
			if !c.array() {
				continue
			}
			for c.element() {
				tools = readResponsesTool(tools, &c, "", nil)
			}
		}
	}
	return kind, name, tools
}

// allow leaves only the tools that are allowed: not every format can name some
// of those that it lists.
func (d *responsesDecoder) allow(allowed []responsesTool) {
	var left []core.Tool
	for _, t := range d.Tools {
		for i := range allowed {
			if a := &allowed[i]; a.runs() && string(d.known(a.namespace, a.name)) == string(t.Name) {
				left = append(left, t)
				break
			}
		}
	}
	d.Tools = left
}

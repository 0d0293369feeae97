package adapters

import (
	"headway/core"
)

// tools consumes the list of tools, or of the old functions, which have no type
// around them. Hosted tools of a provider are left out and named, as the model
// can answer without them; a custom tool is one that it may be meant to call.
func (d *chatDecoder) tools(old bool) *core.Error {
	field := "tools"
	if old {
		field = "functions"
	}
	if !d.array() {
		return d.wrong(field, "must be a list")
	}
	for i := 0; d.element(); i++ {
		place := at(field, i)
		if !d.object() {
			return d.wrong(place, "must be an object")
		}
		tool, kind := core.Tool{At: place}, ""
		if old {
			if err := d.function(&tool, place); err != nil {
				return err
			}
			d.c.Tools = append(d.c.Tools, tool)
			continue
		}
		for key := range d.rest {
			switch string(key) {
			case "type":
				kind = d.word()
			case "function":
				if !d.object() {
					if d.null() {
						continue
					}
					return d.wrong(place+".function", "must be an object")
				}
				if err := d.function(&tool, place+".function"); err != nil {
					return err
				}
			case "cache_control":
				tool.Cache = d.cacheHint("cache_control")
			default:
				d.skip() // of a hosted tool, which is named as a whole
			}
		}
		switch {
		case kind == "function" || kind == "" && tool.Name != nil:
			if tool.Name == nil {
				return d.wrong(place+".function.name", "required")
			}
			d.c.Tools = append(d.c.Tools, tool)
		case kind == "":
			return d.wrong(place+".type", "required")
		default:
			d.other(place, kind == "custom")
		}
	}
	if len(d.c.Tools) > 0 {
		d.gave(core.AskTools, field)
	}
	return nil
}

// function consumes what is told of a function, whose brace is behind it.
func (d *chatDecoder) function(tool *core.Tool, place string) (err *core.Error) {
	for key := range d.rest {
		switch {
		case d.null():
		case string(key) == "name":
			tool.Name, err = d.quoted(place + ".name")
		case string(key) == "description":
			tool.Description, err = d.quoted(place + ".description")
		case string(key) == "parameters":
			if d.peek() != '{' {
				return d.wrong(place+".parameters", "must be an object")
			}
			tool.Schema = d.value()
		case string(key) == "strict":
			tool.Strict, err = d.either(place + ".strict")
		default:
			d.extraField("tools[].function.", string(key))
		}
		if err != nil {
			return err
		}
	}
	if tool.Name == nil {
		return d.wrong(place+".name", "required")
	}
	return nil
}

// choice consumes tool_choice, or the old function_call.
func (d *chatDecoder) choice(field string) *core.Error {
	c := &d.c.ToolChoice
	if raw, ok := d.text(); ok {
		switch string(raw) {
		case "auto":
			c.Mode = core.ChoiceAuto
			return nil // the default
		case "none":
			c.Mode = core.ChoiceNone
		case "required", "any":
			c.Mode = core.ChoiceRequired
		default:
			return core.Field(field, "must be none, auto, required or an object")
		}
		d.gave(core.AskToolChoice, field)
		return nil
	}
	if !d.object() {
		return d.wrong(field, "must be none, auto, required or an object")
	}
	kind, mode := "", ""
	var name core.Quoted
	for key := range d.rest {
		var err *core.Error
		switch string(key) {
		case "type":
			kind = d.word()
		case "name": // of function_call
			name, err = d.quoted(field + ".name")
		case "function":
			name, err = d.named(field + ".function")
		case "allowed_tools":
			mode, err = d.allow(field + ".allowed_tools")
		default:
			d.skip()
		}
		if err != nil {
			return err
		}
	}
	switch {
	case name != nil:
		*c = core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{name}}
	case mode == "auto":
		c.Mode = core.ChoiceAuto
	case mode == "required":
		c.Mode = core.ChoiceRequired
	case kind == "function" || kind == "":
		return d.wrong(field+".function.name", "required")
	default:
		d.other(field+".type", true)
		return nil
	}
	d.gave(core.AskToolChoice, field)
	return nil
}

// named consumes an object with the name of a function.
func (d *chatDecoder) named(field string) (name core.Quoted, err *core.Error) {
	if !d.object() {
		return nil, d.wrong(field, "must be an object")
	}
	for key := range d.rest {
		if string(key) != "name" {
			d.skip()
		} else if name, err = d.quoted(field + ".name"); err != nil {
			return nil, err
		}
	}
	if name == nil {
		return nil, d.wrong(field+".name", "required")
	}
	return name, nil
}

// allow consumes the tools that the model may choose from. They are then the
// only ones that it is told of, which every format can say.
func (d *chatDecoder) allow(field string) (mode string, err *core.Error) {
	if !d.object() {
		return "", d.wrong(field, "must be an object")
	}
	d.allowed = []core.Quoted{}
	for key := range d.rest {
		switch string(key) {
		case "mode":
			mode = d.word()
		case "tools":
			if !d.array() {
				return "", d.wrong(field+".tools", "must be a list")
			}
			for i := 0; d.element(); i++ {
				if err := d.allowOne(at(field+".tools", i)); err != nil {
					return "", err
				}
			}
		}
	}
	if mode != "auto" && mode != "required" {
		return "", d.wrong(field+".mode", "must be auto or required")
	}
	return mode, nil
}

func (d *chatDecoder) allowOne(place string) *core.Error {
	if !d.object() {
		return d.wrong(place, "must be an object")
	}
	for key := range d.rest {
		if string(key) != "function" {
			continue
		}
		name, err := d.named(place + ".function")
		if err != nil {
			return err
		}
		d.allowed = append(d.allowed, name)
	}
	return nil
}

// cacheHint consumes a mark of what to cache: OpenAI's, or Anthropic's as
// OpenRouter takes it.
func (d *chatDecoder) cacheHint(field string) string {
	if !d.object() {
		d.skip()
		return ""
	}
	hint := "5m"
	for key := range d.rest {
		if ttl := d.word(); string(key) == "ttl" && ttl == "1h" {
			hint = ttl
		}
	}
	d.gave(core.AskCache, field)
	return hint
}

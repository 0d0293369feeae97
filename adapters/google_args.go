package adapters

import (
	"strconv"
	"strings"
)

// googleArgs joins the arguments of a function call that come in pieces: each
// names a place by a JSON path ($.recipe.steps[4]) and has a value for it; texts
// go on where the piece before said that it will.
type googleArgs struct {
	into map[string]any // the functionCall of the folded part
	root any
	open string // the path of the text that goes on
	// items are the places of lists that were made so far.
	items int
}

// add takes the partialArgs of one piece.
func (a *googleArgs) add(call map[string]any) {
	pieces, _ := call["partialArgs"].([]any)
	for _, p := range pieces {
		piece, ok := p.(map[string]any)
		if !ok {
			continue
		}
		path := scalar(piece["jsonPath"])
		steps, ok := pathSteps(path)
		if !ok {
			continue
		}
		a.root = a.put(a.root, steps, func(was any) any {
			switch {
			case piece["numberValue"] != nil:
				return piece["numberValue"]
			case piece["boolValue"] != nil:
				return piece["boolValue"]
			case piece["stringValue"] == nil:
				return nil
			}
			text := scalar(piece["stringValue"])
			if said, ok := was.(string); ok && a.open == path {
				text = said + text
			}
			return text
		})
		a.open = ""
		if piece["willContinue"] == true {
			a.open = path
		}
	}
	args := a.root
	if args == nil {
		args = map[string]any{}
	}
	a.into["args"] = args
	delete(a.into, "partialArgs")
	delete(a.into, "willContinue")
}

// mostItems bounds the lists that the paths of a call may ask for, all together.
const mostItems = 1 << 16

// pathSteps cuts a JSON path into names and positions.
func pathSteps(path string) (steps []any, ok bool) {
	path, ok = strings.CutPrefix(path, "$")
	for ok && path != "" {
		if len(steps) == maxDepth {
			return nil, false
		}
		switch {
		case strings.HasPrefix(path, "['"), strings.HasPrefix(path, `["`):
			name, rest, closed := strings.Cut(path[2:], path[1:2]+"]")
			if !closed {
				return nil, false
			}
			steps = append(steps, name)
			path = rest
		case path[0] == '[':
			digits, rest, closed := strings.Cut(path[1:], "]")
			n, err := strconv.Atoi(digits)
			if !closed || err != nil || n < 0 || n >= mostItems {
				return nil, false
			}
			steps = append(steps, n)
			path = rest
		case path[0] == '.':
			end := strings.IndexAny(path[1:], ".[")
			if end < 0 {
				end = len(path) - 1
			}
			steps = append(steps, path[1:1+end])
			path = path[1+end:]
		default:
			return nil, false
		}
	}
	return steps, ok
}

// put sets the value at a place inside of v, making what is not there yet, and
// gives v or what took its place. Places beyond mostItems are not made.
func (a *googleArgs) put(v any, steps []any, value func(was any) any) any {
	if len(steps) == 0 {
		return value(v)
	}
	switch step := steps[0].(type) {
	case int:
		list, _ := v.([]any)
		if grows := step + 1 - len(list); grows > mostItems-a.items {
			return v
		} else if grows > 0 {
			list = append(list, make([]any, grows)...)
			a.items += grows
		}
		list[step] = a.put(list[step], steps[1:], value)
		return list
	default:
		object, ok := v.(map[string]any)
		if !ok {
			object = map[string]any{}
		}
		object[step.(string)] = a.put(object[step.(string)], steps[1:], value)
		return object
	}
}

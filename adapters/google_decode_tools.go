package adapters

import (
	"fmt"
	"slices"

	"headway/core"
)

// call decodes a functionCall.
func (d *googleDecoder) call(p *core.Part, at string) {
	*p = core.Part{Kind: core.PartToolCall, Arguments: core.JSON("{}")}
	d.fields(at, func(name string) {
		switch name {
		case "id":
			p.ID = d.str(at + ".id")
		case "name":
			p.Name = d.str(at + ".name")
		case "args":
			if d.peek() != '{' {
				d.wrong(at+".args", "must be an object")
			}
			p.Arguments = d.value()
		default: // how its arguments were streamed
			d.other("functionCall."+name, false)
		}
	})
	if p.Name == nil {
		d.wrong(at+".name", "required")
	}
}

// response decodes a functionResponse.
func (d *googleDecoder) response(p *core.Part, at string) {
	*p = core.Part{Kind: core.PartToolResult}
	said := core.Part{Kind: core.PartText, Text: core.Quoted(`""`)}
	var files []core.Part
	d.fields(at, func(name string) {
		switch name {
		case "id":
			p.ID = d.str(at + ".id")
		case "name":
			p.Name = d.str(at + ".name")
		case "response":
			said.Text, p.Failed = d.answer(at + ".response")
		case "parts":
			d.list(at+".parts", func(n int) { d.responsePart(&files, fmt.Sprintf("%s.parts[%d]", at, n)) })
		default: // when the model is to read it, and whether more will come
			d.other("functionResponse."+name, false)
		}
	})
	if p.Name == nil {
		d.wrong(at+".name", "required")
	}
	p.Parts = append([]core.Part{said}, files...)
}

func (d *googleDecoder) responsePart(files *[]core.Part, at string) {
	d.fields(at, func(name string) {
		switch name {
		case "inlineData", "fileData":
			var p core.Part
			if d.file(&p, at+"."+name) {
				*files = append(*files, p)
			}
		default:
			d.skip()
		}
	})
}

// answer consumes a function's response and gives it as text. By Google's
// reference its member output or error is all that the model reads, where it has
// one of them alone; result is what the SDKs and many callers write.
func (d *googleDecoder) answer(at string) (text core.Quoted, failed bool) {
	d.peek()
	from := d.i
	if !d.object() {
		d.wrong(at, "must be an object")
	}
	var alone []byte
	for n := 0; ; n++ {
		key, ok := d.key()
		if !ok {
			break
		}
		name := string(key)
		v := d.value()
		alone = nil
		if n == 0 && (name == "output" || name == "result" || name == "error") {
			alone, failed = v, name == "error"
		}
	}
	whole := d.b[from:d.i]
	if alone == nil {
		return requote(escapeJSON(whole)), false
	}
	if len(alone) > 1 && alone[0] == '"' {
		return core.Quoted(alone), failed
	}
	return requote(escapeJSON(alone)), failed
}

// joinPieces joins the pieces of a model's turn: an SDK keeps a streamed answer
// as the parts that it came in. A seal belongs to the thoughts before it.
func joinPieces(parts []core.Part) []core.Part {
	out := parts[:0]
	for i := range parts {
		p := parts[i]
		if n := len(out); n > 0 {
			last := &out[n-1]
			switch {
			case p.Kind == core.PartText && last.Kind == core.PartText:
				last.Text = joined(last.Text, p.Text)
				continue
			case p.Kind == core.PartReasoning && last.Kind == core.PartReasoning && last.Seal.Text == nil:
				last.Text, last.Seal = joined(last.Text, p.Text), p.Seal
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// joined is one text of two. What a is part of is not written over: it ends
// where its own memory does.
func joined(a, b core.Quoted) core.Quoted {
	switch {
	case len(b) <= 2:
		return a
	case len(a) <= 2:
		return b
	case cap(a) == len(a):
		a = append(make(core.Quoted, 0, 2*len(a)+len(b)), a...)
	}
	return append(a[:len(a)-1], b[1:]...)
}

// matchGoogleCalls gives ids to the calls that have none, and to each response
// the id of the call that it answers: by its id, else the oldest unanswered one
// of its name.
func matchGoogleCalls(messages []core.Message) {
	type open struct{ id, name core.Quoted }
	var waiting []open
	made := 0
	for i := range messages {
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			switch p.Kind {
			case core.PartToolCall:
				if len(p.ID) <= 2 {
					p.ID = core.Quoted(fmt.Sprintf(`"call_headway_%d"`, made))
					made++
				}
				waiting = append(waiting, open{p.ID, p.Name})
			case core.PartToolResult:
				at := slices.IndexFunc(waiting, func(o open) bool { return string(o.id) == string(p.ID) })
				if at < 0 {
					at = slices.IndexFunc(waiting, func(o open) bool { return string(o.name) == string(p.Name) })
				}
				switch {
				case at >= 0:
					p.ID = waiting[at].id
					waiting = slices.Delete(waiting, at, at+1)
				case len(p.ID) <= 2:
					p.ID = core.Quoted(fmt.Sprintf(`"call_headway_%d"`, made))
					made++
				}
			}
		}
	}
}

// tool decodes one of tools: declarations of functions, or tools that run on
// Google's side, which no other provider has.
func (d *googleDecoder) tool(at string) {
	d.fields(at, func(name string) {
		if name != "functionDeclarations" {
			// Without the others the model knows less; without this one it cannot act.
			d.note(at+"."+name, name == "computerUse")
			d.skip()
			return
		}
		d.list(at+"."+name, func(n int) { d.declaration(fmt.Sprintf("%s.%s[%d]", at, name, n)) })
	})
}

func (d *googleDecoder) declaration(at string) {
	t := core.Tool{At: at}
	d.fields(at, func(name string) {
		switch name {
		case "name":
			t.Name = d.str(at + ".name")
		case "description":
			t.Description = d.str(at + ".description")
		case "parameters":
			t.Schema = jsonSchema(d.value())
		case "parametersJsonSchema":
			t.Schema = d.value()
		default: // what the function gives back, and whether it is waited for
			d.other("tools[].functionDeclarations[]."+name, false)
		}
	})
	if t.Name == nil {
		d.wrong(at+".name", "required")
	}
	d.c.Tools = append(d.c.Tools, t)
	d.c.Fields[core.AskTools] = "tools"
}

// toolConfig decodes which functions may or must be called.
func (d *googleDecoder) toolConfig() {
	const at = "toolConfig.functionCallingConfig"
	mode, choice := "", &d.c.ToolChoice
	d.fields("toolConfig", func(name string) {
		if name != "functionCallingConfig" {
			d.other("toolConfig."+name, false)
			return
		}
		d.fields(at, func(name string) {
			switch name {
			case "mode":
				mode = string(unescape(inner(d.str(at + ".mode"))))
			case "allowedFunctionNames":
				d.allowed = d.strs(at + "." + name)
			default:
				d.other(at+"."+name, false)
			}
		})
	})
	switch mode {
	case "", "MODE_UNSPECIFIED":
		return
	case "AUTO", "VALIDATED": // both leave it to the model
		choice.Mode = core.ChoiceAuto
	case "NONE":
		choice.Mode = core.ChoiceNone
	case "ANY":
		if choice.Mode = core.ChoiceRequired; len(d.allowed) > 0 {
			choice.Mode, choice.Names = core.ChoiceNamed, d.allowed
		}
	default:
		d.wrong(at+".mode", "must be AUTO, ANY, NONE or VALIDATED")
	}
	d.c.Fields[core.AskToolChoice] = at
}

// onlyAllowed leaves out the tools that a model which need not call any may not
// call: what a list of allowed names means there.
func (d *googleDecoder) onlyAllowed() {
	if d.c.ToolChoice.Mode == core.ChoiceAuto && len(d.allowed) > 0 {
		d.c.Tools = slices.DeleteFunc(d.c.Tools, func(t core.Tool) bool {
			return !slices.ContainsFunc(d.allowed, func(name core.Quoted) bool { return string(name) == string(t.Name) })
		})
	}
}

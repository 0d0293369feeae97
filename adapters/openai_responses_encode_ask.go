package adapters

import (
	"strings"

	"headway/core"
)

// tools writes the tools and which of them may or must be called. The API takes
// a function without strict for a strict one, which most are not.
func (e *responsesBody) tools() {
	c := e.content
	if len(c.Tools) == 0 {
		return
	}
	e.key("tools")
	e.open('[')
	for i := range c.Tools {
		t := &c.Tools[i]
		e.item()
		e.raw([]byte(`{"type":"function"`))
		e.member("name", t.Name)
		e.member("description", t.Description)
		e.key("parameters")
		if len(t.Schema) > 0 {
			e.raw(t.Schema)
		} else {
			e.raw([]byte(`{"type":"object","properties":{}}`))
		}
		e.key("strict")
		e.bool(t.Strict.V)
		e.close('}')
	}
	e.close(']')
	if c.OneTool {
		e.key("parallel_tool_calls")
		e.bool(false)
	}
	if c.ToolChoice.Mode != core.ChoiceUnsaid {
		e.key("tool_choice")
		e.choice()
	}
}

func (e *responsesBody) choice() {
	choice := &e.content.ToolChoice
	function := func(name core.Quoted) {
		e.raw([]byte(`{"type":"function"`))
		e.member("name", name)
		e.close('}')
	}
	switch {
	case choice.Mode == core.ChoiceAuto:
		e.str("auto")
	case choice.Mode == core.ChoiceNone:
		e.str("none")
	case choice.Mode == core.ChoiceRequired || len(choice.Names) == 0:
		e.str("required")
	case len(choice.Names) == 1:
		function(choice.Names[0])
	default:
		e.raw([]byte(`{"type":"allowed_tools","mode":"required","tools":[`))
		for _, name := range choice.Names {
			e.item()
			function(name)
		}
		e.raw([]byte("]}"))
	}
}

// form writes the form that the answer must have.
func (e *responsesBody) form() {
	form := &e.content.Answer
	verbosity := twin(e.content, "verbosity")
	if !form.JSON && verbosity == nil {
		return
	}
	e.key("text")
	e.open('{')
	if form.JSON {
		e.key("format")
		e.format(form)
	}
	e.member("verbosity", verbosity)
	e.close('}')
}

func (e *responsesBody) format(form *core.AnswerForm) {
	if form.Schema == nil {
		e.raw([]byte(`{"type":"json_object"}`))
		return
	}
	e.raw([]byte(`{"type":"json_schema"`))
	e.key("name")
	if len(form.Name) > 2 {
		e.raw(form.Name)
	} else {
		e.str("answer")
	}
	e.member("schema", form.Schema)
	if form.Strict.OK {
		e.key("strict")
		e.bool(form.Strict.V)
	}
	e.close('}')
}

// reasoning writes how much the model is to reason, and asks for its reasoning
// in encrypted form where it reasons: a model that does not refuses to be asked.
func (e *responsesBody) reasoning(model string) {
	wish := e.content.Reasoning
	if wish.Effort == "" && wish.Budget.OK {
		wish.Effort = effortOf(wish.Budget.V)
	}
	visible := wish.Visible.V && wish.Effort != "none"
	if wish.Effort != "" || visible {
		e.key("reasoning")
		e.open('{')
		if wish.Effort != "" {
			e.key("effort")
			e.str(wish.Effort)
		}
		if visible {
			e.key("summary")
			e.str("auto")
		}
		e.close('}')
	}
	if e.sealed || visible || wish.Effort != "" && wish.Effort != "none" || reasons(model) {
		e.key("include")
		e.raw([]byte(`["reasoning.encrypted_content"]`))
	}
}

// reasons tells whether a model's name is one of OpenAI's that reason unasked:
// o1, o3-mini, gpt-5 and later ones, but not their chat variants.
func reasons(model string) bool {
	name := model[strings.LastIndexByte(model, '/')+1:]
	if rest, ok := strings.CutPrefix(name, "gpt-"); ok {
		return len(rest) > 0 && (rest[0] >= '5' && rest[0] <= '9' || len(rest) > 1 && isDigit(rest[0]) && isDigit(rest[1])) && !strings.Contains(rest, "chat")
	}
	return len(name) > 1 && name[0] == 'o' && isDigit(name[1]) && (len(name) == 2 || name[2] == '-')
}

func isDigit(ch byte) bool { return ch >= '0' && ch <= '9' }

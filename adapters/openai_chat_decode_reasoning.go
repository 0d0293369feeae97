package adapters

import "headway/core"

// wish consumes what is asked of the model's reasoning, in OpenAI's way or one
// of its servers'.
func (d *chatDecoder) wish(field string) *core.Error {
	w := &d.c.Reasoning
	switch field {
	case "reasoning_effort":
		raw, err := d.str(field)
		if err != nil {
			return err
		}
		if string(raw) == "default" {
			return nil
		}
		if w.Effort = level(string(raw)); w.Effort == "" {
			return core.Field(field, "must be none, minimal, low, medium, high or xhigh")
		}
	case "include_reasoning":
		v, err := d.either(field)
		if err != nil {
			return err
		}
		w.Visible = v
	case "thinking_budget":
		v, err := d.count(field, 0)
		if err != nil {
			return err
		}
		w.Budget = v
	case "enable_thinking":
		v, err := d.either(field)
		if err != nil {
			return err
		}
		setReasoning(w, v.V)
	default:
		return d.wishes(field)
	}
	d.gave(core.AskReasoning, field)
	return nil
}

// level is a level of reasoning by the name that is known here; "" for none.
func level(name string) string {
	switch name {
	case "none", "minimal", "low", "medium", "high", "xhigh":
		return name
	case "max":
		return "xhigh"
	}
	return ""
}

// wishes consumes the object that OpenRouter takes as reasoning, or several
// servers as thinking.
func (d *chatDecoder) wishes(field string) *core.Error {
	if !d.object() {
		return d.wrong(field, "must be an object")
	}
	w, on := &d.c.Reasoning, core.Opt[bool]{}
	for key := range d.rest {
		var err *core.Error
		switch {
		case d.null():
		case string(key) == "effort":
			if w.Effort = level(d.word()); w.Effort == "" {
				return d.wrong(field+".effort", "must be none, minimal, low, medium, high or xhigh")
			}
		case string(key) == "max_tokens", string(key) == "budget_tokens":
			w.Budget, err = d.count(field+"."+string(key), 0)
		case string(key) == "exclude":
			var v core.Opt[bool]
			v, err = d.either(field + ".exclude")
			w.Visible = core.Some(!v.V)
		case string(key) == "enabled":
			on, err = d.either(field + ".enabled")
		case string(key) == "type":
			kind := d.word()
			on = core.Opt[bool]{V: kind != "disabled", OK: kind != "auto"}
		default:
			d.skip()
		}
		if err != nil {
			return err
		}
	}
	if on.OK {
		setReasoning(w, on.V)
	}
	d.gave(core.AskReasoning, field)
	return nil
}

// setReasoning turns reasoning on, at a level or limit that is given apart or at
// medium, or off.
func setReasoning(w *core.ReasoningWish, on bool) {
	switch {
	case !on:
		w.Effort = "none"
	case w.Effort == "" && !w.Budget.OK:
		w.Effort = "medium"
	}
}

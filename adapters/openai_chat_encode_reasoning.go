package adapters

import "headway/core"

// reasoning writes what is asked of the model's reasoning, in the way that the
// server has for it.
func (e *chatEncoder) reasoning() error {
	w := e.c.Reasoning
	effort := w.Effort
	if effort == "" && w.Budget.OK {
		if effort = effortOf(w.Budget.V); effort == "xhigh" { // few models have it: it is for who asks for it
			effort = "high"
		}
	}
	if e.d.effort == wishObject {
		e.reasoningObject(w)
		return nil
	}
	if effort == "" {
		return nil
	}
	switch e.d.effort {
	case wishNothing:
		return e.lacks(core.AskReasoning, "has no such setting")
	case wishNone:
		if effort != "none" {
			return e.lacks(core.AskReasoning, "reasons as much as its model does")
		}
	case wishSwitch, wishDeepSeek:
		kind := "enabled"
		if effort == "none" {
			kind = "disabled"
		}
		e.key("thinking")
		e.raw([]byte(`{"type":"` + kind + `"}`))
		if e.d.effort == wishSwitch || effort == "none" {
			return nil
		}
		switch effort {
		case "minimal":
			effort = "low"
		case "medium":
			effort = "high"
		case "xhigh":
			effort = "max"
		}
	case wishQwen:
		e.key("enable_thinking")
		e.bool(effort != "none")
		if effort != "none" {
			e.count("thinking_budget", w.Budget)
		}
		return nil
	case wishTemplate:
		e.key("chat_template_kwargs")
		e.open('{')
		e.key("enable_thinking")
		e.bool(effort != "none")
		if effort != "none" {
			e.key("reasoning_effort")
			e.str(threeLevels(effort))
		}
		e.close('}')
		return nil
	}
	if !e.d.leveled(e.model) {
		if effort == "none" && e.d.effort == wishOpenAI {
			return nil // they do not reason
		}
		return e.lacks(core.AskReasoning, "has no levels of reasoning for it")
	}
	switch e.d.effort {
	case wishOpenAI:
		effort = openAILevel(e.model, effort)
	case wishThree:
		effort = threeLevels(effort)
	}
	e.key("reasoning_effort")
	e.str(effort)
	return nil
}

// reasoningObject writes OpenRouter's object: a level or a limit, and whether
// the reasoning is shown.
func (e *chatEncoder) reasoningObject(w core.ReasoningWish) {
	hidden := w.Visible.OK && !w.Visible.V
	if w.Effort == "" && !w.Budget.OK && !hidden {
		return
	}
	e.key("reasoning")
	e.open('{')
	switch {
	case w.Budget.V > 0:
		e.count("max_tokens", w.Budget)
	case w.Budget.OK:
		e.key("effort")
		e.str("none")
	case w.Effort != "":
		e.key("effort")
		e.str(w.Effort)
	}
	if hidden {
		e.key("exclude")
		e.bool(true)
	}
	e.close('}')
}

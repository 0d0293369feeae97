package adapters

import "headway/core"

// leastThinking is the smallest limit that a Claude may be given to think in.
const leastThinking = 1024

// reason writes what the client wishes of the model's reasoning, each maker's way,
// and gives the effort that is a field of the format. A wish only tunes: what the
// model has no way for is named as dropped.
func (e *converseBody) reason() (effort string) {
	w := e.content.Reasoning
	level := w.Effort
	if level == "" && w.Budget.OK {
		level = effortOf(w.Budget.V)
	}
	if level == "" {
		return ""
	}
	drop := func() string {
		_ = refuseOrDrop(e.content, core.AskReasoning, &e.dropped, "") // it is not of those that are refused
		return ""
	}
	switch e.model.maker {
	case makerAnthropic:
		if level == "none" {
			return "" // a Claude thinks where it is asked to
		}
		if mode := e.content.ToolChoice.Mode; !e.silent && (mode == core.ChoiceRequired || mode == core.ChoiceNamed) {
			return drop() // it cannot think first where it must call a tool
		}
		switch {
		case e.model.version >= 406:
			return e.adapt(level)
		case e.model.version > 0 && e.model.version < 307, e.broken():
			return drop()
		}
		budget, _ := budgetOf(level)
		if w.Budget.OK {
			budget = max(w.Budget.V, leastThinking)
		}
		if most := e.content.MaxOutput; most.OK && budget >= most.V {
			budget = max(most.V/2, leastThinking) // thinking is a part of the output
			if budget >= most.V {
				return drop()
			}
		}
		e.extraKey("thinking")
		e.extra.b = append(e.extra.b, `{"type":"enabled","budget_tokens":`...)
		e.extra.int(budget)
		e.extra.b = append(e.extra.b, '}')
		e.thinking = true
	case makerOpenAI:
		if level == "none" {
			return drop()
		}
		e.extraKey("reasoning_effort")
		e.extra.str(ofThree(level))
	case makerAmazon:
		if e.model.version < 200 {
			return drop()
		}
		e.extraKey("reasoningConfig")
		if level == "none" {
			e.extra.b = append(e.extra.b, `{"type":"disabled"}`...)
			return ""
		}
		level = ofThree(level)
		c := e.content
		if level == "high" && (c.MaxOutput.OK || len(c.Temperature) > 0 || len(c.TopP) > 0) {
			level = "medium" // high goes with no limit and no sampling
		}
		e.extra.b = append(e.extra.b, `{"type":"enabled","maxReasoningEffort":`...)
		e.extra.str(level)
		e.extra.b = append(e.extra.b, '}')
	default:
		return drop()
	}
	return ""
}

// broken tells whether the conversation stands between a tool call and what
// follows its result without the thinking that led to it, as where another
// provider's model made the call: a Claude that thinks by a limit refuses that.
func (e *converseBody) broken() bool {
	all := e.content.Messages
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Role != core.RoleAssistant {
			continue
		}
		calls, thought := false, false
		for j := range all[i].Parts {
			p := &all[i].Parts[j]
			calls = calls || p.Kind == core.PartToolCall
			thought = thought || p.Kind == core.PartReasoning && p.Seal.Origin == core.FormatConverse
		}
		return calls && !thought
	}
	return false
}

// adapt has a newer Claude decide itself how long to think, by an effort.
func (e *converseBody) adapt(level string) (effort string) {
	e.extraKey("thinking")
	e.extra.b = append(e.extra.b, `{"type":"adaptive"`...)
	if v := e.content.Reasoning.Visible; v.OK {
		shown := "omitted"
		if v.V {
			shown = "summarized"
		}
		e.extra.b = append(e.extra.b, `,"display":`...)
		e.extra.str(shown)
	}
	e.extra.b = append(e.extra.b, '}')
	e.thinking = true
	if level == "xhigh" && e.model.version >= 407 {
		return level
	}
	return ofThree(level)
}

// ofThree is a level as one of low, medium and high.
func ofThree(level string) string {
	switch level {
	case "minimal", "low":
		return "low"
	case "medium":
		return "medium"
	}
	return "high"
}

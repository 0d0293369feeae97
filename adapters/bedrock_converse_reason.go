package adapters

import "headway/core"

// wish writes what the client wishes of the model's reasoning, each maker's way.
// It only tunes: what the model has no way for is named as dropped. A Claude's
// effort is left for outputConfig.
func (e *converseBody) wish(offer *core.Offer) {
	w := &e.content.Reasoning
	if e.maker == makerAnthropic {
		e.reason(offer)
		e.prune()
		if e.thinking != "" {
			e.extraKey("thinking")
			e.extra.b = append(e.extra.b, e.thinking...)
		}
		return
	}
	level := w.Effort
	if level == "" && w.Budget.OK {
		level = effortOf(w.Budget.V)
	}
	switch {
	case level == "":
	case e.maker == makerOpenAI && level != "none":
		e.extraKey("reasoning_effort")
		e.extra.str(ofThree(level))
	case e.maker == makerNova2 && level == "none":
		e.extraKey("reasoningConfig")
		e.extra.b = append(e.extra.b, `{"type":"disabled"}`...)
	case e.maker == makerNova2:
		level = ofThree(level)
		if c := e.content; level == "high" && (c.MaxOutput.OK || c.Temperature != nil || c.TopP != nil) {
			level = "medium" // high goes with no limit and no sampling
		}
		e.extraKey("reasoningConfig")
		e.extra.b = append(e.extra.b, `{"type":"enabled","maxReasoningEffort":`...)
		e.extra.str(level)
		e.extra.b = append(e.extra.b, '}')
	default:
		e.leave(core.AskReasoning)
	}
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

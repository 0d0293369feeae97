package adapters

import (
	"strings"

	"headway/core"
)

// config decodes generationConfig.
func (d *googleDecoder) config() {
	c, logprobs, asked := d.c, int64(0), false
	d.fields("generationConfig", func(name string) {
		at := "generationConfig." + name
		switch name {
		case "maxOutputTokens": // Parse has read it
			d.skip()
			c.Fields[core.AskMaxOutput] = at
		case "candidateCount":
			d.skip()
			c.Fields[core.AskChoices] = at
		case "temperature":
			c.Temperature = d.number(at, core.AskTemperature)
		case "topP":
			c.TopP = d.number(at, core.AskTopP)
		case "topK":
			c.TopK = d.number(at, core.AskTopK)
		case "seed":
			c.Seed = d.number(at, core.AskSeed)
		case "presencePenalty":
			c.Presence = d.number(at, core.AskPresence)
		case "frequencyPenalty":
			c.Frequency = d.number(at, core.AskFrequency)
		case "stopSequences":
			c.Stop = d.strs(at)
			c.Fields[core.AskStop] = at
		case "responseLogprobs":
			asked = d.flag(at)
		case "logprobs":
			n, ok := d.integer()
			if logprobs = n; !ok || n < 0 {
				d.wrong(at, "must be a whole number")
			}
		case "responseMimeType":
			d.mime(at)
		case "responseSchema":
			c.Answer.Schema = jsonSchema(d.value())
			c.Fields[core.AskAnswer] = at
		case "responseJsonSchema", "ResponseJsonSchema":
			c.Answer.Schema = d.value()
			c.Fields[core.AskAnswer] = "generationConfig.responseJsonSchema"
		case "thinkingConfig":
			d.thinking(at)
		case "responseModalities":
			for _, kind := range d.strs(at) {
				if !strings.EqualFold(string(inner(kind)), "text") {
					d.note(at, true)
				}
			}
		case "responseFormat": // the newer word for type and schema, with more in it
			d.other(at, true)
		default:
			d.other(at, false)
		}
	})
	if asked {
		c.TopLogprobs = core.Some(logprobs)
		c.Fields[core.AskLogprobs] = "generationConfig.responseLogprobs"
	}
	c.Answer.JSON = c.Answer.JSON || c.Answer.Schema != nil
}

// number consumes a number, which Google's JSON may have as text.
func (d *googleDecoder) number(at string, ask core.Ask) core.Number {
	d.c.Fields[ask] = at
	if d.peek() != '"' {
		n, ok := d.cursor.number()
		if !ok {
			d.wrong(at, "must be a number")
		}
		return n
	}
	digits := walk(inner(d.str(at)))
	n, ok := digits.number()
	if !ok || digits.end() != nil {
		d.wrong(at, "must be a number")
	}
	return n
}

// mime consumes the type of the answer.
func (d *googleDecoder) mime(at string) {
	switch kind := string(unescape(inner(d.str(at)))); kind {
	case "", "text/plain":
	case "application/json":
		d.c.Answer.JSON = true
		d.c.Fields[core.AskAnswer] = at
	default: // text/x.enum: one of the schema's words, with no quotes around it
		d.note(at, true)
	}
}

// thinking decodes thinkingConfig. A budget of -1 leaves it to the model, as
// saying nothing does.
func (d *googleDecoder) thinking(at string) {
	w := &d.c.Reasoning
	d.fields(at, func(name string) {
		switch name {
		case "thinkingBudget":
			switch n, ok := d.integer(); {
			case !ok:
				d.wrong(at+".thinkingBudget", "must be a whole number")
			case n == 0:
				w.Effort = "none"
			case n > 0:
				w.Budget = core.Some(n)
			}
		case "thinkingLevel":
			level := strings.ToLower(string(unescape(inner(d.str(at + ".thinkingLevel")))))
			switch level {
			case "minimal", "low", "medium", "high":
				w.Effort = level
			case "", "thinking_level_unspecified":
			default:
				d.wrong(at+".thinkingLevel", "must be MINIMAL, LOW, MEDIUM or HIGH")
			}
		case "includeThoughts":
			if d.flag(at + ".includeThoughts") {
				w.Visible = core.Some(true)
			}
		default:
			d.other(at+"."+name, false)
		}
	})
	if *w != (core.ReasoningWish{}) {
		d.c.Fields[core.AskReasoning] = at
	}
}

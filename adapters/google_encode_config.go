package adapters

import (
	"strconv"
	"strings"

	"headway/core"
)

// googleModel is what a model's name says of what it takes.
type googleModel struct {
	name         string
	major, minor int // 0 where the name has no version: another's, or made up
}

// googleModelOf reads a name: gemini-2.5-flash, also with a path before it. A
// name of the newest model (gemini-flash-latest) has the newest version.
func googleModelOf(name string) googleModel {
	m := googleModel{name: strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])}
	rest, ok := strings.CutPrefix(m.name, "gemini-")
	if !ok {
		return m
	}
	version, _, _ := strings.Cut(rest, "-")
	major, minor, _ := strings.Cut(version, ".")
	m.major, _ = strconv.Atoi(major)
	m.minor, _ = strconv.Atoi(minor)
	if m.major == 0 && strings.HasSuffix(rest, "-latest") {
		m.major = 3
	}
	return m
}

// signs tells whether the model refuses a function call without a signature.
func (m googleModel) signs() bool { return m.major >= 3 }

// silent tells whether the model cannot think, and refuses to be told to.
func (m googleModel) silent() bool {
	return m.major == 1 || m.major == 2 && m.minor < 5 || strings.HasPrefix(m.name, "gemma")
}

// level is the thinkingLevel that stands for an effort. What a model does not
// have is the next one above it that it has; least tells that thinking cannot be
// turned off.
func (m googleModel) level(effort string) (level string, ok bool) {
	pro := strings.Contains(m.name, "-pro")
	switch effort {
	case "none", "minimal":
		if pro {
			return "LOW", true
		}
		return "MINIMAL", true
	case "low":
		return "LOW", true
	case "medium":
		if pro && m.major == 3 && m.minor == 0 {
			return "HIGH", true
		}
		return "MEDIUM", true
	case "high", "xhigh":
		return "HIGH", true
	}
	return "", false
}

// budget is the limit nearest to n that the model takes. 0 is no thinking, which
// the larger models cannot do.
func (m googleModel) budget(n int64) int64 {
	least, most := int64(0), int64(32768)
	switch {
	case m.major != 2:
		return n
	case strings.Contains(m.name, "-pro"):
		least = 128
	case strings.Contains(m.name, "-flash-lite"):
		if most = 24576; n > 0 {
			least = 512
		}
	case strings.Contains(m.name, "-flash"):
		most = 24576
	}
	return min(max(n, least), most)
}

// thinking writes thinkingConfig.
func (e *googleEncoder) thinking() error {
	w := e.c.Reasoning
	if w == (core.ReasoningWish{}) {
		return nil
	}
	no := func(why string) error { return refuseOrDrop(e.c, core.AskReasoning, &e.dropped, why) }
	off := w.Effort == "none"
	if e.model.silent() {
		if off {
			return nil
		}
		return no("does not think")
	}
	inside := text{}
	switch effort := w.Effort; {
	case effort == "" && !w.Budget.OK:
	case e.model.major >= 3:
		if effort == "" {
			effort = effortOf(w.Budget.V)
		}
		level, ok := e.model.level(effort)
		if !ok || off {
			if err := no("always thinks"); err != nil {
				return err
			}
		}
		if ok {
			inside.key("thinkingLevel")
			inside.str(level)
		}
	default:
		n, ok := w.Budget.V, w.Budget.OK && !off
		if !ok {
			n, ok = budgetOf(effort)
		}
		if ok = ok || off; ok {
			inside.key("thinkingBudget")
			inside.int(e.model.budget(n))
		}
		if !ok || off && e.model.budget(0) > 0 {
			if err := no("has no such effort"); err != nil {
				return err
			}
		}
	}
	if w.Visible.V && !off {
		inside.key("includeThoughts")
		inside.bool(true)
	}
	if len(inside.b) > 0 {
		e.key("thinkingConfig")
		e.open('{')
		e.raw(inside.b)
		e.close('}')
	}
	return nil
}

// config writes generationConfig, and looks at what it has no place for.
func (e *googleEncoder) config() error {
	c := e.c
	if err := refuseOrDropEach(c, &e.dropped, []lack{
		{c.TopLogprobs.OK, core.AskLogprobs, "gives log probabilities of another form"},
		{len(c.Stop) > 5, core.AskStop, "takes five stop sequences at most"},
		{c.Choices > 8, core.AskChoices, "gives eight answers at most"},
		{c.User != nil, core.AskUser, "has no tag of the end user"},
		{c.OneTool && len(c.Tools) > 0, core.AskOneTool, "cannot be held to one tool call"},
		{c.Seed != nil && !fits32(c.Seed), core.AskSeed, "takes a seed of 32 bits"},
	}); err != nil {
		return err
	}
	e.key("generationConfig")
	before := len(e.b)
	e.open('{')
	e.count("maxOutputTokens", c.MaxOutput)
	if c.Choices > 1 {
		e.key("candidateCount")
		e.int(c.Choices)
	}
	e.member("temperature", c.Temperature)
	e.member("topP", c.TopP)
	e.member("topK", c.TopK)
	if fits32(c.Seed) {
		e.member("seed", c.Seed)
	}
	e.member("presencePenalty", c.Presence)
	e.member("frequencyPenalty", c.Frequency)
	if len(c.Stop) > 0 {
		e.key("stopSequences")
		e.strings(c.Stop)
	}
	if c.Answer.JSON {
		e.key("responseMimeType")
		e.str("application/json")
		// The field that takes JSON Schema in whole; the older responseSchema refuses
		// the words that it does not know.
		e.member("responseJsonSchema", c.Answer.Schema)
	}
	if err := e.thinking(); err != nil {
		return err
	}
	e.close('}')
	if len(e.b) == before+2 { // nothing was asked for
		e.b = e.b[:before-len(`,"generationConfig":`)]
	}
	return nil
}

// fits32 tells whether a number is one of 32 bits.
func fits32(n core.Number) bool {
	_, err := strconv.ParseInt(string(n), 10, 32)
	return err == nil
}

// strings writes a list of texts.
func (e *googleEncoder) strings(all []core.Quoted) {
	e.open('[')
	for _, s := range all {
		e.item()
		e.raw(s)
	}
	e.close(']')
}

// tools writes the functions and which of them may or must be called.
func (e *googleEncoder) tools() error {
	if len(e.c.Tools) == 0 {
		return nil
	}
	e.raw([]byte(`,"tools":[{"functionDeclarations":`))
	e.open('[')
	for i := range e.c.Tools {
		t := &e.c.Tools[i]
		e.hint(t.Cache)
		if t.Strict.V {
			drop(&e.dropped, "strict")
		}
		e.item()
		e.open('{')
		e.member("name", t.Name)
		if len(t.Description) > 2 {
			e.member("description", t.Description)
		}
		e.member("parametersJsonSchema", t.Schema) // as responseJsonSchema
		e.close('}')
	}
	e.raw([]byte("]}]"))
	choice := e.c.ToolChoice
	mode := ""
	switch choice.Mode {
	case core.ChoiceUnsaid:
		return nil
	case core.ChoiceAuto:
		mode = "AUTO"
	case core.ChoiceNone:
		mode = "NONE"
	case core.ChoiceRequired, core.ChoiceNamed:
		mode = "ANY"
	}
	e.key("toolConfig")
	e.raw([]byte(`{"functionCallingConfig":`))
	e.open('{')
	e.key("mode")
	e.str(mode)
	if choice.Mode == core.ChoiceNamed {
		e.key("allowedFunctionNames")
		e.strings(choice.Names)
	}
	e.close('}')
	e.close('}')
	return nil
}

package adapters

import (
	"strconv"

	"headway/core"
)

// converseBody is a request of Converse while it is written.
type converseBody struct {
	text
	content *core.Content
	model   converseModel
	dropped []string

	role     string         // of the turn that is open
	names    map[string]int // of documents
	used     []core.Quoted  // tools of calls in earlier turns
	extra    text           // members of additionalModelRequestFields
	thinking bool           // the model is made to think
	silent   bool           // no tool may be called
}

// encode writes a request of Converse.
func (Converse) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := converseBody{content: c, model: modelOf(offer)}
	e.b = make([]byte, 0, sizeOf(c))
	if err := others(c, &e.dropped); err != nil {
		return nil, nil, err
	}
	e.open('{')
	for _, step := range []func() error{e.refuse, e.messages, e.tools, e.output, e.inference} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	if len(e.extra.b) > 0 {
		e.key("additionalModelRequestFields")
		e.open('{')
		e.raw(e.extra.b)
		e.close('}')
	}
	e.close('}')
	return e.b, e.dropped, nil
}

// extraKey begins a member of additionalModelRequestFields.
func (e *converseBody) extraKey(name string) {
	if len(e.extra.b) > 0 {
		e.extra.b = append(e.extra.b, ',')
	}
	e.extra.b = append(append(append(e.extra.b, '"'), name...), '"', ':')
}

// refuse deals with what the format has no place for and no other step sees.
func (e *converseBody) refuse() error {
	c := e.content
	for _, f := range []struct {
		asked bool
		field core.Ask
		why   string
	}{
		{c.Choices > 1, core.AskChoices, "gives one answer to a call"},
		{c.TopLogprobs.OK, core.AskLogprobs, "gives no log probabilities"},
		{len(c.User) > 0, core.AskUser, "knows no end users"},
		{len(c.Seed) > 0, core.AskSeed, "takes no seed"},
		{len(c.Frequency) > 0, core.AskFrequency, "has no such penalty"},
		{len(c.Presence) > 0, core.AskPresence, "has no such penalty"},
		{c.OneTool && len(c.Tools) > 0, core.AskOneTool, "cannot be held to one tool call"},
		{c.Fields[core.AskCache] != "" && !e.model.caches(), core.AskCache, "takes no marks for this model's cache"},
	} {
		if f.asked {
			if err := refuseOrDrop(c, f.field, &e.dropped, f.why); err != nil {
				return err
			}
		}
	}
	return nil
}

// tools writes the tools, and which of them must be called.
func (e *converseBody) tools() error {
	c := e.content
	e.silent = c.ToolChoice.Mode == core.ChoiceNone || len(c.Tools) == 0
	if e.silent {
		// The format has no way to say that no tool may be called but to offer none,
		// and wants some where earlier turns called some.
		if len(e.used) == 0 {
			return nil
		}
		if e.model.maker == makerAnthropic {
			e.extraKey("tool_choice")
			e.extra.b = append(e.extra.b, `{"type":"none"}`...)
		} else if c.ToolChoice.Mode == core.ChoiceNone {
			if err := refuseOrDrop(c, core.AskToolChoice, &e.dropped, "offers tools in a conversation that has called some"); err != nil {
				return err
			}
		}
	}
	e.key("toolConfig")
	e.open('{')
	e.key("tools")
	e.open('[')
	for i := range c.Tools {
		t := &c.Tools[i]
		if n := len(c.ToolChoice.Names); (n > 1 || n == 1 && c.ToolChoice.Mode != core.ChoiceNamed) && !oneOf(c.ToolChoice.Names, t.Name) {
			continue
		}
		if t.Strict.V {
			drop(&e.dropped, "strict") // what knows no such promise refuses the word
		}
		e.tool(t.Name, t.Description, t.Schema)
		if t.Cache != "" && e.model.maker == makerAnthropic {
			e.cachePoint(t.Cache)
		}
	}
	if len(c.Tools) == 0 {
		for _, name := range e.used {
			e.tool(name, core.Quoted(`"Not available any more: do not call it."`), nil)
		}
	}
	e.close(']')
	if !e.silent {
		e.toolChoice()
	}
	e.close('}')
	return nil
}

func (e *converseBody) tool(name, description core.Quoted, schema core.JSON) {
	e.item()
	e.open('{')
	e.key("toolSpec")
	e.open('{')
	e.member("name", name)
	if !blank(description) { // an empty one is refused
		e.member("description", description)
	}
	e.key("inputSchema")
	e.open('{')
	if len(schema) == 0 {
		schema = core.JSON(`{"type":"object","properties":{}}`)
	}
	e.member("json", schema)
	e.close('}')
	e.close('}')
	e.close('}')
}

func (e *converseBody) toolChoice() {
	choice := e.content.ToolChoice
	switch choice.Mode {
	case core.ChoiceRequired:
		e.member("toolChoice", []byte(`{"any":{}}`))
	case core.ChoiceNamed:
		if len(choice.Names) != 1 { // the tools are those alone
			e.member("toolChoice", []byte(`{"any":{}}`))
			return
		}
		e.key("toolChoice")
		e.open('{')
		e.key("tool")
		e.open('{')
		e.member("name", choice.Names[0])
		e.close('}')
		e.close('}')
	}
}

// output writes the form of the answer, and how much a newer Claude thinks.
func (e *converseBody) output() error {
	a := e.content.Answer
	if a.JSON && len(a.Schema) == 0 {
		if err := refuseOrDrop(e.content, core.AskAnswer, &e.dropped, "writes JSON by a schema alone"); err != nil {
			return err
		}
	}
	effort := e.reason()
	if len(a.Schema) == 0 && effort == "" {
		return nil
	}
	e.key("outputConfig")
	e.open('{')
	if effort != "" {
		e.key("effort")
		e.str(effort)
	}
	if len(a.Schema) > 0 {
		e.key("textFormat")
		e.open('{')
		e.key("type")
		e.str("json_schema")
		e.key("structure")
		e.open('{')
		e.key("jsonSchema")
		e.open('{')
		e.key("schema") // JSON in a string
		e.inner(escapeJSON(a.Schema))
		if !blank(a.Name) {
			e.member("name", a.Name)
		}
		e.close('}')
		e.close('}')
		e.close('}')
	}
	e.close('}')
	return nil
}

// inference writes limits and sampling.
func (e *converseBody) inference() error {
	c := e.content
	temperature, topP, topK := c.Temperature, c.TopP, c.TopK
	if e.model.maker == makerAnthropic {
		without := func(n *core.Number, field core.Ask, why string) error {
			if len(*n) == 0 {
				return nil
			}
			*n = nil
			return refuseOrDrop(c, field, &e.dropped, why)
		}
		if e.thinking || e.model.version >= 407 {
			const why = "sets the sampling of this model itself"
			for _, err := range []error{without(&temperature, core.AskTemperature, why), without(&topP, core.AskTopP, why), without(&topK, core.AskTopK, why)} {
				if err != nil {
					return err
				}
			}
		} else if len(temperature) > 0 && e.model.version > 400 {
			if err := without(&topP, core.AskTopP, "takes one of temperature and top_p"); err != nil {
				return err
			}
		}
	}
	if f, err := strconv.ParseFloat(string(temperature), 64); err == nil && f > 1 {
		temperature = core.Number("1") // its scale ends there
	}
	e.key("inferenceConfig")
	e.open('{')
	e.count("maxTokens", c.MaxOutput)
	e.member("temperature", temperature)
	e.member("topP", topP)
	if len(c.Stop) > 0 {
		e.key("stopSequences")
		e.open('[')
		for _, s := range c.Stop {
			e.item()
			e.raw(s)
		}
		e.close(']')
	}
	e.close('}')
	if len(topK) == 0 {
		return nil
	}
	switch e.model.maker {
	case makerAnthropic, makerMistral:
		e.extraKey("top_k")
		e.extra.raw(topK)
	case makerAmazon:
		e.extraKey("inferenceConfig")
		e.extra.b = append(append(append(e.extra.b, `{"topK":`...), topK...), '}')
	default:
		return refuseOrDrop(c, core.AskTopK, &e.dropped, "has no such limit for this model")
	}
	return nil
}

package adapters

import (
	"slices"
	"strconv"

	"headway/core"
)

// converseBody is a request of Converse while it is written. Its turns and what a
// Claude may be asked are those of a request of Anthropic's own format.
type converseBody struct {
	messagesBody
	maker maker

	names map[string]int // of documents
	used  []core.Quoted  // tools of calls in earlier turns
	extra text           // members of additionalModelRequestFields
}

// encode writes a request of Converse.
func (Converse) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := converseBody{messagesBody: messagesBody{content: c, own: core.FormatConverse}, maker: makerOf(offer)}
	if e.maker == makerAnthropic {
		e.model = claudeOf(upstreamModel(offer))
		if !e.model.known {
			e.model = claudeOf(string(offer.Model))
		}
	}
	if err := e.refuse(); err != nil {
		return nil, nil, err
	}
	e.b = make([]byte, 0, messagesSize(c))
	e.open('{')
	system := e.arrange()
	e.wish(offer)
	for _, part := range []func() error{
		func() error { return e.system(system) },
		e.messages, e.tools, e.output, e.inference,
	} {
		if err := part(); err != nil {
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
	if err := others(c, &e.dropped); err != nil {
		return err
	}
	return refuseOrDropEach(c, &e.dropped, []lack{
		{c.Choices > 1, core.AskChoices, "gives one answer to a call"},
		{c.TopLogprobs.OK, core.AskLogprobs, "gives no log probabilities"},
		{len(c.User) > 0, core.AskUser, "knows no end users"},
		{len(c.Seed) > 0, core.AskSeed, "takes no seed"},
		{len(c.Frequency) > 0, core.AskFrequency, "has no such penalty"},
		{len(c.Presence) > 0, core.AskPresence, "has no such penalty"},
		{c.OneTool && len(c.Tools) > 0, core.AskOneTool, "cannot be held to one tool call"},
		{c.Fields[core.AskCache] != "" && !e.maker.caches(), core.AskCache, "takes no marks for this model's cache"},
	})
}

// tools writes the tools, and which of them must be called. The format has no way
// to say that none may be but to offer none, and wants some where earlier turns
// called some.
func (e *converseBody) tools() error {
	c := e.content
	none := c.ToolChoice.Mode == core.ChoiceNone
	switch {
	case len(c.Tools) == 0 && e.forced():
		return refuseOrDrop(c, core.AskToolChoice, &e.dropped, "needs tools to choose from")
	case !none && len(c.Tools) > 0:
	case len(e.used) == 0:
		return nil
	case e.maker == makerAnthropic:
		e.extraKey("tool_choice")
		e.extra.b = append(e.extra.b, `{"type":"none"}`...)
	case none:
		if err := refuseOrDrop(c, core.AskToolChoice, &e.dropped, "offers tools in a conversation that has called some"); err != nil {
			return err
		}
	}
	e.key("toolConfig")
	e.open('{')
	e.key("tools")
	e.open('[')
	for i := range c.Tools {
		t := &c.Tools[i]
		if !e.offered(t) {
			continue
		}
		if t.Strict.V {
			drop(&e.dropped, t.At+".strict") // a model that knows no such promise refuses the word
		}
		e.tool(t.Name, t.Description, t.Schema)
		if t.Cache != "" && e.maker == makerAnthropic {
			e.cachePoint(t.Cache)
		}
	}
	if len(c.Tools) == 0 {
		for _, name := range e.used {
			e.tool(name, core.Quoted(`"Not available any more: do not call it."`), nil)
		}
	}
	e.close(']')
	e.toolChoice()
	e.close('}')
	return nil
}

func (e *converseBody) tool(name, description core.Quoted, schema core.JSON) {
	e.item()
	e.open('{')
	e.key("toolSpec")
	e.open('{')
	e.member("name", name)
	if !isBlank(description) { // an empty one is refused
		e.member("description", description)
	}
	e.key("inputSchema")
	e.open('{')
	e.member("json", inputSchema(schema))
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
	form := &e.content.Answer
	schema, err := e.schema()
	if err != nil || schema == nil && e.effort == "" {
		return err
	}
	e.key("outputConfig")
	e.open('{')
	if e.effort != "" {
		e.key("effort")
		e.str(e.effort)
	}
	if schema != nil {
		e.key("textFormat")
		e.b = append(e.b, `{"type":"json_schema","structure":{"jsonSchema":{"schema":`...)
		e.inner(escapeJSON(schema)) // JSON in a string
		if !isBlank(form.Name) {
			e.member("name", form.Name)
		}
		e.b = append(e.b, "}}}"...)
	}
	e.close('}')
	return nil
}

// inference writes limits and sampling. A temperature over 1, the most that there
// is, is sent as 1.
func (e *converseBody) inference() error {
	c := e.content
	temperature, topP, topK := c.Temperature, c.TopP, c.TopK
	if f, err := strconv.ParseFloat(string(temperature), 64); err == nil && f > 1 {
		temperature = core.Number("1")
		e.leave(core.AskTemperature)
	}
	if e.maker == makerAnthropic {
		off := e.thinks || !e.model.samples()
		without := func(n *core.Number, ask core.Ask) {
			if *n != nil {
				*n = nil
				e.leave(ask)
			}
		}
		if off {
			without(&temperature, core.AskTemperature)
			without(&topK, core.AskTopK)
		}
		if off || temperature != nil && e.model.oneSampler() {
			without(&topP, core.AskTopP)
		}
		if slices.ContainsFunc(c.Stop, isBlank) {
			return refuseOrDrop(c, core.AskStop, &e.dropped, "takes no stop sequence of white space alone")
		}
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
	switch e.maker {
	case makerAnthropic, makerMistral:
		e.extraKey("top_k")
		e.extra.raw(topK)
	case makerNova, makerNova2:
		e.extraKey("inferenceConfig")
		e.extra.b = append(append(append(e.extra.b, `{"topK":`...), topK...), '}')
	default:
		e.leave(core.AskTopK)
	}
	return nil
}

package adapters

import (
	"headway/core"
)

// encode writes a request of chat completions, in the words of the server that
// the offer's provider is.
func (Chat) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := chatEncoder{c: c, d: dialectOf(offer), model: upstreamModel(offer)}
	e.strict = e.d.parts || isMistral(e.model)
	var twins []string
	if e.d.effort == wishOpenAI { // others may refuse them; OpenAI has metadata only for answers that it stores
		twins = []string{"verbosity", "service_tier"}
	}
	if err := others(c, &e.dropped, twins...); err != nil {
		return nil, nil, err
	}
	if c.Fields[core.AskCache] != "" && !e.d.cache {
		if err := e.lacks(core.AskCache, "has no marks of what to cache"); err != nil {
			return nil, nil, err
		}
	}
	e.b = make([]byte, 0, sizeOf(c)*9/8) // arguments grow by their escapes
	e.open('{')
	e.key("model")
	e.str(e.model)
	if c.Streamed {
		e.key("stream")
		e.bool(true)
		if asksUsage(offer) {
			e.key("stream_options")
			e.raw([]byte(`{"include_usage":true}`))
		}
	}
	for _, step := range [...]func() error{e.messages, e.tools, e.sampling, e.form, e.reasoning} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range twins {
		e.member(name, twin(c, name))
	}
	e.close('}')
	return e.b, e.dropped, nil
}

// chatEncoder is a request of chat completions while it is written.
type chatEncoder struct {
	text
	c       *core.Content
	d       *chatDialect
	model   string
	dropped []string
	results []placed // images and documents of tool results, for the next user message
	strict  bool     // the model is Mistral's: the order of roles is held to
	told    bool     // the message before is a tool's result
}

// lacks deals with a field that the server has no place for.
func (e *chatEncoder) lacks(f core.Ask, why string) error {
	return refuseOrDrop(e.c, f, &e.dropped, why)
}

// tools writes the tools that may be called, and whether one must be.
func (e *chatEncoder) tools() error {
	c := e.c
	open := false
	for i := range c.Tools {
		t := &c.Tools[i]
		if len(c.ToolChoice.Names) > 1 && !oneOf(c.ToolChoice.Names, t.Name) || c.ToolChoice.Mode == core.ChoiceAuto && len(c.ToolChoice.Names) == 1 && !oneOf(c.ToolChoice.Names, t.Name) {
			continue
		}
		if !open {
			e.key("tools")
			e.open('[')
			open = true
		}
		e.item()
		e.tool(t)
	}
	if !open {
		return nil
	}
	e.close(']')
	mode := ""
	switch c.ToolChoice.Mode {
	case core.ChoiceAuto:
		mode = "auto"
	case core.ChoiceNone:
		mode = "none"
	case core.ChoiceRequired:
		mode = "required"
	case core.ChoiceNamed:
		mode = "required" // of those that are left
	}
	switch {
	case c.ToolChoice.Mode == core.ChoiceNamed && len(c.ToolChoice.Names) == 1:
		e.key("tool_choice")
		e.raw([]byte(`{"type":"function","function":{"name":`))
		e.raw(c.ToolChoice.Names[0])
		e.raw([]byte("}}"))
	case mode != "":
		e.key("tool_choice")
		e.str(mode)
	}
	if c.OneTool {
		e.key("parallel_tool_calls")
		e.bool(false)
	}
	return nil
}

func (e *chatEncoder) tool(t *core.Tool) {
	e.open('{')
	e.key("type")
	e.str("function")
	e.key("function")
	e.open('{')
	e.member("name", t.Name)
	e.member("description", t.Description)
	e.key("parameters")
	e.parameters(t.Schema)
	if t.Strict.OK {
		e.key("strict")
		e.bool(t.Strict.V)
	}
	e.close('}')
	e.cacheHint(t.Cache)
	e.close('}')
}

// parameters writes a tool's schema. OpenAI refuses an object's without its
// properties, which other formats let out where there are none.
func (e *chatEncoder) parameters(schema core.JSON) {
	kind, properties := "", false
	c := walk(schema)
	if !c.object() {
		e.raw([]byte(`{"type":"object","properties":{}}`))
		return
	}
	open := c.i
	for key := range c.rest {
		switch string(key) {
		case "type":
			kind = c.word()
		case "properties", "$ref", "anyOf", "oneOf", "allOf":
			properties = true
			c.skip()
		}
	}
	if kind != "object" || properties {
		e.raw(schema)
		return
	}
	e.raw([]byte(`{"properties":{},`))
	e.raw(schema[open:])
}

// cacheHint writes the mark of a place to cache the prompt to, where there is
// one and the server knows it.
func (e *chatEncoder) cacheHint(hint string) {
	if hint == "" || !e.d.cache {
		return
	}
	e.key("cache_control")
	if hint == "1h" {
		e.raw([]byte(`{"type":"ephemeral","ttl":"1h"}`))
	} else {
		e.raw([]byte(`{"type":"ephemeral"}`))
	}
}

// sampling writes how the answer's text is chosen and where it ends.
func (e *chatEncoder) sampling() error {
	c, d := e.c, e.d
	name := "max_tokens"
	if d.completion {
		name = "max_completion_tokens"
	}
	e.count(name, c.MaxOutput)
	if c.Choices > 1 {
		if d.single {
			if err := e.lacks(core.AskChoices, "gives one answer at a time"); err != nil {
				return err
			}
		}
		e.count("n", core.Some(c.Choices))
	}
	e.member("temperature", c.Temperature)
	e.member("top_p", c.TopP)
	if c.TopK != nil {
		if d.topK {
			e.member("top_k", c.TopK)
		} else if err := e.lacks(core.AskTopK, "has no top_k"); err != nil {
			return err
		}
	}
	seed := "seed"
	if d.seed != "" {
		seed = d.seed
	}
	e.member(seed, c.Seed)
	e.member("frequency_penalty", c.Frequency)
	e.member("presence_penalty", c.Presence)
	if len(c.Stop) > 0 {
		if d.stops > 0 && len(c.Stop) > d.stops {
			if err := e.lacks(core.AskStop, "takes fewer stop sequences"); err != nil {
				return err
			}
		}
		e.key("stop")
		e.open('[')
		for _, s := range c.Stop {
			e.item()
			e.raw(s)
		}
		e.close(']')
	}
	if c.TopLogprobs.OK {
		if err := e.lacks(core.AskLogprobs, "gives log probabilities in a form of its own"); err != nil {
			return err
		}
	}
	if c.User != nil {
		if d.noUser || len(c.User) > maxUser+2 {
			return e.lacks(core.AskUser, "takes no such tag of a user")
		}
		e.member("user", c.User)
	}
	return nil
}

// maxUser is the longest tag of an end user that OpenAI takes.
const maxUser = 64

// form writes the form that the answer must have.
func (e *chatEncoder) form() error {
	a := &e.c.Answer
	switch {
	case !a.JSON:
		return nil
	case a.Schema == nil:
		e.key("response_format")
		e.raw([]byte(`{"type":"json_object"}`))
		return nil
	case e.d.noSchema:
		return e.lacks(core.AskAnswer, "gives JSON, but by no schema")
	}
	name := a.Name
	if len(name) <= 2 {
		name = core.Quoted(`"answer"`)
	}
	e.key("response_format")
	e.raw([]byte(`{"type":"json_schema","json_schema":{"name":`))
	e.raw(name)
	e.member("schema", a.Schema)
	if a.Strict.OK {
		e.key("strict")
		e.bool(a.Strict.V)
	}
	e.raw([]byte("}}"))
	return nil
}

package adapters

import (
	"bytes"
	"slices"
	"strconv"

	"headway/core"
)

// messagesBody is a request of the Messages format while it is written.
type messagesBody struct {
	text
	content *core.Content
	own     core.Format // whose seals are sent back
	dropped []string
	model   claudeModel
	turns   []turn
	alone   bool // the turns are system text, as there is nothing else

	maxTokens int64
	thinking  string // the value of thinking, "" for none
	thinks    bool   // the model is asked to think
	effort    string
}

const (
	defaultMaxTokens = 8192 // where neither the client nor the offer says it
	leastBudget      = 1024 // the API's rule
	mostStrict       = 20   // strict tools of one request, the API's rule
)

// encode writes the request for a provider of format anthropic. Bedrock's
// InvokeModel and Vertex take the same, but for model and stream.
func (Anthropic) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := messagesBody{content: c, own: core.FormatAnthropic, model: claudeOf(upstreamModel(offer))}
	if !e.model.known {
		e.model = claudeOf(string(offer.Model)) // the name there may be that of a deployment
	}
	if err := e.refuse(); err != nil {
		return nil, nil, err
	}
	e.b = make([]byte, 0, messagesSize(c))
	e.open('{')
	e.key("model")
	e.str(upstreamModel(offer))
	if c.Streamed {
		e.key("stream")
		e.bool(true)
	}
	system := e.arrange()
	e.reason(offer)
	e.prune()
	e.key("max_tokens")
	e.int(e.maxTokens)
	for _, part := range []func() error{
		func() error { return e.system(system) },
		e.messages, e.tools, e.toolChoice, e.stop, e.answer,
	} {
		if err := part(); err != nil {
			return nil, nil, err
		}
	}
	e.sampling()
	if e.thinking != "" {
		e.key("thinking")
		e.b = append(e.b, e.thinking...)
	}
	e.user()
	e.close('}')
	return e.b, e.dropped, nil
}

// messagesSize is about how long the request will be.
func messagesSize(c *core.Content) int {
	n := 1024 + len(c.Answer.Schema)
	var add func(parts []core.Part)
	add = func(parts []core.Part) {
		for i := range parts {
			p := &parts[i]
			n += 96 + len(p.Text) + len(p.Arguments) + len(p.Media.Base64) + len(p.Seal.Text)
			add(p.Parts)
		}
	}
	for i := range c.Messages {
		n += 64
		add(c.Messages[i].Parts)
	}
	for i := range c.Tools {
		n += 128 + len(c.Tools[i].Description) + len(c.Tools[i].Schema)
	}
	return n
}

// refuse deals with what the format has no place for.
func (e *messagesBody) refuse() error {
	c := e.content
	if err := others(c, &e.dropped); err != nil {
		return err
	}
	return refuseOrDropEach(c, &e.dropped, []lack{
		{c.Choices > 1, core.AskChoices, "gives one answer to a call"},
		{c.TopLogprobs.OK, core.AskLogprobs, "gives no log probabilities"},
		{c.Seed != nil, core.AskSeed, "takes no seed"},
		{c.Frequency != nil, core.AskFrequency, "takes no penalties"},
		{c.Presence != nil, core.AskPresence, "takes no penalties"},
	})
}

// leave leaves out a field that only tunes.
func (e *messagesBody) leave(ask core.Ask) {
	name := e.content.Fields[ask]
	if name == "" {
		name = string(ask)
	}
	drop(&e.dropped, name)
}

// reason decides on thinking, and with it on the output maximum, of which
// thinking is a part. Where the API would refuse the call for it, it is left out.
func (e *messagesBody) reason(offer *core.Offer) {
	c, wish := e.content, &e.content.Reasoning
	e.maxTokens = c.MaxOutput.Or(offer.Limits.MaxOutput.Or(defaultMaxTokens))
	effort := wish.Effort
	if effort == "" && wish.Budget.OK {
		effort = effortOf(wish.Budget.V)
	}
	if effort == "" && !wish.Visible.V {
		return // not asked for
	}
	if effort == "none" {
		kind, ok := e.model.unthinking()
		if !ok {
			e.effort = "low" // the least that this model does
			e.leave(core.AskReasoning)
		} else if kind != "" {
			e.thinking = `{"type":"` + kind + `"}`
		}
		return
	}
	budget, known := budgetOf(effort)
	if wish.Budget.OK {
		budget, known = wish.Budget.V, true
	}
	if known && !c.MaxOutput.OK && !offer.Limits.MaxOutput.OK {
		// No more than budgets set aside.
		e.maxTokens = min(e.maxTokens+budget, offer.Limits.MostOutput())
	}
	if e.model.adaptive() {
		e.thinks, e.thinking = true, `{"type":"adaptive"`+display(wish)+`}`
		if known {
			e.effort = effort
		}
		switch {
		case effort == "minimal":
			e.effort = "low"
		case effort == "xhigh" && e.model.version < 407:
			e.effort = "high"
		}
		return
	}
	budget = max(budget, leastBudget)
	if budget >= e.maxTokens {
		budget = e.maxTokens / 2
	}
	if !known || budget < leastBudget || !e.model.thinks() || e.model.known && (e.forced() || e.unthought()) {
		e.leave(core.AskReasoning)
		return
	}
	e.thinks, e.thinking = true, `{"type":"enabled","budget_tokens":`+strconv.FormatInt(budget, 10)+`}`
}

// display says whether thinking is to be shown, where the client said it: what
// is shown unasked is another thing with each model.
func display(wish *core.ReasoningWish) string {
	switch {
	case !wish.Visible.OK:
		return ""
	case wish.Visible.V:
		return `,"display":"summarized"`
	}
	return `,"display":"omitted"`
}

// forced tells whether the model must call a tool.
func (e *messagesBody) forced() bool {
	mode := e.content.ToolChoice.Mode
	return mode == core.ChoiceRequired || mode == core.ChoiceNamed
}

// stop writes the stop sequences. The API refuses one of white space alone, and
// without it the answer would go on.
func (e *messagesBody) stop() error {
	if len(e.content.Stop) == 0 {
		return nil
	}
	if slices.ContainsFunc(e.content.Stop, isBlank) {
		return refuseOrDrop(e.content, core.AskStop, &e.dropped, "takes no stop sequence of white space alone")
	}
	e.key("stop_sequences")
	e.open('[')
	for _, s := range e.content.Stop {
		e.item()
		e.raw(s)
	}
	e.close(']')
	return nil
}

// schema is what the answer must look like, closed as these APIs want it; nil
// where nothing was asked.
func (e *messagesBody) schema() (core.JSON, error) {
	form := &e.content.Answer
	if !form.JSON {
		return nil, nil
	}
	if form.Schema == nil {
		return nil, refuseOrDrop(e.content, core.AskAnswer, &e.dropped, "needs a schema for an answer in JSON")
	}
	schema, ok := closedSchema(form.Schema)
	if !ok {
		return nil, refuseOrDrop(e.content, core.AskAnswer, &e.dropped, "takes no schema whose objects have members of any name")
	}
	return schema, nil
}

// answer writes what the answer must look like, and how hard to think.
func (e *messagesBody) answer() error {
	schema, err := e.schema()
	if err != nil || schema == nil && e.effort == "" {
		return err
	}
	e.key("output_config")
	e.open('{')
	if e.effort != "" {
		e.key("effort")
		e.str(e.effort)
	}
	if schema != nil {
		e.key("format")
		e.b = append(e.b, `{"type":"json_schema","schema":`...)
		e.raw(schema)
		e.close('}')
	}
	e.close('}')
	return nil
}

// sampling writes temperature, top_p and top_k where this model takes them as
// they are. A temperature over 1 is left out: 1 is the most, and the default.
func (e *messagesBody) sampling() {
	c := e.content
	thinks := e.thinks && e.model.known
	put := func(name string, ask core.Ask, n core.Number, taken bool) {
		switch v, err := strconv.ParseFloat(string(n), 64); {
		case n == nil || v == 1 && err == nil && ask != core.AskTopK && !taken:
		case taken:
			e.member(name, n)
		default:
			e.leave(ask)
		}
	}
	atMost := func(n core.Number, least, most float64) bool {
		v, err := strconv.ParseFloat(string(n), 64)
		return err == nil && least <= v && v <= most
	}
	put("temperature", core.AskTemperature, c.Temperature, e.model.samples() && !thinks && atMost(c.Temperature, 0, 1))
	both := e.model.oneSampler() && c.Temperature != nil && !thinks
	put("top_p", core.AskTopP, c.TopP, e.model.samples() && !both && (!thinks || atMost(c.TopP, 0.95, 1)))
	put("top_k", core.AskTopK, c.TopK, e.model.samples() && !thinks)
}

// user writes the tag of the end user, which the API refuses where it is long or
// looks like an address.
func (e *messagesBody) user() {
	u := e.content.User
	switch {
	case u == nil:
	case len(u) > 256 || bytes.IndexByte(u, '@') >= 0:
		e.leave(core.AskUser)
	default:
		e.key("metadata")
		e.open('{')
		e.member("user_id", u)
		e.close('}')
	}
}

// tools writes the tools: where the choice is among some of them, those.
func (e *messagesBody) tools() error {
	c := e.content
	strict := 0
	for i := range c.Tools {
		if c.Tools[i].Strict.V {
			strict++
		}
	}
	begun := false
	for i := range c.Tools {
		t := &c.Tools[i]
		if !e.offered(t) {
			continue
		}
		if !begun {
			e.key("tools")
			e.open('[')
			begun = true
		}
		e.item()
		e.open('{')
		e.member("name", t.Name)
		if len(t.Description) > 2 {
			e.member("description", t.Description)
		}
		schema, closed := inputSchema(t.Schema), false
		if t.Strict.V && e.model.structured() && strict <= mostStrict {
			if s, ok := closedSchema(schema); ok {
				schema, closed = s, true
			}
		}
		e.member("input_schema", schema)
		if closed {
			e.key("strict")
			e.bool(true)
		} else if t.Strict.V {
			drop(&e.dropped, t.At+".strict")
		}
		e.cache(t.Cache)
		e.close('}')
	}
	if begun {
		e.close(']')
	}
	return nil
}

// offered tells whether the model is told of a tool: a choice of several names
// is one among these alone.
func (e *messagesBody) offered(t *core.Tool) bool {
	names := e.content.ToolChoice.Names
	if len(names) == 0 || len(names) == 1 && e.content.ToolChoice.Mode == core.ChoiceNamed {
		return true
	}
	return slices.ContainsFunc(names, func(n core.Quoted) bool { return bytes.Equal(n, t.Name) })
}

// toolChoice writes which tools the model may or must call.
func (e *messagesBody) toolChoice() error {
	c := e.content
	if len(c.Tools) == 0 {
		if e.forced() {
			return refuseOrDrop(c, core.AskToolChoice, &e.dropped, "needs tools to choose from")
		}
		return nil
	}
	if c.ToolChoice.Mode == core.ChoiceUnsaid && !c.OneTool {
		return nil
	}
	kind := "auto"
	var name core.Quoted
	switch c.ToolChoice.Mode {
	case core.ChoiceNone:
		kind = "none"
	case core.ChoiceRequired:
		kind = "any"
	case core.ChoiceNamed:
		if kind = "any"; len(c.ToolChoice.Names) == 1 {
			kind, name = "tool", c.ToolChoice.Names[0]
		}
	}
	e.key("tool_choice")
	e.open('{')
	e.key("type")
	e.str(kind)
	e.member("name", name)
	if c.OneTool && kind != "none" {
		e.key("disable_parallel_tool_use")
		e.bool(true)
	}
	e.close('}')
	return nil
}

// cache writes the hint that a block ends a part of the prompt to be cached.
func (e *messagesBody) cache(ttl string) {
	switch ttl {
	case "":
	case "1h":
		e.member("cache_control", []byte(`{"type":"ephemeral","ttl":"1h"}`))
	default:
		e.member("cache_control", []byte(`{"type":"ephemeral"}`))
	}
}

package adapters

import (
	"encoding/base64"
	"strings"

	"headway/core"
)

// encode writes a request of /api/chat.
func (Ollama) encode(c *core.Content, offer *core.Offer) (body []byte, dropped []string, err error) {
	e := ollamaBody{content: c}
	e.b = make([]byte, 0, sizeOf(c))
	if err := others(c, &e.dropped); err != nil {
		return nil, nil, err
	}
	e.open('{')
	e.key("model")
	e.str(upstreamModel(offer))
	e.key("stream")
	e.bool(c.Streamed)
	// A prompt over the server's context is to be an error that names it: on its
	// own the server leaves the oldest messages out and says nothing.
	e.key("truncate")
	e.bool(false)
	for _, step := range []func() error{e.refuse, e.messages, e.tools, e.form} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	e.think(upstreamModel(offer))
	e.options(offer)
	e.close('}')
	return e.b, e.dropped, nil
}

// sizeOf is about how long the request of a content will be.
func sizeOf(c *core.Content) int {
	n := 512
	var add func([]core.Part)
	add = func(parts []core.Part) {
		for i := range parts {
			p := &parts[i]
			n += 64 + len(p.Text) + len(p.Arguments) + len(p.Media.Base64)
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
	return n + len(c.Answer.Schema)
}

// ollamaBody is a request of /api/chat while it is written.
type ollamaBody struct {
	text
	content *core.Content
	dropped []string

	names  map[string]core.Quoted // of the tools of calls so far, by the call's id
	said   ollamaMessage          // the message under way
	images [][]byte               // of tool results: they go into the user message that follows
}

// refuse deals with what the API has no place for and no other step sees.
func (e *ollamaBody) refuse() error {
	c := e.content
	return refuseOrDropEach(c, &e.dropped, []lack{
		{c.Choices > 1, core.AskChoices, "gives one answer to a call"},
		{c.TopLogprobs.OK, core.AskLogprobs, "speaks another format, between which log probabilities are not carried"},
		{len(c.User) > 0, core.AskUser, "knows no end users"},
		{c.OneTool && len(c.Tools) > 0, core.AskOneTool, "cannot be held to one tool call"},
		{c.Fields[core.AskCache] != "", core.AskCache, "caches on its own"},
	})
}

// tools writes the tools that may be called: none where the model must call none.
func (e *ollamaBody) tools() error {
	c := e.content
	switch c.ToolChoice.Mode {
	case core.ChoiceNone:
		return nil
	case core.ChoiceRequired, core.ChoiceNamed:
		if err := refuseOrDrop(c, core.AskToolChoice, &e.dropped, "cannot be made to call a tool"); err != nil {
			return err
		}
	}
	open := false
	for i := range c.Tools {
		t := &c.Tools[i]
		if len(c.ToolChoice.Names) > 0 && !oneOf(c.ToolChoice.Names, t.Name) {
			continue
		}
		if !open {
			e.key("tools")
			e.open('[')
			open = true
		}
		if t.Strict.V {
			drop(&e.dropped, "strict")
		}
		e.item()
		e.open('{')
		e.key("type")
		e.word("function")
		e.key("function")
		e.open('{')
		e.member("name", t.Name)
		e.member("description", t.Description)
		e.key("parameters")
		if len(t.Schema) > 0 {
			e.raw(t.Schema)
		} else {
			e.raw([]byte(`{"type":"object","properties":{}}`))
		}
		e.close('}')
		e.close('}')
	}
	if open {
		e.close(']')
	}
	return nil
}

// oneOf tells whether a name is one of some.
func oneOf(names []core.Quoted, name core.Quoted) bool {
	for _, n := range names {
		if string(unescape(inner(n))) == string(unescape(inner(name))) {
			return true
		}
	}
	return false
}

// form writes the form that the answer must have.
func (e *ollamaBody) form() error {
	switch a := e.content.Answer; {
	case len(a.Schema) > 0:
		e.member("format", a.Schema)
	case a.JSON:
		e.key("format")
		e.word("json")
	}
	return nil
}

// think writes what the client wishes of the model's reasoning. A model that can
// think does where nothing is said, and one that cannot answers every wish with an
// error; gpt-oss alone has levels of it, three.
func (e *ollamaBody) think(model string) {
	w := e.content.Reasoning
	effort := w.Effort
	if effort == "" && w.Budget.OK {
		effort = effortOf(w.Budget.V)
	}
	switch {
	case effort == "":
		return // the model's own way, as for a client that asked for nothing
	case effort == "none":
		e.key("think")
		e.bool(false)
		return
	case !strings.Contains(model, "gpt-oss"):
		_ = refuseOrDrop(e.content, core.AskReasoning, &e.dropped, "") // it is never refused
		return
	}
	e.key("think")
	e.word(threeLevels(effort))
}

// options writes the limits and the sampling. The context that the offer is said
// to have is asked for, as a server has a small one where it is not told.
func (e *ollamaBody) options(offer *core.Offer) {
	c := e.content
	e.key("options")
	e.open('{')
	e.count("num_ctx", offer.Limits.Context)
	e.count("num_predict", c.MaxOutput)
	e.member("temperature", c.Temperature)
	e.member("top_p", c.TopP)
	e.member("top_k", c.TopK)
	e.member("seed", c.Seed)
	e.member("frequency_penalty", c.Frequency)
	e.member("presence_penalty", c.Presence)
	if len(c.Stop) > 0 {
		e.key("stop")
		e.open('[')
		for _, s := range c.Stop {
			e.item()
			e.raw(s)
		}
		e.close(']')
	}
	e.close('}')
}

// documentText is a document as the text that stands for it, where it is one.
func documentText(m *core.Media) (core.Quoted, bool) {
	if m.Type != "text/plain" || m.Base64 == nil {
		return nil, false
	}
	text, err := base64.StdEncoding.AppendDecode(nil, unescape(m.Base64))
	return encode(string(text)), err == nil
}

package adapters

import (
	"slices"
	"strconv"

	"headway/core"
)

// Decode reads all of a request. Only chat completions have a form in other
// formats: the old completions and embeddings are refused by name.
func (Chat) Decode(job *core.Job) (*core.Content, error) {
	if job.Operation != core.OpGenerate {
		return nil, cannot(string(job.Operation), "speaks another format that has no such operation")
	}
	d := chatDecoder{
		request: request{cursor: walk(job.Body), job: job},
		c: &core.Content{
			Format: core.FormatOpenAI, Streamed: job.Streamed, MaxOutput: job.MaxOutput, Choices: job.Choices, Fields: map[core.Ask]string{},
		},
	}
	if err := d.body(); err != nil {
		return nil, err
	}
	return d.c, nil
}

// chatDecoder reads a request that Parse has read. It leaves the job as it is.
type chatDecoder struct {
	request
	c *core.Content

	logprobs bool
	top      core.Opt[int64]
	safety   core.Quoted
	allowed  []core.Quoted // the tools that tool_choice leaves
}

// body consumes the members of the request.
func (d *chatDecoder) body() *core.Error {
	if !d.object() {
		return d.wrong("body", "must be a JSON object")
	}
	for key := range d.rest {
		if d.null() {
			continue
		}
		if err := d.member(string(key)); err != nil {
			return err
		}
	}
	if err := d.end(); err != nil {
		return notJSON(err)
	}
	d.settle()
	return nil
}

// settle looks at the fields together.
func (d *chatDecoder) settle() {
	c := d.c
	if c.Choices > 1 {
		d.gave(core.AskChoices, "n")
	}
	if d.logprobs {
		c.TopLogprobs = core.Some(d.top.V)
		d.gave(core.AskLogprobs, "logprobs")
	}
	if c.User == nil && d.safety != nil {
		c.User = d.safety
		d.gave(core.AskUser, "safety_identifier")
	}
	if d.allowed != nil {
		c.Tools = slices.DeleteFunc(c.Tools, func(t core.Tool) bool { return !oneOf(d.allowed, t.Name) })
	}
}

// gave notes where a field was given.
func (d *chatDecoder) gave(f core.Ask, name string) { d.c.Fields[f] = name }

// other notes a field that no other format has.
func (d *chatDecoder) other(name string, refused bool) {
	for i := range d.c.Others {
		if d.c.Others[i].Name == name {
			d.c.Others[i].Refused = d.c.Others[i].Refused || refused
			return
		}
	}
	d.c.Others = append(d.c.Others, core.OtherField{Name: name, Refused: refused})
}

// member consumes the value of one top-level member, which is not null.
func (d *chatDecoder) member(name string) (err *core.Error) {
	c := d.c
	switch name {
	case "model", "stream", "stream_options", "n":
		d.skip()
	case "messages":
		return d.messages()
	case "max_tokens", "max_completion_tokens":
		d.skip()
		if d.c.Fields[core.AskMaxOutput] != "max_completion_tokens" {
			d.gave(core.AskMaxOutput, name)
		}
	case "temperature":
		c.Temperature, err = d.figureOf(core.AskTemperature, name, "")
	case "top_p":
		c.TopP, err = d.figureOf(core.AskTopP, name, "1")
	case "top_k":
		c.TopK, err = d.figureOf(core.AskTopK, name, "")
	case "seed":
		c.Seed, err = d.figureOf(core.AskSeed, name, "")
	case "frequency_penalty":
		c.Frequency, err = d.figureOf(core.AskFrequency, name, "0")
	case "presence_penalty":
		c.Presence, err = d.figureOf(core.AskPresence, name, "0")
	case "stop":
		return d.stops()
	case "logprobs":
		d.logprobs, err = d.flag(name)
	case "top_logprobs":
		d.top, err = d.count(name, 0)
	case "tools":
		return d.tools(false)
	case "functions":
		return d.tools(true)
	case "tool_choice", "function_call":
		return d.choice(name)
	case "parallel_tool_calls":
		var parallel bool
		if parallel, err = d.flag(name); !parallel {
			c.OneTool = true
			d.gave(core.AskOneTool, name)
		}
	case "response_format":
		return d.form()
	case "reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "include_reasoning":
		return d.wish(name)
	case "user":
		c.User, err = d.quoted(name)
		d.gave(core.AskUser, name)
	case "safety_identifier":
		d.safety, err = d.quoted(name)
	default:
		value := d.value()
		switch {
		case idle(name, value):
		case slices.Contains(chatOthers, name):
			d.other(name, true)
		default:
			c.Others = append(c.Others, twinOf(name, value))
		}
	}
	return err
}

// chatOthers are the fields of chat completions and of its servers that change
// what an answer means or may be. Those that are not here, known or not, only
// tune, tag or place a call: they are left out and named.
var chatOthers = []string{
	"logit_bias", "modalities", "documents", "suffix", "echo", "best_of", "min_tokens", "ignore_eos", "stop_token_ids", "bad_words", "stop_regex",
	"logits_processors", "prompt_logprobs", "chat_template", "add_generation_prompt", "continue_final_message", "previous_response_id",
	"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar", "json_schema", "regex", "ebnf",
}

// idle tells whether a member's value is what it is without being given.
func idle(name string, value []byte) bool {
	switch string(value) {
	case "{}", "[]", `""`, "null", "false":
		return true
	case `"auto"`, `"default"`:
		return name == "service_tier"
	case `"medium"`:
		return name == "verbosity"
	case "1":
		return name == "best_of" || name == "repetition_penalty"
	case "0":
		return name == "min_p" || name == "top_a" || name == "min_tokens"
	}
	if name != "modalities" {
		return false
	}
	c := walk(value)
	for c.array(); c.element(); {
		if c.word() != "text" {
			return false
		}
	}
	return true
}

// quoted consumes a string, with its quotes.
func (d *chatDecoder) quoted(field string) (core.Quoted, *core.Error) {
	raw, err := d.str(field)
	if err != nil {
		return nil, err
	}
	return d.cursor.quotes(raw), nil
}

// quotes gives the string that was just consumed with its quotes.
func (c *cursor) quotes(raw []byte) core.Quoted { return c.b[c.i-len(raw)-2 : c.i : c.i] }

// figureOf consumes a number, which is absent where it is none, the default.
func (d *chatDecoder) figureOf(f core.Ask, name, none string) (core.Number, *core.Error) {
	raw, ok := d.number()
	if !ok {
		return nil, d.wrong(name, "must be a number")
	}
	if none != "" && (string(raw) == none || string(raw) == none+".0") {
		return nil, nil
	}
	d.gave(f, name)
	return raw, nil
}

// stops consumes a stop sequence or a list of them.
func (d *chatDecoder) stops() *core.Error {
	if raw, ok := d.text(); ok {
		d.c.Stop = append(d.c.Stop, d.quotes(raw))
	} else {
		for d.array(); d.element(); {
			one, err := d.quoted("stop")
			if err != nil {
				return err
			}
			d.c.Stop = append(d.c.Stop, one)
		}
	}
	if len(d.c.Stop) > 0 {
		d.gave(core.AskStop, "stop")
	}
	return nil
}

// form consumes response_format: OpenAI's, or llama-server's with the schema
// beside the type.
func (d *chatDecoder) form() *core.Error {
	if !d.object() {
		return d.wrong("response_format", "must be an object")
	}
	kind, form := "", core.AnswerForm{JSON: true}
	for key := range d.rest {
		switch string(key) {
		case "type":
			kind = d.word()
		case "schema":
			if !d.null() {
				form.Schema = d.value()
			}
		case "json_schema":
			if err := d.schema(&form); err != nil {
				return err
			}
		}
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
	case "json_schema":
		if form.Schema == nil {
			return d.wrong("response_format.json_schema.schema", "required")
		}
	default:
		d.other("response_format.type", true)
		return nil
	}
	d.c.Answer = form
	d.gave(core.AskAnswer, "response_format")
	return nil
}

func (d *chatDecoder) schema(form *core.AnswerForm) (err *core.Error) {
	const field = "response_format.json_schema"
	if d.null() {
		return nil
	}
	if !d.object() {
		return d.wrong(field, "must be an object")
	}
	for key := range d.rest {
		switch {
		case d.null():
		case string(key) == "name":
			form.Name, err = d.quoted(field + ".name")
		case string(key) == "schema":
			if d.peek() != '{' {
				return d.wrong(field+".schema", "must be an object")
			}
			form.Schema = d.value()
		case string(key) == "strict":
			form.Strict, err = d.either(field + ".strict")
		case string(key) == "description":
			d.skip()
			d.other(field+".description", false)
		default:
			d.skip()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// either consumes true or false.
func (d *chatDecoder) either(field string) (core.Opt[bool], *core.Error) {
	v, ok := d.boolean()
	if !ok {
		return core.Opt[bool]{}, d.wrong(field, "must be true or false")
	}
	return core.Some(v), nil
}

// at writes the place of an element of a list.
func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

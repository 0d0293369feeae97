package adapters

import (
	"bytes"
	"fmt"
	"slices"

	"headway/core"
)

// responsesRefused are fields, the API's own and some that only its compatible
// servers have, without which the answer would mean something else (SPEC §13).
// Every other one that no other format has only tunes or decorates.
var responsesRefused = []string{"n", "stop", "logit_bias", "audio", "modalities", "image", "generate"}

// responsesHeld are fields that point at what the provider keeps.
var responsesHeld = []string{"previous_response_id", "conversation", "prompt"}

// held is the error of a place that points at what a provider keeps.
func held(place string) error {
	err := core.Field(place, "points at what a provider keeps, which only an offer that speaks the Responses API can look up")
	err.Code = "unsupported_field"
	err.Hint = "send the items themselves, with store false, or ask for another model"
	return err
}

// responsesDecoder gathers a request's content.
type responsesDecoder struct {
	*core.Content
	tools []responsesTool
	calls map[string]core.Quoted // names of the calls so far, by id
}

// Decode reads all of a request for an upstream of another format.
func (Responses) Decode(job *core.Job) (*core.Content, error) {
	d := responsesDecoder{
		Content: &core.Content{Format: core.FormatResponses, Streamed: job.Streamed, MaxOutput: job.MaxOutput, Fields: map[core.Ask]string{}},
		calls:   map[string]core.Quoted{},
	}
	fields := bodyFields(job.Body)
	for _, f := range fields { // calls in the input and the choice go by the tools' names
		if f.name == "tools" {
			if err := d.readTools(f.value); err != nil {
				return nil, err
			}
		}
		if f.name == "instructions" && f.value[0] == '"' && len(f.value) > 2 { // they stand before all input
			d.Messages = append(d.Messages, core.Message{Role: core.RoleSystem, Parts: []core.Part{{Text: f.value}}, At: f.name})
		}
	}
	for _, f := range fields {
		if f.value[0] == 'n' { // null
			continue
		}
		if err := d.field(f.name, f.value); err != nil {
			return nil, err
		}
	}
	return d.Content, nil
}

// field takes one field that is there.
func (d *responsesDecoder) field(name string, v []byte) error {
	switch name {
	case "model", "stream", "tools", "instructions", "background", "stream_options":
	case "input":
		return d.input(v)
	case "max_output_tokens":
		d.Fields[core.AskMaxOutput] = name
	case "temperature":
		d.Temperature, d.Fields[core.AskTemperature] = v, name
	case "top_p":
		d.TopP, d.Fields[core.AskTopP] = v, name
	case "top_logprobs":
		c := walk(v)
		n, ok := c.integer()
		if !ok || n < 0 {
			return core.Field(name, "must be a whole number that is not negative")
		}
		if n > 0 {
			d.TopLogprobs, d.Fields[core.AskLogprobs] = core.Some(n), name
		}
	case "include":
		return d.include(v)
	case "text":
		return d.textForm(v)
	case "reasoning":
		return d.reasoning(v)
	case "tool_choice":
		return d.toolChoice(v)
	case "parallel_tool_calls":
		if string(v) == "false" {
			d.OneTool, d.Fields[core.AskOneTool] = true, name
		}
	case "user", "safety_identifier": // one takes the other's place
		if v[0] != '"' {
			return core.Field(name, "must be a string")
		}
		if d.User == nil {
			d.User, d.Fields[core.AskUser] = v, name
		} else {
			d.other(name, false)
		}
	default:
		if slices.Contains(responsesHeld, name) {
			return held(name)
		}
		switch {
		case byDefault(name, v):
		case slices.Contains(responsesRefused, name):
			d.other(name, true)
		default:
			d.Others = append(d.Others, twinOf(name, v))
		}
	}
	return nil
}

// byDefault tells whether a field says no more than its absence. That nothing is
// stored is what happens at a provider of another format.
func byDefault(name string, v []byte) bool {
	switch name {
	case "store":
		return string(v) == "false"
	case "truncation":
		return string(v) == `"disabled"`
	case "service_tier":
		return string(v) == `"auto"` || string(v) == `"default"`
	case "n":
		return string(v) == "1"
	}
	return len(v) <= 4 && len(bytes.Trim(v, "{}[] \n\t\r")) == 0
}

func (d *responsesDecoder) other(name string, refused bool) {
	o := core.OtherField{Name: name, Refused: refused}
	if !slices.Contains(d.Others, o) {
		d.Others = append(d.Others, o)
	}
}

// include takes what more the answer is to hold. Encrypted reasoning is always
// given where there is some.
func (d *responsesDecoder) include(v []byte) error {
	c := walk(v)
	if !c.array() {
		return core.Field("include", "must be a list of strings")
	}
	for c.element() {
		switch c.word() {
		case "reasoning.encrypted_content":
		case "message.output_text.logprobs":
			if !d.TopLogprobs.OK {
				d.TopLogprobs, d.Fields[core.AskLogprobs] = core.Some[int64](0), "include"
			}
		default:
			d.other("include", false)
		}
	}
	return nil
}

// reasoning takes what was asked of the model's reasoning.
func (d *responsesDecoder) reasoning(v []byte) error {
	c := walk(v)
	if !c.object() {
		return core.Field("reasoning", "must be an object")
	}
	for key := range c.rest {
		if c.null() {
			continue
		}
		switch string(key) {
		case "effort":
			effort := c.word()
			if effort == "max" {
				effort = efforts[len(efforts)-1].name
			}
			if _, ok := budgetOf(effort); !ok && effort != "none" {
				return core.Field("reasoning.effort", "must be none, minimal, low, medium, high, xhigh or max")
			}
			d.Reasoning.Effort = effort
		case "summary", "generate_summary":
			d.Reasoning.Visible = core.Some(c.word() != "none")
		default:
			d.other("reasoning."+string(key), false)
			continue
		}
		d.Fields[core.AskReasoning] = "reasoning"
	}
	return nil
}

// textForm takes what form the answer's text is to have.
func (d *responsesDecoder) textForm(v []byte) error {
	c := walk(v)
	if !c.object() {
		return core.Field("text", "must be an object")
	}
	for key := range c.rest {
		value := c.value()
		switch name := string(key); {
		case value[0] == 'n' || name == "verbosity" && string(value) == `"medium"`:
		case name == "format":
			if err := d.format(value); err != nil {
				return err
			}
		default:
			d.Others = append(d.Others, twinOf("text."+name, value))
		}
	}
	return nil
}

// format takes text.format.
func (d *responsesDecoder) format(v []byte) error {
	var kind string
	form := core.AnswerForm{JSON: true}
	described := false
	c := walk(v)
	for key := range c.each {
		switch {
		case c.null():
		case string(key) == "type":
			kind = c.word()
		case string(key) == "name":
			form.Name = c.quoted()
		case string(key) == "schema":
			form.Schema = c.value()
		case string(key) == "strict":
			form.Strict = c.optional()
		default:
			described = described || string(key) == "description"
			c.skip()
		}
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		form = core.AnswerForm{JSON: true}
	case "json_schema":
		if len(form.Schema) == 0 || form.Schema[0] != '{' {
			return core.Field("text.format.schema", "must be an object")
		}
		if described {
			d.other("text.format.description", false)
		}
	default:
		d.other("text.format", true)
		return nil
	}
	d.Answer, d.Fields[core.AskAnswer] = form, "text.format"
	return nil
}

// input takes a text or a list of items.
func (d *responsesDecoder) input(v []byte) error {
	if v[0] == '"' {
		d.Messages = append(d.Messages, core.Message{Role: core.RoleUser, Parts: []core.Part{{Text: v}}, At: "input"})
		return nil
	}
	c := walk(v)
	c.array()
	for i := 0; c.element(); i++ {
		if err := d.item(fmt.Sprintf("input[%d]", i), &c); err != nil {
			return err
		}
	}
	return nil
}

package adapters

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"headway/core"
)

// messagesDecoder reads all of a Messages request.
type messagesDecoder struct {
	cursor
	out    *core.Content
	system []core.Part
	hosted []string // names of tools that Anthropic runs, which no other provider has
}

// Decode reads all of a request that Parse has read. A count of tokens has no
// other format. Errors are Invalid and name the field.
func (Anthropic) Decode(job *core.Job) (*core.Content, error) {
	d := messagesDecoder{cursor: walk(job.Body), out: &core.Content{
		Format: job.Format, Streamed: job.Streamed, Fields: map[core.Ask]string{},
	}}
	if err := d.request(); err != nil {
		return nil, err
	}
	if d.err != nil {
		return nil, notJSON(d.err)
	}
	d.out.Shown = shownThinking(d.out)
	return d.out, nil
}

// shownThinking is what the API itself would show: no thinking unless it was
// asked for. With tools it stays, as some providers want it back with the next
// turn, and a client that has tools looks at each block.
func shownThinking(c *core.Content) core.Shown {
	switch asked := c.Fields[core.AskReasoning] == "thinking" && c.Reasoning.Effort != "none"; {
	case c.Reasoning.Visible == core.Some(false):
		return core.ShowSeals
	case asked || len(c.Tools) > 0:
		return core.ShowAll
	}
	return core.ShowNone
}

func (d *messagesDecoder) request() error {
	var autoCache string
	for key := range d.each {
		if d.null() {
			continue
		}
		var err error
		switch name := string(key); name {
		case "model", "stream":
			d.skip()
		case "system":
			d.system, err = d.content(name)
		case "messages":
			err = d.messages()
		case "cache_control":
			autoCache = d.cache()
		default:
			err = d.option(name)
		}
		if err != nil {
			return err
		}
	}
	if len(d.system) > 0 {
		d.out.Messages = slices.Insert(d.out.Messages, 0, core.Message{Role: core.RoleSystem, Parts: d.system, At: "system"})
	}
	if n := len(d.out.Messages); autoCache != "" && n > 0 {
		// The whole prompt is to be cached, wherever it ends.
		parts := d.out.Messages[n-1].Parts
		parts[len(parts)-1].Cache = autoCache
	}
	return d.choosable()
}

// choosable refuses a choice that only a tool which the upstream will not have
// can satisfy.
func (d *messagesDecoder) choosable() error {
	c := d.out
	switch c.ToolChoice.Mode {
	case core.ChoiceRequired:
		if len(c.Tools) > 0 || len(d.hosted) == 0 {
			return nil
		}
	case core.ChoiceNamed:
		if !slices.Contains(d.hosted, string(unescape(inner(c.ToolChoice.Names[0])))) {
			return nil
		}
	default:
		return nil
	}
	return cannot("tool_choice", "does not run Anthropic's own tools")
}

// option consumes the value of a field that is neither the prompt nor null.
func (d *messagesDecoder) option(name string) error {
	c := d.out
	number := func(to *core.Number, ask core.Ask) {
		if raw, ok := d.number(); ok {
			*to, c.Fields[ask] = raw, name
		} else {
			d.skip()
		}
	}
	switch name {
	case "max_tokens":
		if n, ok := d.integer(); ok && n > 0 {
			c.MaxOutput, c.Fields[core.AskMaxOutput] = core.Some(n), name
		} else {
			d.other(name, true) // 0 fills Anthropic's cache and asks for no answer
		}
	case "temperature":
		number(&c.Temperature, core.AskTemperature)
	case "top_p":
		number(&c.TopP, core.AskTopP)
	case "top_k":
		number(&c.TopK, core.AskTopK)
	case "stop_sequences":
		for d.array(); d.element(); {
			s := d.str()
			if s == nil {
				return core.Field(name, "must be a list of strings")
			}
			c.Stop, c.Fields[core.AskStop] = append(c.Stop, s), name
		}
	case "tools":
		return d.tools()
	case "tool_choice":
		return d.toolChoice()
	case "thinking":
		d.thinking()
	case "output_config":
		d.outputConfig()
	case "output_format":
		d.answerForm(name)
	case "metadata":
		d.metadata()
	case "service_tier", "speed":
		if word := d.word(); word != "auto" && word != "standard" {
			d.other(name, false)
		}
	case "mcp_servers":
		// The model was to have the client's own data by them: it cannot do without.
		if d.emptyList() {
			return nil
		}
		d.other(name, true)
	case "inference_geo":
		d.skip()
		d.other(name, true) // a promise of where the prompt goes
	default:
		d.skip()
		d.other(name, false)
	}
	return nil
}

// emptyList consumes a value and tells whether it is a list without elements.
func (d *messagesDecoder) emptyList() bool {
	raw := d.value()
	c := walk(raw)
	return c.array() && !c.element() && c.err == nil
}

// other notes a field that only this format has.
func (d *messagesDecoder) other(name string, refused bool) {
	o := core.OtherField{Name: name, Refused: refused}
	if !slices.Contains(d.out.Others, o) {
		d.out.Others = append(d.out.Others, o)
	}
}

// extra consumes a value that only decorates, which is named unless it says nothing.
func (d *messagesDecoder) extra(name string) {
	switch string(d.value()) {
	case "null", "false", `""`, "{}", "[]":
	default:
		d.other(name, false)
	}
}

// str consumes a value and gives a string with its quotes, nil for any other.
func (d *messagesDecoder) str() core.Quoted {
	d.peek()
	from := d.i
	if _, ok := d.text(); !ok {
		d.skip()
		return nil
	}
	return d.b[from:d.i]
}

// yes consumes a value and tells whether it is true.
func (d *messagesDecoder) yes() bool {
	v, ok := d.boolean()
	if !ok {
		d.skip()
	}
	return v
}

// cache consumes a cache_control: "5m", "1h" or "".
func (d *messagesDecoder) cache() string {
	if d.null() {
		return ""
	}
	ttl := "5m"
	for key := range d.given {
		if string(textOf(&d.cursor)) == "1h" && string(key) == "ttl" {
			ttl = "1h"
		}
	}
	d.out.Fields[core.AskCache] = "cache_control"
	return ttl
}

func (d *messagesDecoder) metadata() {
	for key := range d.given {
		field := "metadata." + string(key)
		if s := d.str(); s != nil && field == "metadata.user_id" {
			d.out.User, d.out.Fields[core.AskUser] = s, field
		} else {
			d.other(field, false)
		}
	}
}

// thinking consumes what is asked of the model's thinking. Adaptive thinking
// leaves it to the model, which is what other formats do unasked.
func (d *messagesDecoder) thinking() {
	var kind, display string
	var budget core.Opt[int64]
	for key := range d.given {
		switch string(key) {
		case "type":
			kind = d.word()
		case "display":
			display = d.word()
		case "budget_tokens":
			if n, ok := d.integer(); ok && n > 0 {
				budget = core.Some(n)
			}
		}
	}
	wish := &d.out.Reasoning
	switch kind {
	case "enabled":
		wish.Budget, wish.Visible = budget, core.Some(display != "omitted")
	case "disabled", "between_tools":
		wish.Effort = "none"
	case "adaptive":
		if display != "" {
			wish.Visible = core.Some(display != "omitted")
		}
	}
	d.out.Fields[core.AskReasoning] = "thinking"
}

func (d *messagesDecoder) outputConfig() {
	wish := &d.out.Reasoning
	for key := range d.given {
		field := "output_config." + string(key)
		switch string(key) {
		case "format":
			d.answerForm(field)
		case "effort":
			effort := d.word()
			if effort == "max" {
				effort = efforts[len(efforts)-1].name
			}
			if _, ok := budgetOf(effort); !ok {
				d.other(field, false)
			} else if wish.Effort != "none" { // what thinking says goes first
				wish.Effort = effort
				if d.out.Fields[core.AskReasoning] == "" {
					d.out.Fields[core.AskReasoning] = field
				}
			}
		default:
			d.skip()
			d.other(field, false)
		}
	}
}

func (d *messagesDecoder) answerForm(field string) {
	form := &d.out.Answer
	for key := range d.given {
		switch string(key) {
		case "schema":
			form.JSON, form.Schema, form.Strict = true, d.value(), core.Some(true)
		case "name":
			form.Name = d.str()
		}
	}
	d.out.Fields[core.AskAnswer] = field
}

// tools consumes the tools. Those that Anthropic runs are ones that a model can
// do without; for those that the client runs and only the provider knows the
// arguments of, another provider's model would have to guess.
func (d *messagesDecoder) tools() error {
	for i := 0; d.tool(i); i++ {
		if d.out.Tools != nil {
			d.out.Fields[core.AskTools] = "tools"
		}
	}
	return nil
}

// hostedTools are what the types of the tools that Anthropic runs begin with.
var hostedTools = []string{"web_search", "web_fetch", "code_execution", "tool_search_tool", "advisor", "mcp_toolset"}

func (d *messagesDecoder) tool(i int) bool {
	if i == 0 && !d.array() {
		d.skip()
		return false
	}
	if !d.element() {
		return false
	}
	t := core.Tool{At: "tools[" + strconv.Itoa(i) + "]"}
	var kind string
	for key := range d.given {
		switch string(key) {
		case "type":
			kind = d.word()
		case "name":
			t.Name = d.str()
		case "description":
			t.Description = d.str()
		case "input_schema":
			t.Schema = d.value()
		case "strict":
			if v, ok := d.boolean(); ok {
				t.Strict = core.Some(v)
				continue
			}
			d.skip()
		case "cache_control":
			t.Cache = d.cache()
		default: // defer_loading, input_examples, …: how, not what
			d.extra("tools[]." + string(key))
		}
	}
	switch {
	case kind == "" || kind == "custom":
		d.out.Tools = append(d.out.Tools, t)
	case slices.ContainsFunc(hostedTools, func(p string) bool { return strings.HasPrefix(kind, p) }):
		d.hosted = append(d.hosted, string(unescape(inner(t.Name))))
		d.other(t.At, false)
	default:
		d.other(t.At+".type", true)
	}
	return true
}

func (d *messagesDecoder) toolChoice() error {
	c := d.out
	var kind string
	var tool core.Quoted
	for key := range d.given {
		switch string(key) {
		case "type":
			kind = d.word()
		case "name":
			tool = d.str()
		case "disable_parallel_tool_use":
			if d.yes() {
				c.OneTool, c.Fields[core.AskOneTool] = true, "tool_choice.disable_parallel_tool_use"
			}
		}
	}
	switch kind {
	case "auto":
		c.ToolChoice.Mode = core.ChoiceAuto
	case "any":
		c.ToolChoice.Mode = core.ChoiceRequired
	case "none":
		c.ToolChoice.Mode = core.ChoiceNone
	case "tool":
		if len(tool) <= 2 {
			return core.Field("tool_choice.name", "required where the type is tool")
		}
		c.ToolChoice = core.ToolChoice{Mode: core.ChoiceNamed, Names: []core.Quoted{tool}}
	default:
		return core.Field("tool_choice.type", "must be auto, any, tool or none")
	}
	c.Fields[core.AskToolChoice] = "tool_choice"
	return nil
}

// billing begins a system text that Claude Code writes for Anthropic's accounts,
// not for the model, and that is another one in each call: any other provider's
// cache of the prompt would end before it.
const billing = "x-anthropic-billing-header:"

// messages consumes the turns.
func (d *messagesDecoder) messages() error {
	if !d.array() {
		return core.Field("messages", "must be a list of messages")
	}
	for i := 0; d.element(); i++ {
		at := "messages[" + strconv.Itoa(i) + "]"
		m := core.Message{At: at}
		var role []byte
		var err error
		for key := range d.given {
			switch {
			case string(key) == "role":
				role = textOf(&d.cursor)
			case string(key) == "content" && err == nil:
				m.Parts, err = d.content(at + ".content")
			}
		}
		if err != nil {
			return err
		}
		switch string(role) {
		case "user":
			m.Role = core.RoleUser
		case "assistant":
			m.Role = core.RoleAssistant
			for i := range m.Parts {
				fromMarkdown(&m.Parts[i])
			}
		case "system":
			m.Role = core.RoleSystem
		default:
			return core.Field(at+".role", "must be user, assistant or system")
		}
		if len(m.Parts) > 0 { // all of it was a hosted tool's
			d.out.Messages = append(d.out.Messages, m)
		}
	}
	return nil
}

// content consumes a text or a list of blocks.
func (d *messagesDecoder) content(at string) ([]core.Part, error) {
	if d.peek() == '"' {
		return []core.Part{{Kind: core.PartText, Text: d.str()}}, nil
	}
	if !d.array() {
		d.skip()
		return nil, nil
	}
	var parts []core.Part
	for j := 0; d.element(); j++ {
		b := d.block()
		if at == "system" && bytes.HasPrefix(inner(b.text), []byte(billing)) {
			d.other("x-anthropic-billing-header", false)
			continue
		}
		n := len(parts)
		var err error
		if parts, err = d.parts(parts, &b, at+"["+strconv.Itoa(j)+"]"); err != nil {
			return nil, err
		}
		if len(parts) > n && b.cache != "" {
			parts[len(parts)-1].Cache = b.cache
		}
	}
	return parts, nil
}

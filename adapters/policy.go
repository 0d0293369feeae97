package adapters

import (
	"fmt"
	"slices"
	"strings"

	"headway/core"
)

// refused are the fields whose loss would change what the answer means: where a
// target has no place for one of them the call is refused, naming it. Every
// other field only tunes or decorates: it is left out and named in
// x-headway-dropped (SPEC §13).
var refused = []core.Ask{
	core.AskChoices, core.AskStop, core.AskLogprobs, core.AskTools, core.AskToolChoice, core.AskAnswer, core.AskMaxOutput,
	core.AskMedia,
}

// refuseOrDrop is called for a field that a target cannot express, which the
// client gave: an error naming the client's field, or its name among the dropped.
// why says what the target lacks ("has no stop sequences").
func refuseOrDrop(c *core.Content, f core.Ask, dropped *[]string, why string) error {
	name := c.Fields[f]
	if name == "" {
		name = string(f)
	}
	if slices.Contains(refused, f) {
		return cannot(name, why)
	}
	drop(dropped, name)
	return nil
}

// lack is a field that a target cannot express, where the client gave it.
type lack struct {
	given bool
	field core.Ask
	why   string
}

// refuseOrDropEach is refuseOrDrop of those that the client gave.
func refuseOrDropEach(c *core.Content, dropped *[]string, lacks []lack) error {
	for _, l := range lacks {
		if l.given {
			if err := refuseOrDrop(c, l.field, dropped, l.why); err != nil {
				return err
			}
		}
	}
	return nil
}

// cannot is the error of a place of the client's request that a target has no
// form for.
func cannot(place, why string) *core.Error {
	err := core.Field(place, "cannot be sent to this model's provider, which %s", why)
	err.Code = "unsupported_field"
	err.Hint = "leave it out or ask for another model"
	return err
}

// partAt is the place of a part in the client's request. That of a tool's result
// and of a model's picture is the message's, where it is one, or the item's.
func partAt(c *core.Content, m *core.Message, i int) string {
	switch {
	case c.Format == core.FormatGoogle:
		return fmt.Sprintf("%s.parts[%d]", m.At, i)
	case m.Parts[i].Kind == core.PartToolResult && c.Format == core.FormatOpenAI:
		return m.At + ".content"
	case m.Parts[i].Kind == core.PartToolResult && c.Format == core.FormatResponses:
		return m.At + ".output"
	case m.Parts[i].Kind == core.PartImage && m.Role == core.RoleAssistant && c.Format == core.FormatOpenAI:
		return m.At + ".images"
	case m.Parts[i].Kind == core.PartImage && m.Role == core.RoleAssistant && c.Format == core.FormatResponses:
		return m.At // an item of its own, or one of the turn that began there
	}
	return fmt.Sprintf("%s.content[%d]", m.At, i)
}

// others deals with the fields that only the client's own format has. Those of
// the twins named are ones that the target has too, and are left to it.
func others(c *core.Content, dropped *[]string, twins ...string) error {
	for _, o := range c.Others {
		if o.Twin != "" && slices.Contains(twins, o.Twin) {
			continue
		}
		if o.Refused {
			return cannot(o.Name, "speaks another format that has no such thing")
		}
		drop(dropped, o.Name)
	}
	return nil
}

// twinOf is a field that OpenAI's two formats have alike, with its value where
// that is of the right kind.
func twinOf(name string, value []byte) core.OtherField {
	o := core.OtherField{Name: name}
	switch twin := strings.TrimPrefix(name, "text."); twin {
	case "verbosity", "service_tier":
		if value[0] == '"' {
			o.Twin, o.Value = twin, string(value)
		}
	case "metadata":
		if value[0] == '{' {
			o.Twin, o.Value = twin, string(value)
		}
	}
	return o
}

// twin gives the value of one of them; nil where it was not given.
func twin(c *core.Content, name string) core.JSON {
	for _, o := range c.Others {
		if o.Twin == name {
			return core.JSON(o.Value)
		}
	}
	return nil
}

// drop notes a name once.
func drop(dropped *[]string, name string) {
	if !slices.Contains(*dropped, name) {
		*dropped = append(*dropped, name)
	}
}

// efforts are the levels of reasoning and the tokens that stand for them where a
// format has the one and not the other.
var efforts = [...]struct {
	name   string
	budget int64
}{{"minimal", 1024}, {"low", 2048}, {"medium", 8192}, {"high", 24576}, {"xhigh", 32768}}

// budgetOf is the limit in tokens that stands for a level; false for none and
// for a level that is not known.
func budgetOf(effort string) (int64, bool) {
	for _, e := range efforts {
		if e.name == effort {
			return e.budget, true
		}
	}
	return 0, false
}

// effortOf is the level that a limit in tokens stands for: none for 0, the least
// that allows as much for another.
func effortOf(budget int64) string {
	if budget == 0 {
		return "none"
	}
	for _, e := range efforts {
		if budget <= e.budget {
			return e.name
		}
	}
	return efforts[len(efforts)-1].name
}

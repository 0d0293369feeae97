package adapters

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"headway/core"
)

// Writer writes chat completions, completions and embeddings.
func (Chat) Writer(job *core.Job) core.Writer { return &chatWriter{job: job} }

// chatWriter folds one answer; its other methods hold no state.
type chatWriter struct {
	job     *core.Job
	top     map[string]any
	choices map[string]*chatChoice // by index
	order   []*chatChoice
}

// chatChoice is one choice under way.
type chatChoice struct {
	fields  map[string]any // but for its message or text
	message map[string]any
	calls   []map[string]any
	text    string
}

// openAIFailure is the error object of OpenAI's formats.
type openAIFailure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// openAIErrorObject gives an error by OpenAI's own words where it has one; the
// code then says it in Headway's.
func openAIErrorObject(e *core.Error) openAIFailure {
	word := core.Kinds[e.Kind].Name
	f := openAIFailure{Message: errorText(e), Type: word}
	switch e.Kind {
	case core.TooLarge, core.Upgrade, core.WrongMethod:
		f.Type = "invalid_request_error"
	case core.Internal, core.NoOffer, core.Upstream, core.Timeout, core.Canceled, core.Unavailable:
		f.Type = "server_error"
	}
	switch {
	case e.Code != "":
		f.Code = &e.Code
	case f.Type != word || e.Kind == core.OverBudget:
		f.Code = &word
	}
	if e.Param != "" {
		f.Param = &e.Param
	}
	return f
}

// ErrorBody is {"error": {"message", "type", "param", "code"}}.
func (*chatWriter) ErrorBody(e *core.Error) []byte {
	return encode(map[string]any{"error": openAIErrorObject(e)})
}

// ErrorEvent is the same object as a chunk. No [DONE] follows it: the stream has
// not ended well.
func (w *chatWriter) ErrorEvent(e *core.Error) []byte { return chunkEvent(w.ErrorBody(e)) }

// chunkEvent writes one chunk of a stream; chat's events have no name.
func chunkEvent(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\n\n"...)
}

// ContentType is that of the shape the client asked for.
func (w *chatWriter) ContentType() string { return contentType(w.job) }

func contentType(job *core.Job) string {
	if job != nil && job.Streamed {
		return "text/event-stream; charset=utf-8"
	}
	return "application/json"
}

// Fold takes one chunk into the answer under way; what is no chunk is left out.
func (w *chatWriter) Fold(f core.Frame) {
	var chunk map[string]any
	if len(f.Data) == 0 || decode(f.Data, &chunk) != nil {
		return
	}
	if w.top == nil {
		w.top, w.choices = map[string]any{}, map[string]*chatChoice{}
	}
	choices, _ := chunk["choices"].([]any)
	delete(chunk, "choices")
	for _, c := range choices {
		if fields, ok := c.(map[string]any); ok {
			w.choice(fields)
		}
	}
	latest(w.top, chunk)
}

func (w *chatWriter) choice(fields map[string]any) {
	index, _ := fields["index"].(json.Number)
	c := w.choices[string(index)]
	if c == nil {
		c = &chatChoice{fields: map[string]any{}, message: map[string]any{}}
		w.choices[string(index)] = c
		w.order = append(w.order, c)
	}
	if delta, ok := fields["delta"].(map[string]any); ok {
		calls, _ := delta["tool_calls"].([]any)
		delete(delta, "tool_calls")
		for _, call := range calls {
			if call, ok := call.(map[string]any); ok {
				c.call(call)
			}
		}
		join(c.message, delta)
	}
	text, _ := fields["text"].(string)
	c.text += text
	if usage, ok := fields["usage"].(map[string]any); ok { // Moonshot
		w.top["usage"] = usage
	}
	for _, name := range []string{"delta", "message", "text", "usage"} { // Perplexity sends the message so far with each delta
		delete(fields, name)
	}
	if probs, ok := fields["logprobs"].(map[string]any); ok {
		had, _ := c.fields["logprobs"].(map[string]any)
		if had == nil {
			had = map[string]any{}
		}
		join(had, probs)
		fields["logprobs"] = had
	}
	latest(c.fields, fields)
}

// call joins one piece of a tool call to the call that it belongs to: that of
// its index; where servers leave the index out or give the same one to several
// whole calls, a new id with a name begins a new call.
func (c *chatChoice) call(piece map[string]any) {
	index, indexed := piece["index"].(json.Number)
	id, _ := piece["id"].(string)
	function, _ := piece["function"].(map[string]any)
	name, _ := function["name"].(string)
	var call map[string]any
	for _, had := range slices.Backward(c.calls) {
		if !indexed || had["index"] == any(index) {
			if hadID, _ := had["id"].(string); id == "" || id == hadID || hadID == "" || name == "" {
				call = had
			}
			break
		}
	}
	if call == nil {
		call = map[string]any{}
		c.calls = append(c.calls, call)
	}
	join(call, piece)
}

// wholeFields are those whose later text takes the place of the earlier, and
// textFields those whose text always goes behind it.
var (
	wholeFields = []string{"role", "id", "type", "status", "format", "signature", "object", "model", "channel"}
	textFields  = []string{"content", "reasoning", "reasoning_content", "refusal", "arguments", "input", "text", "thinking", "summary", "data", "transcript"}
)

// join adds a piece of a streamed object to what came of it before: text goes
// behind text, lists behind lists, objects into objects; of anything else the
// last that is not null stays. Text of a field that is not known goes behind
// the earlier too, unless it repeats it, as labels do.
func join(to, piece map[string]any) {
	for key, v := range piece {
		had := to[key]
		switch v := v.(type) {
		case nil:
			if had == nil {
				to[key] = nil
			}
			continue
		case string:
			if parts, ok := had.([]any); ok && v != "" { // Mistral: text behind a list of parts goes on with it
				to[key] = joinLists(parts, []any{map[string]any{"type": "text", "text": v}})
				continue
			}
			text, ok := had.(string)
			switch {
			case !ok && had != nil && v == "", ok && v == "":
				continue
			case ok && text == v && !slices.Contains(textFields, key): // so do the names of calls at some servers
				continue
			case ok && !slices.Contains(wholeFields, key):
				to[key] = text + v
				continue
			}
		case map[string]any:
			if object, ok := had.(map[string]any); ok {
				join(object, v)
				continue
			}
		case []any:
			if list, ok := had.([]any); ok {
				to[key] = joinLists(list, v)
				continue
			}
			to[key] = joinLists([]any{}, v)
			continue
		}
		to[key] = v
	}
}

// joinLists puts the parts of a streamed list behind those before. A part that
// goes on with the last one, by its index where it has one, or as text or
// thinking (Mistral), is joined to it.
func joinLists(list, more []any) []any {
	for _, v := range more {
		part, ok := v.(map[string]any)
		var last map[string]any
		if len(list) > 0 {
			last, _ = list[len(list)-1].(map[string]any)
		}
		if ok && last != nil && last["type"] == part["type"] && goesOn(last, part) {
			join(last, part)
			continue
		}
		list = append(list, v)
	}
	return list
}

func goesOn(last, part map[string]any) bool {
	if index, ok := part["index"]; ok {
		return last["index"] == index
	}
	switch part["type"] {
	case "text", "thinking":
		return true
	}
	return false
}

// latest keeps, of each field, the last value that is not null.
func latest(to, from map[string]any) {
	for key, v := range from {
		if _, had := to[key]; v != nil || !had {
			to[key] = v
		}
	}
}

// Folded is the whole answer; an error where no chunk was among the frames.
func (w *chatWriter) Folded() ([]byte, error) {
	if w.top == nil || len(w.order) == 0 {
		return nil, errors.New("the stream held no chunk with a choice")
	}
	completions := w.job != nil && w.job.Operation == core.OpCompletions
	out := maps.Clone(w.top)
	out["object"] = "chat.completion"
	if completions {
		out["object"] = "text_completion"
	}
	slices.SortStableFunc(w.order, func(a, b *chatChoice) int { return number(a.fields["index"]) - number(b.fields["index"]) })
	choices := make([]any, 0, len(w.order))
	for _, c := range w.order {
		choice := maps.Clone(c.fields)
		choice["index"] = number(choice["index"])
		if _, ok := choice["finish_reason"]; !ok {
			choice["finish_reason"] = nil
		}
		if completions {
			choice["text"] = c.text
		} else {
			choice["message"] = c.whole()
		}
		choices = append(choices, choice)
	}
	out["choices"] = choices
	return encode(out), nil
}

// whole is the message that the deltas make.
func (c *chatChoice) whole() map[string]any {
	m := maps.Clone(c.message)
	if m["role"] == nil {
		m["role"] = "assistant"
	}
	if _, ok := m["content"]; !ok {
		m["content"] = nil
	}
	if len(c.calls) > 0 {
		calls := make([]any, len(c.calls))
		for i, call := range c.calls {
			call = maps.Clone(call)
			delete(call, "index")
			if call["type"] == nil {
				call["type"] = "function"
			}
			calls[i] = call
		}
		m["tool_calls"] = calls
	}
	return m
}

func number(v any) int {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return int(i)
}

package command_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// answerText is an answer as a client of its format reads it, from a stream or
// from one JSON body.
type answerText struct {
	Text         string
	Reasoning    string
	Finish       string
	Tools        []*toolText
	Error        string // an error object, as JSON
	InStream     bool   // the error came as an event of a stream
	Events       map[string]int
	EmptyChoices int // chat chunks with an empty list of choices
}

type toolText struct {
	Index     int
	Name      string
	Arguments string
}

// sseEvent is one event of a stream, by the rules of the HTML standard.
type sseEvent struct{ name, data string }

func sseEvents(body []byte) []sseEvent {
	body = bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	body = bytes.ReplaceAll(body, []byte("\r"), []byte("\n"))
	var out []sseEvent
	for block := range bytes.SplitSeq(body, []byte("\n\n")) {
		var e sseEvent
		var data []string
		for line := range strings.SplitSeq(string(block), "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				e.name = value
			case "data":
				data = append(data, value)
			}
		}
		if e.data = strings.Join(data, "\n"); len(data) > 0 {
			out = append(out, e)
		}
	}
	return out
}

// read reads what has come so far in the client's format.
func (a *clientAnswer) read() answerText {
	out := answerText{Events: map[string]int{}}
	body, _ := a.decoded()
	format := clientFormat(a.call.Path)
	if strings.Contains(a.header.Get("Content-Type"), "event-stream") {
		for _, e := range sseEvents(body) {
			out.event(format, e)
		}
	} else {
		out.whole(format, body)
	}
	return out
}

// event reads one event of a stream.
func (t *answerText) event(format string, e sseEvent) {
	if e.data == "[DONE]" {
		t.Events["[DONE]"]++
		return
	}
	var d struct {
		Type  string
		Error json.RawMessage
	}
	if json.Unmarshal([]byte(e.data), &d) != nil {
		t.Events["(no JSON)"]++
		return
	}
	if d.Type == "" {
		d.Type = e.name
	}
	failed := len(d.Error) > 0 && string(d.Error) != "null" || d.Type == "error" || d.Type == "response.failed"
	if failed {
		t.Error, t.InStream = e.data, true
		if d.Type == "" {
			d.Type = "error"
		}
	}
	if d.Type != "" {
		t.Events[d.Type]++
	}
	switch format {
	case "openai-chat":
		t.chatChunk([]byte(e.data))
	case "anthropic-messages":
		t.messagesEvent([]byte(e.data))
	case "openai-responses":
		t.responsesEvent([]byte(e.data))
	}
}

type chatMessage struct {
	Role             *string
	Content          *string
	Reasoning        *string
	ReasoningContent *string `json:"reasoning_content"`
	ToolCalls        []struct {
		Index    *int
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (t *answerText) chatChunk(data []byte) {
	var d struct {
		Choices *[]struct {
			Delta        chatMessage
			Message      chatMessage
			FinishReason *string `json:"finish_reason"`
		}
	}
	if json.Unmarshal(data, &d) != nil || d.Choices == nil {
		return
	}
	if len(*d.Choices) == 0 {
		t.EmptyChoices++
	}
	for _, c := range *d.Choices {
		if c.Delta.Role != nil {
			t.Events["role_chunk"]++
		}
		t.chatMessage(c.Delta)
		t.chatMessage(c.Message)
		if c.FinishReason != nil {
			t.Finish = *c.FinishReason
		}
	}
}

func (t *answerText) chatMessage(m chatMessage) {
	add(&t.Text, m.Content)
	add(&t.Reasoning, m.ReasoningContent)
	add(&t.Reasoning, m.Reasoning)
	for i, c := range m.ToolCalls {
		if c.Index != nil {
			i = *c.Index
		}
		tool := t.tool(i)
		tool.Name += c.Function.Name
		tool.Arguments += c.Function.Arguments
	}
}

func add(to *string, part *string) {
	if part != nil {
		*to += *part
	}
}

// tool is the tool call with that index, made where it is new.
func (t *answerText) tool(index int) *toolText {
	i := slices.IndexFunc(t.Tools, func(c *toolText) bool { return c.Index == index })
	if i < 0 {
		i = len(t.Tools)
		t.Tools = append(t.Tools, &toolText{Index: index})
	}
	return t.Tools[i]
}

type messagesBlock struct {
	Type, Text, Thinking, Name string
	Input                      json.RawMessage
	PartialJSON                string  `json:"partial_json"`
	StopReason                 *string `json:"stop_reason"`
}

func (t *answerText) messagesEvent(data []byte) {
	var d struct {
		Type         string
		Index        int
		ContentBlock messagesBlock `json:"content_block"`
		Delta        messagesBlock
	}
	if json.Unmarshal(data, &d) != nil {
		return
	}
	switch d.Type {
	case "content_block_start":
		if d.ContentBlock.Type == "tool_use" {
			t.tool(d.Index).Name = d.ContentBlock.Name
		}
	case "content_block_delta":
		t.Text += d.Delta.Text
		t.Reasoning += d.Delta.Thinking
		if d.Delta.Type == "input_json_delta" {
			t.tool(d.Index).Arguments += d.Delta.PartialJSON
		}
	case "message_delta":
		add(&t.Finish, d.Delta.StopReason)
	}
}

type responsesItem struct {
	Type, Name, Arguments string
	Content, Summary      []struct{ Type, Text string }
}

type responsesBody struct {
	Status  string
	Details *struct{ Reason string } `json:"incomplete_details"`
	Output  []responsesItem
}

// finish is the reason of an incomplete response, else its status.
func (r responsesBody) finish() string {
	if r.Details != nil && r.Details.Reason != "" {
		return r.Details.Reason
	}
	return r.Status
}

func (t *answerText) responsesEvent(data []byte) {
	var d struct {
		Type        string
		OutputIndex int `json:"output_index"`
		Delta       string
		Item        responsesItem
		Response    responsesBody
	}
	if json.Unmarshal(data, &d) != nil {
		return
	}
	switch d.Type {
	case "response.output_text.delta":
		t.Text += d.Delta
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		t.Reasoning += d.Delta
	case "response.output_item.added":
		if d.Item.Type == "function_call" {
			t.tool(d.OutputIndex).Name = d.Item.Name
		}
	case "response.function_call_arguments.delta":
		t.tool(d.OutputIndex).Arguments += d.Delta
	case "response.completed", "response.incomplete", "response.failed":
		t.Finish = d.Response.finish()
	}
}

// whole reads an answer that is one JSON body.
func (t *answerText) whole(format string, body []byte) {
	var d struct {
		Error      json.RawMessage
		Content    []messagesBlock
		StopReason string `json:"stop_reason"`
		responsesBody
	}
	if json.Unmarshal(body, &d) != nil {
		return
	}
	if len(d.Error) > 0 && string(d.Error) != "null" {
		t.Error = string(d.Error)
		return
	}
	switch format {
	case "openai-chat":
		t.chatChunk(body)
	case "anthropic-messages":
		t.Finish = d.StopReason
		for i, b := range d.Content {
			t.Text += b.Text
			t.Reasoning += b.Thinking
			if b.Type == "tool_use" {
				*t.tool(i) = toolText{i, b.Name, string(b.Input)}
			}
		}
	case "openai-responses":
		t.Finish = d.finish()
		for i, item := range d.Output {
			for _, c := range item.Content {
				if c.Type == "output_text" {
					t.Text += c.Text
				}
			}
			for _, c := range item.Summary {
				t.Reasoning += c.Text
			}
			if item.Type == "function_call" {
				*t.tool(i) = toolText{i, item.Name, item.Arguments}
			}
		}
	}
}

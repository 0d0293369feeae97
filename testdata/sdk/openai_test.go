package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/respjson"
	oairesponses "github.com/openai/openai-go/v3/responses"
)

func (s side) openai(p *tap) *openai.Client {
	c := openai.NewClient(option.WithBaseURL(s.base+"/v1/"), option.WithAPIKey(s.key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: p}))
	return &c
}

// question is a small chat request of the tests' own.
func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("You answer in one sentence."), openai.UserMessage("What is a " + secretWord + "?"),
	}}
}

// chatCall makes a chat completion of a recording, with the recorded request
// where there is one. asked: with stream_options.include_usage.
func (s side) chatCall(ctx context.Context, r *recording, streamed, asked bool) *heard {
	params := question(s.prefix + r.name)
	var opts []option.RequestOption
	if r.request != nil {
		params = param.Override[openai.ChatCompletionNewParams](json.RawMessage(r.request))
		opts = append(opts, option.WithJSONSet("model", s.prefix+r.name), option.WithJSONDel("stream"), option.WithJSONDel("stream_options"))
	}
	if asked {
		opts = append(opts, option.WithJSONSet("stream_options.include_usage", true))
	}
	if streamed {
		return s.chatStream(ctx, params, opts...)
	}
	return s.chatWhole(ctx, params, opts...)
}

// chatStream reads a stream with the SDK's accumulator.
func (s side) chatStream(ctx context.Context, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	stream := s.openai(p).Chat.Completions.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		s.event(h, chunk.RawJSON())
		if !acc.AddChunk(chunk) && h.Refused == "" {
			h.Refused = fmt.Sprintf("the chunk %d was refused", len(h.Events)-1)
		}
		for _, c := range chunk.Choices {
			h.Reasoning += extra(c.Delta.JSON.ExtraFields, "reasoning_content", "reasoning")
		}
	}
	p.close(h, stream.Err())
	h.chat(&acc.ChatCompletion)
	return h
}

func (s side) chatWhole(ctx context.Context, params openai.ChatCompletionNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	c, err := s.openai(p).Chat.Completions.New(ctx, params, opts...)
	p.close(h, err)
	if err == nil {
		h.Events = []string{c.RawJSON()}
		for _, choice := range c.Choices {
			h.Reasoning += extra(choice.Message.JSON.ExtraFields, "reasoning_content", "reasoning")
		}
		h.chat(c)
	}
	return h
}

// chat takes what the SDK holds of a whole answer.
func (h *heard) chat(c *openai.ChatCompletion) {
	var texts, refusals, finishes []string
	for _, choice := range c.Choices {
		texts, refusals = append(texts, choice.Message.Content), append(refusals, choice.Message.Refusal)
		finishes = append(finishes, choice.FinishReason)
		for _, call := range choice.Message.ToolCalls {
			h.Tools = append(h.Tools, tool{call.Function.Name, call.Function.Arguments})
		}
	}
	h.Text, h.Refusal, h.Finish = strings.Join(texts, "|"), strings.Join(refusals, "|"), strings.Join(finishes, "|")
	u := c.Usage
	h.Usage = fmt.Sprintf("in %d out %d total %d cached %d reasoning %d", u.PromptTokens, u.CompletionTokens, u.TotalTokens,
		u.PromptTokensDetails.CachedTokens, u.CompletionTokensDetails.ReasoningTokens)
}

// extra is the longest text among fields that the SDK has no name for: some
// servers say the same under two names.
func extra(fields map[string]respjson.Field, names ...string) (longest string) {
	for _, name := range names {
		var text string
		if f, ok := fields[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}

// completionCall makes an old completion of a recording.
func (s side) completionCall(ctx context.Context, r *recording, streamed bool) *heard {
	h, p := &heard{}, &tap{}
	params := openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(s.prefix + r.name),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("A " + secretWord + " is")}}
	var opts []option.RequestOption
	if r.request != nil {
		params = param.Override[openai.CompletionNewParams](json.RawMessage(r.request))
		opts = append(opts, option.WithJSONSet("model", s.prefix+r.name), option.WithJSONDel("stream"), option.WithJSONDel("stream_options"))
	}
	add := func(c *openai.Completion) {
		s.event(h, c.RawJSON())
		for _, choice := range c.Choices {
			h.Text += choice.Text
			h.Finish += string(choice.FinishReason)
		}
		if c.JSON.Usage.Valid() {
			h.Usage = compact(c.Usage.RawJSON())
		}
	}
	if !streamed {
		c, err := s.openai(p).Completions.New(ctx, params, opts...)
		if p.close(h, err); err == nil {
			add(c)
		}
		return h
	}
	stream := s.openai(p).Completions.NewStreaming(ctx, params, append(opts, option.WithJSONSet("stream_options.include_usage", true))...)
	defer stream.Close()
	for stream.Next() {
		c := stream.Current()
		add(&c)
	}
	p.close(h, stream.Err())
	return h
}

// responseCall makes a response of a recording.
func (s side) responseCall(ctx context.Context, r *recording, streamed bool) *heard {
	params := oairesponses.ResponseNewParams{Model: s.prefix + r.name,
		Input: oairesponses.ResponseNewParamsInputUnion{OfString: openai.String("What is a " + secretWord + "?")}}
	var opts []option.RequestOption
	if r.request != nil {
		params = param.Override[oairesponses.ResponseNewParams](json.RawMessage(r.request))
		opts = append(opts, option.WithJSONSet("model", s.prefix+r.name), option.WithJSONDel("stream"))
	}
	if streamed {
		return s.responseStream(ctx, params, opts...)
	}
	return s.responseWhole(ctx, params, opts...)
}

func (s side) responseWhole(ctx context.Context, params oairesponses.ResponseNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	resp, err := s.openai(p).Responses.New(ctx, params, opts...)
	if p.close(h, err); err == nil {
		h.Events = []string{resp.RawJSON()}
		h.response(resp)
	}
	return h
}

func (s side) responseStream(ctx context.Context, params oairesponses.ResponseNewParams, opts ...option.RequestOption) *heard {
	h, p := &heard{}, &tap{}
	stream := s.openai(p).Responses.NewStreaming(ctx, params, opts...)
	defer stream.Close()
	var b builder
	for stream.Next() {
		e := stream.Current()
		s.event(h, e.RawJSON())
		if err := b.add(&e); err != nil && h.Refused == "" {
			h.Refused = err.Error()
		}
		switch e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			h.response(&e.Response)
		}
	}
	p.close(h, stream.Err())
	h.Text, h.Reasoning, h.Refusal, h.Tools = b.said()
	return h
}

// response takes what a whole response says.
func (h *heard) response(r *oairesponses.Response) {
	var final strings.Builder
	for _, item := range r.Output {
		fmt.Fprintf(&final, "%s %s %s;", item.Type, item.Name, item.Arguments.OfString)
		if item.Type == "function_call" || item.Type == "custom_tool_call" {
			h.Tools = append(h.Tools, tool{item.Name, item.Arguments.OfString + item.Input})
		}
		for _, c := range item.Content {
			fmt.Fprintf(&final, "%s %s%s;", c.Type, c.Text, c.Refusal)
			h.Refusal += c.Refusal
			if item.Type == "reasoning" {
				h.Reasoning += c.Text
			}
		}
		for _, c := range item.Summary {
			fmt.Fprintf(&final, "summary %s;", c.Text)
			h.Reasoning += c.Text
		}
	}
	h.Final, h.Text = final.String(), r.OutputText()
	h.Finish = string(r.Status)
	if r.IncompleteDetails.Reason != "" {
		h.Finish += " " + r.IncompleteDetails.Reason
	}
	u := r.Usage
	h.Usage = fmt.Sprintf("in %d out %d total %d cached %d reasoning %d", u.InputTokens, u.OutputTokens, u.TotalTokens,
		u.InputTokensDetails.CachedTokens, u.OutputTokensDetails.ReasoningTokens)
}

// builder puts a response together from its events by their indices, as OpenAI's
// stream helpers do; what they refuse it refuses. The Go SDK leaves this to its
// user.
type builder struct{ items []*built }

// built is one output item under way.
type built struct {
	kind, name, arguments string
	contents, summaries   []string
	kinds                 []string // of the contents
}

func (b *builder) add(e *oairesponses.ResponseStreamEventUnion) error {
	if e.Type == "response.output_item.added" {
		if !e.JSON.OutputIndex.Valid() || int(e.OutputIndex) != len(b.items) {
			return fmt.Errorf("an item at output_index %s behind %d", e.JSON.OutputIndex.Raw(), len(b.items))
		}
		item := &built{kind: e.Item.Type, name: e.Item.Name, arguments: e.Item.Arguments.OfString + e.Item.Input}
		for _, c := range e.Item.Content {
			item.contents, item.kinds = append(item.contents, c.Text+c.Refusal), append(item.kinds, c.Type)
		}
		for _, c := range e.Item.Summary {
			item.summaries = append(item.summaries, c.Text)
		}
		b.items = append(b.items, item)
		return nil
	}
	part := strings.HasSuffix(e.Type, "_part.added")
	if !part && !strings.HasSuffix(e.Type, ".delta") {
		return nil
	}
	if !e.JSON.OutputIndex.Valid() || int(e.OutputIndex) >= len(b.items) {
		return fmt.Errorf("missing output at index %s in %s", e.JSON.OutputIndex.Raw(), e.Type)
	}
	item := b.items[e.OutputIndex]
	list, index, at := &item.contents, e.ContentIndex, e.JSON.ContentIndex
	switch e.Type {
	case "response.content_part.added", "response.output_text.delta", "response.refusal.delta", "response.reasoning_text.delta":
	case "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta":
		list, index, at = &item.summaries, e.SummaryIndex, e.JSON.SummaryIndex
	default: // of a tool's input, code or arguments
		item.arguments += e.Delta
		return nil
	}
	if !at.Valid() {
		return fmt.Errorf("no index in %s", e.Type)
	}
	if part {
		if int(index) != len(*list) {
			return fmt.Errorf("a part at index %d behind %d", index, len(*list))
		}
		*list = append(*list, e.Part.Text+e.Part.Refusal)
		if list == &item.contents {
			item.kinds = append(item.kinds, e.Part.Type)
		}
		return nil
	}
	if int(index) >= len(*list) {
		return fmt.Errorf("missing content at index %d in %s", index, e.Type)
	}
	(*list)[index] += e.Delta
	return nil
}

// said is what the events said.
func (b *builder) said() (text, reasoning, refusal string, tools []tool) {
	for _, item := range b.items {
		for i, c := range item.contents {
			switch item.kinds[i] {
			case "output_text":
				text += c
			case "refusal":
				refusal += c
			default:
				reasoning += c
			}
		}
		reasoning += strings.Join(item.summaries, "")
		if item.kind == "function_call" || item.kind == "custom_tool_call" {
			tools = append(tools, tool{item.name, item.arguments})
		}
	}
	return text, reasoning, refusal, tools
}

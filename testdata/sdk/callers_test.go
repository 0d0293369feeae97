package sdktest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	antparam "github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	oairesponses "github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"
)

// caller is a client format with its official SDK.
type caller struct {
	api string
	// fields are the client's names of what it can ask, by the ask's names.
	fields map[string]string
	call   func(s side, ctx context.Context, model string, a *ask, streamed bool) *said
}

// callers are the four.
var callers = []*caller{
	{chat, map[string]string{"hot": "temperature", "allowed": "tool_choice", "json": "response_format", "max": "max_completion_tokens", "temperature": "temperature", "top_p": "top_p", "seed": "seed", "presence": "presence_penalty",
		"frequency": "frequency_penalty", "n": "n", "logs": "logprobs", "stop": "stop", "one tool": "parallel_tool_calls", "choice": "tool_choice",
		"schema": "response_format", "effort": "reasoning_effort", "user": "user", "later system": "messages", "document": "messages", "link": "messages", "name": "filename"}, side.askChat},
	{responses, map[string]string{"allowed": "tool_choice", "json": "text.format", "max": "max_output_tokens", "temperature": "temperature", "top_p": "top_p", "logs": "top_logprobs", "one tool": "parallel_tool_calls",
		"choice": "tool_choice", "schema": "text.format", "effort": "reasoning", "user": "safety_identifier", "later system": "input", "document": "input", "link": "input",
		"result image": "input", "name": "filename", "shown": "reasoning"}, side.askResponses},
	{messages, map[string]string{"max": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop_sequences",
		"one tool": "disable_parallel_tool_use", "choice": "tool_choice", "schema": "output_config.format", "effort": "thinking", "user": "metadata.user_id",
		"later system": "messages", "document": "messages", "link": "messages", "result image": "messages", "failed": "messages", "cache": "cache_control", "shown": "thinking"}, side.askMessages},
	{generate, map[string]string{"allowed": "toolConfig", "json": "responseMimeType", "max": "maxOutputTokens", "temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed", "presence": "presencePenalty",
		"frequency": "frequencyPenalty", "n": "candidateCount", "logs": "ogprobs", "stop": "stopSequences", "choice": "toolConfig", "schema": "responseJsonSchema",
		"effort": "thinkingConfig", "document": "contents", "link": "contents", "result image": "contents", "failed": "contents", "shown": "thinkingConfig"}, side.askGenerate},
}

// closing notes how a call ended.
func (r *said) closing(p *tap, err error) *said {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.err, r.id, r.dropped, r.attempts = err, p.header.Get("X-Request-Id"), p.header.Get("X-Headway-Dropped"), p.header.Get("X-Headway-Attempts")
	return r
}

// tell says that an event of a stream has come.
func (s side) tell(event string) {
	if s.each != nil {
		s.each(event)
	}
}

func dataURL(p part) string { return "data:" + p.media + ";base64," + p.text }

// askChat asks with OpenAI's SDK for chat completions.
func (s side) askChat(ctx context.Context, model string, a *ask, streamed bool) *said {
	p := openai.ChatCompletionNewParams{Model: model}
	for _, t := range a.turns {
		if t.own != nil {
			p.Messages = append(p.Messages, param.Override[openai.ChatCompletionMessageParamUnion](t.own.native))
			continue
		}
		p.Messages = append(p.Messages, chatTurn(t)...)
	}
	for _, f := range a.tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: f.name, Description: openai.String(f.description), Parameters: f.schema}))
	}
	switch {
	case a.allowed != nil:
		of := openai.ChatCompletionAllowedToolsParam{Mode: "required"}
		for _, name := range a.allowed {
			of.Tools = append(of.Tools, map[string]any{"type": "function", "function": map[string]any{"name": name}})
		}
		p.ToolChoice = openai.ToolChoiceOptionAllowedTools(of)
	case a.choice == "":
	case a.choice == "auto" || a.choice == "none" || a.choice == "required":
		p.ToolChoice.OfAuto = openai.String(a.choice)
	default:
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: a.choice})
	}
	if a.oneTool {
		p.ParallelToolCalls = openai.Bool(false)
	}
	if a.max > 0 {
		p.MaxCompletionTokens = openai.Int(a.max)
	}
	for name, field := range map[string]*param.Opt[float64]{"temperature": &p.Temperature, "top_p": &p.TopP, "presence": &p.PresencePenalty, "frequency": &p.FrequencyPenalty} {
		if v, ok := a.numbers[name]; ok {
			*field = openai.Float(v)
		}
	}
	if v, ok := a.numbers["seed"]; ok {
		p.Seed = openai.Int(int64(v))
	}
	if a.n > 0 {
		p.N = openai.Int(a.n)
	}
	if a.logs > 0 {
		p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(a.logs)
	}
	if a.stop != nil {
		p.Stop.OfStringArray = a.stop
	}
	if a.schema != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: a.schema, Strict: openai.Bool(true)}}
	}
	if a.json {
		p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	p.ReasoningEffort = shared.ReasoningEffort(a.effort)
	if a.user != "" {
		p.User = openai.String(a.user)
	}
	if streamed {
		return s.hearChat(ctx, p)
	}
	r, tp := &said{}, &tap{}
	c, err := s.openai(tp).Chat.Completions.New(ctx, p)
	if r.closing(tp, err); err == nil {
		m := map[string]json.RawMessage{}
		_ = json.Unmarshal([]byte(c.Choices[0].Message.RawJSON()), &m)
		r.chat(c, m)
		r.usage = chatTokens(c.Usage)
	}
	return r
}

func chatTurn(t turn) (all []openai.ChatCompletionMessageParamUnion) {
	var user []openai.ChatCompletionContentPartUnionParam
	var mine openai.ChatCompletionAssistantMessageParam
	add := func(p part) {
		switch p.kind {
		case "text":
			user = append(user, openai.TextContentPart(p.text))
		case "image":
			user = append(user, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(p)}))
		case "link":
			user = append(user, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: p.text}))
		case "document":
			user = append(user, openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{Filename: openai.String("paper.pdf"), FileData: openai.String(dataURL(p))}))
		}
	}
	for _, p := range t.parts {
		switch {
		case t.role == "system":
			return append(all, openai.SystemMessage(p.text))
		case p.kind == "call":
			mine.ToolCalls = append(mine.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: p.id,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.name, Arguments: p.args}}})
		case t.role == "assistant":
			mine.Content.OfString = openai.String(p.text)
		case p.kind == "result":
			for _, x := range p.parts {
				if x.kind == "text" {
					all = append(all, openai.ToolMessage(x.text, p.id))
				} else {
					add(x) // a tool message has text only
				}
			}
		default:
			add(p)
		}
	}
	if t.role == "assistant" {
		return append(all, openai.ChatCompletionMessageParamUnion{OfAssistant: &mine})
	}
	if len(user) == 1 && t.parts[0].kind == "text" {
		return append(all, openai.UserMessage(t.parts[0].text))
	}
	if len(user) > 0 {
		all = append(all, openai.UserMessage(user))
	}
	return all
}

// hearChat reads a stream with the SDK's accumulator, and by hand what that has
// no place for: reasoning, which users of the SDK carry in fields of its own.
func (s side) hearChat(ctx context.Context, p openai.ChatCompletionNewParams) *said {
	r, tp := &said{}, &tap{}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := s.openai(tp).Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var think string
	var details []json.RawMessage
	extras := map[int64]json.RawMessage{}
	for stream.Next() {
		c := stream.Current()
		if !acc.AddChunk(c) || c.ID == "" || c.Object != "chat.completion.chunk" || c.Created == 0 {
			r.trouble = "a chunk that is none: " + c.RawJSON()
		}
		s.tell(c.RawJSON())
		if c.JSON.Usage.Valid() {
			r.usage = chatTokens(c.Usage)
		}
		for _, choice := range c.Choices {
			if choice.Index > 0 {
				continue
			}
			think += extra(choice.Delta.JSON.ExtraFields, "reasoning_content", "reasoning")
			var more []json.RawMessage
			_ = json.Unmarshal([]byte(choice.Delta.JSON.ExtraFields["reasoning_details"].Raw()), &more)
			details = append(details, more...)
			for _, t := range choice.Delta.ToolCalls {
				if x := t.JSON.ExtraFields["extra_content"].Raw(); x != "" {
					extras[t.Index] = json.RawMessage(x)
				}
			}
		}
	}
	r.closing(tp, stream.Err())
	if len(acc.Choices) == 0 {
		return r
	}
	m := acc.Choices[0].Message
	raw := map[string]any{"role": "assistant", "content": m.Content}
	if think != "" {
		raw["reasoning_content"] = think
	}
	if details != nil {
		raw["reasoning_details"] = details
	}
	var calls []map[string]any
	for i, t := range m.ToolCalls {
		c := map[string]any{"id": t.ID, "type": "function", "function": map[string]any{"name": t.Function.Name, "arguments": t.Function.Arguments}}
		if x := extras[int64(i)]; x != nil {
			c["extra_content"] = x
		}
		calls = append(calls, c)
	}
	if calls != nil {
		raw["tool_calls"] = calls
	}
	fields := map[string]json.RawMessage{}
	for name, v := range raw {
		fields[name], _ = json.Marshal(v)
	}
	r.chat(&acc.ChatCompletion, fields)
	return r
}

// chat takes a whole answer, and its first message as it stands.
func (r *said) chat(c *openai.ChatCompletion, message map[string]json.RawMessage) {
	var texts []string
	for _, choice := range c.Choices {
		texts = append(texts, choice.Message.Content)
	}
	first := c.Choices[0]
	r.text, r.refusal, r.model = strings.Join(texts, "|"), first.Message.Refusal, c.Model
	_ = json.Unmarshal(message["reasoning_content"], &r.reasoning)
	for _, t := range first.Message.ToolCalls {
		r.calls = append(r.calls, call{t.ID, t.Function.Name, t.Function.Arguments})
	}
	r.finish = back(chatFinish, first.FinishReason)
	r.native, _ = json.Marshal(message)
	r.native = json.RawMessage(r.native.([]byte))
}

// back is the neutral word for a client's, or the client's own.
func back(words map[string]string, word string) string {
	for _, neutral := range slices.Sorted(maps.Keys(words)) {
		if words[neutral] == word && neutral != "refusal" {
			return neutral
		}
	}
	return "finish " + word
}

func chatTokens(u openai.CompletionUsage) tokens {
	return tokens{u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens, 0, u.TotalTokens - u.PromptTokens, u.CompletionTokensDetails.ReasoningTokens}
}

// askResponses asks with OpenAI's SDK for Responses.
func (s side) askResponses(ctx context.Context, model string, a *ask, streamed bool) *said {
	p := oairesponses.ResponseNewParams{Model: model, Store: openai.Bool(false)}
	if a.max > 0 {
		p.MaxOutputTokens = openai.Int(a.max)
	}
	var input oairesponses.ResponseInputParam
	for i, t := range a.turns {
		switch {
		case t.own != nil:
			for _, raw := range t.own.native.([]json.RawMessage) {
				input = append(input, param.Override[oairesponses.ResponseInputItemUnionParam](raw))
			}
		case i == 0 && t.role == "system":
			p.Instructions = openai.String(t.parts[0].text)
		default:
			input = append(input, responseTurn(t)...)
		}
	}
	p.Input.OfInputItemList = input
	for _, f := range a.tools {
		p.Tools = append(p.Tools, oairesponses.ToolUnionParam{OfFunction: &oairesponses.FunctionToolParam{Name: f.name, Description: openai.String(f.description), Parameters: f.schema, Strict: openai.Bool(false)}})
	}
	switch {
	case a.allowed != nil:
		of := &oairesponses.ToolChoiceAllowedParam{Mode: "required"}
		for _, name := range a.allowed {
			of.Tools = append(of.Tools, map[string]any{"type": "function", "name": name})
		}
		p.ToolChoice.OfAllowedTools = of
	case a.choice == "":
	case a.choice == "auto" || a.choice == "none" || a.choice == "required":
		p.ToolChoice.OfToolChoiceMode = openai.Opt(oairesponses.ToolChoiceOptions(a.choice))
	default:
		p.ToolChoice.OfFunctionTool = &oairesponses.ToolChoiceFunctionParam{Name: a.choice}
	}
	if a.oneTool {
		p.ParallelToolCalls = openai.Bool(false)
	}
	for name, field := range map[string]*param.Opt[float64]{"temperature": &p.Temperature, "top_p": &p.TopP} {
		if v, ok := a.numbers[name]; ok {
			*field = openai.Float(v)
		}
	}
	if a.logs > 0 {
		p.TopLogprobs = openai.Int(a.logs)
	}
	if a.schema != nil {
		p.Text.Format.OfJSONSchema = &oairesponses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Schema: a.schema, Strict: openai.Bool(true)}
	}
	if a.json {
		p.Text.Format.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	if a.effort != "" {
		p.Reasoning.Effort = shared.ReasoningEffort(a.effort)
	}
	if a.effort != "" && a.effort != "none" {
		p.Reasoning.Summary = shared.ReasoningSummaryAuto
		p.Include = []oairesponses.ResponseIncludable{oairesponses.ResponseIncludableReasoningEncryptedContent}
	}
	if a.user != "" {
		p.SafetyIdentifier = openai.String(a.user)
	}
	r, tp := &said{}, &tap{}
	if !streamed {
		resp, err := s.openai(tp).Responses.New(ctx, p)
		if r.closing(tp, err); err == nil {
			r.response(resp)
		}
		return r
	}
	stream := s.openai(tp).Responses.NewStreaming(ctx, p)
	defer stream.Close()
	var b builder
	next := int64(0)
	for stream.Next() {
		e := stream.Current()
		if err := b.add(&e); err != nil {
			r.trouble = err.Error()
		}
		if e.SequenceNumber != next {
			r.trouble = fmt.Sprintf("event %d has the number %d", next, e.SequenceNumber)
		}
		next++
		s.tell(e.RawJSON())
		if e.Type == "response.completed" || e.Type == "response.incomplete" {
			r.response(&e.Response)
		}
	}
	r.closing(tp, stream.Err())
	text, reasoning, refusal, calls := b.said()
	r.events = &said{text: text, reasoning: reasoning, refusal: refusal}
	if r.native == nil {
		r.text = text
	} else if text != r.text || reasoning != r.reasoning || refusal != r.refusal || len(calls) != len(r.calls) {
		r.trouble = fmt.Sprintf("the events say %q %q %q %v, the end %q %q %q %v", text, reasoning, refusal, calls, r.text, r.reasoning, r.refusal, r.calls)
	}
	return r
}

func responseTurn(t turn) (all oairesponses.ResponseInputParam) {
	var content, inner []map[string]any
	piece := func(p part) map[string]any {
		switch p.kind {
		case "image":
			return map[string]any{"type": "input_image", "detail": "auto", "image_url": dataURL(p)}
		case "link":
			return map[string]any{"type": "input_image", "detail": "auto", "image_url": p.text}
		case "document":
			return map[string]any{"type": "input_file", "filename": "paper.pdf", "file_data": dataURL(p)}
		}
		return map[string]any{"type": "input_text", "text": p.text}
	}
	item := func(v any) {
		all = append(all, param.Override[oairesponses.ResponseInputItemUnionParam](v))
	}
	for _, p := range t.parts {
		switch {
		case p.kind == "call":
			all = append(all, oairesponses.ResponseInputItemParamOfFunctionCall(p.args, p.id, p.name))
		case p.kind == "result" && len(p.parts) == 1:
			all = append(all, responseResult(p.id, p.parts[0].text))
		case p.kind == "result":
			inner = nil
			for _, x := range p.parts {
				inner = append(inner, piece(x))
			}
			item(map[string]any{"type": "function_call_output", "call_id": p.id, "output": inner})
		case t.role == "assistant":
			all = append(all, oairesponses.ResponseInputItemParamOfMessage(p.text, "assistant"))
		default:
			content = append(content, piece(p))
		}
	}
	switch {
	case len(content) == 1 && content[0]["text"] != nil:
		role := map[string]oairesponses.EasyInputMessageRole{"system": "developer"}[t.role]
		if role == "" {
			role = oairesponses.EasyInputMessageRole(t.role)
		}
		all = append(all, oairesponses.ResponseInputItemParamOfMessage(content[0]["text"].(string), role))
	case content != nil:
		item(map[string]any{"type": "message", "role": t.role, "content": content})
	}
	return all
}

func (r *said) response(resp *oairesponses.Response) {
	raw := []json.RawMessage{}
	for _, item := range resp.Output {
		raw = append(raw, json.RawMessage(item.RawJSON()))
		switch item.Type {
		case "reasoning":
			for _, x := range item.Summary {
				r.reasoning += x.Text
			}
		case "function_call":
			r.calls = append(r.calls, call{item.CallID, item.Name, item.Arguments.OfString})
		case "custom_tool_call":
			r.calls = append(r.calls, call{item.CallID, item.Name, quoteJSON(map[string]string{"input": item.Input})})
		}
		for _, c := range item.Content {
			r.refusal += c.Refusal
			if item.Type == "reasoning" {
				r.reasoning += c.Text
			}
		}
	}
	r.text, r.native, r.model = resp.OutputText(), raw, resp.Model
	r.finish = map[string]string{"completed": "stop", "max_output_tokens": "length", "content_filter": "filter"}[resp.IncompleteDetails.Reason+map[bool]string{true: string(resp.Status)}[resp.IncompleteDetails.Reason == ""]]
	if r.finish == "stop" && len(r.calls) > 0 {
		r.finish = "tools"
	}
	u := resp.Usage
	r.usage = tokens{u.InputTokens, u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens, 0, u.TotalTokens - u.InputTokens, u.OutputTokensDetails.ReasoningTokens}
}

// askMessages asks with Anthropic's SDK.
func (s side) askMessages(ctx context.Context, model string, a *ask, streamed bool) *said {
	p := anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: a.max}
	for i, t := range a.turns {
		switch {
		case t.own != nil:
			p.Messages = append(p.Messages, t.own.native.(anthropic.MessageParam))
		case i == 0 && t.role == "system":
			p.System = []anthropic.TextBlockParam{{Text: t.parts[0].text, CacheControl: cacheControl(t.parts[0])}}
		default:
			var blocks []anthropic.ContentBlockParamUnion
			for _, x := range t.parts {
				blocks = append(blocks, messageBlock(x))
			}
			p.Messages = append(p.Messages, anthropic.MessageParam{Role: anthropic.MessageParamRole(t.role), Content: blocks})
		}
	}
	for _, f := range a.tools {
		schema := anthropic.ToolInputSchemaParam{ExtraFields: map[string]any{}}
		for name, v := range f.schema {
			if name != "type" {
				schema.ExtraFields[name] = v
			}
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{Name: f.name, Description: anthropic.String(f.description), InputSchema: schema}})
	}
	var one antparam.Opt[bool]
	if a.oneTool {
		one = anthropic.Bool(true)
	}
	switch a.choice {
	case "":
		if a.oneTool {
			p.ToolChoice.OfAuto = &anthropic.ToolChoiceAutoParam{DisableParallelToolUse: one}
		}
	case "auto":
		p.ToolChoice.OfAuto = &anthropic.ToolChoiceAutoParam{DisableParallelToolUse: one}
	case "none":
		p.ToolChoice.OfNone = &anthropic.ToolChoiceNoneParam{}
	case "required":
		p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{DisableParallelToolUse: one}
	default:
		p.ToolChoice.OfTool = &anthropic.ToolChoiceToolParam{Name: a.choice, DisableParallelToolUse: one}
	}
	for name, field := range map[string]*antparam.Opt[float64]{"temperature": &p.Temperature, "top_p": &p.TopP} {
		if v, ok := a.numbers[name]; ok {
			*field = anthropic.Float(v)
		}
	}
	if v, ok := a.numbers["top_k"]; ok {
		p.TopK = anthropic.Int(int64(v))
	}
	p.StopSequences = a.stop
	if a.schema != nil {
		p.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: a.schema}
	}
	if a.effort == "none" {
		p.Thinking = anthropic.ThinkingConfigParamUnion{OfDisabled: &anthropic.ThinkingConfigDisabledParam{}}
	} else if a.effort != "" {
		for limit, effort := range efforts {
			if effort == a.effort {
				budget, _ := strconv.ParseInt(limit, 10, 64)
				p.Thinking = anthropic.ThinkingConfigParamOfEnabled(budget)
			}
		}
	}
	if a.user != "" {
		p.Metadata.UserID = anthropic.String(a.user)
	}
	r, tp := &said{}, &tap{}
	if !streamed {
		m, err := s.anthropic(tp).Messages.New(ctx, p)
		if r.closing(tp, err); err == nil {
			r.message(m)
		}
		return r
	}
	stream := s.anthropic(tp).Messages.NewStreaming(ctx, p)
	defer stream.Close()
	var m anthropic.Message
	open := int64(-1)
	for stream.Next() {
		e := stream.Current()
		if err := m.Accumulate(e); err != nil {
			r.trouble = err.Error()
		}
		s.tell(e.RawJSON())
		switch e.Type { // one block at a time, each opened and closed once
		case "content_block_start":
			if open >= 0 || e.Index != int64(len(m.Content)-1) {
				r.trouble = fmt.Sprintf("block %d opens while %d is open", e.Index, open)
			}
			open = e.Index
		case "content_block_delta", "content_block_stop":
			if open != e.Index {
				r.trouble = fmt.Sprintf("%s of block %d while %d is open", e.Type, e.Index, open)
			}
			if e.Type == "content_block_stop" {
				open = -1
			}
		}
	}
	r.closing(tp, stream.Err())
	r.message(&m)
	return r
}

func cacheControl(p part) (c anthropic.CacheControlEphemeralParam) {
	if p.cache != "" {
		c = anthropic.NewCacheControlEphemeralParam()
		c.TTL = anthropic.CacheControlEphemeralTTL(p.cache)
	}
	return c
}

func messageBlock(p part) anthropic.ContentBlockParamUnion {
	switch p.kind {
	case "image":
		return anthropic.NewImageBlockBase64(p.media, p.text)
	case "link":
		return anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: p.text})
	case "document":
		return anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: p.text})
	case "call":
		return anthropic.NewToolUseBlock(p.id, json.RawMessage(p.args), p.name)
	case "result":
		b := anthropic.ToolResultBlockParam{ToolUseID: p.id}
		if p.failed {
			b.IsError = anthropic.Bool(true)
		}
		for _, x := range p.parts {
			inner := messageBlock(x)
			b.Content = append(b.Content, anthropic.ToolResultBlockParamContentUnion{OfText: inner.OfText, OfImage: inner.OfImage})
		}
		return anthropic.ContentBlockParamUnion{OfToolResult: &b}
	}
	return anthropic.ContentBlockParamUnion{OfText: &anthropic.TextBlockParam{Text: p.text, CacheControl: cacheControl(p)}}
}

func (r *said) message(m *anthropic.Message) {
	for _, b := range m.Content {
		r.text += b.Text
		r.reasoning += b.Thinking
		if b.Type == "tool_use" {
			r.calls = append(r.calls, call{b.ID, b.Name, string(b.Input)})
		}
	}
	r.finish = back(map[string]string{"stop": "end_turn", "tools": "tool_use", "length": "max_tokens"}, string(m.StopReason))
	switch m.StopReason {
	case anthropic.StopReasonRefusal:
		r.finish = "refusal"
	case anthropic.StopReasonStopSequence:
		r.finish = "stop"
	case anthropic.StopReasonPauseTurn:
		r.finish = "pause"
	}
	r.native, r.model = m.ToParam(), string(m.Model)
	u := m.Usage
	r.usage = tokens{u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.CacheCreation.Ephemeral1hInputTokens,
		u.OutputTokens, u.OutputTokensDetails.ThinkingTokens}
}

// askGenerate asks with Google's SDK.
func (s side) askGenerate(ctx context.Context, model string, a *ask, streamed bool) *said {
	config := &genai.GenerateContentConfig{MaxOutputTokens: int32(a.max), StopSequences: a.stop, CandidateCount: int32(a.n)}
	var contents []*genai.Content
	names := map[string]string{}
	for _, t := range a.turns {
		if t.own != nil {
			contents = append(contents, t.own.native.(*genai.Content))
			for _, c := range t.own.calls {
				names[c.id] = c.name
			}
			continue
		}
		if t.role == "system" {
			config.SystemInstruction = genai.NewContentFromText(t.parts[0].text, genai.RoleUser)
			continue
		}
		c := &genai.Content{Role: map[string]string{"assistant": "model", "user": "user"}[t.role]}
		for _, p := range t.parts {
			if p.kind == "call" {
				names[p.id] = p.name
			}
			c.Parts = append(c.Parts, googlePart(p, names, a.turns))
		}
		contents = append(contents, c)
	}
	var tools []*genai.FunctionDeclaration
	for _, f := range a.tools {
		tools = append(tools, &genai.FunctionDeclaration{Name: f.name, Description: f.description, ParametersJsonSchema: f.schema})
	}
	if tools != nil {
		config.Tools = []*genai.Tool{{FunctionDeclarations: tools}}
	}
	if a.choice != "" {
		c := &genai.FunctionCallingConfig{Mode: map[string]genai.FunctionCallingConfigMode{"auto": "AUTO", "none": "NONE", "required": "ANY"}[a.choice]}
		if c.Mode == "" {
			c.Mode, c.AllowedFunctionNames = "ANY", []string{a.choice}
		}
		config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: c}
	}
	if a.allowed != nil {
		config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: "ANY", AllowedFunctionNames: a.allowed}}
	}
	for name, field := range map[string]**float32{"temperature": &config.Temperature, "top_p": &config.TopP, "top_k": &config.TopK, "presence": &config.PresencePenalty, "frequency": &config.FrequencyPenalty} {
		if v, ok := a.numbers[name]; ok {
			*field = genai.Ptr(float32(v))
		}
	}
	if v, ok := a.numbers["seed"]; ok {
		config.Seed = genai.Ptr(int32(v))
	}
	if a.logs > 0 {
		config.ResponseLogprobs, config.Logprobs = true, genai.Ptr(int32(a.logs))
	}
	if a.schema != nil {
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", a.schema
	}
	if a.json {
		config.ResponseMIMEType = "application/json"
	}
	for limit, effort := range efforts {
		if effort == a.effort {
			budget, _ := strconv.Atoi(limit)
			config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: budget > 0, ThinkingBudget: genai.Ptr(int32(budget))}
		}
	}
	r, tp := &said{}, &tap{}
	client, err := s.genai(ctx, tp)
	if err != nil {
		return &said{err: err}
	}
	g := &generated{texts: map[int32]string{}, content: &genai.Content{Role: genai.RoleModel}}
	if streamed {
		for resp, e := range client.Models.GenerateContentStream(ctx, model, contents, config) {
			if err = e; err != nil {
				break
			}
			g.add(r, resp)
			s.tell(quoteJSON(resp.Candidates))
		}
	} else {
		var resp *genai.GenerateContentResponse
		if resp, err = client.Models.GenerateContent(ctx, model, contents, config); err == nil {
			g.add(r, resp)
		}
	}
	r.closing(tp, err)
	for _, i := range slices.Sorted(maps.Keys(g.texts)) {
		r.text += map[bool]string{true: "|"}[i > 0] + g.texts[i]
	}
	r.finish, r.native = map[genai.FinishReason]string{"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "filter", "RECITATION": "filter", "PROHIBITED_CONTENT": "filter", "OTHER": "filter"}[g.finish], g.content
	if r.finish == "" {
		r.finish = "finish " + string(g.finish)
	}
	if r.finish == "stop" && len(r.calls) > 0 {
		r.finish = "tools"
	}
	return r
}

// generated puts Google's responses together.
type generated struct {
	texts   map[int32]string
	content *genai.Content
	finish  genai.FinishReason
	open    bool // a call's arguments go on
	args    any
}

func (g *generated) add(r *said, resp *genai.GenerateContentResponse) {
	r.model = resp.ModelVersion
	if u := resp.UsageMetadata; u != nil {
		out := u.TotalTokenCount - u.PromptTokenCount
		if u.TotalTokenCount == 0 { // unknown, as the input is
			out = u.CandidatesTokenCount + u.ThoughtsTokenCount
		}
		r.usage = tokens{int64(u.PromptTokenCount), int64(u.CachedContentTokenCount), 0, 0, int64(out), int64(u.ThoughtsTokenCount)}
		if out != u.CandidatesTokenCount+u.ThoughtsTokenCount {
			r.trouble = fmt.Sprintf("%d tokens in all, %d in, %d out, %d of thoughts", u.TotalTokenCount, u.PromptTokenCount, u.CandidatesTokenCount, u.ThoughtsTokenCount)
		}
	}
	if f := resp.PromptFeedback; f != nil && f.BlockReason != "" {
		g.finish = genai.FinishReason(f.BlockReason)
	}
	for _, c := range resp.Candidates {
		if c.Index == 0 && c.FinishReason != "" {
			g.finish = c.FinishReason
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if c.Index == 0 {
				g.content.Parts = append(g.content.Parts, p)
			}
			switch {
			case p.FunctionCall != nil:
				g.call(r, p.FunctionCall)
			case p.Thought:
				r.reasoning += p.Text
			default:
				g.texts[c.Index] += p.Text
			}
		}
	}
}

// call takes a call of a tool, whose arguments may come in pieces (of Vertex
// alone, and never from Headway).
func (g *generated) call(r *said, f *genai.FunctionCall) {
	if !g.open {
		r.calls = append(r.calls, call{f.ID, f.Name, argsOf(f.Args)})
		g.args = nil
	}
	for _, p := range f.PartialArgs {
		value := any(p.StringValue)
		if p.NumberValue != nil {
			value = *p.NumberValue
		}
		g.args = put(g.args, strings.FieldsFunc(p.JsonPath, func(c rune) bool { return strings.ContainsRune("$.[]'\"", c) }), value)
		r.calls[len(r.calls)-1].args = quoteJSON(g.args)
	}
	g.open = f.WillContinue != nil && *f.WillContinue
}

// put sets the value at a path, or appends a piece of text to it.
func put(at any, path []string, value any) any {
	if len(path) == 0 {
		if before, ok := at.(string); ok {
			return before + fmt.Sprint(value)
		}
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		list, _ := at.([]any)
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = put(list[i], path[1:], value)
		return list
	}
	m, _ := at.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m[path[0]] = put(m[path[0]], path[1:], value)
	return m
}

// googlePart is a part in the SDK's words. History that a client made up itself
// has no ids, as Google's own clients had none for long; what came in an answer
// has the answer's.
func googlePart(p part, names map[string]string, turns []turn) *genai.Part {
	switch p.kind {
	case "image", "document":
		data, _ := base64.StdEncoding.DecodeString(p.text)
		return genai.NewPartFromBytes(data, p.media)
	case "link":
		return genai.NewPartFromURI(p.text, p.media)
	case "call":
		var args map[string]any
		_ = json.Unmarshal([]byte(p.args), &args)
		return genai.NewPartFromFunctionCall(p.name, args)
	case "result":
		f := &genai.FunctionResponse{Name: p.name, Response: map[string]any{}}
		if f.Name == "" {
			f.Name = names[p.id]
		}
		for _, t := range turns {
			if t.own == nil {
				continue
			}
			for _, c := range t.own.calls {
				if c.id == p.id {
					f.ID = p.id
				}
			}
		}
		for _, x := range p.parts {
			if x.kind == "image" {
				data, _ := base64.StdEncoding.DecodeString(x.text)
				f.Parts = append(f.Parts, genai.NewFunctionResponsePartFromBytes(data, x.media))
			} else {
				f.Response[map[bool]string{true: "error", false: "output"}[p.failed]] = x.text
			}
		}
		return &genai.Part{FunctionResponse: f}
	}
	return genai.NewPartFromText(p.text)
}

// raised is an SDK's error: its status, its format's word for it, what it says.
func raised(err error) (status int, word, says string) {
	says = errorText(err)
	return statusOf(err), strings.Fields(says + " ? ?")[2], says
}

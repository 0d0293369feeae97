package adapters

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"headway/core"
)

// Chat speaks OpenAI's chat completions, and by their paths the old completions
// and embeddings. Servers that are compatible with them speak it too: what
// differs is read from their answers, or named by a provider's dialect.
type Chat struct{}

// Format is openai; llama-server's format is the same on the wire.
func (Chat) Format() core.Format { return core.FormatOpenAI }

// chatFields are the top-level fields that Parse looks at; no other may differ
// from one of them in letter case alone, and none may come twice.
var chatFields = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "tools", "functions", "response_format",
	"modalities", "temperature", "top_p", "presence_penalty", "frequency_penalty", "stop", "prompt", "best_of", "input",
}

// chatRequest is what Parse gathers of a body.
type chatRequest struct {
	request
	seen         uint32 // bits of chatFields
	options      bool   // stream_options holds an object
	tokens       core.Opt[int64]
	completion   core.Opt[int64]
	n, bestOf    core.Opt[int64]
	prompts      int64
	messageCount int
}

// Parse reads a request by the rules of OpenAI's reference. What it does not
// know it leaves to the provider. Errors are Invalid and name the field;
// NotFound for a path of another API.
func (Chat) Parse(head core.RequestHead, body []byte) (*core.Job, error) {
	job := &core.Job{Format: core.FormatOpenAI, Operation: chatOperation(head.Path), Body: body}
	if job.Operation == "" {
		return nil, core.Errorf(core.NotFound, "path %s: not one of the OpenAI API served here", head.Path)
	}
	r := chatRequest{request: request{cursor: walk(body), job: job}}
	if err := r.read(); err != nil {
		return nil, err
	}
	return job, nil
}

func chatOperation(path string) core.Operation {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return core.OpGenerate
	case strings.HasSuffix(path, "/completions"):
		return core.OpCompletions
	case strings.HasSuffix(path, "/embeddings"):
		return core.OpEmbeddings
	}
	return ""
}

func (r *chatRequest) read() *core.Error {
	if !r.object() {
		return r.wrong("body", "must be a JSON object")
	}
	r.job.Edits.Open = r.i
	for {
		key, ok := r.key()
		if !ok {
			break
		}
		i := slices.Index(chatFields, string(key))
		if i < 0 {
			if name := misspelt(key, chatFields); name != "" {
				return core.Field(name, "must be spelt so, not %q", key)
			}
			r.skip()
			continue
		}
		if r.seen&(1<<i) != 0 {
			return core.Field(chatFields[i], "given twice")
		}
		r.seen |= 1 << i
		if err := r.field(chatFields[i]); err != nil {
			return err
		}
	}
	if err := r.finish(); err != nil {
		return err
	}
	return r.check()
}

// field consumes the value of one known field.
func (r *chatRequest) field(name string) (err *core.Error) {
	op := r.job.Operation
	switch {
	case name == "model":
		return r.name()
	case name == "input" && op == core.OpEmbeddings:
		r.prompts, err = r.texts(name)
		return err
	case op == core.OpEmbeddings:
		r.skip() // the rest is not for embeddings
		return nil
	case name == "prompt" && op == core.OpCompletions:
		r.prompts, err = r.texts(name)
		return err
	case name == "best_of" && op == core.OpCompletions:
		r.bestOf, err = r.answers(name)
		return err
	case name == "messages" && op == core.OpGenerate:
		return r.messages()
	}
	switch name {
	case "stream":
		r.job.Streamed, err = r.flag(name)
	case "stream_options":
		err = r.streamOptions()
	case "max_tokens":
		least := int64(1)
		if op == core.OpCompletions {
			least = 0 // with echo and logprobs it scores the prompt
		}
		r.tokens, err = r.count(name, least)
	case "max_completion_tokens":
		r.completion, err = r.count(name, 1)
	case "n":
		r.n, err = r.answers(name)
	case "temperature", "top_p", "presence_penalty", "frequency_penalty":
		err = r.real(name)
	case "stop":
		err = r.stop()
	case "tools", "functions":
		err = r.tools(name)
	case "response_format":
		err = r.format(name)
	case "modalities":
		err = r.modalities()
	default:
		r.skip()
	}
	return err
}

// check looks at the fields together.
func (r *chatRequest) check() *core.Error {
	job := r.job
	required := "messages"
	switch job.Operation {
	case core.OpCompletions:
		required = "prompt"
	case core.OpEmbeddings:
		required = "input"
	}
	for i, name := range chatFields {
		if (name == "model" || name == required) && r.seen&(1<<i) == 0 {
			return core.Field(name, "required")
		}
	}
	if r.options && !job.Streamed {
		return core.Field("stream_options", "only allowed where stream is true")
	}
	if r.tokens.OK && r.completion.OK && r.tokens != r.completion {
		return core.Field("max_tokens", "differs from max_completion_tokens: give one of them")
	}
	job.MaxOutput = r.tokens
	if r.completion.OK {
		job.MaxOutput = r.completion
	}
	if r.bestOf.OK && r.bestOf.V < r.n.Or(1) {
		return core.Field("best_of", "must be at least n")
	}
	if job.Operation.Generates() {
		job.Choices = max(r.prompts, 1) * max(r.n.Or(1), r.bestOf.Or(1))
	}
	return nil
}

// maxAnswers is the most answers that one prompt may be given, as at OpenAI.
const maxAnswers = 128

func (r *chatRequest) answers(field string) (core.Opt[int64], *core.Error) {
	n, err := r.count(field, 1)
	if n.V > maxAnswers {
		return n, core.Field(field, "must be at most %d", maxAnswers)
	}
	return n, err
}

func (r *chatRequest) streamOptions() *core.Error {
	r.peek()
	from := r.i
	if r.null() {
		r.job.Edits.StreamOptions = core.Span{From: from, To: r.i}
		return nil
	}
	if !r.object() {
		return r.wrong("stream_options", "must be an object")
	}
	r.options = true
	for {
		key, ok := r.key()
		if !ok {
			break
		}
		if string(key) != "include_usage" {
			if misspelt(key, []string{"include_usage"}) != "" {
				return core.Field("stream_options.include_usage", "must be spelt so, not %q", key)
			}
			r.skip()
			continue
		}
		if r.job.Edits.IncludeUsage.Present() {
			return core.Field("stream_options.include_usage", "given twice")
		}
		r.peek()
		at := r.i
		asked, err := r.flag("stream_options.include_usage")
		if err != nil {
			return err
		}
		r.job.AskedUsage = asked
		r.job.Edits.IncludeUsage = core.Span{From: at, To: r.i}
	}
	r.job.Edits.StreamOptions = core.Span{From: from, To: r.i}
	return nil
}

// messages consumes the list of messages.
func (r *chatRequest) messages() *core.Error {
	if !r.array() {
		return r.wrong("messages", "must be a list of messages")
	}
	for i := 0; r.element(); i++ {
		if !r.object() {
			return r.wrong(fmt.Sprintf("messages[%d]", i), "must be an object")
		}
		if err := r.message(i); err != nil {
			return err
		}
		r.messageCount++
	}
	if r.messageCount == 0 {
		return r.wrong("messages", "must hold at least one message")
	}
	return nil
}

func (r *chatRequest) message(i int) *core.Error {
	var role []byte
	var said, other bool // it has content, or something in its place
	for {
		key, ok := r.key()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			raw, ok := r.text()
			if !ok || len(raw) == 0 {
				return r.wrong(fmt.Sprintf("messages[%d].role", i), "must be a string that is not empty")
			}
			role = raw
			r.job.PromptBytes += len(raw)
		case "content":
			if r.null() {
				continue
			}
			said = true
			if err := r.content(i); err != nil {
				return err
			}
		case "tool_calls":
			if r.null() {
				continue
			}
			if r.peek() != '[' {
				return r.wrong(fmt.Sprintf("messages[%d].tool_calls", i), "must be a list")
			}
			r.raw()
			other = true
		case "name", "refusal", "reasoning", "reasoning_content":
			other = other || r.peek() == '"' && string(key) != "name"
			r.prose()
		case "function_call":
			r.raw()
			other = true
		case "audio":
			other = other || r.peek() == '{'
			r.skip()
		default:
			r.skip()
		}
	}
	switch string(role) {
	case "":
		return r.wrong(fmt.Sprintf("messages[%d].role", i), "required")
	case "user", "system", "developer", "tool":
		if !said {
			return r.wrong(fmt.Sprintf("messages[%d].content", i), "required")
		}
	case "assistant":
		if !said && !other {
			return r.wrong(fmt.Sprintf("messages[%d].content", i), "required where the message has no tool_calls")
		}
	}
	return nil
}

// content consumes a message's text or list of parts.
func (r *chatRequest) content(i int) *core.Error {
	if raw, ok := r.text(); ok {
		r.job.PromptBytes += textLen(raw)
		return nil
	}
	if !r.array() {
		return r.wrong(fmt.Sprintf("messages[%d].content", i), "must be a string or a list of parts")
	}
	for j := 0; r.element(); j++ {
		if !r.object() {
			return r.wrong(fmt.Sprintf("messages[%d].content[%d]", i, j), "must be an object")
		}
		if field, must := r.part(); field != "" {
			return r.wrong(fmt.Sprintf("messages[%d].content[%d].%s", i, j, field), must)
		}
	}
	return nil
}

// part consumes one part of a message, whose brace is behind it, and gives the
// field at fault. Responses has the same parts with other types.
func (r *request) part() (field, must string) {
	var kind []byte
	var text bool
	for {
		key, ok := r.key()
		if !ok {
			break
		}
		switch string(key) {
		case "type":
			if kind, ok = r.text(); !ok {
				return "type", "must be a string"
			}
			r.job.Features |= partFeature(string(kind))
		case "text":
			raw, ok := r.text()
			if !ok {
				return "text", "must be a string"
			}
			text = true
			r.job.PromptBytes += textLen(raw)
		case "refusal":
			r.prose()
		case "image_url", "input_audio", "file", "video_url", "image", "file_id", "file_data", "file_url":
			if !r.null() {
				r.skip()
				r.job.PromptBytes += mediaBytes
			}
		default:
			r.skip()
		}
	}
	switch {
	case r.err != nil || len(kind) == 0:
		return "type", "required"
	case bytes.HasSuffix(kind, []byte("text")) && !text: // input_text and output_text too
		return "text", "required"
	}
	return "", ""
}

// partFeature is what a part of that type asks of an offer; chat completions and
// Responses have the same idea under several names.
func partFeature(kind string) core.Feature {
	switch kind {
	case "image_url", "input_image", "image", "computer_screenshot":
		return core.FeatureImages
	case "input_audio", "audio":
		return core.FeatureAudio
	case "file", "input_file", "document":
		return core.FeatureDocuments
	}
	return 0
}

// texts consumes what the old completions and embeddings take: a text, a list of
// texts, a list of tokens, or a list of those. It gives how many texts that are.
func (r *chatRequest) texts(field string) (int64, *core.Error) {
	const must = "must be a string, a list of strings, a list of tokens or a list of those"
	if raw, ok := r.text(); ok {
		r.job.PromptBytes += textLen(raw)
		if len(raw) == 0 && r.job.Operation == core.OpEmbeddings {
			return 0, core.Field(field, "must not be empty")
		}
		return 1, nil
	}
	if !r.array() {
		return 0, r.wrong(field, must)
	}
	var texts, tokens int64
	for r.element() {
		if raw, ok := r.text(); ok {
			r.job.PromptBytes += textLen(raw)
			texts++
			continue
		}
		if _, ok := r.number(); ok {
			tokens++
			continue
		}
		if !r.array() {
			return 0, r.wrong(field, must)
		}
		for texts++; r.element(); r.job.PromptBytes += tokenBytes {
			if _, ok := r.number(); !ok {
				return 0, r.wrong(field, must)
			}
		}
	}
	if tokens > 0 && texts > 0 || tokens+texts == 0 {
		return 0, r.wrong(field, must)
	}
	r.job.PromptBytes += int(tokens) * tokenBytes
	return max(texts, 1), nil
}

// tokenBytes is what one token that is given as a number counts in PromptBytes.
const tokenBytes = 4

func (r *chatRequest) stop() *core.Error {
	if r.null() {
		return nil
	}
	if _, ok := r.text(); ok {
		return nil
	}
	if !r.array() {
		return r.wrong("stop", "must be a string or a list of strings")
	}
	for r.element() {
		if _, ok := r.text(); !ok {
			return r.wrong("stop", "must be a string or a list of strings")
		}
	}
	return nil
}

// tools consumes a list of objects that the model is told of.
func (r *request) tools(field string) *core.Error {
	if r.null() {
		return nil
	}
	if r.peek() != '[' {
		return r.wrong(field, "must be a list")
	}
	from := r.i
	r.array()
	for i := 0; r.element(); i++ {
		if r.peek() != '{' {
			return r.wrong(fmt.Sprintf("%s[%d]", field, i), "must be an object")
		}
		r.skip()
		r.job.Features |= core.FeatureTools
	}
	r.job.PromptBytes += r.i - from
	return nil
}

// format consumes what form the answer is to have: chat's response_format and
// the Responses API's text.format.
func (r *request) format(field string) *core.Error {
	if r.null() {
		return nil
	}
	if !r.object() {
		return r.wrong(field, "must be an object")
	}
	from, kind := r.i, ""
	for {
		key, ok := r.key()
		if !ok {
			break
		}
		if string(key) != "type" {
			r.skip()
			continue
		}
		raw, err := r.str(field + ".type")
		if err != nil {
			return err
		}
		kind = string(raw)
	}
	switch kind {
	case "":
		return r.wrong(field+".type", "required")
	case "text":
	default:
		r.job.Features |= core.FeatureSchema
		r.job.PromptBytes += r.i - from
	}
	return nil
}

func (r *chatRequest) modalities() *core.Error {
	if r.null() {
		return nil
	}
	if !r.array() {
		return r.wrong("modalities", "must be a list of strings")
	}
	for r.element() {
		raw, err := r.str("modalities")
		if err != nil {
			return err
		}
		r.job.Features |= partFeature(string(raw))
	}
	return nil
}

// Build makes the request for a provider of format openai or llamacpp. Errors
// are Internal: the provider's address, key or headers cannot be used.
func (Chat) Build(ctx context.Context, job *core.Job, head core.RequestHead, offer *core.Offer) (*http.Request, error) {
	path := "/chat/completions"
	switch job.Operation {
	case core.OpCompletions:
		path = "/completions"
	case core.OpEmbeddings:
		path = "/embeddings"
	}
	if offer.Provider.Format == core.FormatLlamaCpp {
		path = "/v1" + path // its base_url has no path, and its own /completions is another API
	}
	edits := append(modelEdit(job, offer), usageEdit(job, offer)...)
	slices.SortFunc(edits, func(a, b edit) int { return a.From - b.From })
	return outgoing(ctx, head, offer, path, "Authorization", "Bearer ", splice(job.Body, edits))
}

// unasked are the dialects that report usage on streams without being asked
// (and of which some refuse the field).
var unasked = []string{"mistral", "deepseek", "perplexity"}

// usageEdit is the change that makes a stream end with its usage, which the
// receipt needs; a client that did not ask does not see it.
func usageEdit(job *core.Job, offer *core.Offer) []edit {
	if !job.Streamed || job.AskedUsage || offer.IncludeUsage == core.UsageNever || slices.Contains(unasked, offer.Provider.Dialect) {
		return nil
	}
	const field, object = `"include_usage":true`, `{"include_usage":true}`
	switch at := job.Edits; {
	case at.IncludeUsage.Present():
		return []edit{{at.IncludeUsage, "true"}}
	case !at.StreamOptions.Present():
		return []edit{{core.Span{From: at.Open, To: at.Open}, `"stream_options":` + object + ","}}
	case at.StreamOptions.To-at.StreamOptions.From == len("null") && job.Body[at.StreamOptions.From] == 'n':
		return []edit{{at.StreamOptions, object}}
	default:
		brace := at.StreamOptions.From + 1
		if rest := walk(job.Body[brace:]); rest.peek() == '}' {
			return []edit{{core.Span{From: brace, To: brace}, field}}
		}
		return []edit{{core.Span{From: brace, To: brace}, field + ","}}
	}
}

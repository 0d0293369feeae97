package adapters

import (
	"headway/core"
)

// chatFields are the top-level fields that Parse looks at; no other may differ
// from one of them in letter case alone, and none may come twice.
var chatFields = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n", "tools", "functions", "response_format",
	"modalities", "temperature", "top_p", "presence_penalty", "frequency_penalty", "stop", "prompt", "best_of", "input",
	"models", "plugins", "web_search_options",
}

// chatRequest is what Parse gathers of a body.
type chatRequest struct {
	request
	options      bool // stream_options holds an object
	tokens       core.Opt[int64]
	completion   core.Opt[int64]
	n, bestOf    core.Opt[int64]
	prompts      int64
	messageCount int
}

func (r *chatRequest) read() *core.Error {
	if err := r.members(chatFields, r.field); err != nil {
		return err
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
	case "models":
		err = r.oneModel(name)
	case "plugins", "web_search_options":
		r.kept()
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
	for key := range r.rest {
		if string(key) != "include_usage" {
			if misspelt(key, []string{"include_usage"}) != "" {
				return core.Field("stream_options.include_usage", "must be spelt so, not %q", key)
			}
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

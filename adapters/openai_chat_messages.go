package adapters

import (
	"bytes"
	"fmt"

	"headway/core"
)

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
	for key := range r.rest {
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
			from := r.i
			r.calls()
			r.job.PromptBytes += r.i - from
			other = true
		case "name", "refusal", "reasoning", "reasoning_content":
			other = other || r.peek() == '"' && string(key) != "name"
			r.prose()
		case "function_call":
			r.peek()
			from := r.i
			r.call()
			r.job.PromptBytes += r.i - from
			other = true
		case "images": // that a model made, as OpenRouter has them
			if r.peek() == '[' {
				r.images()
				other = true
			}
		case "audio": // of an earlier answer, by its id
			other = other || r.peek() == '{'
			r.kept()
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

// images consumes the pictures that a model made.
func (r *chatRequest) images() {
	for r.array(); r.element(); {
		r.skip()
		r.job.PromptBytes += mediaBytes
		r.job.Features |= core.FeatureImages
	}
}

// calls consumes the calls of tools in a message.
func (r *chatRequest) calls() {
	for r.array(); r.element(); {
		if r.peek() != '{' {
			r.skip()
			continue
		}
		for key := range r.each {
			switch string(key) {
			case "function", "custom":
				r.call()
			}
		}
	}
}

// call consumes what was called with what.
func (r *chatRequest) call() {
	if r.peek() != '{' {
		r.skip()
		return
	}
	for key := range r.each {
		switch string(key) {
		case "name", "arguments", "input":
			if raw, ok := r.text(); ok {
				r.noteText(raw)
				continue
			}
		}
	}
}

// content consumes a message's text or list of parts.
func (r *chatRequest) content(i int) *core.Error {
	if raw, ok := r.text(); ok {
		r.said(raw)
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
	var text, file, ok bool
	for key := range r.rest {
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
			r.said(raw)
		case "refusal":
			r.prose()
		case "image_url", "input_audio", "file", "video_url", "image", "file_id", "file_data", "file_url":
			if !r.null() {
				r.fileID = r.fileID || string(key) == "file_id"
				file = true
				r.skip()
				r.job.PromptBytes += mediaBytes
			}
		}
	}
	r.job.Beyond = r.job.Beyond || file && partFeature(string(kind)) != core.FeatureImages
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
		r.said(raw)
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
			r.said(raw)
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
		r.tool()
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
	for key := range r.rest {
		if string(key) != "type" {
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
		r.note(from, r.i)
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
